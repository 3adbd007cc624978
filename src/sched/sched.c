/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of workers: the next task, its kernel, its end. The table of ordered pairs is in sched.h. */
#include "sched/sched.h"

#include <string.h>

#include "sched/complete.h"
#include "sched/order.h"

enum step {
    STEP_DONE,  /* the task is over: complete it */
    STEP_LATER, /* it goes on elsewhere or waits */
    STEP_SENT,  /* the same, for this one invocation */
    STEP_LOST,  /* the thread lost its place */
    STEP_HELD,  /* it was not begun: the run is late */
};

static bool worker_attend(struct worker *w);
static enum step run_special(struct worker *w, struct slot *s);
static void set_hungry(struct worker *w, bool is_hungry);
static struct slot *take_task(struct worker *w);
static struct slot *take_elsewhere(struct worker *w);
static struct slot *pop_private(struct worker *w);
static struct slot *pop_deque(struct worker *w);
static struct slot *pop_newest(struct worker *w);
static void leave_lines(struct worker *w);

static_assert((SCHED_DEQUE & (SCHED_DEQUE - 1)) == 0, "indices are masked");
static_assert(SCHED_CLAIM <= SCHED_PUBLIC, "a claim fits the ring");

void sched_init(struct sched *s, void *machine)
{
    memset(s, 0, sizeof(*s));
    s->machine = machine;
    s->root_most = (struct a32){ SCHED_ROOTS }; /* nobody else knows of it yet */
}

void sched_add_worker(struct sched *s, struct worker *w, struct graph *graph)
{
    port_assert(s->worker_count < SCHED_WORKERS_MAX);
    memset(w, 0, sizeof(*w));
    w->sched = s;
    w->graph = graph;
    w->index = s->worker_count;
    w->is_shared = true;
    s->worker[s->worker_count++] = w;
}

/*
 * Other threads may be looking for work while this is called, and find none:
 * only fields that they do not read before they have claimed a task change.
 */
void sched_start(struct sched *s, const struct graph_kernel *kernels, uint64_t order_seed)
{
    s->kernels = kernels;
    a32_store_relaxed(&s->short_hint, HINT_NONE);
    a32_store_relaxed(&s->fault.status, 0);
    a32_store_relaxed(&s->fault.is_whole, 0);
    a32_store_relaxed(&s->stopped, 0);
    for (uint32_t i = 0; i < PTO_TIMING_SLOTS; i++) {
        a64_store_relaxed(&s->timing[i].begin, 0);
        a64_store_relaxed(&s->timing[i].end, 0);
    }
    s->worker[0]->is_shared = s->worker_count > 1; /* or a thread is set aside */
    for (uint32_t i = 0; i < s->worker_count; i++) {
        struct worker *w = s->worker[i];

        w->is_offering = true;
        order_start(w, order_seed);
        w->stolen = 0;
        memset(w->nothing, 0, sizeof(w->nothing));
        memset(w->executed, 0, sizeof(w->executed));
        memset(w->reported, 0, sizeof(w->reported));
        w->until = SCHED_BATCH - 1;
    }
}

void sched_discard(struct worker *w)
{
    port_assert(a32_load_relaxed(&w->public_head) == a32_load_relaxed(&w->public_tail)); /* held */
    w->deque_head = w->deque_tail;
    w->list = 0;
}

/*
 * Between two calls at most SCHED_BATCH tasks are pushed, and no more than fit;
 * what is claimed or comes back from the list goes into a deque that is at most
 * half full.
 */
int sched_pushed(struct worker *w)
{
    uint32_t room = SCHED_DEQUE - (w->deque_tail - w->deque_head);

    port_check(room <= SCHED_DEQUE);
    if (room == 0) { /* the older half goes into the list */
        for (uint32_t i = 0; i < SCHED_DEQUE / 2; i++)
            line_wait(w, graph_slot(w->graph, w->deque[w->deque_head++ % SCHED_DEQUE]));
        room = SCHED_DEQUE / 2;
    }
    w->until = (room < SCHED_BATCH ? (int32_t)room : SCHED_BATCH) - 1;
    if (w->is_shared && w->is_offering &&
        a32_load_relaxed(&w->sched->short_hint) != HINT_GIVEN) /* a hint */
        sched_publish(w);
    return 0;
}

/* Of the core on which this worker runs the task. */
static inline uint32_t core_number(const struct worker *w, const struct slot *s)
{
    return w->core_index[s->core_type] + (s->core_type == PTO_CORE_AIV ? w->sched->aic_count : 0);
}

/* One that the worker does not have yet. */
__attribute__((noinline)) static bool find_core(struct worker *w, struct slot *s)
{
    if ((w->core_none >> s->core_type & 1) == 0 &&
        port_core_acquire(w->sched->machine, w, s->core_type))
        return true;
    if (worker_is_only(w))
        sched_park(w, s);
    else
        sched_park_shared(w, s);
    return false;
}

/* Whether the worker has a core for the task; if not, somebody else will. */
static inline bool has_core(struct worker *w, struct slot *s)
{
    return __builtin_expect((w->core_mask & (1u << s->core_type)) != 0, 1) || find_core(w, s);
}

/* One invocation on the worker's core. If the task waits for conditions, it is not this thread's any more. */
__attribute__((always_inline)) static inline enum step invoke(struct worker *w, struct slot *s,
                                                              const struct pto_tensor *tensor,
                                                              uint32_t block, uint32_t block_count,
                                                              bool is_timed, bool is_traced)
{
    struct core *core = w->core;
    enum port_start start;

    w->executed[s->core_type]++;
    if (is_traced && w->trace != NULL) {
        if (!trace_watch(w->trace, s, TRACE_BEGIN))
            return STEP_DONE;
        trace_begin(w->trace, s->seq, core_number(w, s), s->kernel[0], block);
    }
    start =
        port_core_start(core, s, tensor, w->sched->kernels[s->kernel[0]].fn, block, block_count);
    if (start != PORT_DONE)
        return start == PORT_SENT ? STEP_SENT : STEP_LOST;
    if (is_traced && w->trace != NULL) {
        trace_end(w->trace, s->seq, core_number(w, s), block);
        (void)trace_watch(w->trace, s, TRACE_END);
    }
    if (is_timed)
        sched_time_end(w->sched, s);
    if (core_has_deferred(core)) {
        sched_share(w); /* whoever polls may go on with it */
        if (sched_defer(w->sched, s, &core->slab))
            return STEP_LATER;
    }
    return STEP_DONE;
}

/* Which of the reasons it is. Of a team the first lane may lack a kernel, too. */
static inline enum trace_nothing why_nothing(const struct slot *s)
{
    if (s->lanes != 0)
        return TRACE_STOPPED;
    return s->kernel[0] == SLOT_NO_KERNEL && (s->flags & SLOT_IS_TEAM) == 0 ? TRACE_DUMMY
                                                                            : TRACE_SKIPPED;
}

/* The task runs nothing: a dummy, a predicate that does not hold, a run that was stopped. */
__attribute__((noinline)) static enum step run_nothing(struct worker *w, struct slot *s)
{
    enum trace_nothing why = why_nothing(s);

    if (slot_is_join(s))
        return STEP_DONE;
    /* One writer. The report of an abandoned run may read it at any time, and orders nothing by it. */
    a64_store_relaxed(&w->nothing[why], a64_load_relaxed(&w->nothing[why]) + 1);
    if (w->trace != NULL)
        trace_no_run(w->trace, s->seq, s->kernel[s->kernel[0] == SLOT_NO_KERNEL], why);
    return STEP_DONE;
}

/* Kernels are not started. While a run is late, and nobody has said so yet, tasks stay as they are. */
__attribute__((cold, noinline)) static enum step run_stopped(struct worker *w, struct slot *s)
{
    return sched_is_stopped(w->sched) ? run_nothing(w, s) : STEP_HELD;
}

__attribute__((always_inline)) static inline enum step run_plain(struct worker *w, struct slot *s,
                                                                 enum kind kind)
{
    const struct pto_tensor *tensor =
        kind_is_image(kind) ? (const void *)graph_slot(w->graph, s->payload) : s->tensor;

    if (__builtin_expect(a32_load_relaxed(&w->sched->attention) != 0, 0) && /* soon enough */
        !worker_attend(w))
        return run_stopped(w, s);
    if (!has_core(w, s))
        return STEP_LATER;
    if (!kind_is_alone(kind))
        sched_offer(w); /* before a kernel that may take long */
    return invoke(w, s, tensor, 0, 1, false, !kind_is_alone(kind));
}

/* Any task but a plain one of an image. */
__attribute__((always_inline)) static inline enum step run_any(struct worker *w, struct slot *s,
                                                               enum kind kind)
{
    return s->lanes == 0                       ? run_nothing(w, s)
           : (s->flags & SLOT_IS_SPECIAL) != 0 ? run_special(w, s)
                                               : run_plain(w, s, kind);
}

/* In an image, where these are rare. */
__attribute__((noinline)) static enum step run_whole(struct worker *w, struct slot *s)
{
    enum step step = run_any(w, s, LAUNCHED);

    if (step == STEP_DONE)
        complete_rewind(s);
    return step;
}

__attribute__((cold, noinline)) static enum sched_result put_back(struct worker *w, struct slot *s)
{
    sched_push(w, s);
    return SCHED_HELD;
}

/*
 * A task and what follows it, as long as it is this worker's: a worker with
 * nothing of its own may find itself in the next run, of another kind.
 */
__attribute__((always_inline)) static inline enum sched_result run_private(struct worker *w,
                                                                           struct slot *s,
                                                                           uint32_t *max,
                                                                           enum kind kind)
{
    uint32_t left = *max;

    for (;;) {
        enum step step = !kind_is_image(kind) ? run_any(w, s, kind)
                         : (s->flags & (SLOT_IS_WHOLE | SLOT_IS_DUMMY)) != 0
                             ? run_whole(w, s)
                             : run_plain(w, s, kind);

        if (step >= STEP_LOST)
            return step == STEP_HELD ? put_back(w, s) : SCHED_LOST;
        s = step == STEP_DONE ? complete_task(w, s, kind) : NULL;
        if (!PORT_ONE_THREAD && kind_is_alone(kind) && step != STEP_DONE)
            break; /* others know of it now: on in the loop for that */
        if (--left == 0) {
            if (s != NULL)
                sched_push(w, s);
            return SCHED_BUDGET;
        }
        if (s != NULL)
            continue;
        if (w->deque_tail == w->deque_head)
            break;
        s = kind_is_alone(kind) ? pop_newest(w) : pop_deque(w);
    }
    *max = left;
    return SCHED_IDLE;
}

/* The compiler makes a function of its own for each kind of run. */
__attribute__((noinline)) static enum sched_result run_streamed(struct worker *w, struct slot *s,
                                                                uint32_t *max)
{
    return run_private(w, s, max, STREAMED);
}

__attribute__((noinline)) static enum sched_result run_streamed_alone(struct worker *w,
                                                                      struct slot *s, uint32_t *max)
{
    return run_private(w, s, max, STREAMED_ALONE);
}

__attribute__((noinline)) static enum sched_result run_launched(struct worker *w, struct slot *s,
                                                                uint32_t *max)
{
    return run_private(w, s, max, LAUNCHED);
}

__attribute__((noinline)) static enum sched_result run_launched_alone(struct worker *w,
                                                                      struct slot *s, uint32_t *max)
{
    return run_private(w, s, max, LAUNCHED_ALONE);
}

/*
 * The tasks of an image line by line: each comes after those that it waits for, so
 * nothing need be counted as long as one worker runs all of them, one after the
 * other. Whoever comes to the place of a thread that is not back leaves that way.
 */
__attribute__((noinline)) static enum sched_result run_lines(struct worker *w, uint32_t max)
{
    uint32_t line = w->line_now, end = w->line_end;
    uint32_t stop = end - line > max ? line + max : end;

    w->is_in_line = true;
    for (; line != stop; line++) {
        struct slot *s = graph_slot(w->graph, line);
        enum step step;

        w->line_now = line; /* before the kernel: R7 */
        step =
            (s->flags & SLOT_IS_DUMMY) != 0 ? run_nothing(w, s) : run_plain(w, s, LAUNCHED_ALONE);
        if (step == STEP_LOST)
            return SCHED_LOST;
        if (step == STEP_HELD)
            break;
        if (step != STEP_DONE) {
            leave_lines(w);
            return SCHED_IDLE;
        }
    }
    w->is_in_line = false;
    w->graph->live = end - line;
    w->line_now = line != end ? line : 0;
    return line == end ? SCHED_IDLE : line == stop ? SCHED_BUDGET : SCHED_HELD;
}

static inline bool worker_is_alone(const struct worker *w)
{
    return !w->is_shared && w->order == 0 && w->trace == NULL;
}

static inline enum sched_result run_as(struct worker *w, struct slot *s, uint32_t *max)
{
    if (w->graph->successor == NULL)
        return worker_streams_alone(w) ? run_streamed_alone(w, s, max) : run_streamed(w, s, max);
    return worker_is_alone(w) ? run_launched_alone(w, s, max) : run_launched(w, s, max);
}

enum sched_result sched_run(struct worker *w, uint32_t max)
{
    enum sched_result result;
    struct slot *s;

    if (w->line_now != 0) {
        if (w->is_in_line || w->is_shared)
            leave_lines(w);
        else if ((result = run_lines(w, max)) != SCHED_IDLE)
            return result;
    }
    if (a32_load_relaxed(&w->sched->finished) != 0) /* a glance; sched_complete_finished decides */
        sched_complete_finished(w);
    if (a32_load_relaxed(&w->sched->attention) != 0) /* soon enough */
        worker_attend(w);
    s = take_task(w);
    if (s != NULL && w->is_hungry)
        set_hungry(w, false);
    while (s != NULL) {
        result = run_as(w, s, &max);
        if (result != SCHED_IDLE)
            return result;
        s = take_task(w);
    }
    if (w->is_shared && !w->is_hungry)
        set_hungry(w, true);
    return SCHED_IDLE;
}

/* Something is unusual. Returns whether kernels may be started. */
static bool worker_attend(struct worker *w)
{
    uint32_t attention = a32_load_relaxed(&w->sched->attention); /* soon enough */

    if ((attention & ATTEND_TEAMS) != 0 && w->core_mask != 0)
        port_cores_yield(w->sched->machine, w);
    return (attention & (ATTEND_STOPPED | ATTEND_LATE)) == 0; /* mutation: late-cancel */
}

/*
 * A task with several invocations, or a timed one. Of an SPMD task only one
 * worker has the right to start blocks: it passes the task on, through its own
 * deque, before it runs the block that it took. So blocks start in order, and
 * whoever finds the task ready starts the next one.
 */
__attribute__((noinline)) static enum step run_special(struct worker *w, struct slot *s)
{
    bool is_counted = (s->flags & SLOT_IS_COUNTED) != 0;
    bool is_timed = (s->flags & SLOT_IS_TIMED) != 0;
    uint32_t block = 0;
    enum step step;

    if ((s->flags & SLOT_IS_TEAM) != 0) {
        bool is_ordered = w->order != 0; /* the run may be over once the team has started */

        if (sched_is_stopped(w->sched))
            return run_nothing(w, s);
        w->is_shared = true; /* it comes back through a shared list */
        port_team_start(w->sched->machine, s);
        if (is_ordered && a32_load_relaxed(&w->sched->finished) != 0) /* a glance */
            sched_complete_finished(w); /* what follows it is ordered with the rest */
        return STEP_LATER;
    }
    if (a32_load_relaxed(&w->sched->attention) != 0 && !worker_attend(w)) { /* soon enough */
        if (!sched_is_stopped(w->sched))
            return STEP_HELD;
        atomic_note_read(&s->block_next);
        return !is_counted || complete_block(s, s->block_count - s->block_next) ? run_nothing(w, s)
                                                                                : STEP_LATER;
    }
    if (!has_core(w, s))
        return STEP_LATER;
    if (is_counted) {
        atomic_note_write(&s->block_next);
        block = s->block_next++;
        if (s->block_next < s->block_count)
            sched_push(w, s); /* from here on it may be another worker's */
    }
    sched_offer(w);
    if (is_timed)
        sched_time_begin(w->sched, s);
    step = invoke(w, s, s->tensor, block, s->block_count, is_timed, true);
    if (step < STEP_SENT && is_counted)
        return complete_block(s, 1) ? STEP_DONE : STEP_LATER;
    return step;
}

/* A hint to others, which offer more readily then: being late costs time, nothing else. */
static void set_hungry(struct worker *w, bool is_hungry)
{
    w->is_hungry = is_hungry;
    if (is_hungry)
        a32_add_relaxed(&w->sched->hungry, 1);
    else
        a32_sub_relaxed(&w->sched->hungry, 1);
}

void sched_look_away(struct worker *w)
{
    if (w->is_hungry)
        set_hungry(w, false);
}

/*
 * From lines to counters: what is before line_now is complete, and counted down for
 * what has not begun. The task there may be on its way elsewhere, and be completed at
 * the same time by somebody else; who has it, or is offered what is pushed here, knows
 * what was before.
 */
static void leave_lines(struct worker *w)
{
    struct graph *g = w->graph;
    uint32_t now = w->line_now, end = w->line_end;
    uint32_t first = w->is_in_line ? now + 1 : now; /* that has not begun */

    g->live = end - now;
    w->line_now = 0;
    w->is_in_line = false;
    for (uint32_t line = first; line != end; line++)
        if (graph_slot(g, line)->built_pending == 0)
            sched_push_line(w, line);
    for (uint32_t line = 1; line != now; line++) {
        const struct slot_span *span = &graph_slot(g, line)->span;
        bool is_one = span->count == SPAN_IS_ONE;
        const uint32_t *successor = is_one ? &span->first : &g->successor[span->first];

        for (uint32_t i = 0; i < (is_one ? 1 : span->count); i++) {
            uint32_t next = successor[i] & ~SPAN_FOLLOWS;
            struct a32 *counter = &g->counter[next];

            if (next < first)
                continue;
            if ((successor[i] & SPAN_FOLLOWS) == 0) {
                if (a32_sub_acq_rel(counter, 1) != 1) /* A5 */
                    continue;
                a32_store_relaxed(counter, graph_slot(g, next)->built_pending);
            }
            sched_push_line(w, next);
        }
    }
}

/* ---- where the next task comes from ---- */

static inline struct slot *take_task(struct worker *w)
{
    struct slot *s;

    if (w->deque_tail != w->deque_head)
        return pop_deque(w);
    s = pop_private(w);
    if (s != NULL)
        return s;
    if (w->is_shared)
        return take_elsewhere(w);
    return sched_claim_roots(w) ? pop_deque(w) : NULL;
}

/*
 * Refills the deque from the list, up to half; what was parked may have filled it beyond. Slots
 * that were made one after the other lie so, and those that are likely to come are asked for.
 */
static struct slot *pop_private(struct worker *w)
{
    while (w->list != 0 && w->deque_tail - w->deque_head < SCHED_DEQUE / 2) {
        uint32_t line = w->list;

        (void)line_pop(w->graph, &w->list);
        w->deque[w->deque_tail++ % SCHED_DEQUE] = line;
        __builtin_prefetch(graph_slot(w->graph, line + SCHED_AHEAD * (w->list - line)), 1, 3);
    }
    return w->deque_tail != w->deque_head ? pop_deque(w) : NULL;
}

/* It is not empty. */
static inline struct slot *pop_deque(struct worker *w)
{
    return w->order == 0 ? pop_newest(w) : order_pop(w);
}

static inline struct slot *pop_newest(struct worker *w)
{
    port_check(w->deque_tail != w->deque_head);
    return graph_slot(w->graph, w->deque[--w->deque_tail % SCHED_DEQUE]);
}

static struct slot *take_elsewhere(struct worker *w)
{
    struct sched *s = w->sched;
    bool has_found;

    port_core_reset(w->core);
    has_found = sched_claim_tasks(w, w) || sched_claim_roots(w);
    for (uint32_t i = 1; i < s->worker_count && !has_found; i++)
        has_found = sched_claim_tasks(w, s->worker[(w->index + i) % s->worker_count]);
    if (!has_found)
        has_found = sched_take_parked(w);
    if (!has_found && a32_load_relaxed(&s->finished) != 0) /* a glance */
        has_found = sched_complete_finished(w);
    return has_found ? pop_private(w) : NULL;
}
