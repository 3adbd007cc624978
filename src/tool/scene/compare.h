/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the results of a run with the expected ones. */
#ifndef PTO_COMPARE_H
#define PTO_COMPARE_H

#include "tool/scene/scene.h"

enum { COMPARE_SHOWN = 5 };

/* Result of comparing one tensor. */
struct comparison {
    uint64_t count;
    uint64_t wrong;   /* elements beyond the tolerance */
    uint64_t inexact; /* number of elements that differ at all */
    /* number of elements that are NaN where a number is expected; also counted in `wrong` */
    uint64_t nan_got;
    uint64_t nan_expected; /* number of elements where NaN is expected */
    uint64_t ulp_max;      /* largest distance in ULP, over all pairs of numbers */
    double abs_max;
    double rel_max; /* largest relative error, over expected values other than 0 */
    uint64_t abs_index;
    uint64_t rel_index;
    struct {
        uint64_t index;
        uint64_t got; /* bits of the element */
        uint64_t expected;
    } shown[COMPARE_SHOWN]; /* first wrong elements */
};

/* Compares two arrays. Any NaN matches an expected NaN. */
void scene_compare_arrays(enum pto_dtype dtype, uint64_t count, const void *got,
                          const void *expected, const struct scene_tolerance *tolerance,
                          struct comparison *out);

/* Formats a row-major index as `[2][0][7]`. */
enum { COMPARE_INDEX_MAX = 5 * 12 + 1 };

void scene_compare_print_index(const uint32_t *shapes, uint32_t ndims, uint64_t index,
                               char text[COMPARE_INDEX_MAX]);

#endif
