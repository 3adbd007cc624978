/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes what live tasks wait for when no task makes progress: lists the first of them, and the
 * likely cause. Called by the thread that leads the run. Other threads may still complete tasks, so
 * fields that they write are read atomically.
 */
#include "orch/orch.h"

/* State while a stall is described. */
struct stall_reporter {
    struct orch *o;
    struct stall *stall; /* the description */
    bool omits_running;  /* leave running tasks out */
    uint32_t slot_count;
    uint32_t count[STALL_CAUSES];
    const struct slot *first[STALL_CAUSES]; /* first task of each cause; NULL: none */
    uint32_t first_block, first_core;       /* block and core of the first running invocation */
    int32_t running_kernel;                 /* kernel that the first running invocation runs */
    const struct slot *about;               /* task whose predecessors are listed */
    struct stall_task *entry; /* entry of the list that is being filled; NULL: the list is full */
};

static void stall_report_running(void *context, struct slot *s, uint32_t core, uint32_t block);
static void sort_running(struct stall *stall);
static void report_deferred(void *context, struct slot *s, uint64_t addr, uint32_t value,
                            uint32_t expected);
static void each_edge(struct stall_reporter *t,
                      void (*each)(struct stall_reporter *t, struct slot *before,
                                   struct slot *after));
static void note_waiting(struct stall_reporter *t, struct slot *before, struct slot *after);
static void report_idle(struct stall_reporter *t, uint32_t number);
static void stall_describe(struct stall_reporter *t);
static void fail_for(struct stall_reporter *t, bool is_stall);

void orch_describe_running(struct orch *o)
{
    struct stall_reporter t = { .o = o, .stall = &o->stall };

    o->stall.count = 0;
    o->stall.live = 0;
    port_each_running(o->machine, stall_report_running, &t);
    sort_running(&o->stall);
    o->stall.live = o->stall.count;
}

static void note_running(void *context, struct slot *s, uint32_t core, uint32_t block)
{
    bool *is_any = context;

    (void)s, (void)core, (void)block;
    *is_any = true;
}

bool orch_has_running(struct orch *o)
{
    bool is_any = false;

    port_each_running(o->machine, note_running, &is_any);
    return is_any;
}

void orch_describe_stall(struct orch *o, bool is_stall)
{
    struct stall_reporter t = { .o = o, .stall = &o->stall };

    stall_describe(&t);
    fail_for(&t, is_stall);
}

void orch_describe_waiting(struct orch *o, struct stall *stall)
{
    struct stall_reporter t = { .o = o, .stall = stall, .omits_running = true };

    stall_describe(&t);
}

static void stall_describe(struct stall_reporter *t)
{
    struct orch *o = t->o;
    struct graph *g = o->graph;

    /* a launched graph has no slot_info, so its slots cannot be visited */
    t->slot_count = o->run->graph != NULL ? 0 : g->info_count;
    for (uint32_t i = 0; i < t->slot_count; i++)
        g->info[i].stall_cause = STALL_READY;
    t->stall->count = 0;
    t->stall->live = g->live;
    port_each_running(o->machine, stall_report_running, t);
    sort_running(t->stall);
    sched_each_deferred(o->sched, report_deferred, t);
    each_edge(t, note_waiting);
    for (uint32_t number = 1; number < t->slot_count; number++)
        report_idle(t, number);
}

static void note_cause(struct stall_reporter *t, const struct slot *s, enum stall_cause cause)
{
    struct slot_info *info = t->o->graph->info;

    if (s->number < t->slot_count && info[s->number].stall_cause != STALL_RUNS)
        info[s->number].stall_cause = (uint8_t)cause;
    if (t->count[cause]++ == 0)
        t->first[cause] = s;
}

/* Kernel in the first lane of a task; -1: a dummy, which has none. */
static int32_t stall_first_kernel(const struct slot *s)
{
    if (s->lanes == 0)
        return -1;
    return (int32_t)slot_kernel(s, (s->lanes & SLOT_LANE_AIC) != 0 ? LANE_AIC : LANE_AIV0);
}

/* Adds an entry for a task. NULL: the list is full, or the task is omitted. */
static struct stall_task *stall_report_task(struct stall_reporter *t, const struct slot *s,
                                            enum stall_cause cause)
{
    struct stall *stall = t->stall;
    struct stall_task *task = &stall->task[stall->count];

    if (stall->count == STALL_TASKS || (cause == STALL_RUNS && t->omits_running))
        return NULL;
    stall->count++;
    *task =
        (struct stall_task){ .index = s->seq - 1, .cause = cause, .kernel = stall_first_kernel(s) };
    if (s->site != NULL)
        task->site = *s->site;
    return task;
}

/*
 * Whether an invocation comes before the first running one found so far. The machine lists kernels
 * in the order of its threads, which means nothing, so they are compared by submit, then block,
 * then core.
 */
static bool is_before(const struct slot *s, uint32_t block, uint32_t core,
                      const struct stall_reporter *t)
{
    uint32_t seq = t->first[STALL_RUNS]->seq;

    if (s->seq != seq)
        return s->seq < seq;
    return block != t->first_block ? block < t->first_block : core < t->first_core;
}

static bool is_task_before(const struct stall_task *a, const struct stall_task *b)
{
    if (a->index != b->index)
        return a->index < b->index;
    if (a->block != b->block)
        return a->block < b->block;
    return a->is_aiv != b->is_aiv ? a->is_aiv < b->is_aiv : a->core < b->core;
}

/* Sorts the list. Called before other tasks than those with running kernels are listed. */
static void sort_running(struct stall *stall)
{
    for (uint32_t i = 1; i < stall->count; i++)
        for (uint32_t k = i; k > 0 && is_task_before(&stall->task[k], &stall->task[k - 1]); k--) {
            struct stall_task task = stall->task[k];

            stall->task[k] = stall->task[k - 1];
            stall->task[k - 1] = task;
        }
}

static void stall_report_running(void *context, struct slot *s, uint32_t core, uint32_t block)
{
    struct stall_reporter *t = context;
    uint32_t aic_count = t->o->sched->aic_count;
    bool is_aiv = core >= aic_count;
    int32_t kernel =
        (int32_t)slot_kernel(s, is_aiv ? LANE_AIV0 + (core - aic_count) % 2 : LANE_AIC);
    struct stall_task *task;

    note_cause(t, s, STALL_RUNS);
    if (t->count[STALL_RUNS] == 1 || is_before(s, block, core, t)) {
        t->first[STALL_RUNS] = s;
        t->first_block = block;
        t->first_core = core;
        t->running_kernel = kernel; /* mutation: first-lane */
    }
    task = stall_report_task(t, s, STALL_RUNS);
    if (task == NULL)
        return;
    task->kernel = kernel;
    task->block = block;
    task->is_aiv = is_aiv;
    task->core = is_aiv ? core - aic_count : core;
}

static void report_deferred(void *context, struct slot *s, uint64_t addr, uint32_t value,
                            uint32_t expected)
{
    struct stall_reporter *t = context;
    struct stall_task *task;

    note_cause(t, s, STALL_DEFERRED);
    task = stall_report_task(t, s, STALL_DEFERRED);
    if (task == NULL)
        return;
    task->addr = addr;
    task->counter = value;
    task->expected = expected;
}

/*
 * Visits the edges of all live tasks by the lists of successors. No edges are added during the
 * call.
 */
static void each_edge(struct stall_reporter *t,
                      void (*each)(struct stall_reporter *t, struct slot *before,
                                   struct slot *after))
{
    const struct graph *g = t->o->graph;

    for (uint32_t number = 1; number < t->slot_count; number++) {
        struct slot *s = graph_slot(g, g->info[number].line);
        const struct edge *e;

        if (g->info[number].seq == 0)
            continue;
        e = aptr_load_acquire(&s->successors); /* A2 */
        for (; e != NULL && (const void *)e != SLOT_SEALED; e = e->next)
            each(t, s, e->self);
    }
}

static void note_waiting(struct stall_reporter *t, struct slot *before, struct slot *after)
{
    (void)before;
    if (slot_is_join(after))
        return;
    if (t->o->graph->info[after->number].stall_cause == STALL_READY)
        note_cause(t, after, STALL_WAITS);
}

static void report_edge(struct stall_reporter *t, struct slot *before, struct slot *after)
{
    if (after != t->about)
        return;
    /* a join is not listed: continue with the tasks for which it waits */
    if (slot_is_join(before)) {
        t->about = before;
        each_edge(t, report_edge);
        t->about = after;
        return;
    }
    if (t->entry->wait_count < STALL_WAITS_MAX)
        t->entry->wait[t->entry->wait_count] = before->seq - 1;
    t->entry->wait_count++;
}

/* Lists a task that neither runs nor waits for conditions. */
static void report_idle(struct stall_reporter *t, uint32_t number)
{
    struct slot_info *info = &t->o->graph->info[number];
    struct slot *s = graph_slot(t->o->graph, info->line);

    if (info->seq == 0 || info->stall_cause == STALL_RUNS || info->stall_cause == STALL_DEFERRED)
        return;
    if (slot_is_join(s)) { /* a join is not counted as a task */
        t->stall->live--;
        return;
    }
    if (info->stall_cause == STALL_READY)
        note_cause(t, s, port_is_queued(t->o->machine, s) ? STALL_QUEUED : STALL_READY);
    t->entry = stall_report_task(t, s, (enum stall_cause)info->stall_cause);
    if (t->entry == NULL || info->stall_cause != STALL_WAITS)
        return;
    t->about = s;
    each_edge(t, report_edge);
}

static void fail_for(struct stall_reporter *t, bool is_stall)
{
    static const enum stall_cause likely[] = { STALL_RUNS, STALL_DEFERRED, STALL_QUEUED,
                                               STALL_READY, STALL_WAITS };
    enum stall_cause cause = STALL_BUILDS;
    const struct slot *s;
    struct failure why;

    for (uint32_t i = 0; i < sizeof(likely) / sizeof(likely[0]) && cause == STALL_BUILDS; i++)
        if (t->first[likely[i]] != NULL)
            cause = likely[i];
    s = cause != STALL_BUILDS ? t->first[cause] : NULL;
    if (is_stall) {
        why = orch_failure(PTO_ESTALL, FAILURE_STALL, s != NULL ? s->site : NULL);
        why.value[0] = t->o->run->stall_ns / 1000000;
    } else {
        why = orch_late(t->o, s != NULL ? s->site : NULL);
    }
    if (s != NULL) {
        why.task = slot_id(s);
        why.kernel = cause == STALL_RUNS ? t->running_kernel : stall_first_kernel(s);
        why.value[2] = s->seq - 1;
    }
    why.value[1] = cause;
    (void)orch_fail(t->o, &why);
}
