/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of a random graph, as used by its orchestration, its kernels, the sequential execution
 * and the comparison.
 *
 * Kernels run on any thread. An invocation records its results in memory that no other invocation
 * writes; they are read when pto_run has returned. Words that other threads read during the run are
 * accessed with relaxed atomics, so that the checker itself does not order what the engine should
 * have ordered. The invocations of a task divide its bytes among them by address, so they do not
 * race with each other, however the views overlap.
 *
 * A helper is a thread outside of the runtime, like an engine for transfers. It writes the bytes of
 * kernels that defer their completion to it, and then raises the counter.
 */
#ifndef PTO_CHECK_TRIAL_H
#define PTO_CHECK_TRIAL_H

#include <pthread.h>

#include "tool/check/check_run.h"

enum {
    CHECK_KERNELS_BY_COUNT = PTO_TASK_TENSORS_MAX + 1,
    CHECK_KERNELS_A_LANE = CHECK_KERNELS_BY_COUNT + CHECK_BARE_MAX,
    CHECK_RINGS = 4
};

/* An invocation that the helper has to complete. */
struct check_job {
    struct check_job *next;
    struct check_run_task *task;
    uint32_t call;
    uint32_t sleep_us;
    struct check_region regions[PTO_TASK_TENSORS_MAX];
};

struct check_helper {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct check_job *first;
    struct check_job **last;
    bool is_busy;
    bool is_ending;
};

struct check_runner {
    struct check_runner_params params;
    struct pto_device *device;
    struct pto_callable *callable;
    struct check_helper helper;
    uint64_t meet_ns;
    /* level-3 worker on which the graphs run; NULL: they run on a device */
    struct check_tree *tree;
};

/*
 * One invocation of a task, which is one lane of one block, as run by the engine or as computed by
 * the sequential execution.
 */
struct check_run_call {
    uint32_t runs;
    /*
     * number of invocations of a team that have arrived; only the first invocation's counter is
     * used
     */
    uint32_t met;
    uint64_t start; /* start time on the run's clock; 0: not started */
    uint64_t end; /* end time; if a helper thread completes the invocation, the helper's end time */
    uint64_t hash;    /* hash of the bytes that the kernel read */
    uint64_t mail;    /* word that the helper writes and successors check */
    pthread_t thread; /* thread that ran the invocation; recorded for teams only */
    /* shared state of the cluster that ran the invocation; recorded for teams only */
    const void *pipe;
    const char *fault; /* error in the arguments that the kernel got, or NULL */
};

/* One task of a run. */
struct check_run_task {
    struct check_run *run;
    uint32_t index;
    uint32_t first_arg;    /* index of the task's first argument in `given` and `seen` */
    uint32_t first_access; /* index of the task's first access in `got` */
    uint32_t call_count;
    struct check_run_call *calls;
    uint64_t id;      /* id that the submit returned */
    uint64_t id_seen; /* id that the kernel got */
    uint32_t bare;    /* slot in bare_tasks, if the task's kernel has no scalar */
    uint32_t started; /* number of invocations that have started */
    uint32_t strays;  /* number of invocations with an impossible block or lane */
    uint32_t counter; /* counter that the conditions of the task's deferred completion refer to */
    /*
     * For each notifier: time at which it notified the task; 0: it has not yet. Successors check
     * that they see this time.
     */
    uint64_t notified[CHECK_NOTIFIERS_MAX];
    const struct check_run_task *gate; /* not NULL: the kernel waits until this task has started */
    int32_t process;                   /* pid of the child process that ran the task, at level 3 */
    bool is_submitted;                 /* a submit of the task succeeded */
    /* The child that runs the task reports a failure and does not change memory; for level 3. */
    bool fails;
};

struct check_run {
    const struct check_graph *g;
    const struct check_oracle *oracle;
    struct check_runner *runner;
    struct check_findings *findings;
    struct check_run_task *tasks;
    struct check_run_call *calls;
    uint32_t deferred_count;
    uint32_t *deferred; /* indices of the tasks with deferred completion */
    /* Descriptors of arguments as submitted; for outputs, as the submit returned them. */
    struct pto_tensor *given;
    struct pto_tensor *seen; /* descriptors of arguments as the kernels got them */
    uint8_t *arena;
    uint64_t clock;
    bool is_spoilt; /* a wait timed out: later waits return at once */
    bool is_alone;  /* the run has only one worker thread, and no kernel exceeded its time slice */
    uint32_t ring_count[CHECK_RINGS]; /* number of task ids assigned so far in each ring */
    bool is_held;    /* PTO_MODE_HOST: no task may run before the graph is complete */
    bool has_guards; /* the run has guards around its allocations */
    bool is_built;   /* the graph is complete; written by the orchestration, read by kernels */
    /*
     * Edges that the runtime reported: for each task, a set of task indices as a row of g->words
     * words. NULL: not recorded.
     */
    uint64_t *found;
    struct check_edges reasons; /* edges in the recording of the run, with their reasons */
    bool is_dropping;
    bool is_dropped;
    uint32_t drop_before;
    uint32_t drop_after;
};

/* Results of a sequential execution. */
struct check_oracle {
    uint8_t *arena;
    uint64_t *hash;  /* for each invocation: hash of the bytes that it reads */
    bool *runs;      /* for each task: it has a kernel, and its predicate holds */
    int64_t *target; /* for each task: value with which its predicate compares */
    uint64_t *got;   /* for each access of the orchestration: the value that it reads */
};

/* Lists X(n) for each possible number of tensors of a task. */
/* clang-format off */
#define CHECK_COUNTS(X)                                                                               \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) \
    X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)   \
    X(32)
/* clang-format on */

/* Lengths of the arrays of a run. */
struct check_counts {
    uint32_t args;
    uint32_t calls;
    uint32_t accesses;
};

static inline uint64_t check_tick(struct check_run *run)
{
    /* Relaxed: changes of one word are totally ordered, which suffices for timestamps. */
    return __atomic_add_fetch(&run->clock, 1, __ATOMIC_RELAXED);
}

/*
 * Returns the word with which a helper shows successors of the task that it has written. The helper
 * writes it to the field `mail`.
 */
static inline uint64_t check_mail(const struct check_run_task *t)
{
    return t->run->g->tasks[t->index].salt | 1;
}

/*
 * Returns a scalar of the task. The first scalar is the address of the task, by which the kernel
 * finds it.
 */
static inline uint64_t check_task_scalar(const struct check_run_task *t, uint32_t i)
{
    return i == 0 ? (uint64_t)(uintptr_t)t : rng_mix(t->run->g->tasks[t->index].salt + i);
}

static inline bool check_does_access(const struct check_access *access, bool is_held)
{
    return is_held ? access->is_held : access->is_streamed;
}

/*
 * Returns the number of invocations that must run at the same time as a given one, itself included;
 * *first_out is the first of them.
 */
static inline uint32_t check_team_of(const struct check_task *task, uint32_t call,
                                     uint32_t *first_out)
{
    uint32_t lanes = check_lane_count(task);
    bool has_all = (task->is_gang && task->blocks > 1) || task->is_meeting;

    *first_out = has_all ? 0 : call / lanes * lanes;
    return has_all ? lanes * task->blocks : lanes;
}

/*
 * check_run.c: allocates and frees the state of a run. The oracle may be NULL if only descriptors
 * are needed.
 */
struct check_counts check_count(const struct check_graph *g);
void check_fill_arena(uint8_t *arena, const struct check_graph *g);
void check_run_init(struct check_run *run, const struct check_graph *g,
                    const struct check_oracle *oracle, struct check_findings *findings);
void check_run_fini(struct check_run *run);
/*
 * Records an edge that the runtime found; a pto_edge_fn whose context is the run. If it returns
 * false, the runtime drops the edge.
 */
bool check_note_edge(void *context, uint64_t before, uint64_t after);

/* check_tree.c: implements the functions check_runner_... for a level-3 worker. */
int check_tree_open(const struct check_runner_params *params, struct check_tree **tree_out,
                    struct pto_error *error);
void check_tree_close(struct check_tree *tree);
void check_tree_check(struct check_tree *tree, const struct check_graph *g,
                      struct check_findings *findings);
bool check_tree_check_without(struct check_tree *tree, const struct check_graph *g, struct rng *rng,
                              uint32_t edge_out[2], struct check_findings *findings);

/*
 * check_orch.c: orchestration that submits the graph of the run to which the first scalar of the
 * entry points.
 */
void check_orchestrate(struct pto_orch *o, const struct pto_entry *entry);
/*
 * Return the descriptors of an argument and of an element, as the orchestration gets them from
 * views.
 */
struct pto_tensor check_make_tensor(const struct check_run *run, const struct check_arg *arg);
struct pto_tensor check_element_tensor(const struct check_run *run, const struct check_element *e);

/* Arguments of one submit, and the memory that they point into. */
struct check_submit {
    struct pto_args args;
    struct pto_tensor_info infos[PTO_TASK_TENSORS_MAX];
    struct pto_task_id *deps;
    uint8_t *kinds;
};
void check_submit_init(struct check_submit *s, const struct check_run *run,
                       const struct check_run_task *t);
void check_submit_fini(struct check_submit *s);
/* Records the results of a submit: the task's id, and a descriptor for each output. */
void check_record_outputs(const struct check_run *run, struct check_run_task *t,
                          const struct pto_outputs *out);

/* Functions that begin and end a scope, on a chip or at level 3. */
struct check_scoping {
    void (*begin)(void *context, enum pto_scope_mode mode);
    void (*end)(void *context);
    void *context;
};
/*
 * Ends and begins scopes until `to`, no longer `from`, is the innermost open scope. Returns `to`.
 */
uint32_t check_change_scope(const struct check_scoping *s, const struct check_graph *g,
                            uint32_t from, uint32_t to);
/*
 * Enters the scope of a task before the task's submit, and begins and ends the empty scopes before
 * it. *scope is the innermost open scope.
 */
void check_enter_scope(const struct check_scoping *s, const struct check_graph *g, uint32_t task,
                       uint32_t *scope);

/*
 * check_kernel.c: runs one invocation, and makes the callable of the orchestration and of all
 * kernels.
 */
void check_kernel_body(const int64_t *args, struct check_run_task *t, uint32_t lane);
int check_make_callable(struct pto_callable **callable_out);
/* Assigns a task to an index of the kernels without scalars, which find the task by it. */
void check_set_bare_task(uint32_t slot, struct check_run_task *t);
/* Returns the final value of the counter of a deferred task. */
uint32_t check_count_notifications(const struct check_run_task *t);
/* Whether the lanes of a block can be identified by the state of their cluster. */
bool check_has_pipes(void);

/*
 * check_effect.c: hashes all bytes that an invocation reads, and writes bytes that are derived from
 * this hash.
 */
uint64_t check_effect_read(const struct check_run_task *t, uint32_t call,
                           const struct check_region *regions);
void check_effect_write(const struct check_run_task *t, uint32_t call,
                        const struct check_region *regions, uint64_t hash);
uint64_t check_load_element(uint64_t addr, uint32_t size);
void check_store_element(uint64_t addr, uint32_t size, uint64_t bits);

/* check_helper.c: starts and ends the helper, and gives it an invocation to complete. */
int check_helper_start(struct check_helper *h);
void check_helper_end(struct check_helper *h);
void check_helper_add(struct check_helper *h, struct check_job *job);
/* Waits until the helper has no work left. */
void check_helper_drain(struct check_helper *h);

/*
 * check_oracle.c: executes a graph sequentially. If the graph is complete before the first task
 * runs (is_held), all accesses of the orchestration precede the tasks; otherwise each access is
 * made in submission order.
 */
void check_oracle_init(struct check_oracle *oracle, const struct check_graph *g, bool is_held);
void check_oracle_fini(struct check_oracle *oracle);

/* check_compare.c: each function adds its findings to those of the run. */
void check_compare_edges(const struct check_run *run);
/* check_reason.c: `context` is a struct check_run. */
void check_note_reason(void *context, const struct check_recorded_edge *edge);
void check_compare_reasons(struct check_run *run);
void check_compare_calls(const struct check_run *run, const struct check_run_task *t);
void check_compare_tasks(const struct check_run *run);
void check_compare_teams(const struct check_run *run);
void check_compare_order(const struct check_run *run);
void check_compare_bytes(const struct check_run *run, const struct check_oracle *oracle);
void check_compare_report(const struct check_run *run, const struct pto_run_report *report);
/* Adds a finding about up to two tasks; -1: none. */
void check_find(struct check_findings *findings, int64_t a, int64_t b, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
