/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/idle_time.h"

#include <stdlib.h>
#include <string.h>

/* Number of executions in each state at the current time of the sweep, for each type of core. */
struct counts {
    int64_t running[SEE_TYPES], ready[SEE_TYPES], waiting[SEE_TYPES], future[SEE_TYPES];
};

/*
 * State of a sweep over time through four sorted lists of events: submits, readiness, begins and
 * ends.
 */
struct sweep {
    const struct see_work *w;
    struct counts now;
    /*
     * tasks, as offsets from task_begin: in the order of their submits, and in the order in which
     * they became ready
     */
    uint32_t *by_submit, *by_ready;
    uint64_t *submit_ns;
    uint64_t last_submit_ns;
    uint32_t next_submit, next_ready, next_begin, next_end;
    uint64_t at_ns;
};

static int sort_tasks(struct sweep *s);
static uint64_t next_event(const struct sweep *s);
static uint32_t apply_events(struct sweep *s);
static void add_part(struct sweep *s);
static bool charge_type(const struct sweep *s, uint32_t type, uint64_t ns, struct see_idle *idle);

const char *see_idle_key(enum see_idle_reason reason)
{
    static const char *const text[] = {
#define X(name, key, text) [SEE_IDLE_##name] = (key),
        SEE_IDLE_MAP(X)
#undef X
    };

    return text[reason];
}

const char *see_idle_name(enum see_idle_reason reason)
{
    static const char *const name[] = {
#define X(name, key, text) [SEE_IDLE_##name] = (text),
        SEE_IDLE_MAP(X)
#undef X
    };

    return name[reason];
}

int see_idle_make(const struct see_work *w, struct see_idle *out)
{
    struct sweep s = { .w = w, .at_ns = w->begin_ns };
    struct see_idle idle;
    int status = sort_tasks(&s);

    memset(&idle, 0, sizeof(idle));
    if (status == PTO_OK)
        add_part(&s);
    while (status == PTO_OK && s.at_ns < w->end_ns) {
        uint64_t next_ns = next_event(&s);
        uint32_t starts;

        if (next_ns > w->end_ns)
            next_ns = w->end_ns;
        if (next_ns > s.at_ns) {
            bool is_blocked = false;

            for (uint32_t type = 0; type < SEE_TYPES; type++)
                is_blocked |= charge_type(&s, type, next_ns - s.at_ns, &idle);
            idle.blocked_ns += is_blocked ? next_ns - s.at_ns : 0;
            s.at_ns = next_ns;
        }
        starts = apply_events(&s);
        idle.blocked_starts += starts;
        if (s.at_ns == w->end_ns)
            break;
    }
    for (uint32_t type = 0; type < SEE_TYPES; type++)
        idle.ns[type][SEE_IDLE_UNUSED] =
            (uint64_t)(w->cores[type] - w->used[type]) * (w->end_ns - w->begin_ns);
    free(s.by_submit);
    free(s.by_ready);
    free(s.submit_ns);
    if (status == PTO_OK)
        *out = idle;
    return status;
}

/* ---- events ---- */

static int sort_tasks(struct sweep *s)
{
    const struct see_work *w = s->w;
    uint32_t count = w->task_end - w->task_begin;
    int status;

    s->by_submit = malloc(((size_t)count + 1) * sizeof(*s->by_submit));
    s->by_ready = malloc(((size_t)count + 1) * sizeof(*s->by_ready));
    s->submit_ns = malloc(((size_t)count + 1) * sizeof(*s->submit_ns));
    if (s->by_submit == NULL || s->by_ready == NULL || s->submit_ns == NULL)
        return PTO_ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t submit_ns = w->r->task[w->task_begin + i].submit_ns;

        s->submit_ns[i] = submit_ns < w->ready_ns[i] ? submit_ns : w->ready_ns[i];
        s->by_submit[i] = s->by_ready[i] = i;
        if (s->submit_ns[i] > s->last_submit_ns)
            s->last_submit_ns = s->submit_ns[i];
    }
    status = see_sort(s->submit_ns, s->by_submit, count);
    return status == PTO_OK ? see_sort(w->ready_ns, s->by_ready, count) : status;
}

static uint64_t min_ns(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t next_event(const struct sweep *s)
{
    const struct see_work *w = s->w;
    const struct see_slice *slice = w->r->slice + w->slice_begin;
    uint32_t tasks = w->task_end - w->task_begin;
    uint64_t next = UINT64_MAX;

    if (s->next_submit < tasks)
        next = min_ns(next, s->submit_ns[s->by_submit[s->next_submit]]);
    if (s->next_ready < tasks)
        next = min_ns(next, w->ready_ns[s->by_ready[s->next_ready]]);
    if (s->next_begin < w->core_slices)
        next = min_ns(next, slice[w->by_begin[s->next_begin]].begin_ns);
    if (s->next_end < w->core_slices)
        next = min_ns(next, slice[w->by_end[s->next_end]].end_ns);
    return next;
}

/*
 * Subtracts all executions of a task on cores from one of the counters, and adds them to another.
 */
static void move_task(const struct sweep *s, uint32_t task, int64_t *from, int64_t *to)
{
    const struct see_recording *r = s->w->r;

    task += s->w->task_begin;
    for (uint64_t i = r->slice_from[task]; i < r->slice_from[task + 1]; i++) {
        uint32_t type = see_slice_type(r, i);

        if (type == SEE_TYPES)
            continue;
        from[type]--;
        to[type]++;
    }
}

static bool begins_part(const struct sweep *s)
{
    const struct see_task *task = s->w->r->task + s->w->task_begin;

    return s->next_submit == 0 || task[s->by_submit[s->next_submit]].parent !=
                                      task[s->by_submit[s->next_submit - 1]].parent;
}

/*
 * Called for each submit. If it is the first of a part, adds the executions of the whole part to
 * those that are not submitted yet. A part is the tasks that one task of a worker runs on the chip;
 * without a worker, all tasks are one part.
 */
static void add_part(struct sweep *s)
{
    const struct see_work *w = s->w;
    uint32_t first = s->next_submit, count = w->task_end - w->task_begin;
    uint32_t parent;

    if (first >= count || !begins_part(s))
        return;
    parent = w->r->task[w->task_begin + s->by_submit[first]].parent;
    for (uint32_t i = first; i < count; i++) {
        uint32_t task = w->task_begin + s->by_submit[i];

        if (w->r->task[task].parent != parent)
            break;
        for (uint64_t k = w->r->slice_from[task]; k < w->r->slice_from[task + 1]; k++)
            if (see_slice_type(w->r, k) != SEE_TYPES)
                s->now.future[see_slice_type(w->r, k)]++;
    }
}

/* Applies the events up to the current time. Returns how many executions began. */
static uint32_t apply_events(struct sweep *s)
{
    const struct see_work *w = s->w;
    const struct see_slice *slice = w->r->slice + w->slice_begin;
    uint32_t tasks = w->task_end - w->task_begin;
    uint32_t starts = 0;

    while (s->next_submit < tasks && s->submit_ns[s->by_submit[s->next_submit]] <= s->at_ns) {
        if (s->next_submit != 0)
            add_part(s);
        move_task(s, s->by_submit[s->next_submit++], s->now.future, s->now.waiting);
    }
    while (s->next_ready < tasks && w->ready_ns[s->by_ready[s->next_ready]] <= s->at_ns)
        move_task(s, s->by_ready[s->next_ready++], s->now.waiting, s->now.ready);
    while (s->next_begin < w->core_slices &&
           slice[w->by_begin[s->next_begin]].begin_ns <= s->at_ns) {
        uint32_t type = see_slice_type(w->r, w->slice_begin + w->by_begin[s->next_begin++]);

        s->now.ready[type]--;
        s->now.running[type]++;
        starts++;
    }
    while (s->next_end < w->core_slices && slice[w->by_end[s->next_end]].end_ns <= s->at_ns)
        s->now.running[see_slice_type(w->r, w->slice_begin + w->by_end[s->next_end++])]--;
    return starts;
}

/* ---- reasons ---- */

static uint64_t take(int64_t *idle, int64_t available)
{
    int64_t many = available < *idle ? available : *idle;

    if (many < 0)
        many = 0;
    *idle -= many;
    return (uint64_t)many;
}

/*
 * Returns whether all host threads of a simulated chip are in use. Until the last submit, one of
 * them submits and executes nothing. Returns false if executions do not depend on host threads.
 */
static bool are_threads_busy(const struct sweep *s)
{
    int64_t running = s->now.running[SEE_AIC] + s->now.running[SEE_AIV];
    int64_t submitting = s->at_ns < s->last_submit_ns;

    return s->w->threads != UINT32_MAX && running + submitting >= (int64_t)s->w->threads;
}

/*
 * Returns whether the chip waits for its worker: it has no task of the worker now, and will get
 * another one.
 */
static bool idle_is_outside(const struct sweep *s)
{
    int64_t executions = 0;

    for (uint32_t type = 0; type < SEE_TYPES; type++)
        executions +=
            s->now.running[type] + s->now.ready[type] + s->now.waiting[type] + s->now.future[type];
    return executions == 0 && s->next_submit < s->w->task_end - s->w->task_begin;
}

/*
 * Adds the duration `ns` to the reasons for which the cores of a type were busy or idle in it.
 * Returns whether an execution was ready while a core and a host thread were free for it.
 */
static bool charge_type(const struct sweep *s, uint32_t type, uint64_t ns, struct see_idle *idle)
{
    uint64_t *into = idle->ns[type];
    int64_t cores = (int64_t)s->w->used[type] - s->now.running[type];
    uint64_t ready;

    if (cores < 0)
        cores = 0;
    into[SEE_IDLE_BUSY] += ((uint64_t)s->w->used[type] - (uint64_t)cores) * ns;
    if (s->next_begin == 0) {
        into[SEE_IDLE_BEFORE] += (uint64_t)cores * ns;
        return false;
    }
    ready = take(&cores, s->now.ready[type]);
    into[are_threads_busy(s) ? SEE_IDLE_THREADS : SEE_IDLE_READY] += ready * ns;
    into[SEE_IDLE_DATA] += take(&cores, s->now.waiting[type]) * ns;
    into[SEE_IDLE_SUBMIT] += take(&cores, s->now.future[type]) * ns;
    into[idle_is_outside(s) ? SEE_IDLE_OUTSIDE : SEE_IDLE_TAIL] += (uint64_t)cores * ns;
    return ready != 0 && !are_threads_busy(s);
}
