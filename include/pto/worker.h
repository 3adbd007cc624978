/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers of level 3: a worker owns chips and SUB workers, each of them a process of its own,
 * and runs graphs whose tasks are whole callables on them. A worker of level 4 and above owns workers.
 *
 *     pto_worker_open        starts the children
 *     pto_worker_register    makes a callable known to them
 *     pto_worker_alloc       memory that all of them share
 *     pto_worker_run         calls an orchestration, which submits, and waits for its tasks
 *     pto_worker_close       ends the children
 *
 * Dependencies are inferred from tensors as on a chip (docs/user/ordering.md), also between runs.
 * A tensor of a task is memory of the worker: from pto_worker_alloc, of a chip, or an output
 * of another task. All processes have it at the same address, so nothing is copied.
 *
 * Any thread may use a worker. After fork() it is the parent's: PTO_EFORKED. A child that dies
 * ends its tasks with PTO_EPEER: whether they did anything is not known, and they are not
 * repeated. docs/user/workers.md says more.
 */
#ifndef PTO_API_WORKER_H
#define PTO_API_WORKER_H

#include "pto/callable.h"
#include "pto/error.h"
#include "pto/rules.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct pto_worker;
struct pto_level;      /* of an orchestration */
struct pto_worker_run; /* of a run that was launched */
struct pto_run_options;

enum { PTO_CHILDREN_MAX = 64 };

/* What a child is. */
enum pto_child_kind { PTO_CHILD_CHIP, PTO_CHILD_SUB, PTO_CHILD_WORKER };

#define PTO_WORKER_STARTUP_DEFAULT_NS 30000000000ull

/* Which children. They are numbered: first the chips, then the SUB workers, then the nested workers. */
struct pto_worker_params {
    size_t size;
    const char *platform; /* of the chips */
    uint32_t chip_count;
    uint32_t sub_count;
    uint32_t clusters;     /* of each chip; 0: the platform's default */
    uint32_t chip_workers; /* threads of each; 0: the CPUs, divided among the chips */
    uint64_t memory_max;   /* bytes that the processes share; 0: 32 GiB. It is used as it fills */
    uint64_t startup_timeout_ns; /* for all children together; 0: 30 s */
    struct pto_error *error;     /* says why it cannot be opened; initialised, or NULL */
    /*
     * The program that each child is: its path, its arguments, NULL. It calls pto_child_serve, on
     * any thread, and ends when that returns. NULL: the one that comes with the library.
     */
    const char *const *child_program;
    /*
     * Runs on chips have guards (pto_run_options), and after each task it is looked whether something
     * wrote outside of the allocations that it had: then it fails with PTO_EOVERRUN.
     */
    bool has_guards;
    enum pto_deps deps; /* what orders tasks: docs/user/ordering.md */
    pto_edge_fn edge;   /* positions count all submits of all runs, allocations included; or NULL */
    void *edge_context;
    /*
     * For a task, from when its child can begin with it. Its child is killed then, and it fails with
     * PTO_ETIMEOUT; a chip ends the run of the callable first, if it can. 0: a minute.
     */
    uint64_t task_timeout_ns;
    uint64_t run_timeout_ns;     /* for a run, from its beginning; 0: none, its tasks have one */
    uint64_t control_timeout_ns; /* for what children do to register or unregister; 0: a minute */
    /*
     * Children that are workers themselves, with chips, SUB workers and workers of their own: what
     * each of them is. Their memory is a part of this worker's (0: an eighth, divided among them); they
     * have its child_program, and its time for the start-up of all. There are up to 16 levels of them.
     */
    const struct pto_worker_params *const *nested;
    uint64_t nested_count;
    /*
     * The program that SUB workers and nested workers are, as child_program; the chips of a nested
     * worker are the library's then. NULL: child_program.
     */
    const char *const *sub_program;
    /* The device that each chip is, chip_count numbers, none twice. NULL: 0, 1 and so on. */
    const uint32_t *devices;
};

/* Sets the defaults: one chip, and the safe rules. */
static inline void pto_worker_params_init(struct pto_worker_params *params)
{
    if (params == NULL)
        return;
    memset(params, 0, sizeof(*params));
    params->size = sizeof(*params);
    params->platform = pto_platform_at(0)->name;
    params->chip_count = 1;
}

/* Opens a worker; its children are ready on return. On failure nothing is left of them. */
int pto_worker_open(const struct pto_worker_params *params, struct pto_worker **worker_out);

/*
 * Closes a worker: ends its children, those that do not listen by force, and frees its memory.
 * PTO_EBUSY, and nothing happens, while it has runs that are not finished.
 */
int pto_worker_close(struct pto_worker *worker);

struct pto_worker_memory; /* of a worker that was closed */

/*
 * Closes a worker, but leaves its memory where it is, for those of this process that still look
 * into it, until pto_worker_memory_free.
 */
int pto_worker_close_keeping(struct pto_worker *worker, struct pto_worker_memory **memory_out);
/* Frees what was kept. Accepts NULL. */
void pto_worker_memory_free(struct pto_worker_memory *memory);

/* What a child does. */
enum pto_child_state { PTO_CHILD_READY, PTO_CHILD_DEAD };

/* One child of a worker. */
struct pto_child_info {
    size_t size;
    enum pto_child_kind kind;
    enum pto_child_state state;
    int32_t pid;
    uint32_t generation; /* 1, and one more each time that it was opened again */
    uint32_t in_flight;  /* tasks that it was given and has not ended */
    uint64_t tasks;      /* that it has ended */
    uint32_t device;     /* that a chip is; 0 for others */
};

/* Sets the size. */
static inline void pto_child_info_init(struct pto_child_info *info)
{
    if (info == NULL)
        return;
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
}

/* Describes a child. PTO_EINVAL: past the last one. */
int pto_worker_child(struct pto_worker *worker, uint32_t child, struct pto_child_info *info);

/*
 * Starts a dead child anew, with the callables that it had; of a nested worker that is alive, its
 * dead children. PTO_EBUSY: all is alive. `error` may be NULL.
 */
int pto_worker_reopen(struct pto_worker *worker, uint32_t child, struct pto_error *error);

/*
 * For a program that a worker has started as a child (child_program): does what the worker says
 * until the child is to end, and returns the code that the process is to end with. The
 * process ends in the middle of it if the worker's dies. Descriptors 3 and 4 are the worker's until then, and
 * from 5 on one for each nested worker above.
 * SIGINT is ignored from here on, unless it is handled: Ctrl-C is for the worker's process.
 */
int pto_child_serve(void);

/* ---- callables ---- */

/* What a function for SUB workers gets. */
struct pto_sub_call {
    size_t size; /* set by the runtime */
    uint32_t child;
    uint32_t tensor_count;
    uint32_t scalar_count;
    const struct pto_tensor *tensor;
    const uint64_t *scalar;
    char *text; /* a sentence for people, if it fails */
    size_t text_size;
};

/* A function for SUB workers. Returns PTO_OK, or a negative status: its task fails with it. */
typedef int (*pto_sub_fn)(const struct pto_sub_call *call);

/*
 * A function for nested workers: an orchestration with arguments, which submits to the children of
 * the nested worker. What it has submitted is part of its task. Tensors that it passes
 * on are those of the call, or outputs. The rest is as for a function for SUB workers.
 */
typedef int (*pto_nested_fn)(struct pto_level *level, const struct pto_sub_call *call);

/* A function for SUB workers that is no shared object, as it was registered. */
struct pto_child_code {
    size_t size; /* set by the runtime */
    const void *bytes;
    size_t byte_count;
    const char *name;
    const char *symbol; /* may be empty */
};

/*
 * What a SUB worker's program knows to do with functions that are no shared objects: those of an
 * interpreter, for instance. Called on the thread that serves, one at a time.
 */
struct pto_child_hooks {
    size_t size;
    void *context; /* for the calls below */
    /* Returns PTO_OK and what `call` is to get, or a negative status and a sentence. The bytes last until then. */
    int (*load)(void *context, const struct pto_child_code *code, void **function_out,
                struct pto_error *error);
    /* As a pto_sub_fn. */
    int (*call)(void *context, void *function, const struct pto_sub_call *call);
    void (*unload)(void *context, void *function);
};

/* Sets the size. */
static inline void pto_child_hooks_init(struct pto_child_hooks *hooks)
{
    if (hooks == NULL)
        return;
    memset(hooks, 0, sizeof(*hooks));
    hooks->size = sizeof(*hooks);
}

/* pto_child_serve for a program that has hooks, all three of them; they live until it returns. */
int pto_child_serve_with(const struct pto_child_hooks *hooks);

/*
 * What to register: an artefact or a chip callable for chips, or a shared object, which exports a
 * struct pto_callable_params for chips or a pto_sub_fn for SUB workers; or, if the program of
 * SUB workers has hooks, whatever these can load. What it is
 * is its content: a file is read once, by this call.
 */
struct pto_worker_callable {
    size_t size;
    enum pto_child_kind kind;
    const char *name;  /* in messages; NULL: the symbol */
    const void *bytes; /* or NULL: those of the file */
    size_t byte_count;
    const char *path;
    /* NULL: of an artefact the one that it names, else "pto_callable". A function in an object needs it */
    const char *symbol;
    uint64_t children; /* bits; 0: all of the kind */
    struct pto_error *error;
    /*
     * For children of nested workers, so many levels further down: 1 for children of the nested ones, 2 for
     * children of those that are nested in them. `children` are those of this worker on the way. The number
     * is the same there; pto_level_lookup has it, too.
     */
    uint64_t is_below;
};

/* Sets the defaults. */
static inline void pto_worker_callable_init(struct pto_worker_callable *callable)
{
    if (callable == NULL)
        return;
    memset(callable, 0, sizeof(*callable));
    callable->size = sizeof(*callable);
}

/*
 * Makes a callable known to children, all of them or none, also while runs are going on.
 * Its identity is the digest of its content, kind, symbol and children: what is equal is
 * registered once and counted, and gets the same number. PTO_EPEER: one of the children
 * is dead. PTO_EAGAIN: there are 1024.
 */
int pto_worker_register(struct pto_worker *worker, const struct pto_worker_callable *callable,
                        uint64_t *callable_out);

/* Takes back one registration. PTO_EBUSY: the last one of a callable that tasks use. */
int pto_worker_unregister(struct pto_worker *worker, uint64_t callable);

/* ---- memory ---- */

/* Where all memory of a worker is: the addresses that all of its processes have mapped. */
int pto_worker_range(struct pto_worker *worker, uint64_t *addr_out, uint64_t *bytes_out);

/* Allocates memory that the worker and all its children share, at any time. It is zero. */
int pto_worker_alloc(struct pto_worker *worker, uint64_t bytes, void **addr_out);

/*
 * Allocates memory of a chip: only tasks on this one may have it as a tensor. On a simulated
 * chip the caller can use it, too.
 */
int pto_worker_alloc_on(struct pto_worker *worker, uint32_t child, uint64_t bytes, void **addr_out);

/*
 * Frees either. PTO_EBUSY: a task uses it that is not over, or that failed or was skipped in a run whose status
 * the program was not told. PTO_EMEMORY: the address was freed before, lies inside an allocation, or is none
 * of this worker; or something wrote up to 1024 bytes before or behind the allocation, which is freed all the
 * same. `error`, which may be NULL, says which.
 */
int pto_worker_free(struct pto_worker *worker, void *addr, struct pto_error *error);

/*
 * Copies from any memory of the program to memory of the worker or of one of its chips: as a run of
 * its own, after all tasks submitted before that use it. Waits; 0: for at most a minute. PTO_ETIMEOUT:
 * what it did is not known, and it does nothing more once it is past the tasks before it.
 * PTO_EMEMORY: the bytes do not all lie in one allocation. `error` may be NULL.
 */
int pto_worker_copy_to(struct pto_worker *worker, void *to, const void *from, uint64_t bytes,
                       uint64_t timeout_ns, struct pto_error *error);
/* The same in the other direction. After a failure `to` is as it was, or has a part of the bytes. */
int pto_worker_copy_from(struct pto_worker *worker, void *to, const void *from, uint64_t bytes,
                         uint64_t timeout_ns, struct pto_error *error);

/* ---- orchestrations ---- */

/* Submits tasks; on the thread that called, before the call returns. */
typedef void (*pto_level_fn)(struct pto_level *level, void *context);

/*
 * Submits a task: the callable, with these arguments, on one of the `children`, which are bits: the
 * first that is free. 0: any that has the callable. The arguments are as on a
 * chip, but without blocks, predicates and timing. Those of a SUB function, and of an
 * orchestration, are the tensors in their order, then the scalars.
 *
 * A task that comes after one that failed or was skipped, of any run, is skipped if it is submitted before
 * pto_worker_run, pto_worker_run_wait or pto_worker_run_finish has returned the status of that one's run.
 */
struct pto_outputs pto_level_submit_at(struct pto_level *level, uint64_t callable,
                                       uint64_t children, const struct pto_args *args,
                                       const struct pto_site *site);
/* The same for the place where it is written. */
#define pto_level_submit(level, callable, children, args) \
    pto_level_submit_at((level), (callable), (children), (args), PTO_SITE)
/* One child by its number, for pto_level_submit. */
#define PTO_ON(child) (1ull << (child))

/*
 * Submits a group: `count` tasks that start together, each on a child of its own, when all of
 * them are ready; so they may wait for each other. `children` has their numbers; NULL: any. None
 * may use what another one writes. `outputs`, an array of `count`, may be NULL. Returns PTO_OK if the
 * group was accepted, even if the run fails during the call; a negative status if it was refused: then
 * none of its tasks runs.
 */
int pto_level_submit_group_at(struct pto_level *level, uint64_t callable, const uint32_t *children,
                              const struct pto_args *args, uint32_t count,
                              struct pto_outputs *outputs, const struct pto_site *site);
/* The same for the place where it is written. */
#define pto_level_submit_group(level, callable, children, args, count, outputs) \
    pto_level_submit_group_at((level), (callable), (children), (args), (count), (outputs), PTO_SITE)

/* Allocates buffers, which are there when the call returns; `args` has outputs only. */
struct pto_outputs pto_level_alloc(struct pto_level *level, const struct pto_args *args);

/*
 * Submits a copy, a task like any other: the tensors, which have the same type and shapes and may
 * be views, order it. The chip whose memory one of them is does it; between two chips it goes
 * through shared memory and is two tasks. Returns its id; an invalid one: it was refused.
 */
struct pto_task_id pto_level_copy_at(struct pto_level *level, const struct pto_tensor *to,
                                     const struct pto_tensor *from, const struct pto_site *site);
/* The same for the place where it is written. */
#define pto_level_copy(level, to, from) pto_level_copy_at((level), (to), (from), PTO_SITE)

/* Finds a callable of the level's worker by its name. PTO_EINVAL: there is none. */
int pto_level_lookup(struct pto_level *level, const char *name, uint64_t *callable_out);
/* Returns the children of a kind that the level's worker has, as bits. */
uint64_t pto_level_children(struct pto_level *level, enum pto_child_kind kind);

/* Begins a scope: outputs of its tasks live until it has ended and their users are done. */
int pto_level_scope_begin(struct pto_level *level, enum pto_scope_mode mode);
/* Ends the innermost scope. */
int pto_level_scope_end(struct pto_level *level);

/* Returns the first error of the run so far, or 0. After one, nothing more is submitted. */
int pto_level_status(struct pto_level *level);
/* The same, and describes it. */
int pto_level_error(struct pto_level *level, struct pto_error *error);
/*
 * Sets the time-out of the run, from its beginning; 0: the worker's. Then nothing more of it
 * starts, what runs is ended as by the time-out of a task, and its status is PTO_ETIMEOUT.
 */
int pto_level_set_timeout(struct pto_level *level, uint64_t timeout_ns);
/* Sets the time-out of each task that is submitted from here on; 0: the worker's. */
int pto_level_set_task_timeout(struct pto_level *level, uint64_t timeout_ns);
/*
 * Sets how callables run on chips, for each task that is submitted from here on; NULL: the defaults.
 * Tasks may have the options that PTO_RUN_OPTION_MAP marks TASKS, all of it copied; another one that is
 * set is refused: PTO_ENOSUP. The files of tasks with the same folder replace each other.
 */
int pto_level_set_run_options(struct pto_level *level, const struct pto_run_options *options);
/* Ends the run with an error of the orchestration's own; `text` is copied. */
int pto_level_fail(struct pto_level *level, int status, const char *text);

/* ---- runs ---- */

enum {
    PTO_PATH_MAX = 8, /* places of an error: a worker, those below it, a chip */
    PTO_CALLABLE_NAME_MAX = 64,
};

/*
 * One place on the way from the worker of a run to where its error happened. Of a longer way the
 * first place is kept and the last ones; `level` shows what is left out.
 */
struct pto_error_place {
    uint32_t level; /* 2: on a chip; 3: of a worker without nested ones, and so on */
    int32_t child;  /* of the worker of this level; -1: none */
    int32_t status;
    int32_t kernel;                       /* on a chip; -1: none */
    int32_t argument;                     /* -1: none */
    int32_t kind;                         /* of the child: enum pto_child_kind; -1: none */
    struct pto_task_id task;              /* of this level; invalid: none */
    char callable[PTO_CALLABLE_NAME_MAX]; /* its name; empty: none */
};

/* How a run of a worker went. */
struct pto_worker_report {
    size_t size;
    uint64_t tasks;   /* submitted; allocations are none */
    uint64_t done;    /* that ran and succeeded */
    uint64_t failed;  /* that ran and failed, or whose child died */
    uint64_t skipped; /* that never ran: what they come after failed, or the run was cancelled */
    uint64_t ns;      /* from the beginning of the run to its end */
    int32_t child;    /* where the first error happened; -1: no child */
    struct pto_error error; /* the first one */
    uint64_t path_count; /* places of the first error, the worker's own first; 0: no task has it */
    struct pto_error_place path[PTO_PATH_MAX];
};

/* Prepares a report for the call that fills it in. */
static inline void pto_worker_report_init(struct pto_worker_report *report)
{
    if (report == NULL)
        return;
    memset(report, 0, sizeof(*report));
    report->size = sizeof(*report);
    report->child = -1;
    pto_error_init(&report->error);
}

/*
 * Calls the orchestration and waits for its tasks. Returns the first error, which the report, which
 * may be NULL, explains. A task that fails does not stop those that do not depend on it. The
 * worker stays usable. PTO_EBUSY: called by an orchestration of the same worker.
 */
int pto_worker_run(struct pto_worker *worker, pto_level_fn orchestration, void *context,
                   struct pto_worker_report *report);

/* The same without waiting: the tasks have been submitted when it returns. Runs overlap. */
int pto_worker_launch(struct pto_worker *worker, pto_level_fn orchestration, void *context,
                      struct pto_worker_run **run_out);

/* Says whether a run has ended: PTO_RUN_ENDED, PTO_RUN_PENDING, or an error of the call itself. */
int pto_worker_run_poll(struct pto_worker_run *run);
/* Waits until a run has ended, and returns its status. PTO_ETIMEOUT: it has not, and goes on. 0: a minute. */
int pto_worker_run_wait(struct pto_worker_run *run, uint64_t timeout_ns);
/* Ends a run early: no further task starts, and those that run are waited for. Its status is PTO_ECANCELED. */
int pto_worker_run_cancel(struct pto_worker_run *run);
/* Returns a descriptor that becomes readable when the run ends. It belongs to the run. Negative: an error. */
int pto_worker_run_fd(struct pto_worker_run *run);
/* Frees a run. Returns its status and fills in the report, which may be NULL. PTO_EBUSY: it has not ended. */
int pto_worker_run_finish(struct pto_worker_run *run, struct pto_worker_report *report);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
