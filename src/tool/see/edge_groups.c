/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/edge_groups.h"

#include <stdlib.h>
#include <string.h>

enum { TABLE_MIN = 64 };

/*
 * A hash table with open addressing that finds a group by its identity. An entry is the group's
 * index + 1.
 */
struct table {
    uint32_t *place;
    uint32_t size;
};

static int removal_of(const struct see_recording *r, const struct see_edge *edge);
static struct see_edge_group describe_edges(const struct see_recording *r,
                                            const struct see_edge *edge, enum see_removal removal);
static int add_edge(struct see_edge_groups *g, struct table *table, uint64_t edge);
static int sort_groups(struct see_edge_groups *g);

int see_edge_groups_make(const struct see_jobs *j, struct see_edge_groups *out)
{
    const struct see_work *w = j->w;
    uint64_t edges = w->r->edge_from[w->task_end] - w->r->edge_from[w->task_begin];
    struct see_edge_groups g = { .j = j, .edge_begin = w->r->edge_from[w->task_begin] };
    struct table table = { .size = TABLE_MIN };
    int status = PTO_ENOMEM;

    table.place = calloc(table.size, sizeof(*table.place));
    g.of_edge = malloc((edges + 1) * sizeof(*g.of_edge));
    if (table.place != NULL && g.of_edge != NULL)
        status = PTO_OK;
    for (uint64_t i = 0; status == PTO_OK && i < edges; i++)
        status = add_edge(&g, &table, g.edge_begin + i);
    free(table.place);
    if (status == PTO_OK)
        status = sort_groups(&g);
    if (status == PTO_OK)
        *out = g;
    else
        see_edge_groups_free(&g);
    return status;
}

void see_edge_groups_free(struct see_edge_groups *g)
{
    if (g == NULL)
        return;
    free(g->group);
    free(g->of_edge);
}

uint64_t see_edge_groups_cut(const struct see_edge_groups *g, uint32_t group, uint8_t *is_cut)
{
    const struct see_work *w = g->j->w;
    const struct see_recording *r = w->r;
    uint64_t cut = 0;

    memset(is_cut, 0, g->j->pairs);
    for (uint32_t t = w->task_begin; t < w->task_end; t++)
        for (uint64_t i = r->edge_from[t], next; i < r->edge_from[t + 1]; i = next) {
            uint32_t from = r->edge[i].from, pair;
            bool is_removed = from >= w->task_begin;

            for (next = i; next < r->edge_from[t + 1] && r->edge[next].from == from; next++) {
                uint32_t of = g->of_edge[next - g->edge_begin];

                is_removed =
                    is_removed && of != UINT32_MAX &&
                    (group == UINT32_MAX ? g->group[of].removal != SEE_REMOVE_WIDER : of == group);
            }
            if (!is_removed)
                continue;
            pair = see_jobs_pair(g->j, from - w->task_begin, t - w->task_begin);
            if (pair != UINT32_MAX) {
                is_cut[pair] = 1;
                cut++;
            }
        }
    return cut;
}

/* ---- edges that a change of the program could remove ---- */

static const struct see_argument *argument_of(const struct see_recording *r, uint32_t task,
                                              int argument)
{
    uint64_t at;

    if (argument < 0 || r->argument == NULL || r->argument_from == NULL)
        return NULL;
    at = r->argument_from[task] + (uint64_t)argument;
    return at < r->argument_from[task + 1] ? &r->argument[at] : NULL;
}

static bool is_one_region(const struct see_argument *a, const struct see_argument *b)
{
    return a->addr == b->addr && a->start == b->start && a->ndims == b->ndims &&
           memcmp(a->shapes, b->shapes, a->ndims * sizeof(a->shapes[0])) == 0 &&
           memcmp(a->strides, b->strides, a->ndims * sizeof(a->strides[0])) == 0;
}

/* Returns the kind of change of the program that could remove the edge; -1: none can. */
static int removal_of(const struct see_recording *r, const struct see_edge *edge)
{
    const struct see_argument *from, *to;

    switch (edge->reason) {
    case PTO_RECORDING_REASON_WAR:
    case PTO_RECORDING_REASON_WAW:
        return SEE_REMOVE_REUSE;
    case PTO_RECORDING_REASON_EXPLICIT:
        return SEE_REMOVE_EXPLICIT;
    case PTO_RECORDING_REASON_RAW:
        from = argument_of(r, edge->from, edge->from_argument);
        to = argument_of(r, edge->to, edge->to_argument);
        return from != NULL && to != NULL && !is_one_region(from, to) ? (int)SEE_REMOVE_WIDER : -1;
    default:
        return -1;
    }
}

static struct see_edge_group describe_edges(const struct see_recording *r,
                                            const struct see_edge *edge, enum see_removal removal)
{
    return (struct see_edge_group){
        .removal = removal,
        .from_kernel =
            removal == SEE_REMOVE_REUSE ? PTO_RECORDING_NONE : see_task_kernel(r, edge->from),
        .to_kernel = see_task_kernel(r, edge->to),
        .to_argument = removal == SEE_REMOVE_EXPLICIT ? -1 : edge->to_argument,
        .witness = { edge->from, edge->to },
    };
}

/* ---- groups ---- */

static uint32_t hash_group(const struct see_edge_group *group)
{
    uint64_t hash = group->from_kernel * 0x9e3779b97f4a7c15ull;

    hash = (hash ^ group->to_kernel) * 0xff51afd7ed558ccdull;
    hash =
        (hash ^ (uint32_t)(group->to_argument * 4 + (int)group->removal)) * 0xc4ceb9fe1a85ec53ull;
    return (uint32_t)(hash >> 32);
}

static bool is_same_group(const struct see_edge_group *a, const struct see_edge_group *b)
{
    return a->removal == b->removal && a->from_kernel == b->from_kernel &&
           a->to_kernel == b->to_kernel && a->to_argument == b->to_argument;
}

/* Returns the slot of a group in the table, or the empty slot for it. */
static uint32_t *find_place(const struct see_edge_groups *g, const struct table *table,
                            const struct see_edge_group *group)
{
    uint32_t at = hash_group(group) & (table->size - 1);

    while (table->place[at] != 0 && !is_same_group(&g->group[table->place[at] - 1], group))
        at = (at + 1) & (table->size - 1);
    return &table->place[at];
}

/*
 * Makes room for one more group. The hash table is at most half full; it and the array of groups
 * grow together.
 */
static int grow_groups(struct see_edge_groups *g, struct table *table)
{
    struct see_edge_group *grown;

    if (2 * (g->count + 1) > table->size) {
        free(table->place);
        table->size *= 2;
        table->place = calloc(table->size, sizeof(*table->place));
        if (table->place == NULL)
            return PTO_ENOMEM;
        for (uint32_t i = 0; i < g->count; i++)
            *find_place(g, table, &g->group[i]) = i + 1;
    }
    if ((g->count & (g->count - 1)) != 0)
        return PTO_OK;
    grown = realloc(g->group, (g->count != 0 ? 2 * (size_t)g->count : 1) * sizeof(*grown));
    if (grown == NULL)
        return PTO_ENOMEM;
    g->group = grown;
    return PTO_OK;
}

static int add_edge(struct see_edge_groups *g, struct table *table, uint64_t edge)
{
    const struct see_work *w = g->j->w;
    const struct see_edge *e = &w->r->edge[edge];
    int removal = removal_of(w->r, e);
    struct see_edge_group wanted, *group;
    uint32_t *place;

    g->of_edge[edge - g->edge_begin] = UINT32_MAX;
    if (removal < 0)
        return PTO_OK;
    wanted = describe_edges(w->r, e, (enum see_removal)removal);
    place = find_place(g, table, &wanted);
    if (*place == 0) {
        if (grow_groups(g, table) < 0)
            return PTO_ENOMEM;
        place = find_place(g, table, &wanted);
        g->group[g->count++] = wanted;
        *place = g->count;
    }
    group = &g->group[*place - 1];
    group->edges++;
    if (w->ready_by[e->to - w->task_begin] == e->from && group->binding++ == 0) {
        group->witness[0] = e->from;
        group->witness[1] = e->to;
    }
    g->of_edge[edge - g->edge_begin] = *place - 1;
    return PTO_OK;
}

/*
 * Sorts groups by the number of tasks that they made ready, the largest first, and renumbers
 * `of_edge`.
 */
static int sort_groups(struct see_edge_groups *g)
{
    const struct see_work *w = g->j->w;
    uint64_t edges = w->r->edge_from[w->task_end] - g->edge_begin;
    uint64_t *key = calloc((size_t)g->count + 1, sizeof(*key));
    uint32_t *index = calloc((size_t)g->count + 1, sizeof(*index));
    uint32_t *place = calloc((size_t)g->count + 1, sizeof(*place));
    struct see_edge_group *sorted = calloc((size_t)g->count + 1, sizeof(*sorted));
    int status =
        key != NULL && index != NULL && place != NULL && sorted != NULL ? PTO_OK : PTO_ENOMEM;

    for (uint32_t i = 0; status == PTO_OK && i < g->count; i++) {
        key[i] = edges - g->group[i].binding;
        index[i] = i;
    }
    if (status == PTO_OK)
        status = see_sort(key, index, g->count);
    for (uint32_t i = 0; status == PTO_OK && i < g->count; i++) {
        sorted[i] = g->group[index[i]];
        place[index[i]] = i;
    }
    for (uint64_t i = 0; status == PTO_OK && i < edges; i++)
        if (g->of_edge[i] != UINT32_MAX)
            g->of_edge[i] = place[g->of_edge[i]];
    free(key);
    free(index);
    free(place);
    if (status == PTO_OK) {
        free(g->group);
        g->group = sorted;
    } else {
        free(sorted);
    }
    return status;
}
