/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of a random graph, as its orchestration, its kernels, the sequential
 * execution and the comparison see it.
 *
 * Kernels run on any thread. What they record belongs to their own invocation
 * and is read when pto_run has returned; the words others read meanwhile are
 * accessed relaxed, so that the checker orders nothing the engine should have
 * ordered. The invocations of a task share its bytes out among them by address,
 * so they do not race with each other, however the views overlap.
 *
 * A helper is a thread beside the runtime, as an engine for transfers would be:
 * it writes what a kernel that defers its completion has left to it, then raises
 * the counter.
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

/* What an invocation left to the helper. */
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
    struct check_tree *tree; /* not NULL: a worker of level 3 instead of all that */
};

/* One invocation of a task: one lane of one block, or what the oracle says of it. */
struct check_run_call {
    uint32_t runs;
    uint32_t met;      /* that have come to the meeting; of the first one of those that meet */
    uint64_t start;    /* of the run's clock; 0: not yet */
    uint64_t end;      /* the helper's, if it ends there */
    uint64_t hash;     /* of what the kernel read */
    uint64_t mail;     /* from the helper, to whoever comes after */
    pthread_t thread;  /* of a team */
    const void *pipe;  /* of a team: where its cluster keeps state */
    const char *fault; /* what was wrong with the argument vector */
};

/* One task of one run. */
struct check_run_task {
    struct check_run *run;
    uint32_t index;
    uint32_t first_arg;    /* in `given` and `seen` */
    uint32_t first_access; /* in `got` */
    uint32_t call_count;
    struct check_run_call *calls;
    uint64_t id;                            /* as the submit returned it */
    uint64_t id_seen;                       /* as the kernel got it */
    uint32_t bare;                          /* slot in bare_tasks, if there is no scalar */
    uint32_t started;                       /* invocations */
    uint32_t strays;                        /* invocations that cannot be */
    uint32_t counter;                       /* that its deferred completion waits for */
    uint64_t notified[CHECK_NOTIFIERS_MAX]; /* clock of the notifications; mail, too */
    const struct check_run_task *gate;      /* not NULL: first wait until that one has started */
    int32_t process;                        /* of level 3: where it ran */
    bool is_submitted;                      /* this and the next: of level 3, too */
    bool fails;                             /* its child says so, and does nothing */
};

struct check_run {
    const struct check_graph *g;
    const struct check_oracle *oracle;
    struct check_runner *runner;
    struct check_findings *findings;
    struct check_run_task *tasks;
    struct check_run_call *calls;
    uint32_t deferred_count;
    uint32_t *deferred;       /* tasks that defer */
    struct pto_tensor *given; /* descriptors as submitted; outputs as created */
    struct pto_tensor *seen;  /* descriptors as the kernels got them */
    uint8_t *arena;
    uint64_t clock;
    bool is_spoilt;                   /* somebody waited in vain: nobody waits any more */
    bool is_alone;                    /* one worker, and no kernel outlived its time slice */
    uint32_t ring_count[CHECK_RINGS]; /* ids given out */
    bool is_held;    /* in PTO_MODE_HOST nothing may run before the graph is complete */
    bool has_guards; /* of the options */
    bool is_built;   /* written by the orchestration, read by kernels */
    uint64_t *found; /* edges reported, a row of g->words a task; or NULL */
    bool is_dropping;
    bool is_dropped;
    uint32_t drop_before;
    uint32_t drop_after;
};

/* What a sequential execution gives. */
struct check_oracle {
    uint8_t *arena;
    uint64_t *hash;  /* by invocation */
    bool *runs;      /* by task: it has a kernel, and its predicate holds */
    int64_t *target; /* by task: what its predicate compares with */
    uint64_t *got;   /* by access */
};

/* X(n) for each number of tensors that a task can have. */
/* clang-format off */
#define CHECK_COUNTS(X)                                                                               \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) \
    X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)   \
    X(32)
/* clang-format on */

/* What the arrays of a run hold. */
struct check_counts {
    uint32_t args;
    uint32_t calls;
    uint32_t accesses;
};

static inline uint64_t check_tick(struct check_run *run)
{
    /* Relaxed: one word has one order, which is all a timestamp needs. */
    return __atomic_add_fetch(&run->clock, 1, __ATOMIC_RELAXED);
}

/* What the helper writes for whoever comes after. */
static inline uint64_t check_mail(const struct check_run_task *t)
{
    return t->run->g->tasks[t->index].salt | 1;
}

/* The first one is where the task is, for its kernel. */
static inline uint64_t check_task_scalar(const struct check_run_task *t, uint32_t i)
{
    return i == 0 ? (uint64_t)(uintptr_t)t : rng_mix(t->run->g->tasks[t->index].salt + i);
}

static inline bool check_does_access(const struct check_access *access, bool is_held)
{
    return is_held ? access->is_held : access->is_streamed;
}

/* Who must run at the same time as an invocation: `count` of them from *first_out on. */
static inline uint32_t check_team_of(const struct check_task *task, uint32_t call,
                                     uint32_t *first_out)
{
    uint32_t lanes = check_lane_count(task);
    bool has_all = (task->is_gang && task->blocks > 1) || task->is_meeting;

    *first_out = has_all ? 0 : call / lanes * lanes;
    return has_all ? lanes * task->blocks : lanes;
}

/* check_run.c: everything but the oracle, which may be NULL if only descriptors are wanted. */
struct check_counts check_count(const struct check_graph *g);
void check_fill_arena(uint8_t *arena, const struct check_graph *g);
void check_run_init(struct check_run *run, const struct check_graph *g,
                    const struct check_oracle *oracle, struct check_findings *findings);
void check_run_fini(struct check_run *run);
/* Notes an edge, a pto_edge_fn for the run; false: it is the one to be dropped. */
bool check_note_edge(void *context, uint64_t before, uint64_t after);

/* check_tree.c: the same as check_runner_... for a worker of level 3. */
int check_tree_open(const struct check_runner_params *params, struct check_tree **tree_out,
                    struct pto_error *error);
void check_tree_close(struct check_tree *tree);
void check_tree_check(struct check_tree *tree, const struct check_graph *g,
                      struct check_findings *findings);
bool check_tree_check_without(struct check_tree *tree, const struct check_graph *g, struct rng *rng,
                              uint32_t edge_out[2], struct check_findings *findings);

/* check_orch.c: submits the graph of the run that the entry's first scalar points to. */
void check_orchestrate(struct pto_orch *o, const struct pto_entry *entry);
/* Descriptors as the orchestration makes them with views. */
struct pto_tensor check_given_tensor(const struct check_run *run, const struct check_arg *arg);
struct pto_tensor check_element_tensor(const struct check_run *run, const struct check_element *e);

/* What a submit is given, until it has returned. */
struct check_submit {
    struct pto_args args;
    struct pto_tensor_info infos[PTO_TASK_TENSORS_MAX];
    struct pto_task_id *deps;
    uint8_t *kinds;
};
void check_submit_init(struct check_submit *s, const struct check_run *run,
                       const struct check_run_task *t);
void check_submit_fini(struct check_submit *s);
/* What it returned: the id, and a descriptor for each output. */
void check_take_outputs(const struct check_run *run, struct check_run_task *t,
                        const struct pto_outputs *out);

/* How an orchestration begins and ends scopes. */
struct check_scoping {
    void (*begin)(void *context, enum pto_scope_mode mode);
    void (*end)(void *context);
    void *context;
};
/* From one scope into another; returns the latter. */
uint32_t check_change_scope(const struct check_scoping *s, const struct check_graph *g,
                            uint32_t from, uint32_t to);
/* Before the submit of a task. */
void check_enter_scope(const struct check_scoping *s, const struct check_graph *g, uint32_t task,
                       uint32_t *scope);

/* check_kernel.c: one invocation, and the orchestration with all kernels that there are. */
void check_kernel_body(const int64_t *args, struct check_run_task *t, uint32_t lane);
int check_make_callable(struct pto_callable **callable_out);
/* A kernel without scalars finds its task by the slot. */
void check_set_bare_task(uint32_t slot, struct check_run_task *t);
/* How often the counter of a deferred task is raised in the end. */
uint32_t check_count_notifications(const struct check_run_task *t);
/* Whether the lanes of a block can be told by what their cluster keeps. */
bool check_has_pipes(void);

/* check_effect.c: the work of an invocation, a hash of all it reads and bytes made of it. */
uint64_t check_effect_read(const struct check_run_task *t, uint32_t call,
                           const struct check_region *regions);
void check_effect_write(const struct check_run_task *t, uint32_t call,
                        const struct check_region *regions, uint64_t hash);
uint64_t check_load_element(uint64_t addr, uint32_t size);
void check_store_element(uint64_t addr, uint32_t size, uint64_t bits);

/* check_helper.c */
int check_helper_start(struct check_helper *h);
void check_helper_end(struct check_helper *h);
void check_helper_add(struct check_helper *h, struct check_job *job);
/* Waits until it has nothing to do. */
void check_helper_drain(struct check_helper *h);

/*
 * check_oracle.c. If the graph is complete before the first task runs, everything
 * that the orchestration does comes first; else each thing in its turn.
 */
void check_oracle_init(struct check_oracle *oracle, const struct check_graph *g, bool is_held);
void check_oracle_fini(struct check_oracle *oracle);

/* check_compare.c: each adds what is wrong to the findings of the run. */
void check_compare_edges(const struct check_run *run);
void check_compare_calls(const struct check_run *run, const struct check_run_task *t);
void check_compare_tasks(const struct check_run *run);
void check_compare_teams(const struct check_run *run);
void check_compare_order(const struct check_run *run);
void check_compare_bytes(const struct check_run *run, const struct check_oracle *oracle);
void check_compare_report(const struct check_run *run, const struct pto_run_report *report);
/* One more finding, about up to two tasks; -1: none. */
void check_find(struct check_findings *findings, int64_t a, int64_t b, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
