/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of a random graph: the orchestration that submits it, the kernel that
 * reads and writes its regions, and the comparison afterwards.
 *
 * Kernels run on any thread. What they record belongs to their own task and is
 * read when pto_run has returned; the words others read meanwhile are accessed
 * relaxed, so that the checker orders nothing the engine should have ordered.
 */
#include "cli/check_run.h"

#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    KERNELS_BY_COUNT = PTO_TASK_TENSORS_MAX + 1,
    KERNELS_A_CORE = KERNELS_BY_COUNT + CHECK_BARE_MAX,
    RINGS = 4,
    GATE_NS = 500 * 1000 * 1000
};

struct runner {
    struct runner_params params;
    struct pto_device *device;
    struct pto_callable *callable;
};

/* One task of one run. */
struct run_task {
    struct run *run;
    uint32_t index;
    uint32_t first_arg; /* in `given` and `seen` */
    uint64_t id;        /* as the submit returned it */
    uint64_t id_seen;   /* as the kernel got it */
    uint32_t bare;      /* slot in bare_tasks, if there is no scalar */
    uint32_t runs;
    uint64_t start; /* of the run's clock; 0: not yet */
    uint64_t end;
    uint64_t hash;               /* of what the kernel read */
    const char *fault;           /* what was wrong with the argument vector */
    const struct run_task *gate; /* not NULL: first wait until that one has started */
};

struct run {
    const struct check_graph *g;
    struct findings *findings;
    struct run_task *tasks;
    struct pto_tensor *given; /* descriptors as submitted; outputs as created */
    struct pto_tensor *seen;  /* descriptors as the kernels got them */
    uint8_t *arena;
    uint64_t clock;
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
    uint64_t *hash;
};

/* Kernels without scalars: the only thing such a kernel has of its own is its code. */
static struct run_task *bare_tasks[CHECK_BARE_MAX];

static void find(struct findings *findings, int64_t a, int64_t b, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static int make_callable(struct pto_callable **callable_out);
static void orchestrate(struct pto_orch *o, const struct pto_entry *entry);
static void oracle_init(struct oracle *oracle, const struct check_graph *g);
static void oracle_fini(struct oracle *oracle);
static void run_init(struct run *run, const struct check_graph *g, struct findings *findings);
static void run_fini(struct run *run);
static bool run_go(struct run *run, struct runner *r, struct pto_run_options *options);
static bool note_edge(void *context, uint64_t before, uint64_t after);
static void compare_edges(const struct run *run);
static void compare_tasks(const struct run *run);
static void compare_order(const struct run *run);
static void compare_bytes(const struct run *run, const struct oracle *oracle);

int runner_open(const struct runner_params *params, struct runner **runner_out)
{
    struct runner *r = check_alloc(NULL, 1, sizeof(*r));
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
    status = make_callable(&r->callable);
    if (status < 0)
        goto close_device;
    *runner_out = r;
    return PTO_OK;

close_device:
    pto_device_close(r->device);
free_runner:
    free(r);
    return status;
}

void runner_close(struct runner *r)
{
    if (r == NULL)
        return;
    pto_callable_destroy(r->callable);
    pto_device_close(r->device);
    free(r);
}

void runner_check(struct runner *r, const struct check_graph *g, struct findings *findings)
{
    static const uint32_t windows[] = { 0, 2, 8, 64 };
    struct rng rng = { g->seed ^ 0x6f72646572 };
    struct pto_run_options options;
    struct oracle oracle;
    struct run run;

    memset(findings, 0, sizeof(*findings));
    if (g->unsound[0] >= 0)
        find(findings, g->unsound[0], g->unsound[1], "the rules leave a conflict unordered");
    oracle_init(&oracle, g);
    for (int is_held = 1; is_held >= 0 && findings->count == 0; is_held--) {
        run_init(&run, g, findings);
        pto_run_options_init(&options);
        options.deps = g->deps;
        if (is_held) {
            options.mode = PTO_MODE_HOST;
            options.edge = note_edge;
            options.edge_context = &run;
            run.found = check_alloc(NULL, (size_t)g->words * (g->task_count + 1), sizeof(uint64_t));
            memset(run.found, 0, sizeof(uint64_t) * g->words * (g->task_count + 1));
        } else {
            options.mode = r->params.mode;
            options.window = windows[rng_below(&rng, 4)];
            options.order_seed = rng_chance(&rng, 70) ? rng_next(&rng) : 0;
        }
        if (run_go(&run, r, &options)) {
            if (is_held)
                compare_edges(&run);
            compare_tasks(&run);
            compare_order(&run);
            if (g->is_compared && findings->count == 0)
                compare_bytes(&run, &oracle);
        }
        run_fini(&run);
    }
    oracle_fini(&oracle);
}

void runner_check_without(struct runner *r, const struct check_graph *g, uint32_t before,
                          uint32_t after, struct findings *findings)
{
    struct pto_run_options options;
    struct run run;

    memset(findings, 0, sizeof(*findings));
    run_init(&run, g, findings);
    run.is_dropping = true;
    run.drop_before = before;
    run.drop_after = after;
    run.tasks[before].gate = &run.tasks[after];
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

/* The work of a kernel: a hash of all it reads, then bytes made of it wherever it writes. */
static uint64_t kernel_effect(const struct check_task *task, uint32_t index,
                              const struct pto_tensor *tensors)
{
    uint64_t hash = rng_mix(index + 1);
    struct walk w;

    for (uint32_t k = 0; k < task->arg_count; k++) {
        struct region r = region_from_tensor(&tensors[k]);

        for (walk_init(&w, &r); task->args[k].reads && walk_next(&w);) {
            uint64_t bits = load_element(w.addr, pto_dtype_size(r.dtype));

            hash = rng_mix(hash ^ (bits + w.number * 0x9e3779b97f4a7c15u));
        }
    }
    for (uint32_t k = 0; k < task->arg_count; k++) {
        struct region r = region_from_tensor(&tensors[k]);

        for (walk_init(&w, &r); task->args[k].writes && walk_next(&w);) {
            uint64_t bits = rng_mix(hash + ((uint64_t)k << 32) + w.number);

            store_element(w.addr, pto_dtype_size(r.dtype), bits);
        }
    }
    return hash;
}

/* All that a descriptor says about the view, not where it is: NULL, or what is wrong. */
static const char *tensor_judge(const struct pto_tensor *t, const struct region *r)
{
    struct region seen;

    if (t->ndims != r->ndims)
        return "ndims";
    seen = region_from_tensor(t);
    if (memcmp(seen.shapes, r->shapes, sizeof(r->shapes)) != 0)
        return "shapes";
    if (memcmp(seen.strides, r->strides, sizeof(r->strides)) != 0)
        return "strides";
    if (t->start != r->start || t->dtype != r->dtype)
        return "start or dtype";
    if (t->extent != region_extent(r) || t->is_contiguous != region_is_contiguous(r))
        return "extent or is_contiguous";
    if (t->size != r->size)
        return "size";
    if (t->version != r->version || t->manual_dep != r->manual_dep)
        return "version or manual_dep";
    return NULL;
}

static const char *kernel_judge(const struct run_task *t, const int64_t *args)
{
    const struct check_task *task = &t->run->g->tasks[t->index];
    const struct pto_local_context *local = pto_arg_local(args);

    if (local == NULL || pto_arg_global(args) == NULL)
        return "a kernel got no context";
    if (local->block_index != 0 || local->block_count != 1)
        return "a kernel got a wrong block index or count";
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

static void kernel_delay(const struct run_task *t)
{
    const struct check_task *task = &t->run->g->tasks[t->index];

    for (uint32_t i = 0; i < task->spins; i++)
        pto_pause();
    if (task->sleep_us != 0)
        usleep(task->sleep_us);
    if (t->gate != NULL) {
        uint64_t deadline = check_now_ns() + GATE_NS;

        while (__atomic_load_n(&t->gate->start, __ATOMIC_RELAXED) == 0 && check_now_ns() < deadline)
            sched_yield();
    }
}

static void kernel_body(const int64_t *args, struct run_task *t)
{
    const struct check_task *task = &t->run->g->tasks[t->index];
    struct pto_tensor *seen = t->run->seen + t->first_arg;

    __atomic_store_n(&t->start, tick(t->run), __ATOMIC_RELAXED);
    if (__atomic_add_fetch(&t->runs, 1, __ATOMIC_RELAXED) != 1)
        return;
    t->fault = kernel_judge(t, args);
    if (t->run->is_held && !__atomic_load_n(&t->run->is_built, __ATOMIC_RELAXED))
        t->fault = "a kernel ran before the graph was complete";
    if (t->fault == NULL) {
        t->id_seen = pto_arg_local(args)->task.raw;
        for (uint32_t k = 0; k < task->arg_count; k++)
            seen[k] = *pto_arg_tensor(args, (int)k);
        kernel_delay(t);
        if (t->run->g->is_compared) /* else its kernels race, and the bytes mean nothing */
            t->hash = kernel_effect(task, t->index, seen);
    }
    t->end = tick(t->run);
}

/* A kernel for each number of tensors, because the scalar with the task comes after them. */
/* clang-format off */
#define COUNTS(X)                                                                               \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) \
    X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)   \
    X(32)
/* clang-format on */
#define BARES(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

#define X(n)                                                      \
    static void kernel_of_##n(int64_t *args)                      \
    {                                                             \
        kernel_body(args, (struct run_task *)(uintptr_t)args[n]); \
    }
COUNTS(X)
#undef X
#define X(n)                                   \
    static void kernel_bare_##n(int64_t *args) \
    {                                          \
        kernel_body(args, bare_tasks[n]);      \
    }
BARES(X)
#undef X

static int make_callable(struct pto_callable **callable_out)
{
#define X(n) kernel_of_##n,
#define Y(n) kernel_bare_##n,
    static const pto_kernel_fn functions[KERNELS_A_CORE] = { COUNTS(X) BARES(Y) };
#undef X
#undef Y
    struct pto_kernel kernels[PTO_CORE_TYPES * KERNELS_A_CORE];
    struct pto_callable_params params;

    for (uint32_t i = 0; i < PTO_CORE_TYPES * KERNELS_A_CORE; i++)
        kernels[i] = (struct pto_kernel){ "check", functions[i % KERNELS_A_CORE],
                                          (enum pto_core_type)(i / KERNELS_A_CORE) };
    pto_callable_params_init(&params);
    params.name = "check";
    params.orchestration = orchestrate;
    params.kernels = kernels;
    params.kernel_count = PTO_CORE_TYPES * KERNELS_A_CORE;
    return pto_callable_create(&params, callable_out);
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
static struct pto_tensor make_given(const struct run *run, const struct check_arg *arg)
{
    const struct region *r = &arg->region;
    struct pto_tensor t;

    if (arg->creator >= 0) {
        const struct run_task *creator = &run->tasks[arg->creator];
        const struct check_task *task = &run->g->tasks[arg->creator];
        uint32_t k = 0;

        while (task->args[k].tag != PTO_TAG_OUTPUT || task->args[k].output != arg->output)
            k++;
        t = run->given[creator->first_arg + k];
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

static void submit_task(struct pto_orch *o, struct run *run, struct run_task *t)
{
    const struct check_task *task = &run->g->tasks[t->index];
    struct pto_tensor_info infos[PTO_TASK_TENSORS_MAX];
    struct pto_task_id *deps = check_alloc(NULL, task->dep_count, sizeof(*deps));
    uint8_t *kinds = check_alloc(NULL, task->dep_count, sizeof(*kinds));
    int32_t kernel =
        (int32_t)(task->scalar_count != 0 ? task->arg_count : KERNELS_BY_COUNT + t->bare);
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
    if (task->kind == CHECK_ALLOC)
        out = pto_alloc_tensors(o, &args);
    else if (task->kind == CHECK_DUMMY)
        out = pto_submit_dummy(o, &args);
    else if (task->kind == CHECK_AIC)
        out = pto_submit_aic(o, kernel + KERNELS_A_CORE * PTO_CORE_AIC, &args);
    else
        out = pto_submit_aiv(o, kernel + KERNELS_A_CORE * PTO_CORE_AIV, &args);
    free(deps);
    free(kinds);
    if (pto_orch_status(o) >= 0)
        take_outputs(run, t, &out);
}

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    struct run *run = (struct run *)(uintptr_t)entry->scalar[0];
    const struct check_graph *g = run->g;
    uint32_t scope = 0;

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
        submit_task(o, run, &run->tasks[i]);
    }
    for (; g->scopes[scope].parent >= 0; scope = (uint32_t)g->scopes[scope].parent)
        pto_scope_end(o);
    __atomic_store_n(&run->is_built, true, __ATOMIC_RELAXED);
}

/* ---- one run ---- */

static uint32_t count_args(const struct check_graph *g)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < g->task_count; i++)
        count += g->tasks[i].arg_count;
    return count;
}

static void fill_arena(uint8_t *arena, const struct check_graph *g)
{
    struct rng rng = { g->seed ^ 0x6172656e61 };

    for (uint32_t i = 0; i < g->arena_bytes; i++)
        arena[i] = (uint8_t)rng_next(&rng);
}

static void run_init(struct run *run, const struct check_graph *g, struct findings *findings)
{
    uint32_t first = 0, bare = 0;

    memset(run, 0, sizeof(*run));
    run->g = g;
    run->findings = findings;
    run->tasks = check_alloc(NULL, g->task_count, sizeof(*run->tasks));
    run->given = check_alloc_aligned(count_args(g) * sizeof(struct pto_tensor));
    run->seen = check_alloc_aligned(count_args(g) * sizeof(struct pto_tensor));
    run->arena = check_alloc_aligned(g->arena_bytes);
    fill_arena(run->arena, g);
    for (uint32_t i = 0; i < g->task_count; i++) {
        struct run_task *t = &run->tasks[i];

        memset(t, 0, sizeof(*t));
        t->run = run;
        t->index = i;
        t->first_arg = first;
        first += g->tasks[i].arg_count;
        if (check_task_has_kernel(&g->tasks[i]) && g->tasks[i].scalar_count == 0) {
            t->bare = bare++;
            bare_tasks[t->bare] = t;
        }
    }
}

static void run_fini(struct run *run)
{
    free(run->tasks);
    free(run->given);
    free(run->seen);
    free(run->arena);
    free(run->found);
}

/* False if the run failed; then nothing can be compared. */
static bool run_go(struct run *run, struct runner *r, struct pto_run_options *options)
{
    uint64_t scalar = (uint64_t)(uintptr_t)run;
    struct pto_entry entry = { 0, 1, NULL, &scalar };
    struct pto_run_report *report = check_alloc(NULL, 1, sizeof(*report));
    uint64_t kernels = 0;
    int status;

    pto_run_report_init(report);
    run->is_held = options->mode == PTO_MODE_HOST;
    status = pto_run(r->device, r->callable, &entry, options, report);
    for (uint32_t i = 0; i < run->g->task_count; i++)
        kernels += check_task_has_kernel(&run->g->tasks[i]);
    if (status < 0)
        find(run->findings, -1, -1, "the run failed with %d (%s): %s", status, pto_strerror(status),
             report->error.text);
    else if (report->tasks != run->g->task_count)
        find(run->findings, -1, -1, "the report counts %" PRIu64 " tasks, not %" PRIu32,
             report->tasks, run->g->task_count);
    else if (report->executions != kernels)
        find(run->findings, -1, -1, "the report counts %" PRIu64 " executions, not %" PRIu64,
             report->executions, kernels);
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

static void oracle_init(struct oracle *oracle, const struct check_graph *g)
{
    struct run memory; /* only for its descriptors and its arena */
    uint8_t **outputs = check_alloc(NULL, count_args(g), sizeof(*outputs));
    uint32_t output_count = 0;

    run_init(&memory, g, NULL);
    oracle->hash = check_alloc(NULL, g->task_count, sizeof(*oracle->hash));
    for (uint32_t i = 0; i < g->task_count; i++) {
        const struct check_task *task = &g->tasks[i];
        struct pto_tensor *given = memory.given + memory.tasks[i].first_arg;

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
        oracle->hash[i] = check_task_has_kernel(task) ? kernel_effect(task, i, given) : 0;
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

static void compare_tasks(const struct run *run)
{
    const struct check_graph *g = run->g;

    for (uint32_t i = 0; i < g->task_count; i++) {
        const struct run_task *t = &run->tasks[i];
        uint32_t runs = check_task_has_kernel(&g->tasks[i]) ? 1 : 0;

        if (t->runs != runs)
            find(run->findings, i, -1, "the kernel of %" PRIu32 " ran %" PRIu32 " times", i,
                 t->runs);
        else if (t->fault != NULL)
            find(run->findings, i, -1, "%s", t->fault);
        else if (runs != 0 && t->id_seen != t->id)
            find(run->findings, i, -1,
                 "the kernel got task id %#" PRIx64 ", the submit returned %#" PRIx64, t->id_seen,
                 t->id);
        for (uint32_t k = 0; k < g->tasks[i].arg_count && t->runs == 1 && t->fault == NULL; k++) {
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

/* A task without a kernel is complete when all it waits for is. */
static void compare_order(const struct run *run)
{
    const struct check_graph *g = run->g;
    uint64_t *done = check_alloc(NULL, g->task_count, sizeof(*done));

    for (uint32_t b = 0; b < g->task_count; b++) {
        bool has_kernel = check_task_has_kernel(&g->tasks[b]);

        done[b] = has_kernel ? run->tasks[b].end : 0;
        for (uint32_t a = 0; a < b; a++) {
            if (!bit_get(graph_before(g, b), a))
                continue;
            if (has_kernel && done[a] >= run->tasks[b].start)
                find(run->findings, a, b, "task %" PRIu32 " started before %" PRIu32 " had ended",
                     b, a);
            if (!has_kernel && done[a] > done[b])
                done[b] = done[a];
        }
    }
    free(done);
}

static void compare_bytes(const struct run *run, const struct oracle *oracle)
{
    const struct check_graph *g = run->g;

    for (uint32_t i = 0; i < g->task_count; i++) {
        if (check_task_has_kernel(&g->tasks[i]) && run->tasks[i].hash != oracle->hash[i])
            find(run->findings, i, -1, "task %" PRIu32 " read other bytes than in sequence", i);
    }
    for (uint32_t i = 0; i < g->arena_bytes; i++) {
        if (run->arena[i] != oracle->arena[i]) {
            find(run->findings, -1, -1, "external byte %" PRIu32 " is %#x, not %#x", i,
                 run->arena[i], oracle->arena[i]);
            return;
        }
    }
}

static void find(struct findings *findings, int64_t a, int64_t b, const char *format, ...)
{
    struct finding *item = &findings->item[findings->count];
    va_list list;

    if (findings->count++ >= FINDINGS_MAX)
        return;
    item->task[0] = (int32_t)a;
    item->task[1] = (int32_t)b;
    va_start(list, format);
    vsnprintf(item->text, sizeof(item->text), format, list);
    va_end(list);
}

void findings_print(const struct findings *findings, const struct check_graph *g)
{
    for (uint32_t i = 0; i < findings->count && i < FINDINGS_MAX; i++) {
        printf("%s\n", findings->item[i].text);
        for (int k = 0; k < 2; k++) {
            if (findings->item[i].task[k] >= 0)
                graph_print_task(g, (uint32_t)findings->item[i].task[k]);
        }
    }
    if (findings->count > FINDINGS_MAX)
        printf("and %" PRIu32 " more\n", findings->count - FINDINGS_MAX);
}
