/* SPDX-License-Identifier: Apache-2.0 */
/* Describes a set of elements, a bit for each, as few strided views. */
#include <string.h>

#include "sim/touched.h"

/*
 * levels of nesting: a part of one level repeats a part of the level before at equal distances; the
 * first level repeats a contiguous row of elements
 */
enum { LEVELS = PTO_MAX_DIMS - 1 };

/*
 * Equal parts at equal distances that were found so far; together they form a part with one more
 * dimension.
 */
struct repeated {
    struct touched_part part; /* the first of the equal parts */
    uint64_t stride;
    uint32_t count; /* number of equal parts; 0: none yet */
};

struct part_list {
    struct repeated level[LEVELS];
    struct touched_part *part;
    uint32_t count, max;
};

static bool has_equal_dims(const struct touched_part *a, const struct touched_part *b)
{
    return a->ndims == b->ndims &&
           memcmp(a->count, b->count, a->ndims * sizeof(a->count[0])) == 0 &&
           memcmp(a->stride, b->stride, a->ndims * sizeof(a->stride[0])) == 0;
}

static void part_list_add(struct part_list *list, uint32_t level, const struct touched_part *part);

/*
 * Adds the parts that were collected at one level, as a single part, to the next level or to the
 * list.
 */
static void part_list_flush(struct part_list *list, uint32_t level)
{
    struct repeated *r = &list->level[level];
    struct touched_part *part = &r->part;

    if (r->count == 0)
        return;
    if (r->count > 1) {
        part->count[part->ndims] = r->count;
        part->stride[part->ndims++] = (uint32_t)r->stride;
    }
    if (level + 1 < LEVELS)
        part_list_add(list, level + 1, part);
    else if (list->count++ < list->max)
        list->part[list->count - 1] = *part;
    r->count = 0;
}

static void part_list_add(struct part_list *list, uint32_t level, const struct touched_part *part)
{
    struct repeated *r = &list->level[level];

    if (r->count != 0 && has_equal_dims(&r->part, part) &&
        (r->count == 1 || part->start == r->part.start + r->count * r->stride)) {
        r->stride = r->count == 1 ? part->start - r->part.start : r->stride;
        r->count++;
        return;
    }
    part_list_flush(list, level);
    *r = (struct repeated){ .part = *part, .count = 1 };
}

/* Returns the first element from `at` on whose bit has this value; `end`: there is none. */
static uint64_t find_bit(const uint64_t *bits, uint64_t at, uint64_t end, bool value)
{
    while (at < end) {
        uint64_t word = (value ? bits[at / 64] : ~bits[at / 64]) >> at % 64;

        if (word != 0) {
            at += (uint64_t)__builtin_ctzll(word);
            return at < end ? at : end;
        }
        at = at / 64 * 64 + 64;
    }
    return end;
}

uint32_t touched_parts(const uint64_t *bits, uint64_t extent, struct touched_part *part,
                       uint32_t max)
{
    struct part_list list = { .part = part, .max = max };

    for (uint64_t at = 0, end; list.count <= max; at = end) {
        at = find_bit(bits, at, extent, true);
        if (at == extent)
            break;
        end = find_bit(bits, at, extent, false);
        part_list_add(
            &list, 0,
            &(struct touched_part){
                .start = at, .ndims = 1, .count = { (uint32_t)(end - at) }, .stride = { 1 } });
    }
    for (uint32_t level = 0; level < LEVELS; level++)
        part_list_flush(&list, level);
    return list.count;
}
