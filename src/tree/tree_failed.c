/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks that failed, and what comes after them.
 *
 * The rule (docs/user/workers.md): a task that comes after one that failed or was skipped does not run,
 * whichever run it is of, if it was submitted before the program was told how the run of
 * that one ended. It must not matter whether the failure happened before or after the submit.
 *
 * Submitted before the failure, it has an edge, and tree_poison follows that. Submitted after, it
 * would find nothing: so a task that failed or was skipped stays in the graph, sealed and with its
 * memory, until its run's end was told. The graph then calls tree_follows for every submit that
 * comes after it, by the rules by which it makes edges. Which tasks come after which is thus
 * decided by one piece of code, and by the order of submits alone.
 *
 * The records of a later task may take the place of those of an earlier one. So a skipped task also
 * stays as long as any task that it was skipped for does (`held`), even if its own run was told.
 *
 * A join stands for tasks of several runs and is none itself: it stays while it is held. One that is
 * not over when the last task that held it goes passes the failure on to what was submitted before
 * that (`until`). So does a task of a run that ended without being waited for (tree_run_abandon).
 *
 * No joins are made while tasks are kept: they would come after them without an edge.
 */
#include <stdlib.h>

#include "tree/tree.h"
#include "tree/tree_run.h"

struct tree_hold {
    struct tree_hold *next;
    struct ref ref; /* the task that follows; of a submit, the one that it follows */
};

/* Without memory for it the task is skipped all the same, but may go before the one that it follows. */
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

/* Whether submits to come have to find it. */
static bool failed_is_open(const struct tree_task *k)
{
    return k->held != 0 || (k->run != NULL && k->run->told_seq == 0);
}

/* ---- what comes after ---- */

void tree_follows(void *context, const struct slot *before, const struct slot *after)
{
    struct tree *t = context;
    const struct tree_task *k = tree_task_of(t, before);
    uint32_t ignored;

    assert_held(&t->lock);
    (void)after;
    if (k->state != TASK_KEPT)
        return; /* the task itself, while a join is made for it */
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
        return; /* a join, or skipped for another one */
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
        return; /* a submit that was refused: it stands for nothing */
    if (failed_is_open(k)) {
        poison(after, k);
        add_hold(&k->holds, slot_ref(next), &after->held);
        return;
    }
    if (k->run != NULL && k->run->told_seq > until)
        until = k->run->told_seq;
    if (is_join && after->until < until)
        after->until = until; /* what waits for it was submitted before, or not */
    if (is_join || next->seq < until)
        poison(after, k);
}

int tree_tell_cause(struct tree *t, const struct tree_task *k, struct pto_error *error)
{
    const struct tree_callable *c = tree_find_callable(t, k->cause);

    return error_tell(
        error, PTO_EPEER,
        "a task was skipped: it comes after callable '%s' of run %llu of this worker, "
        "which failed; wait for that run, then submit this one again",
        c != NULL ? c->name : "?", (unsigned long long)k->cause_run);
}

/* ---- how long it stays ---- */

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
    if (k->run != NULL && k->run->told_seq == 0) {
        kept->run = k->run;
        kept->next = k->run->kept;
        k->run->kept = s->number;
    }
    if (t->kept_count++ == 0)
        graph_allow_joins(&t->graph, false);
    return true;
}

/* Those of a list, linked by `next`, are kept no longer, nor is what only they held. */
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

void tree_run_told(struct tree_run *run)
{
    struct tree *t = run->tree;
    uint32_t list = 0, next;

    assert_held(&run->tree->lock);
    if (run->told_seq == 0)
        run->told_seq = t->graph.seq;
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
