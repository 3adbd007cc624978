/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a task, for the loops of sched.c and for kernels that return elsewhere
 * (returned.c); and what the files of the scheduler call of each other. Inline: the
 * compiler makes a function of its own for each kind of run.
 */
#ifndef PTO_COMPLETE_H
#define PTO_COMPLETE_H

#include "sched/sched.h"

/* What the compiler makes a loop of its own for. */
enum kind {
    STREAMED,
    STREAMED_ALONE, /* the same, by one worker, newest first, unrecorded */
    LAUNCHED,       /* an image */
    LAUNCHED_ALONE,
};

static inline bool kind_is_alone(enum kind kind)
{
    return kind == STREAMED_ALONE || kind == LAUNCHED_ALONE;
}

static inline bool kind_is_image(enum kind kind)
{
    return kind == LAUNCHED || kind == LAUNCHED_ALONE;
}

/* offers.c: up to SCHED_CLAIM tasks of another worker's offer. False: there is none. */
bool sched_claim_tasks(struct worker *w, struct worker *from);
/* Some of the tasks with which a launch starts. */
bool sched_claim_roots(struct worker *w);
/* A ready task for which the worker has no core: some other worker may. */
void sched_park_shared(struct worker *w, struct slot *s);
/* What was parked, for cores that the worker can have now. */
bool sched_take_parked(struct worker *w);
/* returned.c: completes what others have finished. False: there was nothing. */
bool sched_complete_finished(struct worker *w);
/* A completed task's slot, on its way back to the submitter. */
void sched_return_slot(struct worker *w, struct slot *s);

/* `pending` of a task that is ready, or complete, links it in lists. */
static inline void line_push(const struct graph *g, uint32_t *list, struct slot *s)
{
    a32_store_relaxed(&s->pending, *list); /* the list is one thread's */
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
    uint32_t head = a32_load_relaxed(list); /* the exchange checks it */

    do {
        a32_store_relaxed(&slot->pending, head);
    } while (!a32_cas_acq_rel(list, &head, graph_slot_line(g, slot))); /* R12 R13 */
}

/* A ready task for which the deque has no room. */
static inline void line_wait(struct worker *w, struct slot *s)
{
    sched_list_append(w->graph, &w->list, &w->list_end, s);
}

static inline bool worker_is_only(const struct worker *w)
{
    return PORT_ONE_THREAD || w->sched->worker_count == 1;
}

/* Whether a stream runs in the loop for one worker: no other thread knows of a live task, and none is offered. */
static inline bool worker_streams_alone(const struct worker *w)
{
    return (PORT_ONE_THREAD || !w->is_shared ||
            (w->index == 0 && !w->graph->is_shared && !w->is_offering)) &&
           w->order == 0 && w->trace == NULL;
}

/* Invocations that are over, or never will be started. True: they were the last ones. */
static inline bool complete_block(struct slot *s, uint32_t count)
{
    uint32_t left = a32_sub_acq_rel(&s->block_left, count); /* R17 A17 */

    port_check(left >= count);
    return left == count;
}

__attribute__((always_inline)) static inline struct slot *complete_in_image(struct worker *w,
                                                                            struct slot *s,
                                                                            enum kind kind);

/*
 * Seals the list of successors and counts each of them down. Returns one that
 * became ready, to run next: what this task wrote is still in the cache.
 */
__attribute__((always_inline)) static inline struct slot *complete_task(struct worker *w,
                                                                        struct slot *s,
                                                                        enum kind kind)
{
    struct graph *g = w->graph;
    bool is_alone = kind_is_alone(kind);
    bool is_submitter = is_alone || w->index == 0;
    /* It may offer tasks before this one is complete. */
    bool is_shared = !PORT_ONE_THREAD && !is_alone && w->is_shared;
    struct slot *next = NULL;
    struct edge *e;

    if (kind_is_image(kind))
        return complete_in_image(w, s, kind);
    if (is_shared) {
        e = aptr_swap_acq_rel(&s->successors, SLOT_SEALED); /* R2 A1 mutation: no-seal */
    } else {
        e = aptr_load_relaxed(&s->successors); /* one thread */
        aptr_store_relaxed(&s->successors, SLOT_SEALED);
    }
    port_check(e != SLOT_SEALED); /* a task completes once */
    while (e != NULL) {
        struct slot *t = e->self;
        uint32_t left;

        atomic_note_read(e);
        e = e->next; /* before t can run, and its slot with this edge be used again */
        if (is_shared) {
            left = a32_sub_acq_rel(&t->pending, 1) - 1; /* R5 A5 */
        } else {
            left = a32_load_relaxed(&t->pending) - 1; /* one thread */
            a32_store_relaxed(&t->pending, left);
        }
        port_check(left != UINT32_MAX);
        if (left != 0)
            continue;
        if ((t->flags & SLOT_IS_SETTLED_FIRST) != 0 && !sched_settle(w, t))
            continue;
        if (next == NULL && (is_alone || w->order == 0))
            next = t;
        else
            sched_push(w, t);
    }
    if ((s->flags & (SLOT_HAS_BUFFER | SLOT_HAS_RETAINED)) != 0)
        graph_release_task(g, s, is_submitter);
    if (is_submitter)
        graph_retire(g, s->number);
    else
        sched_return_slot(w, s);
    return next;
}

/* A task of an image is ready. Returns the one to run next: `next`, unless there was none. */
__attribute__((always_inline)) static inline struct slot *complete_pass_on(struct worker *w,
                                                                           uint32_t line,
                                                                           struct slot *next,
                                                                           enum kind kind)
{
    struct slot *t = graph_slot(w->graph, line);

    if ((t->flags & SLOT_IS_SETTLED_FIRST) != 0 && !sched_settle(w, t))
        return next;
    if (next == NULL && (kind == LAUNCHED_ALONE || w->order == 0))
        return t;
    sched_push_line(w, line);
    return next;
}

/*
 * Counts successors in an image down. Whoever makes one ready puts its counter
 * back: nobody else knows of the task then. One that follows has no counter:
 * this thread makes it ready, and nobody else ever could.
 */
__attribute__((always_inline)) static inline struct slot *complete_count(struct worker *w,
                                                                         const uint32_t *line,
                                                                         uint32_t count,
                                                                         enum kind kind)
{
    struct graph *g = w->graph;
    const uint32_t *end = line + count;
    /* What goes on elsewhere, too. */
    bool is_shared = !PORT_ONE_THREAD && kind != LAUNCHED_ALONE && w->is_shared;
    struct slot *next = NULL;

    for (; line != end; line++) {
        bool follows = (*line & SPAN_FOLLOWS) != 0;
        uint32_t index = *line & ~SPAN_FOLLOWS;
        struct slot *t = graph_slot(g, index);

        __builtin_prefetch(t, 0, 3); /* it may be the next one */
        if (!follows) {
            struct a32 *counter = &g->counter[index];
            uint32_t left;

            if (is_shared) {
                left = a32_sub_acq_rel(counter, 1) - 1; /* R5 A5 */
            } else {
                left = a32_load_relaxed(counter) - 1; /* one thread */
                a32_store_relaxed(counter, left);
            }
            port_check(left != UINT32_MAX);
            if (left != 0)
                continue;
            /* mutation: no-rewind */
            a32_store_relaxed(counter, t->built_pending); /* the next launch publishes it */
        }
        next = complete_pass_on(w, index, next, kind);
    }
    return next;
}

/* The same in a graph that is launched again: the list stays. */
__attribute__((always_inline)) static inline struct slot *complete_in_image(struct worker *w,
                                                                            struct slot *s,
                                                                            enum kind kind)
{
    struct graph *g = w->graph;
    bool is_alone = kind == LAUNCHED_ALONE;
    struct slot *next = NULL;

    if (s->span.count == SPAN_IS_ONE)
        next = complete_pass_on(w, s->span.first & ~SPAN_FOLLOWS, next, kind);
    else if (s->span.count != 0)
        next = complete_count(w, g->successor + s->span.first, s->span.count, kind);
    if (is_alone || w->index == 0) {
        g->live--;
    } else { /* the ring is not used: the submitter only wants to know how many */
        w->return_tail++;
        if (w->return_tail - w->return_sent >= SCHED_COUNTED)
            sched_flush(w);
    }
    return next;
}

/* What a task of an image has besides its counter; others have nothing to put back. */
static inline void complete_rewind(struct slot *s)
{
    if ((s->flags & (SLOT_IS_COUNTED | SLOT_HAS_PREDICATE)) == 0)
        return;
    s->lanes = s->built_lanes;
    s->block_next = 0;
    a32_store_relaxed(&s->block_left, s->block_count * slot_lane_count(s->lanes));
}

#endif
