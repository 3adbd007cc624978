/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of other ranks, as kernels reach them. A kernel gets the address of a
 * context as a scalar: struct pto_comm_context has, for each rank of a domain, where
 * that rank's window is. An address in the own window and the same place in a
 * peer's differ by the distance of the two windows.
 *
 * Order: what a kernel wrote before pto_window_signal is visible to whoever has seen
 * the signal through pto_window_wait, pto_comm_wait or a condition of pto_defer. A
 * signal may also be written with a plain store and a fence of the writer's own.
 *
 * For simulated chips; the code of a real core has the tile library's instructions.
 */
#ifndef PTO_API_WINDOW_H
#define PTO_API_WINDOW_H

#include <string.h>

#include "pto/kernel.h"
#include "pto/status.h"

#ifndef PTO_ON_CORE
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum { PTO_CONTEXT_RANKS = 64 };

/* Ranks and windows, as the reference lays them out: an ABI of 1056 bytes. */
struct pto_comm_context {
    uint64_t work_space; /* 0, or the address of a struct pto_comm_bells */
    uint64_t work_space_bytes;
    uint32_t rank;
    uint32_t rank_count;
    uint64_t window_bytes;
    uint64_t window_in[PTO_CONTEXT_RANKS];  /* where the window of each rank is */
    uint64_t window_out[PTO_CONTEXT_RANKS]; /* the same */
};

/* How a rank that sleeps is woken. */
struct pto_comm_bell {
    uint64_t asleep; /* uint32_t: how many threads sleep, or are about to */
    uint64_t bell;   /* uint32_t: they sleep on it */
};

/* Behind work_space of a context. */
struct pto_comm_bells {
    uint64_t lost; /* uint32_t: not 0 once a rank has died or given up */
    struct pto_comm_bell rank[PTO_CONTEXT_RANKS];
};

#ifdef __cplusplus
#define PTO_CONTEXT_ASSERT static_assert
#else
#define PTO_CONTEXT_ASSERT _Static_assert
#endif
PTO_CONTEXT_ASSERT(sizeof(struct pto_comm_context) == 1056, "a context is an ABI");
PTO_CONTEXT_ASSERT(offsetof(struct pto_comm_context, work_space) == 0, "a context is an ABI");
PTO_CONTEXT_ASSERT(offsetof(struct pto_comm_context, work_space_bytes) == 8, "a context is an ABI");
PTO_CONTEXT_ASSERT(offsetof(struct pto_comm_context, rank) == 16, "a context is an ABI");
PTO_CONTEXT_ASSERT(offsetof(struct pto_comm_context, rank_count) == 20, "a context is an ABI");
PTO_CONTEXT_ASSERT(offsetof(struct pto_comm_context, window_bytes) == 24, "a context is an ABI");
PTO_CONTEXT_ASSERT(offsetof(struct pto_comm_context, window_in) == 32, "a context is an ABI");
PTO_CONTEXT_ASSERT(offsetof(struct pto_comm_context, window_out) == 544, "a context is an ABI");
#undef PTO_CONTEXT_ASSERT

/* What a signal does to its word. */
enum pto_signal { PTO_SIGNAL_SET, PTO_SIGNAL_ADD };

/* When a wait ends: the word is signed. The numbers are the reference's. */
enum pto_compare {
    PTO_COMPARE_EQ,
    PTO_COMPARE_NE,
    PTO_COMPARE_GT,
    PTO_COMPARE_GE,
    PTO_COMPARE_LT,
    PTO_COMPARE_LE
};

/* Whether `word` compares to `value` in this way. */
static inline bool pto_compare_holds(enum pto_compare how, int32_t word, int32_t value)
{
    switch (how) {
    case PTO_COMPARE_EQ:
        return word == value;
    case PTO_COMPARE_NE:
        return word != value;
    case PTO_COMPARE_GT:
        return word > value;
    case PTO_COMPARE_GE:
        return word >= value;
    case PTO_COMPARE_LT:
        return word < value;
    case PTO_COMPARE_LE:
        return word <= value;
    }
    return false;
}

/* Where an address of the own window is in the window of a rank. */
static inline void *pto_window_peer(const struct pto_comm_context *c, uint32_t rank,
                                    const void *own)
{
    return (void *)(uintptr_t)(c->window_in[rank] +
                               ((uint64_t)(uintptr_t)own - c->window_in[c->rank]));
}

/* Wakes the threads of a rank that sleep: after a store that they may wait for. */
static inline void pto_window_ring(const struct pto_comm_context *c, uint32_t rank)
{
#ifndef PTO_ON_CORE
    const struct pto_comm_bells *b = (const struct pto_comm_bells *)(uintptr_t)c->work_space;

    if (b == NULL)
        return;                              /* who waits looks from time to time */
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* either we see the sleeper, or it sees our store */
    if (__atomic_load_n((uint32_t *)(uintptr_t)b->rank[rank].asleep, __ATOMIC_RELAXED) == 0)
        return;
    (void)__atomic_fetch_add((uint32_t *)(uintptr_t)b->rank[rank].bell, 1, __ATOMIC_RELEASE);
    (void)syscall(SYS_futex, (uint32_t *)(uintptr_t)b->rank[rank].bell, FUTEX_WAKE, 0x7fffffff,
                  NULL, NULL, 0);
#else
    (void)c;
    (void)rank;
#endif
}

/* Signals a word of a rank's window; `own` is the same word of the own window. */
static inline void pto_window_signal(const struct pto_comm_context *c, uint32_t rank,
                                     const int32_t *own, enum pto_signal how, int32_t value)
{
    int32_t *word = (int32_t *)pto_window_peer(c, rank, own);

    if (how == PTO_SIGNAL_ADD)
        (void)__atomic_fetch_add(word, value, __ATOMIC_RELEASE);
    else
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
    pto_window_ring(c, rank);
}

/* Copies to a rank's window; `own` is the same place of the own window. */
static inline void pto_window_put(const struct pto_comm_context *c, uint32_t rank, const void *own,
                                  const void *from, uint64_t bytes)
{
    memcpy(pto_window_peer(c, rank, own), from, bytes);
}

/* The same, and then the signal: whoever sees it sees the bytes. */
static inline void pto_window_put_signal(const struct pto_comm_context *c, uint32_t rank,
                                         const void *own, const void *from, uint64_t bytes,
                                         const int32_t *own_word, enum pto_signal how,
                                         int32_t value)
{
    pto_window_put(c, rank, own, from, bytes);
    pto_window_signal(c, rank, own_word, how, value);
}

/* Copies from a rank's window. */
static inline void pto_window_get(const struct pto_comm_context *c, uint32_t rank, const void *own,
                                  void *to, uint64_t bytes)
{
    memcpy(to, pto_window_peer(c, rank, own), bytes);
}

/* Adds to a word of a rank's window and returns what it was. */
static inline int32_t pto_window_fetch_add(const struct pto_comm_context *c, uint32_t rank,
                                           const int32_t *own, int32_t value)
{
    int32_t before =
        __atomic_fetch_add((int32_t *)pto_window_peer(c, rank, own), value, __ATOMIC_ACQ_REL);

    pto_window_ring(c, rank);
    return before;
}

/*
 * Waits for a word of the own window. PTO_EPEER: a rank has died or given up. A kernel
 * has no deadline of its own: its run has one.
 */
static inline int pto_window_wait(const struct pto_comm_context *c, const int32_t *word,
                                  enum pto_compare how, int32_t value)
{
    const struct pto_comm_bells *b = (const struct pto_comm_bells *)(uintptr_t)c->work_space;

    while (!pto_compare_holds(how, __atomic_load_n(word, __ATOMIC_ACQUIRE), value)) {
        if (b != NULL && __atomic_load_n((uint32_t *)(uintptr_t)b->lost, __ATOMIC_RELAXED) != 0)
            return PTO_EPEER;
        pto_pause();
    }
    return PTO_OK;
}

#endif
