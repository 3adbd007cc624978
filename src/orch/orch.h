/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of an orchestration: it submits, allocates, opens scopes, reads and writes single
 * elements, and ends its run. It calls them through a table (pto/orch.h) and the handle that is the
 * first member of struct orch.
 *
 * Pure: a device program links the folders graph, sched, core, orch and a port. No function here
 * formats text: the first failure is kept as data (wire/failure.h), with the source location that
 * caused it.
 *
 * One thread at a time, the builder, calls the operations. The chip's backend calls the others:
 *
 *     orch_open        once
 *     orch_reset       before each run, then
 *     orch_start       the graph is empty, or that of a launch
 *     orch_build       on the builder's stack; not for a launch
 *     orch_end         when every task has completed, or the run is abandoned
 *
 * The thread that leads the run may fail it with orch_fail while the builder does not run; no other
 * thread may.
 */
#ifndef PTO_ORCH_H
#define PTO_ORCH_H

#include "base/guard.h"
#include "graph/ledger.h"
#include "orch/elsewhere.h"
#include "orch/write_set.h"
#include "pto/run.h"
#include "sched/sharing.h"

struct built_graph;

/* Kinds of facts about a built graph; what must be the same in each launch (orch/built_graph.h). */
enum orch_list {
    ORCH_READS,  /* bytes that the orchestration itself read */
    ORCH_WRITES, /* bytes that the orchestration itself wrote */
    ORCH_FILLS,  /* outputs that start with a value */
    /*
     * memory that tasks use and that is neither in the entry nor an output; sorted, without
     * overlaps
     */
    ORCH_OUTSIDE,
    ORCH_ORDERS, /* what submits state besides their arguments; enum built_order */
    ORCH_LISTS
};

/* What a recorder learns of a submit. */
struct orch_submitted {
    const struct pto_task_view *view;
    const struct pto_outputs *out;
    bool is_manual; /* the task's scope is MANUAL */
    /* time at which the submit began, and time at which it ended, in port_cycles */
    uint64_t begin, end;
};

/*
 * What a recorder learns of an element that the orchestration itself has read, or is about to
 * write.
 */
struct orch_element {
    const struct pto_tensor *element; /* the element as a tensor */
    const struct pto_site *site;
    uint32_t index; /* index of the next task to be submitted */
    bool is_set;
};

/* What a recorder learns of a scope that begins or ends. */
struct orch_scope {
    /* where the scope began; NULL: unknown, or the run's outermost scope */
    const struct pto_site *site;
    uint32_t depth;
    uint32_t ring;
    bool is_end;
    struct ledger_use use; /* how full the reference's ring is to which the scope belongs */
};

/*
 * For each task, the time at which its submit returned, in port_cycles; 0: unknown. The submitter
 * writes it.
 */
struct orch_stamps {
    uint64_t *at;
    uint64_t count; /* index of the latest submit, plus 1 */
    uint64_t max;   /* capacity of `at`; elements from `count` on are 0 */
};

/* Functions that record a run. The submitter calls them; each may be NULL. */
struct orch_recorder {
    /* called before a submit */
    void (*mark)(void *context, uint32_t index, const struct pto_args *args);
    /* called after a submit */
    void (*submitted)(void *context, const struct orch_submitted *submit);
    /* called before an access to an element, when the tasks for which it waited have completed */
    void (*element)(void *context, const struct orch_element *element);
    /* called before the tasks of a launched graph run */
    void (*launched)(void *context, const struct built_graph *graph);
    struct orch_stamps *stamps; /* times of submits; NULL: they are not recorded */
    /*
     * Enlarges `stamps` so that it has an element with this index. False: out of memory, and the
     * time of that submit is lost.
     */
    bool (*stamps_grow)(void *context, uint32_t index);
    /* called when a scope begins or ends, in streamed runs whose graph is not kept */
    void (*scope)(void *context, const struct orch_scope *scope);
    void *context;
};

/* The parameters of one run. Everything that it points to is valid until orch_end. */
struct orch_run {
    pto_orch_fn function; /* the orchestration; NULL: a launch */
    void *context;        /* value that pto_orch_context returns */
    /* address in the orchestration's code, by which crash reports find its library */
    const void *code;
    /* function that calls the orchestration and catches exceptions; NULL: it cannot throw */
    guard_fn guard;
    const struct graph_kernel *kernels;
    uint32_t kernel_count;
    const struct pto_entry *entry;
    const struct pto_run_options *options;
    bool has_rings; /* options->rings sets a size for at least one ring */
    bool has_guards;
    bool is_whole_only; /* in host mode: run the graph only if the orchestration has not failed */
    uint64_t stall_ns;
    uint64_t time_ns;    /* time limit of the run; shown in the error when it is exceeded */
    bool is_from_launch; /* the time limit includes the time that the run waited in the queue */
    bool is_built_only;  /* nothing runs: the graph is only built and kept */
    struct built_graph *graph; /* the graph to fill or to launch; NULL: the graph is not kept */
    /* callbacks if the graph runs on a chip whose memory is not mapped here; NULL: it runs here */
    const struct orch_elsewhere *elsewhere;
    /* called for each edge; NULL: edges are not recorded */
    void (*wired_fn)(void *context, uint32_t before, uint32_t after);
    void *wired_context;
    struct orch_recorder recorder;
};

struct orch {
    /* the first member: orchestrations hold its address, and orch_of converts that to the struct */
    struct pto_orch handle;
    struct graph *graph;
    struct sched *sched;
    struct ledger *rings; /* memory for the ledger */
    struct pool list_pool[ORCH_LISTS];
    /* bytes that the orchestration itself wrote while it built a graph to be kept */
    struct write_set write_set;
    const struct pool_budget *budget;
    void *machine;     /* first argument of port_room and other port functions */
    uint32_t clusters; /* clusters of the chip */
    /* thread pointer of the thread that is in orch_build; NULL: no thread is */
    struct aptr builder;

    /*
     * Fields of the present run. The builder writes them; the thread that leads the run may write
     * them while the builder does not run.
     */
    const struct orch_run *run;
    struct worker *submitter;
    struct sharing sharing; /* decides when the builder stops to run tasks (port_room) */
    /*
     * replays the reference's rings, to admit or record tasks; NULL: rings have no limits and are
     * not recorded
     */
    struct ledger *ledger;
    uint32_t polled_at; /* value of graph->seq at the builder's latest query */
    uint32_t polls;     /* queries since `polled_at` changed, which means since the latest submit */
    int32_t quota;      /* submits until the next housekeeping */
    bool is_listening;  /* the orchestration's queries read memory that other processes write */
    bool is_held;       /* nothing runs before the graph is complete */
    bool is_shared;     /* the run has several workers */
    int32_t status;     /* status of `failure`; 0: the run has not failed */
    int (*submit)(struct pto_orch *handle, const struct pto_kernels *kernels,
                  const struct pto_args *args, const struct pto_site *site,
                  struct pto_outputs *out);
    struct failure failure;
    struct stall stall;
};

/* Calls `each` for every pool that belongs to the orchestration. */
void orch_each_pool(struct orch *o, void (*each)(struct pool *pool, uint64_t share, void *context),
                    void *context);
void orch_open(struct orch *o);
/* Called before each run: clears the failure of the previous run. */
void orch_reset(struct orch *o);
/* Starts a run. Returns PTO_OK; or the status of o->failure, and then the run must not start. */
int orch_start(struct orch *o, const struct orch_run *run);
/* Runs the orchestration, on the builder's stack. `arg` is the struct orch. */
void orch_build(void *arg);
/*
 * Called when the run has ended; `executions` is the number of kernels that ran. Makes faults of
 * the scheduler and a cancellation the run's failure. Returns the run's status.
 */
int orch_end(struct orch *o, uint64_t executions);

/*
 * Returns the start of the current stall, for a watchdog that polls every millisecond or more
 * often. After a longer pause between two polls the watchdog itself cannot have run, because its
 * processor was busy or the process was stopped. The kernels may not have run either, so the pause
 * does not count.
 */
static inline uint64_t orch_stall_since(uint64_t since_ns, uint64_t looked_ns, uint64_t now_ns)
{
    const uint64_t most_ns = 10000000, gap_ns = now_ns - looked_ns;

    if (gap_ns > most_ns) /* mutation: counts-pauses */
        return since_ns + (gap_ns - most_ns);
    return since_ns;
}

/*
 * Describes why no task makes progress, and fails the run. Called by the thread that leads the run.
 */
void orch_describe_stall(struct orch *o, bool is_stall);
/*
 * Describes the first live tasks that wait. Does not fail the run. Called by the thread that leads
 * the run.
 */
void orch_describe_waiting(struct orch *o, struct stall *stall);
/* Lists only the running kernels in o->stall. */
void orch_describe_running(struct orch *o);
/* Whether a kernel is running. */
bool orch_has_running(struct orch *o);

/* Fails the run, unless it has failed already. Returns the run's status. */
int orch_fail(struct orch *o, const struct failure *why);
/* Fails the run because the graph refused a call; o->graph->refusal has the reason. */
__attribute__((cold)) int orch_refuse(struct orch *o, int status, const struct pto_kernels *kernels,
                                      const struct pto_args *args, const struct pto_site *site);
/*
 * Called by the builder when sched->attention is set: ends the run early, or releases cores of this
 * thread for a team.
 */
__attribute__((cold)) void orch_attend(struct orch *o);
/* Makes the failure of a run whose time is over; the caller adds what the run was doing then. */
struct failure orch_late(const struct orch *o, const struct pto_site *site);
/*
 * Fails the run because its time is over while the graph was still being built, and running kernels
 * are not the reason. Called by the thread that leads the run.
 */
void orch_late_building(struct orch *o);
/* If the scheduler has recorded a fault, makes it the failure of the run. */
void orch_take_fault(struct orch *o);
/*
 * Fails the run because the orchestration crashed; the error names its last submit.
 * `scalar_beyond`: the crash was an access to the entry's scalars, this many after the last one; 0:
 * it was not. `is_torn`: it crashed inside an operation, so the last submit is unknown.
 */
void orch_crashed(struct orch *o, int signal, uint64_t addr, uint32_t scalar_beyond, bool is_torn);
/* Slot of the last submit, whose task may have completed; NULL: there is none, or it is unknown. */
const struct slot *orch_last_submit(const struct orch *o);

/* ---- shared by the files of this folder ---- */

static inline struct orch *orch_of(struct pto_orch *handle)
{
    return (struct orch *)(void *)handle;
}

/* Makes a failure with this status and kind; the caller adds the other fields. */
static inline struct failure orch_failure(int status, enum failure_kind fault,
                                          const struct pto_site *site)
{
    return (struct failure){ .status = status,
                             .kind = fault,
                             .argument = -1,
                             .kernel = -1,
                             .task = pto_task_id_invalid(),
                             .site = site != NULL ? *site : (struct pto_site){ NULL, 0 } };
}

/*
 * Whether this thread may call operations: only the thread that runs the orchestration may, and
 * only during orch_build.
 */
static inline bool orch_is_builder(const struct orch *o)
{
    /* relaxed: the thread that may call operations stored the value itself */
    return aptr_load_relaxed(&o->builder) == __builtin_thread_pointer();
}

/* Whether the scheduler, or a thread that cancels the run, has set sched->attention. */
static inline bool orch_has_news(const struct orch *o)
{
    return a32_load_relaxed(&o->sched->attention) != 0; /* relaxed: a late value is harmless */
}

/*
 * Called first by each operation that can fail. Returns the run's status; or PTO_EINVAL if the
 * thread may not call operations.
 */
static inline int orch_enter(struct pto_orch *handle)
{
    struct orch *o = orch_of(handle);

    if (!orch_is_builder(o))
        return PTO_EINVAL;
    if (orch_has_news(o))
        orch_attend(o);
    return o->status;
}

/*
 * Called by queries: runs some tasks, because an orchestration that only queries may be waiting for
 * them, or for other processes that change memory which it queries.
 */
__attribute__((cold)) int orch_run_some(struct orch *o);

enum { ORCH_POLLS = 64 };

/*
 * Counts consecutive queries, so that orch_run_some is called from time to time. `times`: queries
 * since the previous call; ignored if a task was submitted in between.
 */
static inline int orch_polled(struct orch *o, uint32_t times)
{
    if (o->polled_at != o->graph->seq) {
        o->polled_at = o->graph->seq;
        o->polls = 1;
        return o->status;
    }
    o->polls += times;
    if (o->polls < ORCH_POLLS)
        return o->status;
    o->polls = 0;
    return orch_run_some(o);
}

/* Whether reads and writes of the orchestration itself are recorded. */
static inline bool orch_is_noted(const struct orch *o)
{
    return o->run->graph != NULL && (o->run->elsewhere == NULL || !o->run->elsewhere->is_once);
}

/* submission.c: two submit functions: for runs whose tasks start at once, and for all others. */
int orch_submit_streamed(struct pto_orch *handle, const struct pto_kernels *kernels,
                         const struct pto_args *args, const struct pto_site *site,
                         struct pto_outputs *out);
int orch_submit_counted(struct pto_orch *handle, const struct pto_kernels *kernels,
                        const struct pto_args *args, const struct pto_site *site,
                        struct pto_outputs *out);
int orch_alloc(struct pto_orch *handle, const struct pto_args *args, const struct pto_site *site,
               struct pto_outputs *out);

/* elements.c */
int orch_get_data(struct pto_orch *handle, const struct pto_tensor *tensor, uint32_t ndims,
                  const uint32_t indices[], const struct pto_site *site, uint64_t *bits_out);
int orch_set_data(struct pto_orch *handle, const struct pto_tensor *tensor, uint32_t ndims,
                  const uint32_t indices[], const struct pto_site *site, uint64_t bits);

#endif
