/* SPDX-License-Identifier: Apache-2.0 */
/* Runs: a callable, executed once with arguments; at once, or in steps. */
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
 * Called by the submitting thread for every task once it is submitted, before
 * the orchestration goes on. What it points to is valid during the call. For
 * tools that want to know who reads and writes what; the task may run already.
 */
struct pto_task_view {
    uint64_t index; /* 0, 1, ... in the order of the submits, allocations included */
    struct pto_task_id task;
    struct pto_kernels kernels;
    const struct pto_args *args;
    const struct pto_site *site;   /* NULL: unknown */
    const struct pto_entry *entry; /* as the orchestration sees it */
};

typedef void (*pto_task_fn)(void *context, const struct pto_task_view *view);

/*
 * Sizes of the reference's rings, 0: not set. Nothing here needs them: memory
 * sizes itself. Whoever sets one gets the waits and the codes that the reference
 * has for it. By default the environment's PTO2_RING_TASK_WINDOW, PTO2_RING_HEAP
 * and PTO2_RING_DEP_POOL count: one number, or four with commas.
 */
enum { PTO_RINGS = 4 };

struct pto_ring_limits {
    uint64_t task_window[PTO_RINGS]; /* a power of two, at least 4 */
    uint64_t heap[PTO_RINGS];        /* bytes, at least 1024 */
    uint64_t dep_pool[PTO_RINGS];    /* at least 4 */
};

enum pto_limits {
    PTO_LIMITS_NONE,     /* but for what is set */
    PTO_LIMITS_REFERENCE /* all of the reference's, its fixed pools included */
};

struct pto_run_options {
    size_t size;
    enum pto_mode mode;
    enum pto_deps deps;
    uint32_t window;     /* live tasks before the submitter runs some itself; 0: the default */
    uint64_t order_seed; /* not 0: ready tasks are taken in a random order made from it */
    pto_edge_fn edge;
    void *edge_context;
    enum pto_trace trace;
    enum pto_limits limits;
    struct pto_ring_limits rings;
    uint64_t timeout_ns; /* for the whole run, once it has begun; 0: none. PTO_ETIMEOUT after it */
    /*
     * Without a kernel that starts or returns before the run fails with PTO_ESTALL; 0: the
     * environment's SIMPLER_SCHEDULER_TIMEOUT_MS, or 10 s. Building a graph counts as progress.
     */
    uint64_t stall_timeout_ns;
    uint64_t data_timeout_ns; /* for pto_get_data and pto_set_data; 0: 15 s */
    uint32_t trace_records;   /* kept per worker, the latest ones; 0: 65536; a power of two */
    pto_task_fn task;         /* NULL: nobody watches, and nothing is paid for it */
    void *task_context;
};

#define PTO_DATA_TIMEOUT_DEFAULT_NS 15000000000ull

/* Sets the defaults. */
static inline void pto_run_options_init(struct pto_run_options *options)
{
    if (options == NULL)
        return;
    memset(options, 0, sizeof(*options));
    options->size = sizeof(*options);
}

enum { PTO_CORES_MAX = 1024 };

/* The tasks of one timing slot, in ns since the run began. */
struct pto_timing {
    uint64_t begin_ns; /* first kernel started */
    uint64_t end_ns;   /* last one returned; 0: none ran */
};

struct pto_run_report {
    size_t size;
    uint64_t tasks;      /* submitted, allocations included */
    uint64_t executions; /* kernels run */
    uint64_t edges;      /* dependencies wired */
    uint64_t ns;         /* first submit to last completion */
    uint64_t stolen;     /* executions by other workers than the submitter */
    uint64_t takeovers;  /* invocations that outlived a time slice and went on beside the workers */
    uint64_t sleeps;     /* of workers, while the run was going on */
    uint64_t wakes;
    uint64_t monitor_ticks;
    uint32_t workers;
    uint32_t core_count;
    const char *warning;                /* something that was ignored; static; NULL: nothing */
    uint32_t core_tasks[PTO_CORES_MAX]; /* executions by simulated core: AICs, then AIVs */
    struct pto_timing timing[PTO_TIMING_SLOTS];
    struct pto_error error;
};

/* Before the call that fills it. */
static inline void pto_run_report_init(struct pto_run_report *report)
{
    if (report == NULL)
        return;
    memset(report, 0, sizeof(*report));
    report->size = sizeof(*report);
    pto_error_init(&report->error);
}

/*
 * Runs the callable to its end on the calling thread and the device's workers.
 * `options` and `report` may be NULL. Returns the first error; the report then
 * tells its story. The device stays usable. While other runs are before it, it
 * waits for its turn, at most the default time-out: then PTO_ETIMEOUT. From
 * inside an orchestration on the same device: PTO_EBUSY. A kernel must not call
 * it for its own device: it would wait for itself.
 */
int pto_run(struct pto_device *device, const struct pto_callable *callable,
            const struct pto_entry *entry, const struct pto_run_options *options,
            struct pto_run_report *report);

/*
 * The same in steps, for several runs in flight:
 *
 *     prepare -> launch -> poll, wait or the descriptor -> finish
 *
 * Prepare copies descriptors and scalars; the memory behind the tensors is the
 * caller's and must stay. From inside an orchestration on the same device
 * prepare gives PTO_EBUSY.
 */
struct pto_run;

enum { PTO_RUN_PENDING = 0, PTO_RUN_ENDED = 1 };

/* The default of every wait that gets 0 as its time-out: a minute. */
#define PTO_TIMEOUT_DEFAULT_NS 60000000000ull

int pto_run_prepare(struct pto_device *device, const struct pto_callable *callable,
                    const struct pto_entry *entry, const struct pto_run_options *options,
                    struct pto_run **run_out);
/* Returns at once; a thread of the device runs it after those launched before. */
int pto_run_launch(struct pto_run *run);
/* PTO_RUN_ENDED, PTO_RUN_PENDING, or an error of the call itself. */
int pto_run_poll(struct pto_run *run);
/* The status of the run, or PTO_ETIMEOUT: then it still goes on. 0: the default time-out. */
int pto_run_wait(struct pto_run *run, uint64_t timeout_ns);
/*
 * Ends the run early: kernels that run are waited for, further ones are not
 * started. A run that was not launched yet ends at once. The status of the run
 * is PTO_ECANCELED unless it had ended or failed before.
 */
int pto_run_cancel(struct pto_run *run);
/* A descriptor that is readable once the run has ended; it belongs to the run. Negative: an error. */
int pto_run_fd(struct pto_run *run);
/*
 * Frees the run; returns its status and fills the report, which may be NULL.
 * PTO_EBUSY while it is launched and has not ended. A run that was never
 * launched may be finished, too: its status is PTO_ECANCELED.
 */
int pto_run_finish(struct pto_run *run, struct pto_run_report *report);

/*
 * Everything for one run at once: opens a device, runs, closes it. For small
 * programs; whoever runs more than once keeps device and callable. `error` may
 * be NULL.
 */
int pto_call(const char *platform, pto_orch_fn orchestration, const struct pto_kernel *kernels,
             uint32_t kernel_count, const struct pto_entry *entry, struct pto_error *error);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
