/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of a random graph: the orchestration that submits it, the kernel that
 * reads and writes its regions, and the comparison afterwards.
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
#include "check/check_run.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pto/sim.h"
#include "scene/now.h"

enum {
    KERNELS_BY_COUNT = PTO_TASK_TENSORS_MAX + 1,
    KERNELS_A_LANE = KERNELS_BY_COUNT + CHECK_BARE_MAX,
    RINGS = 4,
    GATE_NS = 500 * 1000 * 1000,
    LAUNCHES = 3,    /* of a graph that was built */
    SHARE_BYTES = 4, /* neighbours that one invocation reads and writes */
    PIPE_KEY = 0x636865636b
};

#define MEET_NS 5000000000ull

/* What an invocation left to the helper. */
struct job {
    struct job *next;
    struct run_task *task;
    uint32_t call;
    uint32_t sleep_us;
    struct check_region regions[PTO_TASK_TENSORS_MAX];
};

struct helper {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct job *first;
    struct job **last;
    bool is_busy;
    bool is_ending;
};

struct check_runner {
    struct check_runner_params params;
    struct pto_device *device;
    struct pto_callable *callable;
    struct helper helper;
    uint64_t meet_ns;
};

/* One invocation of a task: one lane of one block, or what the oracle says of it. */
struct run_call {
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
struct run_task {
    struct run *run;
    uint32_t index;
    uint32_t first_arg;    /* in `given` and `seen` */
    uint32_t first_access; /* in `got` */
    uint32_t call_count;
    struct run_call *calls;
    uint64_t id;                            /* as the submit returned it */
    uint64_t id_seen;                       /* as the kernel got it */
    uint32_t bare;                          /* slot in bare_tasks, if there is no scalar */
    uint32_t started;                       /* invocations */
    uint32_t strays;                        /* invocations that cannot be */
    uint32_t counter;                       /* that its deferred completion waits for */
    uint64_t notified[CHECK_NOTIFIERS_MAX]; /* clock of the notifications; mail, too */
    const struct run_task *gate;            /* not NULL: first wait until that one has started */
};

struct run {
    const struct check_graph *g;
    const struct oracle *oracle;
    struct check_runner *runner;
    struct check_findings *findings;
    struct run_task *tasks;
    struct run_call *calls;
    uint32_t deferred_count;
    uint32_t *deferred;       /* tasks that defer */
    struct pto_tensor *given; /* descriptors as submitted; outputs as created */
    struct pto_tensor *seen;  /* descriptors as the kernels got them */
    uint8_t *arena;
    uint64_t clock;
    bool is_spoilt;             /* somebody waited in vain: nobody waits any more */
    bool is_alone;              /* one worker, and no kernel outlived its time slice */
    uint32_t ring_count[RINGS]; /* ids given out */
    bool is_held;               /* in PTO_MODE_HOST nothing may run before the graph is complete */
    bool is_built;              /* written by the orchestration, read by kernels */
    uint64_t *found;            /* edges reported, a row of g->words a task; or NULL */
    bool is_dropping;
    bool is_dropped;
    uint32_t drop_before;
    uint32_t drop_after;
};

/* What a sequential execution gives. */
struct oracle {
    uint8_t *arena;
    uint64_t *hash;  /* by invocation */
    bool *runs;      /* by task: it has a kernel, and its predicate holds */
    int64_t *target; /* by task: what its predicate compares with */
    uint64_t *got;   /* by access */
};

/* Where a cluster keeps what its cores share: the same for the lanes of a block. */
typedef void *(*pipe_state_fn)(uint64_t key, size_t size);
static pipe_state_fn pipe_state;

/* Kernels without scalars: the only thing such a kernel has of its own is its code. */
static struct run_task *bare_tasks[CHECK_BARE_MAX];

static void find(struct check_findings *findings, int64_t a, int64_t b, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
struct counts {
    uint32_t args;
    uint32_t calls;
    uint32_t accesses;
};

static void compare_calls(const struct run *run, const struct run_task *t);
static void fill_arena(uint8_t *arena, const struct check_graph *g);
static struct counts count_all(const struct check_graph *g);
static int make_check_callable(struct pto_callable **callable_out);
static void orchestrate(struct pto_orch *o, const struct pto_entry *entry);
static int helper_start(struct helper *h);
static void helper_end(struct helper *h);
static void helper_add(struct helper *h, struct job *job);
static void helper_drain(struct helper *h);
static void oracle_init(struct oracle *oracle, const struct check_graph *g, bool is_held);
static void oracle_fini(struct oracle *oracle);
static void run_init(struct run *run, const struct check_graph *g, const struct oracle *oracle,
                     struct check_findings *findings);
static void run_fini(struct run *run);
static bool run_go(struct run *run, struct check_runner *r, struct pto_run_options *options);
static bool note_edge(void *context, uint64_t before, uint64_t after);
static void compare_edges(const struct run *run);
static void compare_tasks(const struct run *run);
static void compare_teams(const struct run *run);
static void compare_order(const struct run *run);
static void compare_bytes(const struct run *run, const struct oracle *oracle);

int check_runner_open(const struct check_runner_params *params, struct check_runner **runner_out)
{
    struct check_runner *r = check_alloc(NULL, 1, sizeof(*r));
    struct pto_device_params device;
    int status;

    memset(r, 0, sizeof(*r));
    r->params = *params;
    pto_device_params_init(&device);
    device.platform = params->platform;
    device.workers = params->threads;
    status = pto_device_open(&device, &r->device);
    if (status < 0)
        goto free_runner;
    status = make_check_callable(&r->callable);
    if (status < 0)
        goto close_device;
    status = helper_start(&r->helper);
    if (status < 0)
        goto destroy_callable;
    *runner_out = r;
    return PTO_OK;

destroy_callable:
    pto_callable_destroy(r->callable);
close_device:
    pto_device_close(r->device);
free_runner:
    free(r);
    return status;
}

void check_runner_close(struct check_runner *r)
{
    if (r == NULL)
        return;
    helper_end(&r->helper);
    pto_callable_destroy(r->callable);
    pto_device_close(r->device);
    free(r);
}

void check_runner_set_patience(struct check_runner *r, uint64_t ns)
{
    r->meet_ns = ns;
}

static void check_run(struct check_runner *r, const struct check_graph *g,
                      const struct oracle *oracle, struct pto_run_options *options,
                      struct check_findings *findings)
{
    struct run run;

    run_init(&run, g, oracle, findings);
    options->deps = g->deps;
    if (options->edge != NULL) {
        options->edge_context = &run;
        run.found = check_alloc(NULL, (size_t)g->words * (g->task_count + 1), sizeof(uint64_t));
        memset(run.found, 0, sizeof(uint64_t) * g->words * (g->task_count + 1));
    }
    if (run_go(&run, r, options)) {
        if (options->edge != NULL)
            compare_edges(&run);
        compare_tasks(&run);
        compare_teams(&run);
        compare_order(&run);
        if (g->is_compared && findings->count == 0)
            compare_bytes(&run, oracle);
    }
    run_fini(&run);
}

/* Everything as before the first invocation, with other memory for what lies outside. */
static void run_rewind(struct run *run)
{
    struct counts n = count_all(run->g);

    memset(run->calls, 0, n.calls * sizeof(*run->calls));
    for (uint32_t i = 0; i < run->g->task_count; i++) {
        struct run_task *t = &run->tasks[i];

        t->id_seen = 0;
        t->started = t->strays = t->counter = 0;
        memset(t->notified, 0, sizeof(t->notified));
    }
    run->clock = 0;
    run->arena = check_alloc_aligned(run->g->arena_bytes);
    fill_arena(run->arena, run->g);
}

/* The graph is built once and launched with fresh memory each time. */
static void check_relaunch(struct check_runner *r, const struct check_graph *g,
                           const struct oracle *oracle, struct check_findings *findings)
{
    uint8_t *old[LAUNCHES];
    uint32_t old_count = 0;
    struct run run;
    uint64_t scalar = (uint64_t)(uintptr_t)&run;
    struct pto_tensor arena;
    struct pto_entry entry = { 1, 1, &arena, &scalar };
    struct pto_run_report *report = check_alloc(NULL, 1, sizeof(*report));
    struct pto_run_options options;
    struct pto_graph *graph;
    int status;

    run_init(&run, g, oracle, findings);
    run.runner = r;
    run.is_held = true;
    arena = pto_tensor_external(run.arena, &g->arena_bytes, 1, PTO_UINT8);
    pto_run_report_init(report);
    pto_run_options_init(&options);
    options.deps = g->deps;
    status = pto_graph_build(r->device, r->callable, &entry, &options, report, &graph);
    for (; status >= 0 && old_count < LAUNCHES && findings->count == 0; old_count++) {
        old[old_count] = run.arena;
        run_rewind(&run);
        arena.addr = (uint64_t)(uintptr_t)run.arena;
        pto_run_report_init(report);
        status = pto_graph_run(graph, &entry, NULL, report);
        run.is_alone = report->workers == 1 && report->takeovers == 0;
        helper_drain(&r->helper);
        if (status < 0)
            break;
        for (uint32_t i = 0; i < g->task_count; i++)
            compare_calls(&run, &run.tasks[i]);
        compare_teams(&run);
        compare_order(&run);
        if (g->is_compared && findings->count == 0)
            compare_bytes(&run, oracle);
    }
    if (status < 0)
        find(findings, -1, -1, "launch %" PRIu32 " of the built graph failed with %d (%s): %s",
             old_count, status, pto_strerror(status), report->error.text);
    else
        (void)pto_graph_destroy(graph);
    for (uint32_t i = 0; i < old_count; i++)
        free(old[i]);
    free(report);
    run_fini(&run);
}

void check_runner_check(struct check_runner *r, const struct check_graph *g,
                        struct check_findings *findings)
{
    static const uint32_t windows[] = { 0, 2, 8, 64 };
    struct rng rng = { g->seed ^ 0x6f72646572 };
    bool has_accesses = false;
    struct pto_run_options options;
    struct oracle oracle;

    memset(findings, 0, sizeof(*findings));
    if (g->unsound[0] >= 0)
        find(findings, g->unsound[0], g->unsound[1], "the rules leave a conflict unordered");
    for (uint32_t i = 0; i < g->task_count; i++)
        has_accesses = has_accesses || g->tasks[i].access_count != 0;
    oracle_init(&oracle, g, true);
    if (findings->count == 0) {
        pto_run_options_init(&options);
        options.mode = PTO_MODE_HOST;
        options.edge = note_edge;
        check_run(r, g, &oracle, &options, findings);
    }
    if (findings->count == 0 && r->params.is_relaunched)
        check_relaunch(r, g, &oracle, findings);
    if (has_accesses && r->params.mode == PTO_MODE_STREAM) {
        oracle_fini(&oracle);
        oracle_init(&oracle, g, false);
    }
    if (findings->count == 0) {
        pto_run_options_init(&options);
        options.mode = r->params.mode;
        options.window = windows[rng_below(&rng, 4)];
        options.order_seed = rng_chance(&rng, 70) ? rng_next(&rng) : 0;
        check_run(r, g, &oracle, &options, findings);
    }
    oracle_fini(&oracle);
}

bool check_runner_check_without(struct check_runner *r, const struct check_graph *g,
                                struct rng *rng, uint32_t edge_out[2],
                                struct check_findings *findings)
{
    struct pto_run_options options;
    struct oracle oracle;
    struct run run;
    bool is_there;

    memset(findings, 0, sizeof(*findings));
    oracle_init(&oracle, g, r->params.mode == PTO_MODE_HOST);
    is_there = check_graph_pick_edge(g, oracle.runs, rng, &edge_out[0], &edge_out[1]);
    if (is_there) {
        run_init(&run, g, &oracle, findings);
        run.is_dropping = true;
        run.drop_before = edge_out[0];
        run.drop_after = edge_out[1];
        run.tasks[edge_out[0]].gate = &run.tasks[edge_out[1]];
        /* No small window: the submitter must get to `after` while `before` waits for it. */
        pto_run_options_init(&options);
        options.deps = g->deps;
        options.mode = r->params.mode;
        options.edge = note_edge;
        options.edge_context = &run;
        if (run_go(&run, r, &options) && run.is_dropped)
            compare_order(&run);
        run_fini(&run);
    }
    oracle_fini(&oracle);
    return is_there;
}

/* ---- kernels ---- */

static uint64_t tick(struct run *run)
{
    /* Relaxed: one word has one order, which is all a timestamp needs. */
    return __atomic_add_fetch(&run->clock, 1, __ATOMIC_RELAXED);
}

static uint64_t task_scalar(const struct run_task *t, uint32_t i)
{
    return i == 0 ? (uint64_t)(uintptr_t)t : rng_mix(t->run->g->tasks[t->index].salt + i);
}

/* Byte by byte, because TSan does not see a memcpy that the compiler expands by itself. */
static uint64_t load_element(uint64_t addr, uint32_t size)
{
    const uint8_t *from = (const uint8_t *)(uintptr_t)addr;
    uint64_t bits = 0;

    for (uint32_t i = 0; i < size; i++)
        bits |= (uint64_t)from[i] << 8 * i;
    return bits;
}

static void store_element(uint64_t addr, uint32_t size, uint64_t bits)
{
    uint8_t *to = (uint8_t *)(uintptr_t)addr;

    for (uint32_t i = 0; i < size; i++)
        to[i] = (uint8_t)(bits >> 8 * i);
}

/* Which bytes of an argument an invocation has: the hash of their number, in shares, is its own. */
struct share {
    uint64_t base; /* of the storage: the same for all views of it */
    uint32_t call;
    uint32_t count;
};

static struct share share_of(const struct run_task *t, uint32_t arg,
                             const struct check_region *region, uint32_t call)
{
    bool is_output = t->run->g->tasks[t->index].args[arg].creator >= 0;

    return (struct share){ is_output ? region->addr : (uint64_t)(uintptr_t)t->run->arena, call,
                           t->call_count };
}

/* How many bytes from `addr` on have one owner; *is_mine_out tells whether it is this one. */
static uint32_t share_next(const struct share *s, uint64_t addr, uint32_t most, bool *is_mine_out)
{
    uint64_t at = addr - s->base;
    uint32_t hash = (uint32_t)(at / SHARE_BYTES) * 0x9e3779b1u;
    uint32_t left = SHARE_BYTES - (uint32_t)(at % SHARE_BYTES);

    *is_mine_out = (uint64_t)hash * s->count >> 32 == s->call;
    return left < most ? left : most;
}

/* False if nothing of the element is the invocation's. */
static bool load_shared(const struct share *s, uint64_t addr, uint32_t size, uint64_t *bits_out)
{
    bool has_any = false, is_mine;

    *bits_out = 0;
    for (uint32_t i = 0, n; i < size; i += n) {
        n = share_next(s, addr + i, size - i, &is_mine);
        if (is_mine)
            *bits_out |= load_element(addr + i, n) << 8 * i;
        has_any = has_any || is_mine;
    }
    return has_any;
}

static void store_shared(const struct share *s, uint64_t addr, uint32_t size, uint64_t bits)
{
    bool is_mine;

    for (uint32_t i = 0, n; i < size; i += n) {
        n = share_next(s, addr + i, size - i, &is_mine);
        if (is_mine)
            store_element(addr + i, n, bits >> 8 * i);
    }
}

/* The work of an invocation: first a hash of all it reads, */
static uint64_t effect_read(const struct run_task *t, uint32_t call,
                            const struct check_region *regions)
{
    const struct check_task *task = &t->run->g->tasks[t->index];
    uint64_t hash = rng_mix(t->index + 1 + ((uint64_t)call << 32));
    struct check_walk w;

    for (uint32_t k = 0; k < task->arg_count; k++) {
        const struct check_region *r = &regions[k];
        struct share share = share_of(t, k, r, call);
        uint32_t e = pto_dtype_size(r->dtype);

        for (check_walk_init(&w, r); task->args[k].reads && check_walk_next(&w);) {
            uint64_t bits;

            if (share.count == 1)
                bits = load_element(w.addr, e);
            else if (!load_shared(&share, w.addr, e, &bits))
                continue;
            hash = rng_mix(hash ^ (bits + w.number * 0x9e3779b97f4a7c15u));
        }
    }
    return hash;
}

/* then bytes made of it wherever it writes. */
static void effect_write(const struct run_task *t, uint32_t call,
                         const struct check_region *regions, uint64_t hash)
{
    const struct check_task *task = &t->run->g->tasks[t->index];
    struct check_walk w;

    for (uint32_t k = 0; k < task->arg_count; k++) {
        const struct check_region *r = &regions[k];
        struct share share = share_of(t, k, r, call);
        uint32_t e = pto_dtype_size(r->dtype);

        for (check_walk_init(&w, r); task->args[k].writes && check_walk_next(&w);) {
            uint64_t bits = rng_mix(hash + ((uint64_t)k << 32) + w.number);

            if (share.count == 1)
                store_element(w.addr, e, bits);
            else
                store_shared(&share, w.addr, e, bits);
        }
    }
}

/* All that a descriptor says about the view, not where it is: NULL, or what is wrong. */
static const char *tensor_judge(const struct pto_tensor *t, const struct check_region *r)
{
    struct check_region seen;

    if (t->ndims != r->ndims)
        return "ndims";
    seen = check_region_from_tensor(t);
    if (memcmp(seen.shapes, r->shapes, sizeof(r->shapes)) != 0)
        return "shapes";
    if (memcmp(seen.strides, r->strides, sizeof(r->strides)) != 0)
        return "strides";
    if (t->start != r->start || t->dtype != r->dtype)
        return "start or dtype";
    if (t->extent != check_region_extent(r) || t->is_contiguous != check_region_is_contiguous(r))
        return "extent or is_contiguous";
    if (t->size != r->size)
        return "size";
    if (t->version != r->version || t->manual_dep != r->manual_dep)
        return "version or manual_dep";
    return NULL;
}

static const char *kernel_judge(const struct run_task *t, const int64_t *args, uint32_t lane)
{
    const uint32_t both = CHECK_LANE_AIV0 | CHECK_LANE_AIV1;
    const struct check_task *task = &t->run->g->tasks[t->index];

    if (pto_arg_global(args) == NULL)
        return "a kernel got no context";
    if (pto_block_count(args) != (int32_t)task->blocks)
        return "a kernel got a wrong block count";
    if ((task->lanes & both) == both && lane != 0 && pto_sub_block(args) != (int32_t)lane - 1)
        return "a kernel got a wrong sub-block";
    for (uint32_t i = 0; i < task->scalar_count; i++) {
        if ((uint64_t)args[task->arg_count + i] != task_scalar(t, i))
            return "a kernel got a wrong scalar";
    }
    for (uint32_t k = 0; k < task->arg_count; k++) {
        const struct pto_tensor *tensor = pto_arg_tensor(args, (int)k);

        if (tensor == NULL || tensor_judge(tensor, &task->args[k].region) != NULL)
            return "a kernel got a wrong tensor descriptor";
    }
    return NULL;
}

/* Only one invocation is slow. */
static void kernel_delay(const struct run_task *t, uint32_t call)
{
    const struct check_task *task = &t->run->g->tasks[t->index];
    bool is_slow = task->salt % t->call_count == call;

    for (uint32_t i = 0; i < task->spins && is_slow; i++)
        pto_pause();
    if (task->sleep_us != 0 && is_slow)
        usleep(task->sleep_us);
    if (t->gate != NULL && call == t->call_count - 1) {
        uint64_t deadline = now_ns() + GATE_NS;

        while (__atomic_load_n(&t->gate->started, __ATOMIC_RELAXED) == 0 && now_ns() < deadline)
            sched_yield();
    }
}

/* Who must run at the same time as an invocation: `count` of them from *first_out on. */
static uint32_t team_of(const struct check_task *task, uint32_t call, uint32_t *first_out)
{
    uint32_t lanes = check_lane_count(task);
    bool has_all = (task->is_gang && task->blocks > 1) || task->is_meeting;

    *first_out = has_all ? 0 : call / lanes * lanes;
    return has_all ? lanes * task->blocks : lanes;
}

/* Waits until all of its team are here: they can only meet if they run at the same time. */
static const char *kernel_meet(const struct run_task *t, uint32_t call)
{
    struct run *run = t->run;
    uint32_t first, count = team_of(&run->g->tasks[t->index], call, &first);
    uint32_t *met = &t->calls[first].met;
    uint64_t deadline;

    if (count == 1)
        return NULL;
    t->calls[call].thread = pthread_self();
    if (pipe_state != NULL)
        t->calls[call].pipe = pipe_state(PIPE_KEY, sizeof(uint64_t));
    __atomic_add_fetch(met, 1, __ATOMIC_RELAXED);
    deadline = now_ns() + (run->runner->meet_ns != 0 ? run->runner->meet_ns : MEET_NS);
    while (__atomic_load_n(met, __ATOMIC_RELAXED) < count) {
        if (__atomic_load_n(&run->is_spoilt, __ATOMIC_RELAXED))
            return "a kernel did not meet the others of its block or gang";
        if (now_ns() >= deadline)
            __atomic_store_n(&run->is_spoilt, true, __ATOMIC_RELAXED);
        pto_pause();
    }
    return NULL;
}

static uint64_t mail_for(const struct run_task *t)
{
    return t->run->g->tasks[t->index].salt | 1;
}

/* Its first invocation raises the counters that others wait for. */
static void notify_others(struct run *run, uint32_t index)
{
    for (uint32_t i = 0; i < run->deferred_count; i++) {
        struct run_task *t = &run->tasks[run->deferred[i]];
        const struct check_defer *d = &run->g->tasks[t->index].defer;

        for (uint32_t k = 0; k < d->notifier_count; k++) {
            if (d->notifiers[k] != index)
                continue;
            t->notified[k] = tick(run);
            pto_notify_add(&t->counter, 1);
        }
    }
}

/* What was written before the last notification must be here, for all that follow. */
static const char *read_mail(const struct run *run, uint32_t index)
{
    for (uint32_t i = 0; i < run->deferred_count; i++) {
        const struct run_task *t = &run->tasks[run->deferred[i]];
        const struct check_task *task = &run->g->tasks[t->index];

        if (!run->oracle->runs[t->index] || !bit_get(graph_ancestors(run->g, index), t->index))
            continue;
        for (uint32_t k = 0; k < task->defer.notifier_count; k++) {
            if (t->notified[k] == 0)
                return "a kernel ran before one that a deferred task waits for";
        }
        for (uint32_t k = 0; k < t->call_count && task->defer.has_helper; k++) {
            if (check_call_defers(task, k) && t->calls[k].mail != mail_for(t))
                return "a kernel ran before the conditions of a deferred task held";
        }
    }
    return NULL;
}

/* How often the counter of a deferred task is raised in the end. */
static uint32_t count_notifications(const struct run_task *t)
{
    const struct check_task *task = &t->run->g->tasks[t->index];
    uint32_t count = task->defer.notifier_count;

    for (uint32_t k = 0; k < t->call_count && task->defer.has_helper; k++)
        count += check_call_defers(task, k);
    return count;
}

/* One of the conditions, anywhere among those of one invocation, holds last; the others earlier. */
static const char *register_conditions(const int64_t *args, struct run_task *t, uint32_t call)
{
    const struct check_task *task = &t->run->g->tasks[t->index];
    uint32_t expected = count_notifications(t);
    uint32_t place = task->salt % task->defer.conditions;
    bool has_last = task->defer.who != CHECK_ALL || call == (task->salt >> 16) % t->call_count;

    for (uint32_t k = 0; k < task->defer.conditions; k++) {
        bool is_last = has_last && k == place;

        if (!pto_defer(args, &t->counter, is_last ? expected : expected * k / 3))
            return "a kernel could not register a condition";
    }
    return NULL;
}

/* Which invocation it is; UINT32_MAX: none of the task's. */
static uint32_t find_call(const struct run_task *t, const int64_t *args, uint32_t lane)
{
    const struct check_task *task = &t->run->g->tasks[t->index];
    uint32_t before = task->lanes & ((1u << lane) - 1);
    uint32_t block;

    if (pto_arg_local(args) == NULL || (task->lanes >> lane & 1) == 0)
        return UINT32_MAX;
    block = (uint32_t)pto_block_index(args);
    if (block >= task->blocks)
        return UINT32_MAX;
    return block * check_lane_count(task) + (uint32_t)__builtin_popcount(before);
}

/* What the kernel does with its regions; the helper goes on where it defers. */
static const char *kernel_work(const int64_t *args, struct run_task *t, uint32_t index)
{
    const struct check_task *task = &t->run->g->tasks[t->index];
    struct run_call *call = &t->calls[index];
    struct check_region regions[PTO_TASK_TENSORS_MAX];
    bool defers = check_call_defers(task, index);
    const char *fault = NULL;
    struct job *job;

    for (uint32_t k = 0; k < task->arg_count; k++)
        regions[k] = check_region_from_tensor(pto_arg_tensor(args, (int)k));
    if (t->run->g->is_compared) /* else its kernels race, and the bytes mean nothing */
        call->hash = effect_read(t, index, regions);
    if (defers)
        fault = register_conditions(args, t, index);
    if (fault == NULL && defers && task->defer.has_helper) {
        job = check_alloc(NULL, 1, sizeof(*job));
        *job = (struct job){ .task = t, .call = index };
        job->sleep_us = task->salt % 4 == 0 ? (uint32_t)(task->salt >> 8 & 127) : 0;
        memcpy(job->regions, regions, task->arg_count * sizeof(regions[0]));
        helper_add(&t->run->runner->helper, job);
    } else if (t->run->g->is_compared) {
        effect_write(t, index, regions, call->hash);
    }
    return fault;
}

/* All but the clock; what was wrong, or NULL. */
static const char *kernel_run(const int64_t *args, struct run_task *t, uint32_t index,
                              uint32_t lane)
{
    struct run *run = t->run;
    const char *fault = kernel_judge(t, args, lane);

    if (run->is_held && !__atomic_load_n(&run->is_built, __ATOMIC_RELAXED))
        fault = "a kernel ran before the graph was complete";
    if (fault == NULL)
        fault = read_mail(run, t->index);
    if (fault == NULL)
        fault = kernel_meet(t, index);
    if (fault != NULL)
        return fault;
    if (index == 0) {
        t->id_seen = pto_arg_local(args)->task.raw;
        for (uint32_t k = 0; k < run->g->tasks[t->index].arg_count; k++)
            run->seen[t->first_arg + k] = *pto_arg_tensor(args, (int)k);
    }
    kernel_delay(t, index);
    return kernel_work(args, t, index);
}

static void kernel_body(const int64_t *args, struct run_task *t, uint32_t lane)
{
    const struct check_task *task = &t->run->g->tasks[t->index];
    struct run *run = t->run;
    uint64_t start = tick(run);
    uint32_t index = find_call(t, args, lane);
    struct run_call *call;
    const char *fault;
    bool is_left;

    if (index == UINT32_MAX) {
        __atomic_add_fetch(&t->strays, 1, __ATOMIC_RELAXED);
        return;
    }
    call = &t->calls[index];
    if (__atomic_add_fetch(&call->runs, 1, __ATOMIC_RELAXED) != 1)
        return;
    call->start = start;
    __atomic_add_fetch(&t->started, 1, __ATOMIC_RELAXED);
    if (index == 0)
        notify_others(run, t->index);
    is_left = check_call_defers(task, index) && task->defer.has_helper;
    fault = kernel_run(args, t, index, lane);
    if (fault != NULL) {
        call->fault = fault;
        __atomic_store_n(&run->is_spoilt, true, __ATOMIC_RELAXED); /* others need not wait */
        if (is_left)
            pto_notify_add(&t->counter, 1);
    }
    if (!is_left || fault != NULL)
        call->end = tick(run);
}

/* A kernel for each number of tensors, because the scalar with the task comes after them. */
/* clang-format off */
#define COUNTS(X)                                                                               \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) \
    X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)   \
    X(32)
/* clang-format on */
#define BARES(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

#define KERNEL(n, lane)                                                 \
    static void kernel_of_##n##_##lane(int64_t *args)                   \
    {                                                                   \
        kernel_body(args, (struct run_task *)(uintptr_t)args[n], lane); \
    }
#define X(n) KERNEL(n, 0) KERNEL(n, 1) KERNEL(n, 2)
COUNTS(X)
#undef X
#define BARE(n, lane)                                   \
    static void kernel_bare_##n##_##lane(int64_t *args) \
    {                                                   \
        kernel_body(args, bare_tasks[n], lane);         \
    }
#define X(n) BARE(n, 0) BARE(n, 1) BARE(n, 2)
BARES(X)
#undef X

static int make_check_callable(struct pto_callable **callable_out)
{
#define X0(n) kernel_of_##n##_0,
#define X1(n) kernel_of_##n##_1,
#define X2(n) kernel_of_##n##_2,
#define Y0(n) kernel_bare_##n##_0,
#define Y1(n) kernel_bare_##n##_1,
#define Y2(n) kernel_bare_##n##_2,
    static const pto_kernel_fn functions[CHECK_LANES][KERNELS_A_LANE] = {
        { COUNTS(X0) BARES(Y0) }, { COUNTS(X1) BARES(Y1) }, { COUNTS(X2) BARES(Y2) }
    };
#undef X0
#undef X1
#undef X2
#undef Y0
#undef Y1
#undef Y2
    struct pto_kernel kernels[CHECK_LANES * KERNELS_A_LANE];
    struct pto_callable_params params;

    pipe_state = (pipe_state_fn)dlsym(RTLD_DEFAULT, "pto_sim_get_pipe_shared_state");
    for (uint32_t i = 0; i < CHECK_LANES * KERNELS_A_LANE; i++)
        kernels[i] =
            (struct pto_kernel){ "check", functions[i / KERNELS_A_LANE][i % KERNELS_A_LANE],
                                 i < KERNELS_A_LANE ? PTO_CORE_AIC : PTO_CORE_AIV };
    pto_callable_params_init(&params);
    params.name = "check";
    params.orchestration = orchestrate;
    params.kernels = kernels;
    params.kernel_count = CHECK_LANES * KERNELS_A_LANE;
    return pto_callable_create(&params, callable_out);
}

/* ---- the helper ---- */

static void helper_do(struct job *job)
{
    struct run_task *t = job->task;
    struct run_call *call = &t->calls[job->call];

    if (job->sleep_us != 0)
        usleep(job->sleep_us);
    if (t->run->g->is_compared)
        effect_write(t, job->call, job->regions, call->hash);
    call->mail = mail_for(t);
    call->end = tick(t->run);
    pto_notify_add(&t->counter, 1);
}

static void *helper_main(void *arg)
{
    struct helper *h = arg;

    pthread_mutex_lock(&h->lock);
    while (!h->is_ending || h->first != NULL) {
        struct job *job = h->first;

        if (job == NULL) {
            pthread_cond_wait(&h->changed, &h->lock);
            continue;
        }
        h->first = job->next;
        if (h->first == NULL)
            h->last = &h->first;
        h->is_busy = true;
        pthread_mutex_unlock(&h->lock);
        helper_do(job);
        free(job);
        pthread_mutex_lock(&h->lock);
        h->is_busy = false;
        pthread_cond_broadcast(&h->changed);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

static int helper_start(struct helper *h)
{
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, NULL);
    h->last = &h->first;
    return pthread_create(&h->thread, NULL, helper_main, h) == 0 ? PTO_OK : PTO_ESYSTEM;
}

static void helper_end(struct helper *h)
{
    pthread_mutex_lock(&h->lock);
    h->is_ending = true;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
}

static void helper_add(struct helper *h, struct job *job)
{
    pthread_mutex_lock(&h->lock);
    *h->last = job;
    h->last = &job->next;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

/* Waits until it has nothing to do. */
static void helper_drain(struct helper *h)
{
    pthread_mutex_lock(&h->lock);
    while (h->first != NULL || h->is_busy)
        pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

/* ---- orchestration ---- */

static bool scope_holds(const struct check_graph *g, uint32_t outer, uint32_t inner)
{
    int32_t s = (int32_t)inner;

    while (s >= 0 && (uint32_t)s != outer)
        s = g->scopes[s].parent;
    return s >= 0;
}

static void open_scopes(struct pto_orch *o, const struct check_graph *g, uint32_t from, uint32_t to)
{
    if (from == to)
        return;
    open_scopes(o, g, from, (uint32_t)g->scopes[to].parent);
    pto_scope_begin(o, g->scopes[to].is_manual ? PTO_SCOPE_MANUAL : PTO_SCOPE_AUTO);
}

/* A descriptor as the orchestration would have made it with views. */
static struct pto_tensor place_tensor(const struct run *run, int32_t creator, uint32_t output,
                                      const struct check_region *r)
{
    struct pto_tensor t;

    if (creator >= 0) {
        const struct check_task *task = &run->g->tasks[creator];
        uint32_t k = 0;

        while (task->args[k].tag != PTO_TAG_OUTPUT || task->args[k].output != output)
            k++;
        t = run->given[run->tasks[creator].first_arg + k];
    } else {
        memset(&t, 0, sizeof(t));
        t.addr = (uint64_t)(uintptr_t)run->arena + (r->addr - CHECK_ARENA_BASE);
        t.size = r->size;
        t.owner = pto_task_id_invalid();
    }
    t.start = r->start;
    t.version = r->version;
    t.ndims = r->ndims;
    t.dtype = (uint8_t)r->dtype;
    t.manual_dep = r->manual_dep;
    memcpy(t.shapes, r->shapes, sizeof(t.shapes));
    memcpy(t.strides, r->strides, sizeof(t.strides));
    pto_tensor_update(&t);
    return t;
}

static struct pto_tensor make_given(const struct run *run, const struct check_arg *arg)
{
    return place_tensor(run, arg->creator, arg->output, &arg->region);
}

static struct pto_tensor element_tensor(const struct run *run, const struct check_element *e)
{
    return place_tensor(run, e->creator, e->output, &e->region);
}

/* What the submit returned: the id, and a descriptor for each output. */
static void take_outputs(struct run *run, struct run_task *t, const struct pto_outputs *out)
{
    const struct check_task *task = &run->g->tasks[t->index];
    uint32_t depth = run->g->scopes[task->scope].depth;
    uint32_t ring = depth < RINGS ? depth : RINGS - 1;
    uint32_t local = pto_task_id_local(out->task);
    uint32_t count = 0;
    const char *fault;

    t->id = out->task.raw;
    if (pto_task_id_ring(out->task) != ring || local != run->ring_count[ring])
        find(run->findings, t->index, -1,
             "a task id is %#" PRIx64 ", not ring %" PRIu32 " and number %" PRIu32, t->id, ring,
             run->ring_count[ring]);
    run->ring_count[ring] = local + 1;
    for (uint32_t k = 0; k < task->arg_count; k++) {
        struct pto_tensor *given = &run->given[t->first_arg + k];

        if (task->args[k].tag != PTO_TAG_OUTPUT || count++ >= out->count)
            continue;
        *given = out->tensor[count - 1];
        fault = tensor_judge(given, &task->args[k].region);
        if (fault != NULL)
            find(run->findings, t->index, -1, "a submit returned an output with wrong %s", fault);
        if (given->owner.raw != out->task.raw)
            find(run->findings, t->index, -1, "an output's owner is not the task that made it");
    }
    if (count != out->count)
        find(run->findings, t->index, -1, "a submit returned %" PRIu32 " outputs, not %" PRIu32,
             out->count, count);
}

static int32_t kernel_id(const struct run_task *t, uint32_t lane)
{
    const struct check_task *task = &t->run->g->tasks[t->index];
    uint32_t number = task->scalar_count != 0 ? task->arg_count : KERNELS_BY_COUNT + t->bare;

    return (task->lanes >> lane & 1) != 0 ? (int32_t)(lane * KERNELS_A_LANE + number) : -1;
}

static void set_launch(const struct run_task *t, struct pto_args *args,
                       struct pto_predicate *predicate, struct pto_tensor *operand)
{
    const struct check_task *task = &t->run->g->tasks[t->index];
    const struct check_predicate *p = &task->predicate;

    if (task->blocks > 1)
        pto_set_blocks(args, (int32_t)task->blocks);
    pto_set_sync_start(args, task->is_gang);
    pto_set_early_resolve(args, task->is_early);
    if (task->timing != 0)
        pto_set_timing_slot(args, task->timing - 1);
    if (!p->is_used && !p->is_null)
        return;
    *operand = element_tensor(t->run, &p->element);
    if (p->is_null && task->salt % 2 == 0)
        operand->addr = 0;
    predicate->tensor = operand;
    predicate->ndims = p->element.ndims;
    memcpy(predicate->indices, p->element.indices, sizeof(predicate->indices));
    predicate->op = p->is_null && task->salt % 2 != 0 ? PTO_PREDICATE_NONE : p->op;
    predicate->target = t->run->oracle->target[t->index];
    pto_set_predicate(args, predicate);
}

static void submit_task(struct pto_orch *o, struct run *run, struct run_task *t)
{
    const struct check_task *task = &run->g->tasks[t->index];
    struct pto_tensor_info infos[PTO_TASK_TENSORS_MAX];
    struct pto_task_id *deps = check_alloc(NULL, task->dep_count, sizeof(*deps));
    uint8_t *kinds = check_alloc(NULL, task->dep_count, sizeof(*kinds));
    struct pto_predicate predicate;
    struct pto_tensor operand;
    struct pto_outputs out;
    struct pto_args args;

    pto_args_init(&args);
    for (uint32_t k = 0; k < task->arg_count; k++) {
        const struct check_arg *arg = &task->args[k];
        struct pto_tensor *given = &run->given[t->first_arg + k];

        if (arg->tag == PTO_TAG_OUTPUT) {
            infos[k] = pto_tensor_info_make(arg->region.shapes, arg->region.ndims,
                                            (enum pto_dtype)arg->region.dtype);
            infos[k].manual_dep = arg->region.manual_dep;
            infos[k].version = arg->region.version;
            if (arg->has_initial)
                pto_tensor_info_fill(&infos[k], arg->initial);
            pto_add_output(&args, &infos[k]);
        } else {
            *given = make_given(run, arg);
            pto_args_add(&args, given, (enum pto_tag)arg->tag);
        }
    }
    for (uint32_t i = 0; i < task->scalar_count; i++)
        pto_add_scalar(&args, task_scalar(t, i));
    for (uint32_t i = 0; i < task->dep_count; i++) {
        deps[i].raw = run->tasks[task->deps[i].task].id;
        kinds[i] = task->deps[i].kind;
    }
    if (task->dep_count != 0)
        pto_set_deps(&args, deps, task->has_kinds ? kinds : NULL, task->dep_count);
    if (task->kind != CHECK_ALLOC)
        set_launch(t, &args, &predicate, &operand);
    if (task->kind == CHECK_ALLOC)
        out = pto_alloc_tensors(o, &args);
    else if (task->kind == CHECK_DUMMY)
        out = pto_submit_dummy(o, &args);
    else if (task->lanes == CHECK_LANE_AIC)
        out = pto_submit_aic(o, kernel_id(t, 0), &args);
    else if (task->lanes == CHECK_LANE_AIV0)
        out = pto_submit_aiv(o, kernel_id(t, 1), &args);
    else
        out =
            pto_submit_mix(o, PTO_LANES(kernel_id(t, 0), kernel_id(t, 1), kernel_id(t, 2)), &args);
    free(deps);
    free(kinds);
    if (pto_orch_status(o) >= 0)
        take_outputs(run, t, &out);
}

static bool access_is_done(const struct check_access *access, bool is_held)
{
    return is_held ? access->is_held : access->is_streamed;
}

static void do_accesses(struct pto_orch *o, struct run *run, const struct run_task *t)
{
    const struct check_task *task = &run->g->tasks[t->index];

    for (uint32_t k = 0; k < task->access_count; k++) {
        const struct check_access *access = &task->accesses[k];
        const struct check_element *e = &access->element;
        uint64_t expected = run->oracle->got[t->first_access + k];
        struct pto_tensor tensor;
        uint64_t got;

        if (!access_is_done(access, run->is_held))
            continue;
        tensor = element_tensor(run, e);
        if (access->is_set) {
            pto_set_data(o, &tensor, e->ndims, e->indices, access->bits);
            continue;
        }
        got = pto_get_data(o, &tensor, e->ndims, e->indices);
        if (got != expected && pto_orch_status(o) >= 0)
            find(run->findings, t->index, -1,
                 "access %" PRIu32 " before task %" PRIu32 " got %#" PRIx64 ", not %#" PRIx64, k,
                 t->index, got, expected);
    }
}

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    struct run *run = (struct run *)(uintptr_t)entry->scalar[0];
    const struct check_graph *g = run->g;
    uint32_t scope = 0;

    if (pto_cluster_count(o) != g->clusters || pto_aiv_count(o) != PTO_CLUSTER_AIVS * g->clusters)
        find(run->findings, -1, -1, "the device has %" PRIu32 " clusters, not %" PRIu32,
             pto_cluster_count(o), g->clusters);
    for (uint32_t i = 0; i < g->task_count && pto_orch_status(o) >= 0; i++) {
        const struct check_task *task = &g->tasks[i];

        for (; !scope_holds(g, scope, task->scope); scope = (uint32_t)g->scopes[scope].parent)
            pto_scope_end(o);
        open_scopes(o, g, scope, task->scope);
        scope = task->scope;
        for (uint32_t k = 0; k < task->empty_scopes; k++) {
            pto_scope_begin(o, task->is_manual ? PTO_SCOPE_MANUAL : PTO_SCOPE_AUTO);
            pto_scope_end(o);
        }
        do_accesses(o, run, &run->tasks[i]);
        submit_task(o, run, &run->tasks[i]);
    }
    for (; g->scopes[scope].parent >= 0; scope = (uint32_t)g->scopes[scope].parent)
        pto_scope_end(o);
    __atomic_store_n(&run->is_built, true, __ATOMIC_RELAXED);
}

/* ---- one run ---- */

static struct counts count_all(const struct check_graph *g)
{
    struct counts n = { 0, 0, 0 };

    for (uint32_t i = 0; i < g->task_count; i++) {
        n.args += g->tasks[i].arg_count;
        n.calls += check_call_count(&g->tasks[i]);
        n.accesses += g->tasks[i].access_count;
    }
    return n;
}

static void fill_arena(uint8_t *arena, const struct check_graph *g)
{
    struct rng rng = { g->seed ^ 0x6172656e61 };

    for (uint32_t i = 0; i < g->arena_bytes; i++)
        arena[i] = (uint8_t)rng_next(&rng);
}

/* The oracle may be NULL: then it is only for descriptors and an arena. */
static void run_init(struct run *run, const struct check_graph *g, const struct oracle *oracle,
                     struct check_findings *findings)
{
    struct counts n = count_all(g), at = { 0, 0, 0 };
    uint32_t bare = 0;

    memset(run, 0, sizeof(*run));
    run->g = g;
    run->oracle = oracle;
    run->findings = findings;
    run->tasks = check_alloc(NULL, g->task_count, sizeof(*run->tasks));
    run->calls = check_alloc_aligned(n.calls * sizeof(*run->calls));
    run->deferred = check_alloc(NULL, g->task_count, sizeof(*run->deferred));
    run->given = check_alloc_aligned(n.args * sizeof(struct pto_tensor));
    run->seen = check_alloc_aligned(n.args * sizeof(struct pto_tensor));
    run->arena = check_alloc_aligned(g->arena_bytes);
    fill_arena(run->arena, g);
    for (uint32_t i = 0; i < g->task_count; i++) {
        struct run_task *t = &run->tasks[i];

        memset(t, 0, sizeof(*t));
        t->run = run;
        t->index = i;
        t->first_arg = at.args;
        t->first_access = at.accesses;
        t->calls = run->calls + at.calls;
        t->call_count = check_call_count(&g->tasks[i]);
        at.args += g->tasks[i].arg_count;
        at.accesses += g->tasks[i].access_count;
        at.calls += t->call_count;
        if (t->call_count != 0 && g->tasks[i].scalar_count == 0) {
            t->bare = bare++;
            bare_tasks[t->bare] = t;
        }
        if (g->tasks[i].defer.is_on)
            run->deferred[run->deferred_count++] = i;
    }
}

static void run_fini(struct run *run)
{
    free(run->tasks);
    free(run->calls);
    free(run->deferred);
    free(run->given);
    free(run->seen);
    free(run->arena);
    free(run->found);
}

static void compare_timing(const struct run *run, const struct pto_run_report *report)
{
    const struct check_graph *g = run->g;
    uint64_t least[PTO_TIMING_SLOTS] = { 0 }; /* ns */
    bool is_used[PTO_TIMING_SLOTS] = { false };

    for (uint32_t i = 0; i < g->task_count; i++) {
        const struct check_task *task = &g->tasks[i];
        uint64_t ns = (uint64_t)task->sleep_us * 1000;

        if (task->timing == 0 || !run->oracle->runs[i])
            continue;
        is_used[task->timing - 1] = true;
        if (ns > least[task->timing - 1])
            least[task->timing - 1] = ns;
    }
    for (uint32_t i = 0; i < PTO_TIMING_SLOTS; i++) {
        const struct pto_timing *timing = &report->timing[i];
        uint64_t ns = timing->end_ns - timing->begin_ns;

        /* Half of it: two clocks are involved. */
        if ((timing->end_ns != 0) != is_used[i] || ns < least[i] / 2 || ns > report->ns * 2)
            find(run->findings, -1, -1,
                 "timing slot %" PRIu32 " is from %" PRIu64 " to %" PRIu64 " ns", i,
                 timing->begin_ns, timing->end_ns);
    }
}

/* How often what ran, and where. */
static void compare_report(const struct run *run, const struct pto_run_report *report)
{
    const struct check_graph *g = run->g;
    uint64_t expected[PTO_CORE_TYPES] = { 0, 0 }, got[PTO_CORE_TYPES] = { 0, 0 };

    for (uint32_t i = 0; i < g->task_count; i++) {
        const struct check_task *task = &g->tasks[i];

        if (!run->oracle->runs[i])
            continue;
        expected[PTO_CORE_AIC] += (task->lanes & CHECK_LANE_AIC) != 0 ? task->blocks : 0;
        expected[PTO_CORE_AIV] +=
            (uint64_t)task->blocks *
            (uint32_t)__builtin_popcount(task->lanes & (CHECK_LANE_AIV0 | CHECK_LANE_AIV1));
    }
    for (uint32_t i = 0; i < report->core_count; i++)
        got[i < g->clusters ? PTO_CORE_AIC : PTO_CORE_AIV] += report->core_tasks[i];
    if (report->tasks != g->task_count)
        find(run->findings, -1, -1, "the report counts %" PRIu64 " tasks, not %" PRIu32,
             report->tasks, g->task_count);
    if (report->executions != expected[PTO_CORE_AIC] + expected[PTO_CORE_AIV])
        find(run->findings, -1, -1, "the report counts %" PRIu64 " executions, not %" PRIu64,
             report->executions, expected[PTO_CORE_AIC] + expected[PTO_CORE_AIV]);
    for (uint32_t type = 0; type < PTO_CORE_TYPES; type++) {
        if (got[type] != expected[type])
            find(run->findings, -1, -1,
                 "the cores of type %" PRIu32 " ran %" PRIu64 " invocations, not %" PRIu64, type,
                 got[type], expected[type]);
    }
    compare_timing(run, report);
}

/* False if the run failed; then nothing can be compared. */
static bool run_go(struct run *run, struct check_runner *r, struct pto_run_options *options)
{
    uint64_t scalar = (uint64_t)(uintptr_t)run;
    struct pto_entry entry = { 0, 1, NULL, &scalar };
    struct pto_run_report *report = check_alloc(NULL, 1, sizeof(*report));
    int status;

    pto_run_report_init(report);
    run->runner = r;
    run->is_held = options->mode == PTO_MODE_HOST;
    status = pto_run(r->device, r->callable, &entry, options, report);
    run->is_alone = report->workers == 1 && report->takeovers == 0;
    for (uint32_t i = 0; i < run->deferred_count && status >= 0; i++) {
        const struct run_task *t = &run->tasks[run->deferred[i]];

        if (run->oracle->runs[t->index] && pto_notified(&t->counter) < count_notifications(t))
            find(run->findings, t->index, -1,
                 "the run ended before the conditions of %" PRIu32 " held", t->index);
    }
    helper_drain(&r->helper); /* a run that failed does not wait for it */
    if (status < 0)
        find(run->findings, -1, -1, "the run failed with %d (%s): %s", status, pto_strerror(status),
             report->error.text);
    else
        compare_report(run, report);
    free(report);
    return status >= 0;
}

static bool note_edge(void *context, uint64_t before, uint64_t after)
{
    struct run *run = context;

    if (before >= run->g->task_count || after >= run->g->task_count) {
        find(run->findings, -1, -1,
             "an edge names a task that does not exist: %" PRIu64 " -> %" PRIu64, before, after);
        return true;
    }
    if (run->found != NULL)
        bit_set(run->found + (size_t)after * run->g->words, (uint32_t)before);
    if (run->is_dropping && before == run->drop_before && after == run->drop_after) {
        run->is_dropped = true;
        return false;
    }
    return true;
}

/* ---- the sequential execution ---- */

static void oracle_fill(uint8_t *memory, const struct check_arg *arg)
{
    uint32_t e = pto_dtype_size(arg->region.dtype);

    for (uint64_t at = 0; at < arg->region.size && arg->has_initial; at += e)
        memcpy(memory + at, &arg->initial, e);
}

static uint64_t element_addr(const struct run *memory, const struct check_element *e)
{
    struct pto_tensor t = element_tensor(memory, e);
    struct check_region view = check_region_from_tensor(&t);
    struct check_element there = *e;
    struct check_region element;

    there.region = view;
    element = check_element_region(&there);
    return element.addr + element.start * pto_dtype_size(element.dtype);
}

static void oracle_access(struct oracle *oracle, struct run *memory, uint32_t index)
{
    const struct check_task *task = &memory->g->tasks[index];

    for (uint32_t k = 0; k < task->access_count; k++) {
        const struct check_access *access = &task->accesses[k];
        uint32_t size = pto_dtype_size(access->element.region.dtype);

        if (!access_is_done(access, memory->is_held))
            continue;
        if (access->is_set)
            store_element(element_addr(memory, &access->element), size, access->bits);
        else
            oracle->got[memory->tasks[index].first_access + k] =
                load_element(element_addr(memory, &access->element), size);
    }
}

static int64_t sign_extend(uint64_t bits, uint32_t size)
{
    uint64_t sign = (uint64_t)1 << (8 * size - 1);

    return (int64_t)((bits ^ sign) - sign);
}

/* Decides what is compared with, and whether the task runs. */
static void oracle_predicate(struct oracle *oracle, const struct run *memory, uint32_t index)
{
    const struct check_task *task = &memory->g->tasks[index];
    const struct check_predicate *p = &task->predicate;
    int64_t value = 0, target = p->target;

    oracle->runs[index] = check_task_has_kernel(task);
    oracle->target[index] = target;
    if (!check_task_has_predicate(task))
        return;
    value = (int64_t)load_element(element_addr(memory, &p->element),
                                  pto_dtype_size(p->element.region.dtype));
    value = sign_extend((uint64_t)value, pto_dtype_size(p->element.region.dtype));
    if (!p->is_fixed)
        target = (int64_t)((uint64_t)value + (uint64_t)target);
    oracle->target[index] = target;
    oracle->runs[index] = oracle->runs[index] && (p->op == PTO_PREDICATE_EQ   ? value == target
                                                  : p->op == PTO_PREDICATE_NE ? value != target
                                                  : p->op == PTO_PREDICATE_GT ? value > target
                                                  : p->op == PTO_PREDICATE_LT ? value < target
                                                  : p->op == PTO_PREDICATE_GE ? value >= target
                                                                              : value <= target);
}

static void oracle_task(struct oracle *oracle, const struct run *memory, uint32_t index)
{
    const struct run_task *t = &memory->tasks[index];
    uint32_t arg_count = memory->g->tasks[index].arg_count;
    struct check_region regions[PTO_TASK_TENSORS_MAX];

    for (uint32_t k = 0; k < arg_count; k++)
        regions[k] = check_region_from_tensor(&memory->given[t->first_arg + k]);
    for (uint32_t k = 0; k < t->call_count; k++) {
        uint64_t hash = effect_read(t, k, regions);

        effect_write(t, k, regions, hash);
        oracle->hash[t->calls - memory->calls + k] = hash;
    }
}

/*
 * If the graph is complete before the first task runs, everything that the
 * orchestration does comes first; else each thing in its turn.
 */
static void oracle_init(struct oracle *oracle, const struct check_graph *g, bool is_held)
{
    struct run memory; /* only for its descriptors and its arena */
    struct counts n = count_all(g);
    uint8_t **outputs = check_alloc(NULL, n.args, sizeof(*outputs));
    uint32_t output_count = 0;

    run_init(&memory, g, NULL, NULL);
    memory.is_held = is_held;
    oracle->hash = check_alloc(NULL, n.calls, sizeof(*oracle->hash));
    oracle->runs = check_alloc(NULL, g->task_count, sizeof(*oracle->runs));
    oracle->target = check_alloc(NULL, g->task_count, sizeof(*oracle->target));
    oracle->got = check_alloc(NULL, n.accesses, sizeof(*oracle->got));
    memset(oracle->got, 0, n.accesses * sizeof(*oracle->got));
    for (uint32_t i = 0; i < g->task_count && is_held; i++)
        oracle_access(oracle, &memory, i);
    for (uint32_t i = 0; i < g->task_count; i++) {
        const struct check_task *task = &g->tasks[i];
        struct pto_tensor *given = memory.given + memory.tasks[i].first_arg;

        if (!is_held)
            oracle_access(oracle, &memory, i);
        for (uint32_t k = 0; k < task->arg_count; k++) {
            const struct check_arg *arg = &task->args[k];

            if (arg->tag == PTO_TAG_OUTPUT) {
                outputs[output_count] = check_alloc_aligned(arg->region.size);
                oracle_fill(outputs[output_count], arg);
                given[k].addr = (uint64_t)(uintptr_t)outputs[output_count++];
                given[k].size = arg->region.size;
            }
            given[k] = make_given(&memory, arg);
        }
        oracle_predicate(oracle, &memory, i);
        if (oracle->runs[i] && g->is_compared)
            oracle_task(oracle, &memory, i);
    }
    for (uint32_t i = 0; i < output_count; i++)
        free(outputs[i]);
    free(outputs);
    oracle->arena = memory.arena;
    memory.arena = NULL;
    run_fini(&memory);
}

static void oracle_fini(struct oracle *oracle)
{
    free(oracle->arena);
    free(oracle->hash);
    free(oracle->runs);
    free(oracle->target);
    free(oracle->got);
}

/* ---- comparison ---- */

static void compare_edges(const struct run *run)
{
    const struct check_graph *g = run->g;

    for (uint32_t b = 0; b < g->task_count; b++) {
        const uint64_t *found = run->found + (size_t)b * g->words;

        for (uint32_t a = 0; a < g->task_count; a++) {
            bool is_expected = bit_get(graph_before(g, b), a);

            if (bit_get(found, a) != is_expected)
                find(run->findings, a, b, "%s edge %" PRIu32 " -> %" PRIu32,
                     is_expected ? "missing" : "spurious", a, b);
        }
    }
}

static void compare_calls(const struct run *run, const struct run_task *t)
{
    const struct check_graph *g = run->g;
    uint32_t runs = run->oracle->runs[t->index] ? 1 : 0;

    if (t->strays != 0)
        find(run->findings, t->index, -1,
             "%" PRIu32 " invocations of %" PRIu32 " got a block or a lane that it does not have",
             t->strays, t->index);
    for (uint32_t k = 0; k < t->call_count; k++) {
        const struct run_call *call = &t->calls[k];

        if (call->runs != runs)
            find(run->findings, t->index, -1,
                 "invocation %" PRIu32 " of %" PRIu32 " ran %" PRIu32 " times, not %" PRIu32, k,
                 t->index, call->runs, runs);
        else if (call->fault != NULL)
            find(run->findings, t->index, -1, "%s", call->fault);
        /* One worker starts blocks as it claims them, in order. */
        else if (run->is_alone && k > 0 && check_lane_count(&g->tasks[t->index]) == 1 &&
                 !g->tasks[t->index].is_gang && call->start < t->calls[k - 1].start)
            find(run->findings, t->index, -1,
                 "block %" PRIu32 " of %" PRIu32 " started before the one before it", k, t->index);
    }
}

static void compare_tasks(const struct run *run)
{
    const struct check_graph *g = run->g;

    for (uint32_t i = 0; i < g->task_count; i++) {
        const struct run_task *t = &run->tasks[i];

        compare_calls(run, t);
        if (t->call_count == 0 || t->calls[0].runs != 1 || t->calls[0].fault != NULL)
            continue;
        if (t->id_seen != t->id)
            find(run->findings, i, -1,
                 "the kernel got task id %#" PRIx64 ", the submit returned %#" PRIx64, t->id_seen,
                 t->id);
        for (uint32_t k = 0; k < g->tasks[i].arg_count; k++) {
            const struct pto_tensor *given = &run->given[t->first_arg + k];
            const struct pto_tensor *seen = &run->seen[t->first_arg + k];

            if (seen->addr != given->addr || seen->owner.raw != given->owner.raw)
                find(run->findings, i, -1,
                     "argument %" PRIu32 " of %" PRIu32
                     " names another storage or owner than was submitted",
                     k, i);
        }
    }
}

/* Two invocations of one team: what they must share, and what they must not. */
static const char *judge_pair(const struct check_task *task, const struct run_task *t, uint32_t a,
                              uint32_t b)
{
    uint32_t lanes = check_lane_count(task);
    bool is_block = a / lanes == b / lanes;

    if (pthread_equal(t->calls[a].thread, t->calls[b].thread))
        return "two invocations that run at the same time share a thread";
    if (is_block && t->calls[a].pipe != t->calls[b].pipe)
        return "the lanes of a block are on different clusters";
    if (!is_block && task->is_gang && task->kind != CHECK_AIV && pipe_state != NULL &&
        t->calls[a].pipe == t->calls[b].pipe)
        return "two blocks of a gang are on one cluster";
    return NULL;
}

static void compare_teams(const struct run *run)
{
    for (uint32_t i = 0; i < run->g->task_count; i++) {
        const struct check_task *task = &run->g->tasks[i];
        const struct run_task *t = &run->tasks[i];

        for (uint32_t b = 0; b < t->call_count && run->oracle->runs[i]; b++) {
            uint32_t first;

            (void)team_of(task, b, &first);
            for (uint32_t a = first; a < b; a++) {
                const char *fault = judge_pair(task, t, a, b);

                if (fault != NULL)
                    find(run->findings, i, -1,
                         "invocations %" PRIu32 " and %" PRIu32 " of %" PRIu32 ": %s", a, b, i,
                         fault);
            }
        }
    }
}

/* When a task that ran was over: with its last invocation, and its last notification. */
static uint64_t last_end(const struct check_task *task, const struct run_task *t)
{
    uint64_t end = 0;

    for (uint32_t k = 0; k < t->call_count; k++)
        end = t->calls[k].end > end ? t->calls[k].end : end;
    for (uint32_t k = 0; k < task->defer.notifier_count && task->defer.is_on; k++)
        end = t->notified[k] > end ? t->notified[k] : end;
    return end;
}

static uint64_t first_start(const struct run_task *t)
{
    uint64_t start = t->calls[0].start;

    for (uint32_t k = 1; k < t->call_count; k++)
        start = t->calls[k].start < start ? t->calls[k].start : start;
    return start;
}

/* A task that runs nothing is complete when all it waits for is. */
static void compare_order(const struct run *run)
{
    const struct check_graph *g = run->g;
    uint64_t *done = check_alloc(NULL, g->task_count, sizeof(*done));

    for (uint32_t b = 0; b < g->task_count; b++) {
        const struct run_task *t = &run->tasks[b];
        bool has_run = run->oracle->runs[b];
        uint64_t start = has_run ? first_start(t) : 0;

        done[b] = has_run ? last_end(&g->tasks[b], t) : 0;
        for (uint32_t a = 0; a < b; a++) {
            if (!bit_get(graph_before(g, b), a))
                continue;
            if (has_run && done[a] >= start)
                find(run->findings, a, b, "task %" PRIu32 " started before %" PRIu32 " had ended",
                     b, a);
            if (!has_run && done[a] > done[b])
                done[b] = done[a];
        }
    }
    free(done);
}

static void compare_bytes(const struct run *run, const struct oracle *oracle)
{
    const struct check_graph *g = run->g;

    for (uint32_t i = 0; i < g->task_count; i++) {
        const struct run_task *t = &run->tasks[i];

        for (uint32_t k = 0; k < t->call_count && oracle->runs[i]; k++) {
            if (t->calls[k].hash != oracle->hash[t->calls - run->calls + k])
                find(run->findings, i, -1,
                     "invocation %" PRIu32 " of %" PRIu32 " read other bytes than in sequence", k,
                     i);
        }
    }
    for (uint32_t i = 0; i < g->arena_bytes; i++) {
        if (run->arena[i] != oracle->arena[i]) {
            find(run->findings, -1, -1, "external byte %" PRIu32 " is %#x, not %#x", i,
                 run->arena[i], oracle->arena[i]);
            return;
        }
    }
}

static void find(struct check_findings *findings, int64_t a, int64_t b, const char *format, ...)
{
    struct check_finding *item = &findings->item[findings->count];
    va_list list;

    if (findings->count++ >= FINDINGS_MAX)
        return;
    item->task[0] = (int32_t)a;
    item->task[1] = (int32_t)b;
    va_start(list, format);
    vsnprintf(item->text, sizeof(item->text), format, list);
    va_end(list);
}

void check_findings_print(const struct check_findings *findings, const struct check_graph *g)
{
    for (uint32_t i = 0; i < findings->count && i < FINDINGS_MAX; i++) {
        printf("%s\n", findings->item[i].text);
        for (int k = 0; k < 2; k++) {
            if (findings->item[i].task[k] >= 0)
                check_graph_print_task(g, (uint32_t)findings->item[i].task[k]);
        }
    }
    if (findings->count > FINDINGS_MAX)
        printf("and %" PRIu32 " more\n", findings->count - FINDINGS_MAX);
}
