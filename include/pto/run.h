/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs: a run is one execution of a callable with arguments. pto_run executes a whole run; other
 * functions split a run into steps, so that several runs can be in flight:
 *
 *     prepare -> launch -> poll, wait or the descriptor -> finish
 *     prepare -> execute -> finish
 */
#ifndef PTO_API_RUN_H
#define PTO_API_RUN_H

#include <stddef.h>
#include <string.h>

#include "pto/callable.h"
#include "pto/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* A submitted task, as passed to a pto_task_fn. Its pointers are valid during the call. */
struct pto_task_view {
    uint64_t index; /* position of the submit in the run, 0, 1, ..., allocations included */
    struct pto_task_id task;
    struct pto_kernels kernels;
    const struct pto_args *args;
    const struct pto_site *site;   /* source line of the submit; NULL: unknown */
    const struct pto_entry *entry; /* the arguments of the run, as the orchestration gets them */
};

/*
 * Called by the submitting thread for every task, before the submit returns; the task may already
 * be running. For tools that inspect the reads and writes of tasks.
 */
typedef void (*pto_task_fn)(void *context, const struct pto_task_view *view);

/*
 * A task whose first kernel is about to start, or whose kernels have returned, as passed to a
 * pto_step_fn. Its pointers are valid during the call.
 */
struct pto_step {
    uint64_t index;   /* as in struct pto_task_view */
    bool is_end;      /* its kernels have returned */
    bool is_deferred; /* a kernel has registered conditions (pto_defer): outputs may still change */
    uint32_t kernel;  /* id of the kernel in the task's first lane */
    uint32_t tensor_count;
    const struct pto_tensor *tensor; /* arguments; `tag` has their use */
    const struct pto_site *site;     /* NULL: unknown */
};

/*
 * Called on the threads that run kernels, twice for each task that has kernels and whose predicate
 * holds. Calls do not overlap. For tools that inspect what tasks compute. The function may read the
 * memory of the arguments.
 */
typedef void (*pto_step_fn)(void *context, const struct pto_step *step);

/*
 * The order_seed with which ready tasks run in the order of their submits. With one worker, tasks
 * then run one at a time.
 */
enum { PTO_ORDER_SUBMITS = 12 };

enum { PTO_RINGS = 4 };

/*
 * Sizes of the reference's rings; 0: not set. This runtime sizes its memory dynamically and does
 * not need them: a size that is set makes it wait and fail where the reference would. Sizes that
 * are not set come from the environment (PTO2_RING_TASK_WINDOW, PTO2_RING_HEAP, PTO2_RING_DEP_POOL:
 * one number, or four separated by commas).
 */
struct pto_ring_limits {
    uint64_t task_window[PTO_RINGS]; /* a power of two, at least 4; 0: not set */
    uint64_t heap[PTO_RINGS];        /* size in bytes, at least 1024; 0: not set */
    uint64_t dep_pool[PTO_RINGS];    /* number of entries, at least 4; 0: not set */
};

/* Which limits of the reference a run has. */
enum pto_limits {
    PTO_LIMITS_NONE,     /* only the ring sizes that `rings` or the environment sets */
    PTO_LIMITS_REFERENCE /* all limits of the reference, its fixed pools included */
};

enum { PTO_SCALAR_WORDS = PTO_ENTRY_SCALARS_MAX / 64 };

/* The options of a run. */
struct pto_run_options {
    size_t size;
    enum pto_mode mode;
    /*
     * Dependency rules. PTO_DEPS_DEFAULT: those that PTO_DEPS in the environment names (safe or
     * simpler), else those of the callable: SIMPLER if its orchestration was written for the
     * reference, or if its parameters say so.
     */
    enum pto_deps deps;
    /* Number of live tasks above which the submitter runs tasks itself; 0: the default. */
    uint32_t live_max;
    /*
     * If not 0, ready tasks run in a legal but adversarial order that this seed determines, to
     * expose missing dependencies. With one worker the order is reproducible, unless kernels take
     * longer than 50 ms or wait for each other. Consecutive seeds give different orders.
     */
    uint64_t order_seed;
    pto_edge_fn edge;
    void *edge_context;
    enum pto_trace trace;
    enum pto_limits limits;
    struct pto_ring_limits rings;
    /* time-out of the run in ns, counted from its start; PTO_ETIMEOUT. 0: none */
    uint64_t timeout_ns;
    /*
     * Time in ns without a start or return of a kernel after which the run fails with PTO_ESTALL;
     * 0: from SIMPLER_SCHEDULER_TIMEOUT_MS in the environment, or 10 s. Building a graph counts as
     * progress. Time in which the device's watchdog did not run, as in a stopped process, is not
     * counted.
     */
    uint64_t stall_timeout_ns;
    uint64_t data_timeout_ns; /* time-out in ns of pto_get_data and pto_set_data; 0: 15 s */
    /*
     * The number of records that each worker keeps, a power of two; older ones are overwritten. 0:
     * 4194304, enough for 2 million tasks. A record takes 32 bytes; the memory is allocated as it
     * fills.
     */
    uint32_t trace_records;
    pto_task_fn task; /* called for each task; NULL: not called, which costs nothing */
    void *task_context;
    /* scalars that may change between launches, for pto_graph_build: see pto_run_options_vary */
    uint64_t varying_scalars[PTO_SCALAR_WORDS];
    /*
     * Error that is filled in when pto_run_prepare or pto_graph_prepare fails; initialised, or
     * NULL. Functions with a report fill in the error of the report instead.
     */
    struct pto_error *error;
    /*
     * Time-out in ns, counted from pto_run_launch or from the call of pto_run, so it includes the
     * time in the queue. A run whose time is over before its turn never starts. 0: none.
     */
    uint64_t launch_timeout_ns;
    /*
     * Time in ns that running kernels and the orchestration have to return after a time-out of the
     * run. Those that do not return in time are abandoned, and the device is lost. 0: 500 ms.
     */
    uint64_t grace_ns;
    /*
     * Keeps the orchestration on the thread on which it started. Otherwise it continues on another
     * thread if a kernel on its thread seems to wait for a task that is not submitted yet, because
     * no other task could run for 20 ms. With this option such a run ends as a stall.
     */
    bool keeps_thread;
    /*
     * Puts guards around outputs of tasks and poisons outputs when they are created and when they
     * are freed, with NaN if their elements are floating-point numbers. A kernel that writes past
     * an output ends the run with PTO_EOVERRUN; a task that reads an output that no task was to
     * write ends it with PTO_EUNWRITTEN. docs/user/errors.md lists the cost. A graph has guards if
     * it was built with them, whatever the options of its launches.
     */
    bool has_guards;
    struct pto_diagnostics diagnostics; /* files to write for simpler's viewers */
    /*
     * With `trace`: path for the timeline, which a child process writes if a kernel or an
     * orchestration ends the process by a signal that the program does not handle (abort, a failed
     * assertion). Isolated devices do not need it: their timelines survive the process of the chip.
     */
    const char *trace_path;
    /*
     * With `trace`: name of the run in a recording (pto/recording.h), such as its scene and case.
     * It must stay valid until the run has ended. NULL: none.
     */
    const char *trace_title;
    /*
     * Ends the run with PTO_ENAN at the first task that computes NaN or Inf although its inputs
     * have none. Runs are several times slower. For simulated chips.
     */
    bool has_nan_check;
    pto_step_fn step; /* called around the kernels of each task; NULL: not called */
    void *step_context;
};

/*
 * All options: X(field, KIND, name in Python, RUNS or TASKS). KIND is the type in Python, where
 * times are in seconds. TASKS: tasks of level 3 may also have the option. These rows define which
 * options are passed to another process, which options level 3 refuses, and the keywords in Python.
 */
#define PTO_RUN_OPTION_MAP(X)                             \
    X(mode, MODE, "mode", TASKS)                          \
    X(deps, DEPS, "deps", TASKS)                          \
    X(limits, LIMITS, "limits", TASKS)                    \
    X(rings.task_window, RING, "task_window", TASKS)      \
    X(rings.heap, RING, "heap", TASKS)                    \
    X(rings.dep_pool, RING, "dep_pool", TASKS)            \
    X(live_max, U32, "live_max", TASKS)                   \
    X(order_seed, U64, "order_seed", TASKS)               \
    X(stall_timeout_ns, SECONDS, "stall_timeout", TASKS)  \
    X(data_timeout_ns, SECONDS, "data_timeout", TASKS)    \
    X(grace_ns, SECONDS, "grace", TASKS)                  \
    X(keeps_thread, BOOL, "keeps_thread", TASKS)          \
    X(has_guards, BOOL, "guards", TASKS)                  \
    X(diagnostics, DIAGNOSTICS, "diagnostics", TASKS)     \
    X(has_nan_check, BOOL, "nan_check", TASKS)            \
    X(edge, EDGE, "edge", RUNS)                           \
    X(task, TASK, "task", RUNS)                           \
    X(step, STEP, "step", RUNS)                           \
    X(trace, TRACE, "trace", RUNS)                        \
    X(trace_records, U32, "trace_records", RUNS)          \
    X(trace_path, TEXT, "trace_path", RUNS)               \
    X(trace_title, TEXT, "trace_title", RUNS)             \
    X(timeout_ns, SECONDS, "timeout", RUNS)               \
    X(launch_timeout_ns, SECONDS, "launch_timeout", RUNS) \
    X(varying_scalars, SCALARS, "vary", RUNS)

#define PTO_GRACE_DEFAULT_NS 500000000ull

#define PTO_DATA_TIMEOUT_DEFAULT_NS 15000000000ull

/* Sets the defaults of a run. */
static inline void pto_run_options_init(struct pto_run_options *options)
{
    if (options == NULL)
        return;
    memset(options, 0, sizeof(*options));
    options->size = sizeof(*options);
    options->deps = PTO_DEPS_DEFAULT;
}

/*
 * Declares that launches of a graph may change scalar `index` of the entry: the orchestration
 * passes it on to tasks with pto_pass_scalar and does not read its value. PTO_EINVAL: `index` is
 * above the maximum number of scalars.
 */
static inline int pto_run_options_vary(struct pto_run_options *options, uint32_t index)
{
    if (options == NULL || index >= PTO_ENTRY_SCALARS_MAX)
        return PTO_EINVAL;
    options->varying_scalars[index / 64] |= 1ull << index % 64;
    return PTO_OK;
}

enum { PTO_CORES_MAX = 1024 };

/* The times of the tasks of one timing slot, in ns since the run began. */
struct pto_timing {
    uint64_t begin_ns; /* time at which the slot's first kernel started */
    uint64_t end_ns;   /* time at which the slot's last kernel returned; 0: no kernel ran */
};

/*
 * How tasks used an argument differently from what its tag says, in a run of kernels that report
 * their accesses. No case is an error.
 */
enum pto_argument_kind {
    /* tasks accessed the argument, although PTO_AFTER does not order accesses */
    PTO_ARGUMENT_AFTER,
    PTO_ARGUMENT_IDLE, /* tasks did not access the argument, although its tag orders accesses */
    /* no argument and no source line are given: the kernel does not report its accesses */
    PTO_ARGUMENT_UNCHECKED
};

/* A remark on how tasks used an argument, for all tasks that one source line submitted. */
struct pto_argument_note {
    uint32_t kind; /* enum pto_argument_kind */
    uint32_t kernel;
    uint32_t argument;
    int32_t line;   /* source line of the submit; 0: unknown */
    uint64_t tasks; /* number of tasks to which the remark applies */
    uint64_t first; /* submit index of the first of these tasks */
};

enum { PTO_ARGUMENT_NOTES_MAX = 16 };

/* The result and the counts of a run. */
struct pto_run_report {
    size_t size;
    uint64_t tasks;      /* number of submitted tasks, allocations included */
    uint64_t executions; /* number of kernel invocations */
    /*
     * Number of dependencies that were wired as edges. A task that has completed before another one
     * is submitted needs no edge to it, so the count of a streamed run depends on timing.
     * PTO_MODE_HOST and built graphs wire all edges. Where n tasks wait for the same m, there are n
     * + m or 2m + n edges (docs/user/ordering.md: joins), unless `edge` of the options or a
     * recorder needs every edge.
     */
    uint64_t edges;
    uint64_t ns;     /* time in ns from the first submit to the last completion */
    uint64_t stolen; /* number of invocations on workers other than the submitter */
    /*
     * number of kernels that exceeded a time slice, so that another thread took over their worker
     */
    uint64_t takeovers;
    uint64_t sleeps; /* number of times that workers went to sleep during the run */
    uint64_t wakes;
    uint64_t monitor_ticks;
    uint32_t workers;
    uint32_t core_count;
    const char *warning; /* static text about options that were ignored; NULL: none */
    /* Number of invocations on each simulated core: AICs, then AIVs. */
    uint32_t core_tasks[PTO_CORES_MAX];
    struct pto_timing timing[PTO_TIMING_SLOTS];
    struct pto_error error;
    uint64_t dummies; /* number of tasks without a kernel; allocations are not counted */
    /* number of tasks that did not run because their predicate did not hold */
    uint64_t skipped;
    /* number of tasks that did not run because the run had failed or was cancelled */
    uint64_t stopped;
    /* number of records that the recorder dropped: the oldest ones, and edges */
    uint64_t records_lost;
    uint64_t note_count; /* number of remarks on arguments; `note` has the first of them */
    struct pto_argument_note note[PTO_ARGUMENT_NOTES_MAX];
};

/* Initialises a report for a call that fills it in. */
static inline void pto_run_report_init(struct pto_run_report *report)
{
    if (report == NULL)
        return;
    memset(report, 0, sizeof(*report));
    report->size = sizeof(*report);
    pto_error_init(&report->error);
}

/*
 * Runs a callable to its end, on the calling thread and the device's workers. `options` and
 * `report` may be NULL. Returns the first error, which the report explains; the device stays
 * usable. The run waits for earlier runs, but no longer than the default time-out (PTO_ETIMEOUT).
 * PTO_EBUSY: called by an orchestration that runs on the same device. A kernel must not call it for
 * the device that it runs on: the call would wait for itself.
 */
int pto_run(struct pto_device *device, const struct pto_callable *callable,
            const struct pto_entry *entry, const struct pto_run_options *options,
            struct pto_run_report *report);

struct pto_run;

enum { PTO_RUN_PENDING = 0, PTO_RUN_ENDED = 1 };

/* Time-out in ns of a wait whose time-out is given as 0: one minute. */
#define PTO_TIMEOUT_DEFAULT_NS 60000000000ull

/*
 * Prepares a run. The descriptors of tensors and the scalars are copied; the memory of the tensors
 * is not, and must outlive the run. PTO_EBUSY: called by an orchestration that runs on the same
 * device.
 */
int pto_run_prepare(struct pto_device *device, const struct pto_callable *callable,
                    const struct pto_entry *entry, const struct pto_run_options *options,
                    struct pto_run **run_out);

/*
 * Queues a run and returns at once; a thread of the device executes it after the runs launched
 * before it. Tensors in host memory may be read from then on: a real chip receives the next run
 * while one is executing.
 */
int pto_run_launch(struct pto_run *run);

/*
 * Runs a prepared run to its end, as pto_run does, on the calling thread. Returns the status of the
 * run. Other threads may poll the run, wait for it and cancel it during the call.
 */
int pto_run_execute(struct pto_run *run);

/*
 * Returns whether a run has ended: PTO_RUN_ENDED, PTO_RUN_PENDING, or an error of the call itself.
 */
int pto_run_poll(struct pto_run *run);

/*
 * Waits until a run has ended, and returns its status. PTO_ETIMEOUT: the run has not ended and
 * continues. A time-out of 0 is the default one.
 */
int pto_run_wait(struct pto_run *run, uint64_t timeout_ns);

/*
 * Cancels a run: no further kernel starts, and the run ends when running kernels and the
 * orchestration have returned, or after stall_timeout_ns. A run that has not been launched ends at
 * once. The status of the run is PTO_ECANCELED unless it had ended or failed before.
 */
int pto_run_cancel(struct pto_run *run);

/*
 * Returns a descriptor that becomes readable when the run ends. The run owns the descriptor.
 * Negative: an error.
 */
int pto_run_fd(struct pto_run *run);

/*
 * Frees a run. Returns its status and fills in the report, which may be NULL. PTO_EBUSY: the run
 * was launched and has not ended. A run that was never launched has the status PTO_ECANCELED.
 */
int pto_run_finish(struct pto_run *run, struct pto_run_report *report);

/*
 * Opens a device, runs an orchestration with its kernels, and closes the device. For small
 * programs; a program that runs more than once should keep a device and a callable. `error` may be
 * NULL.
 */
int pto_call(const char *platform, pto_orch_fn orchestration, const struct pto_kernel *kernels,
             uint32_t kernel_count, const struct pto_entry *entry, struct pto_error *error);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
