/* SPDX-License-Identifier: Apache-2.0 */
/* Why a run failed: what the scheduler found, and who waits for whom when nothing moves. */
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "host/host.h"

enum { TASKS_TOLD = 16, WAITS_TOLD = 8 };

enum task_state { STATE_READY, STATE_WAITS, STATE_RUNS, STATE_DEFERRED, STATE_QUEUED, STATE_COUNT };

/* What is known while the story of a stall is written. */
struct teller {
    struct run *run;
    struct graph *g;
    uint32_t slot_count;
    uint8_t *state; /* by slot number */
    uint32_t told;
    uint32_t count[STATE_COUNT];
    const struct slot *first[STATE_COUNT]; /* NULL: none */
    uint32_t running_kernel;               /* of the first one that runs */
    const struct slot *about;              /* whose predecessors are being told */
    uint32_t waits_told;
};

static void tell(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void tell_running(void *context, struct slot *s, uint32_t core, uint32_t block);
static void tell_deferred(void *context, struct slot *s, uint64_t addr, uint32_t value,
                          uint32_t expected);
static void each_edge(struct teller *t,
                      void (*each)(struct teller *t, struct slot *before, struct slot *after));
static void note_waiting(struct teller *t, struct slot *before, struct slot *after);
static void tell_idle(struct teller *t, uint32_t number);
static void tell_cause(struct teller *t, bool is_stall);

/* Adds to the story of the device, as far as there is room. */
static void tell(struct run *run, const char *format, ...)
{
    struct device *device = run->device;
    va_list args;
    int length;

    if (device->story_length >= STORY_MAX - 1)
        return;
    va_start(args, format);
    length = vsnprintf(device->story + device->story_length, STORY_MAX - device->story_length,
                       format, args);
    va_end(args);
    if (length > 0)
        device->story_length += (uint32_t)length;
    if (device->story_length > STORY_MAX - 1)
        device->story_length = STORY_MAX - 1;
}

int pto_device_story(struct pto_device *handle, char *text, size_t size)
{
    int status;
    struct device *device = device_get(handle, &status);

    if (device == NULL)
        return status;
    pthread_mutex_lock(&device->lock);
    if (device->is_running)
        status = PTO_EBUSY;
    else if (text != NULL && size != 0)
        snprintf(text, size, "%s", device->story);
    if (status == PTO_OK)
        status = (int)device->story_length;
    pthread_mutex_unlock(&device->lock);
    return status;
}

uint32_t pto_stuck_threads(void)
{
    return a32_load_relaxed(&chip_stuck_threads); /* a count */
}

/* ---- faults of the scheduler ---- */

static const char *signal_name(int number)
{
    return number == SIGSEGV  ? "SIGSEGV: it used memory that is not there"
           : number == SIGBUS ? "SIGBUS: it used memory that cannot be had, or is not aligned"
           : number == SIGFPE ? "SIGFPE: a division by zero, or an overflow"
                              : "SIGILL: what it ran is no code of this processor";
}

void run_report_fault(struct run *run)
{
    static const char *const lanes[SLOT_LANES] = { "AIC", "AIV0", "AIV1" };
    const struct sched_fault *fault = &run->chip->sched->fault;
    struct pto_error *error = &run->report.error;
    int status;
    const char *name;

    if (a32_load_acquire(&fault->is_whole) == 0 || run->status < 0) /* A21 */
        return;
    status = (int)a32_load_relaxed(&fault->status); /* after A21 */
    error->task = fault->task;
    error->kernel = (int32_t)fault->kernel;
    name = run->callable->kernel_name[fault->kernel];
    switch (status) {
    case PTO_ECRASH:
        run_fail(run, status, fault->site,
                 "kernel \"%s\" crashed at address %#" PRIx64 " in block %u of task %u, lane %s "
                 "(%s); look at its arguments with a debugger",
                 name, fault->addr, fault->block, fault->seq - 1, lanes[fault->lane],
                 signal_name(fault->signal));
        return;
    case PTO_ECOMPLETION:
        run_fail(run, status, fault->site,
                 "kernel \"%s\" registered a condition that cannot be looked at: its address is 0 "
                 "or not a multiple of 4, or its type is not PTO_COMPLETION_COUNTER",
                 name);
        return;
    case PTO_EWAIT_OVERFLOW:
        run_fail(run, status, fault->site,
                 "kernel \"%s\" registered a condition too many: one invocation may have %d, and "
                 "%d tasks may wait at a time",
                 name, PTO_COMPLETIONS_MAX, PTO_DEFERRED_MAX);
        return;
    case PTO_EREGISTRATION:
        run_fail(run, status, fault->site,
                 "the invocations of kernel \"%s\" registered more than %d conditions for one task",
                 name, PTO_COMPLETIONS_MAX);
        return;
    case PTO_ESYSTEM:
        run_fail(run, status, fault->site,
                 "the system gives no threads for the blocks of kernel \"%s\" that must run at the "
                 "same time; raise the limit of processes, or use fewer blocks",
                 name);
        return;
    default:
        run_fail(run, status, fault->site, "kernel \"%s\" ended the run: %s", name,
                 pto_strerror(status));
    }
}

void story_begin(struct run *run)
{
    run->device->story_length = 0;
    run->device->story[0] = '\0';
}

void story_end(struct run *run)
{
    const struct pto_error *error = &run->report.error;
    struct teller t = { .run = run, .g = run->graph };

    if (run->status >= 0)
        return;
    if (run->chip->is_lost && run->device->story_length == 0) /* else a stall has told of them */
        run->chip->ops->each_running(run->chip, tell_running, &t);
    tell(run, "%s (%d)\n%s\n", pto_strerror(run->status), run->status, error->text);
    if (run->chip->is_lost)
        tell(run, "%s; close it and open another one\n", pto_strerror(PTO_ELOST));
}

/* ---- stalls ---- */

/*
 * By the thread that submits. Other threads may still complete tasks, so what
 * they write is read as they would read it of each other.
 */
void run_stalled(void *arg, bool is_stall)
{
    struct run *run = arg;
    struct teller t = { .run = run, .g = run->graph };
    uint32_t live = t.g->live;

    /* The slots of a graph that is launched again are not in the builder's books. */
    t.slot_count = run->relaunch != NULL ? 0 : t.g->info_count;
    t.state = calloc(t.slot_count + 1, 1);
    if (t.state == NULL) {
        run_fail(run, is_stall ? PTO_ESTALL : PTO_ETIMEOUT, NULL,
                 "no progress before the deadline, and no memory to say more");
        return;
    }
    run->chip->ops->each_running(run->chip, tell_running, &t);
    sched_each_deferred(run->chip->sched, tell_deferred, &t);
    each_edge(&t, note_waiting);
    for (uint32_t number = 1; number < t.slot_count; number++)
        tell_idle(&t, number);
    if (t.told < live)
        tell(run, "... and %u more\n", live - t.told);
    tell_cause(&t, is_stall);
    free(t.state);
}

static void note_state(struct teller *t, const struct slot *s, enum task_state state)
{
    if (s->number < t->slot_count && t->state[s->number] != STATE_RUNS)
        t->state[s->number] = (uint8_t)state;
    if (t->count[state]++ == 0)
        t->first[state] = s;
}

/* The first kernel of a task that has one. */
static uint32_t first_kernel(const struct slot *s)
{
    return slot_kernel(s, (s->lanes & SLOT_LANE_AIC) != 0 ? LANE_AIC : LANE_AIV0);
}

/* The begin of a line about a task; `kernel` is -1 for all of them. False: enough were told. */
static bool tell_task(struct teller *t, const struct slot *s, int32_t kernel)
{
    const char *name = "none";

    if (t->told >= TASKS_TOLD)
        return false;
    t->told++;
    if (s->lanes != 0)
        name = t->run->callable->kernel_name[kernel >= 0 ? (uint32_t)kernel : first_kernel(s)];
    tell(t->run, "task %u, kernel \"%s\"", s->seq - 1, name);
    if (s->site != NULL)
        tell(t->run, " (%s:%d)", s->site->file, s->site->line);
    return true;
}

static void tell_running(void *context, struct slot *s, uint32_t core, uint32_t block)
{
    struct teller *t = context;
    uint32_t aic_count = t->run->chip->sched->aic_count;
    bool is_aiv = core >= aic_count;
    uint32_t kernel =
        slot_kernel(s, is_aiv ? LANE_AIV0 + (core - aic_count) % PTO_CLUSTER_AIVS : LANE_AIC);

    if (t->first[STATE_RUNS] == NULL)
        t->running_kernel = kernel;
    note_state(t, s, STATE_RUNS);
    if (tell_task(t, s, (int32_t)kernel))
        tell(t->run, ": runs block %u on %s %u\n", block, is_aiv ? "AIV" : "AIC",
             is_aiv ? core - aic_count : core);
}

static void tell_deferred(void *context, struct slot *s, uint64_t addr, uint32_t value,
                          uint32_t expected)
{
    struct teller *t = context;

    note_state(t, s, STATE_DEFERRED);
    if (tell_task(t, s, -1))
        tell(t->run, ": waits for the counter at %#" PRIx64 ", which is %u and has to reach %u\n",
             addr, value, expected);
}

/* The edges of the tasks that wait, from those that they wait for; nothing is linked meanwhile. */
static void each_edge(struct teller *t,
                      void (*each)(struct teller *t, struct slot *before, struct slot *after))
{
    for (uint32_t number = 1; number < t->slot_count; number++) {
        struct slot *s = graph_slot(t->g, t->g->info[number].line);
        const struct edge *e;

        if (t->g->info[number].seq == 0)
            continue;
        e = aptr_load_acquire(&s->successors); /* A2 */
        for (; e != NULL && (const void *)e != SLOT_SEALED; e = e->next)
            each(t, s, e->self);
    }
}

static void note_waiting(struct teller *t, struct slot *before, struct slot *after)
{
    (void)before;
    if (t->state[after->number] == STATE_READY)
        note_state(t, after, STATE_WAITS);
}

static void tell_before(struct teller *t, struct slot *before, struct slot *after)
{
    if (after == t->about && t->waits_told++ < WAITS_TOLD)
        tell(t->run, "%s %u", t->waits_told == 1 ? ": waits for task" : ",", before->seq - 1);
}

/* A task that neither runs nor waits for conditions. */
static void tell_idle(struct teller *t, uint32_t number)
{
    struct slot *s = graph_slot(t->g, t->g->info[number].line);

    if (t->g->info[number].seq == 0 || t->state[number] == STATE_RUNS ||
        t->state[number] == STATE_DEFERRED)
        return;
    if (t->state[number] == STATE_READY)
        note_state(t, s,
                   t->run->chip->ops->is_queued(t->run->chip, s) ? STATE_QUEUED : STATE_READY);
    if (!tell_task(t, s, -1))
        return;
    if (t->state[number] == STATE_WAITS) {
        t->about = s;
        t->waits_told = 0;
        each_edge(t, tell_before);
        if (t->waits_told > WAITS_TOLD)
            tell(t->run, " and %u more", t->waits_told - WAITS_TOLD);
        tell(t->run, "\n");
    } else {
        tell(t->run, ": %s\n",
             t->state[number] == STATE_QUEUED ? "waits for cores that are free together"
                                              : "is ready");
    }
}

/* One sentence, with the reference's class of the stall. */
static void tell_cause(struct teller *t, bool is_stall)
{
    struct run *run = t->run;
    int status = is_stall ? PTO_ESTALL : PTO_ETIMEOUT;
    unsigned long long ms = (is_stall ? run->stall_ns : run->options.timeout_ns) / 1000000;
    const char *when = is_stall ? "nothing has moved for" : "the run has not ended after";
    const struct slot *s = t->first[STATE_RUNS] != NULL       ? t->first[STATE_RUNS]
                           : t->first[STATE_DEFERRED] != NULL ? t->first[STATE_DEFERRED]
                           : t->first[STATE_QUEUED] != NULL   ? t->first[STATE_QUEUED]
                           : t->first[STATE_READY] != NULL    ? t->first[STATE_READY]
                                                              : t->first[STATE_WAITS];
    struct pto_error *error = &run->report.error;

    if (s != NULL) {
        error->task = slot_id(s);
        error->kernel = s->lanes == 0                  ? -1
                        : t->first[STATE_RUNS] != NULL ? (int32_t)t->running_kernel
                                                       : (int32_t)first_kernel(s);
    }
    if (t->first[STATE_RUNS] != NULL)
        run_fail(run, status, s->site,
                 "%s %llu ms: kernel \"%s\" of task %u does not return (sub_class=S1); if it waits "
                 "for another task, see that this one is submitted and does not depend on it",
                 when, ms, run->callable->kernel_name[t->running_kernel], s->seq - 1);
    else if (t->first[STATE_DEFERRED] != NULL)
        run_fail(run, status, s->site,
                 "%s %llu ms: task %u waits for a condition that nobody fulfils (sub_class=S4); "
                 "see that its counter is raised, far enough, by a task that does not depend on it",
                 when, ms, s->seq - 1);
    else if (t->first[STATE_QUEUED] != NULL || t->first[STATE_READY] != NULL)
        run_fail(run, status, s->site,
                 "%s %llu ms: task %u is ready, but gets no core (sub_class=S3)", when, ms,
                 s->seq - 1);
    else if (t->first[STATE_WAITS] != NULL)
        run_fail(run, status, s->site,
                 "%s %llu ms: task %u waits for others, and none of them runs (sub_class=S4)", when,
                 ms, s->seq - 1);
    else
        run_fail(run, status, NULL, "%s %llu ms: the graph is still being built (sub_class=S5)",
                 when, ms);
}
