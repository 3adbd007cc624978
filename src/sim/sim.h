/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated chip: workers are threads, cores are modelled.
 *
 * The caller of a run takes place 0, the submitter's: it builds the graph on
 * a stack of its own (a fiber) and runs tasks whenever there is no room for
 * more. The other places have a thread each, which sleeps when there is
 * nothing to do.
 *
 * A kernel may wait for another one through memory. So a monitor looks at the
 * places while a run is going on, and when one has been in the same kernel
 * for two ticks it gives the place to another thread: the first one goes on
 * in its kernel, keeps its core, and hands the task in when the kernel
 * returns. Nothing of a place is touched by a thread that has lost it. Whoever
 * has place 0 gives it back to the orchestration's thread before that goes on, and
 * goes on with it itself only if the thread seems to be stuck.
 *
 * Teams, that is gangs and tasks with several lanes, get a thread for each
 * invocation at once, when as many cores are free as must start together. A
 * team that waits for cores goes before ordinary tasks: places give the cores
 * up that they are not using, and get none before it has started.
 *
 *     thread   at a place --(monitor)--> set aside, in its kernel --> idle
 *              idle --> lane of a team --> idle
 *     place    its thread --(monitor)--> an idle or new thread
 *     core     free --> a place's --(takeover)--> a thread's --> free
 *              free --> a lane's --> free
 */
#ifndef PTO_SIM_H
#define PTO_SIM_H

#include <pthread.h>

#include "base/thread_state.h"
#include "base/crash.h"
#include "base/fiber.h"
#include "base/os.h"
#include "chip/local_code.h"
#include "orch/built_graph.h"
#include "orch/dumps.h"
#include "pto/sim.h"
#include "sched/guarded.h"
#include "sched/seats.h"
#include "base/arena.h"
#include "sim/sim_record.h"
#include "sim/port_sim.h"

struct sim;

/* One invocation of a team, for the thread that runs it. */
struct lane {
    struct slot *slot; /* NULL: none */
    uint32_t block;
    uint32_t kernel;
    uint8_t type; /* of the core */
    uint16_t core;
    uint64_t begin; /* in cycles, for the recorder */
};

struct thread {
    struct core core;           /* first: aligned */
    struct pto_sim_core hook;   /* what kernels ask */
    struct crash crash;         /* what it does when a kernel crashes */
    struct guarded_watch watch; /* in runs with guards */
    struct sim *sim;
    struct worker *place;     /* whose turn it is to be served by this thread; under the lock */
    struct lane lane;         /* written while the thread is idle */
    struct thread *next;      /* list of all */
    struct thread *next_idle; /* of idle ones, or of those to be woken */
    bool is_idle;             /* in the list of idle ones; under the lock */
    pthread_t handle;
    bool is_lost;      /* its place was given away; under the lock */
    bool is_stuck;     /* a run ended without its kernel; under the lock */
    uint8_t held_type; /* the core that it keeps meanwhile */
    uint16_t held_index;
    struct a32 go;             /* counts what it was given to do */
    struct thread_state state; /* as kernels find it, and are to leave it */
    bool has_led;              /* what leading a run came to */
    enum guard_result thrown;
    char text[GUARD_TEXT]; /* of what was thrown */
};

/* What the monitor saw at a place last time. */
struct observation {
    struct thread *thread;
    uint32_t exec;
    uint32_t ticks;
    uint32_t haste; /* looks to come since the place was given away, not to wait long in between */
};

/* State that the cores of a cluster share under a key, for models of cross-core pipes. */
struct pipe {
    struct pipe *next;
    uint64_t key;
    size_t size;
    uint32_t cluster;
    _Alignas(64) char data[];
};

/* Teams that wait for cores, linked through `pending`. */
struct team_queue {
    uint32_t first; /* slots by line; 0: none */
    uint32_t last;
};

/* A graph that is kept. */
struct chip_graph {
    struct built_graph built;
    char *memory;        /* the image's, outputs first */
    uint64_t kept_bytes; /* counted in the chip's graph_bytes */
    bool is_pinned;      /* a kernel of it never returned, and may use it */
};

/* What is dumped of arguments of tasks. */
struct sim_dump {
    pthread_mutex_t lock; /* what follows, and the dumps of the record */
    struct dumps dumps;
    struct dump_mark *mark; /* by index of the task */
    uint64_t mark_max;
};

/* How long a kernel, or a team, may take in a serial run before something else runs beside it. */
enum { SIM_SERIAL_NS = 50000000 };

enum { SIM_TICK_NS = 1000000 }; /* between two looks of the monitor */

enum { SIM_FREED = 64 }; /* addresses freed lately that are remembered */

struct sim_allocation;

struct sim {
    struct chip base;
    struct orch orch;
    struct graph graph;
    struct ledger ledger;
    struct sched sched;
    struct pool_budget budget;
    struct fiber *fiber;
    struct orch_run run;                        /* that is going on */
    const struct graph_kernel *guarded_kernels; /* the real ones of a run with guards */
    struct graph_kernel *guards;                /* what is called in their place */
    struct aptr watches;                        /* struct guarded_watch of all threads */
    char *fence; /* with guards: a page at whose end the entry's scalars are, and none */
    struct pto_entry fenced;   /* that has these */
    const struct image *image; /* that it launches; NULL: it builds a graph */
    struct chip_graph *building;
    struct chip_graph *launched;
    uint64_t deadline_ns;             /* UINT64_MAX: none */
    void (*last_will)(void *context); /* chip_request; so is its argument */
    void *last_will_context;
    bool keeps_signals;         /* its code does not change which ones its thread blocks */
    struct a32 changes_signals; /* the code of a run could, since the device was opened */
    bool is_torn;               /* its orchestration crashed in the middle of an operation */
    bool is_refused;            /* it was started, but there is nothing to run */
    bool is_lost;               /* a run ended without some of its kernels: no more runs */
    bool has_handler;           /* crashes are caught */
    uint64_t begin_ns, begin_cycles;
    uint64_t run_ns, run_cycles;
    uint64_t executions;
    struct chip_result result;
    uintptr_t crash_frame[CRASH_FRAMES_MAX]; /* of the crash that ended the run; under the lock */
    uint32_t crash_count;
    const void *crash_entry; /* the function that was called */
    uint32_t spins;
    uint64_t poll_ns;        /* between two looks at the conditions of deferred tasks */
    bool is_builder_waiting; /* whoever is at place 0 goes on with it later */
    bool is_builder_polling; /* the same, until it goes on: some tasks are enough for it */
    struct a32 polls;        /* how often it was so, in the run: the monitor looks */
    struct a32 listens;      /* the same, but for something outside of the run */
    struct thread
        *home; /* place 0's: the thread on which the orchestration is; NULL: it has not begun */
    bool is_builder_gone;  /* the orchestration was left, and is not gone on with */
    bool is_kernel_lost;   /* kernels were given up; place 0's */
    bool is_grace_renewed; /* an orchestration that resumed after the end of its run has time */
    bool is_forked;        /* this process is a child: the run and its threads are the parent's */
    uint32_t awaited_slot; /* the builder waits for this task; 0: for room */
    uint32_t awaited_seq;
    uint64_t awaited_until_ns;
    bool has_fence_all;
    bool is_heap_elsewhere;   /* the chip only builds graphs */
    bool is_seeded;           /* the roots of the image that is launched are ready */
    bool is_serial;           /* one kernel at a time where possible: the order can be repeated */
    struct thread caller;     /* whoever is in sim_wait */
    struct trace_ring *trace; /* of invocations without a worker; NULL: nothing is recorded */
    struct sim_record *record;
    struct sim_dump dump;
    struct arena *arena; /* where device memory comes from; NULL: the heap */

    pthread_mutex_t memory_lock;
    struct sim_allocation *allocation; /* list */
    uint64_t freed[SIM_FREED];         /* addresses freed lately */
    uint32_t freed_next;

    pthread_mutex_t lock; /* places, threads, cores, teams, pipes, the last ring */
    struct thread *at_place[SCHED_WORKERS_MAX];
    struct observation observed[SCHED_WORKERS_MAX];
    uint32_t stuck_seq; /* of the task in which a thread was set aside last */
    struct thread *idle;
    struct thread *all;
    uint32_t thread_count;
    uint32_t thread_max;
    struct seats seats;
    uint32_t core_tasks[PTO_CORES_MAX];
    uint64_t takeovers;
    struct team_queue gangs;
    struct team_queue mixes;
    uint32_t lanes_running;
    uint64_t lane_executions;
    uint32_t team_ticks; /* since a team waits and nothing came of it */
    bool is_lapsed;      /* ordinary tasks may go before teams for once */
    struct pipe *pipes;
    uint64_t sum_seen; /* by the monitor: changes with every kernel that starts or returns */
    uint64_t stall_since_ns;
    uint64_t looked_ns;  /* the monitor's: when it last looked for progress */
    uint32_t polls_seen; /* the monitor's, too */
    uint32_t listens_seen;
    uint64_t polled_ns;  /* when they were others than before */
    uint64_t give_up_ns; /* place 0's: when it does not wait for kernels any longer; 0: it does */
    uint64_t leave_ns; /* when the orchestration is not waited for any longer; UINT64_MAX: it is */
    uint32_t leave_tries;         /* to call its thread back */
    struct os_range builder_code; /* for the handler: written before is_leaving is set */
    pthread_t caller_handle;
    uint64_t number;      /* of the run */
    uint64_t cancelled;   /* the highest number that was cancelled */
    uint64_t graph_bytes; /* of graphs that are kept */

    _Alignas(128) struct a32 event; /* changes when a sleeper may have something to do */
    struct a32 is_closing;
    struct a32 sleeps; /* counted for the report */
    struct a32 wakes;
    _Alignas(128) struct a32 done; /* runs that have ended */
    struct a32 is_running;
    struct a32 has_ended;    /* the run that was started last */
    struct a32 alarm;        /* enum alarm: what the monitor wants place 0 to know */
    struct a32 is_abandoned; /* the run has ended without some of its kernels */
    struct a32 leaver;       /* the thread that has noticed that, by os_thread_id; 0: none yet */
    struct a32 may_leave;    /* it may do so wherever it is */
    struct a32 is_leaving;   /* the orchestration is given up: its thread is to leave it */
    struct a32 monitor;      /* changes to wake the monitor */
    struct a32 is_monitor_asleep;
    struct a32 ticks;
    pthread_t monitor_handle;
};

/* What place 0 has to end the run for. */
enum alarm { ALARM_NONE, ALARM_STALL, ALARM_TIMEOUT };

static inline struct sim *sim_of(struct chip *chip)
{
    return (struct sim *)(void *)chip;
}

/* sim_device.c: as the backend's open, with device memory from an arena; NULL: from the heap. */
int sim_open_in(const struct chip_params *params, struct arena *arena, struct chip **chip_out);
/* Gives back what the run before took more of than is usual. */
void sim_trim_pools(struct sim *m);

/* sim_memory.c */
extern const struct chip_memory_ops sim_memory_ops;
void sim_release_memory(struct sim *m);

/* sim_run.c, sim_record.c: operations of the backend. */
int sim_start(struct chip *chip, const struct chip_request *request);
void sim_wait(struct chip *chip);
const struct chip_result *sim_report(struct chip *chip, struct pto_run_report *report);
int sim_poll(struct chip *chip);
void sim_cancel(struct chip *chip, uint64_t number);
uint64_t sim_progress(struct chip *chip);
int sim_record(struct chip *chip, struct chip_record *out);

/* sim_record.c: with the arena, which has it then. PTO_ENOMEM. */
int sim_record_open(struct sim *m);
/* Around each run. PTO_ENOMEM. */
int sim_record_begin(struct sim *m, const struct pto_run_options *options, struct orch_run *run);
void sim_record_end(struct sim *m);
/* How much it lost of the run; 0 if nothing is recorded. */
uint64_t sim_record_lost(const struct sim *m);
void sim_record_close(struct sim *m);
/* Makes *list of the record larger; false: it stays as it is. */
bool sim_record_grow(struct sim *m, void *list, uint64_t used, uint64_t bytes);

/* sim_dump.c: after the rings were prepared. */
void sim_dump_begin(struct sim *m, uint32_t level, struct orch_run *run);
void sim_dump_free(struct sim *m);

/* sim_guards.c: has the kernels of a run with guards called with care. PTO_ENOMEM. */
int sim_guard_kernels(struct sim *m, struct orch_run *run);
/* Has the scalars of its entry end where memory does, so that reading on is a crash. */
void sim_guard_scalars(struct sim *m, struct orch_run *run);
void sim_guard_free(struct sim *m);
/* Under the lock, before the thread runs its first kernel. */
void sim_add_watch(struct sim *m, struct thread *th);
/* Which one behind the last, from 1 on, an orchestration crashed at; 0: it was something else. */
uint32_t sim_scalar_behind(const struct sim *m, uint64_t addr);

/* sim_graphs.c */
struct chip_graph *sim_graph_create(void); /* NULL: no memory */
/* Keeps the graph that was built, or fails the run. */
int sim_graph_keep(struct sim *m, struct chip_graph *graph);
void sim_drop(struct chip *chip, struct chip_graph *graph);

/* sim.c: what a thread does at a place. */
void sim_serve_place(struct sim *m, struct thread *th);
/* By the caller of a run, before it leads it: takes place 0. */
void sim_begin_lead(struct sim *m);
/* At place 0: builds the graph and runs tasks. False: the thread lost the place to another one. */
bool sim_lead_run(struct sim *m, struct thread *th);

/* Until when a run is waited for whose time is over now. */
uint64_t sim_grace_end(const struct sim *m, uint64_t now_ns);

/* sim_threads.c */
int sim_start_threads(struct sim *m, uint32_t workers);
/*
 * Ends the threads. False: some never return from their kernels; they go on, so
 * nothing that they use may be freed.
 */
bool sim_end_threads(struct sim *m);
/* Counts the threads that are in kernels now as stuck, and calls the caller's thread back. */
void sim_abandon_kernels(struct sim *m);
/* Under the lock: a number that changes with every kernel that starts or returns. */
uint64_t sim_count_kernels(const struct sim *m);
/* Under the lock: the thread is back from its kernel. */
void sim_thread_returned(struct thread *th);
void sim_init_thread(struct sim *m, struct thread *th);
/* By a thread of the device, before it sleeps: puts back what kernels left on it. */
void sim_restore_thread(const struct sim *m, const struct thread *th);
/* The rest under the lock. */
void sim_bind_thread(struct sim *m, struct thread *th, struct worker *w);
void sim_put_idle(struct sim *m, struct thread *th);
/* An idle thread or a new one; NULL if there is none to be had. */
struct thread *sim_take_idle(struct sim *m);
/*
 * Without the lock, by the thread at place 0: gives the place back to the orchestration's thread.
 * False: that is still in a kernel.
 */
bool sim_hand_home(struct sim *m, struct thread *th);

/* sim_teams.c: cores and who has them. Under the lock. */
void sim_init_cores(struct sim *m, uint32_t clusters);
bool sim_acquire_core(struct sim *m, struct worker *w, uint32_t type);
/* Counts what the worker ran on its core. */
void sim_report_core(struct sim *m, struct worker *w, uint32_t type);
/* The same, and takes the core away from it, not yet free. */
void sim_detach_core(struct sim *m, struct worker *w, uint32_t type);
void sim_put_core(struct sim *m, uint32_t type, uint32_t index);
/*
 * Starts the teams for which there are cores, and tells places what there is
 * left. The threads it returns are to be woken with sim_wake_threads after the
 * lock was given back.
 */
struct thread *sim_start_teams(struct sim *m);
void sim_wake_threads(struct thread *list);
/* Calls fn(th). True: a kernel left it by an exception or pthread_exit; th->thrown, th->text. */
bool sim_call_guarded(struct thread *th, void (*fn)(void *arg));
/* As the next one, for that. */
bool sim_throw_landed(struct sim *m, struct thread *th);
/* What to say of it. */
struct failure sim_throw_failure(const struct thread *th, uint32_t kernel, uint32_t block,
                                 uint32_t lane);
/* A kernel crashed on the thread, which is back from it. True: its place was given away. */
bool sim_crash_landed(struct sim *m, struct thread *th);
/* sim_crash.c: the crash of this task's kernel ends the run; and later, on any thread, the rest of it. */
void sim_keep_crash(struct sim *m, const struct thread *th, struct slot *s, uint32_t kernel);
/* The same for the orchestration. */
void sim_keep_builder_crash(struct sim *m, const struct thread *th);
/* In a handler of signals: which of the frames is an operation that the orchestration called; -1: none. */
int32_t sim_find_operation(const struct sim *m, const struct crash *crash);
/* By the thread at place 0: nothing of the graph can be used any more. */
void sim_end_torn(struct sim *m);
/* In a handler of signals: the process ends, so where the thread is is written to stderr. */
void sim_last_words(struct crash *crash, int number);
/* In a child of fork: it ends when it comes back from the kernel or the orchestration. */
void sim_forked(struct crash *crash);
_Noreturn void sim_end_child(void);
void sim_tell_crash(struct sim *m);
/*
 * After the run was stopped: teams that were queued, maybe only because it was late, are over.
 * Whoever queues one later, under the same lock, finds the run stopped and drops it.
 */
void sim_drop_teams(struct sim *m);
/* By the monitor: a team that gets no cores must not stop everything else. */
void sim_watch_teams(struct sim *m);
void sim_drop_pipes(struct sim *m);
/* As it is counted: AICs, then AIVs. */
static inline uint32_t sim_core_number(const struct sim *m, uint32_t type, uint32_t index)
{
    return index + (type == PTO_CORE_AIV ? m->base.properties.clusters : 0);
}

/* Without the lock: runs the invocation that the thread was given. */
void sim_run_lane(struct sim *m, struct thread *th);

#endif
