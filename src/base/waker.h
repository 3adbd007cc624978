/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wakers: how threads of several processes wait for each other. A wait spins, then yields, then
 * sleeps on a futex; a store wakes only if a thread may sleep. A waker lies in memory that all of them
 * have mapped, and is valid when it is zero.
 *
 * Ordering
 *   F31 waker_wake: store, fence, load `sleepers`   against   waker_sleep: announce in `sleepers`,
 *       fence, look: the waiter sees what was stored, or the writer sees the sleeper. If the
 *       sleeper can execute a fence on every CPU (`fence` of a wait), the writer needs none.
 *
 * `sleepers` has a bit, which says that a thread may sleep, and a count of announcements above it. A writer
 * that finds the bit changes `sequence`, wakes, and then clears the bit, but only if the count is the
 * one that it found: a thread that announced itself meanwhile stays announced. So a thread that was
 * woken and does not run yet is not woken again for every store. The bit goes last: a process that is
 * killed before has not kept others from waking.
 *
 * A sleeper loads `sequence` before it announces itself, so whoever finds its announcement changes
 * that number, and the futex does not sleep on a number that has changed.
 */
#ifndef PTO_WAKER_H
#define PTO_WAKER_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/os.h"

enum {
    WAKER_LINE = 64,
    WAKER_SLEEPS = 1, /* bit of `sleepers`; include/pto/window.h has it, too */
    WAKER_ANNOUNCED = 2,
};

struct waker {
    alignas(WAKER_LINE) struct a32 sleepers; /* first: kernels have its address */
    alignas(WAKER_LINE) struct a32 sequence; /* the futex */
    struct a32 spin_hits;                    /* whether spinning was enough in the last waits */
    struct a32 wait_ns;                      /* duration of the last wait that slept, if short */
};

/* Wakes in any case: for stores that F31 does not cover. */
static inline void waker_wake_always(struct waker *w)
{
    (void)a32_add_acq_rel(&w->sequence, 1);
    os_wake_shared(&w->sequence, UINT32_MAX);
}

/* Whether a thread may sleep. A hint, unless F31 comes before it. */
static inline bool waker_has_sleepers(const struct waker *w)
{
    return (a32_load_relaxed(&w->sleepers) & WAKER_SLEEPS) != 0; /* F31 orders */
}

/* Wakes those who sleep, after F31. */
static inline void waker_wake_sleepers(struct waker *w)
{
    uint32_t sleepers = a32_load_relaxed(&w->sleepers); /* F31 orders */

    if ((sleepers & WAKER_SLEEPS) == 0)
        return;
    waker_wake_always(w);
    (void)a32_cas_acq_rel(&w->sleepers, &sleepers, sleepers & ~(uint32_t)WAKER_SLEEPS);
}

/* After a store that a thread may wait for. */
static inline void waker_wake(struct waker *w)
{
    fence_full(); /* F31 */
    waker_wake_sleepers(w);
}

/* The same if all sleepers have a `fence`. */
static inline void waker_wake_light(struct waker *w)
{
    fence_light(); /* the sleeper fences for both */
    waker_wake_sleepers(w);
}

/*
 * Waiting for waker_wake_always only: a thread loads the number, looks, and sleeps while the number is the
 * same. It does not announce itself, so that other wakes pass it by.
 */
static inline uint32_t waker_sequence(const struct waker *w)
{
    return a32_load_acquire(&w->sequence);
}

static inline void waker_sleep_on(struct waker *w, uint32_t sequence)
{
    (void)os_wait_shared(&w->sequence, sequence, UINT64_MAX);
}

/* Repairs a waker that another process may have damaged: wakes all, and the next waker_wake wakes. */
void waker_restore(struct waker *w);

/* How long a wait stays awake. */
struct spin_policy {
    uint32_t spin_ns;      /* spinning, if that was enough in earlier waits */
    uint32_t yield_ns;     /* then yielding */
    uint32_t yield_ns_max; /* the same at most, after waits that slept for a short time */
};
/* For processes that may outnumber the CPUs. */
struct spin_policy waker_spin_policy(uint32_t processes);

struct waker_wait {
    bool (*holds)(void *context); /* loads memory; called often, also after it was true */
    void *context;
    struct spin_policy policy;
    uint64_t deadline_ns; /* UINT64_MAX: none */
    bool is_polled;       /* what is waited for may be stored without a wake */
    void (*fence)(void);  /* on every CPU that runs a writer; NULL: writers have a fence */
    /* This and the next: NULL or a part of the wait that differs; called with `owner`. */
    int (*check)(void *owner, bool before_sleep); /* negative: it ends, unless `holds` does */
    void (*stay_awake)(void *owner, uint64_t waited_ns); /* instead of spinning and yielding once */
    void *owner;
};

/* Waits: PTO_OK, PTO_ETIMEOUT or what `check` returned. */
int waker_await(struct waker *w, const struct waker_wait *wait);

#endif
