/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects partially written cache lines, sorts them, and checks whether two tasks that write one
 * are ordered.
 */
#include "tool/scene/scene_lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USES_MAX (1ull << 24)

/* ---- submits ---- */

/* Appends an element; NULL: out of memory. */
static void *lines_add(void *list, uint64_t *count, uint64_t *max, size_t bytes)
{
    void *old, *more;

    memcpy(&old, list, sizeof(old));
    if (*count == *max) {
        uint64_t room = *max != 0 ? 2 * *max : 1024;

        more = realloc(old, room * bytes);
        if (more == NULL)
            return NULL;
        memcpy(list, &more, sizeof(more));
        old = more;
        *max = room;
    }
    return (char *)old + bytes * (*count)++;
}

static void add_use(struct lines_watch *w, struct lines_use use)
{
    struct lines_use *to;

    if (use.mask == 0 || use.mask == UINT64_MAX)
        return;
    to = w->use_count < USES_MAX ? lines_add(&w->use, &w->use_count, &w->use_max, sizeof(*to))
                                 : NULL;
    if (to != NULL)
        *to = use;
    else
        w->is_short = true;
}

/* Returns a mask of the bits from `from` up to, but not including, `to`. */
static uint64_t bits(uint64_t from, uint64_t to)
{
    return (to == LINES_BYTES ? UINT64_MAX : (1ull << to) - 1) & ~((1ull << from) - 1);
}

/*
 * Adds contiguous bytes that a task writes. Only their first and last cache lines can be shared
 * with other tasks.
 */
static void add_bytes(struct lines_watch *w, struct lines_use use, uint64_t begin, uint64_t end)
{
    uint64_t first = begin / LINES_BYTES, last = (end - 1) / LINES_BYTES;

    use.line = first;
    use.mask = bits(begin % LINES_BYTES, first == last ? (end - 1) % LINES_BYTES + 1 : LINES_BYTES);
    add_use(w, use);
    use.line = last;
    use.mask = bits(0, (end - 1) % LINES_BYTES + 1);
    if (first != last)
        add_use(w, use);
}

static void lines_add_tensor(struct lines_watch *w, const struct pto_tensor *t, uint32_t task)
{
    struct lines_use use = { .addr = t->addr, .owner = t->owner, .task = task };
    uint32_t index[PTO_MAX_DIMS] = { 0 }, rows = t->ndims, d = 1;
    uint64_t element = pto_dtype_size(t->dtype), together = 1;

    if (t->extent == 0 || element == 0 || t->ndims > PTO_MAX_DIMS)
        return;
    while (rows > 0 && (t->shapes[rows - 1] == 1 || t->strides[rows - 1] == together))
        together *= t->shapes[--rows];
    while (d != 0 && !w->is_short) {
        uint64_t at = t->start;

        for (uint32_t k = 0; k < rows; k++)
            at += (uint64_t)index[k] * t->strides[k];
        add_bytes(w, use, at * element, (at + together) * element);
        for (d = rows; d > 0 && ++index[d - 1] == t->shapes[d - 1]; d--)
            index[d - 1] = 0;
    }
}

void scene_lines_watch_task(void *context, const struct pto_task_view *view)
{
    struct lines_watch *w = context;
    const char *file = view->site != NULL && view->site->file != NULL ? view->site->file : "";
    struct lines_task *task;

    do { /* Ids of allocations are not reported, so their array elements stay empty. */
        task = lines_add(&w->task, &w->task_count, &w->task_max, sizeof(*task));
        if (task == NULL) {
            w->is_short = true;
            return;
        }
        *task = (struct lines_task){ .id = pto_task_id_invalid() };
    } while (w->task_count <= view->index);
    task->id = view->task;
    task->kernels = view->kernels;
    task->line = view->site != NULL ? view->site->line : 0;
    snprintf(task->file, sizeof(task->file), "%s",
             strrchr(file, '/') != NULL ? strrchr(file, '/') + 1 : file);
    if (w->entry_count == 0) {
        w->entry_count = view->entry->tensor_count;
        for (uint32_t i = 0; i < w->entry_count; i++)
            w->entry_addr[i] = view->entry->tensor[i].addr;
    }
    if (view->kernels.aic < 0 && view->kernels.aiv0 < 0 && view->kernels.aiv1 < 0)
        return; /* a task without kernels writes nothing */
    for (uint32_t i = 0; i < view->args->tensor_count; i++)
        if ((pto_tag_use(view->args->tag[i]) & (PTO_WRITES | PTO_CREATES)) == PTO_WRITES)
            lines_add_tensor(w, view->args->tensor[i], (uint32_t)view->index);
}

bool scene_lines_watch_edge(void *context, uint64_t before, uint64_t after)
{
    struct lines_watch *w = context;
    struct lines_edge *edge = lines_add(&w->edge, &w->edge_count, &w->edge_max, sizeof(*edge));

    if (edge != NULL)
        *edge = (struct lines_edge){ (uint32_t)before, (uint32_t)after };
    else
        w->is_short = true;
    return true;
}

/* ---- order of tasks ---- */

/* Edges sorted by the waiting task, and the state of a search through them. */
struct order {
    const struct lines_edge *edge;
    /* By task: index of the task's first edge; the element after the last task is the end. */
    uint64_t *first;
    uint32_t *mark;   /* by task: number of the last search that visited it */
    uint32_t *to_see; /* stack of tasks to visit */
    uint32_t question;
};

static int compare_edges(const void *a, const void *b)
{
    const struct lines_edge *x = a, *y = b;

    return x->after != y->after ? (x->after < y->after ? -1 : 1)
                                : (x->before > y->before) - (x->before < y->before);
}

static bool order_make(struct order *o, struct lines_watch *w)
{
    uint64_t at = 0;

    *o = (struct order){ .edge = w->edge,
                         .first = calloc(w->task_count + 1, sizeof(*o->first)),
                         .mark = calloc(w->task_count + 1, sizeof(*o->mark)),
                         .to_see = calloc(w->task_count + 1, sizeof(*o->to_see)) };
    if (o->first == NULL || o->mark == NULL || o->to_see == NULL)
        return false;
    if (w->edge_count != 0)
        qsort(w->edge, w->edge_count, sizeof(w->edge[0]), compare_edges);
    for (uint64_t task = 0; task <= w->task_count; task++) {
        while (at < w->edge_count && w->edge[at].after < task)
            at++;
        o->first[task] = at;
    }
    return true;
}

static void order_free(struct order *o)
{
    free(o->first);
    free(o->mark);
    free(o->to_see);
}

/* Searches backwards, from the later task; edges lead from lower to higher task numbers. */
static bool is_ordered(struct order *o, uint32_t before, uint32_t after)
{
    uint32_t count = 0;

    o->question++;
    o->to_see[count++] = after;
    while (count != 0) {
        uint32_t task = o->to_see[--count];

        for (uint64_t i = o->first[task]; i < o->first[task + 1]; i++) {
            uint32_t earlier = o->edge[i].before;

            if (earlier == before)
                return true;
            if (earlier < before || o->mark[earlier] == o->question)
                continue;
            o->mark[earlier] = o->question;
            o->to_see[count++] = earlier;
        }
    }
    return false;
}

/* ---- finding shared lines ---- */

static int lines_compare_lines(const struct lines_use *x, const struct lines_use *y)
{
    if (x->addr != y->addr)
        return x->addr < y->addr ? -1 : 1;
    if (x->owner.raw != y->owner.raw)
        return x->owner.raw < y->owner.raw ? -1 : 1;
    return (x->line > y->line) - (x->line < y->line);
}

static int compare_uses(const void *a, const void *b)
{
    const struct lines_use *x = a, *y = b;
    int lines = lines_compare_lines(x, y);

    return lines != 0 ? lines : (x->task > y->task) - (x->task < y->task);
}

/* Merges uses of one line by one task. */
static void join_uses(struct lines_watch *w)
{
    uint64_t kept = 0;

    for (uint64_t i = 0; i < w->use_count; i++)
        if (kept != 0 && compare_uses(&w->use[kept - 1], &w->use[i]) == 0)
            w->use[kept - 1].mask |= w->use[i].mask;
        else
            w->use[kept++] = w->use[i];
    w->use_count = kept;
}

/* Checking adjacent uses is enough: if each task waits for the one before it, all are ordered. */
int scene_lines_find(struct lines_watch *w, struct lines_use use[2], bool *found)
{
    struct order order;

    *found = false;
    if (w->is_short || !order_make(&order, w)) {
        if (!w->is_short)
            order_free(&order);
        return PTO_ENOMEM;
    }
    if (w->use_count != 0)
        qsort(w->use, w->use_count, sizeof(w->use[0]), compare_uses);
    join_uses(w);
    for (uint64_t i = 1; i < w->use_count && !*found; i++) {
        const struct lines_use *a = &w->use[i - 1], *b = &w->use[i];

        if (lines_compare_lines(a, b) == 0 && (a->mask & b->mask) == 0 &&
            !is_ordered(&order, a->task, b->task)) {
            use[0] = *a;
            use[1] = *b;
            *found = true;
        }
    }
    order_free(&order);
    return PTO_OK;
}

void scene_lines_free(struct lines_watch *w)
{
    free(w->task);
    free(w->use);
    free(w->edge);
}
