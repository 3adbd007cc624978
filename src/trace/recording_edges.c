/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the edges of a recording: those that the ordering rules ask for, and which of them the
 * engine created ("wired").
 */
#include <stdlib.h>
#include <string.h>

#include "trace/recording_data.h"

/* The edges that the engine created, in the same order as the edges of the recording. */
struct edges_wired {
    struct recording_edge *edge;
    uint64_t count;
};

static int edges_by_successor(const void *a, const void *b)
{
    const struct recording_edge *x = a, *y = b;

    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->reason != y->reason)
        return x->reason < y->reason ? -1 : 1;
    if (x->to_argument != y->to_argument)
        return x->to_argument < y->to_argument ? -1 : 1;
    return x->from_argument < y->from_argument ? -1 : x->from_argument > y->from_argument;
}

static void edges_sort(struct recording_edge *edge, uint64_t count)
{
    if (count > 1)
        qsort(edge, count, sizeof(*edge), edges_by_successor);
}

static bool edges_are_parallel(const struct recording_edge *a, const struct recording_edge *b)
{
    return a->from == b->from && a->to == b->to;
}

/* Collects the edges that the engine created, without duplicates. */
static int edges_take_wired(const struct recording *r, struct edges_wired *out)
{
    const struct chip_record *record = &r->slices->snapshot->record;
    struct recording_edge *edge = calloc(record->edge_count + 1, sizeof(*edge));
    uint64_t count = 0, kept = 0;

    if (edge == NULL)
        return PTO_ENOMEM;
    for (uint64_t i = 0; i < record->edge_count; i++)
        if (record->edge[i].before < record->edge[i].after && record->edge[i].after < record->tasks)
            edge[count++] = (struct recording_edge){ record->edge[i].before,
                                                     record->edge[i].after,
                                                     -1,
                                                     -1,
                                                     PTO_RECORDING_REASON_UNKNOWN,
                                                     true };
    edges_sort(edge, count);
    for (uint64_t i = 0; i < count; i++)
        if (kept == 0 || !edges_are_parallel(&edge[kept - 1], &edge[i]))
            edge[kept++] = edge[i];
    *out = (struct edges_wired){ edge, kept };
    return PTO_OK;
}

/*
 * Whether all edges can be derived: every task has its recorded arguments, except allocations,
 * which have none.
 */
static bool edges_are_known(const struct recording *r)
{
    const struct trace_slices *slices = r->slices;
    uint64_t next = 0;

    if (slices->task == NULL || slices->snapshot->record.task_records_lost != 0)
        return false;
    for (uint64_t i = 0; i < slices->snapshot->record.tasks; i++) {
        bool has_slice = false;

        for (; next < slices->count && slices->slice[next].seq == i + 1; next++)
            has_slice = true;
        if (has_slice && slices->task[i] == NULL)
            return false;
    }
    return true;
}

/*
 * Marks the derived edges that the engine created, and adds edges of the engine that no rule
 * explains.
 */
static int edges_merge(struct recording *r, const struct edges_wired *wired)
{
    uint64_t found = r->edge_count, at = 0;
    struct recording_edge *grown =
        realloc(r->edge, (r->edge_count + wired->count + 1) * sizeof(*grown));

    if (grown == NULL)
        return PTO_ENOMEM;
    r->edge = grown;
    for (uint64_t i = 0; i < wired->count; i++) {
        const struct recording_edge *w = &wired->edge[i];

        while (at < found &&
               (r->edge[at].to < w->to || (r->edge[at].to == w->to && r->edge[at].from < w->from)))
            at++;
        if (at == found || !edges_are_parallel(&r->edge[at], w))
            r->edge[r->edge_count++] = *w;
        for (uint64_t k = at; k < found && edges_are_parallel(&r->edge[k], w); k++)
            r->edge[k].is_wired = true;
    }
    if (r->edge_count != found)
        edges_sort(r->edge, r->edge_count);
    return PTO_OK;
}

int recording_find_edges(struct recording *r)
{
    struct edges_wired wired;
    int status = edges_take_wired(r, &wired);

    if (status < 0)
        return status;
    r->edges_lost = r->slices->snapshot->record.edges_lost;
    if (edges_are_known(r)) {
        status = recording_apply_rules(r);
        r->has_edges = true;
    }
    edges_sort(r->edge, r->edge_count);
    if (status >= 0)
        status = edges_merge(r, &wired);
    free(wired.edge);
    return status;
}
