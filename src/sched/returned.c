/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that returned elsewhere than in the loop of a worker, and slots on their way back. */
#include "sched/complete.h"

void sched_return_slot(struct worker *w, struct slot *s)
{
    port_check(w->index != 0); /* the submitter retires slots itself */
    atomic_note_write(s);      /* from here on it is the submitter's */
    if (w->unreturned == 0 &&
        w->return_tail - a32_load_acquire(&w->return_head) < SCHED_RETURN) { /* A11 */
        a32_store_relaxed(&w->return_slot[w->return_tail % SCHED_RETURN], s->number);
        w->return_tail++;
        if (w->return_tail - w->return_sent >= SCHED_BATCH)
            sched_flush(w);
    } else {
        line_push(w->graph, &w->unreturned, s);
    }
}

void sched_flush(struct worker *w)
{
    while (w->unreturned != 0 &&
           w->return_tail - a32_load_acquire(&w->return_head) < SCHED_RETURN) { /* A11 */
        struct slot *s = line_pop(w->graph, &w->unreturned);

        a32_store_relaxed(&w->return_slot[w->return_tail % SCHED_RETURN], s->number);
        w->return_tail++;
    }
    if (w->return_tail == w->return_sent)
        return;
    w->return_sent = w->return_tail;
    a32_store_release(&w->return_ready, w->return_tail); /* R10 */
    sched_signal(w->sched);
}

uint32_t sched_collect(struct sched *s, struct graph *g)
{
    uint32_t total = 0;

    for (uint32_t i = 1; i < s->worker_count; i++) {
        struct worker *w = s->worker[i];
        uint32_t head = a32_load_relaxed(&w->return_head);  /* own index */
        uint32_t tail = a32_load_acquire(&w->return_ready); /* A10 */

        if (head == tail)
            continue;
        total += tail - head;
        if (g->successor != NULL) { /* nothing to retire: only how many is of interest */
            g->live -= tail - head;
            head = tail;
        }
        for (; head != tail; head++) {
            uint32_t number = a32_load_relaxed(&w->return_slot[head % SCHED_RETURN]);

            __builtin_prefetch(graph_slot(g, g->info[number].line), 1, 3);
            graph_retire(g, number);
        }
        a32_store_release(&w->return_head, head); /* R11 */
        sched_signal(s); /* the worker may hold slots back because its ring was full */
    }
    buffers_collect(g);
    if (g->successor == NULL)
        graph_catch_up(g);
    return total;
}

/* ---- kernels that return elsewhere ---- */

/* A task whose kernels did not return to the worker's loop. */
static void complete_elsewhere(struct worker *w, struct slot *s)
{
    bool is_image = w->graph->successor != NULL;
    struct slot *next;

    if (is_image)
        complete_rewind(s);
    next = complete_task(w, s, is_image ? LAUNCHED : STREAMED);
    if (next != NULL)
        sched_push(w, next);
}

/* One of the task's kernels has returned. Whether it was the last, and there is no condition to wait for. */
static inline bool is_task_over(struct sched *s, struct slot *slot, struct core_slab *slab)
{
    bool is_counted = (slot->flags & SLOT_IS_COUNTED) != 0; /* while the task is this one's */
    bool is_deferred;

    if (slab == NULL && (slot->flags & SLOT_IS_SPECIAL) == 0)
        return true;
    if ((slot->flags & SLOT_IS_TIMED) != 0)
        sched_time_end(s, slot);
    is_deferred = slab != NULL && sched_defer(s, slot, slab);
    return is_counted ? complete_block(slot, 1) : !is_deferred;
}

void sched_returned(struct sched *s, struct graph *g, struct slot *slot, struct core *core)
{
    if (is_task_over(s, slot, core_deferred(core)))
        sched_finished(s, g, slot);
}

/* Whether the task is one that a core of the type runs as any other. */
static inline bool is_plain_for(const struct slot *s, uint32_t core_type, enum kind kind)
{
    uint32_t unusual = kind_is_image(kind) ? SLOT_IS_WHOLE | SLOT_IS_DUMMY : SLOT_IS_SPECIAL;

    return s->core_type == core_type && (s->flags & unusual) == 0 && s->lanes != 0;
}

/*
 * What the core goes on with: what has just become ready, else what has waited for
 * longest. Whatever else there is sched_run finds.
 */
__attribute__((always_inline)) static inline struct slot *next_for(struct worker *w,
                                                                   struct slot *next,
                                                                   uint32_t core_type,
                                                                   enum kind kind)
{
    bool is_free = core_type != PTO_CORE_TYPES && (kind_is_alone(kind) || w->order == 0) &&
                   a32_load_relaxed(&w->sched->attention) == 0; /* soon enough */

    if (next != NULL && (!is_free || !is_plain_for(next, core_type, kind))) {
        sched_push(w, next);
        next = NULL;
    }
    if (next == NULL) {
        uint32_t line = is_free ? w->parked[core_type] : 0;

        if (line == 0 || !is_plain_for(graph_slot(w->graph, line), core_type, kind))
            return NULL;
        next = line_pop(w->graph, &w->parked[core_type]);
    }
    w->executed[core_type]++;
    return next;
}

__attribute__((always_inline)) static inline struct slot *returned_take(
    struct worker *w, struct slot *s, struct core_slab *slab, uint32_t core_type, enum kind kind)
{
    struct slot *next = NULL;

    if (is_task_over(w->sched, s, slab)) {
        if (kind_is_image(kind))
            complete_rewind(s);
        next = complete_task(w, s, kind);
    }
    return next_for(w, next, core_type, kind);
}

__attribute__((noinline)) static struct slot *take_back_launched(struct worker *w, struct slot *s,
                                                                 struct core_slab *slab,
                                                                 uint32_t core_type)
{
    return returned_take(w, s, slab, core_type, LAUNCHED);
}

__attribute__((noinline)) static struct slot *take_back_streamed(struct worker *w, struct slot *s,
                                                                 struct core_slab *slab,
                                                                 uint32_t core_type)
{
    return returned_take(w, s, slab, core_type, STREAMED);
}

struct slot *sched_returned_to(struct worker *w, struct slot *s, struct core_slab *slab,
                               uint32_t core_type)
{
    if (w->graph->successor != NULL)
        return take_back_launched(w, s, slab, core_type);
    if (!worker_streams_alone(w))
        return take_back_streamed(w, s, slab, core_type);
    return returned_take(w, s, slab, core_type, STREAMED_ALONE);
}

void sched_skipped(struct sched *s, struct graph *g, struct slot *slot, uint32_t count)
{
    a32_add_relaxed(&s->stopped, 1); /* read after the run */
    if (complete_block(slot, count))
        sched_finished(s, g, slot);
}

void sched_finished(struct sched *s, struct graph *g, struct slot *slot)
{
    line_push_shared(g, &s->finished, slot);
    sched_signal(s);
}

bool sched_complete_finished(struct worker *w)
{
    uint32_t list = a32_swap_acq_rel(&w->sched->finished, 0); /* A12 */
    bool has_any = list != 0;

    while (list != 0)
        complete_elsewhere(w, line_pop(w->graph, &list));
    return has_any;
}
