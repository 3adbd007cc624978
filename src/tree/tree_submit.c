/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph of a worker, to which orchestrations submit tasks. All runs of the worker share it,
 * because tasks of different runs depend on each other.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "base/sized.h"
#include "graph/graph_tasks.h"
#include "host/handle.h"
#include "host/error_text.h"
#include "tree/tree.h"
#include "tree/tree_run.h"
#include "tree/tree_trace.h"

enum {
    POOL_UNIT_LOG = 26,
    TASKS_FIRST = 1024,
    SLOTS_AHEAD = 256,
    SUBMITS_A_LOOK = 8
}; /* POOL_UNIT_LOG: log2 of the unit in which pools get address space: 64 MiB */
#define ENGINE_BYTES (8ull << 30)
#define ROOM_NS 600000000000ull

/* ---- opening and closing the graph ---- */

static void submit_reserve_pool(struct pool *pool, uint64_t share, void *context)
{
    struct tree *t = context;
    uint64_t bytes = share << POOL_UNIT_LOG;

    /* outputs of tasks lie in the shared memory, which children can access */
    if (pool == &t->graph.heap_pool)
        *pool = (struct pool){
            .base = t->heap, .limit = t->heap_bytes, .max = t->heap_bytes, .owner = &t->heap_budget
        };
    else
        *pool = (struct pool){ .base = os_reserve(bytes), .max = bytes, .owner = &t->budget };
}

static void check_pool(struct pool *pool, uint64_t share, void *context)
{
    (void)share;
    if (pool->base == NULL)
        *(bool *)context = false;
}

static void submit_release_pool(struct pool *pool, uint64_t share, void *context)
{
    struct tree *t = context;

    (void)share;
    if (pool != &t->graph.heap_pool)
        os_release(pool->base, pool->max);
}

static void submit_no_kernel(int64_t *args)
{
    (void)args;
}

static int submit_start_graph(struct tree *t)
{
    const struct graph_params params = { .kernels = &t->kernel,
                                         .kernel_count = 1,
                                         .deps = t->params.deps,
                                         .edge_fn = t->params.edge,
                                         .edge_context = t->params.edge_context,
                                         .ended_fn = tree_follows,
                                         .ended_context = t,
                                         .clusters = 1 };

    t->is_graph_broken = false;
    return graph_start(&t->graph, &params);
}

int tree_graph_open(struct tree *t)
{
    bool is_whole = true;

    t->budget.max = ENGINE_BYTES;
    t->heap_budget.max = t->heap_budget.used = t->heap_bytes;
    t->kernel = (struct graph_kernel){ submit_no_kernel, PTO_CORE_TYPES };
    t->task = calloc(TASKS_FIRST, sizeof(*t->task));
    t->task_room = TASKS_FIRST;
    graph_each_pool(&t->graph, submit_reserve_pool, t);
    graph_each_pool(&t->graph, check_pool, &is_whole);
    return is_whole && t->task != NULL ? submit_start_graph(t) : PTO_ENOMEM;
}

void tree_graph_close(struct tree *t)
{
    graph_each_pool(&t->graph, submit_release_pool, t);
    free(t->task);
}

int tree_graph_refresh(struct tree *t)
{
    if (t->graph.live != 0 || (!t->is_graph_broken && t->graph.seq < TREE_SEQ_MAX))
        return PTO_OK;
    return submit_start_graph(t);
}

/*
 * Makes room in the table of task states for the next task and its joins, which may get slots with
 * higher numbers than any before.
 */
static int submit_make_room(struct tree *t)
{
    uint32_t room = t->task_room;
    struct tree_task *grown;

    if (t->graph.info_count + SLOTS_AHEAD <= room)
        return PTO_OK;
    room *= 2;
    grown = realloc(t->task, room * sizeof(*grown));
    if (grown == NULL)
        return PTO_ENOMEM;
    memset(grown + t->task_room, 0, (room - t->task_room) * sizeof(*grown));
    t->task = grown;
    t->task_room = room;
    return PTO_OK;
}

/* ---- errors of submits ---- */

void tree_run_fail(struct tree_run *run, int child, const struct pto_error *error)
{
    assert_held(&run->tree->lock);
    if (run->report.error.status < 0)
        return;
    run->report.error = *error;
    run->report.error.size = sizeof(*error);
    run->report.error.level = run->tree->level;
    run->report.child = child;
}

int tree_refuse(struct tree_run *run, struct pto_error *error, const struct pto_site *site)
{
    assert_held(&run->tree->lock);
    error->level = run->tree->level;
    if (site != NULL && error->site.file == NULL) {
        char text[PTO_ERROR_TEXT_MAX];

        error->site = *site;
        snprintf(text, sizeof(text), "%.120s:%d: %.360s", site->file, site->line, error->text);
        memcpy(error->text, text, sizeof(text));
    }
    tree_run_fail(run, -1, error);
    return error->status;
}

/* Reports why the graph refused a submit, in the words that a chip uses. */
static int refuse_of_graph(struct tree *t, struct tree_run *run, int status,
                           const struct pto_args *args, const struct pto_site *site)
{
    const struct graph_refusal *r = &t->graph.refusal;
    struct failure failure = { .status = status,
                               .kind = r->kind,
                               .argument = r->argument,
                               .kernel = -1,
                               .task = pto_task_id_invalid(),
                               .value = { r->value } };
    struct pto_error error;

    if (site != NULL)
        failure.site = *site;
    if (r->kind == FAILURE_ARGS_ERROR && args != NULL && args->error != NULL)
        snprintf(failure.text, sizeof(failure.text), "%s", args->error);
    failure_add_refusal(&failure, args, NULL);
    pto_error_init(&error);
    if (status == PTO_ENOMEM) {
        t->is_graph_broken = true;
        (void)error_setf(&error, PTO_ENOMEM,
                         "the memory of the worker is full; wait until tasks have ended");
        return tree_refuse(run, &error, site);
    }
    error_text_refusal(&failure, &error);
    error.status = status;
    error.level = t->level;
    tree_run_fail(run, -1, &error);
    return status;
}

/* ---- functions that orchestrations call ---- */

struct tree_run *tree_level_enter(struct pto_level *level)
{
    struct tree_run *run = handle_get(HANDLE_LEVEL, level);

    if (run == NULL || !pthread_equal(run->builder, pthread_self()) || *run->tree->own_process == 0)
        return NULL;
    pthread_mutex_lock(&run->tree->lock);
    return run;
}

int tree_level_leave(struct tree_run *run, int status)
{
    assert_held(&run->tree->lock);
    pthread_mutex_unlock(&run->tree->lock);
    return status;
}

/* Whether several slots are free, so that the next submits need not wait. */
static bool submit_has_room(void *context)
{
    const struct tree *t = context;

    return t->graph.live - t->kept_count < TREE_LIVE_MAX - TREE_LIVE_MAX / 4;
}

/*
 * Waits until the graph has room for another task. The run may fail while it waits: then the task
 * is not submitted.
 */
static int await_room(struct tree_run *run, const struct pto_site *site)
{
    struct tree *t = run->tree;
    struct pto_error error;

    if (t->graph.live - t->kept_count < TREE_LIVE_MAX ||
        tree_await(t, submit_has_room, t, os_now_ns() + ROOM_NS) >= 0)
        return run->report.error.status;
    pto_error_init(&error);
    (void)error_setf(&error, PTO_ETIMEOUT,
                     "%u tasks are live, and there was no room for another one for 10 minutes",
                     t->graph.live - t->kept_count);
    return tree_refuse(run, &error, site);
}

/*
 * Called after each submit: gives ready tasks to children, and sometimes reads the children's
 * records first.
 */
static void move_on(struct tree *t)
{
    if (++t->submits % SUBMITS_A_LOOK == 0 && tree_has_news(t))
        tree_drive(t);
    else
        tree_dispatch(t);
}

/*
 * Checks the callable, the children and the tensors of a submit, and counts the task as a user of
 * their memory.
 */
static int check_submit(struct tree *t, struct tree_callable *k, uint64_t *children,
                        const struct pto_args *args, struct pto_error *error)
{
    uint64_t ready = 0;
    char how[128];

    if (args == NULL || k == NULL)
        return error_setf(
            error, PTO_EINVAL,
            args == NULL ? "args is NULL" : "there is no such callable; register it first");
    if (args->block_count != 1 || args->is_sync_start || args->predicate != NULL ||
        args->passed != 0 || args->timing_slot != -1)
        return error_setf(error, PTO_ENOSUP,
                          "tasks of level 3 have no blocks, predicates, passed scalars or timing");
    if (k->is_below)
        return error_setf(error, PTO_EINVAL,
                          "callable '%s' is for the children of nested workers: their functions "
                          "submit it",
                          k->name);
    if (*children == 0) /* mutation: tree-any-child */
        *children = k->children;
    if ((*children & ~k->children) != 0)
        return error_setf(error, PTO_EINVAL,
                          "callable '%s' is not registered for child %d; register it for all "
                          "children that its tasks name",
                          k->name, __builtin_ctzll(*children & ~k->children));
    if (args->error == NULL && tree_use_tensors(t, args, children, error) < 0)
        return error->status;
    for (uint32_t i = 0; i < t->child_count; i++)
        ready |= (uint64_t)child_is_ready(&t->child[i]) << i;
    if ((*children & ready) != 0)
        return PTO_OK;
    if (args->error == NULL)
        tree_undo_tensors(t, args);
    tree_child_describe_end(&t->child[__builtin_ctzll(*children)], how, sizeof(how));
    return error_setf(error, PTO_EPEER, "child %d %s; restart it with pto_worker_reopen",
                      __builtin_ctzll(*children), how);
}

/* Data that all tasks of one submit have in common. */
struct submission {
    struct tree_run *run;
    struct tree_callable *callable; /* NULL: no callable has the given number */
    const struct pto_site *site;
    struct tree_group *group; /* NULL: the submit is for a single task */
};

/*
 * Submits one task, alone or as a member of a group. On success *number_out is the number of its
 * slot.
 */
static int submit_one(const struct submission *s, uint64_t children, const struct pto_args *args,
                      struct pto_outputs *out, uint32_t *number_out)
{
    static const struct pto_kernels kernels = { -1, 0, -1 };
    struct tree_callable *k = s->callable;
    struct tree_run *run = s->run;
    struct tree *t = run->tree;
    struct graph_task task = { NULL, false };
    struct pto_error error;
    int status;

    pto_error_init(&error);
    status = check_submit(t, k, &children, args, &error);
    if (status < 0)
        return tree_refuse(run, &error, s->site);
    graph_catch_up(&t->graph);
    status = t->is_graph_broken ? PTO_ENOMEM : submit_make_room(t);
    if (status >= 0)
        status = graph_submit_task(&t->graph, &kernels, args, s->site, out, &task);
    port_assert(t->graph.info_count <= t->task_room);
    if (status < 0) {
        tree_submitted(t, NULL);
        if (args->error == NULL)
            tree_undo_tensors(t, args);
        status = refuse_of_graph(t, run, status, args, s->site);
        /*
         * Other tasks may already be successors of the refused task, so that task completes without
         * running.
         */
        if (task.slot != NULL)
            t->task[task.slot->number] = (struct tree_task){ 0 };
        if (task.is_ready)
            tree_ready(t, task.slot);
        return status;
    }
    *number_out = task.slot->number;
    t->task[*number_out] = (struct tree_task){ .run = run,
                                               .group = s->group,
                                               .callable = (uint32_t)(k - t->callable),
                                               .child = -1,
                                               .children = children,
                                               .timeout_ns = run->task_timeout_ns,
                                               .options = run->task_options,
                                               .addresses = args->addresses,
                                               .submit_ns = t->is_traced ? tree_clock_now(t) : 0 };
    if (t->is_traced)
        tree_trace_submit(t, task.slot, &t->task[*number_out], args, out);
    tree_submitted(t, task.slot);
    k->tasks++;
    run->live++;
    run->report.tasks++;
    if (task.is_ready)
        tree_ready(t, task.slot);
    return PTO_OK;
}

struct pto_outputs tree_submit(struct tree_run *run, uint64_t callable, uint64_t children,
                               const struct pto_args *args, const struct pto_site *site)
{
    struct pto_outputs out = { pto_task_id_invalid(), 0, NULL };
    struct submission s = { .run = run, .site = site };
    struct tree *t = run->tree;
    uint32_t number;
    int status;

    assert_held(&run->tree->lock);
    if (run->report.error.status < 0)
        return out;
    status = await_room(run, site);
    s.callable =
        callable == TREE_COPY_NUMBER ? &t->callable[TREE_COPY] : tree_find_callable(t, callable);
    if (status >= 0 && submit_one(&s, children, args, &out, &number) >= 0)
        move_on(t);
    else
        out = (struct pto_outputs){ pto_task_id_invalid(), 0, NULL };
    return out;
}

struct pto_outputs pto_level_submit_at(struct pto_level *level, uint64_t callable,
                                       uint64_t children, const struct pto_args *args,
                                       const struct pto_site *site)
{
    struct pto_outputs out = { pto_task_id_invalid(), 0, NULL };
    struct tree_run *run = tree_level_enter(level);

    if (run == NULL)
        return out;
    out = tree_submit(run, callable != TREE_COPY_NUMBER ? callable : 0, children, args, site);
    (void)tree_level_leave(run, 0);
    return out;
}

/* ---- groups ---- */

static int check_group(struct tree *t, const struct tree_callable *k, const uint32_t *children,
                       uint32_t count, struct pto_error *error)
{
    uint64_t taken = 0;

    if (k == NULL)
        return error_setf(error, PTO_EINVAL, "there is no such callable; register it first");
    if (count == 0 || count > (uint32_t)__builtin_popcountll(k->children))
        return error_setf(error, PTO_EINVAL,
                          "a group of %u: callable '%s' has %d children, and each member needs one",
                          count, k->name, __builtin_popcountll(k->children));
    for (uint32_t i = 0; children != NULL && i < count; i++) {
        if (children[i] >= t->child_count || (taken >> children[i] & 1) != 0)
            return error_setf(error, PTO_EINVAL, "member %u of the group: child %u %s", i,
                              children[i],
                              children[i] >= t->child_count ? "does not exist" : "is taken");
        taken |= 1ull << children[i];
    }
    return PTO_OK;
}

/*
 * Submits the members of a group. A negative status: the group was refused, but some of its members
 * may be in the graph.
 */
static int submit_members(const struct submission *s, const uint32_t *children,
                          const struct pto_args *args, uint32_t count, struct pto_outputs *outputs)
{
    struct tree_group *g = s->group;
    struct tree *t = s->run->tree;

    for (uint32_t i = 0; i < count; i++) {
        struct pto_outputs out = { pto_task_id_invalid(), 0, NULL };
        struct pto_error error;
        int status;

        g->count++;
        g->left++;
        g->waiting++;
        status = submit_one(s, children != NULL ? 1ull << children[i] : 0, &args[i], &out,
                            &g->member[i]);
        if (status < 0) {
            g->count--;
            g->left--;
            g->waiting--;
            return status;
        }
        if (outputs != NULL)
            outputs[i] = out;
        for (uint32_t j = 0; j < i; j++)
            if (graph_waits_for(tree_slot(t, g->member[j]), tree_slot(t, g->member[i]))) {
                pto_error_init(&error);
                (void)error_setf(&error, PTO_EINVAL,
                                 "members %u and %u of the group use the same memory, and one of "
                                 "them writes it: they cannot start together",
                                 j, i);
                (void)tree_refuse(s->run, &error, s->site);
                /*
                 * Members i and j would wait for each other. Member i leaves the group and is
                 * skipped like a task that depends on a failed one.
                 */
                t->task[g->member[i]].group = NULL;
                t->task[g->member[i]].is_poisoned = true;
                g->count--;
                g->left--;
                g->waiting--;
                return PTO_EINVAL;
            }
    }
    return PTO_OK;
}

int pto_level_submit_group_at(struct pto_level *level, uint64_t callable, const uint32_t *children,
                              const struct pto_args *args, uint32_t count,
                              struct pto_outputs *outputs, const struct pto_site *site)
{
    struct tree_run *run = tree_level_enter(level);
    struct tree_callable *k;
    struct tree_group *g;
    struct pto_error error;
    struct tree *t;
    int status;

    if (run == NULL)
        return PTO_EINVAL;
    t = run->tree;
    if (run->report.error.status < 0)
        return tree_level_leave(run, run->report.error.status);
    status = await_room(run, site);
    if (status < 0)
        return tree_level_leave(run, status);
    pto_error_init(&error);
    k = tree_find_callable(t, callable);
    status = args == NULL ? error_setf(&error, PTO_EINVAL, "args is NULL")
                          : check_group(t, k, children, count, &error);
    if (status < 0)
        return tree_level_leave(run, tree_refuse(run, &error, site));
    g = calloc(1, sizeof(*g) + count * sizeof(g->member[0]));
    if (g == NULL) {
        (void)error_setf(&error, PTO_ENOMEM, "there is no memory for a group");
        return tree_level_leave(run, tree_refuse(run, &error, site));
    }
    g->waiting = g->left = 1; /* counts the submit itself as a member, until tree_group_submitted */
    status =
        submit_members(&(struct submission){ run, k, site, g }, children, args, count, outputs);
    g->is_skipped = g->is_skipped || status < 0;
    tree_group_submitted(t, g);
    /* may record errors of other tasks, which do not change the result of this call */
    move_on(t);
    return tree_level_leave(run, status);
}

/* ---- scopes, and tensors without tasks ---- */

struct pto_outputs pto_level_alloc(struct pto_level *level, const struct pto_args *args)
{
    struct pto_outputs out = { pto_task_id_invalid(), 0, NULL };
    struct tree_run *run = tree_level_enter(level);
    int status;

    if (run == NULL)
        return out;
    if (run->report.error.status >= 0 && args != NULL) {
        status =
            run->tree->is_graph_broken ? PTO_ENOMEM : graph_alloc(&run->tree->graph, args, &out);
        if (status < 0) {
            (void)refuse_of_graph(run->tree, run, status, args, NULL);
            out = (struct pto_outputs){ pto_task_id_invalid(), 0, NULL };
        }
    }
    (void)tree_level_leave(run, 0);
    return out;
}

int pto_level_scope_begin(struct pto_level *level, enum pto_scope_mode mode)
{
    struct tree_run *run = tree_level_enter(level);
    int status;

    if (run == NULL)
        return PTO_EINVAL;
    status = graph_scope_begin(&run->tree->graph, mode, NULL);
    return tree_level_leave(
        run, status < 0 ? refuse_of_graph(run->tree, run, status, NULL, NULL) : status);
}

int pto_level_scope_end(struct pto_level *level)
{
    struct tree_run *run = tree_level_enter(level);
    struct pto_error error;
    int status;

    if (run == NULL)
        return PTO_EINVAL;
    /* the outermost scope belongs to the run, not to the orchestration */
    if (run->tree->graph.scope_count <= 1) {
        pto_error_init(&error);
        (void)error_setf(&error, PTO_EINVAL, "a scope was ended that was not begun");
        return tree_level_leave(run, tree_refuse(run, &error, NULL));
    }
    status = graph_scope_end(&run->tree->graph);
    return tree_level_leave(run, status);
}

int pto_level_status(struct pto_level *level)
{
    struct tree_run *run = tree_level_enter(level);

    return run == NULL ? PTO_EINVAL : tree_level_leave(run, run->report.error.status);
}

int pto_level_error(struct pto_level *level, struct pto_error *error)
{
    struct tree_run *run = tree_level_enter(level);

    if (run == NULL)
        return PTO_EINVAL;
    if (error == NULL || !sized_is_valid(error))
        return tree_level_leave(run, PTO_EINVAL);
    sized_write(error, &run->report.error, sizeof(run->report.error));
    return tree_level_leave(run, run->report.error.status);
}

int pto_level_fail(struct pto_level *level, int status, const char *text)
{
    struct tree_run *run = tree_level_enter(level);
    struct pto_error error;

    if (run == NULL)
        return PTO_EINVAL;
    pto_error_init(&error);
    (void)error_setf(&error, status < 0 ? status : PTO_EINVAL, "%s",
                     text != NULL ? text : "the orchestration gave up");
    return tree_level_leave(run, tree_refuse(run, &error, NULL));
}
