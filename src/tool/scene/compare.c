/* SPDX-License-Identifier: Apache-2.0 */
/* Compares arrays element by element, with tolerances. */
#include "tool/scene/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tool/scene/element.h"

static void compare_element(struct comparison *c, enum pto_dtype dtype, uint64_t index,
                            uint64_t got, uint64_t expected,
                            const struct scene_tolerance *tolerance);

void scene_compare_arrays(enum pto_dtype dtype, uint64_t count, const void *got,
                          const void *expected, const struct scene_tolerance *tolerance,
                          struct comparison *out)
{
    memset(out, 0, sizeof(*out));
    out->count = count;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t g = scene_element_bits(dtype, got, i), e = scene_element_bits(dtype, expected, i);

        if (g != e || scene_element_is_nan(dtype, e))
            compare_element(out, dtype, i, g, e, tolerance);
    }
}

static void note_wrong(struct comparison *c, uint64_t index, uint64_t got, uint64_t expected)
{
    if (c->wrong < COMPARE_SHOWN) {
        c->shown[c->wrong].index = index;
        c->shown[c->wrong].got = got;
        c->shown[c->wrong].expected = expected;
    }
    c->wrong++;
}

static void compare_element(struct comparison *c, enum pto_dtype dtype, uint64_t index,
                            uint64_t got, uint64_t expected,
                            const struct scene_tolerance *tolerance)
{
    bool is_nan = scene_element_is_nan(dtype, got);
    uint64_t ulp = scene_element_distance(dtype, got, expected);
    double g = scene_element_value(dtype, got), e = scene_element_value(dtype, expected);
    double off = fabs(g - e);

    if (scene_element_is_nan(dtype, expected)) {
        c->nan_expected++;
        if (!is_nan)
            note_wrong(c, index, got, expected);
        return;
    }
    if (is_nan) {
        c->nan_got++;
        c->inexact++;
        note_wrong(c, index, got, expected); /* mutation: nan-is-fine */
        return;
    }
    if (ulp == 0)
        return;
    if (off == 0) /* large integers that differ can be equal after the conversion to double */
        off = (double)ulp;
    c->inexact++;
    c->ulp_max = ulp > c->ulp_max ? ulp : c->ulp_max;
    if (off > c->abs_max) {
        c->abs_max = off;
        c->abs_index = index;
    }
    if (e != 0 && off / fabs(e) > c->rel_max) {
        c->rel_max = off / fabs(e);
        c->rel_index = index;
    }
    if (isinf(off) ||
        (off > tolerance->atol + tolerance->rtol * fabs(e) && (double)ulp > tolerance->ulp))
        note_wrong(c, index, got, expected);
}

void scene_compare_print_index(const uint32_t *shapes, uint32_t ndims, uint64_t index,
                               char text[COMPARE_INDEX_MAX])
{
    uint64_t at[PTO_MAX_DIMS];
    size_t used = 0;

    for (uint32_t d = ndims; d-- > 0;) {
        at[d] = shapes[d] != 0 ? index % shapes[d] : 0;
        index = shapes[d] != 0 ? index / shapes[d] : 0;
    }
    text[0] = '\0';
    for (uint32_t d = 0; d < ndims; d++)
        used += (size_t)snprintf(text + used, COMPARE_INDEX_MAX - used, "[%u]", (unsigned)at[d]);
}
