/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers of level 3: a worker owns chips and SUB workers, each a separate process, and runs graphs
 * whose tasks are whole callables on them. A worker of level 4 and above owns workers.
 *
 *     pto_worker_open        starts the children
 *     pto_worker_register    makes a callable known to them
 *     pto_worker_alloc       memory that all of them share
 *     pto_worker_run         calls an orchestration, which submits, and waits for its tasks
 *     pto_worker_close       ends the children
 *
 * Dependencies are inferred from tensors as on a chip (docs/user/ordering.md), also between runs. A
 * tensor of a task is memory of the worker: from pto_worker_alloc, of a chip, or an output of
 * another task. All processes map it at the same address, so nothing is copied.
 *
 * Any thread may use a worker. After fork() the worker belongs to the parent: in the child, calls
 * return PTO_EFORKED. When a child dies, its tasks fail with PTO_EPEER. Such tasks may or may not
 * have had effects, and are not retried. docs/user/workers.md has the details.
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
struct pto_level;      /* handle that an orchestration of level 3 gets */
struct pto_worker_run; /* handle of a run that pto_worker_launch has launched */
struct pto_run_options;

enum { PTO_CHILDREN_MAX = 64 };

/* The kind of a child. */
enum pto_child_kind { PTO_CHILD_CHIP, PTO_CHILD_SUB, PTO_CHILD_WORKER };

#define PTO_WORKER_STARTUP_DEFAULT_NS 30000000000ull

/*
 * The parameters of a worker. Its children are numbered: first the chips, then the SUB workers,
 * then the nested workers.
 */
struct pto_worker_params {
    size_t size;
    const char *platform; /* name of the chips' platform */
    uint32_t chip_count;
    uint32_t sub_count;
    uint32_t clusters; /* number of clusters of each chip; 0: the platform's default */
    /* number of threads of each chip; 0: the CPUs, divided among the chips */
    uint32_t chip_workers;
    /* Bytes of memory that the processes share, allocated as they are used; 0: 32 GiB. */
    uint64_t memory_max;
    /* time-out in ns for the start of all children together; 0: 30 s */
    uint64_t startup_timeout_ns;
    struct pto_error *error; /* filled in on failure; initialised, or NULL */
    /*
     * Program that each child executes: path, arguments, NULL. It must call pto_child_serve, on any
     * thread, and end when that returns. NULL: the program that comes with the library.
     */
    const char *const *child_program;
    /*
     * Gives runs on chips guards (pto_run_options). After each task, the guards around its
     * allocations are also checked; a damaged guard fails the task with PTO_EOVERRUN.
     */
    bool has_guards;
    enum pto_deps deps; /* how tasks are ordered: docs/user/ordering.md */
    /*
     * Called for each dependency between tasks; NULL: not called. Positions count the submits of
     * all runs, allocations included.
     */
    pto_edge_fn edge;
    void *edge_context;
    /*
     * Time-out of a task in ns, from when its child can start it. When the time is over, the child
     * is killed, and the task fails with PTO_ETIMEOUT; a chip first tries to end the run of the
     * callable. 0: one minute.
     */
    uint64_t task_timeout_ns;
    /* Time-out of each run in ns, counted from its start; 0: none, only tasks have a time-out. */
    uint64_t run_timeout_ns;
    /* Time-out in ns for a child to register or unregister a callable; 0: one minute. */
    uint64_t control_timeout_ns;
    /*
     * Parameters of the nested workers: children that are workers themselves, with chips, SUB
     * workers and nested workers. Their memory is a part of this worker's (0: an eighth, divided
     * among them). They use the child_program of this worker and share its start-up time. Workers
     * nest in up to 16 levels.
     */
    const struct pto_worker_params *const *nested;
    uint64_t nested_count;
    /*
     * Program that SUB workers and nested workers execute, in the form of child_program; chips of a
     * nested worker then use the library's. NULL: child_program.
     */
    const char *const *sub_program;
    /* The device number of each chip: chip_count numbers, none twice. NULL: 0, 1 and so on. */
    const uint32_t *devices;
    /* Gives the worker and its children one virtual clock: pto/worker_virtual.h. */
    bool is_virtual;
    /* Runs on chips look for NaN, as with `has_nan_check` of pto_run_options. */
    bool has_nan_check;
};

/* Sets the defaults of a worker: one chip, and the safe rules. */
static inline void pto_worker_params_init(struct pto_worker_params *params)
{
    if (params == NULL)
        return;
    memset(params, 0, sizeof(*params));
    params->size = sizeof(*params);
    params->platform = pto_platform_at(0)->name;
    params->chip_count = 1;
}

/* Opens a worker; its children are ready on return. If the call fails, no child remains. */
int pto_worker_open(const struct pto_worker_params *params, struct pto_worker **worker_out);

/*
 * Closes a worker: ends its children, killing those that do not respond, and frees its memory.
 * PTO_EBUSY, without any effect: it has unfinished runs.
 */
int pto_worker_close(struct pto_worker *worker);

struct pto_worker_memory; /* memory that outlives its worker: pto_worker_close_keeping */

/*
 * Closes a worker, but keeps its memory mapped for code of this process that still reads it, until
 * pto_worker_memory_free.
 */
int pto_worker_close_keeping(struct pto_worker *worker, struct pto_worker_memory **memory_out);
/* Frees the memory that pto_worker_close_keeping kept. Accepts NULL. */
void pto_worker_memory_free(struct pto_worker_memory *memory);

/* The state of a child. */
enum pto_child_state { PTO_CHILD_READY, PTO_CHILD_DEAD };

/* One child of a worker. */
struct pto_child_info {
    size_t size;
    enum pto_child_kind kind;
    enum pto_child_state state;
    int32_t pid;
    uint32_t generation; /* how often the child was started: 1, plus one for each reopening */
    uint32_t in_flight;  /* number of tasks that were sent to the child and have not ended */
    uint64_t tasks;      /* number of tasks of the child that have ended */
    uint32_t device;     /* device number, if the child is a chip; 0 for other children */
};

/* Initialises the struct for a call that fills it in. */
static inline void pto_child_info_init(struct pto_child_info *info)
{
    if (info == NULL)
        return;
    memset(info, 0, sizeof(*info));
    info->size = sizeof(*info);
}

/* Describes a child. PTO_EINVAL: there is no child with this number. */
int pto_worker_child(struct pto_worker *worker, uint32_t child, struct pto_child_info *info);

/*
 * Restarts a dead child and registers its callables again; if the child is a live nested worker,
 * restarts the dead children of that worker. PTO_EBUSY: none of them is dead. `error` may be NULL.
 */
int pto_worker_reopen(struct pto_worker *worker, uint32_t child, struct pto_error *error);

/*
 * Serves a worker, in a program that the worker started as a child (child_program). Returns the
 * exit code for the process when the child is to end. If the worker's process dies, the call ends
 * the process. Until the call returns, the worker uses descriptors 3 and 4, and from 5 on one for
 * each nested worker above this process. From this call on SIGINT is ignored, unless the program
 * handles it: Ctrl-C is for the worker's process.
 */
int pto_child_serve(void);

/* ---- callables ---- */

/* The arguments of a function for SUB workers or nested workers. */
struct pto_sub_call {
    size_t size; /* size of this struct, set by the runtime */
    uint32_t child;
    uint32_t tensor_count;
    uint32_t scalar_count;
    const struct pto_tensor *tensor;
    const uint64_t *scalar;
    char *text; /* buffer to which the function writes a message if it fails */
    size_t text_size;
};

/*
 * A function for SUB workers. Returns PTO_OK, or a negative status that becomes the status of the
 * task.
 */
typedef int (*pto_sub_fn)(const struct pto_sub_call *call);

/*
 * A function for nested workers: an orchestration with arguments, which submits to the children of
 * the nested worker. Tasks that it submits are part of its task. Tensors that it passes on must be
 * tensors of the call, or outputs. Otherwise it is like a function for SUB workers.
 */
typedef int (*pto_nested_fn)(struct pto_level *level, const struct pto_sub_call *call);

/* A registered function for SUB workers that is not a shared object: its bytes and symbol. */
struct pto_child_code {
    size_t size; /* size of this struct, set by the runtime */
    const void *bytes;
    size_t byte_count;
    const char *name;
    const char *symbol; /* name of the function; may be empty */
};

/*
 * Hooks with which the program of a SUB worker handles functions that are not shared objects, such
 * as those of an interpreter. Called on the serving thread, one at a time.
 */
struct pto_child_hooks {
    size_t size;
    void *context; /* passed to each of the functions */
    /*
     * Loads a function. Returns PTO_OK and in *function_out the argument for `call`, or a negative
     * status and a message. The bytes are valid until `unload`.
     */
    int (*load)(void *context, const struct pto_child_code *code, void **function_out,
                struct pto_error *error);
    /* Calls a loaded function; otherwise as pto_sub_fn. */
    int (*call)(void *context, void *function, const struct pto_sub_call *call);
    void (*unload)(void *context, void *function);
};

/* Initialises the struct for a call that fills it in. */
static inline void pto_child_hooks_init(struct pto_child_hooks *hooks)
{
    if (hooks == NULL)
        return;
    memset(hooks, 0, sizeof(*hooks));
    hooks->size = sizeof(*hooks);
}

/*
 * pto_child_serve for a program with hooks; all three functions must be set and valid until the
 * call returns.
 */
int pto_child_serve_with(const struct pto_child_hooks *hooks);

/*
 * A callable to register: an artefact or a chip callable for chips; a shared object that exports a
 * struct pto_callable_params for chips or a pto_sub_fn for SUB workers; or anything that the hooks
 * of SUB workers load. A file is read once, by this call; its content determines the format.
 */
struct pto_worker_callable {
    size_t size;
    enum pto_child_kind kind;
    const char *name;  /* name of the callable in messages; NULL: the symbol */
    const void *bytes; /* content of the file; NULL: read `path` */
    size_t byte_count;
    const char *path;
    /*
     * Name of the function; required for a function in a shared object. NULL: the one that the
     * artefact names, else "pto_callable".
     */
    const char *symbol;
    uint64_t children; /* children that get the callable, one bit each; 0: all of the kind */
    struct pto_error *error;
    /*
     * How many levels below this worker's own children the callable is registered: 1: with children
     * of its nested workers, 2: with children of the workers nested in those. `children` then
     * selects the nested workers of this worker through which that is done. The number of the
     * callable is the same at that level; pto_level_lookup also finds it.
     */
    uint64_t is_below;
};

/* Sets the defaults of a callable to register. */
static inline void pto_worker_callable_init(struct pto_worker_callable *callable)
{
    if (callable == NULL)
        return;
    memset(callable, 0, sizeof(*callable));
    callable->size = sizeof(*callable);
}

/*
 * Registers a callable with the selected children, with all of them or none; also during runs. The
 * identity of a callable is the digest of its content, kind, symbol and children: an equal callable
 * is registered once, counted, and gets the same number. PTO_EPEER: one of the children is dead.
 * PTO_EAGAIN: 1024 callables are registered.
 */
int pto_worker_register(struct pto_worker *worker, const struct pto_worker_callable *callable,
                        uint64_t *callable_out);

/*
 * Undoes one registration of a callable. PTO_EBUSY: it is the last registration, and tasks use the
 * callable.
 */
int pto_worker_unregister(struct pto_worker *worker, uint64_t callable);

/* ---- memory ---- */

/*
 * Returns the address range that contains all memory of a worker, at the same addresses in all of
 * its processes.
 */
int pto_worker_range(struct pto_worker *worker, uint64_t *addr_out, uint64_t *bytes_out);

/*
 * Allocates zeroed memory that the worker and all its children share. May be called at any time,
 * also during runs.
 */
int pto_worker_alloc(struct pto_worker *worker, uint64_t bytes, void **addr_out);

/*
 * Allocates memory of a chip, which only tasks on this chip may have as a tensor. On a simulated
 * chip the caller can also access it.
 */
int pto_worker_alloc_on(struct pto_worker *worker, uint32_t child, uint64_t bytes, void **addr_out);

/*
 * Frees memory of a worker or of a chip. PTO_EBUSY: an unfinished task uses it, or a task of a run
 * whose status the program has not received yet failed or was skipped. PTO_EMEMORY: the address was
 * freed before, lies inside an allocation, or is not of this worker; or something wrote up to 1024
 * bytes before or after the allocation, which is freed nevertheless. `error`, which may be NULL,
 * names the case.
 */
int pto_worker_free(struct pto_worker *worker, void *addr, struct pto_error *error);

/*
 * Copies from any memory of the program to memory of the worker or of one of its chips, as a
 * separate run, after all submitted tasks that use it. Waits for the end of the copy; a time-out of
 * 0 is one minute. PTO_ETIMEOUT: a copy that has not started is cancelled once its predecessors
 * have ended; a copy that has started may have had effects. PTO_EMEMORY: no allocation contains all
 * of the bytes. `error` may be NULL.
 */
int pto_worker_copy_to(struct pto_worker *worker, void *to, const void *from, uint64_t bytes,
                       uint64_t timeout_ns, struct pto_error *error);
/*
 * Copies from memory of the worker or of one of its chips to any memory of the program; otherwise
 * as pto_worker_copy_to. After a failure `to` is unchanged, or has a part of the bytes.
 */
int pto_worker_copy_from(struct pto_worker *worker, void *to, const void *from, uint64_t bytes,
                         uint64_t timeout_ns, struct pto_error *error);

/* ---- orchestrations ---- */

/*
 * The orchestration of a run, which submits tasks. Called on the calling thread, before
 * pto_worker_run waits.
 */
typedef void (*pto_level_fn)(struct pto_level *level, void *context);

/*
 * Submits a task: the callable runs with these arguments on the first free one of the `children`,
 * one bit each; 0: on any child that has the callable. The arguments are as on a chip, but without
 * blocks, predicates and timing. A SUB function or an orchestration gets the tensors in order, then
 * the scalars.
 *
 * A task that depends on a failed or skipped task of any run is skipped if it is submitted before
 * pto_worker_run, pto_worker_run_wait or pto_worker_run_finish has returned the status of that run.
 */
struct pto_outputs pto_level_submit_at(struct pto_level *level, uint64_t callable,
                                       uint64_t children, const struct pto_args *args,
                                       const struct pto_site *site);
/* pto_level_submit_at with the current source line. */
#define pto_level_submit(level, callable, children, args) \
    pto_level_submit_at((level), (callable), (children), (args), PTO_SITE)
/* Selects one child by its number, for pto_level_submit. */
#define PTO_ON(child) (1ull << (child))

/*
 * Submits a group: `count` tasks that start together, each on a separate child, when all of them
 * are ready, so that they may wait for each other. `children` has the numbers of the children;
 * NULL: any. A task of the group must not use data that another one writes. `outputs`, an array of
 * `count`, may be NULL. Returns PTO_OK if the group was accepted, even if the run fails during the
 * call; a negative status if it was refused, and none of its tasks runs.
 */
int pto_level_submit_group_at(struct pto_level *level, uint64_t callable, const uint32_t *children,
                              const struct pto_args *args, uint32_t count,
                              struct pto_outputs *outputs, const struct pto_site *site);
/* pto_level_submit_group_at with the current source line. */
#define pto_level_submit_group(level, callable, children, args, count, outputs) \
    pto_level_submit_group_at((level), (callable), (children), (args), (count), (outputs), PTO_SITE)

/* Allocates buffers, which exist when the call returns; `args` has outputs only. */
struct pto_outputs pto_level_alloc(struct pto_level *level, const struct pto_args *args);

/*
 * Submits a copy between two tensors as an ordinary task, which the tensors order. The tensors have
 * the same type and shapes and may be views. The chip that owns one of them copies; a copy between
 * two chips is two tasks, through shared memory. Returns the id of the task; an invalid id: the
 * copy was refused.
 */
struct pto_task_id pto_level_copy_at(struct pto_level *level, const struct pto_tensor *to,
                                     const struct pto_tensor *from, const struct pto_site *site);
/* pto_level_copy_at with the current source line. */
#define pto_level_copy(level, to, from) pto_level_copy_at((level), (to), (from), PTO_SITE)

/* Finds a callable of the worker by its name. PTO_EINVAL: there is none. */
int pto_level_lookup(struct pto_level *level, const char *name, uint64_t *callable_out);
/* Returns the worker's children of a kind, one bit each. */
uint64_t pto_level_children(struct pto_level *level, enum pto_child_kind kind);

/*
 * Begins a scope. Outputs of tasks in the scope live until it has ended and the tasks that use them
 * are done.
 */
int pto_level_scope_begin(struct pto_level *level, enum pto_scope_mode mode);
/* Ends the innermost scope. */
int pto_level_scope_end(struct pto_level *level);

/* Returns the first error of the run so far; 0: none. After an error, nothing more is submitted. */
int pto_level_status(struct pto_level *level);
/* pto_level_status, and also fills in `error`. */
int pto_level_error(struct pto_level *level, struct pto_error *error);
/*
 * Sets the time-out of the run in ns, counted from its start; 0: the worker's. When the time is
 * over, no more tasks start, running tasks end as after a time-out of a task, and the status of the
 * run is PTO_ETIMEOUT.
 */
int pto_level_set_timeout(struct pto_level *level, uint64_t timeout_ns);
/* Sets the time-out in ns of each task submitted from here on; 0: the worker's. */
int pto_level_set_task_timeout(struct pto_level *level, uint64_t timeout_ns);
/*
 * Sets the options of callables on chips, for each task submitted from here on; NULL: the defaults.
 * Everything is copied. Only options that PTO_RUN_OPTION_MAP marks TASKS may be set; others give
 * PTO_ENOSUP. Tasks with the same folder for diagnostics overwrite each other's files.
 */
int pto_level_set_run_options(struct pto_level *level, const struct pto_run_options *options);
/* Fails the run with an error that the orchestration chooses; `text` is copied. */
int pto_level_fail(struct pto_level *level, int status, const char *text);

/* ---- runs ---- */

enum {
    /* maximum number of places in an error: a worker, the workers below it, a chip */
    PTO_PATH_MAX = 8,
    PTO_CALLABLE_NAME_MAX = 64,
};

/*
 * One place on the path from the worker of a run to where its error happened. A path that is too
 * long keeps its first and its last places; gaps in `level` show where places are omitted.
 */
struct pto_error_place {
    /* level of the place. 2: a chip; 3: a worker without nested workers; and so on */
    uint32_t level;
    int32_t child; /* number of the child in the worker of this level; -1: none */
    int32_t status;
    int32_t kernel;                       /* id of the kernel on a chip; -1: none */
    int32_t argument;                     /* number of the argument; -1: none */
    int32_t kind;                         /* kind of the child: enum pto_child_kind; -1: none */
    struct pto_task_id task;              /* task at this place; invalid: none */
    char callable[PTO_CALLABLE_NAME_MAX]; /* name of the task's callable; empty: none */
};

/* The result and the counts of a run of a worker. */
struct pto_worker_report {
    size_t size;
    uint64_t tasks;  /* number of submitted tasks; allocations are not counted */
    uint64_t done;   /* number of tasks that ran and succeeded */
    uint64_t failed; /* number of tasks that ran and failed, or whose child died */
    /* Number of tasks that never ran, because a predecessor failed or the run was cancelled. */
    uint64_t skipped;
    uint64_t ns;            /* duration of the run in ns */
    int32_t child;          /* number of the child with the first error; -1: none */
    struct pto_error error; /* first error of the run */
    /*
     * Number of places on the path to the first error, which begins with this worker; 0: no task
     * caused the error.
     */
    uint64_t path_count;
    struct pto_error_place path[PTO_PATH_MAX];
};

/* Initialises a report for a call that fills it in. */
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
 * Calls the orchestration and waits for its tasks. Returns the first error; the report, which may
 * be NULL, explains it. A failed task does not stop tasks that do not depend on it. The worker
 * stays usable. PTO_EBUSY: called by an orchestration of the same worker.
 */
int pto_worker_run(struct pto_worker *worker, pto_level_fn orchestration, void *context,
                   struct pto_worker_report *report);

/*
 * pto_worker_run without waiting: when it returns, the tasks have been submitted. Several runs may
 * overlap.
 */
int pto_worker_launch(struct pto_worker *worker, pto_level_fn orchestration, void *context,
                      struct pto_worker_run **run_out);

/*
 * Returns whether a run has ended: PTO_RUN_ENDED, PTO_RUN_PENDING, or an error of the call itself.
 */
int pto_worker_run_poll(struct pto_worker_run *run);
/*
 * Waits until a run has ended, and returns its status. PTO_ETIMEOUT: the run has not ended and
 * continues. A time-out of 0 is one minute.
 */
int pto_worker_run_wait(struct pto_worker_run *run, uint64_t timeout_ns);
/*
 * Cancels a run: no further task starts, and the run ends when its running tasks have ended. Its
 * status is PTO_ECANCELED.
 */
int pto_worker_run_cancel(struct pto_worker_run *run);
/*
 * Returns a descriptor that becomes readable when the run ends. The run owns the descriptor.
 * Negative: an error.
 */
int pto_worker_run_fd(struct pto_worker_run *run);
/*
 * Frees a run. Returns its status and fills in the report, which may be NULL. PTO_EBUSY: the run
 * has not ended.
 */
int pto_worker_run_finish(struct pto_worker_run *run, struct pto_worker_report *report);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
