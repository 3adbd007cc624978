/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accesses to regions: a task waits for conflicting accesses, and its own access is recorded. The
 * functions are inline, because every tensor argument of every task goes through them; unusual
 * cases are calls of other functions.
 */
#ifndef PTO_ACCESS_H
#define PTO_ACCESS_H

#include "overlap/overlap.h"

/*
 * The bytes of a contiguous region. All fields are 0 for a strided one; `length` is 0 for an empty
 * one.
 */
struct span {
    uint64_t start;
    uint64_t length;
    uint64_t cell; /* number of the grid cell in which `start` lies (region_cell_number) */
};

static inline struct span span_of(uint64_t start, uint64_t length)
{
    uint32_t level = region_level(length);

    return (struct span){ start, length, region_cell_number(0, level, start >> level) };
}

static inline struct region *span_head(const struct regions *x, const struct span *span)
{
    return region_cell_head(x, span->cell);
}

/* regions.c: does what region_access does, for a region that its first probe did not find. */
int region_reach(struct regions *x, struct slot *t, const struct pto_tensor *tensor,
                 const struct span *span, uint32_t access);
/*
 * Like region_reach, for a contiguous region; `head` is the first record of its bucket, and the
 * tensor's tag determines the access.
 */
int region_reach_dense(struct regions *x, struct slot *t, const struct pto_tensor *tensor,
                       struct region *head, uint64_t start, uint64_t length);
/*
 * Makes task t wait for the tasks in the record whose accesses conflict with its own, and adds t to
 * the record. The record is that of exactly this region; its tasks may be live.
 */
int region_apply(struct regions *x, struct slot *t, struct region *e, uint32_t access);

/*
 * Clears the readers and flags of a record. `writer` stays: its task has completed, or the caller
 * is about to replace it.
 */
static inline void region_forget(struct regions *x, struct region *e)
{
    e->state &= REGION_STATE_SHAPE;
    if (e->vector != 0)
        region_drop_vector(x, e);
}

/* Adds task t to a record whose other tasks have all completed. */
static inline void record_first(const struct slot *t, struct region *e, uint32_t access)
{
    port_check((e->flags & REGION_USED) != 0 && e->reader_count == 0 && e->vector == 0);
    e->last = t->seq;
    if ((access & (ACCESS_RECORD | ACCESS_WRITE)) == ACCESS_RECORD) {
        e->reader[0] = slot_ref(t);
        e->state |= 1; /* adds 1 to reader_count */
    } else if ((access & ACCESS_RECORD) != 0) {
        e->writer = slot_ref(t);
    }
}

/*
 * Like region_apply, but inline for the usual case: all tasks that accessed the region have
 * completed, so t waits for none.
 */
__attribute__((always_inline)) static inline int apply_access(struct regions *x, struct slot *t,
                                                              struct region *e, uint32_t access)
{
    if (e->last >= x->dead_before)
        return region_apply(x, t, e, access);
    region_forget(x, e);
    record_first(t, e, access);
    return PTO_OK;
}

/* Returns the first record of the bucket in which a contiguous region belongs. */
static inline struct region *region_head(struct regions *x, uint64_t start, uint64_t length)
{
    uint32_t level = region_level_now(x, length);

    return region_cell_head(x, region_cell_number(0, level, start >> level));
}

/* Whether the record is that of exactly this contiguous region, and overlaps no other record. */
static inline bool region_is(const struct region *e, uint64_t start, uint64_t length)
{
    return e->start == start && e->length == length &&
           (e->state & REGION_STATE_KNOWN) == REGION_USED << REGION_FLAGS_SHIFT;
}

/*
 * Makes t wait for conflicting accesses, and records its access. Nearly every argument is a region
 * that has a record and overlaps no other one: one probe of the hash table finds it. No record has
 * length 0.
 */
static inline int region_access(struct regions *x, struct slot *t, const struct pto_tensor *tensor,
                                const struct span *span, uint32_t access)
{
    struct region *e = span_head(x, span);

    if (!region_is(e, span->start, span->length))
        return region_reach(x, t, tensor, span, access);
    return apply_access(x, t, e, access);
}

/*
 * Like apply_access, but without code that drops a vector (further readers and writers): records
 * with a vector are left to region_apply.
 */
static inline int region_apply_known(struct regions *x, struct slot *t, struct region *e,
                                     uint32_t access)
{
    if (e->last >= x->dead_before || e->vector != 0)
        return region_apply(x, t, e, access);
    e->state &= REGION_STATE_SHAPE;
    record_first(t, e, access);
    return PTO_OK;
}

static inline uint32_t tile_row(const struct region_tile *tile, const struct pto_tensor *tensor)
{
    return (uint32_t)(((unsigned __int128)tile->inverse * tensor->start) >> 64);
}

static inline struct region *tile_head(const struct regions *x, const struct region_tile *tile,
                                       uint32_t row, uint32_t column)
{
    uint64_t cell = (uint64_t)(row >> tile->row_level) * tile->width;

    return region_cell_head(x, tile->salt + cell + (column >> tile->column_level));
}

/*
 * Finds the bucket of a tile whose descriptor equals those of the latest tiles except for its
 * start, and returns the bucket's first record. NULL: the tensor does not fit into one row of the
 * matrix, or spans several cells.
 */
static inline struct region *tile_place(const struct regions *x, const struct region_tile *tile,
                                        const struct pto_tensor *tensor)
{
    uint64_t start = tensor->start;
    uint32_t row, column;

    if (start > tile->start_max)
        return NULL;
    row = tile_row(tile, tensor);
    column = (uint32_t)start - row * tensor->strides[0];
    if ((row & tile->row_mask) > tile->row_slack ||
        (column & tile->column_mask) > tile->column_slack || column > tile->column_max)
        return NULL;
    return tile_head(x, tile, row, column);
}

/*
 * Finds the bucket of a tile by its frame's struct region_tile, without a search. Returns the first
 * record of the bucket if it is that of an untangled tile of the frame. *lo_out and *length_out are
 * the interval of the tensor; in one frame equal intervals mean equal boxes, so the caller compares
 * them with the record's. NULL: the tensor is no such tile, or needs a search.
 */
static inline struct region *region_find_tile(struct regions *x, const struct pto_tensor *tensor,
                                              uint64_t *lo_out, uint64_t *length_out)
{
    /* bits that must be equal: used, tangled, kind; in the upper half the frame */
    const uint32_t known = REGION_STATE_KNOWN | 0xffff0000;
    const struct region_tile *tile = x->tile_now;
    struct region *e;

    if (!tile_is_like(tile, tensor)) {
        tile = &x->frame[*region_frame_cache(x, tensor->addr, tensor->strides[0])].tile;
        if (!tile_is_like(tile, tensor))
            return NULL;
        x->tile_now = tile;
    }
    e = tile_place(x, tile, tensor);
    if (e == NULL)
        return NULL;
    *lo_out = tensor->addr + (tensor->start << tile->elem_log);
    *length_out = tile->length;
    return ((region_tag(e) ^ tile->state) & known) == 0 ? e : NULL;
}

/* Prefetches the bucket of a tensor that is probably a tile like the previous one. */
static inline void region_prefetch_tile(const struct regions *x, const struct pto_tensor *tensor)
{
    const struct region_tile *tile = x->tile_now;
    uint32_t row = tile_row(tile, tensor);

    if (tile->common[0] == tensor->addr)
        __builtin_prefetch(
            tile_head(x, tile, row, (uint32_t)tensor->start - row * tensor->strides[0]), 1, 3);
}

/*
 * region_index.c: records a tile whose bucket is empty, in a frame that has boxes. The boxes are
 * all of one size and each is in one cell, so none can overlap the tile. NULL: a search is needed.
 */
struct region *region_add_tile(struct regions *x, const struct pto_tensor *tensor);

/*
 * Reuses the record `e` for the tile that starts at address `lo`. False: a live task uses e's
 * region, e has a vector, or its bucket has a chain.
 */
static inline bool region_take_tile(struct regions *x, struct region *e, uint64_t lo)
{
    const struct region_frame *f = &x->frame[e->frame];

    port_check((e->flags & (REGION_USED | REGION_TANGLED)) == REGION_USED && f->flat != 0);
    if (e->next != 0 || e->last >= x->dead_before || e->vector != 0)
        return false;
    if (f->has_known)
        region_forget_known(x, &x->table_shape[e - x->table], e);
    e->start = lo;
    e->length = f->tile.length;
    e->state = (uint16_t)f->tile.state;
    return true;
}

#endif
