/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces src/base/atomic.h in the exploring build. It has the same names and signatures, but each
 * operation lets the explorer choose the next thread, and then acts on the explorer's memory model.
 * This folder comes before src/ in the include path; the code under test is compiled unchanged.
 *
 * Outside of the threads of a scenario, every operation accesses memory directly.
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

#ifdef __cplusplus
extern "C" {
#endif

enum explore_order {
    EXPLORE_RELAXED = 0,
    EXPLORE_ACQUIRE = 1,
    EXPLORE_RELEASE = 2,
    EXPLORE_ACQ_REL = 3,
};

/* `bytes` is 4 or 8. RMW operations return the value before. */
uint64_t explore_load(const void *p, uint32_t bytes, enum explore_order order);
void explore_store(void *p, uint32_t bytes, uint64_t v, enum explore_order order);
uint64_t explore_add(void *p, uint32_t bytes, uint64_t v, enum explore_order order);
uint64_t explore_swap(void *p, uint32_t bytes, uint64_t v, enum explore_order order);

/*
 * Returns the value that was found; the exchange succeeded if that equals `expected`. After a
 * failure the memory order is `fail`.
 */
uint64_t explore_cas32(struct a32 *a, uint32_t expected, uint32_t v, enum explore_order order,
                       enum explore_order fail);
uint64_t explore_cas64(struct a64 *a, uint64_t expected, uint64_t v, enum explore_order order,
                       enum explore_order fail);
uint64_t explore_casptr(struct aptr *a, void *expected, void *v, enum explore_order order,
                        enum explore_order fail);

void explore_fence_full(void);
void explore_fence_light(void);
void explore_note_read(const void *p);
void explore_note_write(const void *p);

#ifdef __cplusplus
}
#endif

static inline uint32_t a32_load_relaxed(const struct a32 *a)
{
    return (uint32_t)explore_load(&a->v, 4, EXPLORE_RELAXED);
}

static inline uint32_t a32_load_acquire(const struct a32 *a)
{
    return (uint32_t)explore_load(&a->v, 4, EXPLORE_ACQUIRE);
}

static inline void a32_store_relaxed(struct a32 *a, uint32_t v)
{
    explore_store(&a->v, 4, v, EXPLORE_RELAXED);
}

static inline void a32_store_release(struct a32 *a, uint32_t v)
{
    explore_store(&a->v, 4, v, EXPLORE_RELEASE);
}

/* Additions and subtractions return the value before. */
static inline uint32_t a32_add_relaxed(struct a32 *a, uint32_t v)
{
    return (uint32_t)explore_add(&a->v, 4, v, EXPLORE_RELAXED);
}

static inline uint32_t a32_add_acq_rel(struct a32 *a, uint32_t v)
{
    return (uint32_t)explore_add(&a->v, 4, v, EXPLORE_ACQ_REL);
}

static inline uint32_t a32_sub_relaxed(struct a32 *a, uint32_t v)
{
    return (uint32_t)explore_add(&a->v, 4, 0u - v, EXPLORE_RELAXED);
}

static inline uint32_t a32_sub_acq_rel(struct a32 *a, uint32_t v)
{
    return (uint32_t)explore_add(&a->v, 4, 0u - v, EXPLORE_ACQ_REL);
}

static inline uint32_t a32_swap_acq_rel(struct a32 *a, uint32_t v)
{
    return (uint32_t)explore_swap(&a->v, 4, v, EXPLORE_ACQ_REL);
}

/* On failure *expected is what was found, loaded with acquire. */
static inline bool a32_cas_acq_rel(struct a32 *a, uint32_t *expected, uint32_t v)
{
    uint32_t wanted = *expected;

    *expected = (uint32_t)explore_cas32(a, wanted, v, EXPLORE_ACQ_REL, EXPLORE_ACQUIRE);
    return *expected == wanted;
}

static inline bool a32_cas_relaxed(struct a32 *a, uint32_t *expected, uint32_t v)
{
    uint32_t wanted = *expected;

    *expected = (uint32_t)explore_cas32(a, wanted, v, EXPLORE_RELAXED, EXPLORE_RELAXED);
    return *expected == wanted;
}

static inline uint64_t a64_load_relaxed(const struct a64 *a)
{
    return explore_load(&a->v, 8, EXPLORE_RELAXED);
}

static inline void a64_store_relaxed(struct a64 *a, uint64_t v)
{
    explore_store(&a->v, 8, v, EXPLORE_RELAXED);
}

static inline uint64_t a64_load_acquire(const struct a64 *a)
{
    return explore_load(&a->v, 8, EXPLORE_ACQUIRE);
}

static inline void a64_store_release(struct a64 *a, uint64_t v)
{
    explore_store(&a->v, 8, v, EXPLORE_RELEASE);
}

static inline bool a64_cas_relaxed(struct a64 *a, uint64_t *expected, uint64_t v)
{
    uint64_t wanted = *expected;

    *expected = explore_cas64(a, wanted, v, EXPLORE_RELAXED, EXPLORE_RELAXED);
    return *expected == wanted;
}

static inline void *aptr_load_relaxed(const struct aptr *a)
{
    return (void *)(uintptr_t)explore_load(&a->v, sizeof(a->v), EXPLORE_RELAXED);
}

static inline void *aptr_load_acquire(const struct aptr *a)
{
    return (void *)(uintptr_t)explore_load(&a->v, sizeof(a->v), EXPLORE_ACQUIRE);
}

static inline void aptr_store_relaxed(struct aptr *a, void *v)
{
    explore_store(&a->v, sizeof(a->v), (uintptr_t)v, EXPLORE_RELAXED);
}

static inline void *aptr_swap_acq_rel(struct aptr *a, void *v)
{
    return (void *)(uintptr_t)explore_swap(&a->v, sizeof(a->v), (uintptr_t)v, EXPLORE_ACQ_REL);
}

/* On failure *expected is what was found, loaded with acquire. */
static inline bool aptr_cas_acq_rel(struct aptr *a, void **expected, void *v)
{
    void *wanted = *expected;

    *expected = (void *)(uintptr_t)explore_casptr(a, wanted, v, EXPLORE_ACQ_REL, EXPLORE_ACQUIRE);
    return *expected == wanted;
}

/*
 * Full fence: orders everything before it before everything after it, for both sides of a Dekker
 * pair.
 */
static inline void fence_full(void)
{
    explore_fence_full();
}

/* The cheap side of an asymmetric pair; the other side calls port_fence_all(). */
static inline void fence_light(void)
{
    explore_fence_light();
}

static inline void atomic_note_read(const void *p)
{
    explore_note_read(p);
}

static inline void atomic_note_write(const void *p)
{
    explore_note_write(p);
}

#endif
