/* SPDX-License-Identifier: Apache-2.0 */
/* Geometry of regions: comparison of two of them. */
#include "overlap/geom.h"

#include <string.h>

static void sort_dims(struct geom *g);
static bool split_start(struct geom *g, uint64_t start);
static enum overlap boxes_overlap(const struct geom *a, const struct geom *b);
static bool interval_meets_box(const struct geom *interval, const struct geom *box);

void geom_init_safe(struct geom *g, const struct pto_tensor *t)
{
    uint32_t e = pto_dtype_size(t->dtype);
    uint64_t extent = t->is_contiguous ? pto_tensor_numel(t) : t->extent;

    g->lo = t->addr + t->start * e;
    g->hi = g->lo + extent * e;
    g->base = t->addr;
    g->size = t->size;
    g->version = 0;
    g->elem_bytes = (uint8_t)e;
    g->ndims = (uint8_t)t->ndims;
    g->reserved = 0;
    g->rest = 0;
    g->kind = REGION_CONTIGUOUS;
    if (t->is_contiguous)
        return;
    memset(g->stride, 0, sizeof(g->stride));
    memset(g->shape, 0, sizeof(g->shape));
    memset(g->offset, 0, sizeof(g->offset));
    memcpy(g->stride, t->strides, t->ndims * sizeof(uint32_t));
    memcpy(g->shape, t->shapes, t->ndims * sizeof(uint32_t));
    sort_dims(g);
    if (!split_start(g, t->start))
        g->kind = REGION_OTHER;
    /* else the tensor fills its interval without gaps, as a transposed matrix does */
    else if (pto_tensor_numel(t) != t->extent)
        g->kind = REGION_BOX;
    if (g->kind == REGION_OTHER)
        memset(g->offset, 0, sizeof(g->offset));
}

void geom_init_simpler(struct geom *g, const struct pto_tensor *t)
{
    uint64_t extent = t->is_contiguous ? pto_tensor_numel(t) : t->extent;
    uint64_t elements = t->size / pto_dtype_size(t->dtype);
    bool is_box;

    g->lo = t->start;
    g->hi = t->start + extent;
    g->base = t->addr;
    g->size = elements;
    g->version = t->version;
    g->elem_bytes = t->dtype;
    g->ndims = (uint8_t)t->ndims;
    g->reserved = 0;
    memset(g->stride, 0, sizeof(g->stride));
    memset(g->shape, 0, sizeof(g->shape));
    memset(g->offset, 0, sizeof(g->offset));
    memcpy(g->stride, t->strides, t->ndims * sizeof(uint32_t));
    memcpy(g->shape, t->shapes, t->ndims * sizeof(uint32_t));
    is_box = t->strides[t->ndims - 1] == 1 && elements % t->strides[0] == 0 &&
             split_start(g, t->start) &&
             (uint64_t)g->offset[0] + g->shape[0] <= elements / t->strides[0];
    g->kind = is_box ? REGION_BOX : REGION_OTHER;
    if (!is_box)
        memset(g->offset, 0, sizeof(g->offset));
    g->rest = 0;
}

enum overlap overlap_safe(const struct geom *a, const struct geom *b)
{
    if (a->lo >= b->hi || b->lo >= a->hi)
        return OVERLAP_NONE;
    if (a->kind == REGION_CONTIGUOUS) {
        if (a->lo <= b->lo && b->hi <= a->hi)
            return OVERLAP_COVERS;
        if (b->kind == REGION_BOX && !interval_meets_box(a, b))
            return OVERLAP_NONE;
        return OVERLAP_SOME;
    }
    if (b->kind == REGION_CONTIGUOUS)
        return a->kind == REGION_BOX && !interval_meets_box(b, a) ? OVERLAP_NONE : OVERLAP_SOME;
    if (geom_same_frame(a, b))
        return boxes_overlap(a, b);
    return geom_equal(a, b) ? OVERLAP_COVERS : OVERLAP_SOME;
}

enum overlap overlap_simpler(const struct geom *a, const struct geom *b)
{
    if (a->base != b->base)
        return OVERLAP_NONE;
    if (a->version > b->version)
        return OVERLAP_SOME;
    if (a->lo >= b->hi || b->lo >= a->hi)
        return OVERLAP_NONE;
    if (a->kind == REGION_BOX && b->kind == REGION_BOX && a->elem_bytes == b->elem_bytes &&
        a->ndims == b->ndims && memcmp(a->stride, b->stride, sizeof(a->stride)) == 0)
        return boxes_overlap(a, b);
    return OVERLAP_SOME;
}

bool geom_equal(const struct geom *a, const struct geom *b)
{
    if (a->lo != b->lo || a->hi != b->hi || a->kind != b->kind)
        return false;
    if (a->kind == REGION_CONTIGUOUS)
        return true;
    return a->base == b->base && a->elem_bytes == b->elem_bytes && a->ndims == b->ndims &&
           a->version == b->version && a->rest == b->rest &&
           memcmp(a->stride, b->stride, sizeof(a->stride)) == 0 &&
           memcmp(a->shape, b->shape, sizeof(a->shape)) == 0;
}

bool geom_same_frame(const struct geom *a, const struct geom *b)
{
    return a->kind == REGION_BOX && b->kind == REGION_BOX && a->base == b->base &&
           a->elem_bytes == b->elem_bytes && a->ndims == b->ndims &&
           memcmp(a->stride, b->stride, sizeof(a->stride)) == 0;
}

/*
 * Sorts dimensions by falling stride. The sort is stable, so a transposed view has the frame of its
 * parent.
 */
static void sort_dims(struct geom *g)
{
    for (uint32_t i = 1; i < g->ndims; i++) {
        uint32_t stride = g->stride[i];
        uint32_t shape = g->shape[i];
        uint32_t k = i;

        for (; k > 0 && g->stride[k - 1] < stride; k--) {
            g->stride[k] = g->stride[k - 1];
            g->shape[k] = g->shape[k - 1];
        }
        g->stride[k] = stride;
        g->shape[k] = shape;
    }
}

/* Computes the offset of a view's start in each dimension. False: the view is not a box. */
static bool split_start(struct geom *g, uint64_t start)
{
    for (uint32_t d = 0; d < g->ndims; d++) {
        uint32_t stride = g->stride[d];
        uint64_t at = start;

        if (stride != 1) {
            at = start >> 32 == 0 ? (uint32_t)start / stride : start / stride;
            start -= at * stride;
        } else {
            start = 0;
        }
        if (at > UINT32_MAX)
            return false;
        if (d > 0 &&
            (g->stride[d - 1] % stride != 0 || at + g->shape[d] > g->stride[d - 1] / stride))
            return false;
        g->offset[d] = (uint32_t)at;
    }
    g->rest = (uint32_t)start;
    return true;
}

static enum overlap boxes_overlap(const struct geom *a, const struct geom *b)
{
    bool is_covered = true;

    if (a->rest != b->rest) /* mutation: no-rest */
        return OVERLAP_NONE;
    for (uint32_t d = 0; d < a->ndims; d++) {
        uint64_t a_end = (uint64_t)a->offset[d] + a->shape[d];
        uint64_t b_end = (uint64_t)b->offset[d] + b->shape[d];

        if (a_end <= b->offset[d] || b_end <= a->offset[d])
            return OVERLAP_NONE;
        if (a->offset[d] > b->offset[d] || a_end < b_end)
            is_covered = false;
    }
    return is_covered ? OVERLAP_COVERS : OVERLAP_SOME;
}

/*
 * Whether an element of the box lies in the interval. The elements of a box are ordered like their
 * offsets read as digits of a number, so the function looks for the first element at or after the
 * interval's first byte. The digits are visited from the largest stride on. Where the wanted digit
 * is below the box, all further digits take their minimum; where it is above, the digit to the left
 * is raised.
 */
static bool interval_meets_box(const struct geom *interval, const struct geom *box)
{
    uint64_t digit[PTO_MAX_DIMS];
    uint64_t want = 0; /* the first element that ends after the interval's start */
    uint64_t found = box->rest;
    uint64_t left;
    uint32_t d;

    if (interval->lo > box->base)
        want = (interval->lo - box->base) / box->elem_bytes;
    if (want <= (box->lo - box->base) / box->elem_bytes)
        return true; /* the intervals intersect, so the box's first element lies in the interval */
    left = want > box->rest ? want - box->rest : 0;
    for (d = 0; d < box->ndims; d++) {
        digit[d] = left / box->stride[d];
        left -= digit[d] * box->stride[d];
    }
    if (left != 0) /* the start lies between two elements: take the next one */
        digit[box->ndims - 1]++;
    for (d = 0; d < box->ndims; d++) {
        if (digit[d] < box->offset[d])
            break; /* all further digits take their minimum */
        if (digit[d] >= (uint64_t)box->offset[d] + box->shape[d]) {
            do { /* no element has these digits: raise the previous digit */
                if (d == 0)
                    return false;
                d--;
                digit[d]++;
            } while (digit[d] >= (uint64_t)box->offset[d] + box->shape[d]);
            d++;
            break;
        }
    }
    for (uint32_t k = 0; k < box->ndims; k++)
        found += (k < d ? digit[k] : box->offset[k]) * box->stride[k];
    return box->base + found * box->elem_bytes < interval->hi;
}
