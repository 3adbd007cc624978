/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of other ranks, as kernels access them. A kernel gets the address of a context as a
 * scalar: struct pto_comm_context has the address of the window of each rank of a domain. Data at
 * the same offset in a peer's window has the address of the data in the own window, plus the
 * distance from the own window to the peer's.
 *
 * Order: data that a kernel wrote before pto_window_signal is visible to a rank that has seen the
 * signal through pto_window_wait, pto_comm_wait or a condition of pto_defer. A signal may also be
 * written with a fence and a plain store.
 *
 * On the cores of a real chip these functions are scalar loads and stores with cache maintenance.
 * The tile library's instructions move large rows faster.
 */
#ifndef PTO_API_WINDOW_H
#define PTO_API_WINDOW_H

#include "pto/kernel.h"
#include "pto/status.h"

/* Hosts and simulated cores can wake threads; a core or the processor of a card cannot. */
#if !defined(PTO_ON_CORE) && !defined(PTO_ON_CARD)
#include "pto/sim.h"
/* a weak symbol, because programs without simulated chips do not have this function */
#pragma weak pto_sim_wake
#pragma weak pto_sim_waits
#define PTO_CAN_WAKE 1
#endif

enum { PTO_CONTEXT_RANKS = 64 };

/*
 * The ranks of a domain and the addresses of their windows, in the reference's layout: an ABI of
 * 1056 bytes.
 */
struct pto_comm_context {
    uint64_t work_space; /* address of a struct pto_comm_wakers; 0: none */
    uint64_t work_space_bytes;
    uint32_t rank;
    uint32_t rank_count;
    uint64_t window_bytes;
    uint64_t window_in[PTO_CONTEXT_RANKS];  /* for reads: address of each rank's window */
    uint64_t window_out[PTO_CONTEXT_RANKS]; /* for writes: address of each rank's window */
};

/*
 * Addresses with which the ranks of a domain wake each other from waits; the field work_space of a
 * domain's context has the address of this struct.
 */
struct pto_comm_wakers {
    uint64_t lost; /* address of a uint32_t, which is not 0 once a rank has died or aborted */
    uint64_t rank[PTO_CONTEXT_RANKS]; /* waker of each rank, for pto_wake */
};

#ifdef __cplusplus
#define PTO_CONTEXT_ASSERT static_assert
#else
#define PTO_CONTEXT_ASSERT _Static_assert
#endif
PTO_CONTEXT_ASSERT(sizeof(struct pto_comm_context) == 1056,
                   "part of the ABI: size and offsets must not change");
PTO_CONTEXT_ASSERT(offsetof(struct pto_comm_context, work_space) == 0,
                   "part of the ABI: size and offsets must not change");
PTO_CONTEXT_ASSERT(offsetof(struct pto_comm_context, work_space_bytes) == 8,
                   "part of the ABI: size and offsets must not change");
PTO_CONTEXT_ASSERT(offsetof(struct pto_comm_context, rank) == 16,
                   "part of the ABI: size and offsets must not change");
PTO_CONTEXT_ASSERT(offsetof(struct pto_comm_context, rank_count) == 20,
                   "part of the ABI: size and offsets must not change");
PTO_CONTEXT_ASSERT(offsetof(struct pto_comm_context, window_bytes) == 24,
                   "part of the ABI: size and offsets must not change");
PTO_CONTEXT_ASSERT(offsetof(struct pto_comm_context, window_in) == 32,
                   "part of the ABI: size and offsets must not change");
PTO_CONTEXT_ASSERT(offsetof(struct pto_comm_context, window_out) == 544,
                   "part of the ABI: size and offsets must not change");
#undef PTO_CONTEXT_ASSERT

/* How a signal changes the word of the window that it names. */
enum pto_signal { PTO_SIGNAL_SET, PTO_SIGNAL_ADD };

/* The condition that ends a wait; the word is signed. The numbers are the reference's. */
enum pto_compare {
    PTO_COMPARE_EQ,
    PTO_COMPARE_NE,
    PTO_COMPARE_GT,
    PTO_COMPARE_GE,
    PTO_COMPARE_LT,
    PTO_COMPARE_LE
};

/* Returns whether the comparison of `word` with `value` holds. */
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

/* The rank's own window, as a pointer to `type` in global memory. */
#define PTO_WINDOW_OWN(context, type) \
    ((PTO_GM type *)(uintptr_t)(context)->window_in[(context)->rank])

/*
 * Returns the address in a rank's window that corresponds to an address in this rank's own window.
 */
static inline PTO_AICORE PTO_GM void *pto_window_peer(PTO_GM const struct pto_comm_context *c,
                                                      uint32_t rank, PTO_GM const void *own)
{
    return (PTO_GM void *)(uintptr_t)(c->window_in[rank] +
                                      ((uint64_t)(uintptr_t)own - c->window_in[c->rank]));
}

/* pto_window_peer with the type of the data, as C++ and cores require. */
#define PTO_WINDOW_PEER(context, rank, own, type) \
    ((PTO_GM type *)pto_window_peer(context, rank, own))

/*
 * Wakes the threads that sleep on a waker, after a store that they may wait for. A waker is the
 * address of a uint32_t, which is odd if a thread may sleep; 0: there is none, and waits poll.
 */
static inline PTO_AICORE void pto_wake(uint64_t waker)
{
#ifdef PTO_CAN_WAKE
    uint32_t *sleepers = (uint32_t *)(uintptr_t)waker;

    if (sleepers == NULL)
        return;
    /* After this fence either this thread sees the sleeper, or the sleeper sees the store. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if ((__atomic_load_n(sleepers, __ATOMIC_RELAXED) & 1) != 0 && pto_sim_wake != NULL)
        pto_sim_wake(sleepers);
#else
    (void)waker;
#endif
}

/* Wakes the sleeping threads of a rank, after a store for which they may wait. */
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

/*
 * Signals a word of a rank's window; `own` is the address of the same word in this rank's own
 * window.
 */
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

/*
 * Copies to a rank's window; `own` is the address with the same offset in this rank's own window.
 */
static inline PTO_AICORE void pto_window_put(PTO_GM const struct pto_comm_context *c, uint32_t rank,
                                             PTO_GM const void *own, PTO_GM const void *from,
                                             uint64_t bytes)
{
    pto_copy(pto_window_peer(c, rank, own), from, bytes);
}

/* pto_window_put, then pto_window_signal: a rank that sees the signal sees the copied data. */
static inline PTO_AICORE void pto_window_put_signal(PTO_GM const struct pto_comm_context *c,
                                                    uint32_t rank, PTO_GM const void *own,
                                                    PTO_GM const void *from, uint64_t bytes,
                                                    PTO_GM const int32_t *own_word,
                                                    enum pto_signal how, int32_t value)
{
    pto_window_put(c, rank, own, from, bytes);
    pto_window_signal(c, rank, own_word, how, value);
}

/*
 * Copies from a rank's window; `own` is the address with the same offset in this rank's own window.
 */
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

/* Cores can add atomically, but have no instruction that returns the old value. */
#ifndef PTO_ON_CORE
/* Adds to a 32-bit word of a rank's window and returns the word's old value. */
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
 * Waits until a word of this rank's own window meets a condition. PTO_EPEER: a rank has died or
 * aborted. The wait has no deadline of its own; that of the run applies.
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
#ifdef PTO_CAN_WAKE
        if (pto_sim_waits != NULL)
            pto_sim_waits();
#endif
        pto_pause();
    }
    return PTO_OK;
}

#endif
