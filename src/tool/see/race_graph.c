/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/see/race_graph.h"

#include <stdlib.h>
#include <string.h>

#include "pto/status.h"

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

static uint32_t enter_node(struct race_graph *g, uint32_t task, uint32_t element)
{
    uint32_t node = g->node_count++;

    g->task[node] = task;
    g->element[node] = element;
    g->begin[node] = g->last[node] = node;
    return node;
}

int see_race_compare_segments(const void *a, const void *b)
{
    const struct race_segment *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

/*
 * Adds a node for each segment of a task whose kernels signalled, and one for its end. Returns the
 * number of segments, which are the last ones of g->segment.
 */
static uint32_t enter_segments(struct race_graph *g, uint32_t begin)
{
    const struct see_recording *r = g->r;
    uint64_t from = r->touch_from[g->task[begin]], to = r->touch_from[g->task[begin] + 1];
    struct race_segment *own = &g->segment[g->segment_count];
    uint32_t count = 0, kept = 0;

    if (from == to || r->touch[to - 1].kind < PTO_RECORDING_TOUCH_STEP)
        return 0;
    for (uint64_t i = from; i < to; i++)
        if (r->touch[i].segment != 0)
            own[count++].id = r->touch[i].segment;
    if (count > 1)
        qsort(own, count, sizeof(*own), see_race_compare_segments);
    for (uint32_t i = 0; i < count; i++) {
        if (kept != 0 && own[kept - 1].id == own[i].id)
            continue;
        own[kept].id = own[i].id;
        own[kept].node = enter_node(g, g->task[begin], PTO_RECORDING_NONE);
        g->begin[own[kept++].node] = begin;
    }
    g->segment_count += kept;
    g->last[begin] = enter_node(g, g->task[begin], PTO_RECORDING_NONE);
    g->begin[g->last[begin]] = begin;
    return kept;
}

/* Returns the node of a part of a task: that of its segment, or the begin of the task. */
static uint32_t node_of_touch(const struct race_graph *g, uint32_t begin, uint32_t segments,
                              const struct see_touch *t)
{
    const struct race_segment wanted = { .id = t->segment }, *found = NULL;

    if (segments != 0 && t->segment != 0)
        found = bsearch(&wanted, &g->segment[g->segment_count - segments], segments, sizeof(wanted),
                        see_race_compare_segments);
    return found != NULL ? found->node : begin;
}

static int enter_touches(struct race_graph *g, uint32_t begin)
{
    const struct see_recording *r = g->r;
    uint32_t task = g->task[begin], segments = enter_segments(g, begin);
    int status = PTO_OK;

    if (!see_race_is_known(r, task))
        return PTO_OK;
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
                (struct race_access){ .node = node_of_touch(g, begin, segments, t),
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
        status = enter_access(
            g, &e->argument,
            (struct race_access){ .node = enter_node(g, task, *next),
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
    uint32_t node = enter_node(g, task, PTO_RECORDING_NONE);
    bool has_kernel = (r->task[task].flags & PTO_RECORDING_DUMMY) == 0;
    bool is_known = see_race_is_known(r, task);
    int status = PTO_OK;

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
    if (status >= 0)
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
    uint64_t touches = r->touch_from[group->task_end] - r->touch_from[group->task_begin];
    size_t nodes = 2 * tasks + r->element_count + touches + 1;
    uint32_t next = 0;
    int status = PTO_OK;

    for (g->bucket_count = 256; g->bucket_count < uses / 4 && g->bucket_count < 1u << 30;)
        g->bucket_count *= 2;
    g->task = malloc(nodes * sizeof(*g->task));
    g->element = malloc(nodes * sizeof(*g->element));
    g->begin = malloc(nodes * sizeof(*g->begin));
    g->last = malloc(nodes * sizeof(*g->last));
    g->segment = malloc((touches + 1) * sizeof(*g->segment));
    g->access = malloc((uses + r->element_count + 1) * sizeof(*g->access));
    g->bucket = malloc(g->bucket_count * sizeof(*g->bucket));
    if (g->task == NULL || g->element == NULL || g->access == NULL || g->bucket == NULL ||
        g->begin == NULL || g->last == NULL || g->segment == NULL || nodes >= UINT32_MAX / 2 ||
        uses + r->element_count >= UINT32_MAX / 2)
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

/* ---- all of it ---- */

int see_race_graph_make(struct race_graph *g, const struct see_recording *r, uint32_t group)
{
    int status;

    *g = (struct race_graph){ .r = r, .group = group };
    status = enter_nodes(g);
    if (status >= 0)
        status = find_near(g);
    if (status >= 0)
        status = see_race_order_make(g);
    return status;
}

void see_race_graph_free(struct race_graph *g)
{
    free(g->task);
    free(g->element);
    free(g->begin);
    free(g->last);
    free(g->segment);
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

    return g->segment_count * sizeof(*g->segment) +
           g->node_count * (4 * sizeof(*g->task) + sizeof(*g->order.from) + 5 * sizeof(uint32_t)) +
           g->access_count * sizeof(*g->access) + g->region_max * sizeof(*g->region) +
           g->bucket_count * sizeof(*g->bucket) + g->near_max * sizeof(*g->near) +
           edges * sizeof(uint32_t);
}
