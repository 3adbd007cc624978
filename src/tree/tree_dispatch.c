/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ready tasks, the choice of a child for each, and what happens when a task ends. A task for one
 * child waits in that child's queue; a task that several children could run waits in a list
 * (tree_shared_queue.c). The members of a group are put into their queues at the same moment, and
 * start when each is the first of its queue. So all queues have groups in one order, and groups
 * cannot wait for each other in a cycle.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tree/tree.h"
#include "tree/tree_domain.h"
#include "tree/tree_run.h"
#include "tree/tree_trace.h"

static void settle(struct tree *t);

void tree_signal_change(struct tree *t)
{
    assert_held(&t->lock);
    (void)a32_add_acq_rel(&t->changes, 1);
    waker_wake(&t->shared->waker);
}

/* ---- queues ---- */

void tree_queue_push(struct tree *t, struct tree_queue *q, uint32_t number)
{
    t->task[number].next = 0;
    if (q->last != 0)
        t->task[q->last].next = number;
    else
        q->first = number;
    q->last = number;
    q->count++;
}

void tree_queue_remove(struct tree *t, struct tree_queue *q, uint32_t number, uint32_t before)
{
    uint32_t next = t->task[number].next;

    assert(q->count != 0 && (before != 0 || q->first == number));
    if (before != 0)
        t->task[before].next = next;
    else
        q->first = next;
    if (q->last == number)
        q->last = before;
    q->count--;
}

static void queue_drop(struct tree *t, struct tree_queue *q, uint32_t number)
{
    uint32_t before = 0;

    for (uint32_t i = q->first; i != number; i = t->task[i].next)
        before = i;
    tree_queue_remove(t, q, number, before);
}

/* ---- the end of a task ---- */

void tree_complete(struct tree *t, struct slot *s, int status)
{
    struct tree_task *k = tree_task_of(t, s);

    assert_held(&t->lock);
    assert(k->state != TASK_OVER && k->state != TASK_KEPT);
    k->state = TASK_OVER;
    k->status = status;
    tree_queue_push(t, &t->over, s->number);
    settle(t);
}

const char *tree_kind_name(enum pto_child_kind kind)
{
    return kind == PTO_CHILD_CHIP ? "chip" : kind == PTO_CHILD_SUB ? "SUB worker" : "worker";
}

/*
 * Sets the path of the run's first error: the child and the task in this worker, then in each level
 * below.
 */
static void set_error_path(struct tree *t, const struct slot *s, int child, int status,
                           const struct wire_failure *below)
{
    const struct tree_task *k = &t->task[s->number];
    struct pto_worker_report *report = &k->run->report;
    struct pto_error_place *place = &report->path[0];
    uint32_t count = below != NULL && below->count < PTO_PATH_MAX ? below->count : 0;

    *place = (struct pto_error_place){ .level = t->level,
                                       .child = child,
                                       .status = status,
                                       .kernel = -1,
                                       .argument = -1,
                                       .kind = child >= 0 ? (int32_t)t->child[child].kind : -1,
                                       .task = slot_id(s) };
    snprintf(place->callable, sizeof(place->callable), "%s", t->callable[k->callable].name);
    for (uint32_t i = 0; i < count; i++) {
        place = &report->path[1 + i];
        *place = below->place[i];
        place->callable[PTO_CALLABLE_NAME_MAX - 1] = '\0';
        (void)pto_text_clean(place->callable, true);
    }
    report->path_count = 1 + count;
}

static void fail_task(struct tree *t, struct slot *s, int child, int status, const char *why,
                      const struct wire_failure *below)
{
    struct tree_task *k = tree_task_of(t, s);
    const struct tree_callable *c = &t->callable[k->callable];
    struct pto_error error;
    int length = 0;

    assert_held(&t->lock);
    pto_error_init(&error);
    error.level = t->level;
    error.status = status;
    error.task = slot_id(s);
    if (s->site != NULL) {
        error.site = *s->site;
        length =
            snprintf(error.text, sizeof(error.text), "%.120s:%d: ", s->site->file, s->site->line);
    }
    if (child >= 0)
        length += snprintf(error.text + length, sizeof(error.text) - (size_t)length,
                           "%s %d: ", tree_kind_name(t->child[child].kind), child);
    (void)snprintf(error.text + length, sizeof(error.text) - (size_t)length, "callable '%s': %s",
                   c->name, why);
    (void)pto_text_clean(error.text, false);
    k->run->report.failed++;
    if (k->run->report.error.status >= 0)
        set_error_path(t, s, child, status, below);
    tree_run_fail(k->run, child, &error);
    tree_complete(t, s, status);
}

void tree_fail_task(struct tree *t, struct slot *s, int child, int status, const char *why)
{
    fail_task(t, s, child, status, why, NULL);
}

void tree_fail_below(struct tree *t, struct slot *s, int child, int status,
                     const struct wire_failure *why)
{
    fail_task(t, s, child, status, why->text, why);
}

/* Context of release_successor: the task that has ended. */
struct ending {
    struct tree *tree;
    struct tree_task *task;
};

/*
 * Removes the ended task from a successor's count of unfinished predecessors. If the ended task
 * failed, the successor must not run.
 */
static void release_successor(void *context, struct slot *next, bool is_ready)
{
    const struct ending *e = context;
    struct tree_task *k = tree_task_of(e->tree, next);

    if (k->path_ns < e->task->path_ns)
        k->path_ns = e->task->path_ns;
    if (e->task->status < 0) /* mutation: tree-no-poison */
        tree_poison(e->tree, e->task, next);
    if (is_ready)
        tree_ready(e->tree, next);
}

static void leave_group(struct tree_group *g)
{
    assert(g == NULL || g->left != 0);
    if (g != NULL && --g->left == 0)
        free(g);
}

static void settle_one(struct tree *t, struct slot *s)
{
    struct tree_task k = t->task[s->number];

    bool is_kept;

    assert(k.state == TASK_OVER);
    t->task[s->number] = (struct tree_task){ 0 };
    if (k.status < 0)
        tree_blame(t, &k);
    t->settling = k.traced;
    graph_complete(s, release_successor, &(struct ending){ t, &k });
    t->settling = 0;
    if (k.status < 0 && k.run != NULL)
        tree_lose_tensors(t, s, &k);
    is_kept = k.status < 0 && tree_keep(t, s, &k);
    if (k.run != NULL) {
        if (t->is_traced)
            tree_trace_task(t, &k);
        if (!is_kept)
            tree_unuse_tensors(t, s, k.addresses);
        t->callable[k.callable].tasks--;
        leave_group(k.group);
        if (--k.run->live == 0 && !k.run->is_building)
            tree_run_ended(k.run);
    }
    if (!is_kept)
        graph_free_task(&t->graph, s);
}

/*
 * Completes the tasks in `over` one by one, without recursion: a skipped task adds its successors,
 * which are also skipped.
 */
static void settle(struct tree *t)
{
    assert_held(&t->lock);
    if (t->is_settling)
        return;
    t->is_settling = true;
    while (t->over.first != 0) {
        uint32_t number = t->over.first;

        tree_queue_remove(t, &t->over, number, 0);
        settle_one(t, tree_slot(t, number));
    }
    t->is_settling = false;
}

static void skip_task(struct tree *t, struct slot *s)
{
    tree_task_of(t, s)->run->report.skipped++;
    tree_complete(t, s, PTO_ECANCELED);
}

/* ---- ready tasks ---- */

static uint64_t ready_children(const struct tree *t)
{
    uint64_t mask = 0;

    for (uint32_t i = 0; i < t->child_count; i++)
        mask |= (uint64_t)child_is_ready(&t->child[i]) << i;
    return mask;
}

static void fail_unrunnable(struct tree *t, struct slot *s, uint64_t children)
{
    int child = children != 0 ? __builtin_ctzll(children) : -1;
    char how[128], text[256];

    if (child < 0) {
        tree_fail_task(t, s, -1, PTO_EPEER, "there is no child that could run it");
        return;
    }
    tree_child_describe_end(&t->child[child], how, sizeof(how));
    snprintf(text, sizeof(text), "it never ran: the child %s; restart it with pto_worker_reopen",
             how);
    tree_fail_task(t, s, child, PTO_EPEER, text);
}

static void enqueue(struct tree *t, struct slot *s, int child)
{
    struct tree_task *k = tree_task_of(t, s);

    k->state = TASK_READY;
    k->child = child;
    t->ready_count++;
    if (child >= 0)
        tree_queue_push(t, &t->child[child].queue, s->number);
    else
        tree_shared_queue_push(t, s->number);
}

/*
 * Chooses a different child for each member of a group, the one with the fewest tasks among those
 * that the member allows. False: there are too few ready children.
 */
static bool dispatch_place_group(struct tree *t, struct tree_group *g)
{
    uint64_t ready = ready_children(t), taken = 0;

    for (uint32_t i = 0; i < g->count; i++) {
        struct tree_task *k = &t->task[g->member[i]];
        uint64_t may = k->children & ready & ~taken;
        int best = -1;

        for (uint32_t j = 0; j < t->child_count; j++)
            if ((may >> j & 1) != 0 &&
                (best < 0 || t->child[j].queue.count + t->child[j].in_flight <
                                 t->child[best].queue.count + t->child[best].in_flight))
                best = (int)j;
        if (best < 0)
            return false;
        k->child = best;
        taken |= 1ull << best;
    }
    return true;
}

/*
 * Called when all members of the group are ready: puts them into the queues of the chosen children,
 * or skips or fails them.
 */
static void ready_group(struct tree *t, struct tree_group *g)
{
    uint32_t count = g->count;
    /* copy of the members: the group may be freed with the last of them */
    uint32_t member[TREE_CHILDREN_MAX];
    bool is_skipped = g->is_skipped;
    bool is_placed = !is_skipped && dispatch_place_group(t, g);

    assert_held(&t->lock);
    memcpy(member, g->member, count * sizeof(member[0]));
    g->order = ++t->order;
    for (uint32_t i = 0; i < count; i++) {
        struct slot *s = tree_slot(t, member[i]);

        if (t->is_traced)
            tree_trace_ready(t, &t->task[member[i]]);
        if (is_placed) {
            t->task[member[i]].order = g->order;
            enqueue(t, s, t->task[member[i]].child);
        } else if (is_skipped) {
            skip_task(t, s);
        } else {
            fail_unrunnable(t, s, t->task[member[i]].children);
        }
    }
}

void tree_group_submitted(struct tree *t, struct tree_group *g)
{
    if (--g->waiting == 0)
        ready_group(t, g);
    leave_group(g);
}

void tree_ready(struct tree *t, struct slot *s)
{
    struct tree_task *k = tree_task_of(t, s);
    uint64_t may;

    assert_held(&t->lock);
    /* joins, which stand for many edges, and refused submits have nothing to run */
    if (k->run == NULL) {
        k->traced = t->settling;
        tree_complete(t, s, k->is_poisoned ? PTO_ECANCELED : PTO_OK);
        return;
    }
    if (k->is_poisoned || k->run->is_cancelled) {
        /* the task is skipped because of a task that failed in this run or in another run */
        if (k->is_poisoned && !k->run->is_cancelled) {
            struct pto_error error;

            pto_error_init(&error);
            error.level = t->level;
            error.task = slot_id(s);
            (void)tree_error_set_cause(t, k, &error);
            /* tree_run_fail does nothing if the run already has an error */
            tree_run_fail(k->run, -1, &error);
        }
        if (k->group == NULL) {
            skip_task(t, s);
            return;
        }
        k->group->is_skipped = true;
    }
    if (k->group != NULL) {
        if (--k->group->waiting == 0)
            ready_group(t, k->group);
        return;
    }
    if (t->is_traced)
        tree_trace_ready(t, k);
    k->order = ++t->order;
    may = k->children & ready_children(t);
    if (may == 0)
        fail_unrunnable(t, s, k->children);
    else
        enqueue(t, s, (k->children & (k->children - 1)) == 0 ? __builtin_ctzll(k->children) : -1);
}

/* ---- giving tasks to children ---- */

/* Kills a child that breaks the protocol. The watcher then reports that its process has ended. */
static void condemn(struct tree_child *c)
{
    c->state = CHILD_BROKEN;
    line_discard(c->link.line);
    tree_child_kill(c);
}

/*
 * Whether the child can take another task: its stream has room for that, and for a request after
 * it.
 */
bool tree_has_room(struct tree_child *c)
{
    if (!child_is_ready(c) || c->held != 0 || c->in_flight >= c->credits)
        return false;
    if (channel_has_room(&c->link.line->out, 2 * RECORD_BODY_MAX))
        return true;
    if (c->link.line->out.is_broken)
        condemn(c);
    return false;
}

void tree_give(struct tree *t, struct tree_child *c, uint32_t number)
{
    struct slot *s = tree_slot(t, number);
    struct tree_task *k = &t->task[number];
    struct pto_tensor tensor[PTO_TASK_TENSORS_MAX];
    bool is_sent;
    const struct record_head head = { .kind = RECORD_TASK,
                                      .key = (uint64_t)s->seq << 32 | number,
                                      .value = k->callable,
                                      .tensor_count = (uint8_t)s->tensor_count,
                                      .scalar_count = (uint8_t)s->scalar_count,
                                      .addresses = k->addresses,
                                      .timeout_ns = k->timeout_ns,
                                      .options = k->options };
    struct record_part part[2] = { { tensor,
                                     s->tensor_count * (uint32_t)sizeof(struct pto_tensor) },
                                   { s->scalar_count == 1 ? &s->scalar : slot_scalars(s),
                                     s->scalar_count * (uint32_t)sizeof(uint64_t) } };

    assert_held(&t->lock);
    for (uint32_t i = 0; i < s->tensor_count; i++) {
        tensor[i] = s->tensor[i];
        /*
         * the owner is a task of this worker, which the child does not know: for it the memory is
         * external
         */
        tensor[i].owner = pto_task_id_invalid();
    }
    assert(k->state == TASK_READY && t->ready_count != 0);
    k->state = TASK_IN_FLIGHT;
    k->child = (int32_t)c->index;
    t->ready_count--;
    tree_clock_give(t, c->index);
    is_sent = line_send(c->link.line, &head, part, 2);
    port_assert(is_sent); /* always true: callers have checked tree_has_room */
    tree_flight_add(t, c, number);
}

/* Whether each member is the first in its child's queue, and each child has room. */
static bool group_can_start(struct tree *t, const struct tree_group *g)
{
    for (uint32_t i = 0; i < g->count; i++) {
        struct tree_child *c = &t->child[t->task[g->member[i]].child];

        if (c->queue.first != g->member[i] || !tree_has_room(c))
            return false;
    }
    return true;
}

static bool start_own(struct tree *t, struct tree_child *c)
{
    uint32_t number = c->queue.first;
    struct tree_group *g = t->task[number].group;

    if (g == NULL) {
        tree_queue_remove(t, &c->queue, number, 0);
        tree_give(t, c, number);
        return true;
    }
    if (!group_can_start(t, g))
        return false;
    for (uint32_t i = 0; i < g->count; i++) {
        struct tree_child *each = &t->child[t->task[g->member[i]].child];

        tree_queue_remove(t, &each->queue, g->member[i], 0);
        tree_give(t, each, g->member[i]);
    }
    return true;
}

void tree_dispatch(struct tree *t)
{
    bool is_moving = t->ready_count != 0;

    assert_held(&t->lock);
    while (is_moving) {
        is_moving = t->flexible_count != 0 && tree_shared_queue_give(t);
        for (uint32_t i = 0; i < t->child_count && t->ready_count != 0; i++) {
            struct tree_child *c = &t->child[i];

            if (c->queue.first != 0 && tree_has_room(c) && !tree_shared_queue_is_first(t, c) &&
                start_own(t, c))
                is_moving = true;
        }
    }
    if (t->open_count != 0)
        tree_shared_queue_balance(t);
}

void tree_withdraw(struct tree *t, const struct tree_run *run)
{
    assert_held(&t->lock);
    for (uint32_t i = 0; i < t->child_count; i++)
        tree_flight_recall(t, &t->child[i], run);
    for (uint32_t i = 0; i < t->child_count + TREE_LISTS; i++) {
        struct tree_queue *q =
            i < t->child_count ? &t->child[i].queue : &t->flexible[i - t->child_count].queue;
        uint32_t before = 0, next;

        for (uint32_t number = q->first; number != 0; number = next) {
            next = t->task[number].next;
            if (t->task[number].run != run) {
                before = number;
                continue;
            }
            tree_queue_remove(t, q, number, before);
            t->flexible_count -= i >= t->child_count;
            t->ready_count--;
            /*
             * Defers the release of successors: the queues must not change while they are scanned.
             */
            t->is_settling = true;
            skip_task(t, tree_slot(t, number));
            t->is_settling = false;
        }
    }
    settle(t);
}

/* ---- records of children ---- */

/*
 * Removes the task that the child got first, which is the next that it reports as ended: a child
 * runs its tasks in order.
 */
static uint32_t oldest_in_flight(struct tree *t, struct tree_child *c)
{
    return tree_flight_remove(t, c, 0);
}

static void take_done(struct tree *t, struct tree_child *c, const struct record *r)
{
    uint32_t number = (uint32_t)r->head.key;
    struct wire_failure failure;
    struct slot *s;
    char text[160];

    if (c->in_flight == 0 || tree_flight_at(c, 0)->number != number ||
        tree_slot(t, number)->seq != r->head.key >> 32 ||
        r->head.body_bytes != (r->head.status < 0 ? sizeof(failure) : 0)) {
        condemn(c);
        return;
    }
    s = tree_slot(t, oldest_in_flight(t, c));
    c->tasks++;
    if (t->is_traced || t->clock.shared != NULL) {
        tree_task_of(t, s)->begin_ns = r->head.begin_ns;
        tree_task_of(t, s)->end_ns = r->head.value;
    }
    tree_clock_count(t, c->index, tree_task_of(t, s), r->head.options != 0);
    if (r->head.status < 0) {
        memcpy(&failure, r->body, sizeof(failure));
        failure.text[TREE_TEXT - 1] = '\0';
        tree_fail_below(t, s, (int)c->index, r->head.status, &failure);
    } else if (t->params.has_guards && !tree_has_kept_bounds(t, s, text, sizeof(text))) {
        tree_fail_task(t, s, (int)c->index, PTO_EOVERRUN, text);
    } else {
        tree_task_of(t, s)->run->report.done++;
        tree_complete(t, s, PTO_OK);
    }
}

static void dispatch_take_answer(struct tree *t, const struct tree_child *c, const struct record *r)
{
    for (struct tree_request *q = t->requests; q != NULL; q = q->next)
        if (q->key == r->head.key && q->child == c->index) {
            q->is_answered = true;
            q->status = r->head.status;
            memcpy(q->text, r->body, sizeof(q->text));
            tree_signal_change(t);
        }
}

static void dispatch_take_record(struct tree *t, struct tree_child *c, struct record *r)
{
    if (r->head.kind == RECORD_DONE) {
        take_done(t, c, r);
        return;
    }
    if (r->head.kind == RECORD_PASSED)
        /*
         * nothing to do: tree_drive then sends the tasks that wait for room in the child's stream
         */
        return;
    r->body[r->head.body_bytes < TREE_TEXT ? r->head.body_bytes : TREE_TEXT - 1] = '\0';
    if (r->head.kind == RECORD_ANSWERED) {
        dispatch_take_answer(t, c, r);
    } else if (r->head.kind == RECORD_READY && c->state == CHILD_STARTING) {
        c->ready_status = r->head.status;
        memcpy(c->text, r->body, sizeof(c->text));
        c->state = r->head.status < 0 ? CHILD_BROKEN : CHILD_READY;
        tree_signal_change(t);
    } else {
        condemn(c);
    }
}

static void read_child(struct tree *t, struct tree_child *c)
{
    struct record r;

    while (c->state == CHILD_READY || c->state == CHILD_STARTING) {
        switch (line_receive(c->link.line, &r)) {
        case CHANNEL_EMPTY:
            return;
        case CHANNEL_RECORD:
            dispatch_take_record(t, c, &r);
            break;
        case CHANNEL_BROKEN:
            condemn(c);
            return;
        }
    }
}

/* Removes a task that fails or is skipped from the queues, with all other members of its group. */
static void fail_queued(struct tree *t, uint32_t number)
{
    struct tree_group *g = t->task[number].group;
    uint32_t count = g != NULL ? g->count : 1;
    uint32_t member[TREE_CHILDREN_MAX] = { number };

    if (g != NULL)
        memcpy(member, g->member, count * sizeof(member[0]));
    for (uint32_t i = 0; i < count; i++) {
        struct tree_task *k = &t->task[member[i]];

        queue_drop(t, k->child >= 0 ? &t->child[k->child].queue : &t->flexible[k->list].queue,
                   member[i]);
        t->flexible_count -= k->child < 0;
        t->ready_count--;
    }
    for (uint32_t i = 0; i < count; i++)
        fail_unrunnable(
            t, tree_slot(t, member[i]),
            t->task[number].child >= 0 ? 1ull << t->task[number].child : t->task[number].children);
}

/* Handles the end of a child's process, which does not write to shared memory any more. */
static void dispatch_child_died(struct tree *t, struct tree_child *c)
{
    uint64_t ready;
    char how[128], where[320], text[TREE_TEXT];

    read_child(t, c); /* handles the records that the child wrote before it ended */
    c->state = CHILD_DEAD;
    tree_domains_child_died(t, c->index);
    tree_child_describe_end(c, how, sizeof(how));
    tree_child_describe_place(c, where, sizeof(where));
    snprintf(text, sizeof(text),
             "the child %s while it had the task%s; what the task did is not known", how, where);
    tree_flight_rescue(t, c, ready_children(t));
    while (c->in_flight != 0) {
        uint32_t number = oldest_in_flight(t, c);
        char late[TREE_TEXT];
        int status = tree_describe_late(t, c, number, late, sizeof(late));

        tree_fail_task(t, tree_slot(t, number), (int)c->index, status,
                       status == PTO_ETIMEOUT ? late : text);
    }
    while (c->queue.first != 0)
        fail_queued(t, c->queue.first);
    ready = ready_children(t);
    for (uint32_t list = 0; list < TREE_LISTS; list++)
        for (uint32_t i = t->flexible[list].queue.first, next; i != 0; i = next) {
            next = t->task[i].next;
            if ((t->task[i].children & ready) == 0)
                fail_queued(t, i);
        }
    for (struct tree_request *q = t->requests; q != NULL; q = q->next)
        if (q->child == c->index && !q->is_answered) {
            q->is_answered = true;
            q->status = PTO_EPEER;
            snprintf(q->text, sizeof(q->text), "child %u %s", c->index, how);
        }
    line_discard(c->link.line);
    a32_store_release(&c->is_end_handled, 1);
    tree_signal_change(t);
}

void tree_drive(struct tree *t)
{
    assert_held(&t->lock);
    for (uint32_t i = 0; i < t->child_count; i++) {
        struct tree_child *c = &t->child[i];
        /* loaded before the child's records are read: if it is set, no records follow these */
        bool has_ended = a32_load_acquire(&c->link.has_ended) != 0;

        read_child(t, c);
        /* relaxed: written under the lock */
        if (has_ended && a32_load_relaxed(&c->is_end_handled) == 0)
            dispatch_child_died(t, c);
    }
    tree_dispatch(t);
}

bool tree_has_news(struct tree *t)
{
    for (uint32_t i = 0; i < t->child_count; i++) {
        const struct tree_child *c = &t->child[i];

        /*
         * relaxed: only a hint, which tree_drive checks again; the line of a dead child is ignored
         */
        if (a32_load_acquire(&c->link.has_ended) != a32_load_relaxed(&c->is_end_handled) ||
            (a32_load_relaxed(&c->is_end_handled) == 0 && line_has_news(c->link.line)))
            return true;
    }
    return false;
}
