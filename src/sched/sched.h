/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the graph: who takes which ready task, and what follows from its end.
 *
 * A worker is a role: it runs tasks, and one thread at a time has it. Worker
 * 0 is the submitter's. Each worker has a private deque of ready tasks, from
 * which it publishes the older half for others to claim in batches; finished
 * slots go back to the submitter in batches, too. Pure: no clock, no lock, no
 * system call; sleeping is the machine's business (port_wake).
 *
 * Ordering
 *   R5  complete_task        -> A5  it and graph_submit      what every predecessor wrote is there
 *   R6  sched_publish (tail)     -> A6  sched_claim_tasks       the tasks offered are whole
 *   R9  sched_claim_tasks (head) -> A9  sched_publish           an entry is read before it is reused
 *   R10 sched_flush (ready)      -> A10 sched_collect           a slot is left before it is reused
 *   R11 sched_collect (head)     -> A11 sched_return_slot, sched_flush
 *                                                               an entry is read before it is reused
 *   R12 sched_finished           -> A12 sched_complete_finished a kernel elsewhere has returned
 *   R13 sched_park_shared        -> A13 sched_take_parked       a parked task is whole
 *   R17 complete_block           -> A17 complete_block          what every invocation wrote is there
 *   R18 unlock_deferred          -> A18 try_lock_deferred       the table of conditions is whole
 *   R19 whoever notifies         -> A19 deferred_holds          what came with a condition is there
 *   R21 stop_for_fault           -> A21 orch_take_fault         what is told of the fault is whole
 *   R22 offer_roots (left)       -> A22 sched_claim_roots       the graph that is launched is whole
 *   F1  sched_signal, sched_sleep_begin: publish, fence, look for sleepers against announce, fence,
 *       look for work: one of the two sees the other.
 */
#ifndef PTO_SCHED_H
#define PTO_SCHED_H

#include "graph/image.h"
#include "port/trace.h"

enum {
    SCHED_DEQUE = 1024,  /* private ready tasks before they go into a list */
    SCHED_PUBLIC = 256,  /* tasks on offer at a time */
    SCHED_RETURN = 1024, /* finished slots on their way back */
    SCHED_CLAIM = 16,    /* tasks claimed at once */
    SCHED_ROOTS = 128,   /* the same of those with which a launch starts */
    SCHED_BATCH =
        16, /* finished slots before they are sent back; ready ones before some are offered */
    SCHED_AHEAD = 12,   /* tasks of the list after which one is that is asked for */
    SCHED_COUNTED = 64, /* finished slots of an image before they are told */
    SCHED_WORKERS_MAX = 64,
};

enum sched_result {
    SCHED_IDLE,   /* nothing to take */
    SCHED_BUDGET, /* ran as many tasks as it was told to */
    SCHED_LOST,   /* another thread became the worker during a kernel: do not touch it */
    SCHED_HELD,   /* there is something, but the run is late: its leader is to say so first */
};

/* Bits of sched->attention: what a worker must not overlook. */
enum {
    ATTEND_CANCELLED = 1, /* kernels are not started any more */
    ATTEND_FAILED = 2,    /* the same; sched->fault tells why */
    ATTEND_TEAMS = 4,     /* a team waits for cores: places give theirs up */
    ATTEND_LATE =
        8, /* the time of the run is over: nothing starts, and its leader or builder ends it */
    ATTEND_STOPPED = ATTEND_CANCELLED | ATTEND_FAILED
};

/* That tasks take less than their hand-over: sched->short_hint, for sharing.h. */
enum short_hint {
    HINT_NONE,
    HINT_GIVEN, /* by a worker that found so */
    HINT_TAKEN, /* by the submitter, who makes it none when it wants another one */
};

/* A task whose kernels have returned, and the conditions that do not hold yet. */
struct deferred_task {
    struct slot *slot;
    uint32_t count;
    struct {
        uint64_t addr;
        uint32_t expected;
    } condition[PTO_COMPLETIONS_MAX];
};

struct deferred {
    struct a32 lock;
    struct a32 count; /* tasks in the table; written under the lock */
    struct deferred_task task[PTO_DEFERRED_MAX];
};

/* Why the scheduler ended the run. */
struct sched_fault {
    struct a32 status;   /* 0: none; the first one stays */
    struct a32 is_whole; /* the rest is written, too */
    uint32_t seq;
    uint32_t kernel;
    const struct pto_site *site;
    struct pto_task_id task;
    int32_t signal; /* of a crash; 0: none */
    uint32_t lane;
    uint32_t block;
    uint64_t addr;
    uint32_t fault;   /* enum fault, if it is not the status that says it; else 0 */
    int32_t argument; /* of that, and values */
    uint64_t value[2];
    char text[FAILURE_TEXT]; /* FAULT_THREW */
};

/* First start and last end of a timing slot's tasks, in cycles; 0: none. */
struct sched_timing {
    struct a64 begin;
    struct a64 end;
};

struct worker {
    struct sched *sched;
    struct graph *graph;
    struct core *core;        /* of the thread that is this worker */
    struct trace_ring *trace; /* NULL: nothing is recorded */
    uint32_t index;
    bool is_shared;    /* others know of tasks, or may: other workers, threads set aside */
    bool is_hungry;    /* counted in sched->hungry */
    bool is_offering;  /* it offers ready tasks to others; the submitter: as sharing.h decides */
    uint8_t core_mask; /* core types this worker may use */
    uint8_t core_none; /* of the others, those for which the port has no core: it takes that back */
    uint16_t core_index[PTO_CORE_TYPES];
    uint64_t order; /* state of the order that a seed determines; 0: newest first */
    uint64_t order_salt;
    uint8_t order_way;   /* enum order_way */
    uint32_t deque_head; /* oldest */
    uint32_t deque_tail;
    uint32_t list; /* more ready tasks, linked through `pending`, oldest first */
    uint32_t list_end;
    uint32_t parked[PTO_CORE_TYPES]; /* the same for lack of a core, if there is no other worker */
    uint32_t parked_end[PTO_CORE_TYPES];
    uint32_t own_left; /* roots of a launch that nobody else knows of */
    uint32_t line_now; /* of an image that is run line by line: the next one; 0: none is */
    uint32_t line_end;
    bool is_in_line; /* the task of line_now has begun; left so, its thread is not back yet */
    int32_t until;   /* so many more may become ready, and one, before sched_pushed looks */
    uint32_t return_tail;
    uint32_t return_sent;
    uint32_t unreturned; /* list of finished slots for which the ring had no room */
    uint64_t stolen;
    struct a64 nothing[TRACE_NOTHINGS]; /* tasks that ran nothing, and why */
    uint64_t executed[PTO_CORE_TYPES];  /* on a core of the type */
    uint64_t reported[PTO_CORE_TYPES];  /* of these, before it had the core that it has */
    uint32_t deque[SCHED_DEQUE];        /* slots by line */

    _Alignas(128) struct a32 public_head; /* written by whoever claims */
    _Alignas(128) struct a32 public_tail; /* written by the worker only */
    _Alignas(128) struct a32 public_slot[SCHED_PUBLIC];
    _Alignas(128) struct a32 return_ready; /* written by the worker only */
    _Alignas(128) struct a32 return_head;  /* written by the submitter only */
    _Alignas(128) struct a32 return_slot[SCHED_RETURN];
};

struct sched {
    struct worker *worker[SCHED_WORKERS_MAX];
    uint32_t worker_count;
    void *machine; /* for port_wake, port_core_acquire */
    const struct graph_kernel *kernels;
    uint32_t aic_count;                /* AIV cores are numbered after these */
    struct a32 attention;              /* ATTEND_... */
    struct a32 spare;                  /* core types, as bits, that a worker could have one of */
    _Alignas(128) struct a32 sleepers; /* threads that are about to sleep or do */
    struct a32 hungry;                 /* workers that look for something to run */
    struct a32 short_hint;             /* enum short_hint: a hint */
    _Alignas(128) struct a32 finished; /* list of tasks whose kernels went on elsewhere */
    struct a32 parked[PTO_CORE_TYPES]; /* ready, but a worker of several has no such core */
    /* Tasks of the graph that is launched which wait for nothing, by line; taken from the end. */
    _Alignas(128) struct a32 root_left;
    struct a32 root_most; /* at once */
    const uint32_t *root; /* belongs to whoever has taken some */
    _Alignas(128) struct sched_fault fault;
    struct sched_timing timing[PTO_TIMING_SLOTS];
    struct a32 stopped; /* teams that were dropped when the run was stopped */
    struct deferred deferred;
};

void sched_init(struct sched *s, void *machine);
void sched_add_worker(struct sched *s, struct worker *w, struct graph *graph);
/* Before a run: worker 0 is the submitter's. */
void sched_start(struct sched *s, const struct graph_kernel *kernels, uint64_t order_seed);

/*
 * Submitter: the image's tasks become ready, for all workers, or only for this
 * one until it is told to share them. It was started in the graph.
 */
void sched_launch(struct worker *w, const struct image *image, bool is_alone);
/* Submitter: others may have tasks of the launch from now on. */
void sched_share(struct worker *w);

/* Many became ready, or the deque is full: offers some, makes room. Returns 0. */
int sched_pushed(struct worker *w);

/* A ready task, for this worker or others; by the worker's thread. True: sched_pushed is to be called. */
static inline bool sched_put_line(struct worker *w, uint32_t line)
{
    w->deque[w->deque_tail++ % SCHED_DEQUE] = line;
    return --w->until < 0;
}

/* The same, with that call. Returns 0. */
static inline int sched_push_line(struct worker *w, uint32_t line)
{
    return sched_put_line(w, line) ? sched_pushed(w) : 0;
}

/* Behind those that have waited for longer; `pending` of a ready task links it in lists. */
static inline void sched_list_append(const struct graph *g, uint32_t *list, uint32_t *end,
                                     struct slot *s)
{
    uint32_t line = graph_slot_line(g, s);

    if (*list == 0)
        *list = line;
    else
        a32_store_relaxed(&graph_slot(g, *end)->pending, line); /* one thread's */
    *end = line;
    a32_store_relaxed(&s->pending, 0);
}

/* A ready task waits for a core of its type; by the only worker. */
static inline void sched_park(struct worker *w, struct slot *s)
{
    sched_list_append(w->graph, &w->parked[s->core_type], &w->parked_end[s->core_type], s);
}

/* A task with one kernel that runs once is ready at its submit. Returns 0. */
static inline int sched_hand_over(struct worker *w, struct slot *s)
{
    if (PORT_ONE_THREAD && (w->core_none >> s->core_type & 1) != 0) {
        sched_park(w, s);
        return 0;
    }
    return sched_push_line(w, graph_slot_line(w->graph, s));
}

static inline void sched_push(struct worker *w, struct slot *s)
{
    (void)sched_push_line(w, graph_slot_line(w->graph, s));
}

/* Forgets the ready tasks of the submitter, which were not offered to anybody. */
void sched_discard(struct worker *w);
/*
 * For a task that has just become ready: evaluates its predicate, if that is
 * false the task runs nothing; and hands a team over, which goes before all
 * others unless the order has a seed. False: it did.
 */
bool sched_settle(struct worker *w, struct slot *s);
bool sched_predicate_holds(const struct slot_predicate *p);
/* The worker does something else than to look for tasks: nobody need offer it any. */
void sched_look_away(struct worker *w);
/* Runs at most `max` tasks. */
enum sched_result sched_run(struct worker *w, uint32_t max);
/* Offers private tasks to others. */
void sched_publish(struct worker *w);
/* Sends finished slots back, so that the submitter need not wait for a full batch. */
void sched_flush(struct worker *w);
/* Submitter: takes finished slots and blocks back. Returns how many slots. */
uint32_t sched_collect(struct sched *s, struct graph *g);
/* Any thread: an invocation has returned, but not to the worker that started it. */
void sched_returned(struct sched *s, struct graph *g, struct slot *slot, struct core *core);
/*
 * The same by the worker's thread, outside of sched_run, if it is the only worker: what waited for
 * the task is ready at once. `slab` has what the kernel registered; NULL: nothing. Returns another
 * task, with one kernel that runs once, which the caller starts on the core that has become free,
 * of this type; PTO_CORE_TYPES: on none.
 */
struct slot *sched_returned_to(struct worker *w, struct slot *s, struct core_slab *slab,
                               uint32_t core_type);
/* Any thread: `count` invocations of a team will never be started. */
void sched_skipped(struct sched *s, struct graph *g, struct slot *slot, uint32_t count);
/* Any thread: the task is over, but for its completion. */
void sched_finished(struct sched *s, struct graph *g, struct slot *slot);
/* Any thread: the run fails, and no further kernel is started. The first one stays. */
void sched_fail(struct sched *s, const struct slot *slot, int status);
/* Any thread: the same for something about an argument, which the fault says, with its values. */
void sched_fail_argument(struct sched *s, const struct slot *slot, const struct failure *why);
/* The same for what was to be looked at for the task, where there is no memory. */
void sched_fail_at(struct sched *s, const struct slot *slot, int status, uint64_t addr);
/* Any thread: one of the task's kernels crashed. Whether that is why the run fails. */
bool sched_crashed(struct sched *s, const struct slot *slot, int signal, uint64_t addr,
                   uint32_t block, uint32_t lane);
/* The same: it threw an exception, or ended its thread, as the fault says. */
void sched_threw(struct sched *s, const struct slot *slot, const struct failure *why);
/* Whether anything is on offer; for a thread that is about to sleep. */
bool sched_has_offer(struct sched *s, const struct worker *w);

/* The same for all ready tasks of a worker: the graph is complete only now. */
void sched_settle_all(struct worker *w);

/* A task has just become ready. */
static inline void sched_ready(struct worker *w, struct slot *s)
{
    if ((s->flags & SLOT_IS_SETTLED_FIRST) == 0 || sched_settle(w, s))
        sched_push(w, s);
}

/* deferred.c */
/*
 * Takes the conditions that an invocation registered. True: the task waits for
 * them; sched_poll goes on with it.
 */
bool sched_defer(struct sched *s, struct slot *slot, struct core_slab *slab);
/* Any thread: goes on with the tasks whose conditions hold. Returns how many. */
uint32_t sched_poll(struct sched *s, struct graph *g);

/* Calls `each` for every condition that does not hold. Not while a poll is going on: it waits. */
void sched_each_deferred(struct sched *s,
                         void (*each)(void *context, struct slot *slot, uint64_t addr,
                                      uint32_t value, uint32_t expected),
                         void *context);

static inline bool sched_has_deferred(const struct sched *s)
{
    return a32_load_relaxed(&s->deferred.count) != 0; /* whoever polls looks again */
}

static inline bool sched_is_stopped(const struct sched *s)
{
    return (a32_load_relaxed(&s->attention) & ATTEND_STOPPED) != 0; /* being late is harmless */
}

/* The same, or about to be: it is late. */
static inline bool sched_is_ending(const struct sched *s)
{
    return (a32_load_relaxed(&s->attention) & (ATTEND_STOPPED | ATTEND_LATE)) != 0; /* the same */
}

static inline void sched_attend(struct sched *s, uint32_t set, uint32_t clear)
{
    uint32_t old = a32_load_relaxed(&s->attention);

    while (!a32_cas_relaxed(&s->attention, &old, (old & ~clear) | set)) { /* orders nothing */
    }
}

/* A timed task's kernel starts, or has returned. */
void sched_time_begin(struct sched *s, const struct slot *slot);
void sched_time_end(struct sched *s, const struct slot *slot);

/* Something was made visible that a sleeper may be waiting for. */
static inline void sched_signal(struct sched *s)
{
    fence_full(); /* F1 */
    if (a32_load_relaxed(&s->sleepers) != 0)
        port_wake(s->machine);
}

/* Offers private tasks if others look for some: before this thread does something that may take long. */
static inline void sched_offer(struct worker *w)
{
    if (w->is_shared && w->deque_tail != w->deque_head && w->is_offering &&
        a32_load_relaxed(&w->sched->hungry) != 0) /* a hint */
        sched_publish(w);
}

static inline void sched_sleep_begin(struct sched *s)
{
    a32_add_acq_rel(&s->sleepers, 1);
    fence_full(); /* F1 */
}

static inline void sched_sleep_end(struct sched *s)
{
    a32_sub_acq_rel(&s->sleepers, 1);
}

static inline uint64_t sched_executed(const struct worker *w)
{
    return w->executed[PTO_CORE_AIC] + w->executed[PTO_CORE_AIV];
}

/* What the worker could run next; without what is in its list. */
static inline uint32_t sched_ready_count(const struct worker *w)
{
    return w->deque_tail - w->deque_head + w->own_left + (w->line_now != 0) +
           a32_load_relaxed(&w->sched->root_left); /* a count */
}

#endif
