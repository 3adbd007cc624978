/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations with a weaker memory order, or none: tools/weaken uses them instead of the engine's
 * operations to see that a scenario fails, and tests of the explorer use some. If the exchange of a
 * compare-and-swap is only a release, its failure is relaxed.
 */
#ifndef PTO_WEAK_H
#define PTO_WEAK_H

#include "base/atomic.h"

static inline uint32_t weak_a32_add_relaxed(struct a32 *a, uint32_t v)
{
    return (uint32_t)explore_add(&a->v, 4, v, EXPLORE_RELAXED);
}

static inline uint32_t weak_a32_add_acquire(struct a32 *a, uint32_t v)
{
    return (uint32_t)explore_add(&a->v, 4, v, EXPLORE_ACQUIRE);
}

static inline uint32_t weak_a32_add_release(struct a32 *a, uint32_t v)
{
    return (uint32_t)explore_add(&a->v, 4, v, EXPLORE_RELEASE);
}

static inline uint32_t weak_a32_sub_relaxed(struct a32 *a, uint32_t v)
{
    return (uint32_t)explore_add(&a->v, 4, 0u - v, EXPLORE_RELAXED);
}

static inline uint32_t weak_a32_sub_acquire(struct a32 *a, uint32_t v)
{
    return (uint32_t)explore_add(&a->v, 4, 0u - v, EXPLORE_ACQUIRE);
}

static inline uint32_t weak_a32_sub_release(struct a32 *a, uint32_t v)
{
    return (uint32_t)explore_add(&a->v, 4, 0u - v, EXPLORE_RELEASE);
}

static inline uint32_t weak_a32_swap_relaxed(struct a32 *a, uint32_t v)
{
    return (uint32_t)explore_swap(&a->v, 4, v, EXPLORE_RELAXED);
}

static inline uint32_t weak_a32_swap_acquire(struct a32 *a, uint32_t v)
{
    return (uint32_t)explore_swap(&a->v, 4, v, EXPLORE_ACQUIRE);
}

static inline uint32_t weak_a32_swap_release(struct a32 *a, uint32_t v)
{
    return (uint32_t)explore_swap(&a->v, 4, v, EXPLORE_RELEASE);
}

static inline bool weak_a32_cas_relaxed(struct a32 *a, uint32_t *expected, uint32_t v)
{
    uint32_t wanted = *expected;

    *expected = (uint32_t)explore_cas32(a, wanted, v, EXPLORE_RELAXED, EXPLORE_RELAXED);
    return *expected == wanted;
}

static inline bool weak_a32_cas_acquire(struct a32 *a, uint32_t *expected, uint32_t v)
{
    uint32_t wanted = *expected;

    *expected = (uint32_t)explore_cas32(a, wanted, v, EXPLORE_ACQUIRE, EXPLORE_ACQUIRE);
    return *expected == wanted;
}

static inline bool weak_a32_cas_release(struct a32 *a, uint32_t *expected, uint32_t v)
{
    uint32_t wanted = *expected;

    *expected = (uint32_t)explore_cas32(a, wanted, v, EXPLORE_RELEASE, EXPLORE_RELAXED);
    return *expected == wanted;
}

static inline void *weak_aptr_swap_relaxed(struct aptr *a, void *v)
{
    return (void *)(uintptr_t)explore_swap(&a->v, sizeof(a->v), (uintptr_t)v, EXPLORE_RELAXED);
}

static inline void *weak_aptr_swap_acquire(struct aptr *a, void *v)
{
    return (void *)(uintptr_t)explore_swap(&a->v, sizeof(a->v), (uintptr_t)v, EXPLORE_ACQUIRE);
}

static inline void *weak_aptr_swap_release(struct aptr *a, void *v)
{
    return (void *)(uintptr_t)explore_swap(&a->v, sizeof(a->v), (uintptr_t)v, EXPLORE_RELEASE);
}

static inline bool weak_aptr_cas_relaxed(struct aptr *a, void **expected, void *v)
{
    void *wanted = *expected;

    *expected = (void *)(uintptr_t)explore_casptr(a, wanted, v, EXPLORE_RELAXED, EXPLORE_RELAXED);
    return *expected == wanted;
}

static inline bool weak_aptr_cas_acquire(struct aptr *a, void **expected, void *v)
{
    void *wanted = *expected;

    *expected = (void *)(uintptr_t)explore_casptr(a, wanted, v, EXPLORE_ACQUIRE, EXPLORE_ACQUIRE);
    return *expected == wanted;
}

static inline bool weak_aptr_cas_release(struct aptr *a, void **expected, void *v)
{
    void *wanted = *expected;

    *expected = (void *)(uintptr_t)explore_casptr(a, wanted, v, EXPLORE_RELEASE, EXPLORE_RELAXED);
    return *expected == wanted;
}

#endif
