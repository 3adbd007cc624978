/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/critical_path.h"

#include <stdlib.h>

/*
 * State of the walk from the end of the run to its begin. The current position is an execution, or
 * a task that occupied no core.
 */
struct walk {
    const struct see_work *w;
    struct see_path path;
    uint32_t room;
    uint32_t task;
    /* index of the current execution; UINT64_MAX: the current task occupied no core */
    uint64_t slice;
    /*
     * begin of the earliest step found so far; the steps cover the time from here to the end of the
     * run
     */
    uint64_t at_ns;
    int status;
};

/* What the current execution waited for last, and when the wait ended. */
struct cause {
    enum see_because because;
    uint64_t ns;
    uint32_t task; /* task that was waited for; PTO_RECORDING_NONE: the host */
    uint64_t slice;
};

static void walk_back(struct walk *k);
static void put_step(struct walk *k, enum see_step_kind kind, uint64_t begin_ns,
                     enum see_because because);
static uint64_t last_slice(const struct see_work *w, uint32_t task);

const char *see_step_name(enum see_step_kind kind)
{
    static const char *const name[] = {
#define X(name, text) [SEE_STEP_##name] = (text),
        SEE_STEP_MAP(X)
#undef X
    };

    return name[kind];
}

const char *see_because_name(enum see_because because)
{
    static const char *const name[] = {
#define X(name, text) [SEE_BECAUSE_##name] = (text),
        SEE_BECAUSE_MAP(X)
#undef X
    };

    return name[because];
}

int see_path_make(const struct see_work *w, struct see_path *out)
{
    const struct see_recording *r = w->r;
    struct walk k = { .w = w, .at_ns = w->end_ns };
    uint64_t end_ns = 0;
    /*
     * Upper limit of the number of steps. It ends the walk if inconsistent times make it go in a
     * circle.
     */
    uint64_t most = 2ull * (w->task_end - w->task_begin) + 2ull * w->core_slices;

    k.task = r->slice[w->slice_begin + w->by_end[w->core_slices - 1]].task;
    for (uint32_t t = w->task_begin; t < w->task_end; t++)
        if (r->task[t].end_ns != PTO_RECORDING_NO_TIME && r->task[t].end_ns > end_ns) {
            end_ns = r->task[t].end_ns;
            k.task = t;
        }
    k.slice = last_slice(w, k.task);
    for (uint64_t i = 0; i < most && k.status == PTO_OK && k.task != PTO_RECORDING_NONE; i++)
        walk_back(&k);
    if (k.status == PTO_OK && k.at_ns > w->begin_ns && k.path.count != 0) {
        k.task = k.path.step[k.path.count - 1].task;
        put_step(&k, SEE_STEP_SUBMIT, w->begin_ns, SEE_BECAUSE_SUBMIT);
    }
    if (k.status < 0) {
        see_path_free(&k.path);
        return k.status;
    }
    /* reverses the steps, so that they are in the order of time */
    for (uint32_t i = 0; i < k.path.count / 2; i++) {
        struct see_step step = k.path.step[i];

        k.path.step[i] = k.path.step[k.path.count - 1 - i];
        k.path.step[k.path.count - 1 - i] = step;
    }
    *out = k.path;
    return PTO_OK;
}

void see_path_free(struct see_path *p)
{
    if (p != NULL)
        free(p->step);
}

/* ---- steps ---- */

static void put_step(struct walk *k, enum see_step_kind kind, uint64_t begin_ns,
                     enum see_because because)
{
    struct see_step *grown = k->path.step;

    if (begin_ns >= k->at_ns && kind != SEE_STEP_EXECUTES)
        return;
    if (begin_ns > k->at_ns)
        begin_ns = k->at_ns;
    if (k->path.count == k->room) {
        k->room = k->room == 0 ? 256 : 2 * k->room;
        grown = realloc(k->path.step, k->room * sizeof(*grown));
        if (grown == NULL) {
            k->status = PTO_ENOMEM;
            return;
        }
        k->path.step = grown;
    }
    grown[k->path.count++] = (struct see_step){ .begin_ns = begin_ns,
                                                .end_ns = k->at_ns,
                                                .slice = k->slice,
                                                .task = k->task,
                                                .kind = (uint8_t)kind,
                                                .because = (uint8_t)because };
    k->path.total_ns[kind] += k->at_ns - begin_ns;
    k->path.because[because] += kind == SEE_STEP_EXECUTES;
    k->at_ns = begin_ns;
}

/* Returns the execution of a task that ended last; UINT64_MAX: the task occupied no core. */
static uint64_t last_slice(const struct see_work *w, uint32_t task)
{
    const struct see_recording *r = w->r;
    uint64_t last = UINT64_MAX;

    for (uint64_t i = r->slice_from[task]; i < r->slice_from[task + 1]; i++)
        if (see_slice_type(r, i) != SEE_TYPES &&
            (last == UINT64_MAX || r->slice[i].end_ns > r->slice[last].end_ns))
            last = i;
    return last;
}

/*
 * Returns the execution, on any core, that ended last up to this time; UINT64_MAX: there is none.
 */
static uint64_t latest_end(const struct see_work *w, uint64_t ns)
{
    const struct see_slice *slice = w->r->slice + w->slice_begin;
    uint32_t low = 0, high = w->core_slices;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (slice[w->by_end[middle]].end_ns <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low == 0 ? UINT64_MAX : w->slice_begin + w->by_end[low - 1];
}

/*
 * Replaces the cause by the execution `slice`, if that ended later than the cause, and before the
 * current execution began.
 */
static void take_cause(const struct see_work *w, struct cause *cause, uint64_t slice,
                       uint64_t begin_ns, enum see_because because)
{
    const struct see_slice *before;

    if (slice == UINT64_MAX)
        return;
    before = &w->r->slice[slice];
    if (before->end_ns <= cause->ns || before->end_ns > begin_ns)
        return;
    *cause = (struct cause){ because, before->end_ns, before->task, slice };
}

/*
 * Returns what the current execution waited for: of its inputs, its core, a host thread and its
 * submit, the one that became available last.
 */
static struct cause find_cause(const struct walk *k, uint64_t begin_ns)
{
    const struct see_work *w = k->w;
    const struct see_recording *r = w->r;
    uint32_t task = k->task - w->task_begin;
    uint32_t by = w->ready_by[task];
    struct cause cause = { SEE_BECAUSE_SUBMIT, w->ready_ns[task], PTO_RECORDING_NONE, UINT64_MAX };

    if (by != PTO_RECORDING_NONE && by >= w->task_begin && by < w->task_end)
        cause = (struct cause){ SEE_BECAUSE_DATA, cause.ns, by, last_slice(w, by) };
    for (uint64_t i = r->slice_from[k->task]; i < r->slice_from[k->task + 1]; i++) {
        uint32_t before;

        if (k->slice == UINT64_MAX || see_slice_type(r, i) == SEE_TYPES ||
            r->slice[i].block != r->slice[k->slice].block)
            continue;
        before = w->previous[i - w->slice_begin];
        if (before != PTO_RECORDING_NONE)
            take_cause(w, &cause, w->slice_begin + before, begin_ns, SEE_BECAUSE_CORE);
    }
    if (w->threads != UINT32_MAX && k->slice != UINT64_MAX)
        take_cause(w, &cause, latest_end(w, begin_ns), begin_ns, SEE_BECAUSE_THREAD);
    return cause;
}

/*
 * Adds the steps for the current execution and for the time before it. Then moves to what the
 * execution waited for.
 */
static void walk_back(struct walk *k)
{
    const struct see_work *w = k->w;
    const struct see_task *task = &w->r->task[k->task];
    uint64_t begin_ns = k->slice != UINT64_MAX ? w->r->slice[k->slice].begin_ns : task->start_ns;
    struct cause cause;

    if (begin_ns == PTO_RECORDING_NO_TIME)
        begin_ns = w->ready_ns[k->task - w->task_begin];
    cause = find_cause(k, begin_ns);
    if (k->slice != UINT64_MAX && w->r->slice[k->slice].end_ns < k->at_ns &&
        (task->flags & PTO_RECORDING_DEFERRED) != 0)
        put_step(k, SEE_STEP_DEFERRED, w->r->slice[k->slice].end_ns, cause.because);
    else if (k->slice != UINT64_MAX)
        put_step(k, SEE_STEP_HANDOVER, w->r->slice[k->slice].end_ns, cause.because);
    put_step(k, SEE_STEP_EXECUTES, begin_ns, cause.because);
    put_step(k, SEE_STEP_HANDOVER, cause.ns, cause.because);
    if (cause.task == PTO_RECORDING_NONE)
        put_step(k, SEE_STEP_SUBMIT, w->begin_ns, cause.because);
    k->task = cause.task;
    k->slice = cause.slice;
}
