/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes smaller copies of a graph: picks an edge to drop, and searches the smallest graph that
 * fails.
 */
#include <stdlib.h>

#include "base/os.h"
#include "tool/check/check_graph.h"

static struct check_graph *graph_without(const struct check_graph *g, const bool *is_dropped);

struct check_graph *check_graph_copy(const struct check_graph *g)
{
    return graph_without(g, NULL);
}

void check_graph_destroy(struct check_graph *g)
{
    if (g == NULL)
        return;
    for (uint32_t i = 0; i < g->task_count; i++) {
        free(g->tasks[i].args);
        free(g->tasks[i].deps);
        free(g->tasks[i].accesses);
    }
    free(g->tasks);
    free(g->scopes);
    free(g->before);
    free(g->ancestors);
    free(g);
}

/* Updates the index of the task that created an element. Returns false if that task was removed. */
static bool renumber_element(struct check_element *e, const uint32_t *renamed)
{
    if (e->creator >= 0 && renamed[e->creator] == UINT32_MAX)
        return false;
    if (e->creator >= 0)
        e->creator = (int32_t)renamed[e->creator];
    return true;
}

/* Removes the predicate of a task. Returns false if there was none. */
static bool drop_predicate(struct check_task *task)
{
    bool is_there = task->predicate.op != PTO_PREDICATE_NONE;

    memset(&task->predicate, 0, sizeof(task->predicate));
    task->predicate.element.creator = -1;
    return is_there;
}

static void copy_accesses(struct check_task *to, const struct check_task *from,
                          const uint32_t *renamed)
{
    to->accesses = check_alloc(NULL, from->access_count, sizeof(*from->accesses));
    to->access_count = 0;
    for (uint32_t k = 0; k < from->access_count; k++) {
        struct check_access access = from->accesses[k];

        if (renumber_element(&access.element, renamed))
            to->accesses[to->access_count++] = access;
    }
}

/*
 * Updates the indices of notifiers. Called when all tasks have their new indices, because a
 * notifier may come after the task that it notifies.
 */
static void rename_notifiers(struct check_graph *g, const uint32_t *renamed)
{
    for (uint32_t i = 0; i < g->task_count; i++) {
        for (uint32_t k = 0; k < CHECK_NOTIFIERS_MAX; k++) {
            int32_t *candidate = &g->tasks[i].defer.candidates[k];

            if (*candidate >= 0)
                /* UINT32_MAX becomes -1: the notifier was removed */
                *candidate = (int32_t)renamed[*candidate];
        }
    }
}

/*
 * Copies a graph without some tasks, without uses of their outputs, and without dependencies on
 * them.
 */
static struct check_graph *graph_without(const struct check_graph *g, const bool *is_dropped)
{
    struct check_graph *copy = check_alloc(NULL, 1, sizeof(*copy));
    uint32_t *renamed = check_alloc(NULL, g->task_count + CHECK_NOTIFIER_FAR, sizeof(*renamed));
    uint32_t count = 0;

    *copy = *g;
    copy->before = copy->ancestors = NULL;
    copy->scopes = check_alloc(NULL, g->scope_count, sizeof(*g->scopes));
    memcpy(copy->scopes, g->scopes, g->scope_count * sizeof(*g->scopes));
    copy->tasks = check_alloc(NULL, g->task_count, sizeof(*g->tasks));
    for (uint32_t i = 0; i < g->task_count; i++) {
        const struct check_task *from = &g->tasks[i];
        struct check_task *to = &copy->tasks[count];

        renamed[i] = UINT32_MAX;
        if (is_dropped != NULL && is_dropped[i])
            continue;
        renamed[i] = count++;
        *to = *from;
        to->args = check_alloc(NULL, from->arg_count, sizeof(*from->args));
        to->deps = check_alloc(NULL, from->dep_count, sizeof(*from->deps));
        to->arg_count = to->dep_count = 0;
        for (uint32_t k = 0; k < from->arg_count; k++) {
            struct check_arg arg = from->args[k];

            if (arg.creator >= 0 && renamed[arg.creator] == UINT32_MAX)
                continue;
            if (arg.creator >= 0)
                arg.creator = (int32_t)renamed[arg.creator];
            to->args[to->arg_count++] = arg;
        }
        for (uint32_t k = 0; k < from->dep_count; k++) {
            struct check_dep dep = from->deps[k];

            if (renamed[dep.task] == UINT32_MAX)
                continue;
            dep.task = renamed[dep.task];
            to->deps[to->dep_count++] = dep;
        }
        if (!renumber_element(&to->predicate.element, renamed))
            (void)drop_predicate(to);
        copy_accesses(to, from, renamed);
    }
    for (uint32_t i = 0; i < CHECK_NOTIFIER_FAR; i++)
        renamed[g->task_count + i] = UINT32_MAX;
    copy->task_count = count;
    rename_notifiers(copy, renamed);
    free(renamed);
    return copy;
}

void check_graph_spare_core(struct check_graph *g)
{
    for (uint32_t i = 0; i < g->task_count; i++) {
        struct check_task *task = &g->tasks[i];

        if (task->is_gang && task->blocks > 1 && task->blocks == check_gang_most(g, task))
            task->blocks--;
    }
}

/* Adds to `row` the predecessors of all notifiers of those deferred tasks that are in `row`. */
static void close_deferred(const struct check_graph *g, uint64_t *row)
{
    bool is_closed = false;

    while (!is_closed) {
        is_closed = true;
        for (uint32_t i = 0; i < g->task_count; i++) {
            const struct check_defer *d = &g->tasks[i].defer;

            for (uint32_t k = 0; k < d->notifier_count && d->is_on && bit_get(row, i); k++) {
                for (uint32_t w = 0; w < g->words; w++) {
                    uint64_t more = graph_ancestors(g, d->notifiers[k])[w] & ~row[w];

                    row[w] |= more;
                    is_closed = is_closed && more == 0;
                }
            }
        }
    }
}

/*
 * Whether `b` waits for `a` even if the edge between them is removed. `row` is scratch memory for a
 * set of tasks.
 */
static bool is_implied(const struct check_graph *g, uint32_t a, uint32_t b, uint64_t *row)
{
    memset(row, 0, g->words * sizeof(*row));
    for (uint32_t m = 0; m < b; m++) {
        if (m == a || !bit_get(graph_before(g, b), m))
            continue;
        bit_set(row, m);
        for (uint32_t w = 0; w < g->words; w++)
            row[w] |= graph_ancestors(g, m)[w];
    }
    close_deferred(g, row);
    return bit_get(row, a);
}

bool check_graph_pick_edge(const struct check_graph *g, const bool *runs, struct rng *rng,
                           uint32_t *before_out, uint32_t *after_out)
{
    uint64_t *row = check_alloc(NULL, g->words, sizeof(*row));
    /*
     * tasks that the orchestration has waited for, by an access, before the current submit, as a
     * set
     */
    uint64_t *gone = check_alloc(NULL, g->words, sizeof(*gone));
    uint32_t found = 0;

    memset(gone, 0, g->words * sizeof(*gone));
    for (uint32_t b = 0; b < g->task_count; b++) {
        for (uint32_t k = 0; k < g->tasks[b].access_count; k++) {
            if (!g->tasks[b].accesses[k].is_streamed)
                continue;
            check_model_awaited(g, b, &g->tasks[b].accesses[k], row);
            close_deferred(g, row);
            for (uint32_t w = 0; w < g->words; w++)
                gone[w] |= row[w];
        }
        for (uint32_t a = 0; a < b && runs[b]; a++) {
            if (!bit_get(graph_before(g, b), a) || !runs[a] || bit_get(gone, a) ||
                is_implied(g, a, b, row) || rng_below(rng, ++found) != 0)
                continue;
            *before_out = a;
            *after_out = b;
        }
    }
    free(row);
    free(gone);
    return found != 0;
}

/*
 * Prepares the graph `candidate`, which this function owns, and runs it. If that still fails,
 * `candidate` replaces *best, else it is destroyed.
 */
static bool shrink_try(struct check_graph **best, struct check_graph *candidate,
                       graph_fails_fn fails, void *context)
{
    check_model_prepare(candidate);
    if (!fails(context, candidate)) {
        check_graph_destroy(candidate);
        return false;
    }
    check_graph_destroy(*best);
    *best = candidate;
    return true;
}

static bool element_uses(const struct check_element *e, uint32_t task, uint32_t output)
{
    return e->creator == (int32_t)task && e->output >= output;
}

static bool arg_is_removable(const struct check_graph *g, uint32_t task, uint32_t k)
{
    const struct check_arg *arg = &g->tasks[task].args[k];

    /*
     * Outputs are numbered by position, so an output can be removed only if it is the last one and
     * unused.
     */
    if (arg->tag != PTO_TAG_OUTPUT)
        return true;
    for (uint32_t i = task; i < g->task_count; i++) {
        for (uint32_t j = 0; j < g->tasks[i].arg_count; j++) {
            const struct check_arg *use = &g->tasks[i].args[j];

            if (use->creator == (int32_t)task && use->output >= arg->output && use != arg)
                return false;
        }
        if (element_uses(&g->tasks[i].predicate.element, task, arg->output))
            return false;
        for (uint32_t j = 0; j < g->tasks[i].access_count; j++) {
            if (element_uses(&g->tasks[i].accesses[j].element, task, arg->output))
                return false;
        }
    }
    return g->tasks[task].kind != CHECK_ALLOC;
}

static bool shrink_args(struct check_graph **best, graph_fails_fn fails, void *context,
                        uint64_t deadline_ns)
{
    bool is_smaller = false;

    for (uint32_t i = 0; i < (*best)->task_count; i++) {
        for (uint32_t k = (*best)->tasks[i].arg_count; k-- > 0 && os_now_ns() < deadline_ns;) {
            struct check_graph *candidate;
            struct check_task *task;

            if (!arg_is_removable(*best, i, k))
                continue;
            candidate = check_graph_copy(*best);
            task = &candidate->tasks[i];
            memmove(&task->args[k], &task->args[k + 1],
                    (--task->arg_count - k) * sizeof(*task->args));
            is_smaller |= shrink_try(best, candidate, fails, context);
        }
        for (uint32_t k = (*best)->tasks[i].dep_count; k-- > 0 && os_now_ns() < deadline_ns;) {
            struct check_graph *candidate;
            struct check_task *task;

            if (k >= (*best)->tasks[i].dep_count || (*best)->tasks[i].deps[k].is_added)
                continue;
            candidate = check_graph_copy(*best);
            task = &candidate->tasks[i];
            memmove(&task->deps[k], &task->deps[k + 1],
                    (--task->dep_count - k) * sizeof(*task->deps));
            is_smaller |= shrink_try(best, candidate, fails, context);
        }
    }
    return is_smaller;
}

/*
 * Each of these functions simplifies one property of a task. It returns false if there is nothing
 * to simplify.
 */
static bool drop_defer(struct check_task *task)
{
    bool is_there = task->defer.is_on;

    task->defer.is_on = false;
    return is_there;
}

static bool drop_blocks(struct check_task *task)
{
    bool is_there = task->blocks > 1;

    task->blocks = 1;
    task->is_gang = task->is_meeting = false;
    return is_there;
}

static bool drop_gang(struct check_task *task)
{
    bool is_there = task->is_gang || task->is_meeting;

    task->is_gang = task->is_meeting = false;
    return is_there;
}

static bool halve_blocks(struct check_task *task)
{
    bool is_there = task->blocks > 2;

    if (is_there)
        task->blocks /= 2;
    return is_there;
}

static bool drop_lanes(struct check_task *task)
{
    bool is_there = task->kind == CHECK_MIX;

    if (is_there) {
        task->kind = CHECK_AIV;
        task->lanes = CHECK_LANE_AIV0;
    }
    return is_there;
}

static bool drop_access(struct check_task *task)
{
    bool is_there = task->access_count != 0;

    task->access_count -= is_there;
    return is_there;
}

static bool drop_rest(struct check_task *task)
{
    bool is_there = task->timing != 0 || task->is_early || task->spins != 0 || task->sleep_us != 0;

    task->timing = 0;
    task->is_early = false;
    task->spins = task->sleep_us = 0;
    return is_there;
}

static bool shrink_launches(struct check_graph **best, graph_fails_fn fails, void *context,
                            uint64_t deadline_ns)
{
    static bool (*const ways[])(struct check_task *) = { drop_blocks, drop_lanes,  drop_predicate,
                                                         drop_defer,  drop_access, drop_gang,
                                                         drop_rest,   halve_blocks };
    bool is_smaller = false;

    for (uint32_t i = 0; i < (*best)->task_count; i++) {
        for (uint32_t k = 0; k < sizeof(ways) / sizeof(ways[0]);) {
            struct check_graph *candidate;

            if (os_now_ns() >= deadline_ns)
                return is_smaller;
            candidate = check_graph_copy(*best);
            if (!ways[k](&candidate->tasks[i])) {
                check_graph_destroy(candidate);
                k++;
            } else if (shrink_try(best, candidate, fails, context)) {
                is_smaller = true; /* tries this step again, with the same `k` */
            } else {
                k++;
            }
        }
    }
    return is_smaller;
}

struct check_graph *check_graph_shrink(const struct check_graph *g, graph_fails_fn fails,
                                       void *context, uint64_t deadline_ns)
{
    struct check_graph *best = check_graph_copy(g);
    uint32_t chunk = g->task_count;
    bool *is_dropped = check_alloc(NULL, g->task_count, sizeof(*is_dropped));
    bool is_smaller = true;

    check_model_prepare(best);
    while (is_smaller || chunk > 1) {
        chunk = chunk > 1 ? chunk / 2 : 1;
        is_smaller = false;
        for (uint32_t at = 0; at < best->task_count && os_now_ns() < deadline_ns;) {
            memset(is_dropped, 0, g->task_count * sizeof(*is_dropped));
            for (uint32_t i = at; i < at + chunk && i < best->task_count; i++)
                is_dropped[i] = true;
            if (shrink_try(&best, graph_without(best, is_dropped), fails, context))
                is_smaller = true;
            else
                at += chunk;
        }
        if (chunk == 1) {
            is_smaller |= shrink_args(&best, fails, context, deadline_ns);
            is_smaller |= shrink_launches(&best, fails, context, deadline_ns);
        }
    }
    free(is_dropped);
    return best;
}
