/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of the nodes of a race graph: dependencies of tasks, waits of the orchestration, and
 * signals between kernels.
 */
#include <stdlib.h>
#include <string.h>

#include "pto/status.h"
#include "tool/see/race_graph.h"

/* ---- waits of the orchestration ---- */

/* State of finding the accesses for which the orchestration waited before its own accesses. */
struct waits {
    struct race_graph *g;
    /* for each region: index of its first access in `list` (one entry more than regions) */
    uint64_t *first;
    uint32_t *count; /* for each region: number of accesses so far */
    /*
     * for each region: number of its accesses for which an earlier read by the orchestration, or an
     * earlier write, has waited
     */
    uint32_t *awaited;
    uint32_t *list;
    struct see_edge *edge; /* edges between nodes */
    uint64_t edge_count, edge_max;
};

/*
 * Whether the orchestration waits for the access before it reads an overlapping element or, if
 * is_set, writes it. docs/user/ordering.md has these rules for pto_get_data and pto_set_data.
 */
static bool is_awaited(const struct race_graph *g, const struct race_access *a, bool is_set)
{
    const struct see_argument *argument;

    if (a->use == SEE_USE_UNDECLARED || a->argument == SEE_RACE_ELEMENT || a->touch != 0 ||
        (a->use == SEE_USE_READ && !is_set))
        return false;
    if (a->argument == SEE_RACE_PREDICATE)
        argument = &g->r->element[a->element].argument;
    else
        argument = &g->r->argument[g->r->argument_from[g->task[a->node]] + (uint64_t)a->argument];
    return (argument->flags & PTO_RECORDING_MANUAL_DEP) == 0 || argument->tag == PTO_TAG_OUTPUT;
}

static int add_wait(struct waits *w, uint32_t from, uint32_t to)
{
    if (w->edge_count == w->edge_max) {
        uint64_t max = 2 * w->edge_max + 256;
        struct see_edge *grown = realloc(w->edge, max * sizeof(*grown));

        if (grown == NULL)
            return PTO_ENOMEM;
        w->edge = grown;
        w->edge_max = max;
    }
    w->edge[w->edge_count++] = (struct see_edge){ .from = from, .to = to };
    return PTO_OK;
}

/*
 * Adds edges to the node of an access by the orchestration from the accesses for which the
 * orchestration waits. In mode host it waits for none, because no task runs before the graph is
 * complete.
 */
static int add_waits(struct waits *w, const struct race_access *a)
{
    const struct race_graph *g = w->g;
    const struct race_region *own = &g->region[a->region];
    int status = PTO_OK;

    if (g->r->mode == PTO_MODE_HOST)
        return PTO_OK;
    for (uint32_t i = 0; status >= 0 && i < own->near_count; i++) {
        uint32_t region = g->near[own->near + i];
        uint32_t *awaited = &w->awaited[2ull * region + (a->use == SEE_USE_WRITE)];

        for (uint32_t k = *awaited; status >= 0 && k < w->count[region]; k++) {
            const struct race_access *x = &g->access[w->list[w->first[region] + k]];

            if (is_awaited(g, x, a->use == SEE_USE_WRITE))
                status = add_wait(w, g->last[g->begin[x->node]], a->node);
        }
        *awaited = w->count[region];
    }
    return status;
}

static int find_waits(struct waits *w)
{
    struct race_graph *g = w->g;
    size_t regions = g->region_count + (size_t)1;
    int status = PTO_OK;

    if (g->r->element_count == 0)
        return PTO_OK;
    w->first = calloc(regions + 1, sizeof(*w->first));
    w->count = calloc(regions, sizeof(*w->count));
    w->awaited = calloc(2 * regions, sizeof(*w->awaited));
    w->list = malloc((g->access_count + 1ull) * sizeof(*w->list));
    if (w->first == NULL || w->count == NULL || w->awaited == NULL || w->list == NULL)
        return PTO_ENOMEM;
    for (uint32_t i = 0; i < g->access_count; i++)
        w->first[g->access[i].region + 1]++;
    for (uint32_t i = 0; i < g->region_count; i++)
        w->first[i + 1] += w->first[i];
    for (uint32_t i = 0; status >= 0 && i < g->access_count; i++) {
        const struct race_access *a = &g->access[i];

        if (a->argument == SEE_RACE_ELEMENT)
            status = add_waits(w, a);
        w->list[w->first[a->region] + w->count[a->region]++] = i;
    }
    return status;
}

/*
 * Adds the predecessors of a task: those of its edges, without duplicates, and the latest access by
 * the orchestration before the submit. `node_of` has the node of each task of the group.
 */
static void order_task(struct race_graph *g, uint32_t node, const uint32_t *node_of,
                       uint32_t barrier, uint64_t *count)
{
    const struct see_recording *r = g->r;
    uint32_t task = g->task[node], begin = r->group[g->group].task_begin;
    uint32_t last = PTO_RECORDING_NONE;

    for (uint64_t k = r->edge_from[task]; k < r->edge_from[task + 1]; k++)
        if (r->edge[k].from != last && r->edge[k].from >= begin) {
            last = r->edge[k].from;
            g->order.before[(*count)++] = node_of[last - begin];
        }
    if (barrier != PTO_RECORDING_NONE)
        g->order.before[(*count)++] = barrier;
}

/* Returns the node of a segment of any task; PTO_RECORDING_NONE: there is none. */
static uint32_t find_segment(const struct race_graph *g, uint32_t id)
{
    const struct race_segment wanted = { .id = id };
    const struct race_segment *found =
        bsearch(&wanted, g->segment, g->segment_count, sizeof(wanted), see_race_compare_segments);

    return found != NULL ? found->node : PTO_RECORDING_NONE;
}

/* Adds the edges between the segments of a task, and those from segments of others. */
static int order_add_steps(struct waits *w, uint32_t begin)
{
    const struct race_graph *g = w->g;
    const struct see_recording *r = g->r;
    uint32_t task = g->task[begin], end = g->last[begin];
    int status = add_wait(w, begin, end);

    for (uint32_t n = begin + 1; n < end && status >= 0; n++)
        status = add_wait(w, n, end);
    for (uint64_t i = r->touch_from[task]; i < r->touch_from[task + 1] && status >= 0; i++) {
        const struct see_touch *t = &r->touch[i];
        uint32_t from = t->before != 0 ? find_segment(g, t->before) : begin;
        uint32_t to = t->kind == PTO_RECORDING_TOUCH_END ? end : find_segment(g, t->segment);

        /* an invocation of a task of several begins with it, also if it did not signal */
        if (t->segment != 0 && t->kind < PTO_RECORDING_TOUCH_STEP &&
            (i == r->touch_from[task] || t[-1].segment != t->segment))
            status = add_wait(w, begin, to);
        else if (t->kind >= PTO_RECORDING_TOUCH_STEP && from != PTO_RECORDING_NONE)
            /* mutation: signals-ignored */
            status = add_wait(w, from, to);
    }
    return status;
}

static int waits_by_node(const void *a, const void *b)
{
    const struct see_edge *x = a, *y = b;

    return x->to < y->to ? -1 : x->to > y->to;
}

/* Adds the edges of signals to those of waits, in the order of their later nodes. */
static int find_steps(struct waits *w)
{
    struct race_graph *g = w->g;
    int status = PTO_OK;

    if (g->segment_count > 1)
        qsort(g->segment, g->segment_count, sizeof(*g->segment), see_race_compare_segments);
    for (uint32_t n = 0; n < g->node_count && status >= 0; n++)
        if (g->last[n] != n && g->begin[n] == n)
            status = order_add_steps(w, n);
    if (w->edge_count > 1)
        qsort(w->edge, w->edge_count, sizeof(*w->edge), waits_by_node);
    return status;
}

/*
 * Sets the predecessors of each node. The edges in `w` are in the order of their later nodes.
 * node_of gets the node at the end of each task of the group.
 */
static void order_nodes(struct race_graph *g, const struct waits *w, uint32_t *node_of)
{
    uint32_t begin = g->r->group[g->group].task_begin, barrier = PTO_RECORDING_NONE;
    uint64_t count = 0, next = 0;

    for (uint32_t n = 0; n < g->node_count; n++) {
        g->order.from[n] = count;
        for (; next < w->edge_count && w->edge[next].to == n; next++)
            g->order.before[count++] = w->edge[next].from;
        if (g->element[n] != PTO_RECORDING_NONE) {
            if (barrier != PTO_RECORDING_NONE)
                g->order.before[count++] = barrier;
            barrier = n;
        } else if (g->begin[n] == n) {
            node_of[g->task[n] - begin] = g->last[n];
            order_task(g, n, node_of, barrier, &count);
        }
    }
    g->order.from[g->node_count] = count;
}

/* ---- signals to tasks that were submitted earlier ---- */

/* New numbers of nodes, so that each comes after its predecessors. */
struct renumbering {
    const struct see_precedence *order;
    uint32_t *number; /* for each node; PTO_RECORDING_NONE: none yet */
    uint32_t *node;   /* for each number */
    uint32_t *stack;
    uint64_t *next; /* for each node on the stack: the next predecessor to look at */
    uint32_t count;
};

/* Numbers a node, after its predecessors. */
static void number_node(struct renumbering *x, uint32_t node)
{
    uint32_t top = 0;

    x->stack[top++] = node;
    x->next[node] = x->order->from[node];
    while (top != 0) {
        uint32_t n = x->stack[top - 1];

        if (x->next[n] < x->order->from[n + 1]) {
            uint32_t before = x->order->before[x->next[n]++];

            /* a node on the stack closes a cycle, which only a damaged recording has */
            if (x->number[before] == PTO_RECORDING_NONE && x->next[before] == UINT64_MAX) {
                x->next[before] = x->order->from[before];
                x->stack[top++] = before;
            }
            continue;
        }
        x->number[n] = x->count;
        x->node[x->count++] = n;
        top--;
    }
}

/* Replaces the numbers of nodes in all arrays but `begin`, `last` and `segment`. */
static int renumber_all(struct race_graph *g, const struct renumbering *x)
{
    struct see_precedence to = { .count = g->node_count };
    struct race_access *access = malloc((g->access_count + 1ull) * sizeof(*access));
    uint64_t *first = calloc(g->node_count + 1ull, sizeof(*first)), count = 0;
    uint32_t *task = malloc((g->node_count + 1ull) * sizeof(*task));
    uint32_t *element = malloc((g->node_count + 1ull) * sizeof(*element));
    int status = PTO_ENOMEM;

    to.from = malloc((g->node_count + 1ull) * sizeof(*to.from));
    to.before = malloc((g->order.from[g->node_count] + 1) * sizeof(*to.before));
    if (access != NULL && first != NULL && task != NULL && element != NULL && to.from != NULL &&
        to.before != NULL) {
        for (uint32_t i = 0; i < g->access_count; i++)
            first[x->number[g->access[i].node] + 1]++;
        for (uint32_t n = 0; n < g->node_count; n++) {
            uint32_t old = x->node[n];

            first[n + 1] += first[n];
            task[n] = g->task[old];
            element[n] = g->element[old];
            to.from[n] = count;
            for (uint64_t k = g->order.from[old]; k < g->order.from[old + 1]; k++)
                if (x->number[g->order.before[k]] < n)
                    to.before[count++] = x->number[g->order.before[k]];
        }
        to.from[g->node_count] = count;
        for (uint32_t i = 0; i < g->access_count; i++) {
            uint32_t node = x->number[g->access[i].node];

            access[first[node]] = g->access[i];
            access[first[node]++].node = node;
        }
        memcpy(g->access, access, g->access_count * sizeof(*access));
        memcpy(g->task, task, g->node_count * sizeof(*task));
        memcpy(g->element, element, g->node_count * sizeof(*element));
        see_precedence_free(&g->order);
        g->order = to;
        to = (struct see_precedence){ .count = 0 };
        status = PTO_OK;
    }
    see_precedence_free(&to);
    free(access);
    free(first);
    free(task);
    free(element);
    return status;
}

static int renumber_nodes(struct race_graph *g)
{
    size_t nodes = g->node_count + (size_t)1;
    struct renumbering x = { .order = &g->order,
                             .number = malloc(nodes * sizeof(*x.number)),
                             .node = malloc(nodes * sizeof(*x.node)),
                             .stack = malloc(nodes * sizeof(*x.stack)),
                             .next = malloc(nodes * sizeof(*x.next)) };
    int status = PTO_ENOMEM;

    if (x.number != NULL && x.node != NULL && x.stack != NULL && x.next != NULL) {
        memset(x.number, 0xff, nodes * sizeof(*x.number));
        memset(x.next, 0xff, nodes * sizeof(*x.next));
        for (uint32_t n = 0; n < g->node_count; n++)
            if (x.number[n] == PTO_RECORDING_NONE)
                number_node(&x, n);
        status = renumber_all(g, &x);
    }
    free(x.number);
    free(x.node);
    free(x.stack);
    free(x.next);
    return status;
}

/* ---- all of it ---- */

static int make_order(struct race_graph *g, const struct waits *w)
{
    const struct see_recording *r = g->r;
    const struct see_group *group = &r->group[g->group];
    uint64_t edges = r->edge_from[group->task_end] - r->edge_from[group->task_begin];
    uint32_t *node_of = malloc((group->task_end - group->task_begin + 1ull) * sizeof(*node_of));
    int status = PTO_ENOMEM;

    g->order.count = g->node_count;
    g->order.from = malloc((g->node_count + 1ull) * sizeof(*g->order.from));
    g->order.before =
        malloc((edges + w->edge_count + g->node_count + 1ull) * sizeof(*g->order.before));
    if (node_of != NULL && g->order.from != NULL && g->order.before != NULL) {
        order_nodes(g, w, node_of);
        /* segments of a task are not in the order of their accesses, nor in that of signals */
        status = g->segment_count != 0 ? renumber_nodes(g) : PTO_OK;
        if (status >= 0)
            status = see_precedence_make(&g->order);
    }
    free(node_of);
    return status;
}

int see_race_order_make(struct race_graph *g)
{
    struct waits w = { .g = g };
    int status = find_waits(&w);

    if (status >= 0)
        status = find_steps(&w);
    if (status >= 0)
        status = make_order(g, &w);
    free(w.first);
    free(w.count);
    free(w.awaited);
    free(w.list);
    free(w.edge);
    return status;
}
