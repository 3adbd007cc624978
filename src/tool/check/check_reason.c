/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the recorded edges and their reasons with the model, and checks which edges the engine
 * left out.
 */
#include <stdlib.h>

#include "tool/check/check_trial.h"

static const char *const reason_name[] = {
#define X(name, text) text,
    PTO_RECORDING_REASON_MAP(X)
#undef X
};

void check_note_reason(void *context, const struct check_recorded_edge *recorded)
{
    struct check_run *run = context;
    const struct check_edge *e = &recorded->edge;

    (void)check_note_edge(run, e->before, e->after);
    check_edges_add(&run->reasons, *e);
    /* the engine leaves an edge out only if the predecessor has ended */
    if (!recorded->is_wired && (run->is_held || !recorded->had_ended))
        check_find(run->findings, e->before, e->after,
                   "edge %u -> %u is recorded as not wired, but %u had not ended", e->before,
                   e->after, e->before);
}

static int compare_reasons(const void *a, const void *b)
{
    const struct check_edge *x = a, *y = b;
    const int64_t key[2][5] = {
        { x->after, x->before, x->reason, x->after_argument, x->before_argument },
        { y->after, y->before, y->reason, y->after_argument, y->before_argument }
    };

    for (int i = 0; i < 5; i++)
        if (key[0][i] != key[1][i])
            return key[0][i] < key[1][i] ? -1 : 1;
    return 0;
}

/* Sorts edges, and removes duplicates. */
static void sort_reasons(struct check_edges *edges)
{
    uint32_t kept = 0;

    if (edges->count > 1)
        qsort(edges->at, edges->count, sizeof(*edges->at), compare_reasons);
    for (uint32_t i = 0; i < edges->count; i++)
        if (kept == 0 || compare_reasons(&edges->at[kept - 1], &edges->at[i]) != 0)
            edges->at[kept++] = edges->at[i];
    edges->count = kept;
}

static void find_reason(struct check_run *run, const struct check_edge *e, const char *what)
{
    check_find(run->findings, e->before, e->after,
               "%s reason of edge %u -> %u: %s, argument %d to %d", what, e->before, e->after,
               reason_name[e->reason], e->before_argument, e->after_argument);
}

/* Lists the reasons of all edges of the graph. */
static void list_reasons(const struct check_graph *g, struct check_edges *edges)
{
    struct check_model *model = check_model_create(g->deps);
    uint64_t *before = check_alloc(NULL, g->words, sizeof(*before));

    check_model_list(model, edges);
    for (uint32_t i = 0; i < g->task_count; i++)
        check_model_submit(model, &g->tasks[i], before);
    free(before);
    check_model_destroy(model);
}

void check_compare_reasons(struct check_run *run)
{
    struct check_edges wanted = { 0 }, *found = &run->reasons;
    uint32_t w = 0, f = 0;

    list_reasons(run->g, &wanted);
    sort_reasons(&wanted);
    sort_reasons(found);
    while (w < wanted.count || f < found->count) {
        int order = w == wanted.count   ? 1
                    : f == found->count ? -1
                                        : compare_reasons(&wanted.at[w], &found->at[f]);

        if (order < 0)
            find_reason(run, &wanted.at[w], "missing");
        else if (order > 0)
            find_reason(run, &found->at[f], "spurious");
        w += order <= 0;
        f += order >= 0;
    }
    free(wanted.at);
}
