/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ready tasks that several children could have, and what is in flight. All of it under the lock.
 *
 * Such tasks wait in a list for each set of children. They are given to the child with least to
 * do, also when it has something to do already: a child that had to be woken for each task
 * would do little else. One that has nothing to do, while others have not begun with theirs, gets
 * the oldest of these: the first child takes it back from the stream of the second.
 */
#include "tree/tree.h"

/* ---- in flight ---- */

struct tree_flight *tree_flight_at(struct tree_child *c, uint32_t index)
{
    return &c->flight[(c->flight_first + index) % TREE_CREDITS];
}

static bool is_flexible(const struct tree_task *k)
{
    return k->group == NULL && (k->children & (k->children - 1)) != 0;
}

void tree_flight_add(struct tree *t, struct tree_child *c, uint32_t number)
{
    bool is_open = is_flexible(&t->task[number]);

    if (c->in_flight == 0)
        c->since_ns = 0;
    *tree_flight_at(c, c->in_flight++) =
        (struct tree_flight){ number, is_open, c->link.line->out.last };
    t->open_count += is_open;
}

uint32_t tree_flight_remove(struct tree *t, struct tree_child *c, uint32_t index)
{
    struct tree_flight gone = *tree_flight_at(c, index);

    if (index == 0)
        c->since_ns = 0;
    t->open_count -= gone.is_open;
    for (; index > 0; index--)
        *tree_flight_at(c, index) = *tree_flight_at(c, index - 1);
    c->flight_first = (c->flight_first + 1) % TREE_CREDITS;
    c->in_flight--;
    return gone.number;
}

/* The child will not run it. Otherwise it has begun, and that is not asked again. */
static bool take_back(struct tree *t, struct tree_child *c, uint32_t index)
{
    struct tree_flight *f = tree_flight_at(c, index);
    uint32_t number;

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

        /* The others of a group may be waiting for it. */
        if (k->run == run && k->group == NULL && take_back(t, c, i))
            tree_flexible_push(t, number); /* from where it is withdrawn with the others */
        else
            i++;
    }
}

void tree_flight_rescue(struct tree *t, struct tree_child *c, uint64_t ready)
{
    for (uint32_t i = 0; i < c->in_flight;) {
        struct tree_flight *f = tree_flight_at(c, i);
        uint32_t number = f->number;

        if (f->is_open && (t->task[number].children & ready) != 0 && take_back(t, c, i))
            tree_flexible_push(t, number);
        else
            i++;
    }
}

/* ---- lists ---- */

/* The list of these children, maybe a new one; the last one is for those that have none. */
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

void tree_flexible_push(struct tree *t, uint32_t number)
{
    struct tree_task *k = &t->task[number];

    k->list = (uint8_t)find_list(t, k->children);
    tree_queue_push(t, &t->flexible[k->list].queue, number);
    t->flexible_count++;
}

/* Whether nothing of the child's own, a group that cannot start yet, say, comes before the task. */
static bool is_next(const struct tree *t, const struct tree_child *c, uint32_t number)
{
    return c->queue.first == 0 || t->task[c->queue.first].order > t->task[number].order;
}

static bool is_asleep(const struct tree_child *c)
{
    return waker_has_sleepers(c->link.line->other);
}

/* The child with least to do, if possible one that does not have to be woken; -1: none has room. */
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

bool tree_flexible_give(struct tree *t)
{
    struct tree_list *mixed = &t->flexible[TREE_LISTS - 1];
    bool is_moving = false;
    uint32_t before = 0;

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

bool tree_flexible_is_first(const struct tree *t, const struct tree_child *c)
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

/* ---- taking back ---- */

/* Something that others have not begun with. For a child that sleeps it has to be behind something else. */
static bool find_open(struct tree *t, const struct tree_child *idle, uint32_t *number_out)
{
    uint32_t from = is_asleep(idle);

    for (uint32_t i = 0; i < t->child_count; i++) {
        struct tree_child *c = &t->child[i];

        for (uint32_t k = from; k < c->in_flight && c != idle; k++) {
            struct tree_flight *f = tree_flight_at(c, k);

            *number_out = f->number;
            if (f->is_open && (t->task[f->number].children >> idle->index & 1) != 0 &&
                is_next(t, idle, f->number) && take_back(t, c, k))
                return true;
        }
    }
    return false;
}

void tree_flexible_balance(struct tree *t)
{
    for (uint32_t i = 0; i < t->child_count && t->open_count != 0; i++) {
        struct tree_child *c = &t->child[i];
        uint32_t number;

        if (c->in_flight == 0 && tree_has_room(c) && find_open(t, c, &number))
            tree_give(t, c, number);
    }
}
