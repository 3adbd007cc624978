/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completes tasks, for the worker loops of sched.c and for kernels that return outside of a loop
 * (returned.c); declares what the scheduler's files use of each other. The functions are inline
 * because the compiler generates one worker loop for each kind of run.
 */
#ifndef PTO_COMPLETE_H
#define PTO_COMPLETE_H

#include "sched/sched.h"

/* Kinds of run; the compiler generates a loop for each. */
enum kind {
    STREAMED,
    STREAMED_ALONE,    /* streamed, with one worker, which runs the newest task first */
    STREAMED_RECORDED, /* streamed with a recorder */
    LAUNCHED,          /* a launched image (graph/image.h) */
    LAUNCHED_ALONE,
    LAUNCHED_RECORDED,
};

static inline bool kind_is_alone(enum kind kind)
{
    return kind == STREAMED_ALONE || kind == LAUNCHED_ALONE;
}

static inline bool kind_is_image(enum kind kind)
{
    return kind >= LAUNCHED;
}

static inline bool kind_is_recorded(enum kind kind)
{
    return kind == STREAMED_RECORDED || kind == LAUNCHED_RECORDED;
}

/* offers.c: claims up to SCHED_CLAIM tasks of another worker's offer. False: none. */
bool sched_claim_tasks(struct worker *w, struct worker *from);
/*
 * Claims some roots of a launched graph, which are tasks without predecessors. False: none is left.
 */
bool sched_claim_roots(struct worker *w);
/* Parks a ready task for which the worker has no core; another worker may have one. */
void sched_park_shared(struct worker *w, struct slot *s);
/* Takes parked tasks for which the worker can get cores now. */
bool sched_take_parked(struct worker *w);
/*
 * returned.c: completes tasks whose last kernel was finished by another thread. False: there were
 * none.
 */
bool sched_complete_finished(struct worker *w);
/* Sends the slot of a completed task back to the submitter, which frees it. */
void sched_return_slot(struct worker *w, struct slot *s);

/*
 * Lists link tasks through the slot's `pending`, which is otherwise not in use once the task is
 * ready or complete.
 */
static inline void line_push(const struct graph *g, uint32_t *list, struct slot *s)
{
    a32_store_relaxed(&s->pending, *list); /* relaxed: only one thread uses the list */
    *list = graph_slot_line(g, s);
}

static inline struct slot *line_pop(const struct graph *g, uint32_t *list)
{
    struct slot *s = graph_slot(g, *list);

    port_check(*list != 0);
    *list = a32_load_relaxed(&s->pending);
    return s;
}

static inline void line_push_shared(const struct graph *g, struct a32 *list, struct slot *slot)
{
    /* relaxed: the compare-and-swap detects that the value has changed */
    uint32_t head = a32_load_relaxed(list);

    do {
        a32_store_relaxed(&slot->pending, head);
    } while (!a32_cas_acq_rel(list, &head, graph_slot_line(g, slot))); /* R12 R13 */
}

/* Appends a ready task to the worker's list, because its deque is full. */
static inline void line_wait(struct worker *w, struct slot *s)
{
    sched_list_append(w->graph, &w->list, &w->list_end, s);
}

static inline bool worker_is_only(const struct worker *w)
{
    return PORT_ONE_THREAD || w->sched->worker_count == 1;
}

/*
 * Whether the worker runs a streamed run in the loop without atomic operations (STREAMED_ALONE): no
 * other thread knows of a live task.
 */
static inline bool worker_streams_alone(const struct worker *w)
{
    return (PORT_ONE_THREAD || !w->is_shared ||
            (w->index == 0 && !w->graph->is_shared && !w->is_offering)) &&
           w->order == 0 && w->trace == NULL;
}

/*
 * Counts down the invocations of a task by `count`, which have ended or will never be started.
 * True: none is left.
 */
static inline bool complete_block(struct slot *s, uint32_t count)
{
    uint32_t left = a32_sub_acq_rel(&s->block_left, count); /* R17 A17 */

    port_check(left >= count);
    return left == count;
}

/*
 * Reports to the recorder that the time between the previous kernel and the next one is not just
 * the change from one to the other. Called before work that may take much longer than reading the
 * clock; completing a task with one successor takes about as long as that.
 */
static inline void sched_record_gap(struct worker *w)
{
    if (w->trace != NULL)
        trace_gap(w->trace);
}

/*
 * Records that completing `by` made t ready, before any other thread knows that t is. A join is not
 * recorded as a task.
 */
static inline void complete_record(struct worker *w, const struct slot *t, const struct slot *by)
{
    if (!slot_is_join(t))
        trace_ready(w->trace, t->seq, slot_is_join(by) ? 0 : by->seq);
}

__attribute__((always_inline)) static inline struct slot *complete_in_image(struct worker *w,
                                                                            struct slot *s,
                                                                            enum kind kind);

/*
 * Completes a task: seals the list of its successors, and counts each of them down. Returns one
 * that became ready, to run next, because the data that this task wrote is still in the cache.
 */
__attribute__((always_inline)) static inline struct slot *complete_task(struct worker *w,
                                                                        struct slot *s,
                                                                        enum kind kind)
{
    struct graph *g = w->graph;
    bool is_alone = kind_is_alone(kind);
    bool is_submitter = is_alone || w->index == 0;
    /* if the worker is shared, other threads may already know of successors */
    bool is_shared = !PORT_ONE_THREAD && !is_alone && w->is_shared;
    struct slot *next = NULL;
    struct edge *e;

    if (kind_is_image(kind))
        return complete_in_image(w, s, kind);
    if (is_shared) {
        e = aptr_swap_acq_rel(&s->successors, SLOT_SEALED); /* R2 A1 mutation: no-seal */
    } else {
        e = aptr_load_relaxed(&s->successors); /* accessed by one thread */
        aptr_store_relaxed(&s->successors, SLOT_SEALED);
    }
    port_check(e != SLOT_SEALED); /* a task completes only once */
    if (kind_is_recorded(kind) && e != NULL && e->next != NULL)
        trace_gap(w->trace);
    while (e != NULL) {
        struct slot *t = e->self;
        uint32_t left;

        atomic_note_read(e);
        /* advance before t can run, because t's slot, which holds this edge, may be reused then */
        e = e->next;
        if (is_shared) {
            left = a32_sub_acq_rel(&t->pending, 1) - 1; /* R5 A5 */
        } else {
            left = a32_load_relaxed(&t->pending) - 1; /* accessed by one thread */
            a32_store_relaxed(&t->pending, left);
        }
        port_check(left != UINT32_MAX);
        if (left != 0)
            continue;
        if (kind_is_recorded(kind))
            complete_record(w, t, s);
        if ((t->flags & SLOT_IS_SETTLED_FIRST) != 0 && !sched_settle(w, t))
            continue;
        if (next == NULL && (is_alone || w->order == 0))
            next = t;
        else
            sched_push(w, t);
    }
    if ((s->flags & (SLOT_HAS_BUFFER | SLOT_HAS_RETAINED)) != 0) {
        if (kind_is_recorded(kind))
            trace_gap(w->trace);
        graph_release_task(g, s, is_submitter);
    }
    if (is_submitter)
        graph_retire(g, s->number);
    else
        sched_return_slot(w, s);
    return next;
}

/*
 * Pushes a task of an image that has become ready, unless this worker can run it next. Returns the
 * task to run next: `next`, or if that is NULL the new task.
 */
__attribute__((always_inline)) static inline struct slot *complete_pass_on(
    struct worker *w, const struct slot *by, uint32_t line, struct slot *next, enum kind kind)
{
    struct slot *t = graph_slot(w->graph, line);

    if (kind_is_recorded(kind))
        complete_record(w, t, by);
    if ((t->flags & SLOT_IS_SETTLED_FIRST) != 0 && !sched_settle(w, t))
        return next;
    if (next == NULL && (kind == LAUNCHED_ALONE || w->order == 0))
        return t;
    sched_push_line(w, line);
    return next;
}

/*
 * Counts down the successors of a task in an image. The thread that counts a task down to zero
 * resets its counter, because no other thread knows of the task yet. A successor with only one
 * predecessor needs no counter.
 */
__attribute__((always_inline)) static inline struct slot *complete_count(
    struct worker *w, const struct slot *by, const uint32_t *line, uint32_t count, enum kind kind)
{
    struct graph *g = w->graph;
    const uint32_t *end = line + count;
    /* if the worker is shared, other threads count down the same counters */
    bool is_shared = !PORT_ONE_THREAD && kind != LAUNCHED_ALONE && w->is_shared;
    struct slot *next = NULL;

    for (; line != end; line++) {
        bool follows = (*line & SPAN_FOLLOWS) != 0;
        uint32_t index = *line & ~SPAN_FOLLOWS;
        struct slot *t = graph_slot(g, index);

        __builtin_prefetch(t, 0, 3); /* t is perhaps the next task to run */
        if (!follows) {
            struct a32 *counter = &g->counter[index];
            uint32_t left;

            if (is_shared) {
                left = a32_sub_acq_rel(counter, 1) - 1; /* R5 A5 */
            } else {
                left = a32_load_relaxed(counter) - 1; /* accessed by one thread */
                a32_store_relaxed(counter, left);
            }
            port_check(left != UINT32_MAX);
            if (left != 0)
                continue;
            /* mutation: no-rewind */
            /* relaxed: the start of the next launch publishes the counter */
            a32_store_relaxed(counter, t->built_pending);
        }
        next = complete_pass_on(w, by, index, next, kind);
    }
    return next;
}

/* Completes a task of an image. Its list of successors is kept for the next launch. */
__attribute__((always_inline)) static inline struct slot *complete_in_image(struct worker *w,
                                                                            struct slot *s,
                                                                            enum kind kind)
{
    struct graph *g = w->graph;
    bool is_alone = kind == LAUNCHED_ALONE;
    struct slot *next = NULL;

    if (kind_is_recorded(kind) && s->span.count != 0 && s->span.count != SPAN_IS_ONE)
        trace_gap(w->trace);
    if (s->span.count == SPAN_IS_ONE)
        next = complete_pass_on(w, s, s->span.first & ~SPAN_FOLLOWS, next, kind);
    else if (s->span.count != 0)
        next = complete_count(w, s, g->successor + s->span.first, s->span.count, kind);
    if (is_alone || w->index == 0) {
        g->live--;
        /* slots of an image are not freed: the submitter only needs to know how many have finished */
    } else {
        w->return_tail++;
        if (w->return_tail - w->return_sent >= SCHED_COUNTED)
            sched_flush(w);
    }
    return next;
}

/*
 * Resets those fields of a task of an image that a run changes, for the next launch; its counter is
 * reset in complete_count. Plain tasks have nothing to reset.
 */
static inline void complete_rewind(struct slot *s)
{
    if ((s->flags & (SLOT_IS_COUNTED | SLOT_HAS_PREDICATE)) == 0)
        return;
    s->lanes = s->built_lanes;
    s->block_next = 0;
    a32_store_relaxed(&s->block_left, s->block_count * slot_lane_count(s->lanes));
}

#endif
