/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/worker_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/*
 * Least shares of the duration of the worker's part from which a task, a wait, busy children, or a
 * chain of tasks is the cause in the verdict.
 */
#define ONE_TASK_MIN 0.5
#define WAIT_MIN 0.3
#define BUSY_MIN 0.75
#define CHAIN_MIN 0.75

static int find_children(struct see_worker *w);
static int find_chain(struct see_worker *w);
static void find_verdict(struct see_worker *w);

uint32_t see_worker_group(const struct see_recording *r)
{
    for (uint32_t g = 0; g < r->group_count; g++)
        if (r->group[g].kind == PTO_RECORDING_GROUP_WORKER)
            return g;
    return PTO_RECORDING_NONE;
}

int see_worker_make(const struct see_recording *r, uint32_t group, struct see_worker **out,
                    struct pto_error *error)
{
    struct see_worker *w = calloc(1, sizeof(*w));
    int status = w != NULL ? see_work_make(r, group, &w->work) : PTO_ENOMEM;

    if (status == PTO_OK) {
        w->r = r;
        status = see_path_make(&w->work, &w->path);
    }
    if (status == PTO_OK)
        status = see_kernel_table_make(&w->work, &w->path, &w->callables);
    if (status == PTO_OK)
        status = find_children(w);
    if (status == PTO_OK)
        status = find_chain(w);
    if (status < 0) {
        see_worker_free(w);
        return error_setf(error, status,
                          status == PTO_EINVAL ? "no child of '%.200s' ran a task"
                                               : "no memory for the analysis of '%.200s'",
                          r->group[group].name);
    }
    find_verdict(w);
    *out = w;
    return PTO_OK;
}

void see_worker_free(struct see_worker *w)
{
    if (w == NULL)
        return;
    see_kernel_table_free(&w->callables);
    see_path_free(&w->path);
    see_work_free(&w->work);
    free(w->child);
    free(w);
}

char *see_child_name(const struct see_recording *r, uint32_t lane, char text[32])
{
    const struct see_lane *of = &r->lane[lane];

    snprintf(text, 32, "%s %u",
             of->kind == PTO_RECORDING_LANE_SUB      ? "SUB worker"
             : of->kind == PTO_RECORDING_LANE_WORKER ? "worker"
                                                     : "chip",
             of->index);
    return text;
}

/* ---- children ---- */

/*
 * Adds the time from `from_ns` to `to_ns` to one of the reasons why a child was idle. Returns where
 * the time of the next reason begins.
 */
static uint64_t charge_until(struct see_child *c, enum see_idle_reason reason, uint64_t from_ns,
                             uint64_t to_ns)
{
    if (to_ns <= from_ns)
        return from_ns;
    c->ns[reason] += to_ns - from_ns;
    return to_ns;
}

/* Adds an execution of a child, and the time before it, which begins at `at_ns`. */
static uint64_t charge_slice(const struct see_worker *w, struct see_child *c,
                             const struct see_slice *slice, uint64_t at_ns)
{
    const struct see_work *work = &w->work;
    const struct see_task *task = &w->r->task[slice->task];
    uint64_t ready_ns = work->ready_ns[slice->task - work->task_begin];
    uint32_t by = work->ready_by[slice->task - work->task_begin];
    uint64_t submit_ns = task->submit_ns < ready_ns ? task->submit_ns : ready_ns;
    uint64_t begin_ns = slice->begin_ns;

    at_ns = charge_until(c, SEE_IDLE_BEFORE, at_ns,
                         begin_ns < work->first_ns ? begin_ns : work->first_ns);
    at_ns = charge_until(c, SEE_IDLE_SUBMIT, at_ns, submit_ns < begin_ns ? submit_ns : begin_ns);
    if (ready_ns > at_ns && ready_ns - at_ns > c->waited_ns && by != PTO_RECORDING_NONE) {
        c->waited_ns = ready_ns - at_ns;
        c->waited_for = by;
    }
    at_ns = charge_until(c, SEE_IDLE_DATA, at_ns, ready_ns < begin_ns ? ready_ns : begin_ns);
    at_ns = charge_until(c, SEE_IDLE_READY, at_ns, begin_ns);
    c->tasks++;
    return charge_until(c, SEE_IDLE_BUSY, at_ns, slice->end_ns);
}

static int find_children(struct see_worker *w)
{
    const struct see_group *g = &w->r->group[w->work.group];
    uint32_t lanes = g->lane_end - g->lane_begin;
    uint64_t *at_ns = calloc(lanes + (size_t)1, sizeof(*at_ns));
    /* for each lane: number of its child */
    uint32_t *number = calloc(lanes + (size_t)1, sizeof(*number));

    w->child = calloc(lanes + (size_t)1, sizeof(*w->child));
    if (at_ns == NULL || number == NULL || w->child == NULL) {
        free(at_ns);
        free(number);
        return PTO_ENOMEM;
    }
    for (uint32_t i = 0; i < lanes; i++) {
        if (see_lane_type(w->r->lane[g->lane_begin + i].kind) == SEE_TYPES)
            continue;
        number[i] = w->child_count;
        at_ns[w->child_count] = w->work.begin_ns;
        w->child[w->child_count++] =
            (struct see_child){ .lane = g->lane_begin + i, .waited_for = PTO_RECORDING_NONE };
    }
    for (uint32_t i = 0; i < w->work.core_slices; i++) {
        const struct see_slice *slice = &w->r->slice[w->work.slice_begin + w->work.by_begin[i]];
        uint32_t c = number[slice->lane - g->lane_begin];

        at_ns[c] = charge_slice(w, &w->child[c], slice, at_ns[c]);
    }
    for (uint32_t i = 0; i < w->child_count; i++)
        (void)charge_until(&w->child[i], w->child[i].tasks != 0 ? SEE_IDLE_TAIL : SEE_IDLE_UNUSED,
                           at_ns[i], w->work.end_ns);
    free(at_ns);
    free(number);
    return PTO_OK;
}

/* ---- bounds ---- */

/*
 * Finds the longest path through the graph, in which edges lead from earlier tasks to later ones.
 */
static int find_chain(struct see_worker *w)
{
    const struct see_recording *r = w->r;
    uint32_t first = w->work.task_begin, count = w->work.task_end - first;
    uint64_t *ns = calloc(count + (size_t)1, sizeof(*ns));

    if (ns == NULL)
        return PTO_ENOMEM;
    for (uint32_t t = 0; t < count; t++) {
        const struct see_task *task = &r->task[first + t];

        for (uint64_t e = r->edge_from[first + t]; e < r->edge_from[first + t + 1]; e++)
            if (r->edge[e].from >= first && r->edge[e].from < first + t &&
                ns[r->edge[e].from - first] > ns[t])
                ns[t] = ns[r->edge[e].from - first];
        if (task->start_ns != PTO_RECORDING_NO_TIME)
            ns[t] += task->end_ns - task->start_ns;
        w->chain_ns = ns[t] > w->chain_ns ? ns[t] : w->chain_ns;
    }
    free(ns);
    w->bound_ns = w->chain_ns;
    for (uint32_t i = 0; i < w->child_count; i++)
        if (w->child[i].ns[SEE_IDLE_BUSY] > w->bound_ns)
            w->bound_ns = w->child[i].ns[SEE_IDLE_BUSY];
    return PTO_OK;
}

/* ---- what limited the worker ---- */

static double worker_share(const struct see_worker *w, uint64_t ns)
{
    uint64_t whole = w->work.end_ns - w->work.begin_ns;

    return (double)ns / (double)(whole != 0 ? whole : 1);
}

/* Returns the longest step of a kind on the critical path; NULL: the path has none. */
static const struct see_step *longest_step(const struct see_worker *w, enum see_step_kind kind)
{
    const struct see_step *longest = NULL;

    for (uint32_t i = 0; i < w->path.count; i++) {
        const struct see_step *step = &w->path.step[i];

        if (step->kind == kind && (longest == NULL || step->end_ns - step->begin_ns >
                                                          longest->end_ns - longest->begin_ns))
            longest = step;
    }
    return longest;
}

/* Returns the average share of the time during which the other children were busy. */
static double others_busy(const struct see_worker *w, const struct see_child *but)
{
    uint64_t sum_ns = 0;

    for (uint32_t i = 0; i < w->child_count; i++)
        sum_ns += &w->child[i] != but ? w->child[i].ns[SEE_IDLE_BUSY] : 0;
    return w->child_count > 1 ? worker_share(w, sum_ns) / (w->child_count - 1) : 0;
}

/* Starts a verdict on a task; for PTO_RECORDING_NONE, the caller sets the kernel. */
static char *verdict_about(struct see_worker *w, enum see_cause cause, uint32_t task)
{
    w->verdict =
        (struct see_verdict){ .cause = cause,
                              .kernel = task != PTO_RECORDING_NONE ? see_task_kernel(w->r, task)
                                                                   : PTO_RECORDING_NONE,
                              .task = task };
    return w->verdict.text;
}

/*
 * Sets the verdict to a task that takes most of the time, or that waits on the critical path.
 * Returns false if there is none.
 */
static bool verdict_of_step(struct see_worker *w)
{
    const struct see_step *step = longest_step(w, SEE_STEP_EXECUTES);
    double submission = worker_share(w, w->path.total_ns[SEE_STEP_SUBMIT]);
    double scheduling = worker_share(w, w->path.total_ns[SEE_STEP_HANDOVER]);
    char task[256], child[32], length[24];

    if (step != NULL && step->slice != UINT64_MAX &&
        worker_share(w, step->end_ns - step->begin_ns) >= ONE_TASK_MIN) {
        snprintf(verdict_about(w, SEE_CAUSE_SLOW_TASK, step->task), SEE_VERDICT_TEXT_MAX,
                 "one slow task: %s on %s takes %.0f %% of the time",
                 see_task_text(w->r, step->task, task, sizeof(task)),
                 see_child_name(w->r, w->r->slice[step->slice].lane, child),
                 100 * worker_share(w, step->end_ns - step->begin_ns));
        return true;
    }
    if (submission < WAIT_MIN && scheduling < WAIT_MIN)
        return false;
    step = longest_step(w, submission >= scheduling ? SEE_STEP_SUBMIT : SEE_STEP_HANDOVER);
    snprintf(
        verdict_about(w, submission >= scheduling ? SEE_CAUSE_SUBMISSION : SEE_CAUSE_SCHEDULING,
                      step->task),
        SEE_VERDICT_TEXT_MAX,
        submission >= scheduling
            ? "serial submission: for %.0f %% of the time the children wait for the "
              "orchestration, longest before %s, for %s"
            : "scheduling cost: for %.0f %% of the time a task of the critical path is ready "
              "and has not begun, longest %s, for %s",
        100 * (submission >= scheduling ? submission : scheduling),
        see_task_text(w->r, step->task, task, sizeof(task)),
        see_time_text((double)(step->end_ns - step->begin_ns), length));
    return true;
}

static const struct see_kernel_row *most_on_path(const struct see_worker *w)
{
    const struct see_kernel_row *most = NULL;

    for (uint32_t i = 0; i < w->callables.count; i++)
        if (most == NULL || w->callables.row[i].path_ns > most->path_ns)
            most = &w->callables.row[i];
    return most;
}

/*
 * Sets the verdict to one child, all children, or a chain of tasks. Returns false if none of these
 * limits the worker.
 */
static bool verdict_of_work(struct see_worker *w)
{
    const struct see_child *busiest = &w->child[0];
    const struct see_kernel_row *row = most_on_path(w);
    const char *name = see_kernel_name(w->r, row != NULL ? row->kernel : PTO_RECORDING_NONE);
    enum see_cause cause = SEE_CAUSE_MIXED;
    double busy, others;
    char child[32];

    for (uint32_t i = 1; i < w->child_count; i++)
        if (w->child[i].ns[SEE_IDLE_BUSY] > busiest->ns[SEE_IDLE_BUSY])
            busiest = &w->child[i];
    see_child_name(w->r, busiest->lane, child);
    busy = worker_share(w, busiest->ns[SEE_IDLE_BUSY]);
    others = others_busy(w, busiest);
    if (worker_share(w, w->chain_ns) >= CHAIN_MIN)
        cause = SEE_CAUSE_CHAIN;
    else if (busy >= BUSY_MIN)
        cause = others < busy / 2 && w->child_count > 1 ? SEE_CAUSE_CHILD : SEE_CAUSE_CORES;
    else
        return false;
    (void)verdict_about(w, cause, PTO_RECORDING_NONE);
    w->verdict.kernel = row != NULL ? row->kernel : PTO_RECORDING_NONE;
    if (cause == SEE_CAUSE_CHAIN)
        snprintf(w->verdict.text, sizeof(w->verdict.text),
                 "a chain of tasks: the longest path through the worker's graph takes %.0f %% of "
                 "the time; '%.100s' takes most of it",
                 100 * worker_share(w, w->chain_ns), name);
    else
        snprintf(w->verdict.text, sizeof(w->verdict.text),
                 cause == SEE_CAUSE_CHILD
                     ? "one child has most of the work: %s is busy for %.0f %% of the time, the "
                       "others for %.0f %%; '%.100s' takes most of the critical path"
                     : "the children are busy: %s for %.0f %% of the time, the others for %.0f %%; "
                       "'%.100s' takes most of the critical path",
                 child, 100 * busy, 100 * others, name);
    return true;
}

static void find_verdict(struct see_worker *w)
{
    enum see_idle_reason most = SEE_IDLE_BEFORE;
    const struct see_kernel_row *row = most_on_path(w);
    uint64_t ns[SEE_IDLE_REASONS] = { 0 };

    if (verdict_of_step(w) || verdict_of_work(w))
        return;
    for (uint32_t i = 0; i < w->child_count; i++)
        for (uint32_t k = 0; k < SEE_IDLE_REASONS; k++)
            ns[k] += w->child[i].ns[k];
    for (uint32_t k = SEE_IDLE_BEFORE; k < SEE_IDLE_REASONS; k++)
        if (ns[k] > ns[most])
            most = (enum see_idle_reason)k;
    (void)verdict_about(w, SEE_CAUSE_MIXED, PTO_RECORDING_NONE);
    w->verdict.kernel = row != NULL ? row->kernel : PTO_RECORDING_NONE;
    snprintf(w->verdict.text, sizeof(w->verdict.text),
             "no single cause: the children are busy for %.0f %% of the time, and most of their "
             "idle time is \"%s\"; '%.100s' takes most of the critical path",
             100 * worker_share(w, ns[SEE_IDLE_BUSY]) / w->child_count, see_idle_name(most),
             see_kernel_name(w->r, w->verdict.kernel));
}
