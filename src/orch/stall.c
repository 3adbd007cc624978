/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What live tasks do when nothing moves, as data: the first of them, and the likely
 * cause. By the thread that leads the run. Others may still complete tasks, so what
 * they write is read as they would read it of each other.
 */
#include "orch/orch.h"

/* What is known while a stall is described. */
struct teller {
    struct orch *o;
    uint32_t slot_count;
    uint32_t count[STALL_CAUSES];
    const struct slot *first[STALL_CAUSES]; /* NULL: none */
    uint32_t first_block, first_core;       /* of the first one that runs */
    int32_t running_kernel;                 /* the same */
    const struct slot *about;               /* whose predecessors are being told */
    struct stall_task *told;                /* where; NULL: enough were told of */
};

static void stall_tell_running(void *context, struct slot *s, uint32_t core, uint32_t block);
static void sort_running(struct stall *stall);
static void tell_deferred(void *context, struct slot *s, uint64_t addr, uint32_t value,
                          uint32_t expected);
static void each_edge(struct teller *t,
                      void (*each)(struct teller *t, struct slot *before, struct slot *after));
static void note_waiting(struct teller *t, struct slot *before, struct slot *after);
static void tell_idle(struct teller *t, uint32_t number);
static void fail_for(struct teller *t, bool is_stall);

void orch_describe_running(struct orch *o)
{
    struct teller t = { .o = o };

    o->stall.count = 0;
    o->stall.live = 0;
    port_each_running(o->machine, stall_tell_running, &t);
    sort_running(&o->stall);
    o->stall.live = o->stall.count;
}

void orch_describe_stall(struct orch *o, bool is_stall)
{
    struct teller t = { .o = o };
    struct graph *g = o->graph;

    /* The slots of a graph that is launched are not in the builder's books. */
    t.slot_count = o->run->graph != NULL ? 0 : g->info_count;
    for (uint32_t i = 0; i < t.slot_count; i++)
        g->info[i].stall_cause = STALL_READY;
    o->stall.count = 0;
    o->stall.live = g->live;
    port_each_running(o->machine, stall_tell_running, &t);
    sort_running(&o->stall);
    sched_each_deferred(o->sched, tell_deferred, &t);
    each_edge(&t, note_waiting);
    for (uint32_t number = 1; number < t.slot_count; number++)
        tell_idle(&t, number);
    fail_for(&t, is_stall);
}

static void note_cause(struct teller *t, const struct slot *s, enum stall_cause cause)
{
    struct slot_info *info = t->o->graph->info;

    if (s->number < t->slot_count && info[s->number].stall_cause != STALL_RUNS)
        info[s->number].stall_cause = (uint8_t)cause;
    if (t->count[cause]++ == 0)
        t->first[cause] = s;
}

/* The first kernel of a task; -1 for a dummy. */
static int32_t stall_first_kernel(const struct slot *s)
{
    if (s->lanes == 0)
        return -1;
    return (int32_t)slot_kernel(s, (s->lanes & SLOT_LANE_AIC) != 0 ? LANE_AIC : LANE_AIV0);
}

/* Where a task is told of; NULL: enough were. */
static struct stall_task *stall_tell_task(struct teller *t, const struct slot *s,
                                          enum stall_cause cause)
{
    struct stall *stall = &t->o->stall;
    struct stall_task *task = &stall->task[stall->count];

    if (stall->count == STALL_TASKS)
        return NULL;
    stall->count++;
    *task =
        (struct stall_task){ .index = s->seq - 1, .cause = cause, .kernel = stall_first_kernel(s) };
    if (s->site != NULL)
        task->site = *s->site;
    return task;
}

/*
 * The machine names kernels in the order of its threads, which is chance. The one that was submitted
 * first is the first one; of its invocations, that of the lowest block and core.
 */
static bool is_before(const struct slot *s, uint32_t block, uint32_t core, const struct teller *t)
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

/* Nothing but kernels that run is there yet. */
static void sort_running(struct stall *stall)
{
    for (uint32_t i = 1; i < stall->count; i++)
        for (uint32_t k = i; k > 0 && is_task_before(&stall->task[k], &stall->task[k - 1]); k--) {
            struct stall_task task = stall->task[k];

            stall->task[k] = stall->task[k - 1];
            stall->task[k - 1] = task;
        }
}

static void stall_tell_running(void *context, struct slot *s, uint32_t core, uint32_t block)
{
    struct teller *t = context;
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
    task = stall_tell_task(t, s, STALL_RUNS);
    if (task == NULL)
        return;
    task->kernel = kernel;
    task->block = block;
    task->is_aiv = is_aiv;
    task->core = is_aiv ? core - aic_count : core;
}

static void tell_deferred(void *context, struct slot *s, uint64_t addr, uint32_t value,
                          uint32_t expected)
{
    struct teller *t = context;
    struct stall_task *task;

    note_cause(t, s, STALL_DEFERRED);
    task = stall_tell_task(t, s, STALL_DEFERRED);
    if (task == NULL)
        return;
    task->addr = addr;
    task->counter = value;
    task->expected = expected;
}

/* The edges of the tasks that wait, from those that they wait for; nothing is linked meanwhile. */
static void each_edge(struct teller *t,
                      void (*each)(struct teller *t, struct slot *before, struct slot *after))
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

static void note_waiting(struct teller *t, struct slot *before, struct slot *after)
{
    (void)before;
    if (slot_is_join(after))
        return;
    if (t->o->graph->info[after->number].stall_cause == STALL_READY)
        note_cause(t, after, STALL_WAITS);
}

static void tell_before(struct teller *t, struct slot *before, struct slot *after)
{
    if (after != t->about)
        return;
    if (slot_is_join(before)) { /* so it waits for what that waits for, which are tasks */
        t->about = before;
        each_edge(t, tell_before);
        t->about = after;
        return;
    }
    if (t->told->wait_count < STALL_WAITS_TOLD)
        t->told->wait[t->told->wait_count] = before->seq - 1;
    t->told->wait_count++;
}

/* A task that neither runs nor waits for conditions. */
static void tell_idle(struct teller *t, uint32_t number)
{
    struct slot_info *info = &t->o->graph->info[number];
    struct slot *s = graph_slot(t->o->graph, info->line);

    if (info->seq == 0 || info->stall_cause == STALL_RUNS || info->stall_cause == STALL_DEFERRED)
        return;
    if (slot_is_join(s)) { /* which is no task */
        t->o->stall.live--;
        return;
    }
    if (info->stall_cause == STALL_READY)
        note_cause(t, s, port_is_queued(t->o->machine, s) ? STALL_QUEUED : STALL_READY);
    t->told = stall_tell_task(t, s, (enum stall_cause)info->stall_cause);
    if (t->told == NULL || info->stall_cause != STALL_WAITS)
        return;
    t->about = s;
    each_edge(t, tell_before);
}

static void fail_for(struct teller *t, bool is_stall)
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
        why = orch_failure(PTO_ESTALL, FAULT_STALL, s != NULL ? s->site : NULL);
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
