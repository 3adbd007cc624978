/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals between kernels whose uses of elements are kept: atomic accesses to the same address, and
 * conditions of pto_defer. What an invocation does is divided into segments. A write is a release:
 * a point, numbered like a segment, that comes after the segment before it and after the points of
 * earlier writes to this address. A read that finds a new point begins a segment after it. This may
 * order more than the kernels rely on, but never less.
 *
 * All functions but sim_signals_begin are called under memory_lock.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"
#include "sim/touched.h"

enum {
    STEPS_MAX = 1024,     /* signals of an invocation that are recorded */
    PLACES_MAX = 1 << 16, /* addresses that are remembered, of all invocations */
};

/* A condition of a task that waits for a counter. */
struct signal_wait {
    uint64_t addr;
    uint32_t expected;
    uint32_t task; /* index of the task */
};

static struct touched_signal *signals_slot(struct touched_signal *place, uint32_t max,
                                           uint64_t addr)
{
    uint32_t at = (uint32_t)(addr * 0x9e3779b97f4a7c15ull >> 32) & (max - 1);

    while (place[at].latest != 0 && place[at].addr != addr)
        at = (at + 1) & (max - 1);
    return &place[at];
}

/* Returns the latest point of an address; 0: none. */
static uint32_t signals_latest(const struct signals *s, uint64_t addr)
{
    return s->max != 0 ? signals_slot(s->place, s->max, addr)->latest : 0;
}

/* Sets the latest point of an address. False: there is no room for another address. */
static bool signals_set(struct signals *s, uint64_t addr, uint32_t point)
{
    struct touched_signal *slot;

    if (2 * s->count >= s->max && s->max < 2 * PLACES_MAX) {
        uint32_t max = s->max != 0 ? 2 * s->max : 64;
        struct touched_signal *more = calloc(max, sizeof(*more));

        if (more == NULL)
            return false;
        for (uint32_t i = 0; i < s->max; i++)
            if (s->place[i].latest != 0)
                *signals_slot(more, max, s->place[i].addr) = s->place[i];
        free(s->place);
        s->place = more;
        s->max = max;
    }
    slot = signals_slot(s->place, s->max, addr);
    if (slot->latest == 0 && s->count >= PLACES_MAX)
        return false;
    s->count += slot->latest == 0;
    *slot = (struct touched_signal){ addr, point };
    return true;
}

static void signals_record(struct sim *m, uint32_t task, enum chip_touch what, uint32_t segment,
                           uint32_t before)
{
    sim_record_touch(
        m, &(struct record_touch){
               .index = task, .argument = -1, .what = what, .segment = segment, .before = before });
}

static void signals_step(struct thread *th, uint32_t segment, uint32_t before)
{
    signals_record(th->sim, th->core.slot->seq - 1, CHIP_TOUCH_STEP, segment, before);
}

/* Ends the current segment of the invocation, and begins another one. */
static void signals_next_segment(struct thread *th)
{
    struct touched *t = th->touched;
    uint32_t before = t->segment;

    t->is_incomplete = !sim_keep_segment(th) || t->is_incomplete;
    touched_next_segment(t);
    t->segment = ++th->sim->signals.segments;
    signals_step(th, t->segment, before);
}

/* Makes sure that the invocation has a segment, which begins with the task. */
static void signals_enter(struct thread *th)
{
    struct touched *t = th->touched;

    if (t->segment != 0)
        return;
    t->segment = ++th->sim->signals.segments;
    signals_step(th, t->segment, 0);
}

/* Called before an atomic write. */
static void signals_release(struct thread *th, uint64_t addr)
{
    struct signals *s = &th->sim->signals;
    uint32_t point = ++s->segments, earlier = signals_latest(s, addr);

    signals_enter(th);
    signals_step(th, point, th->touched->segment);
    if (earlier != 0)
        signals_step(th, point, earlier);
    if (!signals_set(s, addr, point))
        th->touched->has_signals = true;
    signals_next_segment(th);
}

/* Called after an atomic read. */
static void signals_acquire(struct thread *th, uint64_t addr)
{
    struct touched *t = th->touched;
    struct touched_signal *seen = &t->seen[addr / 4 % TOUCHED_SIGNALS];
    uint32_t latest = signals_latest(&th->sim->signals, addr);

    if (seen->addr == addr && seen->latest == latest)
        return;
    *seen = (struct touched_signal){ addr, latest };
    if (latest == 0)
        return;
    signals_enter(th);
    signals_next_segment(th);
    signals_step(th, t->segment, latest); /* mutation: signals-unseen */
}

/*
 * Records the end of each task whose condition on a counter holds now. A task that was ordered after
 * such a task has not begun yet, or calls this before it signals. addr == 0: looks at all counters.
 */
static void signals_end_waits(struct sim *m, uint64_t addr)
{
    struct signals *s = &m->signals;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < s->wait_count; i++) {
        const struct signal_wait *w = &s->wait[i];
        const uint32_t *counter = (const uint32_t *)(uintptr_t)w->addr;

        if ((addr != 0 && w->addr != addr) ||
            __atomic_load_n(counter, __ATOMIC_ACQUIRE) < w->expected)
            s->wait[kept++] = *w;
        else
            signals_record(m, w->task, CHIP_TOUCH_END, 0, signals_latest(s, w->addr));
    }
    s->wait_count = kept;
    /* this load is only a hint, because the lock protects the list */
    a32_store_relaxed(&s->waits, kept);
}

void sim_note_signal(void *context, uint64_t addr, int how)
{
    struct thread *th = context;
    struct sim *m = th->sim;
    struct touched *t = th->touched;

    /* hosts and other ranks, whose signals are not seen, use memory that is not the device's */
    t->has_signals = t->has_signals || t->steps >= STEPS_MAX || !sim_is_memory(m, addr);
    pthread_mutex_lock(&m->memory_lock);
    if (t->steps < STEPS_MAX) {
        uint32_t before = m->signals.segments;

        if ((how & PTO_ACCESS_IS_DONE) == 0)
            signals_release(th, addr);
        else if ((how & PTO_ACCESS_IS_WRITE) == 0)
            signals_acquire(th, addr);
        t->steps += m->signals.segments != before;
    }
    if ((how & PTO_ACCESS_IS_DONE) != 0 && m->signals.wait_count != 0)
        signals_end_waits(m, addr);
    pthread_mutex_unlock(&m->memory_lock);
}

void sim_signals_begin(struct sim *m)
{
    if (a32_load_relaxed(&m->signals.waits) == 0) /* set before the task that waits completes */
        return;
    pthread_mutex_lock(&m->memory_lock);
    signals_end_waits(m, 0);
    pthread_mutex_unlock(&m->memory_lock);
}

void sim_signals_defer(struct thread *th)
{
    struct signals *s = &th->sim->signals;
    const struct core_slab *slab = &th->core.slab;

    for (uint32_t i = 0; i < slab->count && i < PTO_COMPLETIONS_MAX; i++) {
        const struct pto_completion *c = &slab->entry[i];
        struct signal_wait *more;

        if (s->wait_count == s->wait_max) {
            s->wait_max = 2 * s->wait_max + 16;
            more = realloc(s->wait, s->wait_max * sizeof(*more));
            if (more == NULL) {
                s->wait_max = s->wait_count;
                th->touched->has_signals = true;
                return;
            }
            s->wait = more;
        }
        s->wait[s->wait_count++] =
            (struct signal_wait){ c->addr, c->expected, th->core.slot->seq - 1 };
    }
    signals_end_waits(th->sim, 0);
}

void sim_forget_signals(struct sim *m)
{
    if (m->signals.place == NULL && m->signals.wait == NULL)
        return; /* so that runs without --accesses call no allocator */
    free(m->signals.place);
    free(m->signals.wait);
    m->signals = (struct signals){ .place = NULL };
}
