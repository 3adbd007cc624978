/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of regions: new ones where nothing is near, boxes of a frame in use,
 * and what does not fit into a record. The shortest ways are in access.h, the
 * long ones in region_index.c.
 */
#include "graph/access.h"

#include <string.h>

static int wait_for_vector(struct graph *g, struct slot *t, struct region *e, bool is_write);
static int append(struct graph *g, struct slot *t, struct region *e, uint32_t flags);
static int append_reader(struct graph *g, struct slot *t, struct region *e, bool is_ordered);
static struct region *find_box(struct graph *g, const struct pto_tensor *tensor);
static struct region *insert_box(struct graph *g, const struct pto_tensor *tensor, struct region *e,
                                 const uint32_t offset[], uint32_t rest);

/*
 * Edges to what conflicts among the refs of one record. Under the reference's
 * rules readers are not recorded, so a write meets none.
 */
static inline int wait_here(struct graph *g, struct slot *t, struct region *e, uint32_t access)
{
    bool is_write = (access & ACCESS_WRITE) != 0;
    int status = 0;

    if (!is_write || (e->flags & REGION_SUPERSEDED) == 0)
        status |= graph_wait_for(g, t, e->writer);
    if (is_write)
        for (uint32_t i = 0; i < e->reader_count; i++)
            status |= graph_wait_for(g, t, e->reader[i]);
    if (e->vector != 0 && (is_write || (e->flags & REGION_HAS_WRITERS) != 0))
        status |= wait_for_vector(g, t, e, is_write);
    return status;
}

/* Records a reader that was ordered after every recorded writer, or after none. */
static inline int record_reader(struct graph *g, struct slot *t, struct region *e, bool is_ordered)
{
    if (e->vector == 0 && e->reader_count < REGION_READERS_INLINE) {
        e->reader[e->reader_count++] = slot_ref(t);
    } else {
        struct region_vector *v = region_vector(&g->regions, e->vector);

        if (e->vector == 0 || (e->flags & REGION_MORE_WRITERS) != 0 || v->count == v->capacity)
            return append_reader(g, t, e, is_ordered);
        v->ref[v->count++] = slot_ref(t);
    }
    if (is_ordered)
        e->flags |= REGION_SUPERSEDED; /* a later writer need only wait for this reader */
    return PTO_OK;
}

int region_wait(struct graph *g, struct slot *t, struct region *e, uint32_t access)
{
    return wait_here(g, t, e, access);
}

__attribute__((noinline)) static int apply_slowly(struct graph *g, struct slot *t, struct region *e,
                                                  uint32_t access)
{
    e->last = t->seq;
    if ((access & ACCESS_LOOKUP) != 0 && wait_here(g, t, e, access) < 0)
        return PTO_ENOMEM;
    if ((access & ACCESS_REPLACE) != 0) {
        e->writer = slot_ref(t);
        region_forget(&g->regions, e);
        return PTO_OK;
    }
    if ((access & ACCESS_RECORD) == 0)
        return PTO_OK;
    if ((access & ACCESS_WRITE) == 0)
        return record_reader(g, t, e, (access & ACCESS_LOOKUP) != 0);
    if (graph_is_alive(g, e->writer) || e->reader_count != 0 || e->vector != 0)
        return append(g, t, e, REGION_REF_WRITE);
    e->writer = slot_ref(t);
    e->flags &= ~(uint32_t)REGION_SUPERSEDED;
    return PTO_OK;
}

/*
 * Without a call what is usual: a reader for which there is room, and a writer
 * after a writer. The order of recording and linking does not matter: if one of
 * them fails, so does the run.
 */
int region_apply(struct graph *g, struct slot *t, struct region *e, uint32_t access)
{
    struct ref writer = e->writer;
    struct ref own = slot_ref(t);

    if (access == (ACCESS_LOOKUP | ACCESS_RECORD)) {
        struct region_vector *v = region_vector(&g->regions, e->vector);

        if ((e->flags & REGION_HAS_WRITERS) != 0)
            return apply_slowly(g, t, e, access);
        if (e->vector == 0 && e->reader_count < REGION_READERS_INLINE)
            e->reader[e->reader_count++] = own;
        else if (e->vector != 0 && v->count < v->capacity)
            v->ref[v->count++] = own;
        else
            return apply_slowly(g, t, e, access);
        e->flags |= REGION_SUPERSEDED; /* a later writer need only wait for this reader */
    } else if ((access & ACCESS_REPLACE) != 0 && e->vector == 0 && e->reader_count == 0 &&
               (e->flags & REGION_SUPERSEDED) == 0) {
        e->writer = own;
    } else {
        return apply_slowly(g, t, e, access);
    }
    e->last = own.seq;
    return graph_is_alive(g, writer) ? graph_link(g, t, writer) : PTO_OK;
}

/* Whether nobody who touched a dense region is left. */
static inline bool is_gone(struct graph *g, const struct region *e)
{
    return e->last < g->dead_before || !region_is_alive(g, e);
}

/*
 * Whether nothing alive in a bucket touches the interval. What is dead and
 * touches it goes: left in place, it would be found again and believed to
 * overlap nothing.
 */
static inline bool is_clear(struct graph *g, struct region *e, uint64_t start, uint64_t end)
{
    for (;; e = &g->regions.overflow[e->next]) {
        if (e->start < end && start < e->start + e->length && (e->flags & REGION_USED) != 0) {
            if (e->kind != REGION_CONTIGUOUS || !is_gone(g, e))
                return false;
            region_remove(g, e);
        }
        if (e->next == 0)
            return true;
    }
}

/* The record in the chain of a bucket that is this very region. */
static struct region *find_chained(const struct regions *x, const struct span *span,
                                   const struct region *head)
{
    for (uint32_t index = head->next; index != 0; index = x->overflow[index].next) {
        struct region *e = &x->overflow[index];

        if (e->start == span->start && e->length == span->length && e->kind == REGION_CONTIGUOUS &&
            (e->flags & REGION_USED) != 0)
            return e;
    }
    return NULL;
}

/* Where a new record of a bucket goes: in place of a dense one that has gone, or behind the others. */
static inline struct region *find_place(struct graph *g, struct region *head)
{
    struct regions *x = &g->regions;

    for (struct region *e = head;; e = &x->overflow[e->next]) {
        if ((e->flags & REGION_USED) == 0 || (e->kind == REGION_CONTIGUOUS && is_gone(g, e)))
            return e;
        if (e->next == 0)
            break;
    }
    if (x->overflow_live * 8 > x->table_count)
        return NULL; /* the table has to grow first */
    return region_place(g, (uint32_t)(head - x->table));
}

/* Makes a record of one that is free or has gone, and is of the same level if it is used. */
static inline void take_over(struct regions *x, struct region *e, uint64_t start, uint64_t length,
                             uint32_t level, bool is_crossing)
{
    uint32_t was_crossing = 0;

    if ((e->flags & REGION_USED) != 0) {
        was_crossing = (e->flags & REGION_CROSSING) != 0;
        if (x->is_coarse_kept)
            --*region_coarse(x, 0, level, e->start >> level);
        if (e->vector != 0)
            region_drop_vector(x, e);
    } else {
        x->level_count[level]++;
        x->level_mask |= 1ull << level;
    }
    if (was_crossing != is_crossing)
        x->level_crossing[level] += is_crossing - was_crossing;
    if (x->is_coarse_kept)
        ++*region_coarse(x, 0, level, start >> level);
    if (x->top < start + length)
        x->top = start + length;
    e->start = start;
    e->length = length;
    e->writer = (struct ref){ 0, 0 };
    e->vector = 0;
    e->last = 0;
    e->state =
        (uint16_t)((REGION_USED | (is_crossing ? REGION_CROSSING : 0)) << REGION_FLAGS_SHIFT |
                   level << REGION_LEVEL_SHIFT);
    e->frame = 0;
}

/*
 * The record of a dense region, found in its bucket; or a new one, if all records
 * are of its size class and the buckets around it show that nothing overlaps.
 * NULL: the long way must look.
 */
__attribute__((noinline)) static struct region *insert_dense(struct graph *g,
                                                             const struct span *span,
                                                             struct region *head)
{
    struct regions *x = &g->regions;
    uint64_t start = span->start;
    uint64_t end = start + span->length;
    uint32_t level = region_level(span->length);
    uint64_t cell = start >> level;
    bool is_crossing = cell != (end - 1) >> level;
    struct region *e = head->next != 0 ? find_chained(x, span, head) : NULL;

    if (e != NULL)
        return (e->flags & REGION_TANGLED) == 0 ? e : NULL;
    if ((x->level_mask & ~(1ull << level)) != 0 || !is_clear(g, head, start, end))
        return NULL;
    if (is_crossing && !is_clear(g, &x->table[region_bucket(x, 0, level, cell + 1)], start, end))
        return NULL;
    if (x->level_crossing[level] != 0 &&
        !is_clear(g, &x->table[region_bucket(x, 0, level, cell - 1)], start, end))
        return NULL;
    e = find_place(g, head);
    if (e == NULL)
        return NULL;
    take_over(x, e, start, span->length, level, is_crossing);
    return e;
}

/* Whether a bucket has one record, or none, and that does not touch the interval. */
static inline bool is_apart(const struct region *e, uint64_t start, uint64_t end)
{
    return e->next == 0 && (e->start >= end || e->start + e->length <= start);
}

/* By all records that may overlap. */
__attribute__((noinline)) static int reach_slowly(struct graph *g, struct slot *t,
                                                  const struct pto_tensor *tensor, uint32_t access)
{
    int status = PTO_OK;
    struct region *e = region_resolve(g, t, tensor, &access, &status);

    return e != NULL ? apply_access(g, t, e, access) : status;
}

/* By the records of its bucket and of those beside it, if that is enough. */
__attribute__((noinline)) static int reach_around(struct graph *g, struct slot *t,
                                                  const struct pto_tensor *tensor,
                                                  struct region *head, uint64_t start,
                                                  uint64_t length)
{
    uint32_t access = g->access[tensor->tag];
    struct span span = span_of(start, length);
    struct region *e = insert_dense(g, &span, head);

    return e != NULL ? apply_access(g, t, e, access) : reach_slowly(g, t, tensor, access);
}

/*
 * Without a loop or a call what is usual for a region that is new: the head of the
 * bucket has gone, others are apart.
 */
int region_reach_dense(struct graph *g, struct slot *t, const struct pto_tensor *tensor,
                       struct region *e, uint64_t start, uint64_t length)
{
    struct regions *x = &g->regions;
    uint32_t level = region_level(length);
    uint64_t end = start + length;
    uint64_t cell = start >> level;
    bool is_crossing = cell != (end - 1) >> level;

    if (x->level_mask != 1ull << level || e->next != 0 || e->last >= g->dead_before ||
        (e->state & REGION_STATE_KIND) != 0 || e->vector != 0 || x->is_coarse_kept)
        return reach_around(g, t, tensor, e, start, length);
    if (start < x->top) { /* buffers often come in the order of their addresses: then it is not */
        if (is_crossing && !is_apart(&x->table[region_bucket(x, 0, level, cell + 1)], start, end))
            return reach_around(g, t, tensor, e, start, length);
        if (x->level_crossing[level] != 0 &&
            !is_apart(&x->table[region_bucket(x, 0, level, cell - 1)], start, end))
            return reach_around(g, t, tensor, e, start, length);
    }
    take_over(x, e, start, length, level, is_crossing);
    record_first(t, e, g->access[tensor->tag]);
    return PTO_OK;
}

/* Many regions are new and have nothing near them; boxes have frames. The rest goes the long way. */
int region_reach(struct graph *g, struct slot *t, const struct pto_tensor *tensor,
                 const struct span *span, uint32_t access)
{
    struct region *e = NULL;

    if (span->length != 0) {
        e = insert_dense(g, span, span_head(&g->regions, span));
    } else if (g->deps == PTO_DEPS_SAFE) {
        e = find_box(g, tensor);
    }
    return e != NULL ? apply_access(g, t, e, access) : reach_slowly(g, t, tensor, access);
}

/*
 * The untangled record of a box of a frame in use, made if it is plain that
 * nothing overlaps it; or NULL. With one frame the interval says all about a
 * box: the digits of its length are its shape.
 */
static struct region *find_box(struct graph *g, const struct pto_tensor *tensor)
{
    struct regions *x = &g->regions;
    uint32_t frame = *region_frame_cache(x, tensor->addr, tensor->strides[0]);
    const struct region_frame *f = &x->frame[frame];
    uint32_t elem_bytes = pto_dtype_size(tensor->dtype);
    uint32_t class = x->frame_class;
    const uint8_t *level = f->class_of[class].level;
    uint64_t rest = tensor->start;
    uint32_t cell[PTO_MAX_DIMS], offset[PTO_MAX_DIMS];
    struct region *e;

    if (frame == 0 || f->geom.base != tensor->addr || f->geom.size != tensor->size ||
        f->geom.elem_bytes != elem_bytes || f->geom.ndims != tensor->ndims || rest >> 32 != 0 ||
        f->class_of[class].count == 0)
        return NULL;
    for (uint32_t d = 0; d < tensor->ndims; d++) {
        uint32_t stride = tensor->strides[d];
        uint32_t shape = tensor->shapes[d];

        if (stride != f->geom.stride[d])
            return NULL; /* of another frame */
        offset[d] = stride != 1 ? (uint32_t)rest / stride : (uint32_t)rest;
        rest -= (uint64_t)offset[d] * stride;
        if ((uint64_t)offset[d] + shape > f->geom.shape[d])
            return NULL; /* not a box */
        if (shape == 0 || level[d] != (shape > 1 ? 32 - __builtin_clz(shape - 1) : 0))
            return NULL; /* of another class */
        cell[d] = offset[d] >> level[d];
    }
    e = &x->table[region_box_bucket(x, frame, class, cell, tensor->ndims)];
    if (e->start == tensor->addr + tensor->start * elem_bytes &&
        e->length == tensor->extent * elem_bytes && e->kind == REGION_BOX && e->frame == frame &&
        (e->flags & (REGION_USED | REGION_TANGLED)) == REGION_USED)
        return e;
    return insert_box(g, tensor, e, offset, (uint32_t)rest);
}

/*
 * A record for a new box, if all that is recorded are boxes of its frame and
 * class, each in a cell of its own, and its cell is free. The frame is that of
 * the latest box; x->frame_class is the class.
 */
static struct region *insert_box(struct graph *g, const struct pto_tensor *tensor, struct region *e,
                                 const uint32_t offset[], uint32_t rest)
{
    struct regions *x = &g->regions;
    uint32_t frame = *region_frame_cache(x, tensor->addr, tensor->strides[0]);
    const struct region_frame *f = &x->frame[frame];
    const struct region_class *class = &f->class_of[x->frame_class];
    uint32_t first_level = (uint32_t)__builtin_ctzll(x->level_mask | 1ull << 63);
    struct geom geom;

    if ((x->level_mask & (x->level_mask - 1)) != 0 || x->level_count[first_level] != 1 ||
        class->count != f->population || class->is_crossing || e->next != 0 ||
        ((e->flags & REGION_USED) != 0 && (e->kind != REGION_BOX || e->last >= g->dead_before)) ||
        pto_tensor_numel(tensor) == tensor->extent)
        return NULL;
    memset(&geom, 0, sizeof(geom));
    geom.lo = tensor->addr + tensor->start * f->geom.elem_bytes;
    geom.hi = geom.lo + tensor->extent * f->geom.elem_bytes;
    geom.base = tensor->addr;
    geom.size = tensor->size;
    geom.kind = REGION_BOX;
    geom.elem_bytes = f->geom.elem_bytes;
    geom.ndims = f->geom.ndims;
    geom.rest = rest;
    for (uint32_t d = 0; d < tensor->ndims; d++) {
        geom.stride[d] = tensor->strides[d];
        geom.shape[d] = tensor->shapes[d];
        geom.offset[d] = offset[d];
        if (offset[d] >> class->level[d] != (offset[d] + geom.shape[d] - 1) >> class->level[d])
            return NULL; /* reaches into the next cell */
    }
    x->frame_pinned = frame;
    if ((e->flags & REGION_USED) != 0)
        region_remove(g, e);
    region_fill(g, e, &geom, frame, x->frame_class);
    return e;
}

/* ---- vectors: readers and writers beyond the inline ones ---- */

static uint32_t vector_order(uint32_t capacity)
{
    return (uint32_t)__builtin_ctz((capacity + 1) * sizeof(struct ref) / REGION_VECTOR_UNIT);
}

static uint32_t take_vector(struct regions *x, uint32_t order)
{
    uint32_t vector = x->vector_free[order];
    uint64_t bytes = (uint64_t)REGION_VECTOR_UNIT << order;
    char *memory;

    if (vector != 0) {
        x->vector_free[order] = region_vector(x, vector)->count;
    } else {
        memory = pool_take(&x->vector_pool, bytes);
        if (memory == NULL)
            return 0;
        vector = (uint32_t)((uint64_t)(memory - x->vector_pool.base) / REGION_VECTOR_UNIT);
    }
    region_vector(x, vector)->count = 0;
    region_vector(x, vector)->capacity = (uint32_t)(bytes / sizeof(struct ref)) - 1;
    return vector;
}

static void put_vector(struct regions *x, uint32_t vector)
{
    uint32_t order = vector_order(region_vector(x, vector)->capacity);

    region_vector(x, vector)->count = x->vector_free[order];
    x->vector_free[order] = vector;
}

void region_drop_vector(struct regions *x, struct region *e)
{
    put_vector(x, e->vector);
    e->vector = 0;
}

/* Adds t to the vector of the record. */
static int append(struct graph *g, struct slot *t, struct region *e, uint32_t flags)
{
    struct regions *x = &g->regions;
    struct region_vector *v;

    if (e->vector == 0 && (e->vector = take_vector(x, 1)) == 0)
        return PTO_ENOMEM;
    v = region_vector(x, e->vector);
    if (v->count == v->capacity) { /* forget finished ones; grow if that does not help much */
        uint32_t kept = 0;

        for (uint32_t i = 0; i < v->count; i++) {
            struct ref r = { v->ref[i].slot & REGION_REF_SLOT, v->ref[i].seq };

            if (graph_is_alive(g, r))
                v->ref[kept++] = v->ref[i];
        }
        v->count = kept;
        if (kept > v->capacity / 2) {
            uint32_t larger = take_vector(x, vector_order(v->capacity) + 1);

            if (larger == 0)
                return PTO_ENOMEM;
            memcpy(region_vector(x, larger)->ref, v->ref, kept * sizeof(struct ref));
            region_vector(x, larger)->count = kept;
            put_vector(x, e->vector);
            e->vector = larger;
            v = region_vector(x, larger);
        }
    }
    if ((flags & REGION_REF_WRITE) != 0)
        e->flags |= REGION_HAS_WRITERS | REGION_MORE_WRITERS;
    v->ref[v->count].slot = t->number | flags;
    v->ref[v->count++].seq = t->seq;
    return PTO_OK;
}

/* The same for what is in the vector of a record. */
static int wait_for_vector(struct graph *g, struct slot *t, struct region *e, bool is_write)
{
    const struct region_vector *v = region_vector(&g->regions, e->vector);
    int status = 0;

    for (uint32_t i = 0; i < v->count; i++) {
        uint32_t flags = v->ref[i].slot & ~(uint32_t)REGION_REF_SLOT;
        struct ref r = { v->ref[i].slot & REGION_REF_SLOT, v->ref[i].seq };

        if (is_write ? (flags & REGION_REF_SUPERSEDED) == 0 : (flags & REGION_REF_WRITE) != 0)
            status |= graph_wait_for(g, t, r);
    }
    return status;
}

/* A reader for which the record has no room, or which supersedes writers in the vector. */
static int append_reader(struct graph *g, struct slot *t, struct region *e, bool is_ordered)
{
    uint32_t kept = 0;

    if (is_ordered)
        e->flags |= REGION_SUPERSEDED;
    if (is_ordered && (e->flags & REGION_MORE_WRITERS) != 0) {
        struct region_vector *v = region_vector(&g->regions, e->vector);

        for (uint32_t i = 0; i < v->count; i++)
            if ((v->ref[i].slot & REGION_REF_WRITE) != 0)
                v->ref[i].slot |= REGION_REF_SUPERSEDED;
        e->flags &= ~(uint32_t)REGION_MORE_WRITERS;
    }
    if (e->vector != 0)
        return append(g, t, e, 0);
    for (uint32_t i = 0; i < REGION_READERS_INLINE; i++) /* forget finished ones */
        if (graph_is_alive(g, e->reader[i]))
            e->reader[kept++] = e->reader[i];
    e->reader_count = kept & 3;
    if (kept == REGION_READERS_INLINE)
        return append(g, t, e, 0);
    e->reader[e->reader_count++] = slot_ref(t);
    return PTO_OK;
}
