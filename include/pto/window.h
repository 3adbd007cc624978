/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of other ranks, as kernels reach them. A kernel gets the address of a
 * context as a scalar: struct pto_comm_context has, for each rank of a domain, where
 * that rank's window is. An address in the own window and the same place in a
 * peer's differ by the distance of the two windows.
 *
 * Order: what a kernel wrote before pto_window_signal is visible to a rank that has seen
 * the signal through pto_window_wait, pto_comm_wait or a condition of pto_defer. A
 * signal may also be written with a plain store and a fence of the writer's own.
 *
 * On the cores of a real chip these functions are scalar loads and stores with cache maintenance.
 * The tile library's instructions move large rows faster.
 */
#ifndef PTO_API_WINDOW_H
#define PTO_API_WINDOW_H

#include "pto/kernel.h"
#include "pto/status.h"

#if !defined(PTO_ON_CORE) && !defined(PTO_ON_CARD) /* a card cannot wake a host */
#include "pto/sim.h"
#pragma weak pto_sim_wake /* a program that has no simulated chip does not need it */
#define PTO_CAN_WAKE 1
#endif

enum { PTO_CONTEXT_RANKS = 64 };

/* Ranks and windows, as the reference lays them out: an ABI of 1056 bytes. */
struct pto_comm_context {
    uint64_t work_space; /* 0, or the address of a struct pto_comm_wakers */
    uint64_t work_space_bytes;
    uint32_t rank;
    uint32_t rank_count;
    uint64_t window_bytes;
    uint64_t window_in[PTO_CONTEXT_RANKS];  /* where the window of each rank is */
    uint64_t window_out[PTO_CONTEXT_RANKS]; /* the same */
};

/* At work_space of a context. */
struct pto_comm_wakers {
    uint64_t lost; /* address of a uint32_t: not 0 once a rank has died or given up */
    uint64_t rank[PTO_CONTEXT_RANKS]; /* the waker of each rank, for pto_wake */
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
static inline PTO_AICORE bool pto_compare_holds(enum pto_compare how, int32_t word, int32_t value)
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

/* Returns a scalar argument that is the address of a context; NULL if it is 0. */
static inline PTO_AICORE PTO_GM const struct pto_comm_context *pto_arg_context(
    PTO_GM const int64_t *args, int index)
{
    return (PTO_GM const struct pto_comm_context *)(uintptr_t)args[index];
}

/* The own window, as a pointer to `type` in global memory. */
#define PTO_WINDOW_OWN(context, type) \
    ((PTO_GM type *)(uintptr_t)(context)->window_in[(context)->rank])

/* Returns where an address of the own window is in the window of a rank. */
static inline PTO_AICORE PTO_GM void *pto_window_peer(PTO_GM const struct pto_comm_context *c,
                                                      uint32_t rank, PTO_GM const void *own)
{
    return (PTO_GM void *)(uintptr_t)(c->window_in[rank] +
                                      ((uint64_t)(uintptr_t)own - c->window_in[c->rank]));
}

/* pto_window_peer with the type of what is there, as C++ and cores want it. */
#define PTO_WINDOW_PEER(context, rank, own, type) \
    ((PTO_GM type *)pto_window_peer(context, rank, own))

/*
 * Wakes the threads that sleep on a waker, after a store that they may wait for. A waker is the address of a
 * uint32_t, which is odd if a thread may sleep; 0: nobody does, or waits poll.
 */
static inline PTO_AICORE void pto_wake(uint64_t waker)
{
#ifdef PTO_CAN_WAKE
    uint32_t *sleepers = (uint32_t *)(uintptr_t)waker;

    if (sleepers == NULL)
        return;
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* either we see the sleeper, or it sees our store */
    if ((__atomic_load_n(sleepers, __ATOMIC_RELAXED) & 1) != 0 && pto_sim_wake != NULL)
        pto_sim_wake(sleepers);
#else
    (void)waker;
#endif
}

/* Wakes the threads of a rank that sleep: after a store that they may wait for. */
static inline PTO_AICORE void pto_window_wake(PTO_GM const struct pto_comm_context *c,
                                              uint32_t rank)
{
#ifdef PTO_CAN_WAKE
    const struct pto_comm_wakers *w = (const struct pto_comm_wakers *)(uintptr_t)c->work_space;

    if (w != NULL)
        pto_wake(w->rank[rank]);
#else
    (void)c;
    (void)rank;
#endif
}

/* Signals a word of a rank's window; `own` is the same word of the own window. */
static inline PTO_AICORE void pto_window_signal(PTO_GM const struct pto_comm_context *c,
                                                uint32_t rank, PTO_GM const int32_t *own,
                                                enum pto_signal how, int32_t value)
{
    PTO_GM uint32_t *word = PTO_WINDOW_PEER(c, rank, own, uint32_t);

    if (how == PTO_SIGNAL_ADD)
        pto_notify_add(word, (uint32_t)value);
    else
        pto_notify_set(word, (uint32_t)value);
    pto_window_wake(c, rank);
}

/* Copies to a rank's window; `own` is the same place of the own window. */
static inline PTO_AICORE void pto_window_put(PTO_GM const struct pto_comm_context *c, uint32_t rank,
                                             PTO_GM const void *own, PTO_GM const void *from,
                                             uint64_t bytes)
{
    pto_copy(pto_window_peer(c, rank, own), from, bytes);
}

/* pto_window_put, then pto_window_signal: a rank that sees the signal sees the bytes. */
static inline PTO_AICORE void pto_window_put_signal(PTO_GM const struct pto_comm_context *c,
                                                    uint32_t rank, PTO_GM const void *own,
                                                    PTO_GM const void *from, uint64_t bytes,
                                                    PTO_GM const int32_t *own_word,
                                                    enum pto_signal how, int32_t value)
{
    pto_window_put(c, rank, own, from, bytes);
    pto_window_signal(c, rank, own_word, how, value);
}

/* Copies from a rank's window. */
static inline PTO_AICORE void pto_window_get(PTO_GM const struct pto_comm_context *c, uint32_t rank,
                                             PTO_GM const void *own, PTO_GM void *to,
                                             uint64_t bytes)
{
    PTO_GM const void *from = pto_window_peer(c, rank, own);

#ifdef PTO_ON_CORE
    pto_lines_fetch(from, bytes);
#endif
    pto_copy(to, from, bytes);
}

#ifndef PTO_ON_CORE /* cores add atomically, but not one of them returns what was there */
/* Adds to a word of a rank's window and returns what it was. */
static inline int32_t pto_window_fetch_add(const struct pto_comm_context *c, uint32_t rank,
                                           const int32_t *own, int32_t value)
{
    int32_t before =
        __atomic_fetch_add((int32_t *)pto_window_peer(c, rank, own), value, __ATOMIC_ACQ_REL);

    pto_window_wake(c, rank);
    return before;
}
#endif

/*
 * Waits for a word of the own window. PTO_EPEER: a rank has died or given up. A kernel
 * has no deadline of its own: its run has one.
 */
static inline PTO_AICORE int pto_window_wait(PTO_GM const struct pto_comm_context *c,
                                             PTO_GM const int32_t *word, enum pto_compare how,
                                             int32_t value)
{
    PTO_GM const struct pto_comm_wakers *w =
        (PTO_GM const struct pto_comm_wakers *)(uintptr_t)c->work_space;

    while (!pto_compare_holds(how, (int32_t)pto_notified((PTO_GM const uint32_t *)word), value)) {
        if (w != NULL && pto_notified((PTO_GM const uint32_t *)(uintptr_t)w->lost) != 0)
            return PTO_EPEER;
        pto_pause();
    }
    return PTO_OK;
}

#endif
