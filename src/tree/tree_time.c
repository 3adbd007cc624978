/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time limits of tasks and runs. The time-out of a task begins when it is the first that its child
 * has. A late task's child is killed, because there is no other way to stop a function. After the
 * time-out of a run, no more of its tasks start, and running tasks get no extra time. Threads that
 * wait check the limits before they sleep. Only then is a task found to be the first of its child,
 * so the clock is not read for tasks that end soon. In virtual time the time-out of a task counts
 * real time in which no virtual time passes.
 */
#include <stdio.h>

#include "base/os.h"
#include "tree/tree.h"
#include "tree/tree_run.h"

/*
 * Minimum time that a running task gets when the time-out of its run is over: its child may have
 * just started it.
 */
#define RUN_GRACE_NS 100000000ull
/*
 * How long a member of a group may still run after the child of another member has died: it may be
 * waiting for that member.
 */
#define GROUP_GRACE_NS 500000000ull
/*
 * Extra time that a task on a chip or a nested worker gets after its time-out, to end itself and
 * report what hangs; after that the child is killed.
 */
#define CHIP_GRACE_NS 1000000000ull
/*
 * How long a child may take to report the line at which its late function is, and the interval at
 * which the worker polls for the report.
 */
#define ANSWER_NS 500000000ull
#define LOOK_NS 2000000ull

static uint64_t add_ns(uint64_t from, uint64_t ns)
{
    return ns > UINT64_MAX - from ? UINT64_MAX : from + ns;
}

uint64_t tree_time_after(uint64_t timeout_ns)
{
    return add_ns(os_now_ns(), timeout_ns);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- time limits of tasks ---- */

static uint64_t task_deadline(const struct tree *t, struct tree_child *c)
{
    const struct tree_task *k = &t->task[tree_flight_at(c, 0)->number];
    uint64_t own = add_ns(c->since_ns, k->timeout_ns);
    uint64_t runs = k->run->deadline_ns;

    if (c->kind != PTO_CHILD_SUB)
        own = add_ns(own, CHIP_GRACE_NS);
    if (runs < c->since_ns + RUN_GRACE_NS)
        runs = c->since_ns + RUN_GRACE_NS;
    if (k->group != NULL && k->group->member_died_ns != 0)
        own = smaller(own, k->group->member_died_ns + GROUP_GRACE_NS);
    return smaller(own, runs);
}

/*
 * Asks the child of a late task where its function is, before it is killed. A function may hold any
 * lock, so the child's signal handler answers (child_serve.c). Returns how long to wait for the
 * answer; 0: the answer has arrived, or is overdue.
 */
static uint64_t time_ask_child(struct tree_child *c, uint64_t now)
{
    if (c->kind != PTO_CHILD_SUB)
        return 0;
    if (c->asked_ns == 0) {
        c->asked_ns = now;
        c->link.ops->interrupt(&c->link);
    }
    return now - c->asked_ns >= ANSWER_NS || a32_load_acquire(&c->line->has_end) != 0 ? 0 : LOOK_NS;
}

static uint64_t time_look_at_child(struct tree *t, struct tree_child *c, uint64_t now,
                                   bool has_moved)
{
    uint64_t deadline_ns, wait_ns;

    if (c->state != CHILD_READY || c->in_flight == 0)
        return UINT64_MAX;
    if (!tree_clock_is_first(t, c->index)) {
        /* not late: another child holds up virtual time, and this child may wait for it to pass */
        c->since_ns = 0;
        return UINT64_MAX;
    }
    if (c->since_ns == 0 || has_moved) {
        c->since_ns = now;
        c->asked_ns = 0;
    }
    deadline_ns = task_deadline(t, c);
    if (now < deadline_ns)
        return deadline_ns;
    wait_ns = time_ask_child(c, now);
    if (wait_ns != 0)
        return now + wait_ns;
    c->late_task = tree_flight_at(c, 0)->number;
    c->late_ns = (c->asked_ns != 0 ? c->asked_ns : now) - c->since_ns;
    /* the child gets no more tasks; it counts as dead when the watcher has seen its process end */
    c->state = CHILD_BROKEN;
    tree_child_kill(c);
    return UINT64_MAX;
}

int tree_describe_late(struct tree *t, struct tree_child *c, uint32_t number, char *text,
                       size_t size)
{
    struct tree_task *k = &t->task[number];
    /* the time-out that the task exceeded was its own, not that of its run or of its group */
    bool is_own = false;
    char grace[64] = "", where[320];
    const char *why = "its time-out";

    assert_held(&t->lock);
    if (k->group != NULL && k->group->member_died_ns == 0)
        k->group->member_died_ns = os_now_ns();
    if (c->late_task != number)
        return PTO_EPEER;
    if (k->group != NULL && c->late_ns < k->timeout_ns)
        why = "while the child of another member of its group was dead";
    else if (k->run->deadline_ns <= os_now_ns())
        why = "when the time of its run was over";
    else
        is_own = true;
    if (is_own && c->kind != PTO_CHILD_SUB)
        snprintf(grace, sizeof(grace), " and %.0f s more to end by itself", CHIP_GRACE_NS / 1e9);
    tree_child_describe_place(c, where, sizeof(where));
    snprintf(text, size, "it had not ended after %.3f s, %s%s, and the child was killed%s",
             (double)(is_own ? k->timeout_ns : c->late_ns) / 1e9, why, grace, where);
    return PTO_ETIMEOUT;
}

/* ---- time limits of runs ---- */

static uint64_t look_at_run(struct tree *t, struct tree_run *run, uint64_t now)
{
    struct pto_error error;

    if (run->deadline_ns == UINT64_MAX || run->is_cancelled)
        return UINT64_MAX;
    if (now < run->deadline_ns)
        return run->deadline_ns;
    run->is_cancelled = true;
    pto_error_init(&error);
    error.level = t->level;
    (void)error_setf(
        &error, PTO_ETIMEOUT,
        "the run was not over after its time-out of %.3f s; its other tasks do not start",
        (double)(now - run->begin_ns) / 1e9);
    tree_run_fail(run, -1, &error);
    tree_withdraw(t, run);
    return UINT64_MAX;
}

uint64_t tree_deadline(struct tree *t)
{
    uint64_t now = os_now_ns();
    uint64_t first = UINT64_MAX;
    bool is_over = false;
    bool has_moved = tree_clock_has_moved(t);

    assert_held(&t->lock);
    for (struct tree_run *run = t->runs, *next; t->timed_runs != 0 && run != NULL; run = next) {
        bool was_cancelled = run->is_cancelled;

        next = run->next; /* loaded before look_at_run, which may remove the run from the list */
        first = smaller(first, look_at_run(t, run, now));
        is_over = is_over || (run->is_cancelled && !was_cancelled);
        if (is_over)
            break;
    }
    for (uint32_t i = 0; i < t->child_count; i++)
        first = smaller(first, time_look_at_child(t, &t->child[i], now, has_moved));
    if (!is_over)
        return first;
    tree_dispatch(t); /* a group of the late run may have kept other tasks from starting */
    return now;       /* the caller checks all limits again at once */
}

/* ---- time limits that an orchestration sets ---- */

void tree_run_begin_time(struct tree_run *run)
{
    const struct pto_worker_params *params = &run->tree->params;

    run->task_timeout_ns = params->task_timeout_ns;
    run->deadline_ns = UINT64_MAX;
    tree_run_set_time(run, params->run_timeout_ns);
}

void tree_run_set_time(struct tree_run *run, uint64_t timeout_ns)
{
    assert_held(&run->tree->lock);
    run->tree->timed_runs -= run->deadline_ns != UINT64_MAX;
    run->deadline_ns = timeout_ns != 0 ? add_ns(run->begin_ns, timeout_ns) : UINT64_MAX;
    run->tree->timed_runs += run->deadline_ns != UINT64_MAX;
}

int pto_level_set_timeout(struct pto_level *level, uint64_t timeout_ns)
{
    struct tree_run *run = tree_level_enter(level);

    if (run == NULL)
        return PTO_EINVAL;
    tree_run_set_time(run, timeout_ns != 0 ? timeout_ns : run->tree->params.run_timeout_ns);
    return tree_level_leave(run, PTO_OK);
}

int pto_level_set_task_timeout(struct pto_level *level, uint64_t timeout_ns)
{
    struct tree_run *run = tree_level_enter(level);

    if (run == NULL)
        return PTO_EINVAL;
    run->task_timeout_ns = timeout_ns != 0 ? timeout_ns : run->tree->params.task_timeout_ns;
    return tree_level_leave(run, PTO_OK);
}
