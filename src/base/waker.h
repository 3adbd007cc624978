/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wakers: how threads of several processes wait for each other. A wait spins, then yields, then
 * sleeps on a futex; a store wakes only if a thread may sleep. A waker lies in memory that all of
 * the processes have mapped, and is valid when it is zero.
 *
 * Ordering
 *   F31 waker_wake: store, fence, load `sleepers`   against   waker_sleep: announce in `sleepers`,
 *       fence, check: the waiter sees the store, or the writer sees the sleeper. If the
 *       sleeper can execute a fence on every CPU (`fence` of a wait), the writer needs none.
 *
 * `sleepers` has a bit, set while a thread may sleep, and a count of announcements above it. A
 * writer that finds the bit changes `sequence`, wakes, and then clears the bit, but only if the
 * count is unchanged: a thread that announced itself since then stays announced. So a thread that
 * was woken and does not run yet is not woken again for every store. The bit is cleared last: a
 * process that is killed before has not kept others from waking.
 *
 * A sleeper loads `sequence` before it announces itself. A writer that finds its announcement
 * changes that number, and the futex does not sleep on a changed number.
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
    WAKER_SLEEPS = 1, /* bit of `sleepers`; the same bit is used in include/pto/window.h */
    WAKER_ANNOUNCED = 2,
};

struct waker {
    /* The first field, because kernels use the waker's address as that of this word. */
    alignas(WAKER_LINE) struct a32 sleepers;
    alignas(WAKER_LINE) struct a32 sequence; /* word of the futex; each wake changes it */
    /* adaptive: above WAKER_TRY if spinning was enough in the last waits */
    struct a32 spin_hits;
    /* duration of the last wait that slept, if it was short; 0: it was long */
    struct a32 wait_ns;
};

/*
 * Wakes all sleeping threads, whether `sleepers` shows them or not: for stores without the fence
 * F31.
 */
static inline void waker_wake_always(struct waker *w)
{
    (void)a32_add_acq_rel(&w->sequence, 1);
    os_wake_shared(&w->sequence, UINT32_MAX);
}

/* Whether a thread may sleep. Only a hint, unless the caller executes the fence F31 before. */
static inline bool waker_has_sleepers(const struct waker *w)
{
    /* F31: the caller's fence orders this load, if it needs an order */
    return (a32_load_relaxed(&w->sleepers) & WAKER_SLEEPS) != 0;
}

/* Wakes the threads that `sleepers` shows; called after the store and the fence of F31. */
static inline void waker_wake_sleepers(struct waker *w)
{
    /* F31: the fence of the caller comes before this load */
    uint32_t sleepers = a32_load_relaxed(&w->sleepers);

    if ((sleepers & WAKER_SLEEPS) == 0)
        return;
    waker_wake_always(w);
    (void)a32_cas_acq_rel(&w->sleepers, &sleepers, sleepers & ~(uint32_t)WAKER_SLEEPS);
}

/* Called after a store that a thread may wait for: wakes sleeping threads. */
static inline void waker_wake(struct waker *w)
{
    fence_full(); /* F31: fence between the caller's store and the load of `sleepers` */
    waker_wake_sleepers(w);
}

/* waker_wake for a waker all of whose waits have a `fence`, so that this side needs none. */
static inline void waker_wake_light(struct waker *w)
{
    fence_light(); /* compiler fence only: the sleeper's `fence` acts on this CPU */
    waker_wake_sleepers(w);
}

/*
 * Returns `sequence`, for waits that only waker_wake_always ends: a thread loads the number, checks
 * its condition, and sleeps while the number is unchanged. Such a thread does not announce itself,
 * so other wakes do not reach it.
 */
static inline uint32_t waker_sequence(const struct waker *w)
{
    return a32_load_acquire(&w->sequence);
}

static inline void waker_sleep_on(struct waker *w, uint32_t sequence)
{
    (void)os_wait_shared(&w->sequence, sequence, UINT64_MAX);
}

/*
 * Repairs a waker that another process may have damaged: wakes all threads, and makes the next
 * waker_wake wake again.
 */
void waker_restore(struct waker *w);

/* How long a wait spins and yields before it sleeps. */
struct spin_policy {
    uint32_t spin_ns;      /* how long to spin, if spinning was enough in earlier waits */
    uint32_t yield_ns;     /* how long to yield after spinning */
    uint32_t yield_ns_max; /* maximum of the yield time after waits that slept for a short time */
};
/*
 * Returns the policy for a number of processes that wait for each other; there may be more
 * processes than CPUs.
 */
struct spin_policy waker_spin_policy(uint32_t processes);

struct waker_wait {
    /*
     * Returns whether the awaited value is stored. Called repeatedly, also after it has returned
     * true.
     */
    bool (*holds)(void *context);
    void *context;
    struct spin_policy policy;
    uint64_t deadline_ns; /* UINT64_MAX: none */
    /*
     * A process may store the awaited value without a wake, so a sleeping thread polls at
     * intervals.
     */
    bool is_polled;
    /*
     * Executes a full fence on every CPU that runs a writer; NULL: writers execute their own fence.
     */
    void (*fence)(void);
    /* Optional functions of the owner of the wait, which replace or extend a part of it. */
    /*
     * Called before a sleep and after it; a negative result ends the wait, unless `holds` is true.
     */
    int (*check)(void *owner, bool before_sleep);
    /* Called in place of one step of spinning and yielding. */
    void (*stay_awake)(void *owner, uint64_t waited_ns);
    void *owner;
};

/*
 * Waits until `holds` returns true. Returns PTO_OK, PTO_ETIMEOUT, or the negative result of
 * `check`.
 */
int waker_await(struct waker *w, const struct waker_wait *wait);

#endif
