/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a random graph on a level-3 worker. Data for the worker's children is in shared memory, at
 * the same address in all processes.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "tool/check/check_child.h"
#include "tool/check/check_tree.h"

enum { GROUP_MAX = 64 };
#define TREE_MEMORY (2ull << 30)
/* time limit of all runs, shorter than the time limit of the command */
#define RUN_NS 50000000000ull

static bool note_edge(void *context, uint64_t before, uint64_t after);
static int register_all(struct check_tree *tree, struct pto_error *error);

int check_tree_open(const struct check_runner_params *params, struct check_tree **tree_out,
                    struct pto_error *error)
{
    struct check_tree *tree = check_alloc(NULL, 1, sizeof(*tree));
    struct pto_worker_params worker;
    int status;

    memset(tree, 0, sizeof(*tree));
    tree->params = *params;
    pto_worker_params_init(&worker);
    worker.platform = params->platform;
    worker.chip_count = params->chips;
    worker.sub_count = params->subs;
    worker.chip_workers = params->threads;
    worker.memory_max = TREE_MEMORY;
    worker.deps = params->deps;
    worker.edge = note_edge;
    worker.edge_context = tree;
    worker.error = error;
    status = pto_worker_open(&worker, &tree->worker);
    if (status >= 0)
        status = register_all(tree, error);
    if (status < 0) {
        check_tree_close(tree);
        return status;
    }
    *tree_out = tree;
    return PTO_OK;
}

void check_tree_close(struct check_tree *tree)
{
    if (tree->worker != NULL)
        (void)pto_worker_close(tree->worker);
    free(tree);
}

static int register_all(struct check_tree *tree, struct pto_error *error)
{
    static const char *const symbol[CHECK_TREE_KINDS][2] = {
        { "check_chip_call", "check_chip_hold" }, { "check_call", "check_hold" }
    };
    const uint32_t count[CHECK_TREE_KINDS] = { tree->params.chips, tree->params.subs };
    int status = PTO_OK;

    for (uint32_t kind = 0; kind < CHECK_TREE_KINDS; kind++)
        for (uint32_t i = 0; i < 2 && status >= 0 && count[kind] != 0; i++) {
            struct pto_worker_callable callable;

            pto_worker_callable_init(&callable);
            callable.kind = (enum pto_child_kind)kind;
            callable.bytes = check_object;
            callable.byte_count = (size_t)(check_object_end - check_object);
            callable.symbol = symbol[kind][i];
            callable.error = error;
            status = pto_worker_register(tree->worker, &callable,
                                         i == 0 ? &tree->call[kind] : &tree->hold[kind]);
        }
    return status;
}

/*
 * Records an edge of the worker's graph, in which the tasks of the random graph begin at position
 * tree->first.
 */
static bool note_edge(void *context, uint64_t before, uint64_t after)
{
    struct check_tree *tree = context;

    if (tree->run == NULL || before < tree->first)
        return true;
    return check_note_edge(tree->run, before - tree->first, after - tree->first);
}

/* ---- memory shared with the children ---- */

static void *check_tree_carve(char **at, size_t bytes)
{
    char *taken = *at;

    *at += (bytes + 63) / 64 * 64;
    return taken;
}

static size_t shared_bytes(const struct check_graph *g)
{
    struct check_counts n = check_count(g);

    return sizeof(struct check_run) + sizeof(struct check_graph) +
           g->task_count * (sizeof(struct check_task) + sizeof(struct check_run_task) + 64) +
           n.args * (sizeof(struct check_arg) + sizeof(struct pto_tensor)) +
           n.calls * sizeof(struct check_run_call) + g->arena_bytes + 16 * 64;
}

/* Copies the tasks and arguments of a graph, which children read, to shared memory. */
static struct check_graph *share_graph(const struct check_graph *g, char **at)
{
    struct check_graph *shared = check_tree_carve(at, sizeof(*shared));

    *shared = *g;
    shared->scopes = NULL;
    shared->before = shared->ancestors = NULL;
    shared->tasks = check_tree_carve(at, g->task_count * sizeof(*g->tasks));
    for (uint32_t i = 0; i < g->task_count; i++) {
        size_t bytes = g->tasks[i].arg_count * sizeof(struct check_arg);

        shared->tasks[i] = g->tasks[i];
        shared->tasks[i].deps = NULL;
        shared->tasks[i].accesses = NULL;
        shared->tasks[i].args = check_tree_carve(at, bytes);
        memcpy(shared->tasks[i].args, g->tasks[i].args, bytes);
    }
    return shared;
}

struct check_run *check_tree_share(struct check_tree *tree, struct check_run *run)
{
    const struct check_graph *g = run->g;
    struct check_counts n = check_count(g);
    struct check_run old = *run, *shared;
    char *at;

    if (pto_worker_alloc(tree->worker, shared_bytes(g), &tree->shared) < 0)
        return NULL;
    at = tree->shared;
    shared = check_tree_carve(&at, sizeof(*shared));
    memset(shared, 0, sizeof(*shared));
    shared->g = share_graph(g, &at);
    run->tasks = check_tree_carve(&at, g->task_count * sizeof(*run->tasks));
    run->calls = check_tree_carve(&at, n.calls * sizeof(*run->calls));
    run->seen = check_tree_carve(&at, n.args * sizeof(*run->seen));
    run->arena = check_tree_carve(&at, g->arena_bytes);
    memcpy(run->tasks, old.tasks, g->task_count * sizeof(*run->tasks));
    memset(run->calls, 0, n.calls * sizeof(*run->calls));
    memcpy(run->arena, old.arena, g->arena_bytes);
    for (uint32_t i = 0; i < g->task_count; i++) {
        run->tasks[i].run = shared;
        run->tasks[i].calls = run->calls + (old.tasks[i].calls - old.calls);
    }
    shared->tasks = run->tasks;
    shared->calls = run->calls;
    shared->seen = run->seen;
    shared->arena = run->arena;
    shared->is_held = run->is_held;
    free(old.tasks);
    free(old.calls);
    free(old.seen);
    free(old.arena);
    return shared;
}

void check_tree_unshare(struct check_tree *tree, struct check_run *run)
{
    struct pto_error error;

    pto_error_init(&error);
    if (pto_worker_free(tree->worker, tree->shared, &error) < 0)
        check_find(run->findings, -1, -1, "memory cannot be freed: %s", error.text);
    run->tasks = NULL;
    run->calls = NULL;
    run->seen = NULL;
    run->arena = NULL;
    check_run_fini(run);
}

/* ---- orchestrations ---- */

static void check_tree_begin_scope(void *context, enum pto_scope_mode mode)
{
    (void)pto_level_scope_begin(context, mode);
}

static void check_tree_end_scope(void *context)
{
    (void)pto_level_scope_end(context);
}

static void submit_group(struct pto_level *level, const struct check_part *part, uint32_t first)
{
    const struct check_task *task = &part->run->g->tasks[first];
    uint32_t count = task->place.group_count;
    struct check_submit *submits = check_alloc_aligned(count * sizeof(*submits));
    struct pto_args *args = check_alloc_aligned(count * sizeof(*args));
    struct pto_outputs out[GROUP_MAX];
    uint32_t children[GROUP_MAX];

    for (uint32_t i = 0; i < count; i++) {
        check_submit_init(&submits[i], part->run, &part->run->tasks[first + i]);
        args[i] = submits[i].args;
        if (task->place.children != 0)
            children[i] = (uint32_t)__builtin_ctzll(task[i].place.children);
    }
    if (pto_level_submit_group(level, part->tree->call[task->place.is_sub],
                               task->place.children != 0 ? children : NULL, args, count, out) >= 0)
        for (uint32_t i = 0; i < count; i++)
            check_record_outputs(part->run, &part->run->tasks[first + i], &out[i]);
    for (uint32_t i = 0; i < count; i++)
        check_submit_fini(&submits[i]);
    free(submits);
    free(args);
}

static void check_tree_submit_task(struct pto_level *level, const struct check_part *part,
                                   uint32_t index)
{
    const struct check_task *task = &part->run->g->tasks[index];
    struct check_run_task *t = &part->run->tasks[index];
    struct check_submit s;
    struct pto_outputs out;

    check_submit_init(&s, part->run, t);
    out = task->kind == CHECK_ALLOC ? pto_level_alloc(level, &s.args)
                                    : pto_level_submit(level, part->tree->call[task->place.is_sub],
                                                       task->place.children, &s.args);
    check_submit_fini(&s);
    if (pto_task_id_is_valid(out.task))
        check_record_outputs(part->run, t, &out);
}

void check_tree_orchestrate(struct pto_level *level, void *context)
{
    const struct check_part *part = context;
    const struct check_scoping scoping = { check_tree_begin_scope, check_tree_end_scope, level };
    const struct check_graph *g = part->run->g;
    uint32_t scope = 0;

    for (uint32_t i = part->first; i < part->first + part->count && pto_level_status(level) >= 0;) {
        uint32_t count = g->tasks[i].place.group_count;

        check_enter_scope(&scoping, g, i, &scope);
        if (count > 1)
            submit_group(level, part, i);
        else
            check_tree_submit_task(level, part, i);
        i += count;
    }
    (void)check_change_scope(&scoping, g, scope, 0);
}

/* Submits a task to each child that keeps the child busy until the graph is complete. */
static void submit_holds(struct pto_level *level, void *context)
{
    const struct check_part *part = context;
    const struct check_tree *tree = part->tree;

    for (uint32_t i = 0; i < tree->params.chips + tree->params.subs; i++) {
        struct pto_args args;

        pto_args_init(&args);
        pto_add_scalar(&args, (uint64_t)(uintptr_t)part->run->tasks[0].run);
        (void)pto_level_submit(level, tree->hold[i >= tree->params.chips], PTO_ON(i), &args);
    }
}

/* ---- runs ---- */

struct flight {
    uint32_t count;
    uint32_t room;
    struct pto_worker_run **handle;
};

static bool check_tree_launch(struct check_tree *tree, struct flight *flight, pto_level_fn fn,
                              struct check_part *part)
{
    struct pto_worker_run *handle;
    int status = pto_worker_launch(tree->worker, fn, part, &handle);

    if (status < 0) {
        check_find(part->run->findings, -1, -1, "a run cannot be launched: %s",
                   pto_strerror(status));
        return false;
    }
    if (flight->count == flight->room) {
        flight->room = 2 * flight->room + 8;
        flight->handle = check_alloc(flight->handle, flight->room, sizeof(struct pto_worker_run *));
    }
    flight->handle[flight->count++] = handle;
    return true;
}

/*
 * Waits for all runs, and reports those that fail or do not end. Adds the numbers of tasks in their
 * reports to *tasks_out.
 */
static void land(struct flight *flight, struct check_findings *findings, uint64_t *tasks_out)
{
    for (uint32_t i = 0; i < flight->count; i++) {
        struct pto_worker_report *report = check_alloc(NULL, 1, sizeof(*report));
        int status;

        pto_worker_report_init(report);
        status = pto_worker_run_wait(flight->handle[i], RUN_NS);
        if (status == PTO_ETIMEOUT)
            (void)pto_worker_run_cancel(flight->handle[i]);
        if (pto_worker_run_finish(flight->handle[i], report) < 0 || status < 0)
            check_find(findings, -1, -1, "run %u failed with %d (%s): %s", i, status,
                       pto_strerror(status), report->error.text);
        else if (report->done != report->tasks || report->failed + report->skipped != 0)
            check_find(findings, -1, -1, "the report counts %" PRIu64 " of %" PRIu64 " tasks",
                       report->done, report->tasks);
        *tasks_out += report->tasks;
        free(report);
    }
    free(flight->handle);
}

/* Launches all runs of the graph, one after the other, and then waits for all of them. */
static bool check_tree_go(struct check_tree *tree, struct check_run *run)
{
    const struct check_graph *g = run->g;
    struct flight flight = { 0, 0, NULL };
    uint32_t holds = run->is_held ? tree->params.chips + tree->params.subs : 0;
    uint64_t tasks = 0, expected = holds;
    struct check_part part = { tree, run, 0, 0 };
    bool is_well = !run->is_held || check_tree_launch(tree, &flight, submit_holds, &part);

    tree->submits += holds;
    tree->first = tree->submits;
    tree->run = run;
    for (uint32_t i = 0; i < g->task_count && is_well; i = part.first + part.count) {
        part.first = i;
        for (part.count = 0; i + part.count < g->task_count &&
                             g->tasks[i + part.count].place.run == g->tasks[i].place.run;)
            expected += g->tasks[i + part.count++].kind != CHECK_ALLOC;
        is_well = check_tree_launch(tree, &flight, check_tree_orchestrate, &part);
    }
    tree->submits += g->task_count;
    tree->run = NULL;
    if (run->is_held)
        __atomic_store_n(&run->tasks[0].run->is_built, true, __ATOMIC_RELEASE);
    land(&flight, run->findings, &tasks);
    if (tasks != expected && run->findings->count == 0)
        check_find(run->findings, -1, -1, "the reports count %" PRIu64 " tasks, not %" PRIu64,
                   tasks, expected);
    return run->findings->count == 0;
}

/* ---- comparing ---- */

/* Checks what a child recorded about a task: errors, where the task ran, and its arguments. */
static void compare_task(const struct check_run *run, uint32_t index, const int32_t *process)
{
    static const char *const text[] = { "",
#define X(name, text) text,
                                        CHECK_CHILD_MAP(X)
#undef X
    };
    const struct check_graph *g = run->g;
    const struct check_task *task = &g->tasks[index];
    struct check_run_task *t = &run->tasks[index];
    uint64_t may =
        task->place.children != 0 ? task->place.children : check_children(g, task->place.is_sub);
    bool is_placed = false;

    if (t->strays != 0) {
        check_find(run->findings, index, -1, "%s", text[t->strays]);
        t->strays = 0;
        return;
    }
    check_compare_calls(run, t);
    for (uint32_t i = 0; i < g->chips + g->subs && task->kind != CHECK_ALLOC; i++)
        is_placed = is_placed || ((may >> i & 1) != 0 && process[i] == t->process);
    if (task->kind != CHECK_ALLOC && !is_placed)
        check_find(run->findings, index, -1, "process %d ran the task, but may not", t->process);
    for (uint32_t i = task->place.group_first; i < index; i++)
        if (run->tasks[i].process == t->process)
            check_find(run->findings, i, index, "two tasks of a group ran on the same child");
    for (uint32_t k = 0; k < task->arg_count && task->kind != CHECK_ALLOC; k++)
        if (run->seen[t->first_arg + k].addr != run->given[t->first_arg + k].addr)
            check_find(run->findings, index, -1,
                       "argument %u of task %u names another storage than was submitted", k, index);
}

static void check_tree_compare_tasks(struct check_tree *tree, const struct check_run *run)
{
    int32_t process[PTO_CHILDREN_MAX];

    for (uint32_t i = 0; i < tree->params.chips + tree->params.subs; i++) {
        struct pto_child_info info;

        pto_child_info_init(&info);
        (void)pto_worker_child(tree->worker, i, &info);
        process[i] = info.pid;
    }
    for (uint32_t i = 0; i < run->g->task_count; i++)
        compare_task(run, i, process);
}

/*
 * Runs a graph and compares the results. If is_held, no task runs before the graph is complete, so
 * that all edges exist and are compared.
 */
static void check_once(struct check_tree *tree, const struct check_graph *g,
                       const struct check_oracle *oracle, bool is_held,
                       struct check_findings *findings)
{
    size_t bytes = sizeof(uint64_t) * g->words * (g->task_count + 1);
    struct check_run run;

    check_run_init(&run, g, oracle, findings);
    run.is_held = is_held;
    if (check_tree_share(tree, &run) == NULL) {
        check_find(findings, -1, -1, "the worker has no memory for the graph");
        check_run_fini(&run);
        return;
    }
    if (is_held)
        run.found = memset(check_alloc(NULL, bytes, 1), 0, bytes);
    if (check_tree_go(tree, &run)) {
        if (is_held)
            check_compare_edges(&run);
        check_tree_compare_tasks(tree, &run);
        check_compare_order(&run);
        if (g->is_compared && findings->count == 0)
            check_compare_bytes(&run, oracle);
    }
    check_tree_unshare(tree, &run);
}

void check_tree_check(struct check_tree *tree, const struct check_graph *g,
                      struct check_findings *findings)
{
    struct check_oracle oracle;

    if (g->task_count == 0)
        return;
    check_oracle_init(&oracle, g, false);
    check_once(tree, g, &oracle, true, findings);
    if (findings->count == 0)
        check_once(tree, g, &oracle, false, findings);
    if (findings->count == 0)
        check_tree_fail(tree, g, findings);
    check_oracle_fini(&oracle);
}

bool check_tree_check_without(struct check_tree *tree, const struct check_graph *g, struct rng *rng,
                              uint32_t edge_out[2], struct check_findings *findings)
{
    struct check_graph *alone = check_graph_copy(g);
    struct check_oracle oracle;
    struct check_run run;
    bool is_there;

    check_model_prepare(alone);
    check_oracle_init(&oracle, alone, false);
    is_there = check_graph_pick_edge(alone, oracle.runs, rng, &edge_out[0], &edge_out[1]);
    if (is_there) {
        check_graph_isolate(alone, edge_out[0]);
        check_run_init(&run, alone, &oracle, findings);
        run.is_dropping = true;
        run.drop_before = edge_out[0];
        run.drop_after = edge_out[1];
        if (check_tree_share(tree, &run) == NULL) {
            check_run_fini(&run);
            is_there = false;
        } else {
            run.tasks[edge_out[0]].gate = &run.tasks[edge_out[1]];
            if (check_tree_go(tree, &run) && run.is_dropped)
                check_compare_order(&run);
            check_tree_unshare(tree, &run);
        }
    }
    check_oracle_fini(&oracle);
    check_graph_destroy(alone);
    return is_there;
}
