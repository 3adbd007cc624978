/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access to a region: what it waits for, how it is recorded. Inline, because
 * every tensor argument of every task comes through here; whatever is not the
 * ordinary case is a call.
 */
#ifndef PTO_ACCESS_H
#define PTO_ACCESS_H

#include "overlap/overlap.h"

/* The interval of a contiguous region; all 0 for one that is strided, no length if it is empty. */
struct span {
    uint64_t start;
    uint64_t length;
    uint64_t cell; /* its number */
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

/* regions.c: the same as region_access for a region for which the first look was not enough. */
int region_reach(struct regions *x, struct slot *t, const struct pto_tensor *tensor,
                 const struct span *span, uint32_t access);
/* The same for a contiguous region by its tag, whose bucket starts with `head`. */
int region_reach_dense(struct regions *x, struct slot *t, const struct pto_tensor *tensor,
                       struct region *head, uint64_t start, uint64_t length);
/* Waits and records at the record of the very region, which a live task may have touched. */
int region_apply(struct regions *x, struct slot *t, struct region *e, uint32_t access);

/* Forgets who touched the region, but for the writer, which has gone or is about to be replaced. */
static inline void region_forget(struct regions *x, struct region *e)
{
    e->state &= REGION_STATE_SHAPE;
    if (e->vector != 0)
        region_drop_vector(x, e);
}

/* Records the access of t, where nobody else is recorded. */
static inline void record_first(const struct slot *t, struct region *e, uint32_t access)
{
    port_check((e->flags & REGION_USED) != 0 && e->reader_count == 0 && e->vector == 0);
    e->last = t->seq;
    if ((access & (ACCESS_RECORD | ACCESS_WRITE)) == ACCESS_RECORD) {
        e->reader[0] = slot_ref(t);
        e->state |= 1; /* reader_count */
    } else if ((access & ACCESS_RECORD) != 0) {
        e->writer = slot_ref(t);
    }
}

/* The same; often all those that touched the region have gone, and there is nobody to wait for. */
__attribute__((always_inline)) static inline int apply_access(struct regions *x, struct slot *t,
                                                              struct region *e, uint32_t access)
{
    if (e->last >= x->dead_before)
        return region_apply(x, t, e, access);
    region_forget(x, e);
    record_first(t, e, access);
    return PTO_OK;
}

/* The first record of the bucket of a contiguous region. */
static inline struct region *region_head(struct regions *x, uint64_t start, uint64_t length)
{
    uint32_t level = region_level_now(x, length);

    return region_cell_head(x, region_cell_number(0, level, start >> level));
}

/* Whether the record is that of this very contiguous region, and overlaps no other. */
static inline bool region_is(const struct region *e, uint64_t start, uint64_t length)
{
    return e->start == start && e->length == length &&
           (e->state & REGION_STATE_KNOWN) == REGION_USED << REGION_FLAGS_SHIFT;
}

/*
 * Makes t wait for what conflicts with the access, and records it. Nearly every
 * argument is a region that is recorded already and overlaps nothing else: one
 * probe finds it. No record has length 0.
 */
static inline int region_access(struct regions *x, struct slot *t, const struct pto_tensor *tensor,
                                const struct span *span, uint32_t access)
{
    struct region *e = span_head(x, span);

    if (!region_is(e, span->start, span->length))
        return region_reach(x, t, tensor, span, access);
    return apply_access(x, t, e, access);
}

/* The same for a record that is known, without a call where there is nothing to drop. */
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

/* The head of the bucket of a tensor that is like the tile. NULL: it is no tile, or in several cells. */
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
 * The first record in the bucket of a tile of a matrix all of whose tiles have been
 * alike: it is one of them, untangled. *lo_out and *length_out are this one's: in a
 * frame the interval says all about a box. NULL: it is something else, or not that
 * simple.
 */
static inline struct region *region_find_tile(struct regions *x, const struct pto_tensor *tensor,
                                              uint64_t *lo_out, uint64_t *length_out)
{
    const uint32_t known = REGION_STATE_KNOWN | 0xffff0000; /* and the frame */
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

/* Asks for the line that will be looked at first if the tensor is a tile like the one before. */
static inline void region_ask_for_tile(const struct regions *x, const struct pto_tensor *tensor)
{
    const struct region_tile *tile = x->tile_now;
    uint32_t row = tile_row(tile, tensor);

    if (tile->common[0] == tensor->addr)
        __builtin_prefetch(
            tile_head(x, tile, row, (uint32_t)tensor->start - row * tensor->strides[0]), 1, 3);
}

/*
 * region_index.c: records a tile whose bucket is empty, in a frame that has boxes: these are all
 * alike and each in a cell, so nothing can overlap it. NULL: it is not that simple.
 */
struct region *region_add_tile(struct regions *x, const struct pto_tensor *tensor);

/* Makes the record that of the tile, if its own one has gone and is alone in its bucket. */
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
