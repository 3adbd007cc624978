/* SPDX-License-Identifier: Apache-2.0 */
/* Compares what a run gave with what was expected. */
#ifndef PTO_COMPARE_H
#define PTO_COMPARE_H

#include "tool/scene/scene.h"

enum { COMPARE_SHOWN = 5 };

/* Of one tensor. */
struct comparison {
    uint64_t count;
    uint64_t wrong;        /* elements beyond the tolerance */
    uint64_t inexact;      /* elements that differ at all */
    uint64_t nan_got;      /* NaN where a number is expected; counted among the wrong ones, too */
    uint64_t nan_expected; /* NaN that are expected */
    uint64_t ulp_max;      /* over all numbers */
    double abs_max;
    double rel_max; /* where the expected value is not 0 */
    uint64_t abs_index;
    uint64_t rel_index;
    struct {
        uint64_t index;
        uint64_t got; /* bits */
        uint64_t expected;
    } shown[COMPARE_SHOWN]; /* the first wrong ones */
};

/* An expected NaN is matched by any NaN. */
void scene_compare_arrays(enum pto_dtype dtype, uint64_t count, const void *got,
                          const void *expected, const struct scene_tolerance *tolerance,
                          struct comparison *out);

/* `[2][0][7]` of a row-major index. */
enum { COMPARE_INDEX_MAX = 5 * 12 + 1 };

void scene_compare_print_index(const uint32_t *shapes, uint32_t ndims, uint64_t index,
                               char text[COMPARE_INDEX_MAX]);

#endif
