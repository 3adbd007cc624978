/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/see/race_graph.h"

#include <stdlib.h>
#include <string.h>

#include "pto/status.h"

/*
 * State of a search for the accesses that the orchestration waited for before it accessed an
 * element.
 */
struct waits {
    struct race_graph *g;
    /*
     * for each region: index of its first access in `list`; the array has one element more than
     * there are regions
     */
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

/* ---- regions ---- */

static uint64_t hash_view(const struct see_byte_view *v, uint64_t space)
{
    uint64_t hash = (v->lo ^ space * 0xd6e8feb86659fd93ull) * 0x9e3779b97f4a7c15ull;

    hash = (hash ^ hash >> 29 ^ v->run) * 0xff51afd7ed558ccdull;
    for (uint32_t d = 0; d < v->ndims; d++)
        hash = (hash ^ hash >> 31 ^ v->stride[d] ^ v->count[d] << 32) * 0xc4ceb9fe1a85ec53ull;
    return hash ^ hash >> 32;
}

static bool is_equal_view(const struct see_byte_view *a, const struct see_byte_view *b)
{
    return a->lo == b->lo && a->hi == b->hi && a->run == b->run && a->ndims == b->ndims &&
           memcmp(a->stride, b->stride, a->ndims * sizeof(a->stride[0])) == 0 &&
           memcmp(a->count, b->count, a->ndims * sizeof(a->count[0])) == 0;
}

/* Returns the index of the region, after adding the region if it is new. */
static uint32_t enter_region(struct race_graph *g, const struct see_byte_view *v, uint64_t space)
{
    uint32_t *bucket = &g->bucket[hash_view(v, space) & (g->bucket_count - 1)];

    for (uint32_t i = *bucket; i != PTO_RECORDING_NONE; i = g->region[i].next)
        if (g->region[i].space == space && is_equal_view(&g->region[i].view, v))
            return i;
    g->region[g->region_count] =
        (struct race_region){ .view = *v, .space = space, .next = *bucket };
    *bucket = g->region_count;
    return g->region_count++;
}

static int enter_access(struct race_graph *g, const struct see_argument *a,
                        struct race_access access)
{
    struct see_byte_view v;
    uint64_t run = access.element != PTO_RECORDING_NONE ? g->r->element[access.element].run
                                                        : g->r->task[g->task[access.node]].run;

    see_byte_view_make(&v, a);
    if (v.lo == v.hi)
        return PTO_OK;
    if (g->region_count == g->region_max) {
        uint32_t max = 2 * g->region_max + 256;
        struct race_region *grown = realloc(g->region, max * sizeof(*grown));

        if (grown == NULL)
            return PTO_ENOMEM;
        g->region = grown;
        g->region_max = max;
    }
    access.region = enter_region(
        g, &v, run << 32 | ((a->flags & PTO_RECORDING_CREATED) != 0 ? a->allocation + 1ull : 0));
    g->access[g->access_count++] = access;
    return PTO_OK;
}

/* ---- what kernels used ---- */

/* Records where in memory the buffers lie that tasks of the group created. */
static int find_buffers(struct race_graph *g)
{
    const struct see_recording *r = g->r;
    const struct see_group *group = &r->group[g->group];

    g->buffer = calloc(r->allocation_count + (size_t)1, sizeof(*g->buffer));
    if (g->buffer == NULL)
        return PTO_ENOMEM;
    for (uint32_t task = group->task_begin; task < group->task_end; task++)
        for (uint64_t i = r->argument_from[task]; i < r->argument_from[task + 1]; i++) {
            const struct see_argument *a = &r->argument[i];

            if ((a->flags & PTO_RECORDING_CREATED) != 0 && g->buffer[a->allocation].hi == 0)
                g->buffer[a->allocation] = (struct race_buffer){ a->addr, a->addr + a->size, task };
        }
    return PTO_OK;
}

/*
 * Finds the buffer that contains bytes outside of all arguments of a task: of the buffers that have
 * had this address, the latest one that was created before the task.
 */
static int find_stray(struct race_graph *g, uint32_t task, struct see_argument *part)
{
    uint64_t at = part->addr + part->start;
    uint32_t latest = 0;

    if (g->buffer == NULL && find_buffers(g) < 0)
        return PTO_ENOMEM;
    for (uint32_t i = 0; i < g->r->allocation_count; i++) {
        const struct race_buffer *b = &g->buffer[i];

        if (at < b->lo || at >= b->hi || b->task > task || b->task < latest ||
            g->r->task[b->task].run != g->r->task[task].run)
            continue;
        latest = b->task;
        part->flags |= PTO_RECORDING_CREATED;
        part->allocation = i;
    }
    return PTO_OK;
}

static int enter_touches(struct race_graph *g, uint32_t node)
{
    const struct see_recording *r = g->r;
    uint32_t task = g->task[node];
    int status = PTO_OK;

    for (uint64_t i = r->touch_from[task]; i < r->touch_from[task + 1] && status >= 0; i++) {
        const struct see_touch *t = &r->touch[i];
        struct see_argument part = t->part;

        if (!see_touch_has_part(t))
            continue;
        if (t->argument < 0)
            status = find_stray(g, task, &part);
        if (status >= 0)
            status = enter_access(
                g, &part,
                (struct race_access){ .node = node,
                                      .element = PTO_RECORDING_NONE,
                                      .argument = t->argument >= 0 ? t->argument : SEE_RACE_STRAY,
                                      .use = t->kind == PTO_RECORDING_TOUCH_WRITE ? SEE_USE_WRITE
                                                                                  : SEE_USE_READ,
                                      .touch = (uint32_t)i + 1 });
    }
    return status;
}

static uint8_t use_of_tag(uint32_t tag)
{
    uint32_t use = pto_tag_use(tag);

    return (use & PTO_WRITES) != 0  ? SEE_USE_WRITE
           : (use & PTO_READS) != 0 ? SEE_USE_READ
                                    : SEE_USE_UNDECLARED;
}

/* ---- nodes ---- */

static bool is_barrier(const struct see_element *e)
{
    return e->kind != PTO_RECORDING_ELEMENT_PREDICATE;
}

/*
 * Adds a node for each access by the orchestration between the previous submit and that of `task`;
 * for the index after the last task, adds the remaining ones.
 */
static int enter_elements(struct race_graph *g, uint32_t task, uint32_t *next)
{
    const struct see_recording *r = g->r;
    int status = PTO_OK;

    for (; *next < r->element_count && r->element[*next].task == task; ++*next) {
        const struct see_element *e = &r->element[*next];

        if (e->group != g->group || !is_barrier(e))
            return status;
        g->task[g->node_count] = task;
        g->element[g->node_count] = *next;
        status = enter_access(
            g, &e->argument,
            (struct race_access){ .node = g->node_count++,
                                  .element = *next,
                                  .argument = SEE_RACE_ELEMENT,
                                  .use = e->kind == PTO_RECORDING_ELEMENT_SET ? SEE_USE_WRITE
                                                                              : SEE_USE_READ });
        if (status < 0)
            return status;
    }
    return status;
}

static int enter_task(struct race_graph *g, uint32_t task, uint32_t *next)
{
    const struct see_recording *r = g->r;
    uint32_t node = g->node_count++;
    bool has_kernel = (r->task[task].flags & PTO_RECORDING_DUMMY) == 0;
    bool is_known = see_race_is_known(r, task);
    int status = PTO_OK;

    g->task[node] = task;
    g->element[node] = PTO_RECORDING_NONE;
    for (uint64_t i = r->argument_from[task];
         /*
          * if it is known what the kernel used, its arguments matter only for waits of the
          * orchestration
          */
         status >= 0 && has_kernel && (!is_known || r->element_count != 0) &&
         i < r->argument_from[task + 1];
         i++)
        status =
            enter_access(g, &r->argument[i],
                         (struct race_access){ .node = node,
                                               .element = PTO_RECORDING_NONE,
                                               .argument = (int16_t)(i - r->argument_from[task]),
                                               .use = use_of_tag(r->argument[i].tag),
                                               .only_orders = is_known });
    if (status >= 0 && is_known)
        status = enter_touches(g, node);
    for (; *next < r->element_count && r->element[*next].task == task; ++*next)
        if (status >= 0)
            status = enter_access(g, &r->element[*next].argument,
                                  (struct race_access){ .node = node,
                                                        .element = *next,
                                                        .argument = SEE_RACE_PREDICATE,
                                                        .use = SEE_USE_READ });
    return status;
}

static int enter_nodes(struct race_graph *g)
{
    const struct see_recording *r = g->r;
    const struct see_group *group = &r->group[g->group];
    uint64_t tasks = group->task_end - group->task_begin;
    uint64_t uses = r->argument_from[group->task_end] - r->argument_from[group->task_begin] +
                    r->touch_from[group->task_end] - r->touch_from[group->task_begin];
    uint32_t next = 0;
    int status = PTO_OK;

    for (g->bucket_count = 256; g->bucket_count < uses / 4 && g->bucket_count < 1u << 30;)
        g->bucket_count *= 2;
    g->task = malloc((tasks + r->element_count + 1) * sizeof(*g->task));
    g->element = malloc((tasks + r->element_count + 1) * sizeof(*g->element));
    g->access = malloc((uses + r->element_count + 1) * sizeof(*g->access));
    g->bucket = malloc(g->bucket_count * sizeof(*g->bucket));
    if (g->task == NULL || g->element == NULL || g->access == NULL || g->bucket == NULL ||
        tasks + r->element_count >= UINT32_MAX / 2 || uses + r->element_count >= UINT32_MAX / 2)
        return PTO_ENOMEM;
    memset(g->bucket, 0xff, g->bucket_count * sizeof(*g->bucket));
    while (next < r->element_count && r->element[next].group < g->group)
        next++;
    for (uint32_t task = group->task_begin; status >= 0 && task < group->task_end; task++) {
        status = enter_elements(g, task, &next);
        if (status >= 0)
            status = enter_task(g, task, &next);
    }
    if (status >= 0 && next < r->element_count && r->element[next].group == g->group)
        status = enter_elements(g, group->task_end, &next);
    return status;
}

/* ---- overlapping regions ---- */

static int regions_by_address(const void *a, const void *b, void *context)
{
    const struct race_region *region = context;
    const struct race_region *x = &region[*(const uint32_t *)a];
    const struct race_region *y = &region[*(const uint32_t *)b];

    if (x->space != y->space)
        return x->space < y->space ? -1 : 1;
    return x->view.lo < y->view.lo ? -1 : x->view.lo > y->view.lo;
}

/*
 * Appends two overlapping regions to `near`, as a pair of indices; arrange_near converts these
 * pairs.
 */
static int add_near(struct race_graph *g, uint32_t a, uint32_t b)
{
    if (g->near_count + 2 > g->near_max) {
        uint64_t max = 2 * g->near_max + 1024;
        uint32_t *grown = realloc(g->near, max * sizeof(*grown));

        if (grown == NULL)
            return PTO_ENOMEM;
        g->near = grown;
        g->near_max = max;
    }
    g->near[g->near_count++] = a;
    g->near[g->near_count++] = b;
    return PTO_OK;
}

/* Converts the pairs in `near` into a list for each region, which begins with the region itself. */
static int arrange_near(struct race_graph *g)
{
    uint64_t total = g->near_count + g->region_count, at = 0;
    uint32_t *list = malloc((total + 1) * sizeof(*list));

    if (list == NULL)
        return PTO_ENOMEM;
    for (uint64_t i = 0; i < g->near_count; i++)
        g->region[g->near[i]].near_count++;
    for (uint32_t i = 0; i < g->region_count; i++) {
        g->region[i].near = at;
        at += g->region[i].near_count + 1;
        list[g->region[i].near] = i;
        g->region[i].near_count = 1;
    }
    for (uint64_t i = 0; i < g->near_count; i++) {
        struct race_region *region = &g->region[g->near[i]];

        list[region->near + region->near_count++] = g->near[i ^ 1];
    }
    free(g->near);
    g->near = list;
    g->near_count = g->near_max = total;
    return PTO_OK;
}

/*
 * Finds overlapping regions: compares each region, in the order of their addresses, with those that
 * end after it begins.
 */
static int find_near(struct race_graph *g)
{
    uint32_t *order = malloc((g->region_count + 1ull) * sizeof(*order));
    uint32_t *open = malloc((g->region_count + 1ull) * sizeof(*open)), open_count = 0;
    int status = order != NULL && open != NULL ? PTO_OK : PTO_ENOMEM;

    for (uint32_t i = 0; status >= 0 && i < g->region_count; i++)
        order[i] = i;
    if (status >= 0 && g->region_count > 1)
        qsort_r(order, g->region_count, sizeof(*order), regions_by_address, g->region);
    for (uint32_t i = 0; status >= 0 && i < g->region_count; i++) {
        const struct race_region *x = &g->region[order[i]];
        uint32_t kept = 0;
        uint64_t at;

        for (uint32_t k = 0; k < open_count; k++) {
            const struct race_region *y = &g->region[open[k]];

            if (y->space != x->space || y->view.hi <= x->view.lo)
                continue;
            open[kept++] = open[k];
            if (status >= 0 && see_byte_views_meet(&x->view, &y->view, &at))
                status = add_near(g, order[i], open[k]);
        }
        open_count = kept;
        open[open_count++] = order[i];
    }
    free(order);
    free(open);
    return status >= 0 ? arrange_near(g) : status;
}

/* ---- the order of nodes ---- */

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
                status = add_wait(w, x->node, a->node);
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

/* Sets the predecessors of each node. The edges in `w` are in the order of their later nodes. */
static void order_nodes(struct race_graph *g, const struct waits *w, uint32_t *node_of)
{
    uint32_t begin = g->r->group[g->group].task_begin, barrier = PTO_RECORDING_NONE;
    uint64_t count = 0, next = 0;

    for (uint32_t n = 0; n < g->node_count; n++) {
        g->order.from[n] = count;
        if (g->element[n] == PTO_RECORDING_NONE) {
            node_of[g->task[n] - begin] = n;
            order_task(g, n, node_of, barrier, &count);
            continue;
        }
        for (; next < w->edge_count && w->edge[next].to == n; next++)
            g->order.before[count++] = w->edge[next].from;
        if (barrier != PTO_RECORDING_NONE)
            g->order.before[count++] = barrier;
        barrier = n;
    }
    g->order.from[g->node_count] = count;
}

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
        status = see_precedence_make(&g->order);
    }
    free(node_of);
    return status;
}

/* ---- the whole graph ---- */

int see_race_graph_make(struct race_graph *g, const struct see_recording *r, uint32_t group)
{
    struct waits w = { .g = g };
    int status;

    *g = (struct race_graph){ .r = r, .group = group };
    status = enter_nodes(g);
    if (status >= 0)
        status = find_near(g);
    if (status >= 0)
        status = find_waits(&w);
    if (status >= 0)
        status = make_order(g, &w);
    free(w.first);
    free(w.count);
    free(w.awaited);
    free(w.list);
    free(w.edge);
    return status;
}

void see_race_graph_free(struct race_graph *g)
{
    free(g->task);
    free(g->element);
    free(g->access);
    free(g->region);
    free(g->bucket);
    free(g->buffer);
    free(g->near);
    see_precedence_free(&g->order);
    *g = (struct race_graph){ 0 };
}

uint64_t see_race_graph_bytes(const struct race_graph *g)
{
    uint64_t edges = g->order.from != NULL ? g->order.from[g->node_count] : 0;

    return g->node_count * (2 * sizeof(*g->task) + sizeof(*g->order.from) + 5 * sizeof(uint32_t)) +
           g->access_count * sizeof(*g->access) + g->region_max * sizeof(*g->region) +
           g->bucket_count * sizeof(*g->bucket) + g->near_max * sizeof(*g->near) +
           edges * sizeof(uint32_t);
}
