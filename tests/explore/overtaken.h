/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on one word whose store half later loads may overtake, as on Arm: the atomic operation is
 * split into a load and a store. A scenario names the word, and has one thread that stores there in this
 * way, so that a load and a store are as good as the atomic operation.
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
