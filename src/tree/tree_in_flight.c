/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks in flight: those that were written to the stream of a child. The child may not have started
 * them yet.
 */
#include "tree/tree.h"

struct tree_flight *tree_flight_at(struct tree_child *c, uint32_t index)
{
    return &c->flight[(c->flight_first + index) % TREE_CREDITS];
}

static bool is_flexible(const struct tree_task *k)
{
    return k->group == NULL && (k->children & (k->children - 1)) != 0;
}

/*
 * Called when another task becomes the child's first one. An answer about the previous first task
 * is dropped.
 */
static void forget_first(struct tree_child *c)
{
    if (c->asked_ns != 0 && c->state == CHILD_READY)
        a32_store_release(&c->line->has_end, 0);
    c->since_ns = c->asked_ns = 0;
}

void tree_flight_add(struct tree *t, struct tree_child *c, uint32_t number)
{
    /*
     * no task is taken back in virtual time: which tasks a child has started depends on real time
     */
    bool is_open = t->clock.shared == NULL && is_flexible(&t->task[number]);

    assert_held(&t->lock);
    assert(c->in_flight < TREE_CREDITS);
    if (c->in_flight == 0)
        forget_first(c);
    *tree_flight_at(c, c->in_flight++) =
        (struct tree_flight){ number, is_open, c->link.line->out.last };
    t->open_count += is_open;
}

uint32_t tree_flight_remove(struct tree *t, struct tree_child *c, uint32_t index)
{
    struct tree_flight gone = *tree_flight_at(c, index);

    assert_held(&t->lock);
    assert(index < c->in_flight);
    if (index == 0)
        forget_first(c);
    t->open_count -= gone.is_open;
    for (; index > 0; index--)
        *tree_flight_at(c, index) = *tree_flight_at(c, index - 1);
    c->flight_first = (c->flight_first + 1) % TREE_CREDITS;
    c->in_flight--;
    tree_clock_ended(t, c->index);
    return gone.number;
}

bool tree_flight_take_back(struct tree *t, struct tree_child *c, uint32_t index)
{
    struct tree_flight *f = tree_flight_at(c, index);
    uint32_t number;

    assert_held(&t->lock);
    if (!channel_take_back(&c->link.line->out, f->sent)) {
        t->open_count -= f->is_open;
        f->is_open = false;
        return false;
    }
    number = tree_flight_remove(t, c, index);
    t->task[number].state = TASK_READY;
    t->task[number].child = -1;
    t->ready_count++;
    return true;
}

void tree_flight_recall(struct tree *t, struct tree_child *c, const struct tree_run *run)
{
    for (uint32_t i = 0; i < c->in_flight;) {
        uint32_t number = tree_flight_at(c, i)->number;
        const struct tree_task *k = &t->task[number];

        /*
         * A member of a group is left to run: the other members may have started, and wait for it.
         */
        if (k->run == run && k->group == NULL && tree_flight_take_back(t, c, i))
            /*
             * puts the task back into its list of ready tasks, unless it is skipped: the caller
             * skips the tasks that are in lists
             */
            tree_shared_queue_push(t, number);
        else
            i++;
    }
}

void tree_flight_rescue(struct tree *t, struct tree_child *c, uint64_t ready)
{
    for (uint32_t i = 0; i < c->in_flight;) {
        struct tree_flight *f = tree_flight_at(c, i);
        uint32_t number = f->number;

        if (f->is_open && (t->task[number].children & ready) != 0 && tree_flight_take_back(t, c, i))
            tree_shared_queue_push(t, number);
        else
            i++;
    }
}
