/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs: a run is one execution of a callable with arguments. pto_run does all of
 * it; the other functions do it in parts, for several runs in flight:
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

/*
 * A submitted task, as a pto_task_fn sees it. What it points to is valid during
 * the call.
 */
struct pto_task_view {
    uint64_t index; /* 0, 1, ... in the order of the submits, allocations included */
    struct pto_task_id task;
    struct pto_kernels kernels;
    const struct pto_args *args;
    const struct pto_site *site;   /* NULL: unknown */
    const struct pto_entry *entry; /* as the orchestration sees it */
};

/*
 * The submitting thread calls it for every task, before the orchestration goes
 * on: for tools that want to know which task reads and writes what. The task may
 * be running already.
 */
typedef void (*pto_task_fn)(void *context, const struct pto_task_view *view);

enum { PTO_RINGS = 4 };

/*
 * Sizes of the reference's rings; 0: not set. This runtime does not need them,
 * since its memory sizes itself: a size that is set makes it wait and fail where
 * the reference would. Sizes that are not set come from the environment
 * (PTO2_RING_TASK_WINDOW, PTO2_RING_HEAP, PTO2_RING_DEP_POOL: one number, or four
 * separated by commas).
 */
struct pto_ring_limits {
    uint64_t task_window[PTO_RINGS]; /* a power of two, at least 4 */
    uint64_t heap[PTO_RINGS];        /* bytes, at least 1024 */
    uint64_t dep_pool[PTO_RINGS];    /* at least 4 */
};

/* Which of the reference's limits apply. */
enum pto_limits {
    PTO_LIMITS_NONE,     /* only the ring sizes that are set */
    PTO_LIMITS_REFERENCE /* all of the reference's, its fixed pools included */
};

enum { PTO_SCALAR_WORDS = PTO_ENTRY_SCALARS_MAX / 64 };

/* How to run. */
struct pto_run_options {
    size_t size;
    enum pto_mode mode;
    /*
     * PTO_DEPS_DEFAULT: as the environment's PTO_DEPS says, safe or simpler; else as the callable
     * was made: SIMPLER if its orchestration was written for the reference, or it was asked for.
     */
    enum pto_deps deps;
    uint32_t live_max; /* live tasks before the submitter runs some itself; 0: the default */
    /*
     * Not 0: ready tasks are taken in an order that it determines, legal but unkind: it shows what
     * relies on more than its dependencies. With one worker the order can be repeated, unless
     * kernels take longer than 50 ms or wait for each other. Consecutive seeds try all ways.
     */
    uint64_t order_seed;
    pto_edge_fn edge;
    void *edge_context;
    enum pto_trace trace;
    enum pto_limits limits;
    struct pto_ring_limits rings;
    uint64_t timeout_ns; /* for the run, from its beginning; then PTO_ETIMEOUT. 0: none */
    /*
     * How long no kernel may start or return before the run fails with PTO_ESTALL; 0: the
     * environment's SIMPLER_SCHEDULER_TIMEOUT_MS, or 10 s. Building a graph counts as progress. Time
     * in which the device's watchdog did not run, as in a stopped process, is not counted.
     */
    uint64_t stall_timeout_ns;
    uint64_t data_timeout_ns; /* for pto_get_data and pto_set_data; 0: 15 s */
    /*
     * The latest ones that each worker keeps, a power of two. 0: 4194304, all of 2 million tasks;
     * they take 24 bytes each, of memory that is used as it fills.
     */
    uint32_t trace_records;
    pto_task_fn task; /* may be NULL, and then costs nothing */
    void *task_context;
    uint64_t varying_scalars[PTO_SCALAR_WORDS]; /* for pto_graph_build: see pto_run_options_vary */
    /*
     * Says why pto_run_prepare or pto_graph_prepare failed; initialised, or NULL. Calls
     * with a report have it there.
     */
    struct pto_error *error;
    /*
     * The same as timeout_ns, but from pto_run_launch, or from the call of pto_run: the time that
     * the run waits for its turn is included, and one that is over by then never begins. 0: none.
     */
    uint64_t launch_timeout_ns;
    /*
     * How long kernels that run, and the orchestration, have to come back when the time of the
     * run is over. Those that have not by then are given up, and the device is lost. 0: 500 ms.
     */
    uint64_t grace_ns;
    /*
     * The orchestration stays on the thread on which it began, whatever happens. Without it, it
     * goes on on another one if its thread is in a kernel that seems to wait for a task that is
     * not submitted yet: nothing else can be run for 20 ms. With it such a run ends as a stall.
     */
    bool keeps_thread;
    /*
     * Outputs of tasks lie between guards and are poisoned when they are created and when they
     * are freed, NaN if they have floating-point elements. A kernel that writes beyond one ends
     * the run with PTO_EOVERRUN, a task that reads one that no task was given to write with
     * PTO_EUNWRITTEN. docs/user/errors.md says what it costs. A graph has guards if it was built with
     * them, whatever its launches say.
     */
    bool has_guards;
    struct pto_diagnostics diagnostics; /* files for simpler's viewers */
    /*
     * With `trace`: a kernel or an orchestration that ends the process by a signal which the
     * program does not handle (abort, a failed assertion) leaves the timeline here. A child of
     * the process writes it. Not for isolated devices, whose timelines outlive their process.
     */
    const char *trace_path;
};

/*
 * All options, X(field, KIND, name in Python, RUNS or TASKS). KIND is what Python takes for it; a time
 * is in seconds there. TASKS: tasks of level 3 may have it, too. These rows decide what crosses to
 * another process, what level 3 refuses, and which keywords Python has.
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
    X(edge, EDGE, "edge", RUNS)                           \
    X(task, TASK, "task", RUNS)                           \
    X(trace, TRACE, "trace", RUNS)                        \
    X(trace_records, U32, "trace_records", RUNS)          \
    X(trace_path, TEXT, "trace_path", RUNS)               \
    X(timeout_ns, SECONDS, "timeout", RUNS)               \
    X(launch_timeout_ns, SECONDS, "launch_timeout", RUNS) \
    X(varying_scalars, SCALARS, "vary", RUNS)

#define PTO_GRACE_DEFAULT_NS 500000000ull

#define PTO_DATA_TIMEOUT_DEFAULT_NS 15000000000ull

/* Sets the defaults. */
static inline void pto_run_options_init(struct pto_run_options *options)
{
    if (options == NULL)
        return;
    memset(options, 0, sizeof(*options));
    options->size = sizeof(*options);
    options->deps = PTO_DEPS_DEFAULT;
}

/*
 * Declares that launches of a graph may have another value of scalar `index` of the
 * entry: the orchestration passes it on to tasks with pto_pass_scalar and does not
 * look at its value. PTO_EINVAL: no entry has so many scalars.
 */
static inline int pto_run_options_vary(struct pto_run_options *options, uint32_t index)
{
    if (options == NULL || index >= PTO_ENTRY_SCALARS_MAX)
        return PTO_EINVAL;
    options->varying_scalars[index / 64] |= 1ull << index % 64;
    return PTO_OK;
}

enum { PTO_CORES_MAX = 1024 };

/* When the tasks of one timing slot ran, in ns since the run began. */
struct pto_timing {
    uint64_t begin_ns; /* first kernel started */
    uint64_t end_ns;   /* last kernel returned; 0: none ran */
};

/* How a run went. */
struct pto_run_report {
    size_t size;
    uint64_t tasks;      /* submitted, allocations included */
    uint64_t executions; /* kernels run */
    /*
     * Dependencies wired. A task that has ended when another one is submitted needs no
     * edge to it, so a streamed run has as many as its timing leaves over: other runs of
     * the same graph differ. In PTO_MODE_HOST and in a built graph there are all of them.
     * Where n tasks wait for the same m there are n + m or 2m + n (docs/user/ordering.md: joins),
     * unless `edge` of the options or a recorder asks for each.
     */
    uint64_t edges;
    uint64_t ns;        /* first submit to last completion */
    uint64_t stolen;    /* kernels run by workers other than the submitter */
    uint64_t takeovers; /* kernels that outlived a time slice and went on beside the workers */
    uint64_t sleeps;    /* of workers, during the run */
    uint64_t wakes;
    uint64_t monitor_ticks;
    uint32_t workers;
    uint32_t core_count;
    const char *warning;                /* says what was ignored; static; NULL: nothing */
    uint32_t core_tasks[PTO_CORES_MAX]; /* executions by simulated core: AICs, then AIVs */
    struct pto_timing timing[PTO_TIMING_SLOTS];
    struct pto_error error;
    uint64_t dummies;      /* tasks without a kernel; allocations are none */
    uint64_t skipped;      /* tasks whose predicate did not hold */
    uint64_t stopped;      /* tasks that never ran: the run had failed, or was cancelled */
    uint64_t records_lost; /* by the recorder: older ones that gave way, and edges */
};

/* Prepares a report for the call that fills it in. */
static inline void pto_run_report_init(struct pto_run_report *report)
{
    if (report == NULL)
        return;
    memset(report, 0, sizeof(*report));
    report->size = sizeof(*report);
    pto_error_init(&report->error);
}

/*
 * Runs a callable to its end, on the calling thread and the device's workers.
 * `options` and `report` may be NULL. Returns the first error, which the report
 * explains; the device stays usable. The run waits for those before it, but no
 * longer than the default time-out (PTO_ETIMEOUT). PTO_EBUSY: called by an
 * orchestration that runs on the same device. A kernel must not call it for its
 * own device: it would wait for itself.
 */
int pto_run(struct pto_device *device, const struct pto_callable *callable,
            const struct pto_entry *entry, const struct pto_run_options *options,
            struct pto_run_report *report);

struct pto_run;

enum { PTO_RUN_PENDING = 0, PTO_RUN_ENDED = 1 };

/* What 0 means as the time-out of a wait: a minute. */
#define PTO_TIMEOUT_DEFAULT_NS 60000000000ull

/*
 * Prepares a run. Descriptors and scalars are copied; the memory of the tensors
 * stays the caller's and has to outlive the run. PTO_EBUSY: called by an
 * orchestration that runs on the same device.
 */
int pto_run_prepare(struct pto_device *device, const struct pto_callable *callable,
                    const struct pto_entry *entry, const struct pto_run_options *options,
                    struct pto_run **run_out);

/*
 * Returns at once; a thread of the device runs it after those launched before it. Its tensors in host
 * memory may be read from then on: a real chip gets the next run while one goes on.
 */
int pto_run_launch(struct pto_run *run);

/*
 * Runs it to its end as pto_run does, on the calling thread, and returns its status. Meanwhile other
 * threads may look at the run, wait for it and cancel it.
 */
int pto_run_execute(struct pto_run *run);

/* Says whether a run has ended: PTO_RUN_ENDED, PTO_RUN_PENDING, or an error of the call itself. */
int pto_run_poll(struct pto_run *run);

/*
 * Waits until a run has ended, and returns its status. PTO_ETIMEOUT: it has not,
 * and goes on. A time-out of 0 is the default one.
 */
int pto_run_wait(struct pto_run *run, uint64_t timeout_ns);

/*
 * Ends a run early: no further kernel starts, and those that run are waited for, but
 * not for longer than stall_timeout_ns; the same holds for its orchestration.
 * A run that has not been launched ends at once. The status of the run is
 * PTO_ECANCELED unless it had ended or failed before.
 */
int pto_run_cancel(struct pto_run *run);

/*
 * Returns a descriptor that becomes readable when the run ends. It belongs to
 * the run. Negative: an error.
 */
int pto_run_fd(struct pto_run *run);

/*
 * Frees a run. Returns its status and fills in the report, which may be NULL.
 * PTO_EBUSY: it was launched and has not ended. A run that was never launched
 * has the status PTO_ECANCELED.
 */
int pto_run_finish(struct pto_run *run, struct pto_run_report *report);

/*
 * Opens a device, runs an orchestration with its kernels, and closes the device.
 * For small programs: one that runs more than once keeps a device and a callable.
 * `error` may be NULL.
 */
int pto_call(const char *platform, pto_orch_fn orchestration, const struct pto_kernel *kernels,
             uint32_t kernel_count, const struct pto_entry *entry, struct pto_error *error);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
