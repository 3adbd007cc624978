/* SPDX-License-Identifier: Apache-2.0 */
/* Ready tasks, runs, completions. The table of ordered pairs is in sched.h. */
#include "sched/sched.h"

#include <string.h>

#include "graph/guards.h"
#include "sched/order.h"

enum step {
    STEP_DONE,  /* the task is over: complete it */
    STEP_LATER, /* it goes on elsewhere or waits */
    STEP_SENT,  /* the same, for this one invocation */
    STEP_LOST,  /* the thread lost its place */
    STEP_HELD,  /* it was not begun: the run is late */
};

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

static bool attend(struct worker *w);
static enum step run_special(struct worker *w, struct slot *s);
static bool count_down(struct slot *s, uint32_t count);
static void set_hungry(struct worker *w, bool is_hungry);
static struct slot *take_task(struct worker *w);
static struct slot *take_elsewhere(struct worker *w);
static struct slot *pop_private(struct worker *w);
static struct slot *pop_deque(struct worker *w);
static struct slot *pop_newest(struct worker *w);
static bool claim_tasks(struct worker *w, struct worker *from);
static bool claim_roots(struct worker *w);
static void offer_roots(struct worker *w, uint32_t count);
static struct slot *complete_task(struct worker *w, struct slot *s, enum kind kind);
static struct slot *complete_in_image(struct worker *w, struct slot *s, enum kind kind);
static void leave_lines(struct worker *w);
static void rewind_task(struct slot *s);
static bool complete_finished(struct worker *w);
static void return_slot(struct worker *w, struct slot *s);
static void park_task(struct worker *w, struct slot *s);
static bool take_parked(struct worker *w);

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

/* `pending` of a task that is ready, or complete, links it in lists. */
static inline void list_push(const struct graph *g, uint32_t *list, struct slot *s)
{
    a32_store_relaxed(&s->pending, *list); /* the list is one thread's */
    *list = graph_slot_line(g, s);
}

static inline struct slot *list_pop(const struct graph *g, uint32_t *list)
{
    struct slot *s = graph_slot(g, *list);

    *list = a32_load_relaxed(&s->pending);
    return s;
}

static inline bool is_only_worker(const struct worker *w)
{
    return PORT_ONE_THREAD || w->sched->worker_count == 1;
}

/* A ready task for which the deque has no room. */
static inline void wait_in_list(struct worker *w, struct slot *s)
{
    sched_list_append(w->graph, &w->list, &w->list_end, s);
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

    if (room == 0) { /* the older half goes into the list */
        for (uint32_t i = 0; i < SCHED_DEQUE / 2; i++)
            wait_in_list(w, graph_slot(w->graph, w->deque[w->deque_head++ % SCHED_DEQUE]));
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
    park_task(w, s);
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
        !attend(w))
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
        rewind_task(s);
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

static inline bool is_alone(const struct worker *w)
{
    return !w->is_shared && w->order == 0 && w->trace == NULL;
}

/* The same for a stream: nobody else knows of a live task, and there is no use in telling. */
static inline bool is_streamed_alone(const struct worker *w)
{
    return (PORT_ONE_THREAD || !w->is_shared ||
            (w->index == 0 && !w->graph->is_shared && !w->is_offering)) &&
           w->order == 0 && w->trace == NULL;
}

static inline enum sched_result run_as(struct worker *w, struct slot *s, uint32_t *max)
{
    if (w->graph->successor == NULL)
        return is_streamed_alone(w) ? run_streamed_alone(w, s, max) : run_streamed(w, s, max);
    return is_alone(w) ? run_launched_alone(w, s, max) : run_launched(w, s, max);
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
    if (a32_load_relaxed(&w->sched->finished) != 0) /* a glance; complete_finished decides */
        complete_finished(w);
    if (a32_load_relaxed(&w->sched->attention) != 0) /* soon enough */
        attend(w);
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
static bool attend(struct worker *w)
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
            complete_finished(w); /* what follows it is ordered with the rest */
        return STEP_LATER;
    }
    if (a32_load_relaxed(&w->sched->attention) != 0 && !attend(w)) { /* soon enough */
        if (!sched_is_stopped(w->sched))
            return STEP_HELD;
        atomic_note_read(&s->block_next);
        return !is_counted || count_down(s, s->block_count - s->block_next) ? run_nothing(w, s)
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
        return count_down(s, 1) ? STEP_DONE : STEP_LATER;
    return step;
}

/* Invocations that are over, or never will be started. True: they were the last ones. */
static bool count_down(struct slot *s, uint32_t count)
{
    return a32_sub_acq_rel(&s->block_left, count) == count; /* R17 A17 */
}

static void fail_unwritten(struct sched *sched, const struct slot *s,
                           const struct slot_predicate *p)
{
    struct failure why = { .status = PTO_EUNWRITTEN, .fault = FAULT_UNWRITTEN, .argument = -1 };

    why.kernel = s->lanes != 0 ? (int32_t)s->kernel[0] : -1;
    why.value[1] = p->bytes;
    why.value[3] = UNWRITTEN_PREDICATE;
    sched_fail_argument(sched, s, &why);
}

/* Whether the task's predicate lets it run. It may name memory that is not there. */
static bool is_wanted(struct sched *sched, struct slot *s)
{
    const struct slot_predicate *p = slot_predicate(s);

    if (!port_can_read(p->addr, p->bytes)) {
        sched_fail_at(sched, s, PTO_EARGS, p->addr);
        return false;
    }
    if (p->is_suspect != 0 && guards_is_operand_unwritten(p)) {
        fail_unwritten(sched, s, p);
        return false;
    }
    return sched_predicate_holds(p);
}

/* By the thread that made the task ready: nobody else knows of it yet. */
bool sched_settle(struct worker *w, struct slot *s)
{
    if ((s->flags & SLOT_HAS_PREDICATE) != 0 && !is_wanted(w->sched, s)) /* mutation: always-run */
        s->lanes = 0;
    if ((s->flags & SLOT_IS_TEAM) == 0 || s->lanes == 0 || sched_is_stopped(w->sched) ||
        w->order != 0)
        return true;
    w->is_shared = true; /* it comes back through a shared list */
    port_team_start(w->sched->machine, s);
    return false;
}

void sched_settle_all(struct worker *w)
{
    uint32_t kept = w->deque_head;
    uint32_t list = w->list;

    if (!w->graph->has_settled)
        return;
    for (uint32_t i = w->deque_head; i != w->deque_tail; i++) {
        struct slot *s = graph_slot(w->graph, w->deque[i % SCHED_DEQUE]);

        if ((s->flags & SLOT_IS_SETTLED_FIRST) == 0 || sched_settle(w, s))
            w->deque[kept++ % SCHED_DEQUE] = graph_slot_line(w->graph, s);
    }
    w->deque_tail = kept;
    w->list = 0;
    while (list != 0) {
        struct slot *s = list_pop(w->graph, &list);

        if ((s->flags & SLOT_IS_SETTLED_FIRST) == 0 || sched_settle(w, s))
            wait_in_list(w, s);
    }
}

bool sched_predicate_holds(const struct slot_predicate *p)
{
    uint32_t shift = 64 - 8 * p->bytes;
    uint64_t bits = 0;
    int64_t value;

    memcpy(&bits, (const void *)(uintptr_t)p->addr, p->bytes); /* it may lie anywhere */
    value = (int64_t)(bits << shift) >> shift;
    switch (p->op) {
    case PTO_PREDICATE_EQ:
        return value == p->target;
    case PTO_PREDICATE_NE:
        return value != p->target;
    case PTO_PREDICATE_GT:
        return value > p->target;
    case PTO_PREDICATE_LT:
        return value < p->target;
    case PTO_PREDICATE_GE:
        return value >= p->target;
    default:
        return value <= p->target;
    }
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
        return_slot(w, s);
    return next;
}

/* A task of an image is ready. Returns the one to run next: `next`, unless there was none. */
__attribute__((always_inline)) static inline struct slot *pass_on(struct worker *w, uint32_t line,
                                                                  struct slot *next, enum kind kind)
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
__attribute__((always_inline)) static inline struct slot *count_successors(struct worker *w,
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
            if (left != 0)
                continue;
            /* mutation: no-rewind */
            a32_store_relaxed(counter, t->built_pending); /* the next launch publishes it */
        }
        next = pass_on(w, index, next, kind);
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
        next = pass_on(w, s->span.first & ~SPAN_FOLLOWS, next, kind);
    else if (s->span.count != 0)
        next = count_successors(w, g->successor + s->span.first, s->span.count, kind);
    if (is_alone || w->index == 0) {
        g->live--;
    } else { /* the ring is not used: the submitter only wants to know how many */
        w->return_tail++;
        if (w->return_tail - w->return_sent >= SCHED_COUNTED)
            sched_flush(w);
    }
    return next;
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

/* What a task of an image has besides its counter; others have nothing to put back. */
static void rewind_task(struct slot *s)
{
    if ((s->flags & (SLOT_IS_COUNTED | SLOT_HAS_PREDICATE)) == 0)
        return;
    s->lanes = s->built_lanes;
    s->block_next = 0;
    a32_store_relaxed(&s->block_left, s->block_count * slot_lane_count(s->lanes));
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
    return claim_roots(w) ? pop_deque(w) : NULL;
}

/*
 * Refills the deque from the list, up to half; what was parked may have filled it beyond. Slots
 * that were made one after the other lie so, and those that are likely to come are asked for.
 */
static struct slot *pop_private(struct worker *w)
{
    while (w->list != 0 && w->deque_tail - w->deque_head < SCHED_DEQUE / 2) {
        uint32_t line = w->list;

        (void)list_pop(w->graph, &w->list);
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
    return graph_slot(w->graph, w->deque[--w->deque_tail % SCHED_DEQUE]);
}

static struct slot *take_elsewhere(struct worker *w)
{
    struct sched *s = w->sched;
    bool has_found;

    port_core_reset(w->core);
    has_found = claim_tasks(w, w) || claim_roots(w);
    for (uint32_t i = 1; i < s->worker_count && !has_found; i++)
        has_found = claim_tasks(w, s->worker[(w->index + i) % s->worker_count]);
    if (!has_found)
        has_found = take_parked(w);
    if (!has_found && a32_load_relaxed(&s->finished) != 0) /* a glance */
        has_found = complete_finished(w);
    return has_found ? pop_private(w) : NULL;
}

/* Up to SCHED_CLAIM tasks of another worker's offer, with one exchange. */
static bool claim_tasks(struct worker *w, struct worker *from)
{
    uint32_t head = a32_load_relaxed(&from->public_head); /* the exchange checks it */
    uint32_t line[SCHED_CLAIM];
    uint32_t tail, count;

    do {
        tail = a32_load_acquire(&from->public_tail); /* A6 */
        count = tail - head;
        if (count == 0 || count > SCHED_PUBLIC) /* empty, or head is older than tail */
            return false;
        if (count > SCHED_CLAIM)
            count = SCHED_CLAIM;
        for (uint32_t i = 0; i < count; i++)
            line[i] = a32_load_relaxed(&from->public_slot[(head + i) % SCHED_PUBLIC]);
    } while (!a32_cas_acq_rel(&from->public_head, &head, head + count)); /* R9 */
    for (uint32_t i = 0; i < count; i++) {
        __builtin_prefetch(graph_slot(w->graph, line[i]), 1, 3);
        w->deque[w->deque_tail++ % SCHED_DEQUE] = line[count - 1 - i];
    }
    if (from != w)
        w->stolen += count;
    return true;
}

static void take_roots(struct worker *w, uint32_t first, uint32_t count)
{
    w->deque_head = 0; /* it is empty */
    w->deque_tail = count;
    memcpy(w->deque, w->sched->root + first, count * sizeof(w->deque[0]));
}

/*
 * Some of the tasks with which a launch starts: fewer the fewer there are left,
 * so that all workers have some; many for a random order, which is one of these.
 */
static bool claim_roots(struct worker *w)
{
    struct sched *s = w->sched;
    uint32_t left = a32_load_relaxed(&s->root_left); /* the exchange checks it */
    uint32_t most = a32_load_relaxed(&s->root_most); /* that of another launch would do, too */
    uint32_t count;

    if (w->own_left != 0 && w->is_shared) {
        left = w->own_left;
        w->own_left = 0;
        offer_roots(w, left);
    }
    if (w->own_left != 0) { /* others have none */
        count = w->own_left < most ? w->own_left : most;
        w->own_left -= count;
        take_roots(w, w->own_left, count);
        return true;
    }
    do {
        if (left == 0)
            return false;
        count = left / (2 * s->worker_count) + 1;
        if (count > most)
            count = most;
    } while (!a32_cas_acq_rel(&s->root_left, &left, left - count)); /* A22 */
    take_roots(w, left - count, count);
    return true;
}

void sched_launch(struct worker *w, const struct image *image, bool is_alone)
{
    struct sched *s = w->sched;

    port_assert(a32_load_relaxed(&s->root_left) == 0 && w->own_left == 0 &&
                w->line_now == 0); /* the run before is over */
    if (is_alone)
        w->is_shared = false;
    if (!w->is_shared && w->order == 0 && w->trace == NULL && image->is_plain) {
        w->line_now = image->task_count != 0;
        w->line_end = image->task_count + 1;
        return;
    }
    for (uint32_t i = 0; i < image->early_count; i++)
        sched_ready(w, graph_slot(w->graph, image->task[image->root_count + i]));
    s->root = image->task;
    /* As many as fit the deque, so it may be late. */
    a32_store_relaxed(&s->root_most, w->order == 0 ? SCHED_ROOTS : SCHED_DEQUE / 2);
    if (w->is_shared)
        offer_roots(w, image->root_count);
    else
        w->own_left = image->root_count;
}

static void offer_roots(struct worker *w, uint32_t count)
{
    a32_store_release(&w->sched->root_left, count); /* R22 */
    sched_signal(w->sched);
}

void sched_share(struct worker *w)
{
    if (w->index == 0)
        graph_share(w->graph);
    if (w->sched->worker_count > 1)
        w->is_shared = true;
}

void sched_publish(struct worker *w)
{
    uint32_t head = a32_load_acquire(&w->public_head); /* A9 */
    uint32_t tail = a32_load_relaxed(&w->public_tail); /* own index */
    uint32_t count = (w->deque_tail - w->deque_head + 1) / 2;

    port_assert(w->is_shared);                    /* else nobody would look */
    if (tail - head >= SCHED_CLAIM || count == 0) /* still something to take, or nothing to give */
        return;
    if (count > 4 * SCHED_CLAIM)
        count = 4 * SCHED_CLAIM;
    if (w->index == 0)
        graph_share(w->graph);
    for (uint32_t i = 0; i < count; i++)
        a32_store_relaxed(&w->public_slot[(tail + i) % SCHED_PUBLIC],
                          w->deque[w->deque_head++ % SCHED_DEQUE]);
    a32_store_release(&w->public_tail, tail + count); /* R6 */
    sched_signal(w->sched);
}

bool sched_has_offer(struct sched *s, const struct worker *w)
{
    for (uint32_t i = 0; i < s->worker_count; i++) {
        struct worker *from = s->worker[i];

        if (a32_load_relaxed(&from->public_head) != a32_load_relaxed(&from->public_tail))
            return true; /* whoever claims looks again, with acquire */
        if (w->index == 0 &&
            a32_load_relaxed(&from->return_ready) != a32_load_relaxed(&from->return_head))
            return true;
    }
    if (a32_load_relaxed(&s->finished) != 0 || a32_load_relaxed(&s->root_left) != 0)
        return true;
    if (w->unreturned != 0 && w->return_tail - a32_load_relaxed(&w->return_head) < SCHED_RETURN)
        return true; /* slots it holds back have room now */
    for (uint32_t type = 0; type < PTO_CORE_TYPES; type++)
        if ((w->parked[type] != 0 || a32_load_relaxed(&s->parked[type]) != 0) &&
            ((w->core_mask | a32_load_relaxed(&s->spare)) & (1u << type)) != 0)
            return true;
    /* A team waits for the cores that this place sleeps on. */
    return w->core_mask != 0 && (a32_load_relaxed(&s->attention) & ATTEND_TEAMS) != 0;
}

/* ---- finished slots on their way back to the submitter ---- */

static void return_slot(struct worker *w, struct slot *s)
{
    atomic_note_write(s); /* from here on it is the submitter's */
    if (w->unreturned == 0 &&
        w->return_tail - a32_load_acquire(&w->return_head) < SCHED_RETURN) { /* A11 */
        a32_store_relaxed(&w->return_slot[w->return_tail % SCHED_RETURN], s->number);
        w->return_tail++;
        if (w->return_tail - w->return_sent >= SCHED_BATCH)
            sched_flush(w);
    } else {
        list_push(w->graph, &w->unreturned, s);
    }
}

void sched_flush(struct worker *w)
{
    while (w->unreturned != 0 &&
           w->return_tail - a32_load_acquire(&w->return_head) < SCHED_RETURN) { /* A11 */
        struct slot *s = list_pop(w->graph, &w->unreturned);

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

/* ---- rare ways: kernels that went on elsewhere, core types that a worker lacks ---- */

static void shared_push(const struct graph *g, struct a32 *list, struct slot *slot)
{
    uint32_t head = a32_load_relaxed(list); /* the exchange checks it */

    do {
        a32_store_relaxed(&slot->pending, head);
    } while (!a32_cas_acq_rel(list, &head, graph_slot_line(g, slot))); /* R12 R13 */
}

/* A task whose kernels did not return to the worker's loop. */
static void complete_elsewhere(struct worker *w, struct slot *s)
{
    bool is_image = w->graph->successor != NULL;
    struct slot *next;

    if (is_image)
        rewind_task(s);
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
    return is_counted ? count_down(slot, 1) : !is_deferred;
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
        next = list_pop(w->graph, &w->parked[core_type]);
    }
    w->executed[core_type]++;
    return next;
}

__attribute__((always_inline)) static inline struct slot *take_back(
    struct worker *w, struct slot *s, struct core_slab *slab, uint32_t core_type, enum kind kind)
{
    struct slot *next = NULL;

    if (is_task_over(w->sched, s, slab)) {
        if (kind_is_image(kind))
            rewind_task(s);
        next = complete_task(w, s, kind);
    }
    return next_for(w, next, core_type, kind);
}

__attribute__((noinline)) static struct slot *take_back_launched(struct worker *w, struct slot *s,
                                                                 struct core_slab *slab,
                                                                 uint32_t core_type)
{
    return take_back(w, s, slab, core_type, LAUNCHED);
}

__attribute__((noinline)) static struct slot *take_back_streamed(struct worker *w, struct slot *s,
                                                                 struct core_slab *slab,
                                                                 uint32_t core_type)
{
    return take_back(w, s, slab, core_type, STREAMED);
}

struct slot *sched_returned_to(struct worker *w, struct slot *s, struct core_slab *slab,
                               uint32_t core_type)
{
    if (w->graph->successor != NULL)
        return take_back_launched(w, s, slab, core_type);
    if (!is_streamed_alone(w))
        return take_back_streamed(w, s, slab, core_type);
    return take_back(w, s, slab, core_type, STREAMED_ALONE);
}

void sched_skipped(struct sched *s, struct graph *g, struct slot *slot, uint32_t count)
{
    a32_add_relaxed(&s->stopped, 1); /* read after the run */
    if (count_down(slot, count))
        sched_finished(s, g, slot);
}

void sched_finished(struct sched *s, struct graph *g, struct slot *slot)
{
    shared_push(g, &s->finished, slot);
    sched_signal(s);
}

static bool complete_finished(struct worker *w)
{
    uint32_t list = a32_swap_acq_rel(&w->sched->finished, 0); /* A12 */
    bool has_any = list != 0;

    while (list != 0)
        complete_elsewhere(w, list_pop(w->graph, &list));
    return has_any;
}

static void park_task(struct worker *w, struct slot *s)
{
    if (is_only_worker(w)) {
        sched_park(w, s);
        return;
    }
    sched_share(w);
    shared_push(w->graph, &w->sched->parked[s->core_type], s);
    sched_signal(w->sched);
}

/* Of its own no more than can start: others would be parked again, each time a core comes back. */
static bool take_parked(struct worker *w)
{
    struct sched *sched = w->sched;
    bool is_only = is_only_worker(w), has_any = false;

    for (uint32_t type = 0; type < PTO_CORE_TYPES; type++) {
        uint32_t list = is_only ? w->parked[type] : a32_load_relaxed(&sched->parked[type]);
        uint32_t room = UINT32_MAX;

        if (list == 0) /* a glance, if it is not its own */
            continue;
        if ((w->core_mask & (1u << type)) == 0 &&
            ((w->core_none & (1u << type)) != 0 || !port_core_acquire(sched->machine, w, type)))
            continue;
        if (!is_only)
            list = a32_swap_acq_rel(&sched->parked[type], 0); /* A13 */
        else if (w->order == 0)
            room = port_core_room(sched->machine, type);
        for (; list != 0 && room != 0; room--) {
            sched_push(w, list_pop(w->graph, &list));
            has_any = true;
        }
        w->parked[type] = list;
    }
    return has_any;
}

static bool latch_fault(struct sched *s, const struct slot *slot, int status)
{
    uint32_t none = 0;

    if (!a32_cas_relaxed(&s->fault.status, &none, (uint32_t)status)) /* read after the run */
        return false;
    atomic_note_write(&s->fault.seq);
    s->fault.seq = slot->seq;
    s->fault.kernel = slot_kernel(slot, slot_first_lane(slot->lanes));
    s->fault.site = slot->site;
    s->fault.task = slot_id(slot);
    s->fault.signal = 0;
    s->fault.fault = FAULT_NONE;
    return true;
}

static void stop_for_fault(struct sched *s)
{
    a32_store_release(&s->fault.is_whole, 1); /* R21 */
    sched_attend(s, ATTEND_FAILED, 0);
}

void sched_fail(struct sched *s, const struct slot *slot, int status)
{
    sched_fail_at(s, slot, status, 0);
}

void sched_fail_at(struct sched *s, const struct slot *slot, int status, uint64_t addr)
{
    if (!latch_fault(s, slot, status))
        return;
    s->fault.addr = addr;
    stop_for_fault(s);
}

void sched_fail_argument(struct sched *s, const struct slot *slot, const struct failure *why)
{
    if (!latch_fault(s, slot, why->status))
        return;
    s->fault.kernel = (uint32_t)why->kernel;
    s->fault.fault = why->fault;
    s->fault.argument = why->argument;
    s->fault.addr = why->value[0];
    s->fault.value[0] = why->value[1];
    s->fault.value[1] = why->value[3];
    stop_for_fault(s);
}

void sched_threw(struct sched *s, const struct slot *slot, const struct failure *why)
{
    if (!latch_fault(s, slot, why->status))
        return;
    s->fault.kernel = (uint32_t)why->kernel;
    s->fault.fault = why->fault;
    s->fault.argument = -1;
    s->fault.addr = 0;
    s->fault.value[0] = why->value[1];
    s->fault.value[1] = why->value[3];
    memcpy(s->fault.text, why->text, sizeof(s->fault.text));
    stop_for_fault(s);
}

bool sched_crashed(struct sched *s, const struct slot *slot, int signal, uint64_t addr,
                   uint32_t block, uint32_t lane)
{
    if (!latch_fault(s, slot, PTO_ECRASH))
        return false;
    s->fault.kernel = slot_kernel(slot, lane);
    s->fault.signal = signal;
    s->fault.addr = addr;
    s->fault.block = block;
    s->fault.lane = lane;
    stop_for_fault(s);
    return true;
}

/* ---- timing slots: rare, so one word for all workers will do ---- */

void sched_time_begin(struct sched *s, const struct slot *slot)
{
    struct a64 *word = &s->timing[slot->timing_slot].begin;
    uint64_t now = port_cycles();
    uint64_t old = a64_load_relaxed(word);

    while ((old == 0 || now < old) && !a64_cas_relaxed(word, &old, now)) { /* read after the run */
    }
}

void sched_time_end(struct sched *s, const struct slot *slot)
{
    struct a64 *word = &s->timing[slot->timing_slot].end;
    uint64_t now = port_cycles();
    uint64_t old = a64_load_relaxed(word);

    while (now > old && !a64_cas_relaxed(word, &old, now)) { /* read after the run */
    }
}
