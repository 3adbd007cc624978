/* SPDX-License-Identifier: Apache-2.0 */
/* Makes random views of a tensor: tiles, lines, steps, other shapes and strides. */
#include <assert.h>

#include "tool/check/check_graph.h"

uint32_t check_make_shape(struct rng *rng, uint64_t elements, uint32_t shapes[])
{
    uint32_t ndims = 1 + rng_below(rng, rng_chance(rng, 70) ? 3 : PTO_MAX_DIMS);

    for (uint32_t d = ndims; d-- > 1;) {
        uint32_t most = elements < 16 ? (uint32_t)elements : 16;

        shapes[d] = rng_chance(rng, 60) && most >= 8 ? 8 : 1 + rng_below(rng, most);
        elements /= shapes[d];
    }
    shapes[0] = (uint32_t)elements;
    return ndims;
}

static struct pto_tensor view_box(struct rng *rng, const struct pto_tensor *t)
{
    uint32_t shapes[PTO_MAX_DIMS], offsets[PTO_MAX_DIMS];

    for (uint32_t d = 0; d < t->ndims; d++) {
        shapes[d] = 1 + rng_below(rng, t->shapes[d]);
        offsets[d] = rng_below(rng, t->shapes[d] - shapes[d] + 1);
    }
    return pto_tensor_view(t, shapes, offsets);
}

/* Makes a tile of a regular grid as a view. Two such tiles are equal, disjoint, or nested. */
static struct pto_tensor view_tile(struct rng *rng, const struct pto_tensor *t)
{
    uint32_t shapes[PTO_MAX_DIMS], offsets[PTO_MAX_DIMS];

    for (uint32_t d = 0; d < t->ndims; d++) {
        uint32_t parts = 1u << rng_below(rng, 3);

        shapes[d] = t->shapes[d] / parts != 0 ? t->shapes[d] / parts : 1;
        offsets[d] = rng_below(rng, t->shapes[d] / shapes[d]) * shapes[d];
    }
    return pto_tensor_view(t, shapes, offsets);
}

static struct pto_tensor view_flat(struct rng *rng, const struct pto_tensor *t)
{
    uint32_t n = (uint32_t)pto_tensor_numel(t);
    uint32_t grain = rng_chance(rng, 70) && n >= 16 ? 8 : 1;
    struct pto_tensor flat = pto_tensor_reshape(t, &n, 1);
    uint32_t from = rng_below(rng, n / grain) * grain;
    uint32_t most = (n - from) / grain;
    uint32_t count = (1 + rng_below(rng, rng_chance(rng, 50) && most > 4 ? 4 : most)) * grain;

    /* Many ranges are short, so that they fit between two rows of a box. */
    return pto_tensor_slice(&flat, 0, from, from + count, 1);
}

/*
 * Makes a view with one index of a dimension fixed: a row for the first dimension, a column for the
 * last.
 */
static struct pto_tensor view_line(struct rng *rng, const struct pto_tensor *t, uint32_t dim)
{
    uint32_t at = rng_below(rng, t->shapes[dim]);

    return pto_tensor_slice(t, dim, at, at + 1, 1);
}

static struct pto_tensor view_permuted(struct rng *rng, const struct pto_tensor *t)
{
    struct pto_tensor v = rng_chance(rng, 70) ? view_tile(rng, t) : *t;
    uint32_t order[PTO_MAX_DIMS];

    for (uint32_t d = 0; d < v.ndims; d++) {
        uint32_t other = rng_below(rng, d + 1);

        order[d] = order[other];
        order[other] = d;
    }
    return pto_tensor_permute(&v, order);
}

static struct pto_tensor view_stepped(struct rng *rng, const struct pto_tensor *t)
{
    struct pto_tensor v = rng_chance(rng, 50) ? view_tile(rng, t) : *t;
    uint32_t dim = rng_below(rng, v.ndims);
    uint32_t step = 1 + rng_below(rng, 4);
    uint32_t from = rng_below(rng, v.shapes[dim]);

    return pto_tensor_slice(&v, dim, from, v.shapes[dim], step);
}

static struct pto_tensor view_reshaped(struct rng *rng, const struct pto_tensor *t)
{
    struct pto_tensor flat = view_flat(rng, t);
    uint32_t shapes[PTO_MAX_DIMS];
    uint32_t ndims = check_make_shape(rng, pto_tensor_numel(&flat), shapes);
    uint32_t n = 1;

    for (uint32_t d = 0; d < ndims; d++)
        n *= shapes[d];
    flat = pto_tensor_slice(&flat, 0, 0, n, 1);
    return pto_tensor_reshape(&flat, shapes, ndims);
}

/*
 * Makes a view with arbitrary strides: some views overlap themselves like sliding windows, and some
 * have strides that are no multiples of each other.
 */
static struct pto_tensor view_strided(struct rng *rng, const struct pto_tensor *t)
{
    uint64_t room = pto_tensor_numel(t);
    struct pto_tensor v = *t;

    v.ndims = 1 + rng_below(rng, PTO_MAX_DIMS);
    v.start = rng_below(rng, (uint32_t)room);
    room -= v.start + 1;
    for (uint32_t d = 0; d < v.ndims; d++) {
        uint32_t stride = 1 + rng_below(rng, rng_chance(rng, 50) ? 4 : 40);
        uint32_t most = (uint32_t)(room / stride) + 1;

        v.strides[d] = stride;
        v.shapes[d] = 1 + rng_below(rng, most < 6 ? most : 6);
        room -= (uint64_t)(v.shapes[d] - 1) * stride;
    }
    pto_tensor_update(&v);
    return v;
}

struct check_region check_make_view(struct rng *rng, const struct pto_tensor *frame)
{
    const uint32_t none[PTO_MAX_DIMS] = { 0 };
    struct pto_tensor v = *frame;

    switch (rng_below(rng, 16)) {
    case 0:
    case 1:
        break;
    case 2:
    case 3:
    case 4:
        v = view_tile(rng, frame);
        break;
    case 5:
    case 6:
        v = view_flat(rng, frame);
        break;
    case 7:
        v = view_line(rng, frame, 0);
        break;
    case 8:
        v = view_line(rng, frame, frame->ndims - 1);
        break;
    case 9:
        v = view_permuted(rng, frame);
        break;
    case 10:
        v = view_stepped(rng, frame);
        break;
    case 11:
        v = view_reshaped(rng, frame);
        break;
    case 12:
        v = view_strided(rng, frame);
        break;
    case 13:
        if (rng_chance(rng, 30))
            v = pto_tensor_view(frame, none, none);
        break;
    default:
        v = view_box(rng, frame);
        break;
    }
    assert(v.ndims != 0);
    return check_region_from_tensor(&v);
}
