/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of a worker, as programs launch and wait for them, and the threads that drive the worker. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/os.h"
#include "base/sized.h"
#include "host/handle.h"
#include "pto/run.h"
#include "tree/tree.h"
#include "tree/tree_domain.h"
#include "tree/tree_run.h"
#include "tree/tree_trace.h"

/* ---- driving the worker: reading the children's records, giving them tasks ---- */

struct look {
    struct tree *tree;
    uint32_t changes;
    uint32_t calls;
};

static bool run_has_news(void *context)
{
    const struct look *l = context;

    return a32_load_acquire(&l->tree->changes) != l->changes ||
           a32_load_acquire(&l->tree->shared->calls) != l->calls || tree_has_news(l->tree);
}

/*
 * Waits until something changes for this worker. Releases the lock while it waits. False: the
 * deadline has passed.
 */
static bool await_news(struct tree *t, uint32_t calls, uint64_t deadline_ns)
{
    uint64_t late_ns = tree_deadline(t);
    /* relaxed: `changes` is incremented under the lock */
    struct look l = { t, a32_load_relaxed(&t->changes), calls };
    bool is_there;

    assert_held(&t->lock);
    pthread_mutex_unlock(&t->lock);
    is_there = waker_await(&t->shared->waker,
                           &(struct waker_wait){
                               .holds = run_has_news,
                               .context = &l,
                               .policy = t->spin_policy,
                               .deadline_ns = late_ns < deadline_ns ? late_ns : deadline_ns }) >= 0;
    pthread_mutex_lock(&t->lock);
    if (deadline_ns != UINT64_MAX && os_now_ns() >= deadline_ns)
        /*
         * returns false also if something has changed, because children can cause any number of
         * changes
         */
        return false;
    return is_there || late_ns < deadline_ns;
}

/* Wakes the background thread, if no thread waits in tree_await any more, but runs are live. */
static void hand_over(struct tree *t)
{
    assert_held(&t->lock);
    if (t->waiting != 0 || t->runs == NULL || !t->is_parked)
        return;
    t->is_parked = false;
    (void)a32_add_acq_rel(&t->work, 1);
    os_wake(&t->work, 1);
}

int tree_await(struct tree *t, bool (*holds)(void *context), void *context, uint64_t deadline_ns)
{
    bool is_building = t->building != NULL && pthread_equal(t->building->builder, pthread_self());
    bool is_late = false;
    bool is_first = true;
    bool is_so;

    assert_held(&t->lock);
    t->waiting++;
    for (;;) {
        /* loaded before `holds` is evaluated, so that a change after this load ends the wait */
        uint32_t calls = a32_load_acquire(&t->shared->calls);

        tree_drive(t);
        is_so = holds(context);
        if (is_so || is_late)
            break;
        if (is_first) {
            t->clock.waiting++;
            if (is_building)
                t->building->is_waiting = true;
        }
        is_first = false;
        tree_clock_update(t);
        is_late = !await_news(t, calls, deadline_ns);
    }
    if (!is_first) {
        t->clock.waiting--;
        if (is_building)
            t->building->is_waiting = false;
        tree_clock_update(t);
    }
    t->waiting--;
    hand_over(t);
    return is_so ? PTO_OK : PTO_ETIMEOUT;
}

static void *background_main(void *context)
{
    struct tree *t = context;

    pthread_mutex_lock(&t->lock);
    while (a32_load_acquire(&t->is_closing) == 0) {
        if (t->waiting != 0 || t->runs == NULL) {
            uint32_t work = a32_load_relaxed(&t->work); /* `work` is incremented under the lock */

            t->is_parked = true;
            pthread_mutex_unlock(&t->lock);
            (void)os_wait(&t->work, work, UINT64_MAX);
            pthread_mutex_lock(&t->lock);
            t->is_parked = false;
            continue;
        }
        tree_drive(t);
        tree_clock_update(t);
        if (t->runs != NULL)
            /* `calls` counts writes to regions, for which this thread does not wait */
            (void)await_news(t, a32_load_relaxed(&t->shared->calls), UINT64_MAX);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

int tree_background_start(struct tree *t)
{
    int status = os_thread_start(&t->background, background_main, t);

    t->has_background = status == PTO_OK;
    return status;
}

void tree_background_stop(struct tree *t)
{
    if (!t->has_background)
        return;
    a32_store_release(&t->is_closing, 1);
    (void)a32_add_acq_rel(&t->work, 1);
    os_wake(&t->work, 1);
    waker_wake_always(&t->shared->waker);
    (void)a32_add_acq_rel(&t->changes, 1);
    waker_wake_always(&t->shared->waker);
    pthread_join(t->background, NULL);
    t->has_background = false;
}

/* ---- begin and end of a run ---- */

static void free_abandoned(struct tree_run *run);

void tree_run_ended(struct tree_run *run)
{
    struct tree *t = run->tree;
    struct tree_run **link = &t->runs;

    assert_held(&t->lock);
    while (*link != run)
        link = &(*link)->next;
    *link = run->next;
    tree_domains_of_run(t, run);
    tree_run_set_time(run, 0);
    tree_options_free(run);
    run->report.ns = tree_clock_now(t) - run->clock_begin_ns;
    t->clock.report.makespan_ns = tree_clock_now(t) - t->clock.begin_ns;
    if (t->is_traced)
        tree_trace_run(t, run);
    /*
     * stored under the lock: a thread that sees has_ended has to take the lock before it frees the
     * run
     */
    a32_store_release(&run->has_ended, 1);
    if (run->event >= 0)
        (void)eventfd_write(run->event, 1);
    if (run->is_abandoned)
        free_abandoned(run);
    tree_signal_change(t);
}

static void free_abandoned(struct tree_run *run)
{
    tree_options_free(run);
    if (run->staging != NULL)
        (void)tree_free(run->tree, (uint64_t)(uintptr_t)run->staging, NULL);
    if (run->event >= 0)
        close(run->event);
    free(run);
}

static bool run_can_build(void *context)
{
    return ((const struct tree *)context)->building == NULL;
}

/* Ends the scopes that the orchestration has left open, which is an error of the run. */
static void end_scopes(struct tree *t, struct tree_run *run)
{
    struct pto_error error;

    assert_held(&t->lock);
    if (t->graph.scope_count > 1) {
        pto_error_init(&error);
        error.level = t->level;
        (void)error_setf(&error, PTO_EARGS, "the orchestration left %u scopes open",
                         t->graph.scope_count - 1);
        tree_run_fail(run, -1, &error);
    }
    while (t->graph.scope_count > 0)
        (void)graph_scope_end(&t->graph);
}

/*
 * Calls the orchestration of a run, which submits its tasks. Orchestrations of a worker run one at
 * a time. Called without the lock. PTO_ETIMEOUT: another one did not return before the deadline.
 */
static int run_build(struct tree *t, struct tree_run *run, pto_level_fn fn, void *context,
                     uint64_t deadline_ns)
{
    struct pto_level *level = handle_create(HANDLE_LEVEL, run);
    int status;

    if (level == NULL)
        return PTO_ENOMEM;
    pthread_mutex_lock(&t->lock);
    if (t->building != NULL && pthread_equal(t->building->builder, pthread_self())) {
        status = PTO_EBUSY;
        goto unlock;
    }
    status = tree_await(t, run_can_build, t, deadline_ns);
    if (status >= 0)
        status = tree_graph_refresh(t);
    if (status >= 0)
        status = graph_scope_begin(&t->graph, PTO_SCOPE_AUTO, NULL);
    if (status < 0)
        goto unlock;
    run->builder = pthread_self();
    tree_clock_begin_run(t);
    run->begin_ns = os_now_ns();
    run->clock_begin_ns = tree_clock_now(t);
    run->number = ++t->run_number;
    tree_run_begin_time(run);
    run->is_building = true;
    run->next = t->runs;
    t->runs = run;
    t->building = run;
    tree_clock_update(t);
    pthread_mutex_unlock(&t->lock);

    fn(level, context);

    pthread_mutex_lock(&t->lock);
    run->built_ns = t->is_traced ? tree_clock_now(t) : 0;
    end_scopes(t, run);
    t->building = NULL;
    run->is_building = false;
    t->run_count++;
    tree_clock_update(t);
    if (run->live == 0)
        tree_run_ended(run);
    else
        tree_signal_change(t); /* another thread may wait to call its orchestration */

unlock:
    pthread_mutex_unlock(&t->lock);
    (void)handle_destroy(HANDLE_LEVEL, level);
    return status;
}

static struct tree_run *make_run(struct tree *t)
{
    struct tree_run *run = calloc(1, sizeof(*run));

    if (run == NULL)
        return NULL;
    run->tree = t;
    run->event = -1;
    pto_worker_report_init(&run->report);
    return run;
}

/* Frees a run that has ended, after copying its report. */
static int run_dispose(struct tree_run *run, struct pto_worker_report *report)
{
    struct tree *t = run->tree;
    int status = run->report.error.status;

    sized_write(report, &run->report, sizeof(run->report));
    pthread_mutex_lock(&t->lock);
    tree_run_reported(run);
    t->run_count--;
    pthread_mutex_unlock(&t->lock);
    if (run->event >= 0)
        close(run->event);
    free(run);
    return status;
}

static bool run_has_ended(void *context)
{
    return a32_load_acquire(&((const struct tree_run *)context)->has_ended) != 0;
}

int pto_worker_run(struct pto_worker *worker, pto_level_fn orchestration, void *context,
                   struct pto_worker_report *report)
{
    struct tree_run *run;
    int status;
    struct tree *t = worker_get(worker, &status);

    if (status < 0)
        return status;
    if (orchestration == NULL || !sized_is_valid(report))
        return PTO_EINVAL;
    run = make_run(t);
    if (run == NULL)
        return PTO_ENOMEM;
    status = run_build(t, run, orchestration, context, os_now_ns() + PTO_TIMEOUT_DEFAULT_NS);
    if (status < 0) {
        free(run);
        return status;
    }
    pthread_mutex_lock(&t->lock);
    (void)tree_await(t, run_has_ended, run, UINT64_MAX);
    pthread_mutex_unlock(&t->lock);
    return run_dispose(run, report);
}

int pto_worker_launch(struct pto_worker *worker, pto_level_fn orchestration, void *context,
                      struct pto_worker_run **run_out)
{
    return tree_launch(worker, orchestration, context, os_now_ns() + PTO_TIMEOUT_DEFAULT_NS,
                       run_out);
}

int tree_launch(struct pto_worker *worker, pto_level_fn orchestration, void *context,
                uint64_t deadline_ns, struct pto_worker_run **run_out)
{
    struct tree_run *run;
    struct pto_worker_run *handle;
    int status;
    struct tree *t = worker_get(worker, &status);

    if (status < 0)
        return status;
    if (orchestration == NULL || run_out == NULL)
        return PTO_EINVAL;
    run = make_run(t);
    handle = run != NULL ? handle_create(HANDLE_WORKER_RUN, run) : NULL;
    if (handle == NULL) {
        free(run);
        return PTO_ENOMEM;
    }
    run->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    status = run->event >= 0 ? run_build(t, run, orchestration, context, deadline_ns) : PTO_ESYSTEM;
    if (status < 0) {
        (void)handle_destroy(HANDLE_WORKER_RUN, handle);
        if (run->event >= 0)
            close(run->event);
        free(run);
        return status;
    }
    pthread_mutex_lock(&t->lock);
    hand_over(t);
    pthread_mutex_unlock(&t->lock);
    *run_out = handle;
    return PTO_OK;
}

/* Returns the run of a handle; NULL with a status: the handle is invalid. */
static struct tree_run *worker_run_get(const struct pto_worker_run *handle, int *status_out)
{
    struct tree_run *run = handle_get(HANDLE_WORKER_RUN, handle);

    *status_out = run == NULL ? PTO_EINVAL : *run->tree->own_process == 0 ? PTO_EFORKED : PTO_OK;
    return run;
}

/*
 * Notes that the program learns by polling or by a descriptor that a run has ended. Virtual time
 * then passes without a thread that waits.
 */
static void run_note_poll(struct tree *t)
{
    if (t->clock.shared == NULL)
        return;
    pthread_mutex_lock(&t->lock);
    t->clock.is_polled = true;
    tree_clock_update(t);
    pthread_mutex_unlock(&t->lock);
}

int pto_worker_run_poll(struct pto_worker_run *handle)
{
    int status;
    struct tree_run *run = worker_run_get(handle, &status);

    if (status < 0)
        return status;
    run_note_poll(run->tree);
    return run_has_ended(run) ? PTO_RUN_ENDED : PTO_RUN_PENDING;
}

int pto_worker_run_wait(struct pto_worker_run *handle, uint64_t timeout_ns)
{
    int status;
    struct tree_run *run = worker_run_get(handle, &status);

    if (status < 0)
        return status;
    pthread_mutex_lock(&run->tree->lock);
    status = tree_await(run->tree, run_has_ended, run,
                        tree_time_after(timeout_ns != 0 ? timeout_ns : PTO_TIMEOUT_DEFAULT_NS));
    if (status >= 0)
        tree_run_reported(run);
    pthread_mutex_unlock(&run->tree->lock);
    return status < 0 ? status : run->report.error.status;
}

int pto_worker_run_cancel(struct pto_worker_run *handle)
{
    struct pto_error error;
    int status;
    struct tree_run *run = worker_run_get(handle, &status);

    if (status < 0)
        return status;
    pto_error_init(&error);
    error.level = run->tree->level;
    (void)error_setf(&error, PTO_ECANCELED, "the run was cancelled");
    pthread_mutex_lock(&run->tree->lock);
    tree_drive(run->tree);
    if (!run_has_ended(run) && !run->is_cancelled) {
        run->is_cancelled = true;
        tree_run_fail(run, -1, &error);
        tree_withdraw(run->tree, run);
        tree_dispatch(run->tree); /* a group of this run may have kept other tasks from starting */
    }
    pthread_mutex_unlock(&run->tree->lock);
    return PTO_OK;
}

int pto_worker_run_fd(struct pto_worker_run *handle)
{
    int status;
    struct tree_run *run = worker_run_get(handle, &status);

    if (status < 0)
        return status;
    run_note_poll(run->tree);
    return run->event;
}

int pto_worker_run_finish(struct pto_worker_run *handle, struct pto_worker_report *report)
{
    int status;
    struct tree_run *run = worker_run_get(handle, &status);

    if (status < 0)
        return status;
    if (!sized_is_valid(report))
        return PTO_EINVAL;
    if (!run_has_ended(run))
        return PTO_EBUSY;
    if (handle_destroy(HANDLE_WORKER_RUN, handle) == NULL)
        return PTO_EINVAL;
    return run_dispose(run, report);
}

void tree_run_abandon(struct pto_worker_run *handle, void *staging)
{
    struct tree_run *run = handle_destroy(HANDLE_WORKER_RUN, handle);
    struct tree *t = run->tree;

    pthread_mutex_lock(&t->lock);
    tree_run_reported(run);
    t->run_count--;
    run->is_abandoned = true;
    run->staging = staging;
    if (run_has_ended(run))
        free_abandoned(run);
    pthread_mutex_unlock(&t->lock);
}

void tree_forget_runs(struct tree *t)
{
    while (t->runs != NULL) {
        struct tree_run *run = t->runs;

        t->runs = run->next;
        free_abandoned(run);
    }
}
