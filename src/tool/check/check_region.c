/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the bytes of a view, and whether two views share bytes, directly from the definitions in
 * docs/user/ordering.md, which the comments quote. The code is not meant to be fast.
 */
#include "tool/check/check_model.h"

#include <assert.h>

/*
 * A region as a box in a grid: in dimension d, positions from lo[d] to lo[d] + shape[d] - 1.
 * Dimensions are sorted by falling stride.
 */
struct box {
    uint32_t ndims;
    uint64_t stride[PTO_MAX_DIMS];
    uint64_t shape[PTO_MAX_DIMS];
    uint64_t lo[PTO_MAX_DIMS];
    uint64_t rest;
};

static void sort_box(const struct check_region *r, struct box *b);
static bool box_make(const struct check_region *r, struct box *b);
static bool box_is_one_frame(const struct check_region *ra, const struct box *a,
                             const struct check_region *rb, const struct box *b);
static bool box_touches(const struct check_region *r, const struct box *b, uint64_t low,
                        uint64_t high);
static bool box_simpler(const struct check_region *r, struct box *b);

struct check_region check_element_region(const struct check_element *e)
{
    struct check_region r = e->region;

    memset(r.shapes, 0, sizeof(r.shapes));
    memset(r.strides, 0, sizeof(r.strides));
    r.ndims = r.shapes[0] = r.strides[0] = 1;
    for (uint32_t d = 0; d < e->ndims; d++)
        r.start += (uint64_t)e->indices[d] * e->region.strides[d];
    return r;
}

struct check_region check_region_from_tensor(const struct pto_tensor *tensor)
{
    struct check_region r;

    memset(&r, 0, sizeof(r));
    r.addr = tensor->addr;
    r.size = tensor->size;
    r.start = tensor->start;
    r.version = tensor->version;
    r.ndims = tensor->ndims;
    r.dtype = tensor->dtype;
    r.manual_dep = tensor->manual_dep;
    for (uint32_t d = 0; d < tensor->ndims; d++) {
        r.shapes[d] = tensor->shapes[d];
        r.strides[d] = tensor->strides[d];
    }
    return r;
}

const char *check_tensor_error(const struct pto_tensor *t, const struct check_region *r)
{
    struct check_region seen;

    if (t->ndims != r->ndims)
        return "ndims";
    seen = check_region_from_tensor(t);
    if (memcmp(seen.shapes, r->shapes, sizeof(r->shapes)) != 0)
        return "shapes";
    if (memcmp(seen.strides, r->strides, sizeof(r->strides)) != 0)
        return "strides";
    if (t->start != r->start || t->dtype != r->dtype)
        return "start or dtype";
    if (t->extent != check_region_extent(r) || t->is_contiguous != check_region_is_contiguous(r))
        return "extent or is_contiguous";
    if (t->size != r->size)
        return "size";
    if (t->version != r->version || t->manual_dep != r->manual_dep)
        return "version or manual_dep";
    return NULL;
}

bool check_region_is_empty(const struct check_region *r)
{
    for (uint32_t d = 0; d < r->ndims; d++) {
        if (r->shapes[d] == 0)
            return true;
    }
    return false;
}

bool check_region_is_contiguous(const struct check_region *r)
{
    uint64_t expect = 1;

    for (uint32_t d = r->ndims; d-- > 0;) {
        if (r->strides[d] != expect)
            return check_region_is_empty(r);
        expect *= r->shapes[d];
    }
    return true;
}

uint64_t check_region_extent(const struct check_region *r)
{
    uint64_t last = 0;

    if (check_region_is_empty(r))
        return 0;
    for (uint32_t d = 0; d < r->ndims; d++)
        last += (uint64_t)(r->shapes[d] - 1) * r->strides[d];
    return last + 1;
}

void check_region_interval(const struct check_region *r, uint64_t *low_out, uint64_t *high_out)
{
    uint64_t e = pto_dtype_size(r->dtype);

    *low_out = r->addr + r->start * e;
    *high_out = *low_out + check_region_extent(r) * e;
}

/*
 * Whether the region is dense: "contiguous, or a box with as many elements as its interval has room
 * for".
 */
static bool region_is_dense(const struct check_region *r)
{
    struct box box;
    uint64_t count = 1;

    for (uint32_t d = 0; d < r->ndims; d++)
        count *= r->shapes[d];
    return check_region_is_contiguous(r) || (count == check_region_extent(r) && box_make(r, &box));
}

bool check_region_overlaps(const struct check_region *a, const struct check_region *b,
                           int *rule_out)
{
    bool is_flat_a = region_is_dense(a);
    bool is_flat_b = region_is_dense(b);
    uint64_t low_a, high_a, low_b, high_b;
    struct box box_a, box_b;
    int rule = 0;
    bool overlaps = true;

    check_region_interval(a, &low_a, &high_a);
    check_region_interval(b, &low_b, &high_b);
    if (check_region_is_empty(a) || check_region_is_empty(b) || high_a <= low_b ||
        high_b <= low_a) {
        rule = 1;
        overlaps = false;
    } else if (is_flat_a && is_flat_b) {
        rule = 2;
    } else if (is_flat_a && box_make(b, &box_b)) {
        rule = 3;
        overlaps = box_touches(b, &box_b, low_a, high_a);
    } else if (is_flat_b && box_make(a, &box_a)) {
        rule = 3;
        overlaps = box_touches(a, &box_a, low_b, high_b);
    } else if (box_make(a, &box_a) && box_make(b, &box_b) &&
               box_is_one_frame(a, &box_a, b, &box_b)) {
        rule = 4;
        overlaps = box_a.rest == box_b.rest;
        for (uint32_t d = 0; d < box_a.ndims; d++)
            overlaps = overlaps && box_a.lo[d] < box_b.lo[d] + box_b.shape[d] &&
                       box_b.lo[d] < box_a.lo[d] + box_a.shape[d];
    } else {
        rule = 5;
    }
    if (rule_out != NULL)
        *rule_out = rule;
    return overlaps;
}

bool check_region_covers(const struct check_region *a, const struct check_region *b)
{
    uint64_t low_a, high_a, low_b, high_b;
    struct box box_a, box_b;

    if (check_region_is_empty(a) || check_region_is_empty(b))
        return false;
    check_region_interval(a, &low_a, &high_a);
    check_region_interval(b, &low_b, &high_b);
    if (region_is_dense(a) && low_a <= low_b && high_b <= high_a)
        return true;
    if (check_region_is_same(a, b))
        return true;
    if (region_is_dense(a) || region_is_dense(b) || !box_make(a, &box_a) || !box_make(b, &box_b) ||
        !box_is_one_frame(a, &box_a, b, &box_b) || box_a.rest != box_b.rest)
        return false;
    for (uint32_t d = 0; d < box_a.ndims; d++) {
        if (box_b.lo[d] < box_a.lo[d] ||
            box_b.lo[d] + box_b.shape[d] > box_a.lo[d] + box_a.shape[d])
            return false;
    }
    return true;
}

bool check_region_is_same(const struct check_region *a, const struct check_region *b)
{
    uint64_t low_a, high_a, low_b, high_b;
    struct box box_a, box_b;

    if (region_is_dense(a) != region_is_dense(b))
        return false;
    if (region_is_dense(a)) {
        check_region_interval(a, &low_a, &high_a);
        check_region_interval(b, &low_b, &high_b);
        return low_a == low_b && high_a == high_b;
    }
    if (a->addr != b->addr || a->start != b->start || a->ndims != b->ndims ||
        pto_dtype_size(a->dtype) != pto_dtype_size(b->dtype))
        return false;
    sort_box(a, &box_a);
    sort_box(b, &box_b);
    for (uint32_t d = 0; d < a->ndims; d++) {
        if (box_a.shape[d] != box_b.shape[d] || box_a.stride[d] != box_b.stride[d])
            return false;
    }
    return true;
}

bool check_region_overlaps_simpler(const struct check_region *probe,
                                   const struct check_region *record, bool *covers_out)
{
    struct box p, r;
    bool is_exact, covers = true;

    *covers_out = false;
    if (probe->addr != record->addr)
        return false;
    if (probe->version > record->version)
        return true;
    if (check_region_is_empty(probe) || check_region_is_empty(record) ||
        probe->start + check_region_extent(probe) <= record->start ||
        record->start + check_region_extent(record) <= probe->start)
        return false;
    is_exact = probe->dtype == record->dtype && probe->ndims == record->ndims;
    for (uint32_t d = 0; d < probe->ndims && is_exact; d++)
        is_exact = probe->strides[d] == record->strides[d];
    if (!is_exact || !box_simpler(probe, &p) || !box_simpler(record, &r))
        return true;
    for (uint32_t d = 0; d < p.ndims; d++) {
        if (p.lo[d] >= r.lo[d] + r.shape[d] || r.lo[d] >= p.lo[d] + p.shape[d])
            return false;
        covers = covers && p.lo[d] <= r.lo[d] && r.lo[d] + r.shape[d] <= p.lo[d] + p.shape[d];
    }
    *covers_out = covers;
    return true;
}

/* Fills a box "with its dimensions sorted by falling stride (a stable sort)". */
static void sort_box(const struct check_region *r, struct box *b)
{
    b->ndims = r->ndims;
    for (uint32_t d = 0; d < r->ndims; d++) {
        uint32_t at = d;

        for (; at > 0 && b->stride[at - 1] < r->strides[d]; at--) {
            b->stride[at] = b->stride[at - 1];
            b->shape[at] = b->shape[at - 1];
        }
        b->stride[at] = r->strides[d];
        b->shape[at] = r->shapes[d];
    }
}

static bool box_make(const struct check_region *r, struct box *b)
{
    uint64_t left = r->start;

    sort_box(r, b);
    for (uint32_t d = 0; d < b->ndims; d++) {
        b->lo[d] = left / b->stride[d];
        left %= b->stride[d];
        if (d > 0 && (b->stride[d - 1] % b->stride[d] != 0 ||
                      b->lo[d] + b->shape[d] > b->stride[d - 1] / b->stride[d]))
            return false;
    }
    b->rest = left;
    return true;
}

/*
 * Whether two boxes have the same frame: "when buffer address, element size, number of dimensions
 * and sorted strides are equal".
 */
static bool box_is_one_frame(const struct check_region *ra, const struct box *a,
                             const struct check_region *rb, const struct box *b)
{
    if (ra->addr != rb->addr || pto_dtype_size(ra->dtype) != pto_dtype_size(rb->dtype) ||
        a->ndims != b->ndims)
        return false;
    for (uint32_t d = 0; d < a->ndims; d++) {
        if (a->stride[d] != b->stride[d])
            return false;
    }
    return true;
}

/*
 * Whether a box overlaps the interval [low, high): "exactly if an element of the box has a byte in
 * the interval". Tries every element.
 */
static bool box_touches(const struct check_region *r, const struct box *b, uint64_t low,
                        uint64_t high)
{
    uint64_t e = pto_dtype_size(r->dtype);
    struct check_walk w;

    assert(b->ndims == r->ndims);
    for (check_walk_init(&w, r); check_walk_next(&w);) {
        if (w.addr < high && w.addr + e > low)
            return true;
    }
    return false;
}

/*
 * Converts a region to a box as the reference system does, without sorting its dimensions. Returns
 * false if the region is not such a box.
 */
static bool box_simpler(const struct check_region *r, struct box *b)
{
    uint64_t elements = r->size / pto_dtype_size(r->dtype);
    uint64_t left = r->start;

    b->ndims = r->ndims;
    if (r->strides[r->ndims - 1] != 1 || elements % r->strides[0] != 0)
        return false;
    for (uint32_t d = 0; d < r->ndims; d++) {
        uint64_t room = d == 0 ? elements / r->strides[0] : r->strides[d - 1] / r->strides[d];

        if (d > 0 && r->strides[d - 1] % r->strides[d] != 0)
            return false;
        b->shape[d] = r->shapes[d];
        b->lo[d] = left / r->strides[d];
        left %= r->strides[d];
        if (b->lo[d] + b->shape[d] > room)
            return false;
    }
    return true;
}

void check_walk_init(struct check_walk *w, const struct check_region *region)
{
    memset(w, 0, sizeof(*w));
    w->region = region;
    w->addr = region->addr + region->start * pto_dtype_size(region->dtype);
}

bool check_walk_next(struct check_walk *w)
{
    const struct check_region *r = w->region;
    uint64_t e = pto_dtype_size(r->dtype);

    if (!w->is_started) {
        w->is_started = true;
        return !check_region_is_empty(r);
    }
    w->number++;
    for (uint32_t d = r->ndims; d-- > 0;) {
        w->addr += r->strides[d] * e;
        if (++w->index[d] < r->shapes[d])
            return true;
        w->addr -= (uint64_t)r->shapes[d] * r->strides[d] * e;
        w->index[d] = 0;
    }
    return false;
}
