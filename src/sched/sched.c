/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of workers: take a task, run its kernel, complete it. sched.h lists the memory orders.
 */
#include "sched/sched.h"

#include <string.h>

#include "sched/complete.h"
#include "sched/order.h"

enum step {
    STEP_DONE, /* the task has ended: complete it */
    /* the task has not ended: it is parked, waits for conditions or still runs elsewhere */
    STEP_LATER,
    /* the kernel runs on another core; the machine calls sched_returned_to when it returns */
    STEP_SENT,
    STEP_LOST, /* another thread runs as this worker now, so this thread must stop */
    STEP_HELD, /* the task was not started, because the time of the run is over */
};

static bool worker_attend(struct worker *w);
static enum step run_task_special(struct worker *w, struct slot *s);
static void set_hungry(struct worker *w, bool is_hungry);
static struct slot *take_task(struct worker *w);
static struct slot *take_elsewhere(struct worker *w);
static struct slot *pop_private(struct worker *w);
static struct slot *pop_deque(struct worker *w);
static struct slot *pop_newest(struct worker *w);
static void leave_lines(struct worker *w);

static_assert((SCHED_DEQUE & (SCHED_DEQUE - 1)) == 0, "indices are masked");
static_assert(SCHED_CLAIM <= SCHED_PUBLIC, "a worker must not claim more tasks than an offer has");

void sched_init(struct sched *s, void *machine)
{
    memset(s, 0, sizeof(*s));
    s->machine = machine;
    s->root_most = (struct a32){ SCHED_ROOTS }; /* relaxed: no other thread runs yet */
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
 * Starts a run. Other threads may look for tasks during this call, but find none: this function
 * only changes fields that they read after they have claimed a task.
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
    /* set for several workers. With one it is set later, if another thread replaces a stuck one */
    s->worker[0]->is_shared = s->worker_count > 1;
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
    /* nothing was offered */
    port_assert(a32_load_relaxed(&w->public_head) == a32_load_relaxed(&w->public_tail));
    w->deque_head = w->deque_tail;
    w->list = 0;
}

/*
 * Makes room in the deque, so that SCHED_BATCH tasks can be pushed before the next call. Tasks that
 * the worker claims, or takes from its list, are added only to a deque that is at most half full.
 */
int sched_pushed(struct worker *w)
{
    uint32_t room = SCHED_DEQUE - (w->deque_tail - w->deque_head);

    port_check(room <= SCHED_DEQUE);
    if (room == 0) { /* move the older half of the deque into the list */
        for (uint32_t i = 0; i < SCHED_DEQUE / 2; i++)
            line_wait(w, graph_slot(w->graph, w->deque[w->deque_head++ % SCHED_DEQUE]));
        room = SCHED_DEQUE / 2;
    }
    w->until = (room < SCHED_BATCH ? (int32_t)room : SCHED_BATCH) - 1;
    if (w->is_shared && w->is_offering &&
        a32_load_relaxed(&w->sched->short_hint) != HINT_GIVEN) /* only a hint */
        sched_publish(w);
    return 0;
}

/* Number of the core on which this worker runs the task. */
static inline uint32_t core_number(const struct worker *w, const struct slot *s)
{
    return w->core_index[s->core_type] + (s->core_type == PTO_CORE_AIV ? w->sched->aic_count : 0);
}

/*
 * Acquires a core that the worker does not have yet. False: there was none, and the task is parked.
 */
__attribute__((noinline)) static bool find_core(struct worker *w, struct slot *s)
{
    sched_record_gap(w);
    if ((w->core_none >> s->core_type & 1) == 0 &&
        port_core_acquire(w->sched->machine, w, s->core_type))
        return true;
    if (worker_is_only(w))
        sched_park(w, s);
    else
        sched_park_shared(w, s);
    return false;
}

/* Whether the worker has a core for the task. False: the task is parked. */
static inline bool has_core(struct worker *w, struct slot *s)
{
    return __builtin_expect((w->core_mask & (1u << s->core_type)) != 0, 1) || find_core(w, s);
}

/*
 * Runs one invocation on the worker's core. Returns STEP_LATER if the task waits for conditions:
 * then it no longer belongs to this thread.
 */
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
        if (is_traced && w->trace != NULL)
            trace_defer(w->trace, s->seq);
        sched_share(w); /* after this, the thread that polls the conditions may complete the task */
        if (sched_defer(w->sched, s, &core->slab))
            return STEP_LATER;
    }
    return STEP_DONE;
}

/*
 * Returns the reason why a task without a kernel in its first lane runs nothing. The first lane of
 * a team may have none either.
 */
static inline enum trace_nothing why_nothing(const struct slot *s)
{
    if (s->lanes != 0)
        return TRACE_STOPPED;
    return s->kernel[0] == SLOT_NO_KERNEL && (s->flags & SLOT_IS_TEAM) == 0 ? TRACE_DUMMY
                                                                            : TRACE_SKIPPED;
}

/*
 * Ends a task that runs nothing: a dummy, one whose predicate is false, or any task of a stopped
 * run.
 */
__attribute__((noinline)) static enum step sched_skip_task(struct worker *w, struct slot *s)
{
    enum trace_nothing why = why_nothing(s);

    if (slot_is_join(s))
        return STEP_DONE;
    /*
     * relaxed: only this worker writes it; the report of an abandoned run may read it at any time,
     * and the value orders nothing
     */
    a64_store_relaxed(&w->nothing[why], a64_load_relaxed(&w->nothing[why]) + 1);
    if (w->trace != NULL)
        trace_no_run(w->trace, s->seq, s->kernel[s->kernel[0] == SLOT_NO_KERNEL], why);
    return STEP_DONE;
}

/*
 * Called for a task when no kernel may start. A stopped run skips its tasks. A run whose time is
 * over keeps them as they are until its leader has reported what they were doing.
 */
__attribute__((cold, noinline)) static enum step skip_or_hold_task(struct worker *w, struct slot *s)
{
    return sched_is_stopped(w->sched) ? sched_skip_task(w, s) : STEP_HELD;
}

__attribute__((always_inline)) static inline enum step run_single_block(struct worker *w,
                                                                        struct slot *s,
                                                                        enum kind kind)
{
    const struct pto_tensor *tensor =
        kind_is_image(kind) ? (const void *)graph_slot(w->graph, s->payload) : s->tensor;

    /* relaxed: a late value is harmless, because it is polled again */
    if (__builtin_expect(a32_load_relaxed(&w->sched->attention) != 0, 0)) {
        sched_record_gap(w);
        if (!worker_attend(w))
            return skip_or_hold_task(w, s);
    }
    if (!has_core(w, s))
        return STEP_LATER;
    if (!kind_is_alone(kind))
        sched_offer(w); /* offer tasks to others before running a kernel that may take long */
    return invoke(w, s, tensor, 0, 1, false, kind_is_recorded(kind));
}

/* Runs one task of any sort, except a plain one of an image. */
__attribute__((always_inline)) static inline enum step run_task(struct worker *w, struct slot *s,
                                                                enum kind kind)
{
    return s->lanes == 0                       ? sched_skip_task(w, s)
           : (s->flags & SLOT_IS_SPECIAL) != 0 ? run_task_special(w, s)
                                               : run_single_block(w, s, kind);
}

/* Runs a task of an image that is not just one kernel that runs once; such tasks are rare. */
__attribute__((noinline)) static enum step run_image_task(struct worker *w, struct slot *s)
{
    /* the loop LAUNCHED_RECORDED also works without a recorder */
    enum step step = run_task(w, s, LAUNCHED_RECORDED);

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
 * Runs a task and then its ready successors, while the worker has private tasks. When it has none,
 * the run may end, and the worker may belong to another run of another kind.
 */
__attribute__((always_inline)) static inline enum sched_result run_loop(struct worker *w,
                                                                        struct slot *s,
                                                                        uint32_t *max,
                                                                        enum kind kind)
{
    uint32_t left = *max;

    if (kind_is_recorded(kind))
        trace_gap(w->trace);
    for (;;) {
        enum step step = !kind_is_image(kind) ? run_task(w, s, kind)
                         : (s->flags & (SLOT_IS_WHOLE | SLOT_IS_DUMMY)) != 0
                             ? run_image_task(w, s)
                             : run_single_block(w, s, kind);

        if (step >= STEP_LOST)
            return step == STEP_HELD ? put_back(w, s) : SCHED_LOST;
        /*
         * record the kernel before its task completes: the run, and with it the recorder, may end
         * then
         */
        if (kind_is_recorded(kind) && step == STEP_DONE && w->deque_tail == w->deque_head)
            trace_rest(w->trace);
        s = step == STEP_DONE ? complete_task(w, s, kind) : NULL;
        if (!PORT_ONE_THREAD && kind_is_alone(kind) && step != STEP_DONE)
            /* other threads may know of tasks now, so leave the loop without atomic operations */
            break;
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

/* The compiler generates one function from run_loop for each kind of run. */
__attribute__((noinline)) static enum sched_result run_loop_streamed(struct worker *w,
                                                                     struct slot *s, uint32_t *max)
{
    return run_loop(w, s, max, STREAMED);
}

__attribute__((noinline)) static enum sched_result run_loop_streamed_alone(struct worker *w,
                                                                           struct slot *s,
                                                                           uint32_t *max)
{
    return run_loop(w, s, max, STREAMED_ALONE);
}

__attribute__((noinline)) static enum sched_result run_loop_launched(struct worker *w,
                                                                     struct slot *s, uint32_t *max)
{
    return run_loop(w, s, max, LAUNCHED);
}

__attribute__((noinline)) static enum sched_result run_loop_launched_alone(struct worker *w,
                                                                           struct slot *s,
                                                                           uint32_t *max)
{
    return run_loop(w, s, max, LAUNCHED_ALONE);
}

__attribute__((noinline)) static enum sched_result run_loop_recorded(struct worker *w,
                                                                     struct slot *s, uint32_t *max)
{
    return w->graph->successor == NULL ? run_loop(w, s, max, STREAMED_RECORDED)
                                       : run_loop(w, s, max, LAUNCHED_RECORDED);
}

/*
 * Runs the tasks of an image in the order of their slots. Each slot comes after its predecessors,
 * so counters are not needed while one worker runs all tasks in this order. If a kernel does not
 * return, another thread takes over the worker, and uses counters from then on.
 */
__attribute__((noinline)) static enum sched_result run_image_in_order(struct worker *w,
                                                                      uint32_t max)
{
    uint32_t line = w->line_now, end = w->line_end;
    uint32_t stop = end - line > max ? line + max : end;

    w->is_in_line = true;
    for (; line != stop; line++) {
        struct slot *s = graph_slot(w->graph, line);
        enum step step;

        w->line_now = line; /* store the position before the kernel starts: R7 publishes it */
        step = (s->flags & SLOT_IS_DUMMY) != 0 ? sched_skip_task(w, s)
                                               : run_single_block(w, s, LAUNCHED_ALONE);
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

static inline enum sched_result run_loop_by_kind(struct worker *w, struct slot *s, uint32_t *max)
{
    bool is_image = w->graph->successor != NULL;

    if (is_image ? worker_is_alone(w) : worker_streams_alone(w))
        return is_image ? run_loop_launched_alone(w, s, max) : run_loop_streamed_alone(w, s, max);
    if (w->trace != NULL)
        return run_loop_recorded(w, s, max);
    return is_image ? run_loop_launched(w, s, max) : run_loop_streamed(w, s, max);
}

enum sched_result sched_run(struct worker *w, uint32_t max)
{
    enum sched_result result;
    struct slot *s;

    if (w->line_now != 0) {
        if (w->is_in_line || w->is_shared)
            leave_lines(w);
        else if ((result = run_image_in_order(w, max)) != SCHED_IDLE)
            return result;
    }
    /* relaxed: only to avoid the call; sched_complete_finished reads it again */
    if (a32_load_relaxed(&w->sched->finished) != 0)
        sched_complete_finished(w);
    /* relaxed: a late value is harmless, because it is polled again */
    if (a32_load_relaxed(&w->sched->attention) != 0)
        worker_attend(w);
    s = take_task(w);
    if (s != NULL && w->is_hungry)
        set_hungry(w, false);
    while (s != NULL) {
        result = run_loop_by_kind(w, s, &max);
        if (result != SCHED_IDLE)
            return result;
        s = take_task(w);
    }
    if (w->is_shared && !w->is_hungry)
        set_hungry(w, true);
    return SCHED_IDLE;
}

/* Does what the bits of sched->attention ask for. Returns whether kernels may start. */
static bool worker_attend(struct worker *w)
{
    /* relaxed: a late value is harmless, because it is polled again */
    uint32_t attention = a32_load_relaxed(&w->sched->attention);

    if ((attention & ATTEND_TEAMS) != 0 && w->core_mask != 0)
        port_cores_yield(w->sched->machine, w);
    return (attention & (ATTEND_STOPPED | ATTEND_LATE)) == 0; /* mutation: late-cancel */
}

/*
 * Runs a task with several invocations, or one with a timing slot. Only one worker at a time may
 * start blocks of an SPMD task: it puts the task back into its own deque before it runs the block
 * that it took, and the worker that takes the task next starts the next block. So blocks start in
 * order.
 */
__attribute__((noinline)) static enum step run_task_special(struct worker *w, struct slot *s)
{
    bool is_counted = (s->flags & SLOT_IS_COUNTED) != 0;
    bool is_timed = (s->flags & SLOT_IS_TIMED) != 0;
    uint32_t block = 0;
    enum step step;

    sched_record_gap(w);
    if ((s->flags & SLOT_IS_TEAM) != 0) {
        /* read before the start of the team, after which the run may end */
        bool is_ordered = w->order != 0;

        if (sched_is_stopped(w->sched))
            return sched_skip_task(w, s);
        /* the team's threads report its end through a list that several threads use */
        w->is_shared = true;
        port_team_start(w->sched->machine, s);
        /* relaxed: a late value is harmless */
        if (is_ordered && a32_load_relaxed(&w->sched->finished) != 0)
            /* complete the team now, so that the seeded order also covers its successors */
            sched_complete_finished(w);
        return STEP_LATER;
    }
    /* relaxed: a late value is harmless, because it is polled again */
    if (a32_load_relaxed(&w->sched->attention) != 0 && !worker_attend(w)) {
        if (!sched_is_stopped(w->sched))
            return STEP_HELD;
        atomic_note_read(&s->block_next);
        return !is_counted || complete_block(s, s->block_count - s->block_next)
                   ? sched_skip_task(w, s)
                   : STEP_LATER;
    }
    if (!has_core(w, s))
        return STEP_LATER;
    if (is_counted) {
        atomic_note_write(&s->block_next);
        block = s->block_next++;
        if (s->block_next < s->block_count)
            sched_push(w, s); /* from here on the task may belong to another worker */
    }
    sched_offer(w);
    if (is_timed)
        sched_time_begin(w->sched, s);
    step = invoke(w, s, s->tensor, block, s->block_count, is_timed, true);
    if (step < STEP_SENT && is_counted)
        return complete_block(s, 1) ? STEP_DONE : STEP_LATER;
    return step;
}

/*
 * Sets whether this worker looks for tasks; other workers then offer theirs sooner. If they see it
 * late, that costs only time.
 */
static void set_hungry(struct worker *w, bool is_hungry)
{
    w->is_hungry = is_hungry;
    if (is_hungry)
        a32_add_relaxed(&w->sched->hungry, 1);
    else
        a32_sub_relaxed(&w->sched->hungry, 1);
}

void sched_clear_hungry(struct worker *w)
{
    if (w->is_hungry)
        set_hungry(w, false);
}

/*
 * Switches an image from running in slot order to counters. The tasks before line_now are complete,
 * so those of their successors that have not begun are counted down. The task at line_now may still
 * run, and another thread may complete it at the same time. Threads that complete this task, or are
 * offered one that is pushed here, see the earlier completions.
 */
static void leave_lines(struct worker *w)
{
    struct graph *g = w->graph;
    uint32_t now = w->line_now, end = w->line_end;
    uint32_t first = w->is_in_line ? now + 1 : now; /* first slot whose task has not begun */

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
 * Takes a task from the deque, which is first filled up to half from the list (parked tasks may
 * have filled it further). Slots that were allocated one after the other are adjacent, so the slot
 * SCHED_AHEAD tasks later is prefetched.
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

/* Takes a task from the deque, which must not be empty. */
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
    if (!has_found && a32_load_relaxed(&s->finished) != 0) /* relaxed: a late value is harmless */
        has_found = sched_complete_finished(w);
    return has_found ? pop_private(w) : NULL;
}
