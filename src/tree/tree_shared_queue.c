/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ready tasks that several children could run. They wait in a list for each set of children, and go
 * to the child with the least work, even if it is busy: if only idle children got tasks, nearly
 * each task would have to wake one. If a child becomes idle while others have tasks that they have
 * not started, it gets the oldest of these, which the worker takes back from the other child's
 * stream.
 */
#include "tree/tree.h"

/* ---- lists of ready tasks ---- */

/*
 * Returns the index of the list for this set of children, or of a free list if the set has none, or
 * of the last list, for all further sets, if none is free.
 */
static uint32_t find_list(struct tree *t, uint64_t children)
{
    uint32_t found = TREE_LISTS - 1;

    for (uint32_t i = TREE_LISTS - 1; i-- > 0;) {
        if (t->flexible[i].children == children)
            return i;
        if (t->flexible[i].queue.first == 0)
            found = i;
    }
    if (found < TREE_LISTS - 1)
        t->flexible[found].children = children;
    return found;
}

void tree_shared_queue_push(struct tree *t, uint32_t number)
{
    struct tree_task *k = &t->task[number];

    assert_held(&t->lock);
    k->list = (uint8_t)find_list(t, k->children);
    tree_queue_push(t, &t->flexible[k->list].queue, number);
    t->flexible_count++;
}

/*
 * Whether the task became ready before all tasks in the child's own queue. One of those may be a
 * group that cannot start yet.
 */
static bool is_next(const struct tree *t, const struct tree_child *c, uint32_t number)
{
    return c->queue.first == 0 || t->task[c->queue.first].order > t->task[number].order;
}

static bool is_asleep(const struct tree_child *c)
{
    return c->credits > 1 && waker_has_sleepers(c->link.line->other);
}

/*
 * Returns the child with the least work that has room for the task, preferably one that need not be
 * woken; -1: none has room.
 */
static int choose_child(struct tree *t, uint32_t number)
{
    int best = -1;
    uint32_t least = 0;

    for (uint64_t rest = t->task[number].children; rest != 0; rest &= rest - 1) {
        struct tree_child *c = &t->child[__builtin_ctzll(rest)];
        uint32_t load = 2 * c->in_flight;

        if (c->in_flight >= TREE_AHEAD || !tree_has_room(c) || !is_next(t, c, number))
            continue;
        load += is_asleep(c);
        if (best < 0 || load < least) {
            best = (int)c->index;
            least = load;
        }
    }
    return best;
}

static bool give_one(struct tree *t, struct tree_list *list, uint32_t number, uint32_t before)
{
    int child = choose_child(t, number);

    if (child < 0)
        return false;
    tree_queue_remove(t, &list->queue, number, before);
    t->flexible_count--;
    tree_give(t, &t->child[child], number);
    return true;
}

bool tree_shared_queue_give(struct tree *t)
{
    struct tree_list *mixed = &t->flexible[TREE_LISTS - 1];
    bool is_moving = false;
    uint32_t before = 0;

    assert_held(&t->lock);
    for (uint32_t i = 0; i < TREE_LISTS - 1; i++)
        while (t->flexible[i].queue.first != 0 &&
               give_one(t, &t->flexible[i], t->flexible[i].queue.first, 0))
            is_moving = true;
    for (uint32_t number = mixed->queue.first, next; number != 0; number = next) {
        next = t->task[number].next;
        if (give_one(t, mixed, number, before))
            is_moving = true;
        else
            before = number;
    }
    return is_moving;
}

bool tree_shared_queue_is_first(const struct tree *t, const struct tree_child *c)
{
    if (t->flexible_count == 0 || c->in_flight < TREE_AHEAD)
        return false;
    for (uint32_t i = 0; i < TREE_LISTS - 1; i++) {
        uint32_t number = t->flexible[i].queue.first;

        if (number != 0 && (t->flexible[i].children >> c->index & 1) != 0 && is_next(t, c, number))
            return true;
    }
    return false;
}

/* ---- taking tasks back from children ---- */

/*
 * Takes back the oldest suitable task that a child other than `idle` has not started. If waking
 * `idle` is necessary, the first task of a child is not taken: that child will start it sooner.
 */
static bool find_open(struct tree *t, const struct tree_child *idle, uint32_t *number_out)
{
    uint32_t from = is_asleep(idle);

    for (uint32_t i = 0; i < t->child_count; i++) {
        struct tree_child *c = &t->child[i];

        for (uint32_t k = from; k < c->in_flight && c != idle; k++) {
            struct tree_flight *f = tree_flight_at(c, k);

            *number_out = f->number;
            if (f->is_open && (t->task[f->number].children >> idle->index & 1) != 0 &&
                is_next(t, idle, f->number) && tree_flight_take_back(t, c, k))
                return true;
        }
    }
    return false;
}

void tree_shared_queue_balance(struct tree *t)
{
    assert_held(&t->lock);
    for (uint32_t i = 0; i < t->child_count && t->open_count != 0; i++) {
        struct tree_child *c = &t->child[i];
        uint32_t number;

        if (c->in_flight == 0 && tree_has_room(c) && find_open(t, c, &number))
            tree_give(t, c, number);
    }
}
