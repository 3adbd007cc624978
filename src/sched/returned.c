/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completes tasks whose kernels returned outside of a worker's loop, and sends finished slots back
 * to the submitter.
 */
#include "sched/complete.h"

void sched_return_slot(struct worker *w, struct slot *s)
{
    port_check(w->index != 0); /* worker 0 is the submitter's, which frees slots itself */
    atomic_note_write(s);      /* from here on the slot belongs to the submitter */
    if (w->unreturned == 0 &&
        w->return_tail - a32_load_acquire(&w->return_head) < SCHED_RETURN) { /* A11 */
        a32_store_relaxed(&w->return_slot[w->return_tail % SCHED_RETURN], s->number);
        w->return_tail++;
        if (w->return_tail - w->return_sent >= SCHED_BATCH) {
            sched_record_gap(w);
            sched_flush(w);
        }
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
        /* relaxed: only the submitter writes it */
        uint32_t head = a32_load_relaxed(&w->return_head);
        uint32_t tail = a32_load_acquire(&w->return_ready); /* A10 */

        if (head == tail)
            continue;
        total += tail - head;
        /*
         * slots of an image are not freed: the submitter only needs to know how many have finished
         */
        if (g->successor != NULL) {
            g->live -= tail - head;
            head = tail;
        }
        for (; head != tail; head++) {
            uint32_t number = a32_load_relaxed(&w->return_slot[head % SCHED_RETURN]);

            __builtin_prefetch(graph_slot(g, g->info[number].line), 1, 3);
            graph_retire(g, number);
        }
        a32_store_release(&w->return_head, head); /* R11 */
        sched_signal(s); /* a worker whose ring was full may hold finished slots back */
    }
    buffers_collect(g);
    if (g->successor == NULL)
        graph_catch_up(g);
    return total;
}

/* ---- kernels that returned outside of a worker's loop ---- */

/* Completes a task whose last kernel returned outside of a worker's loop. */
static void complete_elsewhere(struct worker *w, struct slot *s)
{
    bool is_image = w->graph->successor != NULL;
    struct slot *next;

    if (is_image)
        complete_rewind(s);
    if (w->trace != NULL) {
        trace_done(w->trace, s->seq);
        next = complete_task(w, s, is_image ? LAUNCHED_RECORDED : STREAMED_RECORDED);
    } else {
        next = complete_task(w, s, is_image ? LAUNCHED : STREAMED);
    }
    if (next != NULL)
        sched_push(w, next);
}

/*
 * Called when one of the task's kernels has returned. True: the task has ended, because no other
 * kernel of it runs and all its conditions hold.
 */
static inline bool is_task_over(struct sched *s, struct slot *slot, struct core_slab *slab)
{
    /* read before sched_defer, after which another thread may complete the task */
    bool is_counted = (slot->flags & SLOT_IS_COUNTED) != 0;
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

/* Whether the task has one kernel, for a core of this type, that runs once. */
static inline bool is_plain_for(const struct slot *s, uint32_t core_type, enum kind kind)
{
    uint32_t unusual = kind_is_image(kind) ? SLOT_IS_WHOLE | SLOT_IS_DUMMY : SLOT_IS_SPECIAL;

    return s->core_type == core_type && (s->flags & unusual) == 0 && s->lanes != 0;
}

/*
 * Chooses the task that the free core runs next: `next`, which has just become ready, or else the
 * task that has been parked for longest. NULL: let sched_run choose.
 */
__attribute__((always_inline)) static inline struct slot *next_for(struct worker *w,
                                                                   struct slot *next,
                                                                   uint32_t core_type,
                                                                   enum kind kind)
{
    bool is_free = core_type != PTO_CORE_TYPES && (kind_is_alone(kind) || w->order == 0) &&
                   /* relaxed: a late value is harmless, because it is polled again */
                   a32_load_relaxed(&w->sched->attention) == 0;

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

    if (kind_is_recorded(kind) && slab != NULL)
        trace_defer(w->trace, s->seq);
    if (is_task_over(w->sched, s, slab)) {
        if (kind_is_image(kind))
            complete_rewind(s);
        if (kind_is_recorded(kind))
            w->trace->last = port_cycles();
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

__attribute__((noinline)) static struct slot *take_back_recorded(struct worker *w, struct slot *s,
                                                                 struct core_slab *slab,
                                                                 uint32_t core_type)
{
    return w->graph->successor != NULL ? returned_take(w, s, slab, core_type, LAUNCHED_RECORDED)
                                       : returned_take(w, s, slab, core_type, STREAMED_RECORDED);
}

struct slot *sched_returned_to(struct worker *w, struct slot *s, struct core_slab *slab,
                               uint32_t core_type)
{
    if (w->graph->successor != NULL)
        return w->trace != NULL ? take_back_recorded(w, s, slab, core_type)
                                : take_back_launched(w, s, slab, core_type);
    if (!worker_streams_alone(w))
        return w->trace != NULL ? take_back_recorded(w, s, slab, core_type)
                                : take_back_streamed(w, s, slab, core_type);
    return returned_take(w, s, slab, core_type, STREAMED_ALONE);
}

void sched_skipped(struct sched *s, struct graph *g, struct slot *slot, uint32_t count)
{
    a32_add_relaxed(&s->stopped, 1); /* relaxed: read only after the run */
    sched_blocks_over(s, g, slot, count);
}

void sched_blocks_over(struct sched *s, struct graph *g, struct slot *slot, uint32_t count)
{
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
