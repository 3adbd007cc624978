/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: each describes one matrix, with a grid of cells for each class of box shapes. */
#include <string.h>

#include "overlap/access.h"
#include "overlap/region_probe.h"

/*
 * Returns the class of the box's shape, and creates the class if there is room. Class 0 takes boxes
 * of all shapes for which there was no room.
 */
static uint32_t class_of(struct region_frame *f, const struct geom *geom)
{
    uint8_t level[PTO_MAX_DIMS] = { 0 };
    uint32_t unused = 0;

    for (uint32_t d = 0; d < geom->ndims; d++)
        level[d] = (uint8_t)region_box_level(geom->shape[d]);
    for (uint32_t c = 1; c < REGION_CLASSES; c++) {
        if (f->class_of[c].count != 0 && memcmp(f->class_of[c].level, level, sizeof(level)) == 0)
            return c;
        if (f->class_of[c].count == 0 && unused == 0)
            unused = c;
    }
    if (unused != 0) {
        memcpy(f->class_of[unused].level, level, sizeof(level));
        for (uint32_t d = 0; d < geom->ndims; d++)
            f->class_of[unused].width[d] = (f->geom.shape[d] >> level[d]) + 1;
        f->class_of[unused].is_crossing = 0;
        /* `simple` may still name this class, because of boxes whose records were removed */
        region_roughen(f);
    }
    return unused;
}

uint32_t region_bucket_of_box(const struct regions *x, const struct geom *geom, uint32_t frame,
                              uint32_t class)
{
    const struct region_frame *f = &x->frame[frame];
    uint32_t cell[PTO_MAX_DIMS];

    for (uint32_t d = 0; d < geom->ndims; d++)
        cell[d] = geom->offset[d] >> f->class_of[class].level[d];
    return region_box_bucket(x, &f->class_of[class], cell, geom->ndims, geom->rest);
}

struct region *region_find_box(struct probe *p, uint32_t *bucket_out, uint32_t *class_out)
{
    struct region_frame *f = &p->x->frame[p->own_frame];
    struct region *e;

    *class_out = class_of(f, p->geom);
    *bucket_out = region_bucket_of_box(p->x, p->geom, p->own_frame, *class_out);
    region_prefetch(p->x, *bucket_out);
    e = region_find_exact(p, *bucket_out);
    if (e == NULL && *class_out != 0 && f->class_of[0].count != 0)
        e = region_find_exact(p, region_bucket_of_box(p->x, p->geom, p->own_frame, 0));
    return e;
}

uint32_t region_bucket_of_frame(const struct regions *x, const struct geom *geom)
{
    uint64_t key = geom->base + geom->ndims;

    for (uint32_t d = 0; d < geom->ndims; d++)
        key = (key ^ geom->stride[d]) * 0xff51afd7ed558ccdull;
    return region_cell_bucket(x, key >> 32);
}

uint32_t region_find_frame(struct probe *p, const struct geom *geom, bool may_create)
{
    struct regions *x = p->x;
    uint32_t *cached = region_frame_cache(x, geom->base, geom->stride[0]);
    struct geom span = *geom;
    struct region_frame *f;
    struct probe q;
    struct region *e;
    uint32_t bucket, index;

    probe_init(&q, p->x, p->t, &span, 0);
    q.salt = p->salt;
    span.kind = REGION_FRAME;
    span.lo = p->x->deps == PTO_DEPS_SAFE ? geom->base : 0;
    span.hi = span.lo + geom->size;
    span.rest = 0;
    memset(span.shape, 0, sizeof(span.shape));
    memset(span.offset, 0, sizeof(span.offset));
    bucket = region_bucket_of_frame(x, &span);
    region_prefetch(x, bucket);
    e = region_find_exact(&q, bucket);
    if (e != NULL)
        return *cached = e->frame;
    if (!may_create || (x->frame_free == 0 && x->frame_count == REGION_FRAMES_MAX))
        return 0; /* a box without a frame is recorded as an interval */
    index = x->frame_free;
    if (index != 0) {
        x->frame_free = x->frame[index].next_free;
    } else {
        if (pool_take(&x->frame_pool, sizeof(struct region_frame)) == NULL) {
            p->status = PTO_ENOMEM;
            return 0;
        }
        index = x->frame_count++;
    }
    e = region_insert(&q, bucket, REGION_LEVEL_FRAME);
    if (e == NULL) {
        p->status = PTO_ENOMEM;
        return 0;
    }
    e->frame = (uint16_t)index;
    f = &x->frame[index];
    memset(f, 0, sizeof(*f));
    f->record = index_of(x, e);
    region_roughen(f);
    f->geom = *geom;
    f->is_used = true;
    for (uint32_t d = 1; d < geom->ndims; d++)
        f->geom.shape[d] = geom->stride[d - 1] / geom->stride[d];
    f->geom.shape[0] = UINT32_MAX;
    memcpy(f->class_of[0].width, f->geom.shape, sizeof(f->geom.shape));
    for (uint32_t c = 0; c < REGION_CLASSES; c++)
        f->class_of[c].salt = (uint64_t)(REGION_CLASSES * index + c) * 0x9e3779b97f4a7c15ull;
    return *cached = index;
}

/*
 * Derives the struct region_tile of a flat frame from one of its boxes, so that similar boxes are
 * found without an analysis of their geometry.
 */
void region_note_tile(struct regions *x, const struct region *e, const struct pto_tensor *tensor)
{
    struct region_frame *f = &x->frame[e->frame];
    uint32_t class = e->level & REGION_CLASS;
    const struct region_class *c = &f->class_of[class];
    uint64_t start_max = f->geom.size / f->geom.elem_bytes - tensor->extent;
    uint64_t row_cell = 1ull << c->level[0];
    uint64_t column_cell = 1ull << c->level[1];

    if (tile_is_like(&f->tile, tensor))
        return;
    if (class != f->flat || tensor->strides[0] != f->geom.stride[0] ||
        tensor->strides[1] != f->geom.stride[1] || start_max > UINT32_MAX)
        return;
    f->tile = (struct region_tile){
        .common = { tensor->addr, tensor->size, tensor_word(tensor, TENSOR_FORM),
                    tensor_word(tensor, TENSOR_SHAPE), tensor->extent,
                    tensor_word(tensor, TENSOR_STRIDE) },
        /* fits 64 bits: the stride is greater than 1 */
        .inverse = UINT64_MAX / tensor->strides[0] + 1,
        .start_max = start_max,
        .length = tensor->extent * f->geom.elem_bytes,
        .salt = c->salt,
        .row_mask = (uint32_t)(row_cell - 1),
        .row_slack = (uint32_t)(row_cell - tensor->shapes[0]),
        .column_mask = (uint32_t)(column_cell - 1),
        .column_slack = (uint32_t)(column_cell - tensor->shapes[1]),
        .column_max = tensor->strides[0] - tensor->shapes[1],
        .width = c->width[1],
        .state = (uint32_t)e->frame << 16 | REGION_BOX << REGION_KIND_SHIFT |
                 (class | REGION_IS_DERIVED) << REGION_LEVEL_SHIFT |
                 REGION_USED << REGION_FLAGS_SHIFT,
        .row_level = c->level[0],
        .column_level = c->level[1],
        .elem_log = (uint8_t)__builtin_ctz(f->geom.elem_bytes),
    };
}

void region_derive_geom(const struct regions *x, const struct region *e, struct geom *geom)
{
    const struct geom *of = &x->frame[e->frame].geom;
    uint64_t start = (e->start - of->base) / of->elem_bytes;
    /* distance from the box's first element to its last one */
    uint64_t last = e->length / of->elem_bytes - 1;
    uint32_t width = of->stride[0];

    *geom = *of;
    geom->lo = e->start;
    geom->hi = e->start + e->length;
    geom->rest = 0;
    memset(geom->shape, 0, sizeof(geom->shape));
    memset(geom->offset, 0, sizeof(geom->offset));
    geom->offset[0] = (uint32_t)(start / width);
    geom->offset[1] = (uint32_t)(start % width);
    geom->shape[0] = (uint32_t)(last / width) + 1;
    geom->shape[1] = (uint32_t)(last % width) + 1;
}
