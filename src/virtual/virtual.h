/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chip in virtual time: runs the scheduler program of a card (cann/device/scheduler.h) in this
 * process, under a clock that jumps from event to event. Kernels are really executed, at their
 * virtual start, on threads of this machine, so results are those of any other chip. Their
 * durations in virtual time come from a cost model (chip/cost.h).
 *
 * The scheduler runs on a separate stack (a fiber). One thread, the leader, resumes the fiber and
 * runs the kernels that the scheduler starts; each kernel of a team gets its own thread. If a
 * kernel occupies the leader for long, another thread becomes the leader. The virtual order is
 * unaffected: at the virtual end of a kernel the scheduler waits until the kernel has really
 * returned. If it does not return within the limits of virtual_jobs.c, it is assumed to wait for
 * another kernel. Such a kernel is "late", and its virtual end is when it returns.
 *
 * Files: virtual_device.c has the backend's tables, open, close and code (memory is that of a
 * simulated chip); virtual_run.c a run: its message to the scheduler, its result, graphs;
 * virtual_jobs.c start and end of kernels, and the passing of time;
 * virtual_turns.c the turns of chips that share a clock; virtual_threads.c the threads,
 * and which of them leads; virtual_record.c the records of a run; virtual_costs.c durations and
 * bounds; device/ the parts that are compiled with the scheduler program.
 */
#ifndef PTO_VIRTUAL_H
#define PTO_VIRTUAL_H

#include <pthread.h>

#include "base/crash.h"
#include "base/fiber.h"
#include "base/guard.h"
#include "base/os.h"
#include "base/thread_state.h"
#include "cann/device/card_graph.h"
#include "chip/cost.h"
#include "chip/local_code.h"
#include "chip/pipes.h"
#include "link/shared_clock.h"
#include "pto/sim.h"
#include "virtual/virtual_clock.h"

/*
 * Entry point of the scheduler program, built for virtual time. The requests are enum board_op of
 * wire/board.h.
 */
uint32_t virtual_scheduler(void *call);

enum virtual_state {
    VIRTUAL_NOTHING,
    VIRTUAL_RUNS,     /* the kernel was called, or its call is about to begin */
    VIRTUAL_RETURNED, /* the kernel has returned */
};

/* The kernel that a core runs. */
struct virtual_job {
    /* enum virtual_state; the kernel's thread sets RETURNED, the leader the others */
    struct a32 state;
    struct virtual_start start;
    /* virtual times; the end_ns of a late kernel moves to its actual end */
    uint64_t begin_ns, end_ns;
    uint64_t own_ns; /* duration by the cost model, without waiting for other kernels */
    struct virtual_thread *thread;
    /*
     * number of times that the kernel has checked a value for which it waits and has not found it;
     * written by the kernel's thread
     */
    struct a32 polls;
    bool is_late;
    int signal; /* signal of a crash; 0: none */
    uint64_t addr;
    enum guard_result thrown;
    char text[GUARD_TEXT];
    uint64_t *times; /* in recorded runs: begin and end of each kernel of this core so far */
    uint64_t time_count, time_max;
};

/* Whether a thread leads the run, and whether another thread may take the lead from it. */
enum virtual_place {
    VIRTUAL_LEADS,
    VIRTUAL_LEADS_IN_KERNEL,
    VIRTUAL_ASIDE, /* another thread has become the leader instead of this one */
};

struct virtual_thread {
    struct virtual_chip *chip;
    struct virtual_thread *next, *next_idle;
    struct pto_sim_core hook;
    struct crash crash;
    struct thread_state state;
    pthread_t handle;
    clockid_t cpu;
    struct a32 id;
    struct a32 exec;  /* odd while the thread is in a kernel */
    struct a32 place; /* enum virtual_place */
    struct a32 go;    /* counts assignments to the thread, which sleeps on it as a futex */
    /*
     * kernel that the thread is to run; NULL: the thread is to lead the run. Written while the
     * thread is idle
     */
    struct virtual_job *job;
};

struct chip_graph {
    char *memory;
    uint64_t handle; /* address of a struct card_graph */
    uint64_t bytes;
};

/* Buffers that tasks write: an open-addressing hash table, keyed by address. */
struct virtual_written {
    struct virtual_buffer {
        uint64_t addr, end; /* end of the buffer; 0: the entry is free */
    } * buffer;
    uint64_t count, max; /* max is a power of two, or 0 */
};

/* Statistics of one kernel function in a run. */
struct virtual_count {
    uint64_t count, total_ns, min_ns, max_ns;
};

struct virtual_chip {
    struct chip base;
    struct chip *memory; /* a simulated chip, used only for its device memory */
    struct virtual_clock *clock;
    /*
     * this chip's position on a clock that it shares with others; its `clock` is NULL if the chip
     * shares none
     */
    struct shared_clock_place shared;
    bool is_held; /* the run was cancelled, because another member of the shared clock is stuck */
    /* a kernel was called since this chip last announced its actions (shared_clock.h) */
    bool has_acted;
    uint64_t acted_ns;
    struct board *board;
    char *message;
    struct fiber *fiber;
    uint64_t memory_max;
    char *engine, *heap; /* memory of the scheduler, and of intermediate tensors */
    bool has_handler;
    struct pipes pipes;

    /* State of the run; from its start to its end only the leader uses it. */
    const struct chip_request *request;
    struct scheduler_code *code; /* the run's orchestration and kernels, for the scheduler */
    uint32_t code_max;
    struct chip_time time;
    struct chip_result result;
    struct pto_run_report report;
    struct virtual_job job[BOARD_CORES];
    struct virtual_job *asked; /* the kernel that the scheduler asks the leader to run */
    bool is_refused;
    /*
     * cost model of the last run; after that run, the model for the next one; NULL: both runs use
     * the same model
     */
    struct cost_model *costs, *next_costs;
    /* the run is planned only: kernels are not called, and only their durations pass */
    bool is_planned_only;
    /* the run is planned only, and the program has read memory that a kernel should have written */
    bool has_read_result;
    bool has_bad_cost; /* the cost formula of bad_kernel had no valid value */
    uint32_t bad_kernel, bad_task;
    struct virtual_written written; /* the buffers outside of the run's heap that tasks write */
    uint64_t *task_ns;              /* by task: duration of its longest kernel */
    uint64_t task_max;
    uint64_t path_ns;
    uint32_t late; /* number of running kernels that are late (they wait for other kernels) */
    /* real time since which only late kernels run; 0: other kernels run as well */
    uint64_t frozen_ns;
    /*
     * how long virtual time stands still, in real time, while only late kernels run; after that it
     * advances in steps
     */
    uint64_t still_ns;
    uint64_t busy_ns[PTO_CORE_TYPES];
    struct virtual_count *count; /* statistics of kernels by func_id */
    /* by func_id: source of the durations, enum pto_recording_origin; set at the end of a run */
    uint8_t *origin;
    uint32_t count_max;
    uint32_t done_before; /* value of `done` when the run was started */
    /* operations of the orchestration as the scheduler program defines them */
    const struct pto_orch_ops *inner;
    /* the operations that the orchestration calls: submit and alloc also advance the clock */
    struct pto_orch_ops ops;
    const struct chip_functions *functions;
    struct board_run room; /* addresses and sizes of the memory for records */
    bool is_recorded;
    bool has_times; /* `times` has every kernel that ran; for recorded runs */
    struct trace_ring ring[2];
    const struct trace_ring *ring_list[2];
    uintptr_t crash_frame[CRASH_FRAMES_MAX];
    uint32_t crash_count;
    const void *crash_entry;
    uint32_t sequence;
    uint64_t tag;

    pthread_mutex_t lock; /* protects the threads and the fields below that are not atomic */
    struct virtual_thread *all, *idle, *leader;
    uint32_t thread_count;
    bool is_lost; /* a kernel never returned */
    /* incremented when a kernel returns, a thread becomes idle, or a run is cancelled */
    struct a32 event;
    struct a32 has_ended;
    struct a32 done; /* number of ended runs; threads that wait for a run sleep on it as a futex */
    struct a32 is_closing;
    struct a64 progress; /* number of kernels that started or returned, counted together */
    struct a64 beats;    /* heartbeat: incremented as long as the scheduler works */
    struct a64 number;
    struct a64 cancelled; /* highest number of a cancelled run */
};

static inline struct virtual_chip *virtual_of(struct chip *chip)
{
    return (struct virtual_chip *)(void *)chip;
}

/*
 * virtual_device.c: calls the scheduler program with a request, on the calling thread. Returns its
 * status.
 */
int virtual_ask(struct virtual_chip *v, enum board_op op, uint64_t value, const void *message,
                uint64_t bytes, struct pto_error *error);

/* Sets the clock of the calling thread. */
void virtual_clock_enter(struct virtual_clock *c);

/* The following is defined in virtual_jobs.c. */
/*
 * Waits until the kernels that were called have returned; those that wait for others become late.
 */
void virtual_settle(struct virtual_chip *v);
/*
 * Called at a start or end of a kernel, for which late kernels may have waited: gives them a short
 * real time to return.
 */
void virtual_look_at_late(struct virtual_chip *v, uint64_t now_ns);
/*
 * Returns the virtual time at which the next kernel ends, at least the present time; VIRTUAL_NEVER:
 * none is running.
 */
uint64_t virtual_next_end(const struct virtual_chip *v);

/*
 * The following is defined in virtual_turns.c. These functions do nothing if the chip shares no
 * clock.
 */
/* Waits until no other member of the shared clock is at an earlier time than this chip. */
void virtual_turn(struct virtual_chip *v);
/*
 * Waits until no other member of the shared clock is at an earlier time than `ns`, the time of this
 * chip's next action. False: a late kernel has returned, perhaps earlier than `ns`; or the run was
 * cancelled; or nothing has happened for a moment and `ns` is VIRTUAL_NEVER.
 */
bool virtual_turn_at(struct virtual_chip *v, uint64_t ns);
/*
 * Whether another member of the shared clock is executing something now, or has a time of its next
 * action.
 */
bool virtual_turn_is_alive(const struct virtual_chip *v);
/*
 * Records that a kernel was called, or memory was written, at the present time, so that this is
 * announced.
 */
void virtual_turn_acted(struct virtual_chip *v);
/* Publishes the time at which the run has ended. */
void virtual_turn_end(struct virtual_chip *v);

/* The following is defined in virtual_costs.c. */
extern const struct chip_time_ops virtual_time_ops;
int virtual_time_begin(struct virtual_chip *v);
/*
 * Called when the run has ended: computes lower bounds of its duration, which no schedule can beat.
 */
void virtual_time_end(struct virtual_chip *v);
/* Returns the virtual duration of a kernel in ns. */
uint64_t virtual_duration(struct virtual_chip *v, const struct virtual_start *start);
/* Adds a kernel that has ended to the statistics. */
void virtual_time_count(struct virtual_chip *v, const struct virtual_job *job);
/* In a run that is planned only: records the existing buffers that the task writes. */
void virtual_time_note(struct virtual_chip *v, const struct pto_args *args);
/* Whether the address is in memory that tasks write. */
bool virtual_time_is_result(const struct virtual_chip *v, uint64_t addr);

/* The following is defined in virtual_run.c. */
extern const struct chip_run_ops virtual_run_ops;
/* Called by the leader on the scheduler's stack: executes the whole run. `arg` is the chip. */
void virtual_run(void *arg);
/*
 * Stores the first crash of the run, for its error message. `start` is NULL for a crash of the
 * orchestration. Any thread may call it.
 */
void virtual_run_keep_crash(struct virtual_chip *v, const struct crash *crash, const void *entry,
                            const struct virtual_start *start);
/* Fails the run for a reason that the scheduler cannot detect. */
void virtual_run_fail(struct virtual_chip *v, int status, enum failure_kind kind, const char *text);
/*
 * Called by the leader after the orchestration crashed: the scheduler's stack cannot be resumed, so
 * the chip is lost.
 */
void virtual_run_crashed(struct virtual_chip *v, const struct crash *crash);

/* The following is defined in virtual_threads.c. */
/* Makes a thread of the chip begin the run. PTO_ESYSTEM: there is no thread. */
int virtual_threads_lead(struct virtual_chip *v);
/* Waits until the run has ended; false: it never will, and the chip is lost. */
bool virtual_threads_wait(struct virtual_chip *v);
/* Starts a thread that calls the job's kernel; false: no thread can be created. */
bool virtual_threads_call(struct virtual_chip *v, struct virtual_job *job);
/* Calls the job's kernel on the calling thread `th`. */
void virtual_threads_run(struct virtual_thread *th, struct virtual_job *job);
/* Ends the threads. False: a kernel never returns, so nothing that its thread uses may be freed. */
bool virtual_threads_close(struct virtual_chip *v);
void virtual_threads_signal(struct virtual_chip *v);

/* The following is defined in virtual_record.c. */
void virtual_record_begin(struct virtual_chip *v);
void virtual_record_end(struct virtual_chip *v);
void virtual_record_note(struct virtual_chip *v, struct virtual_job *job);
int virtual_record(struct chip *chip, struct chip_record *out);
void virtual_record_close(struct virtual_chip *v);

#endif
