/* SPDX-License-Identifier: Apache-2.0 */
#include "base/waker.h"

#include "pto/status.h"

enum {
    WAKER_SPIN_NS = 60000,
    WAKER_YIELD_NS = 40000,
    /* how long a wait yields the CPU if processes outnumber the CPUs */
    WAKER_CROWD_YIELD_NS = 60000,
    WAKER_YIELD_NS_MAX = 400000,
    WAKER_LOOKS = 64, /* checks of the condition between two readings of the clock */
    /*
     * Threshold of `spin_hits`: a wait spins while the count is above it, and for one trial when
     * the count equals it; below it, each wait counts down to the next trial.
     */
    WAKER_TRY = 16,
    WAKER_HITS = WAKER_TRY + 4,
    /* First interval at which a sleeping thread checks again by itself, if `is_polled`. */
    WAKER_POLL_NS = 20000,
    WAKER_POLL_NS_MAX = 10000000,
    WAKER_POLL_PART = 8, /* each later interval is this fraction (1/8) of the time waited so far */
};

void waker_restore(struct waker *w)
{
    /* the fence F31 orders these four accesses */
    uint32_t sleepers = a32_load_relaxed(&w->sleepers);

    a32_store_relaxed(&w->spin_hits, 0);
    a32_store_relaxed(&w->wait_ns, 0);
    a32_store_relaxed(&w->sleepers, (sleepers + WAKER_ANNOUNCED) | WAKER_SLEEPS);
    waker_wake_always(w);
}

struct spin_policy waker_spin_policy(uint32_t processes)
{
    bool is_crowded = processes > os_machine_cpu_count();

    return (struct spin_policy){ is_crowded ? 0 : WAKER_SPIN_NS,
                                 is_crowded ? WAKER_CROWD_YIELD_NS : WAKER_YIELD_NS,
                                 WAKER_YIELD_NS_MAX };
}

/* ---- sleeping ---- */

/* Marks `sleepers`: a thread is about to sleep. Returns the new value of the word. */
static uint32_t waker_announce(struct waker *w, bool *is_first_out)
{
    uint32_t before = a32_load_relaxed(&w->sleepers), after;

    do {
        after = (before + WAKER_ANNOUNCED) | WAKER_SLEEPS;
    } while (!a32_cas_relaxed(&w->sleepers, &before, after)); /* F31: the fence follows */
    *is_first_out = (before & WAKER_SLEEPS) == 0;
    return after;
}

/*
 * Sleeps until `holds` returns true, until the deadline, or until `check` returns a negative
 * status, which is returned. Like `holds`, `check` reads words that other threads store before a
 * wake, so it is called at the same points.
 */
static int waker_sleep(struct waker *w, const struct waker_wait *wait, uint64_t until_ns)
{
    /* Acquire: the announcement in `sleepers` must not become visible before this load. */
    uint32_t sequence = a32_load_acquire(&w->sequence);
    bool is_first;
    uint32_t sleepers = waker_announce(w, &is_first);
    int status = PTO_OK;

    if (wait->fence != NULL)
        wait->fence(); /* F31: fence between the announcement and the check, on all CPUs */
    else
        fence_full(); /* F31: fence between the announcement and the check */
    if (!wait->holds(wait->context)) {
        if (wait->check != NULL)
            status = wait->check(wait->owner, true);
        if (status >= 0)
            (void)os_wait_shared(&w->sequence, sequence, until_ns);
    }
    /* If no other thread announced itself before or after this one, writers need not wake any. */
    if (is_first)
        (void)a32_cas_relaxed(&w->sleepers, &sleepers, sleepers & ~(uint32_t)WAKER_SLEEPS);
    return status;
}

/* Returns the latest time at which the next sleep has to end: the deadline, or the next poll. */
static uint64_t sleep_end(const struct waker_wait *wait, uint64_t waited_ns, uint64_t now)
{
    uint64_t pause_ns = waited_ns / WAKER_POLL_PART;

    if (!wait->is_polled)
        return wait->deadline_ns;
    if (pause_ns < WAKER_POLL_NS)
        pause_ns = WAKER_POLL_NS;
    if (pause_ns > WAKER_POLL_NS_MAX)
        pause_ns = WAKER_POLL_NS_MAX;
    return pause_ns < wait->deadline_ns - now ? now + pause_ns : wait->deadline_ns;
}

/* ---- spinning and yielding before a sleep ---- */

/*
 * Adapts `spin_hits` after a wait. The awaited thread may need the CPU on which this thread spins;
 * then spinning only delays it. Earlier waits are the best guess. After some waits without
 * spinning, one wait spins as a trial.
 */
static void note_spin(struct waker *w, bool is_hit)
{
    uint32_t hits = a32_load_relaxed(&w->spin_hits); /* relaxed: spin_hits is only a heuristic */

    a32_store_relaxed(&w->spin_hits, is_hit ? WAKER_HITS : hits != 0 ? hits - 1 : WAKER_TRY);
}

/*
 * Stores how long a wait took. An idle CPU takes longer to wake than all other steps of a wait,
 * most of all on a virtual machine. So after a short sleep the next wait yields for one and a half
 * times as long before it sleeps; a long sleep has no such effect, so that mostly idle processes
 * use no CPU time. (Halt polling of hypervisors works alike.)
 */
static void note_wait(struct waker *w, struct spin_policy policy, uint64_t waited_ns)
{
    a32_store_relaxed(&w->wait_ns, /* relaxed: only a heuristic */
                      waited_ns <= policy.yield_ns_max ? (uint32_t)waited_ns : 0);
}

static uint64_t yield_time(const struct waker *w, struct spin_policy policy)
{
    /* relaxed: an estimate, which a hostile process may have stored */
    uint64_t ns = a32_load_relaxed(&w->wait_ns);

    ns += ns / 2;
    if (ns > policy.yield_ns_max)
        ns = policy.yield_ns_max;
    return ns > policy.yield_ns ? ns : policy.yield_ns;
}

/* The part of a wait before it sleeps: how long it spins and yields. */
struct awake {
    uint64_t spin_ns, yield_ns;
    bool is_spin_noted;
};

static bool spin(struct waker *w, const struct waker_wait *wait)
{
    for (uint32_t i = 0; i < WAKER_LOOKS; i++) {
        os_pause();
        if (wait->holds(wait->context)) {
            note_spin(w, true);
            return true;
        }
    }
    return false;
}

/* Does one step of a wait before it sleeps: spins, yields, or calls the owner's `stay_awake`. */
static void stay_awake(struct waker *w, const struct waker_wait *wait, const struct awake *a,
                       uint64_t waited_ns)
{
    if (wait->stay_awake != NULL)
        wait->stay_awake(wait->owner, waited_ns);
    else if (waited_ns < a->spin_ns)
        (void)spin(w, wait);
    else
        os_yield();
}

/*
 * Decides how long a wait spins and yields before it sleeps, and spins for the first time. True:
 * `holds` has returned true.
 */
static bool awake_begin(struct waker *w, const struct waker_wait *wait, struct awake *a)
{
    uint32_t hits = a32_load_relaxed(&w->spin_hits); /* relaxed: spin_hits is only a heuristic */

    if (wait->holds(wait->context))
        return true;
    if (wait->stay_awake != NULL) {
        *a = (struct awake){ wait->policy.spin_ns, wait->policy.yield_ns, true };
        return false;
    }
    *a = (struct awake){ hits > WAKER_TRY ? wait->policy.spin_ns : 0, yield_time(w, wait->policy),
                         false };
    return hits >= WAKER_TRY && spin(w, wait);
}

int waker_await(struct waker *w, const struct waker_wait *wait)
{
    struct awake a;
    uint64_t begin_ns, now;
    int status = PTO_OK;

    if (awake_begin(w, wait, &a))
        return PTO_OK;
    for (begin_ns = now = os_now_ns();; now = os_now_ns()) {
        uint64_t waited_ns = now - begin_ns;
        bool sleeps = waited_ns >= a.spin_ns + a.yield_ns;

        if (wait->check != NULL)
            status = wait->check(wait->owner, false);
        if (status < 0)
            return wait->holds(wait->context) ? PTO_OK : status;
        if (now >= wait->deadline_ns)
            return PTO_ETIMEOUT;
        if (waited_ns >= a.spin_ns && !a.is_spin_noted) {
            note_spin(w, false);
            a.is_spin_noted = true;
        }
        if (sleeps)
            status = waker_sleep(w, wait, sleep_end(wait, waited_ns, now));
        else
            stay_awake(w, wait, &a, waited_ns);
        if (wait->holds(wait->context)) {
            if (sleeps && wait->stay_awake == NULL)
                note_wait(w, wait->policy, os_now_ns() - begin_ns);
            return PTO_OK;
        }
        if (status < 0)
            return status;
    }
}
