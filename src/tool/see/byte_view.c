/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/byte_view.h"

#include <string.h>

#include "pto/dtype.h"

enum {
    STEPS_MAX = 1 << 20, /* After this number of comparisons, two views count as overlapping. */
};

/*
 * Upper limit of addresses and lengths in bytes, so that the sum or difference of two fits into
 * int64_t.
 */
#define BYTES_MAX (1ull << 61)

/* State of the search for a byte that two views have in common; `at` is the address of the byte. */
struct row_search {
    const struct see_byte_view *a, *b;
    uint32_t steps;
    uint64_t at;
};

/* Inserts a dimension at the position that keeps strides in falling order. */
static void view_add_dimension(struct see_byte_view *v, uint64_t stride, uint64_t count)
{
    uint32_t at = v->ndims++;

    for (; at > 0 && v->stride[at - 1] < stride; at--) {
        v->stride[at] = v->stride[at - 1];
        v->count[at] = v->count[at - 1];
    }
    v->stride[at] = stride;
    v->count[at] = count;
}

/* Merges dimensions whose elements follow each other without a gap, and rows that touch. */
static void view_join_dimensions(struct see_byte_view *v)
{
    while (v->ndims > 0 && v->stride[v->ndims - 1] == v->run) {
        v->run *= v->count[v->ndims - 1];
        v->ndims--;
    }
    for (uint32_t d = v->ndims; d-- > 1;)
        if (v->stride[d - 1] == v->stride[d] * v->count[d]) {
            v->stride[d - 1] = v->stride[d];
            v->count[d - 1] *= v->count[d];
            v->ndims--;
            memmove(&v->stride[d], &v->stride[d + 1], (v->ndims - d) * sizeof(v->stride[0]));
            memmove(&v->count[d], &v->count[d + 1], (v->ndims - d) * sizeof(v->count[0]));
        }
}

struct see_byte_view see_byte_view_of(uint64_t lo, uint64_t hi)
{
    return (struct see_byte_view){ .lo = lo, .hi = hi, .run = hi - lo, .span = { hi - lo } };
}

/* Returns a + b * c, or BYTES_MAX + 1 if the result is larger than BYTES_MAX. */
static uint64_t limited_sum(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t sum;

    return __builtin_mul_overflow(b, c, &sum) || __builtin_add_overflow(sum, a, &sum) ||
                   sum > BYTES_MAX
               ? BYTES_MAX + 1
               : sum;
}

void see_byte_view_make(struct see_byte_view *v, const struct see_argument *a)
{
    uint64_t bytes = pto_dtype_size(a->dtype), elements = 1;
    bool is_empty = bytes == 0 || a->ndims == 0;

    *v = (struct see_byte_view){ .run = bytes, .lo = limited_sum(a->addr, a->start, bytes) };
    for (uint32_t d = 0; d < a->ndims; d++) {
        is_empty = is_empty || a->shapes[d] == 0;
        if (a->shapes[d] <= 1 || a->strides[d] == 0)
            continue;
        elements = limited_sum(elements, a->shapes[d] - 1, a->strides[d]);
        view_add_dimension(v, a->strides[d] * bytes, a->shapes[d]);
    }
    v->hi = limited_sum(v->lo, elements, bytes);
    if (is_empty || v->lo > BYTES_MAX) {
        *v = (struct see_byte_view){ 0 };
        return;
    }
    if (v->hi > BYTES_MAX) { /* only a damaged file has an address this high */
        *v = see_byte_view_of(v->lo, BYTES_MAX);
        return;
    }
    view_join_dimensions(v);
    v->span[v->ndims] = v->run;
    for (uint32_t d = v->ndims; d-- > 0;)
        v->span[d] = v->span[d + 1] + (v->count[d] - 1) * v->stride[d];
}

static bool has_equal_strides(const struct see_byte_view *a, const struct see_byte_view *b)
{
    return a->ndims == b->ndims &&
           memcmp(a->stride, b->stride, a->ndims * sizeof(a->stride[0])) == 0;
}

static int64_t floor_divide(int64_t value, int64_t by)
{
    return value / by - (value % by < 0);
}

/*
 * Searches for a common byte of two views with equal strides, in the dimensions from `d` on. View a
 * begins at the address `at`, view b `distance` bytes after it. Elements i of a and j of b are
 * compared only for differences i - j for which they may overlap.
 */
static bool frames_meet(struct row_search *s, uint32_t d, int64_t distance, uint64_t at)
{
    const struct see_byte_view *a = s->a, *b = s->b;
    int64_t stride, low, high;

    if (distance >= (int64_t)a->span[d] || distance + (int64_t)b->span[d] <= 0)
        return false;
    if (d == a->ndims || ++s->steps > STEPS_MAX) {
        s->at = distance > 0 ? at + (uint64_t)distance : at;
        return true;
    }
    stride = (int64_t)a->stride[d];
    low = floor_divide(distance - (int64_t)a->span[d + 1], stride) + 1;
    high = -floor_divide(-(distance + (int64_t)b->span[d + 1]), stride) - 1;
    low = low > -(int64_t)(b->count[d] - 1) ? low : -(int64_t)(b->count[d] - 1);
    high = high < (int64_t)(a->count[d] - 1) ? high : (int64_t)(a->count[d] - 1);
    for (int64_t k = low; k <= high; k++)
        if (frames_meet(s, d + 1, distance - k * stride, at + (k > 0 ? (uint64_t)(k * stride) : 0)))
            return true;
    return false;
}

/*
 * Searches for a byte from lo to hi in the part of view b that begins at `base`, from dimension d
 * on.
 */
static bool find_in_interval(struct row_search *s, uint32_t d, uint64_t base, uint64_t lo,
                             uint64_t hi)
{
    const struct see_byte_view *b = s->b;
    uint64_t i = 0;

    if (base >= hi || base + b->span[d] <= lo)
        return false;
    if (d == b->ndims || ++s->steps > STEPS_MAX) {
        s->at = base > lo ? base : lo;
        return true;
    }
    if (lo >= base + b->span[d + 1])
        i = (lo - base - b->span[d + 1]) / b->stride[d] + 1;
    for (; i < b->count[d] && base + i * b->stride[d] < hi; i++)
        if (find_in_interval(s, d + 1, base + i * b->stride[d], lo, hi))
            return true;
    return false;
}

/*
 * Searches for a byte that view b has in common with the part of view a that begins at `base`, row
 * by row.
 */
static bool rows_meet(struct row_search *s, uint32_t d, uint64_t base)
{
    const struct see_byte_view *a = s->a;
    uint64_t i = 0;

    if (base >= s->b->hi || base + a->span[d] <= s->b->lo)
        return false;
    if (d == a->ndims || ++s->steps > STEPS_MAX)
        return find_in_interval(s, 0, s->b->lo, base, base + a->span[d]);
    if (s->b->lo >= base + a->span[d + 1])
        i = (s->b->lo - base - a->span[d + 1]) / a->stride[d] + 1;
    for (; i < a->count[d] && base + i * a->stride[d] < s->b->hi; i++)
        if (rows_meet(s, d + 1, base + i * a->stride[d]))
            return true;
    return false;
}

static double byte_view_count_rows(const struct see_byte_view *v)
{
    double rows = 1;

    for (uint32_t d = 0; d < v->ndims; d++)
        rows *= (double)v->count[d];
    return rows;
}

bool see_byte_views_meet(const struct see_byte_view *a, const struct see_byte_view *b,
                         uint64_t *at_out)
{
    struct row_search s = { .a = a, .b = b };

    if (a->hi <= b->lo || b->hi <= a->lo || a->lo == a->hi || b->lo == b->hi)
        return false;
    if (byte_view_count_rows(b) < byte_view_count_rows(a))
        s = (struct row_search){ .a = b, .b = a };
    if (has_equal_strides(a, b) ? !frames_meet(&s, 0, (int64_t)s.b->lo - (int64_t)s.a->lo, s.a->lo)
                                : !rows_meet(&s, 0, s.a->lo))
        return false;
    *at_out = s.at;
    return true;
}

/* ---- elements ---- */

/*
 * Searches the dimensions from `d` on, in the order of `order`, for the element that is `number`
 * elements after the first one in memory. Its index goes to `index`.
 */
static bool byte_view_find_element(const struct see_argument *a, const uint32_t *order, uint32_t d,
                                   uint64_t number, uint32_t *index)
{
    uint64_t rest = 0, i;

    if (d == a->ndims)
        return number == 0;
    for (uint32_t k = d + 1; k < a->ndims; k++)
        rest += (a->shapes[order[k]] - 1ull) * a->strides[order[k]];
    i = a->strides[order[d]] != 0 ? number / a->strides[order[d]] : 0;
    i = i < a->shapes[order[d]] ? i : a->shapes[order[d]] - 1ull;
    for (;; i--) {
        uint64_t left = number - i * a->strides[order[d]];

        if (left > rest)
            return false;
        index[order[d]] = (uint32_t)i;
        if (byte_view_find_element(a, order, d + 1, left, index))
            return true;
        if (i == 0 || a->strides[order[d]] == 0)
            return false;
    }
}

bool see_argument_element(const struct see_argument *a, uint64_t at, uint32_t index[PTO_MAX_DIMS])
{
    uint32_t order[PTO_MAX_DIMS];
    uint64_t bytes = pto_dtype_size(a->dtype), number;

    if (bytes == 0 || at < a->addr || (at - a->addr) / bytes < a->start)
        return false;
    number = (at - a->addr) / bytes - a->start;
    for (uint32_t d = 0; d < a->ndims; d++) {
        uint32_t k = d;

        if (a->shapes[d] == 0)
            return false;
        for (; k > 0 && a->strides[order[k - 1]] < a->strides[d]; k--)
            order[k] = order[k - 1];
        order[k] = d;
    }
    return byte_view_find_element(a, order, 0, number, index);
}
