/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of regions: new ones where nothing is near, boxes of a frame in use,
 * and what does not fit into a record. The shortest ways are in access.h, the
 * long ones in region_index.c.
 */
#include "graph/access.h"

#include <string.h>

static struct region *insert_box(struct graph *g, const struct pto_tensor *tensor, struct region *e,
                                 const uint32_t offset[], uint32_t rest);

int region_wait(struct graph *g, struct slot *t, struct region *e, uint32_t access)
{
    return wait_here(g, t, e, access);
}

/*
 * Whether a bucket has nothing that touches the interval. What is dead goes:
 * left in place, it would be found again and believed to overlap nothing. A
 * chain is not searched.
 */
static inline bool is_clear(struct graph *g, struct region *e, uint64_t start, uint64_t end)
{
    if (e->next != 0)
        return false;
    if ((e->flags & REGION_USED) == 0)
        return true;
    if (e->kind != REGION_CONTIGUOUS)
        return false;
    if (e->start >= end || e->start + e->length <= start)
        return true;
    if (e->last >= g->dead_before)
        return false;
    region_remove(g, e);
    return true;
}

/*
 * A record for a new region, if all records are of its size class and the
 * buckets around it show that nothing overlaps. NULL: the long way must look.
 */
struct region *region_insert_dense(struct graph *g, const struct span *span, struct region *e)
{
    struct regions *x = &g->regions;
    uint64_t start = span->start;
    uint64_t end = start + span->length;
    uint32_t level = span->level;
    uint64_t cell = start >> level;
    bool is_crossing = cell != (end - 1) >> level;

    if ((x->level_mask & ~(1ull << level)) != 0 || e->next != 0 ||
        ((e->flags & REGION_USED) != 0 &&
         (e->kind != REGION_CONTIGUOUS || e->last >= g->dead_before)))
        return NULL;
    if (is_crossing && !is_clear(g, &x->table[region_bucket(x, 0, level, cell + 1)], start, end))
        return NULL;
    if (x->level_crossing[level] != 0 &&
        !is_clear(g, &x->table[region_bucket(x, 0, level, cell - 1)], start, end))
        return NULL;
    if ((e->flags & REGION_USED) != 0)
        region_remove(g, e);
    e->start = start;
    e->length = span->length;
    e->writer = (struct ref){ 0, 0 };
    e->vector = 0;
    e->reader_count = 0;
    e->level = level & 63;
    e->kind = REGION_CONTIGUOUS;
    e->flags = REGION_USED | (is_crossing ? REGION_CROSSING : 0);
    e->frame = 0;
    x->level_crossing[level] += is_crossing;
    x->level_count[level]++;
    x->level_mask |= 1ull << level;
    ++*region_coarse(x, 0, level, cell);
    return e;
}

/*
 * The untangled record of a box of a frame in use, made if it is plain that
 * nothing overlaps it; or NULL. With one frame the interval says all about a
 * box: the digits of its length are its shape.
 */
struct region *region_find_box(struct graph *g, const struct pto_tensor *tensor)
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

int region_append(struct graph *g, struct slot *t, struct region *e, uint32_t flags)
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
