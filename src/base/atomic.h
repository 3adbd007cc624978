/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomic words that threads share. Each is a struct with one member, so that a plain access does
 * not compile, and the memory order is in the name of the operation. The layout is that of the bare
 * integer. Valid C and C++.
 *
 * `atomic_note_read` and `atomic_note_write` mark accesses to plain memory that a pair of these
 * operations protects. Here they do nothing; the model checker (tests/explore) replaces this file
 * and checks each marked access for a race.
 */
#ifndef PTO_ATOMIC_H
#define PTO_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

struct a32 {
    uint32_t v;
};

struct a64 {
    uint64_t v;
};

struct aptr {
    void *v;
};

static inline uint32_t a32_load_relaxed(const struct a32 *a)
{
    return __atomic_load_n(&a->v, __ATOMIC_RELAXED);
}

static inline uint32_t a32_load_acquire(const struct a32 *a)
{
    return __atomic_load_n(&a->v, __ATOMIC_ACQUIRE);
}

static inline void a32_store_relaxed(struct a32 *a, uint32_t v)
{
    __atomic_store_n(&a->v, v, __ATOMIC_RELAXED);
}

static inline void a32_store_release(struct a32 *a, uint32_t v)
{
    __atomic_store_n(&a->v, v, __ATOMIC_RELEASE);
}

/* Additions and subtractions return the old value. */
static inline uint32_t a32_add_relaxed(struct a32 *a, uint32_t v)
{
    return __atomic_fetch_add(&a->v, v, __ATOMIC_RELAXED);
}

static inline uint32_t a32_add_acq_rel(struct a32 *a, uint32_t v)
{
    return __atomic_fetch_add(&a->v, v, __ATOMIC_ACQ_REL);
}

static inline uint32_t a32_sub_relaxed(struct a32 *a, uint32_t v)
{
    return __atomic_fetch_sub(&a->v, v, __ATOMIC_RELAXED);
}

static inline uint32_t a32_sub_acq_rel(struct a32 *a, uint32_t v)
{
    return __atomic_fetch_sub(&a->v, v, __ATOMIC_ACQ_REL);
}

static inline uint32_t a32_swap_acq_rel(struct a32 *a, uint32_t v)
{
    return __atomic_exchange_n(&a->v, v, __ATOMIC_ACQ_REL);
}

/* On failure of the compare-and-swap, *expected is the value found, loaded with acquire. */
static inline bool a32_cas_acq_rel(struct a32 *a, uint32_t *expected, uint32_t v)
{
    return __atomic_compare_exchange_n(&a->v, expected, v, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

static inline bool a32_cas_relaxed(struct a32 *a, uint32_t *expected, uint32_t v)
{
    return __atomic_compare_exchange_n(&a->v, expected, v, false, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED);
}

static inline uint64_t a64_load_relaxed(const struct a64 *a)
{
    return __atomic_load_n(&a->v, __ATOMIC_RELAXED);
}

static inline uint64_t a64_load_acquire(const struct a64 *a)
{
    return __atomic_load_n(&a->v, __ATOMIC_ACQUIRE);
}

static inline void a64_store_release(struct a64 *a, uint64_t v)
{
    __atomic_store_n(&a->v, v, __ATOMIC_RELEASE);
}

static inline void a64_store_relaxed(struct a64 *a, uint64_t v)
{
    __atomic_store_n(&a->v, v, __ATOMIC_RELAXED);
}

static inline bool a64_cas_relaxed(struct a64 *a, uint64_t *expected, uint64_t v)
{
    return __atomic_compare_exchange_n(&a->v, expected, v, false, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED);
}

static inline void *aptr_load_relaxed(const struct aptr *a)
{
    return __atomic_load_n(&a->v, __ATOMIC_RELAXED);
}

static inline void *aptr_load_acquire(const struct aptr *a)
{
    return __atomic_load_n(&a->v, __ATOMIC_ACQUIRE);
}

static inline void aptr_store_relaxed(struct aptr *a, void *v)
{
    __atomic_store_n(&a->v, v, __ATOMIC_RELAXED);
}

static inline void *aptr_swap_acq_rel(struct aptr *a, void *v)
{
    return __atomic_exchange_n(&a->v, v, __ATOMIC_ACQ_REL);
}

/* On failure of the compare-and-swap, *expected is the value found, loaded with acquire. */
static inline bool aptr_cas_acq_rel(struct aptr *a, void **expected, void *v)
{
    return __atomic_compare_exchange_n(&a->v, expected, v, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

/*
 * Full fence, for both sides of a Dekker pair: no access before it is reordered with one after it.
 */
static inline void fence_full(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* Compiler fence: the cheap side of an asymmetric pair, whose other side calls port_fence_all(). */
static inline void fence_light(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void atomic_note_read(const void *p)
{
    (void)p;
}

static inline void atomic_note_write(const void *p)
{
    (void)p;
}

#endif
