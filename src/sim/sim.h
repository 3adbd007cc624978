/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated chip: workers are threads, cores are modelled.
 *
 * The caller of a run takes place 0, the submitter's: it builds the graph on a separate stack (a
 * fiber) and runs tasks whenever there is no room for more. Each other place has a thread, which
 * sleeps while it is idle.
 *
 * A kernel may wait for another one through memory. So a monitor polls the places during a run, and
 * when one has been in the same kernel for two ticks, the monitor gives the place to another
 * thread. The first thread continues its kernel, keeps its core, and completes the task when the
 * kernel returns. A thread that has lost a place does not touch it any more. The thread at place 0
 * gives the place back to the orchestration's thread before the orchestration resumes, and resumes
 * it itself only if that thread seems to be stuck.
 *
 * Teams, which are gangs and tasks with several lanes, get a thread for each invocation at once,
 * when as many cores are free as must start together. A team that waits for cores goes before
 * ordinary tasks: places release cores that they do not use, and get none before it has started.
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
#include "chip/pipes.h"
#include "orch/built_graph.h"
#include "orch/dumps.h"
#include "orch/record.h"
#include "pto/sim.h"
#include "pto/access_hooks.h"
#include "sched/guarded.h"
#include "sched/seats.h"
#include "base/arena.h"
#include "sim/sim_record.h"
#include "sim/port_sim.h"

struct sim;

/* One invocation of a team's kernel, assigned to the thread that runs it. */
struct lane {
    struct slot *slot; /* NULL: none */
    uint32_t block;
    uint32_t kernel;
    uint8_t type; /* type of the core */
    uint16_t core;
    uint64_t begin;  /* time at which the kernel began, in cycles, for the recorder */
    uint64_t cpu_ns; /* CPU time of the thread when the kernel began */
};

struct thread {
    struct core core; /* first member, because struct core has the stricter alignment */
    /* description of the simulated core, which the functions of pto/sim.h return to the kernel */
    struct pto_sim_core hook;
    struct crash crash; /* state of the crash handler */
    /* tensors whose guards were undamaged when the kernel began, in runs with guards */
    struct guarded_watch watch;
    /* state for kernels that report their accesses; NULL: none has run on this thread */
    struct touched *touched;
    /* copies of its task's inputs, in runs with guards; NULL: none were made yet */
    struct sim_inputs *inputs;
    struct sim *sim;
    struct worker *place; /* place that this thread serves next; under the lock */
    /* lane of a team that the thread runs; written while the thread is idle */
    struct lane lane;
    struct thread *next;      /* next in the list of all threads of the chip */
    struct thread *next_idle; /* next in the list of idle threads, or of threads to wake */
    bool is_idle;             /* the thread is in the list of idle threads; under the lock */
    pthread_t handle;
    /*
     * last value of core.exec that was published for observers, and when it was first seen;
     * protected by the lock
     */
    uint32_t shown_exec;
    uint64_t shown_since_ns;
    bool is_lost; /* the thread's place was given away; under the lock */
    /* the thread's kernel had not returned when a run was given up; under the lock */
    bool is_stuck;
    /*
     * type of the core that the thread keeps if its place is given away while a kernel runs on the
     * core
     */
    uint8_t held_type;
    uint16_t held_index;
    /* futex on which the thread sleeps while it is idle; incremented to assign work to it */
    struct a32 go;
    /* floating-point and signal state of the thread, restored after each kernel */
    struct thread_state state;
    /* result of lead(), which sim_lead_run returns; false: the thread has lost place 0 */
    bool has_led;
    enum guard_result thrown;
    char text[GUARD_TEXT]; /* text of the exception that left the kernel */
};

/* What the monitor saw when it last checked a place. */
struct observation {
    struct thread *thread;
    uint32_t exec;
    uint32_t ticks;
    /*
     * number of checks at the short interval FAST_POLL_NS that are left since the place was given
     * away
     */
    uint32_t fast_polls;
};

/* Teams that wait for cores: a list linked through the slots' `pending`. */
struct team_queue {
    /* position of the first team's slot, in units of 64 bytes; 0: the queue is empty */
    uint32_t first;
    uint32_t last;
};

/* A built graph that the chip keeps. */
struct chip_graph {
    struct built_graph built;
    char *memory;        /* memory of the graph's image, the outputs first */
    uint64_t kept_bytes; /* size of the graph in the chip's budget graph_bytes */
    bool is_pinned;      /* a kernel of the graph never returned and may still use the memory */
};

/* The dumps of tasks' arguments of a recorded run. */
struct sim_dump {
    pthread_mutex_t lock; /* protects the fields below, and the dumps of the record */
    struct dumps dumps;
    struct dump_mark *mark; /* what to dump of each task, indexed by submission number */
    uint64_t mark_max;
};

/*
 * In a serial run (is_serial), time after which other kernels may run alongside a kernel or team
 * that has not returned. On a busy machine a thread may get no CPU for a good part of that time.
 */
enum { SIM_SERIAL_NS = 200000000 };

/* Whether a kernel has made an invalid access or computed NaN: only the first finding is reported. */
enum sim_finding {
    FINDING_NONE,
    FINDING_TRACED, /* a thread is collecting the stack frames of an access */
    FINDING_REPORTED
};

enum { SIM_TICK_NS = 1000000 }; /* interval between two ticks of the monitor */

/* number of freed addresses that are remembered, to describe invalid accesses */
enum { SIM_FREED = 64 };

struct sim_allocation;

/* What the chip publishes for observers in other processes (sim_status.c); under the lock. */
struct sim_shown {
    /* names of the run's kernels by func_id while it runs; NULL: unknown */
    const char *const *kernel_name;
    uint32_t kernel_name_count;
    uint64_t run;        /* number of the run that was published last */
    uint64_t at_ns;      /* time of the last publication */
    uint64_t sum;        /* sum of all kernels' starts and returns, from sim_count_kernels */
    uint64_t still_ns;   /* time at which `sum` changed last */
    uint64_t asked_ns;   /* time of the last request to place 0 to list the waiting tasks */
    uint64_t waiting_of; /* value of `sum` when place 0 last listed the waiting tasks */
};

/* Records of elements that kernels used (wire/task_record.h), until the run has ended. */
struct touched_records {
    char *at;
    uint64_t bytes, max;
};

/* sim_signals.c: what kernels signalled to each other in a run whose uses of elements are kept. */
struct signals {
    struct touched_signal *place; /* hash table by address, `max` entries; latest == 0: empty */
    uint32_t count, max;
    struct signal_wait *wait; /* conditions of pto_defer that do not hold yet */
    uint32_t wait_count, wait_max;
    struct a32 waits;  /* wait_count, to be read without the lock */
    uint32_t segments; /* number of segments so far */
};

struct sim {
    struct chip base;
    struct orch orch;
    struct graph graph;
    struct ledger ledger;
    struct sched sched;
    struct pool_budget budget;
    struct fiber *fiber;
    struct orch_run run;
    /* for each kernel, the hooks through which it reports accesses; NULL: no kernel reports any */
    const struct pto_access_link *const *links;
    struct task_use *use; /* for each task, by seq: which of its arguments its kernels used */
    uint32_t use_max;
    struct touched_records touches; /* elements that kernels used; under memory_lock */
    struct signals signals;         /* likewise */
    bool has_steps;                 /* the run looks at the arguments of each task */
    pthread_mutex_t step_lock;      /* protects `steps`, and makes observers run one at a time */
    struct sim_step *steps;         /* list of the tasks whose kernels are running */
    struct a32 finding;             /* enum sim_finding */
    /* in runs with guards: how many kernels are running, and how many have started so far */
    struct a32 kernels_running, kernels_started;
    /* the original kernels, in a run with guards */
    const struct graph_kernel *guarded_kernels;
    /* functions that replace the kernels: each checks guards and calls the original */
    struct graph_kernel *guards;
    struct aptr watches; /* list of the guarded_watch structs of all threads */
    /*
     * in runs with guards: a page at whose end the entry's scalars are, followed by an unmapped
     * page
     */
    char *fence;
    /* copy of the entry whose scalars are at the end of the page `fence` */
    struct pto_entry fenced;
    const struct image *image; /* the image to launch; NULL: the run builds a graph */
    struct chip_graph *building;
    struct chip_graph *launched;
    uint64_t deadline_ns;            /* deadline of the run; UINT64_MAX: none */
    void (*on_crash)(void *context); /* callback after a crash; see struct chip_request */
    void *on_crash_context;
    const char *const *kernel_name; /* names of the run's kernels; see struct chip_request */
    uint32_t kernel_name_count;
    bool keeps_signals; /* no code of the run changes the signal mask of its thread */
    /* since the device was opened, some run had code that may change signal masks */
    struct a32 changes_signals;
    /* the orchestration crashed inside of an operation of the runtime, so the graph is unusable */
    bool is_torn;
    bool is_refused;  /* the start of the run has failed, so it ends without running anything */
    bool is_lost;     /* some kernels never returned; the chip takes no more runs */
    bool has_handler; /* signal handlers that catch crashes are installed */
    uint64_t begin_ns, begin_cycles;
    uint64_t run_ns, run_cycles;
    uint64_t executions;
    struct chip_result result;
    /*
     * return addresses of the crash that ended the run, or of a kernel that does not return; under
     * the lock
     */
    uintptr_t crash_frame[CRASH_FRAMES_MAX];
    uint32_t crash_count;
    const void *crash_entry; /* the kernel or orchestration that crashed, or does not return */
    /* thread that was interrupted to find out where in its kernel it is; NULL: none */
    struct thread *stuck;
    uint32_t spins;
    uint64_t poll_ns; /* interval between two polls of deferred tasks' conditions */
    /* the orchestration is paused; the thread at place 0 resumes it later */
    bool is_builder_waiting;
    bool is_builder_polling; /* the orchestration is paused until some tasks have run */
    struct a32 polls; /* number of the orchestration's polls in the run; read by the monitor */
    /* number of its polls for messages from outside of the run; read by the monitor */
    struct a32 listens;
    /* thread that runs the orchestration; NULL: it has not started; written by place 0 */
    struct thread *home;
    bool is_builder_gone;  /* the orchestration crashed or was made to end, and is not resumed */
    bool is_kernel_lost;   /* some kernels were given up; written by place 0 */
    bool is_grace_renewed; /* the orchestration got more time to return once (renew_grace) */
    /* set in a forked child, where the run and its threads do not exist */
    bool is_forked;
    /* slot of the task for which the builder waits; 0: the builder waits for room */
    uint32_t awaited_slot;
    uint32_t awaited_seq;
    uint64_t awaited_until_ns;
    bool has_fence_all;
    /* the chip only builds graphs; outputs are at addresses of another chip */
    bool is_heap_elsewhere;
    bool is_seeded; /* the roots of the launched image were made ready */
    /* run one kernel at a time where possible, so that the order is repeatable */
    bool is_serial;
    struct thread caller; /* thread that calls sim_wait and leads the run */
    /* ring for records of invocations that run without a worker; NULL: nothing is recorded */
    struct trace_ring *trace;
    struct sim_record *record;
    struct sim_dump dump;
    struct arena *arena; /* source of device memory; NULL: the heap */

    pthread_mutex_t memory_lock;
    struct sim_allocation *allocation; /* list of allocations, under memory_lock */
    uint64_t freed[SIM_FREED];         /* addresses that were freed last */
    uint32_t freed_next;

    /* protects places, threads, cores, teams, pipes, and the ring for teams */
    pthread_mutex_t lock;
    struct thread *at_place[SCHED_WORKERS_MAX];
    struct observation observed[SCHED_WORKERS_MAX];
    uint32_t stuck_seq; /* seq of the task whose thread was set aside last */
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
    /* number of ticks since a team that waits for cores last made progress */
    uint32_t team_ticks;
    /*
     * ordinary tasks may use cores although a team waits for them, because it waited for too long
     */
    bool is_lapsed;
    struct pipes pipes;
    /* last result of sim_count_kernels, used by the monitor only */
    uint64_t sum_seen;
    uint64_t stall_since_ns;
    uint64_t looked_ns; /* time of the monitor's last check for progress */
    /* value of `polls`, which counts polls of the orchestration, at the monitor's last check */
    uint32_t polls_seen;
    uint32_t listens_seen;
    uint64_t polled_ns; /* time at which the monitor saw `polls` change */
    struct sim_shown shown;
    /* time at which the thread at place 0 stops waiting for kernels; 0: no limit */
    uint64_t give_up_ns;
    /*
     * time until which the thread at place 0 waits for the orchestration to return; UINT64_MAX: no
     * limit
     */
    uint64_t leave_ns;
    /*
     * number of ticks since the orchestration's thread was first asked to leave the orchestration
     */
    uint32_t leave_tries;
    /*
     * address range of the orchestration's code, in which the signal handler may leave it; set
     * before is_leaving
     */
    struct os_range builder_code;
    pthread_t caller_handle;
    uint64_t number;      /* number of the run */
    uint64_t cancelled;   /* highest number of a run that was cancelled */
    uint64_t graph_bytes; /* total kept_bytes of the graphs that the chip keeps */

    /* counter, incremented when there may be something to do for a thread that sleeps on it */
    _Alignas(128) struct a32 event;
    struct a32 is_closing;
    struct a32 sleeps; /* number of times that a thread slept in the run, for its report */
    struct a32 wakes;
    /* number of ended runs; threads that wait for one sleep on it as a futex */
    _Alignas(128) struct a32 done;
    struct a32 is_running;
    struct a32 has_ended;    /* the run that was started last has ended */
    struct a32 alarm;        /* enum alarm: request of the monitor to place 0 */
    struct a32 is_abandoned; /* the run has ended while some of its kernels had not returned */
    /*
     * os_thread_id of the orchestration's thread, set when that thread has seen is_leaving; 0: not
     * yet
     */
    struct a32 leaver;
    /* the orchestration's thread may be interrupted at any instruction, not only in waits */
    struct a32 may_leave;
    struct a32 is_leaving; /* the orchestration is given up: its thread must leave it */
    struct a32 monitor;    /* counter and futex, incremented to wake the monitor */
    struct a32 is_monitor_asleep;
    struct a32 ticks;
    pthread_t monitor_handle;
};

/*
 * What the monitor asks of the thread at place 0: to list the waiting tasks for observers, or to
 * end the run.
 */
enum alarm { ALARM_NONE, ALARM_DESCRIBE, ALARM_STALL, ALARM_TIMEOUT };

static inline struct sim *sim_of(struct chip *chip)
{
    return (struct sim *)(void *)chip;
}

/*
 * sim_device.c: opens a chip whose device memory is from the arena, or from the heap if it is NULL.
 */
int sim_open_in(const struct chip_params *params, struct arena *arena, struct chip **chip_out);
/* Unmaps memory that the previous run mapped beyond what a pool keeps. */
void sim_trim_pools(struct sim *m);

/* The following is defined in sim_memory.c. */
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

/* Called when the device is opened: allocates the recorder's memory. May return PTO_ENOMEM. */
int sim_record_open(struct sim *m);
/* Called before each run: prepares its record, if it is recorded. May return PTO_ENOMEM. */
int sim_record_begin(struct sim *m, const struct pto_run_options *options, struct orch_run *run);
void sim_record_end(struct sim *m);
/* Returns the number of records of the run that were lost; 0 if nothing is recorded. */
uint64_t sim_record_lost(const struct sim *m);
/*
 * The destination to which the submitter, and the thread that ends the run, write records of tasks.
 */
struct record_sink sim_record_sink(struct sim *m);
void sim_record_close(struct sim *m);
/*
 * Replaces an array of the record by one of `bytes` bytes, with the first `used` bytes copied.
 * False: out of memory; the array is unchanged.
 */
bool sim_record_grow(struct sim *m, void *list, uint64_t used, uint64_t bytes);

/* sim_dump.c: prepares the dumps of a run. Called after the rings were prepared. */
void sim_dump_begin(struct sim *m, uint32_t level, struct orch_run *run);
void sim_dump_free(struct sim *m);

/*
 * sim_memory.c: whether the address is in device memory that runs use; registered windows of ranks
 * do not count.
 */
bool sim_is_memory(struct sim *m, uint64_t addr);
/* sim_signals.c: called for each signal of a kernel whose uses of elements are kept. */
void sim_note_signal(void *context, uint64_t addr, int how);
/* Called before such a kernel, and after it, under memory_lock, for its conditions of pto_defer. */
void sim_signals_begin(struct sim *m);
void sim_signals_defer(struct thread *th);
/* Called after the run, under memory_lock. */
void sim_forget_signals(struct sim *m);
/* sim_touched.c: calls a kernel that reports its accesses, and checks them. */
void sim_call_touching(struct thread *th, const struct pto_access_link *link, pto_kernel_fn fn,
                       int64_t *args, const struct pto_tensor *tensor);
/*
 * Called after a kernel has returned: remembers which arguments the invocation has used. If
 * is_known is false, the kernel does not report its accesses, so the use of the task's arguments is
 * unknown.
 */
void sim_note_use(struct thread *th, const struct pto_tensor *tensor, bool is_known);
/*
 * Records the elements that the current segment of an invocation used, and a row without elements;
 * both under memory_lock. False: the elements are not known completely.
 */
bool sim_keep_segment(struct thread *th);
void sim_record_touch(struct sim *m, const struct record_touch *touch);
/* Called after the run: adds the elements that kernels used to the run's record. */
void sim_record_touches(struct sim *m);
/*
 * Called after the run: reports how kernels used their tasks' arguments, and forgets what was
 * remembered.
 */
void sim_report_uses(struct sim *m, struct pto_run_report *report);
void sim_forget_uses(struct sim *m);
/* Called after the thread has ended: frees its struct touched. */
void sim_free_touched(struct thread *th);

/*
 * sim_inputs.c: called before each kernel of a run with guards, to copy the inputs of its task.
 * Returns whether sim_leave_inputs will compare them, which is called after the kernel in any case.
 */
bool sim_enter_inputs(struct thread *th, const struct pto_tensor *tensor);
/* Fails the run if the kernel has changed an input and no other kernel ran in the meantime. */
void sim_leave_inputs(struct thread *th, const struct pto_tensor *tensor, bool is_compared);
/* Called after the thread has ended: frees its struct sim_inputs. */
void sim_free_inputs(struct thread *th);

/* sim_steps.c: called before and after each kernel of a run with steps. */
void sim_enter_step(struct thread *th, const struct pto_tensor *tensor);
void sim_leave_step(struct thread *th, const struct pto_tensor *tensor);
/* Frees the steps (sim_steps.c) of a run that failed while kernels were running. */
void sim_free_steps(struct sim *m);

/* sim_guards.c: returns the number of the kernel that the thread runs. */
uint32_t sim_kernel_of(const struct thread *th);
/* Returns the lane of the thread's core in its cluster: enum slot_lane_index. */
uint32_t sim_lane_of(const struct thread *th);
/*
 * Replaces the kernels of a run by functions that call them, in a run with guards, with steps, or
 * with kernels that report accesses. PTO_ENOMEM.
 */
int sim_guard_kernels(struct sim *m, struct orch_run *run);
/*
 * Moves the scalars of the entry to the end of mapped memory, so that reading beyond the last one
 * crashes.
 */
void sim_guard_scalars(struct sim *m, struct orch_run *run);
void sim_guard_free(struct sim *m);
/* Adds the thread's guarded_watch to `watches`. Called under the lock, before its first kernel. */
void sim_add_watch(struct sim *m, struct thread *th);
/*
 * The orchestration has crashed at this address: returns which scalar after the entry's last one it
 * is, counted from 1; 0: it is none.
 */
uint32_t sim_scalar_beyond(const struct sim *m, uint64_t addr);

/* sim_status.c: publishes the run for observers in other processes. */
/*
 * Called by the monitor in each tick, under the lock, with what sim_count_kernels returned. Returns
 * whether place 0 has to describe the waiting tasks.
 */
bool sim_status_tick(struct sim *m, uint64_t sum, uint64_t now_ns);
/* Called at place 0: describes the waiting tasks for observers. */
void sim_status_describe(struct sim *m);

/* The following is defined in sim_graphs.c. */
struct chip_graph *sim_graph_create(void); /* NULL: out of memory */
/* Keeps the graph that was built, or fails the run. */
int sim_graph_keep(struct sim *m, struct chip_graph *graph);
void sim_drop(struct chip *chip, struct chip_graph *graph);

/* sim.c: the loop of a thread at a place other than place 0. */
void sim_serve_place(struct sim *m, struct thread *th);
/* Called before leading a run: takes place 0 for the caller. */
void sim_begin_lead(struct sim *m);
/* Called at place 0: builds the graph and runs tasks. False: the thread has lost the place. */
bool sim_lead_run(struct sim *m, struct thread *th);

/*
 * Called when the deadline of a run has passed. Returns the time until which its kernels may still
 * return, which is the deadline plus the run's grace.
 */
uint64_t sim_grace_end(const struct sim *m, uint64_t now_ns);

/* The following is defined in sim_threads.c. */
int sim_start_threads(struct sim *m, uint32_t workers);
/*
 * Ends the threads. False: some never return from their kernels and keep running, so nothing that
 * they use may be freed.
 */
bool sim_end_threads(struct sim *m);
/*
 * Counts the threads that are in kernels now as stuck. If the thread that is in sim_wait is among
 * them, interrupts its kernel, so that sim_wait can return.
 */
void sim_abandon_kernels(struct sim *m);
/* Returns a number that changes when a kernel starts or returns. The lock is held. */
uint64_t sim_count_kernels(const struct sim *m);
/*
 * Called with the lock held when a thread has returned from its kernel: it no longer counts as
 * stuck.
 */
void sim_thread_returned(struct thread *th);
void sim_init_thread(struct sim *m, struct thread *th);
/* Called by a thread of the device before it sleeps: restores thread state that kernels changed. */
void sim_restore_thread(const struct sim *m, const struct thread *th);
/* Binds a thread to a worker. The lock is held, here and in the next two functions. */
void sim_bind_thread(struct sim *m, struct thread *th, struct worker *w);
void sim_put_idle(struct sim *m, struct thread *th);
/* Returns an idle thread or a new one; NULL: none is available. */
struct thread *sim_take_idle(struct sim *m);
/*
 * Called by the thread at place 0, without the lock: gives the place back to the orchestration's
 * thread. False: that thread is still in a kernel.
 */
bool sim_hand_home(struct sim *m, struct thread *th);

/* sim_teams.c: assigns cores. The lock is held. */
void sim_init_cores(struct sim *m, uint32_t clusters);
bool sim_acquire_core(struct sim *m, struct worker *w, uint32_t type);
/* Adds the kernels that the worker ran on its core to the count of that core. */
void sim_report_core(struct sim *m, struct worker *w, uint32_t type);
/* Like sim_report_core, and also takes the core from the worker. The core does not become free. */
void sim_detach_core(struct sim *m, struct worker *w, uint32_t type);
void sim_put_core(struct sim *m, uint32_t type, uint32_t index);
/*
 * Starts the waiting teams for which there are cores, and publishes to places which cores are left.
 * Returns threads that the caller has to wake with sim_wake_threads after it has released the lock.
 */
struct thread *sim_start_teams(struct sim *m);
void sim_wake_threads(struct thread *list);
/*
 * Calls fn(th). True: a kernel left it by an exception or by pthread_exit; th->thrown and th->text
 * have details.
 */
bool sim_call_guarded(struct thread *th, void (*fn)(void *arg));
/* Called after sim_call_guarded returned true. Returns the same as sim_crash_landed. */
bool sim_throw_landed(struct sim *m, struct thread *th);
/* Returns the failure that describes the exception. */
struct failure sim_throw_failure(const struct thread *th, uint32_t kernel, uint32_t block,
                                 uint32_t lane);
/*
 * Called after a crash of a kernel, when its thread is back in the runtime. True: the thread's
 * place was given away.
 */
bool sim_crash_landed(struct sim *m, struct thread *th);
/*
 * sim_crash.c: sim_keep_crash records the crash of this task's kernel, which ends the run;
 * sim_report_crash completes the report later, on any thread.
 */
void sim_keep_crash(struct sim *m, const struct thread *th, struct slot *s, uint32_t kernel);
/* Records the arguments of a task whose kernel fails the run without a crash, so without frames. */
void sim_keep_arguments(struct sim *m, struct slot *s);
/* Records a crash of the orchestration. */
void sim_keep_builder_crash(struct sim *m, const struct thread *th);
/*
 * Called in a signal handler: returns which frame is that of the operation that the orchestration
 * called; -1: none, because it crashed in its own code.
 */
int32_t sim_find_operation(const struct sim *m, const struct crash *crash);
/*
 * Called by the thread at place 0 after the orchestration crashed inside an operation: ends the run
 * without using the graph.
 */
void sim_end_torn(struct sim *m);
/*
 * Called by a thread that is about to end the process, in a signal handler or, with number 0, in
 * exit: writes to stderr which kernel the thread was in.
 */
void sim_last_words(struct crash *crash, int number);
/*
 * Called in a process that a kernel or the orchestration forked: ends that process when the kernel
 * or the orchestration returns.
 */
void sim_forked(struct crash *crash);
_Noreturn void sim_end_child(void);
void sim_report_crash(struct sim *m);
/*
 * sim_stuck.c: sim_ask_stuck asks the thread of the first kernel in orch.stall where it is;
 * sim_take_stuck waits for the answer, after the run.
 */
void sim_ask_stuck(struct sim *m);
void sim_take_stuck(struct sim *m);
/* Records where the orchestration was when it was made to end. */
void sim_keep_builder_place(struct sim *m, const struct thread *th);
/*
 * Called after the run was stopped: drops teams that wait for cores. A thread that queues one
 * later, under the same lock, sees that the run is stopped and drops the team itself.
 */
void sim_drop_teams(struct sim *m);
/* Called by the monitor in each tick: lets ordinary tasks run if a team gets no cores for long. */
void sim_watch_teams(struct sim *m);
/* Returns the number of a core in its chip. AICs are numbered first, then AIVs. */
static inline uint32_t sim_core_number(const struct sim *m, uint32_t type, uint32_t index)
{
    return index + (type == PTO_CORE_AIV ? m->base.properties.clusters : 0);
}

/* Called without the lock: runs the invocation that was assigned to the thread. */
void sim_run_lane(struct sim *m, struct thread *th);

#endif
