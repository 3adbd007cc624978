/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of other ranks, as kernels access them. A kernel gets the address of a context as a
 * scalar: struct pto_comm_context has the address of the window of each rank of a domain. A place
 * in a peer's window is found by adding the distance of the two windows to its address in the own
 * window.
 *
 * Order: data that a kernel wrote before pto_window_signal is visible to a rank that has seen the
 * signal through pto_window_wait, pto_comm_wait or a condition of pto_defer. A signal may also be
 * written with a fence and a plain store.
 *
 * The windows of ranks on other hosts have no memory here: the functions of this header reach them,
 * plain loads and stores end the run with an error that names the rank. What a kernel sends to such
 * a rank is on its way when the function returns, and arrives in the order in which it was sent;
 * what it asks for takes a round trip.
 *
 * On the cores of a real chip these functions are scalar loads and stores with cache maintenance.
 * The tile library's instructions move large rows faster.
 */
#ifndef PTO_API_WINDOW_H
#define PTO_API_WINDOW_H

#include "pto/kernel.h"
#include "pto/status.h"
#include "pto/wake.h"
#ifdef PTO_CAN_WAKE
#include "pto/window_far.h"
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

/* The wakers of a domain, to which work_space of a context points. */
struct pto_comm_wakers {
    uint64_t lost; /* address of a uint32_t, which is not 0 once a rank has died or aborted */
    uint64_t rank[PTO_CONTEXT_RANKS]; /* waker of each rank, for pto_wake */
    uint64_t far; /* address of a struct pto_comm_far; 0: no rank is on another host */
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

/* Returns the place in a rank's window that corresponds to an address in this rank's own window. */
static inline PTO_AICORE PTO_GM void *pto_window_peer(PTO_GM const struct pto_comm_context *c,
                                                      uint32_t rank, PTO_GM const void *own)
{
    return (PTO_GM void *)(uintptr_t)(c->window_in[rank] +
                                      ((uint64_t)(uintptr_t)own - c->window_in[c->rank]));
}

#ifdef PTO_CAN_WAKE
/* The offset in the own window of an address there. */
static inline uint64_t pto_window_offset(const struct pto_comm_context *c, const void *own)
{
    return (uint64_t)(uintptr_t)own - c->window_in[c->rank];
}

/*
 * What reaches a rank's window if it is on another host; NULL: its window has an address here. Bytes
 * that are not inside the window, and words that are not aligned, end the run.
 */
static inline const struct pto_comm_far *pto_window_reach(const struct pto_comm_context *c,
                                                          uint32_t rank, const void *own,
                                                          uint64_t bytes, uint32_t align)
{
    const struct pto_comm_wakers *w = (const struct pto_comm_wakers *)(uintptr_t)c->work_space;
    const struct pto_comm_far *far;
    uint64_t offset;

    if (w == NULL || c->work_space_bytes < sizeof(*w) || w->far == 0)
        return NULL;
    far = (const struct pto_comm_far *)(uintptr_t)w->far;
    if (rank >= PTO_CONTEXT_RANKS || (far->ranks >> rank & 1) == 0)
        return NULL;
    offset = pto_window_offset(c, own);
    if (offset > c->window_bytes || bytes > c->window_bytes - offset || offset % align != 0)
        __builtin_trap();
    return far;
}
#endif

/* pto_window_peer with the type of the data, as C++ and cores require. */
#define PTO_WINDOW_PEER(context, rank, own, type) \
    ((PTO_GM type *)pto_window_peer(context, rank, own))

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

#ifdef PTO_CAN_WAKE
    const struct pto_comm_far *far = pto_window_reach(c, rank, own, sizeof(*own), sizeof(*own));

    if (far != NULL) {
        pto_far_signal(far, rank, pto_window_offset(c, own), how, value);
        return;
    }
#endif
    if (how == PTO_SIGNAL_ADD)
        pto_notify_add(word, (uint32_t)value);
    else
        pto_notify_set(word, (uint32_t)value);
    pto_window_wake(c, rank);
}

/* Copies to a rank's window; `own` is the address of the same place in this rank's own window. */
static inline PTO_AICORE void pto_window_put(PTO_GM const struct pto_comm_context *c, uint32_t rank,
                                             PTO_GM const void *own, PTO_GM const void *from,
                                             uint64_t bytes)
{
#ifdef PTO_CAN_WAKE
    const struct pto_comm_far *far = pto_window_reach(c, rank, own, bytes, 1);

    if (far != NULL) {
        pto_far_put(far, rank, pto_window_offset(c, own), from, bytes);
        return;
    }
#endif
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
 * Copies from a rank's window; `own` is the address of the same place in this rank's own window.
 * PTO_EPEER: the rank is on another host and lost.
 */
static inline PTO_AICORE int pto_window_get(PTO_GM const struct pto_comm_context *c, uint32_t rank,
                                            PTO_GM const void *own, PTO_GM void *to, uint64_t bytes)
{
    PTO_GM const void *from = pto_window_peer(c, rank, own);

#ifdef PTO_CAN_WAKE
    const struct pto_comm_far *far = pto_window_reach(c, rank, own, bytes, 1);

    if (far != NULL)
        return pto_far_get(far, rank, pto_window_offset(c, own), to, bytes);
#endif
#ifdef PTO_ON_CORE
    pto_lines_fetch(from, bytes);
#endif
    pto_copy(to, from, bytes);
    return PTO_OK;
}

/*
 * Begins to copy from a rank's window to `to`, and adds 1 to a counter when all is copied; both are
 * in this rank's own window. A kernel passes the counter to pto_defer, so that no core waits for a
 * rank on another host.
 */
static inline PTO_AICORE void pto_window_get_later(PTO_GM const struct pto_comm_context *c,
                                                   uint32_t rank, PTO_GM const void *own,
                                                   PTO_GM void *to, uint64_t bytes,
                                                   PTO_GM uint32_t *counter)
{
#ifdef PTO_CAN_WAKE
    const struct pto_comm_far *far = pto_window_reach(c, rank, own, bytes, 1);

    if (far != NULL && pto_window_reach(c, rank, to, bytes, 1) != NULL &&
        pto_window_reach(c, rank, counter, sizeof(*counter), sizeof(*counter)) != NULL) {
        pto_far_get_own(far, rank, pto_window_offset(c, own), pto_window_offset(c, to), bytes,
                        pto_window_offset(c, counter));
        return;
    }
#endif
    (void)pto_window_get(c, rank, own, to, bytes);
    pto_notify_add(counter, 1);
    pto_window_wake(c, c->rank);
}

/* Cores can add atomically, but have no instruction that returns the old value. */
#ifndef PTO_ON_CORE
/*
 * Adds to a 32-bit word of a rank's window and returns the word's old value; 0 if the rank is on
 * another host and lost.
 */
static inline int32_t pto_window_fetch_add(const struct pto_comm_context *c, uint32_t rank,
                                           const int32_t *own, int32_t value)
{
    int32_t before;
#ifdef PTO_CAN_WAKE
    const struct pto_comm_far *far = pto_window_reach(c, rank, own, sizeof(*own), sizeof(*own));

    if (far != NULL)
        return pto_far_fetch_add(far, rank, pto_window_offset(c, own), value);
#endif
    before = __atomic_fetch_add((int32_t *)pto_window_peer(c, rank, own), value, __ATOMIC_ACQ_REL);
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
