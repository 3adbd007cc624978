/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops over elements: what collectives compute. Pure; any thread.
 *
 * Elements of 16 bits are computed as float and rounded once, to the nearest, ties to even. A
 * result that is no number is always the same quiet NaN: which of two payloads survives an
 * addition depends on how a compiler orders it.
 */
#ifndef PTO_REDUCE_H
#define PTO_REDUCE_H

#include <stdbool.h>

#include "pto/collective.h"

/* Whether elements of this type can be reduced in this way. */
bool reduce_has(enum pto_dtype dtype, enum pto_reduce how);

/*
 * Reduces the sources, at least two, in their order. `to` may be one of them. `copy`, unless NULL,
 * gets the result, too.
 */
struct reduce {
    enum pto_dtype dtype;
    enum pto_reduce how;
    const void *const *source;
    uint32_t source_count;
};
void reduce_sources(const struct reduce *r, uint64_t count, void *to, void *copy);

/* Sums the sources, which may be none, times their weights. */
bool reduce_has_weighted(enum pto_dtype dtype);
void reduce_weighted(const struct reduce *r, const float *weights, uint64_t count, void *to);

#endif
