/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/unused_arguments.h"

#include <stdlib.h>
#include <string.h>

#include "tool/see/byte_view.h"

/* smallest relative change of the makespan that counts; what_if.c uses the same limit */
#define UNUSED_CHANGE_MIN 0.03

/*
 * An earlier access that a later task waited for only through an unused argument of a task in
 * between.
 */
struct carried {
    uint32_t task;
    int16_t argument;
};

/* All earlier accesses for which later tasks waited through the unused argument of one task. */
struct carried_list {
    struct carried *at;
    uint32_t count, max;
};

/* The graph of a recording in which some tasks lack one argument. */
struct without {
    const struct see_recording *r;
    const struct see_work *w;
    uint32_t argument;
    /* for each task of the group, from task_begin on: 1 if the task has the argument */
    uint8_t *is_in;
    /* for each task of the group: earlier accesses that its removed argument kept in order */
    struct carried_list *carried;
    struct see_edge *edge; /* the remaining and the added edges, sorted by successor */
    uint64_t edge_count, edge_max;
    uint64_t *edge_from, *out_from, *out;
};

/* ---- finding unused arguments ---- */

static const struct see_argument *unused_argument_at(const struct see_recording *r, uint32_t task,
                                                     uint32_t argument)
{
    return &r->argument[r->argument_from[task] + argument];
}

static void unused_range(const struct see_argument *a, uint64_t *lo, uint64_t *hi)
{
    uint64_t size = pto_dtype_size(a->dtype);

    *lo = a->addr + a->start * size;
    *hi = *lo + a->extent * size;
}

/*
 * Whether the kernel used memory between the first and the last element of the argument. Returns
 * true as well if the kernel made atomic accesses, whose addresses are not recorded.
 */
static bool is_used(const struct see_recording *r, uint32_t task, const struct see_argument *a)
{
    uint64_t lo, hi, from, to;

    unused_range(a, &lo, &hi);
    for (uint64_t i = r->touch_from[task]; i < r->touch_from[task + 1]; i++) {
        if (r->touch[i].kind == PTO_RECORDING_TOUCH_SIGNAL)
            return true;
        if (!see_touch_has_part(&r->touch[i]))
            continue;
        unused_range(&r->touch[i].part, &from, &to);
        if (from < hi && lo < to)
            return true;
    }
    return false;
}

static bool is_unused(const struct see_recording *r, uint32_t task, uint32_t argument)
{
    const struct see_argument *a = unused_argument_at(r, task, argument);

    return pto_tag_use(a->tag) != 0 && a->extent != 0 && !is_used(r, task, a);
}

/* Adds an unused argument of a task to the row of its kernel and line. */
static void add_unused(struct see_unused_arguments *u, const struct see_recording *r, uint32_t task,
                       uint32_t argument)
{
    uint32_t kernel = see_task_kernel(r, task), i = 0;

    while (i < u->count && (u->of[i].kernel != kernel || u->of[i].argument != argument ||
                            u->of[i].line != r->task[task].line))
        i++;
    if (i == SEE_UNUSED_MAX)
        return;
    if (i == u->count)
        u->of[u->count++] = (struct see_unused_argument){
            .kernel = kernel, .argument = argument, .line = r->task[task].line, .first = task
        };
    u->of[i].tasks++;
}

static void find_unused(const struct see_work *w, struct see_unused_arguments *u)
{
    const struct see_recording *r = w->r;

    for (uint32_t t = w->task_begin; t < w->task_end; t++)
        for (uint32_t i = 0; i < r->argument_from[t + 1] - r->argument_from[t]; i++)
            if (r->touch_from[t] < r->touch_from[t + 1] && is_unused(r, t, i))
                add_unused(u, r, t, i);
}

/* ---- the graph without an argument ---- */

static bool is_without(const struct without *x, uint32_t task, int argument)
{
    return argument == (int)x->argument && task >= x->w->task_begin &&
           x->is_in[task - x->w->task_begin] != 0;
}

static int without_carry(struct carried_list *list, struct carried what)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->at[i].task == what.task && list->at[i].argument == what.argument)
            return PTO_OK;
    if (list->count == list->max) {
        uint32_t max = list->max != 0 ? 2 * list->max : 4;
        struct carried *more = realloc(list->at, max * sizeof(*more));

        if (more == NULL)
            return PTO_ENOMEM;
        list->at = more;
        list->max = max;
    }
    list->at[list->count++] = what;
    return PTO_OK;
}

static int without_emit(struct without *x, const struct see_edge *edge)
{
    if (x->edge_count == x->edge_max) {
        uint64_t max = x->edge_max != 0 ? 2 * x->edge_max : 1024;
        struct see_edge *more = realloc(x->edge, max * sizeof(*more));

        if (more == NULL)
            return PTO_ENOMEM;
        x->edge = more;
        x->edge_max = max;
    }
    x->edge[x->edge_count++] = *edge;
    return PTO_OK;
}

/* Whether two accesses must stay in order: they overlap, and at least one of them writes. */
static bool is_conflict(const struct see_recording *r, struct carried before, uint32_t task,
                        int argument)
{
    const struct see_argument *a, *b;
    struct see_byte_view of_a, of_b;
    uint64_t at;

    if (before.argument < 0 || argument < 0)
        return false;
    a = unused_argument_at(r, before.task, (uint32_t)before.argument);
    b = unused_argument_at(r, task, (uint32_t)argument);
    if (((pto_tag_use(a->tag) | pto_tag_use(b->tag)) & (PTO_WRITES | PTO_CREATES)) == 0)
        return false;
    see_byte_view_make(&of_a, a);
    see_byte_view_make(&of_b, b);
    return see_byte_views_meet(&of_a, &of_b, &at);
}

/*
 * Handles an edge that exists because of the removed argument: adds edges from the earlier accesses
 * that this argument kept in order to the edge's successor, if they conflict with it.
 */
static int without_bridge(struct without *x, const struct see_edge *e)
{
    const struct carried_list *list = &x->carried[e->from - x->w->task_begin];
    bool is_to = is_without(x, e->to, e->to_argument);
    int status = PTO_OK;

    for (uint32_t i = 0; i < list->count && status == PTO_OK; i++) {
        struct see_edge edge = *e;

        if (is_to) {
            status = without_carry(&x->carried[e->to - x->w->task_begin], list->at[i]);
        } else if (is_conflict(x->r, list->at[i], e->to, e->to_argument)) {
            edge.from = list->at[i].task;
            edge.from_argument = list->at[i].argument;
            status = without_emit(x, &edge);
        }
    }
    return status;
}

static int unused_compare_edges(const void *a, const void *b)
{
    const struct see_edge *x = a, *y = b;

    return x->from < y->from ? -1 : x->from > y->from;
}

/* Computes the edges into one task of the graph without the argument, sorted by predecessor. */
static int without_add_task(struct without *x, uint32_t task)
{
    const struct see_recording *r = x->r;
    uint64_t begin = x->edge_count;
    int status = PTO_OK;

    for (uint64_t i = r->edge_from[task]; i < r->edge_from[task + 1] && status == PTO_OK; i++) {
        const struct see_edge *e = &r->edge[i];

        if (is_without(x, e->from, e->from_argument))
            status = without_bridge(x, e);
        else if (is_without(x, task, e->to_argument))
            status = without_carry(&x->carried[task - x->w->task_begin],
                                   (struct carried){ e->from, e->from_argument });
        else
            status = without_emit(x, e);
    }
    if (status == PTO_OK && x->edge_count > begin)
        qsort(x->edge + begin, x->edge_count - begin, sizeof(*x->edge), unused_compare_edges);
    return status;
}

/* Computes the arrays `out` and `out_from`, which list the edges of each task to its successors. */
static void without_index(struct without *x)
{
    uint32_t tasks = x->r->task_count;

    for (uint64_t i = 0; i < x->edge_count; i++)
        x->out_from[x->edge[i].from + 1]++;
    for (uint32_t t = 0; t < tasks; t++)
        x->out_from[t + 1] += x->out_from[t];
    for (uint64_t i = 0; i < x->edge_count; i++)
        x->out[x->out_from[x->edge[i].from]++] = i;
    memmove(x->out_from + 1, x->out_from, tasks * sizeof(*x->out_from));
    x->out_from[0] = 0;
}

static void without_free(struct without *x)
{
    uint32_t tasks = x->w->task_end - x->w->task_begin;

    for (uint32_t i = 0; x->carried != NULL && i < tasks; i++)
        free(x->carried[i].at);
    free(x->carried);
    free(x->is_in);
    free(x->edge);
    free(x->edge_from);
    free(x->out_from);
    free(x->out);
}

/* Computes the graph without the argument. The caller calls without_free, also after a failure. */
static int without_make(const struct see_work *w, const struct see_unused_argument *of,
                        struct without *x)
{
    const struct see_recording *r = w->r;
    uint32_t tasks = w->task_end - w->task_begin;
    int status = PTO_OK;

    *x = (struct without){ .r = r, .w = w, .argument = of->argument };
    x->is_in = calloc(tasks + (size_t)1, 1);
    x->carried = calloc(tasks + (size_t)1, sizeof(*x->carried));
    x->edge_from = calloc(r->task_count + (size_t)1, sizeof(*x->edge_from));
    x->out_from = calloc(r->task_count + (size_t)2, sizeof(*x->out_from));
    if (x->is_in == NULL || x->carried == NULL || x->edge_from == NULL || x->out_from == NULL)
        return PTO_ENOMEM;
    for (uint32_t t = w->task_begin; t < w->task_end; t++)
        x->is_in[t - w->task_begin] =
            r->task[t].line == of->line && see_task_kernel(r, t) == of->kernel &&
            r->touch_from[t] < r->touch_from[t + 1] &&
            of->argument < r->argument_from[t + 1] - r->argument_from[t] &&
            is_unused(r, t, of->argument);
    for (uint32_t t = 0; t < r->task_count && status == PTO_OK; t++) {
        x->edge_from[t] = x->edge_count;
        status = without_add_task(x, t);
    }
    x->edge_from[r->task_count] = x->edge_count;
    if (status == PTO_OK && (x->out = calloc(x->edge_count + 1, sizeof(*x->out))) == NULL)
        status = PTO_ENOMEM;
    if (status == PTO_OK)
        without_index(x);
    return status;
}

/* ---- what the argument costs ---- */

/*
 * Whether `x` has an edge from task `from`. Edges are sorted; the search begins at *at, which is
 * advanced, and ends before `end`.
 */
static bool has_pair(const struct without *x, uint32_t from, uint64_t *at, uint64_t end)
{
    while (*at < end && x->edge[*at].from < from)
        (*at)++;
    return *at < end && x->edge[*at].from == from;
}

/* Returns the number of pairs of tasks that have an edge in the recording and none in `x`. */
static uint64_t unused_count_pairs(const struct without *x)
{
    const struct see_recording *r = x->r;
    uint64_t pairs = 0;

    for (uint32_t t = x->w->task_begin; t < x->w->task_end; t++) {
        uint64_t at = x->edge_from[t];

        for (uint64_t i = r->edge_from[t]; i < r->edge_from[t + 1]; i++)
            if ((i == r->edge_from[t] || r->edge[i - 1].from != r->edge[i].from) &&
                !has_pair(x, r->edge[i].from, &at, x->edge_from[t + 1]))
                pairs++;
    }
    return pairs;
}

/* Predicts the makespan of the graph without the argument. */
static int unused_predict(const struct see_analysis *a, const struct without *x,
                          struct see_unused_argument *of)
{
    struct see_recording changed = *x->r;
    struct see_work work = *x->w;
    const struct see_model *m = &a->model;
    struct see_model other;
    uint64_t band_ns[2];
    int status;

    changed.edge = x->edge;
    changed.edge_count = x->edge_count;
    changed.edge_from = x->edge_from;
    changed.out_from = x->out_from;
    changed.out = x->out;
    work.r = &changed;
    status = see_model_make(&work, &a->idle, &other);
    if (status < 0)
        return status;
    /* uses the scheduling costs that were estimated for the recorded graph */
    other.machine = m->machine;
    of->ns = see_model_predict(&other, &(struct see_change){ .scale = NULL }, band_ns);
    of->change = m->predicted_ns != 0 ? (double)of->ns / (double)m->predicted_ns - 1 : 0;
    of->is_finding = of->ns < m->band_ns[0] && of->change <= -UNUSED_CHANGE_MIN;
    see_model_free(&other);
    return PTO_OK;
}

int see_unused_arguments_make(const struct see_analysis *a, struct see_unused_arguments *out)
{
    const struct see_work *w = &a->work;
    int status = PTO_OK;

    *out = (struct see_unused_arguments){ .of = calloc(SEE_UNUSED_MAX, sizeof(*out->of)) };
    if (out->of == NULL)
        return PTO_ENOMEM;
    if (w->r->has_edges && w->r->level >= PTO_TRACE_ARGUMENTS)
        find_unused(w, out);
    for (uint32_t i = 0; i < out->count && status == PTO_OK; i++) {
        struct without x;

        status = without_make(w, &out->of[i], &x);
        if (status == PTO_OK) {
            out->of[i].pairs = unused_count_pairs(&x);
            status = unused_predict(a, &x, &out->of[i]);
        }
        without_free(&x);
    }
    if (status < 0) {
        see_unused_arguments_free(out);
        *out = (struct see_unused_arguments){ 0 };
    }
    return status;
}

void see_unused_arguments_free(struct see_unused_arguments *u)
{
    if (u != NULL)
        free(u->of);
}
