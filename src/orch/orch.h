/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an orchestration can do: submit, allocate, open scopes, read and write
 * single elements, end its run. It reaches all of it through a table of operations
 * (pto/orch.h) and the handle that is the first member of struct orch.
 *
 * Pure: a device program links graph, sched, core and this, and a port. Nothing here
 * makes sentences: what goes wrong is kept as data (wire/failure.h), the first one
 * only, with the place in the source that it came from.
 *
 * One thread at a time, the builder, calls the operations. Its driver, the chip,
 * calls the rest:
 *
 *     orch_open        once
 *     orch_reset       before each run, then
 *     orch_start       the graph is empty, or that of a launch
 *     orch_build       on the builder's stack; not for a launch
 *     orch_end         when every task has gone, or the run is given up
 *
 * The thread that leads the run may fail it with orch_fail while the builder does not
 * run; nobody else may.
 */
#ifndef PTO_ORCH_H
#define PTO_ORCH_H

#include "base/guard.h"
#include "graph/ledger.h"
#include "orch/elsewhere.h"
#include "orch/written.h"
#include "pto/run.h"
#include "sched/sharing.h"

struct built_graph;

/* What is noted of a graph that is kept: orch/built_graph.h. */
enum orch_list {
    ORCH_READS,   /* by the orchestration itself */
    ORCH_WRITES,  /* the same */
    ORCH_FILLS,   /* outputs that start with a value */
    ORCH_OUTSIDE, /* memory that the graph names by itself, in order, without overlaps */
    ORCH_LISTS
};

/* A task that was submitted, for whoever records. */
struct orch_told {
    const struct pto_task_view *view;
    const struct pto_outputs *out;
    bool is_manual;      /* its scope */
    uint64_t begin, end; /* of the submit, in port_cycles */
};

/* The begin or the end of a scope. */
struct orch_scope {
    const struct pto_site *site; /* NULL: the run's own, or unknown */
    uint32_t depth;
    uint32_t ring;
    bool is_end;
    struct ledger_use use; /* of its ring */
};

/* Who records a run. The submitter calls these; each may be NULL. */
struct orch_recorder {
    void (*mark)(void *context, uint32_t index, const struct pto_args *args); /* before a submit */
    void (*tell)(void *context, const struct orch_told *told);                /* after it */
    void (*scope)(void *context, const struct orch_scope *scope); /* streamed, without a graph */
    void *context;
};

/* One run, as data. What it points to stays until orch_end. */
struct orch_run {
    pto_orch_fn function; /* of the orchestration; NULL: a launch */
    void *context;        /* pto_orch_context */
    const void *code;     /* an address of the orchestration's own, which it may be left in */
    guard_fn guard;       /* NULL: nothing can throw here */
    const struct graph_kernel *kernels;
    uint32_t kernel_count;
    const struct pto_entry *entry;
    const struct pto_run_options *options;
    bool has_rings; /* a ring's size is set: options->rings */
    bool has_guards;
    bool is_whole_only; /* a host-built graph runs only if its orchestration has not failed */
    uint64_t stall_ns;
    uint64_t time_ns;          /* how long it may take, for whoever says that it has taken longer */
    bool is_from_launch;       /* the same: the time in the queue is included */
    bool is_built_only;        /* nothing runs: the graph is kept */
    struct built_graph *graph; /* that is built to be kept, or launched; NULL: neither */
    const struct orch_elsewhere *elsewhere; /* built only, and run there; NULL: here */
    void (*wired_fn)(void *context, uint32_t before, uint32_t after); /* NULL: nobody records */
    void *wired_context;
    struct orch_recorder recorder;
};

struct orch {
    struct pto_orch handle; /* first: what an orchestration holds */
    struct graph *graph;
    struct sched *sched;
    struct ledger *rings; /* the ledger's memory */
    struct pool list_pool[ORCH_LISTS];
    struct written written; /* by the orchestration itself, while a graph is built to be kept */
    const struct pool_budget *budget;
    void *machine;       /* for port_room and its like */
    uint32_t clusters;   /* of the chip */
    struct aptr builder; /* the thread inside orch_build, by its thread pointer; NULL: none */

    /* Of the run. The builder's, and the leading thread's while the builder does not run. */
    const struct orch_run *run;
    struct worker *submitter;
    struct sharing sharing; /* says when the builder is to call port_room */
    struct ledger *ledger;  /* NULL: no limits */
    uint32_t polled_at;     /* the next task when the builder last asked for something, and */
    uint32_t polls;         /* how often it has since */
    int32_t quota;          /* submits until there is something to look at beside the task */
    bool is_listening;      /* what it asks for comes from outside of the run */
    bool is_held;           /* nothing runs before the graph is complete */
    bool is_shared;         /* there are other workers */
    int32_t status;         /* failure.status */
    int (*submit)(struct pto_orch *handle, const struct pto_kernels *kernels,
                  const struct pto_args *args, const struct pto_site *site,
                  struct pto_outputs *out);
    struct failure failure;
    struct stall stall;
};

/* Calls `each` for every pool of the orchestration's own. */
void orch_each_pool(struct orch *o, void (*each)(struct pool *pool, uint64_t share, void *context),
                    void *context);
void orch_open(struct orch *o);
/* Before each run: forgets how the one before it failed. */
void orch_reset(struct orch *o);
/* PTO_OK, or the status of o->failure: nothing is to be run. */
int orch_start(struct orch *o, const struct orch_run *run);
/* `arg` is the struct orch. */
void orch_build(void *arg);
/* The run has ended after so many kernels: faults, cancellation. Returns its status. */
int orch_end(struct orch *o, uint64_t executions);

/*
 * Since when a run has made no progress, for a watchdog that looks every millisecond or more often.
 * A longer pause between two looks means that the watchdog itself did not run: its processor was
 * busy with something else, or the process was stopped. The kernels may not have run either, so the
 * pause does not count as a stall.
 */
static inline uint64_t orch_stall_since(uint64_t since_ns, uint64_t looked_ns, uint64_t now_ns)
{
    const uint64_t most_ns = 10000000, gap_ns = now_ns - looked_ns;

    if (gap_ns > most_ns) /* mutation: counts-pauses */
        return since_ns + (gap_ns - most_ns);
    return since_ns;
}

/* Describes what nothing comes of, and fails the run; by the thread that leads it. */
void orch_describe_stall(struct orch *o, bool is_stall);
/* Lists the kernels that run, as the start of a description. */
void orch_describe_running(struct orch *o);

/* The first failure stays. Returns the status of the run. */
int orch_fail(struct orch *o, const struct failure *why);
/* What the graph refused: o->graph->refusal. */
__attribute__((cold)) int orch_refuse(struct orch *o, int status, const struct pto_kernels *kernels,
                                      const struct pto_args *args, const struct pto_site *site);
/* The run is over early, or a team waits for the cores of the thread that builds. */
__attribute__((cold)) void orch_attend(struct orch *o);
/* That the time of the run is over, to be filled with where it was then. */
struct failure orch_late(const struct orch *o, const struct pto_site *site);
/*
 * By the thread that leads the run: its time is over, and the orchestration could go on. Whatever
 * kernels do at that moment is no reason.
 */
void orch_late_building(struct orch *o);
/* The scheduler's fault, if there is one, as the failure of the run. */
void orch_take_fault(struct orch *o);
/*
 * The orchestration crashed: the run fails, with the place of its last submit. `scalar_behind`:
 * at which scalar behind the entry's last, from 1 on; 0: at none. `is_torn`: in the middle of
 * an operation, so that nothing is known of its last submit.
 */
void orch_crashed(struct orch *o, int signal, uint64_t addr, uint32_t scalar_behind, bool is_torn);
/* The slot of the last submit, which may have completed; NULL: there was none, or it is not known. */
const struct slot *orch_last_submit(const struct orch *o);

/* ---- between the files of this folder ---- */

static inline struct orch *orch_of(struct pto_orch *handle)
{
    return (struct orch *)(void *)handle;
}

/* A failure, to be filled with what else there is to say. */
static inline struct failure orch_failure(int status, enum fault fault, const struct pto_site *site)
{
    return (struct failure){ .status = status,
                             .fault = fault,
                             .argument = -1,
                             .kernel = -1,
                             .task = pto_task_id_invalid(),
                             .site = site != NULL ? *site : (struct pto_site){ NULL, 0 } };
}

/* Only the orchestration itself may call, while it runs: not a kernel, not another thread. */
static inline bool orch_is_builder(const struct orch *o)
{
    return aptr_load_relaxed(&o->builder) == __builtin_thread_pointer(); /* own stores are seen */
}

/* Whether somebody wants the submitter's attention. */
static inline bool orch_has_news(const struct orch *o)
{
    return a32_load_relaxed(&o->sched->attention) != 0; /* being late is harmless */
}

/* What operations that can fail begin with: PTO_EINVAL, or the status of the run. */
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
 * For operations that only ask. One that asks so often and submits nothing waits for what
 * tasks do: some are run. What it asks for may be in memory that is not the runtime's.
 */
__attribute__((cold)) int orch_run_some(struct orch *o);

enum { ORCH_POLLS = 64 };

/* `times`: how often since it was asked for the last time, if nothing was submitted meanwhile. */
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

/* Whether what it reads and writes itself is noted. */
static inline bool orch_is_noted(const struct orch *o)
{
    return o->run->graph != NULL && (o->run->elsewhere == NULL || !o->run->elsewhere->is_once);
}

/* submission.c: what runs whose tasks start at once use, and the others. */
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
