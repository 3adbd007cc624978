/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks that failed, and the tasks after them. The rule (docs/user/workers.md): a task that comes
 * after one that failed or was skipped does not run, in whichever run, if it was submitted before
 * the program learnt how the run of the failed one ended. It must not matter whether the failure
 * happened before or after the submit.
 *
 * A task that was submitted before the failure has an edge, which tree_poison follows. A task that
 * is submitted after the failure would find no task to depend on. So a task that failed or was
 * skipped stays in the graph, sealed and with its memory, until the end of its run was reported.
 * The graph then calls tree_follows for every later submit that depends on it, by the rules by
 * which it makes edges. So one piece of code, and the order of submits alone, decides which tasks
 * come after which.
 *
 * In the graph's index, a later task may replace an earlier one that used the same memory. So a
 * skipped task also stays as long as any task that caused the skip does (`held`), even if its own
 * run was reported. A join represents tasks of several runs and belongs to none, so it stays while
 * it is held. Such a join may not be over when the last task that held it leaves; then it passes
 * the failure on to tasks submitted before that moment (`until`). A task of a run that ended
 * without being waited for (tree_run_abandon) does the same. No joins are made while tasks are
 * kept, because a join would come after a kept task without an edge.
 */
#include <stdlib.h>

#include "tree/tree.h"
#include "tree/tree_run.h"

struct tree_hold {
    struct tree_hold *next;
    /*
     * in tree_task.holds: the later task of the edge; in the list of a submit (tree->next): the
     * earlier task of the edge
     */
    struct ref ref;
};

/*
 * Adds an entry to a list and counts it. If there is no memory for it, the task is skipped
 * nevertheless, but it may leave the graph before the earlier one.
 */
static void add_hold(struct tree_hold **list, struct ref ref, uint32_t *count)
{
    struct tree_hold *hold = malloc(sizeof(*hold));

    if (hold == NULL)
        return;
    *hold = (struct tree_hold){ *list, ref };
    *list = hold;
    (*count)++;
}

static void poison(struct tree_task *k, const struct tree_task *from)
{
    k->is_poisoned = true;
    if (k->cause_run == 0) {
        k->cause = from->cause;
        k->cause_run = from->cause_run;
    }
}

/* Whether later submits have to find this task, which has failed or was skipped. */
static bool failed_is_open(const struct tree_task *k)
{
    return k->held != 0 || (k->run != NULL && k->run->reported_seq == 0);
}

/* ---- which tasks come after a failed one ---- */

void tree_follows(void *context, const struct slot *before, const struct slot *after)
{
    struct tree *t = context;
    const struct tree_task *k = tree_task_of(t, before);
    uint32_t ignored;

    assert_held(&t->lock);
    (void)after;
    if (k->state != TASK_KEPT)
        /* `before` is no predecessor, but the submitted task itself: a join is being made for it */
        return;
    poison(&t->next, k);
    add_hold(&t->next.holds, slot_ref(before), &ignored);
}

void tree_submitted(struct tree *t, const struct slot *s)
{
    struct tree_task *k = s != NULL ? tree_task_of(t, s) : NULL;

    assert_held(&t->lock);
    if (!t->next.is_poisoned)
        return;
    if (k != NULL)
        poison(k, &t->next);
    while (t->next.holds != NULL) {
        struct tree_hold *hold = t->next.holds;

        t->next.holds = hold->next;
        if (k != NULL)
            add_hold(&t->task[hold->ref.slot].holds, slot_ref(s), &k->held);
        free(hold);
    }
    t->next = (struct tree_task){ 0 };
}

void tree_blame(struct tree *t, struct tree_task *k)
{
    if (k->run == NULL || k->cause_run != 0)
        /*
         * a join has no callable that the error could name, and a skipped task already has a cause
         */
        return;
    k->cause = tree_callable_number(t, &t->callable[k->callable]);
    k->cause_run = k->run->number;
}

void tree_poison(struct tree *t, struct tree_task *k, const struct slot *next)
{
    struct tree_task *after = tree_task_of(t, next);
    bool is_join = slot_is_join(next);
    uint32_t until = k->until;

    assert_held(&t->lock);
    if (after->run == NULL && !is_join)
        return; /* a refused submit leaves a slot without a task */
    if (failed_is_open(k)) {
        poison(after, k);
        add_hold(&k->holds, slot_ref(next), &after->held);
        return;
    }
    if (k->run != NULL && k->run->reported_seq > until)
        until = k->run->reported_seq;
    if (is_join && after->until < until)
        /*
         * the join passes the failure on to those of its successors that were submitted before
         * `until`
         */
        after->until = until;
    if (is_join || next->seq < until)
        poison(after, k);
}

int tree_error_set_cause(struct tree *t, const struct tree_task *k, struct pto_error *error)
{
    const struct tree_callable *c = tree_find_callable(t, k->cause);

    return error_setf(
        error, PTO_EPEER,
        "a task was skipped: it comes after callable '%s' of run %llu of this worker, "
        "which failed; wait for that run, then submit this one again",
        c != NULL ? c->name : "?", (unsigned long long)k->cause_run);
}

/* ---- how long a failed task stays ---- */

bool tree_keep(struct tree *t, const struct slot *s, const struct tree_task *k)
{
    struct tree_task *kept = tree_task_of(t, s);

    assert_held(&t->lock);
    if (!failed_is_open(k)) /* mutation: tree-forgets-failures */
        return false;
    *kept = (struct tree_task){ .state = TASK_KEPT,
                                .held = k->held,
                                .holds = k->holds,
                                .cause = k->cause,
                                .cause_run = k->cause_run,
                                .addresses = k->addresses };
    if (k->run != NULL && k->run->reported_seq == 0) {
        kept->run = k->run;
        kept->next = k->run->kept;
        k->run->kept = s->number;
    }
    if (t->kept_count++ == 0)
        graph_allow_joins(&t->graph, false);
    return true;
}

/*
 * Releases the kept tasks of a list, linked by `next`, from the graph, and then those that only
 * these tasks held there.
 */
static void failed_let_go(struct tree *t, uint32_t list)
{
    while (list != 0) {
        struct slot *s = tree_slot(t, list);
        struct tree_task k = t->task[list];

        assert(k.state == TASK_KEPT && t->kept_count != 0);
        t->task[list] = (struct tree_task){ 0 };
        list = k.next;
        while (k.holds != NULL) {
            struct tree_hold *hold = k.holds;
            struct tree_task *after = &t->task[hold->ref.slot];

            k.holds = hold->next;
            after->until = t->graph.seq;
            if (--after->held == 0 && after->state == TASK_KEPT && after->run == NULL) {
                after->next = list;
                list = hold->ref.slot;
            }
            free(hold);
        }
        tree_unuse_tensors(t, s, k.addresses);
        graph_free_task(&t->graph, s);
        if (--t->kept_count == 0)
            graph_allow_joins(&t->graph, true);
    }
}

void tree_run_reported(struct tree_run *run)
{
    struct tree *t = run->tree;
    uint32_t list = 0, next;

    assert_held(&run->tree->lock);
    if (run->reported_seq == 0)
        run->reported_seq = t->graph.seq;
    for (uint32_t number = run->kept; number != 0; number = next) {
        struct tree_task *k = &t->task[number];

        next = k->next;
        k->run = NULL;
        k->next = 0;
        if (k->held == 0) {
            k->next = list;
            list = number;
        }
    }
    run->kept = 0;
    failed_let_go(t, list);
}
