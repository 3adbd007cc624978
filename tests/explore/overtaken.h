/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits atomic operations on one word into a load and a store, so that later loads of the thread
 * can be executed before the store, as on Arm. A scenario names the word, and only one of its
 * threads stores to the word in this way, so the two parts are equivalent to the atomic operation.
 */
#ifndef PTO_OVERTAKEN_H
#define PTO_OVERTAKEN_H

#include "base/atomic.h"

static struct a32 *overtaken_word;

static inline uint32_t model_add(struct a32 *a, uint32_t v)
{
    uint32_t before;

    if (a != overtaken_word)
        return a32_add_acq_rel(a, v);
    before = a32_load_acquire(a);
    a32_store_release(a, before + v);
    return before;
}

static inline uint32_t model_sub(struct a32 *a, uint32_t v)
{
    uint32_t before;

    if (a != overtaken_word)
        return a32_sub_acq_rel(a, v);
    before = a32_load_acquire(a);
    a32_store_release(a, before - v);
    return before;
}

static inline bool model_cas(struct a32 *a, uint32_t *expected, uint32_t v)
{
    uint32_t found;

    if (a != overtaken_word)
        return a32_cas_relaxed(a, expected, v);
    found = a32_load_relaxed(a);
    if (found != *expected) {
        *expected = found;
        return false;
    }
    a32_store_relaxed(a, v);
    return true;
}

#endif
