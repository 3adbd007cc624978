/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Element loops of collectives. They have no side effects and no state, so any thread may call
 * them.
 *
 * Elements of 16 bits are computed as float and rounded once, to nearest, ties to even. A NaN
 * result always has the same quiet bit pattern, because which of two NaN payloads an addition keeps
 * depends on the compiler.
 */
#ifndef PTO_REDUCE_H
#define PTO_REDUCE_H

#include <stdbool.h>

#include "pto/collective.h"

/* Whether elements of this type support this reduction. */
bool reduce_has(enum pto_dtype dtype, enum pto_reduce how);

/*
 * Reduces at least two sources, in their order, to `to`, which may be one of them. `copy`, unless
 * NULL, also gets the result.
 */
struct reduce {
    enum pto_dtype dtype;
    enum pto_reduce how;
    const void *const *source;
    uint32_t source_count;
};
void reduce_sources(const struct reduce *r, uint64_t count, void *to, void *copy);

/*
 * reduce_has_weighted: whether elements of a type have weighted sums. reduce_weighted: the sum of
 * the sources times their weights; there may be no sources.
 */
bool reduce_has_weighted(enum pto_dtype dtype);
void reduce_weighted(const struct reduce *r, const float *weights, uint64_t count, void *to);

#endif
