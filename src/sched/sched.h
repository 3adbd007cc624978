/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the graph: decides which worker takes which ready task, and handles the end of a task.
 *
 * A worker is a role that runs tasks; one thread at a time has it. Worker 0 belongs to the
 * submitter. Each worker has a private deque of ready tasks and publishes its older half, which
 * others claim in batches; finished slots also return to the submitter in batches. Pure: no clock,
 * no lock, no system call; the machine puts threads to sleep (port_wake).
 *
 * Ordering
 *   R5  complete_task        -> A5  it and graph_submit      what every predecessor wrote is there
 *   R6  sched_publish (tail)     -> A6  sched_claim_tasks       the tasks offered are whole
 *   R9  sched_claim_tasks (head) -> A9  sched_publish           an entry is read before it is reused
 *   R10 sched_flush (ready)      -> A10 sched_collect           a slot is free before it is reused
 *   R11 sched_collect (head)     -> A11 sched_return_slot, sched_flush
 *                                                               an entry is read before it is reused
 *   R12 sched_finished           -> A12 sched_complete_finished a task that ended elsewhere is whole
 *   R13 sched_park_shared        -> A13 sched_take_parked       a parked task is whole
 *   R17 complete_block           -> A17 complete_block          what every invocation wrote is there
 *   R18 unlock_deferred          -> A18 try_lock_deferred       the table of conditions is whole
 *   R19 any notifier             -> A19 deferred_holds          data that a condition announces is there
 *   R21 stop_for_fault           -> A21 orch_take_fault         the report of the fault is whole
 *   R22 offer_roots (left)       -> A22 sched_claim_roots       the graph that is launched is whole
 *   F1  sched_signal: a store of work, the fence, then a load of `sleepers`; sched_sleep_begin: a
 *       store to `sleepers`, the fence, then a look for work. One of the two sees the other's store.
 */
#ifndef PTO_SCHED_H
#define PTO_SCHED_H

#include "graph/image.h"
#include "port/trace.h"

enum {
    SCHED_DEQUE = 1024, /* ready tasks in a worker's deque; further ones go into its list */
    SCHED_PUBLIC = 256, /* tasks that a worker can offer at the same time */
    /* finished slots of one worker that the submitter has not taken back yet */
    SCHED_RETURN = 1024,
    SCHED_CLAIM = 16,  /* tasks that a worker claims at once from another one's offer */
    SCHED_ROOTS = 128, /* maximum number of roots of a launch that a worker claims at once */
    /*
     * finished slots that a worker collects before it sends them; ready tasks before it offers some
     */
    SCHED_BATCH = 16,
    SCHED_AHEAD = 12,   /* prefetch distance in the list of ready tasks */
    SCHED_COUNTED = 64, /* finished slots of an image before their count is sent to the submitter */
    SCHED_WORKERS_MAX = 64,
};

enum sched_result {
    SCHED_IDLE,   /* there is no task to run */
    SCHED_BUDGET, /* ran `max` tasks */
    /*
     * another thread runs as this worker now, because a kernel was stuck: do not touch the worker
     */
    SCHED_LOST,
    /*
     * tasks are ready, but the time of the run is over: the run's leader first reports what they
     * wait for
     */
    SCHED_HELD,
};

/* Bits of sched->attention, which workers check before each task. */
enum {
    ATTEND_CANCELLED = 1, /* the run was cancelled: no further kernel starts */
    /* the run has failed: no further kernel starts; sched->fault has the reason */
    ATTEND_FAILED = 2,
    ATTEND_TEAMS = 4, /* a team waits for cores: each worker releases its own between two kernels */
    /* the time of the run is over: no kernel starts, and the leader or the builder ends the run */
    ATTEND_LATE = 8,
    ATTEND_STOPPED = ATTEND_CANCELLED | ATTEND_FAILED
};

/* Values of sched->short_hint: whether tasks take less time than handing them to another worker. */
enum short_hint {
    HINT_NONE,
    HINT_GIVEN, /* set by a worker that measured short tasks */
    HINT_TAKEN, /* read by the submitter, which sets HINT_NONE to allow the next hint */
};

/* A task whose kernels have returned, with those of its conditions that do not hold yet. */
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

/* Why the scheduler ended the run. The first fault is kept. */
struct sched_fault {
    struct a32 status;   /* 0: no fault */
    struct a32 is_whole; /* the other fields are valid */
    uint32_t seq;
    uint32_t kernel;
    const struct pto_site *site;
    struct pto_task_id task;
    int32_t signal; /* number of the signal, if the kernel crashed; 0: it did not */
    uint32_t lane;
    uint32_t block;
    uint64_t addr;
    uint32_t kind;    /* enum failure_kind, if the status alone is ambiguous; else 0 */
    int32_t argument; /* index of the task's argument that is the reason; -1: none */
    uint64_t value[2];
    char text[FAILURE_TEXT]; /* text of the exception, if `kind` is FAILURE_THREW */
};

/* First start and last end of the tasks that use a timing slot, in cycles; 0: none yet. */
struct sched_timing {
    struct a64 begin;
    struct a64 end;
};

struct worker {
    struct sched *sched;
    struct graph *graph;
    struct core *core;        /* core that belongs to the thread that runs as this worker */
    struct trace_ring *trace; /* records of this worker; NULL: nothing is recorded */
    uint32_t index;
    /*
     * other threads know of tasks of this worker, or may: other workers, or a thread that was
     * replaced
     */
    bool is_shared;
    bool is_hungry; /* the worker looks for tasks; it is counted in sched->hungry */
    /* the worker offers ready tasks to others; for the submitter's worker, sharing.h decides */
    bool is_offering;
    uint8_t core_mask; /* bit for each type of which the worker has a core */
    /*
     * bit for each core type of which no core was free when the worker asked; the port clears bits
     */
    uint8_t core_none;
    uint16_t core_index[PTO_CORE_TYPES];
    uint64_t order; /* state of the seeded order; 0: no seed, the newest task first */
    uint64_t order_salt;
    uint8_t order_way;   /* enum order_way */
    uint32_t deque_head; /* index of the oldest task */
    uint32_t deque_tail;
    /* ready tasks that did not fit the deque, linked through `pending`, oldest first */
    uint32_t list;
    uint32_t list_end;
    /* tasks that wait for a core, by its type; used if this is the only worker */
    uint32_t parked[PTO_CORE_TYPES];
    uint32_t parked_end[PTO_CORE_TYPES];
    uint32_t own_left; /* roots of a launch that no other thread can claim */
    uint32_t line_now; /* line of the next slot of an image that is run in slot order; 0: none */
    uint32_t line_end;
    /* the task at line_now has begun; if set when sched_run starts, its kernel has not returned */
    bool is_in_line;
    int32_t until; /* sched_pushed is called when this many plus one tasks have been pushed */
    uint32_t return_tail;
    uint32_t return_sent;
    /* finished slots for which return_slot has no room, linked through `pending` */
    uint32_t unreturned;
    uint64_t stolen;
    struct a64 nothing[TRACE_NOTHINGS]; /* tasks that ran no kernel, by reason */
    uint64_t executed[PTO_CORE_TYPES];  /* invocations by core type */
    /* value of `executed` when the worker got the core that it has now */
    uint64_t reported[PTO_CORE_TYPES];
    uint32_t deque[SCHED_DEQUE]; /* line numbers of slots */

    /* written by workers that claim tasks from this worker's offer */
    _Alignas(128) struct a32 public_head;
    _Alignas(128) struct a32 public_tail; /* written by this worker only */
    _Alignas(128) struct a32 public_slot[SCHED_PUBLIC];
    _Alignas(128) struct a32 return_ready; /* written by this worker only */
    _Alignas(128) struct a32 return_head;  /* written by the submitter only */
    _Alignas(128) struct a32 return_slot[SCHED_RETURN];
};

struct sched {
    struct worker *worker[SCHED_WORKERS_MAX];
    uint32_t worker_count;
    void *machine; /* argument of port_wake and port_core_acquire */
    const struct graph_kernel *kernels;
    uint32_t aic_count;                /* AIV cores are numbered after these */
    struct a32 attention;              /* bits ATTEND_... */
    struct a32 spare;                  /* bit per core type: a core of this type is free */
    _Alignas(128) struct a32 sleepers; /* threads that sleep or are about to sleep */
    struct a32 hungry;                 /* workers that look for tasks */
    struct a32 short_hint;             /* enum short_hint; may be late or lost */
    /* tasks that ended outside of a worker's loop, linked through `pending` */
    _Alignas(128) struct a32 finished;
    /* ready tasks that wait for a core, by its type; used if there are several workers */
    struct a32 parked[PTO_CORE_TYPES];
    /*
     * Roots of the launched graph, which are tasks without predecessors. Workers claim them from
     * the end of the array; the first root_left are not claimed yet.
     */
    _Alignas(128) struct a32 root_left;
    struct a32 root_most; /* most roots that a worker may claim at once */
    const uint32_t *root; /* lines of slots; a worker reads only those that it has claimed */
    _Alignas(128) struct sched_fault fault;
    struct sched_timing timing[PTO_TIMING_SLOTS];
    struct a32 stopped; /* teams that were dropped when the run was stopped */
    struct deferred deferred;
};

void sched_init(struct sched *s, void *machine);
void sched_add_worker(struct sched *s, struct worker *w, struct graph *graph);
/* Called before each run. Worker 0 is the submitter's. */
void sched_start(struct sched *s, const struct graph_kernel *kernels, uint64_t order_seed);

/*
 * Called by the submitter after graph_start has made an image current: makes the roots of the image
 * ready, for all workers or, if is_alone, only for this one until it calls sched_share.
 */
void sched_launch(struct worker *w, const struct image *image, bool is_alone);
/* Called by the submitter after a launch with is_alone, before another worker may get its tasks. */
void sched_share(struct worker *w);

/*
 * Called when many tasks have been pushed or the deque is full: offers some to other workers and
 * makes room. Returns 0.
 */
int sched_pushed(struct worker *w);

/*
 * Adds a ready task to the worker's deque. Called by the worker's thread. True: the caller must
 * call sched_pushed.
 */
static inline bool sched_put_line(struct worker *w, uint32_t line)
{
    w->deque[w->deque_tail++ % SCHED_DEQUE] = line;
    return --w->until < 0;
}

/* Adds a ready task to the worker's deque and calls sched_pushed if that is due. Returns 0. */
static inline int sched_push_line(struct worker *w, uint32_t line)
{
    return sched_put_line(w, line) ? sched_pushed(w) : 0;
}

/* Appends a ready task to the end of a list that is linked through `pending`. */
static inline void sched_list_append(const struct graph *g, uint32_t *list, uint32_t *end,
                                     struct slot *s)
{
    uint32_t line = graph_slot_line(g, s);

    if (*list == 0)
        *list = line;
    else
        /* relaxed: only one thread uses the list */
        a32_store_relaxed(&graph_slot(g, *end)->pending, line);
    *end = line;
    a32_store_relaxed(&s->pending, 0);
}

/* Parks a ready task until a core of its type is free. Called by the only worker. */
static inline void sched_park(struct worker *w, struct slot *s)
{
    sched_list_append(w->graph, &w->parked[s->core_type], &w->parked_end[s->core_type], s);
}

/*
 * Adds the submitter's new task if it is ready at once and has one kernel that runs once. Returns
 * 0.
 */
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

/* Drops the submitter's ready tasks. None of them was offered to other workers. */
void sched_discard(struct worker *w);
/*
 * Called for a task that has just become ready. Evaluates its predicate; if that is false, the task
 * will run no kernel. If the task is a team, starts it at once, unless the run has a seed. Returns
 * whether the caller must push the task; false: a team was started.
 */
bool sched_settle(struct worker *w, struct slot *s);
bool sched_predicate_holds(const struct slot_predicate *p);
/* Stops counting this worker in sched->hungry. */
void sched_clear_hungry(struct worker *w);
/* Runs at most `max` tasks. */
enum sched_result sched_run(struct worker *w, uint32_t max);
/* Offers ready tasks from the worker's private deque to other workers. */
void sched_publish(struct worker *w);
/* Sends finished slots to the submitter, even if they are not a full batch. */
void sched_flush(struct worker *w);
/*
 * Called by the submitter: frees the finished slots that workers sent back, and collects buffers
 * that other threads freed. Returns the number of slots.
 */
uint32_t sched_collect(struct sched *s, struct graph *g);
/* Called by any thread: an invocation has returned that was not run inside of sched_run. */
void sched_returned(struct sched *s, struct graph *g, struct slot *slot, struct core *core);
/*
 * Like sched_returned, but called by the only worker's thread, outside of sched_run; successors of
 * the task become ready at once. `slab` holds the conditions that the kernel registered; NULL:
 * none. `core_type` is the type of the core that has become free; PTO_CORE_TYPES: none has. Returns
 * a task with one kernel that runs once, which the caller must start on that core; NULL: none.
 */
struct slot *sched_returned_to(struct worker *w, struct slot *s, struct core_slab *slab,
                               uint32_t core_type);
/* Called by any thread: `count` invocations of a team will never be started. */
void sched_skipped(struct sched *s, struct graph *g, struct slot *slot, uint32_t count);
/* Called by any thread: `count` invocations of a task have ended. */
void sched_blocks_over(struct sched *s, struct graph *g, struct slot *slot, uint32_t count);
/* Called by any thread: the task has ended; some worker will complete it. */
void sched_finished(struct sched *s, struct graph *g, struct slot *slot);
/*
 * Called by any thread: fails the run, so that no further kernel starts. The first failure is kept.
 */
void sched_fail(struct sched *s, const struct slot *slot, int status);
/*
 * Called by any thread: fails the run because of an argument of the task; `why` describes the
 * argument.
 */
void sched_fail_argument(struct sched *s, const struct slot *slot, const struct failure *why);
/* Fails the run because the task names memory that the scheduler could not read. */
void sched_fail_at(struct sched *s, const struct slot *slot, int status, uint64_t addr);
/*
 * Called by any thread: fails the run because a kernel of the task crashed. Returns whether this is
 * the first failure, which is kept.
 */
bool sched_crashed(struct sched *s, const struct slot *slot, int signal, uint64_t addr,
                   uint32_t block, uint32_t lane);
/* Fails the run because a kernel threw an exception or ended its thread; `why` says which. */
void sched_threw(struct sched *s, const struct slot *slot, const struct failure *why);
/* Whether there may be a task for this worker. Called by a thread that is about to sleep. */
bool sched_has_offer(struct sched *s, const struct worker *w);

/*
 * Calls sched_settle for all ready tasks of a worker. Called when a graph that ran nothing while it
 * was built is complete.
 */
void sched_settle_all(struct worker *w);

/*
 * Calls sched_settle for a task that has just become ready, and pushes the task unless it is a team
 * that started.
 */
static inline void sched_ready(struct worker *w, struct slot *s)
{
    if ((s->flags & SLOT_IS_SETTLED_FIRST) == 0 || sched_settle(w, s))
        sched_push(w, s);
}

/* deferred.c */
/*
 * Moves the conditions that an invocation registered into the table of deferred tasks. True: the
 * task waits for some, and sched_poll will complete it.
 */
bool sched_defer(struct sched *s, struct slot *slot, struct core_slab *slab);
/* Called by any thread: completes the tasks whose conditions hold. Returns their number. */
uint32_t sched_poll(struct sched *s, struct graph *g);

/*
 * Calls `each` for every condition that does not hold yet. Waits until a sched_poll in another
 * thread ends.
 */
void sched_each_deferred(struct sched *s,
                         void (*each)(void *context, struct slot *slot, uint64_t addr,
                                      uint32_t value, uint32_t expected),
                         void *context);

static inline bool sched_has_deferred(const struct sched *s)
{
    /* relaxed: only to avoid the lock; sched_poll reads it again under the lock */
    return a32_load_relaxed(&s->deferred.count) != 0;
}

static inline bool sched_is_stopped(const struct sched *s)
{
    /* relaxed: a late value is harmless */
    return (a32_load_relaxed(&s->attention) & ATTEND_STOPPED) != 0;
}

/* Whether no kernel may start any more: the run was stopped, or its time is over. */
static inline bool sched_is_ending(const struct sched *s)
{
    /* only a hint */
    return (a32_load_relaxed(&s->attention) & (ATTEND_STOPPED | ATTEND_LATE)) != 0;
}

static inline void sched_attend(struct sched *s, uint32_t set, uint32_t clear)
{
    uint32_t old = a32_load_relaxed(&s->attention);

    /* orders no other memory */
    while (!a32_cas_relaxed(&s->attention, &old, (old & ~clear) | set)) {
    }
}

/* Called when the kernel of a task with a timing slot starts, and when it has returned. */
void sched_time_begin(struct sched *s, const struct slot *slot);
void sched_time_end(struct sched *s, const struct slot *slot);

/* Wakes sleeping threads. Called after a store for which a sleeping thread may wait. */
static inline void sched_signal(struct sched *s)
{
    fence_full(); /* F1 */
    if (a32_load_relaxed(&s->sleepers) != 0)
        port_wake(s->machine);
}

/*
 * Offers private tasks if other workers look for some. Called before this thread starts something
 * that may take long.
 */
static inline void sched_offer(struct worker *w)
{
    if (w->is_shared && w->deque_tail != w->deque_head && w->is_offering &&
        a32_load_relaxed(&w->sched->hungry) != 0) /* only a hint */
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

/* Number of ready tasks that the worker can take without its list. */
static inline uint32_t sched_ready_count(const struct worker *w)
{
    return w->deque_tail - w->deque_head + w->own_left + (w->line_now != 0) +
           a32_load_relaxed(&w->sched->root_left); /* only a hint */
}

#endif
