/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What takes too long. A task has a time-out from the moment at which its child could begin with
 * it; the child is killed then, because there is no other way to stop a function. A run has
 * one if it wants to: then nothing more of it starts, and what runs is given no longer.
 *
 * Whoever waits looks here before it does. That is also when a task is found to be the first of its
 * child: so nobody looks at the clock for tasks that end soon.
 */
#include <stdio.h>

#include "base/os.h"
#include "tree/tree.h"
#include "tree/tree_run.h"

/* What a child may take although its run is over: it may have begun a moment ago. */
#define RUN_GRACE_NS 100000000ull
/* The same if the child of another member of its group died, for which it may wait. */
#define GROUP_GRACE_NS 500000000ull
/* A chip, or a nested worker, ends its run itself, and says what hangs; it is killed if it does not. */
#define CHIP_GRACE_NS 1000000000ull

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

/* ---- tasks ---- */

static uint64_t task_deadline(const struct tree *t, struct tree_child *c)
{
    const struct tree_task *k = &t->task[tree_flight_at(c, 0)->number];
    uint64_t own = add_ns(c->since_ns, k->timeout_ns);
    uint64_t runs = k->run->deadline_ns;

    if (c->kind != PTO_CHILD_SUB)
        own = add_ns(own, CHIP_GRACE_NS);
    if (runs < c->since_ns + RUN_GRACE_NS)
        runs = c->since_ns + RUN_GRACE_NS;
    if (k->group != NULL && k->group->hurt_ns != 0)
        own = smaller(own, k->group->hurt_ns + GROUP_GRACE_NS);
    return smaller(own, runs);
}

static uint64_t time_look_at_child(struct tree *t, struct tree_child *c, uint64_t now)
{
    uint64_t deadline_ns;

    if (c->state != CHILD_READY || c->in_flight == 0)
        return UINT64_MAX;
    if (c->since_ns == 0)
        c->since_ns = now;
    deadline_ns = task_deadline(t, c);
    if (now < deadline_ns)
        return deadline_ns;
    c->late_task = tree_flight_at(c, 0)->number;
    c->late_ns = now - c->since_ns;
    c->state = CHILD_BROKEN; /* until the watcher tells of its end */
    tree_child_kill(c);
    return UINT64_MAX;
}

int tree_tell_late(struct tree *t, struct tree_child *c, uint32_t number, char *text, size_t size)
{
    struct tree_task *k = &t->task[number];
    bool is_own = false; /* its time-out has ended it */
    char grace[64] = "";
    const char *why = "its time-out";

    assert_held(&t->lock);
    if (k->group != NULL && k->group->hurt_ns == 0)
        k->group->hurt_ns = os_now_ns();
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
    snprintf(text, size, "it had not ended after %.3f s, %s%s, and the child was killed",
             (double)(is_own ? k->timeout_ns : c->late_ns) / 1e9, why, grace);
    return PTO_ETIMEOUT;
}

/* ---- runs ---- */

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
    (void)error_tell(&error, PTO_ETIMEOUT,
                     "the run was not over after %.3f s, its time-out: nothing more of it starts",
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

    assert_held(&t->lock);
    for (struct tree_run *run = t->runs, *next; t->timed_runs != 0 && run != NULL; run = next) {
        bool was_cancelled = run->is_cancelled;

        next = run->next; /* it may have ended */
        first = smaller(first, look_at_run(t, run, now));
        is_over = is_over || (run->is_cancelled && !was_cancelled);
        if (is_over)
            break;
    }
    for (uint32_t i = 0; i < t->child_count; i++)
        first = smaller(first, time_look_at_child(t, &t->child[i], now));
    if (!is_over)
        return first;
    tree_dispatch(t); /* a group of it may have been in the way */
    return now;       /* and again */
}

/* ---- what an orchestration sets ---- */

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
