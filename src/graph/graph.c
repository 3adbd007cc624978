/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the graph, and the start of a run. */
#include "graph/guards.h"

#include <string.h>

enum { IDS_START = 1024 };

static int start_ids(struct graph *g);
static int reserve_first(struct graph *g);

void graph_each_pool(struct graph *g,
                     void (*each)(struct pool *pool, uint64_t share, void *context), void *context)
{
    each(&g->slot_pool, 32, context);
    each(&g->info_pool, 2, context);
    each(&g->edge_pool, 32, context);
    each(&g->retained_pool, 2, context);
    each(&g->descriptor_pool, 8, context);
    each(&g->chunk_link_pool, 1, context);
    each(&g->buffer_pool, 4, context);
    each(&g->heap_pool, 64, context);
    each(&g->passed_pool, 1, context);
    each(&g->guard_pool, 4, context);
    for (uint32_t ring = 0; ring < GRAPH_RINGS; ring++)
        each(&g->ids[ring].pool, 4, context);
    for (uint32_t i = 0; i < 2; i++)
        each(&g->users.tree[i].pool, 16, context);
    regions_each_pool(&g->regions, each, context);
}

int graph_start(struct graph *g, const struct graph_params *params)
{
    g->kernels = params->kernels;
    g->kernel_count = params->kernel_count;
    g->deps = params->deps;
    g->quick_traits = submit_quick_traits(params->deps);
    g->edge_fn = params->edge_fn;
    g->edge_context = params->edge_context;
    g->wired_fn = params->wired_fn;
    g->wired_context = params->wired_context;
    graph_allow_joins(g, true);
    g->ended_fn = params->ended_fn;
    g->ended_context = params->ended_context;
    g->clusters = params->clusters;
    g->entry = params->entry;
    g->is_recorded = params->is_recorded;
    g->fill_fn = params->fill_fn;
    g->fill_context = params->fill_context;
    g->successor = NULL;
    g->passed_pool.used = 0;
    g->is_shared = params->is_shared;
    g->slot_base = g->slot_pool.base;
    g->live = 0;
    g->seq = 1;
    g->ring = 0;
    g->ring_raw = 0;
    g->ids_now = &g->ids[0];
    g->is_manual = false;
    g->scope_count = 0;
    g->edge_total = 0;
    g->join_total = 0;
    g->has_settled = g->has_unlisted = false;
    g->users.is_made = false;
    g->slot_pool.used = g->info_pool.used = 0;
    g->edge_pool.used = g->retained_pool.used = 0;
    g->descriptor_pool.used = g->chunk_link_pool.used = 0;
    g->buffer_pool.used = g->heap_pool.used = g->guard_pool.used = 0;
    g->guard_bytes = params->has_guards ? GRAPH_GUARD_BYTES : 0;
    g->edge_chunk_count = g->retained_chunk_count = g->descriptor_chunk_count = 1;
    g->free_edge_chunk = g->free_retained_chunk = g->free_descriptor_chunk = 0;
    g->ended_count = 0;
    g->chunk_delay = params->has_guards ? GRAPH_SCOPES_GUARDED : GRAPH_SCOPES_KEPT;
    g->buffer_total = 1;
    g->free_record = 0;
    g->info_count = 1;
    memset(g->free_slot, 0, sizeof(g->free_slot));
    memset(g->free_buffer, 0, sizeof(g->free_buffer));
    memset(g->heap_given, 0, sizeof(g->heap_given));
    g->refusal = (struct graph_refusal){ .argument = -1 };
    a32_store_relaxed(&g->freed_buffers, 0); /* relaxed: no other thread is in the run yet */
    if (reserve_first(g) < 0 || start_ids(g) < 0 ||
        regions_start(&g->regions, &g->region_tables, g->info, g->deps) < 0) {
        g->refusal.kind = FAILURE_MEMORY;
        return PTO_ENOMEM;
    }
    return PTO_OK;
}

/* Index 0 means "none" everywhere, so the first element of each pool is never used. */
static int reserve_first(struct graph *g)
{
    bool is_there = pool_take(&g->slot_pool, SLOT_LINE_BYTES) != NULL &&
                    pool_take(&g->info_pool, sizeof(struct slot_info)) != NULL &&
                    pool_take(&g->edge_pool, sizeof(struct edge_chunk)) != NULL &&
                    pool_take(&g->retained_pool, sizeof(struct retained_chunk)) != NULL &&
                    pool_take(&g->descriptor_pool, sizeof(struct descriptor_chunk)) != NULL &&
                    pool_take(&g->chunk_link_pool, sizeof(struct chunk_link)) != NULL &&
                    pool_take(&g->buffer_pool, sizeof(struct buffer)) != NULL;

    if (!is_there ||
        (g->guard_bytes != 0 && pool_take(&g->guard_pool, sizeof(struct guard_record)) == NULL))
        return PTO_ENOMEM;
    g->info = (struct slot_info *)(void *)g->info_pool.base;
    g->info[0] = (struct slot_info){ .is_spilled = true };
    return PTO_OK;
}

static int start_ids(struct graph *g)
{
    for (uint32_t ring = 0; ring < GRAPH_RINGS; ring++) {
        struct id_map *map = &g->ids[ring];

        uint32_t used =
            map->entry == NULL || map->next_local > IDS_START ? IDS_START : map->next_local;

        map->pool.used = 0;
        map->entry = pool_take(&map->pool, IDS_START * sizeof(struct id_entry));
        if (map->entry == NULL)
            return PTO_ENOMEM;
        memset(map->entry, 0, used * sizeof(struct id_entry));
        map->mask = IDS_START - 1;
        map->next_local = 0;
    }
    return PTO_OK;
}

int graph_refuse(struct graph *g, enum failure_kind fault, int32_t argument, uint64_t value)
{
    g->refusal = (struct graph_refusal){ fault, argument, value, 0, NULL };
    return graph_refusal_status(g);
}

int graph_refusal_status(const struct graph *g)
{
    enum failure_kind fault = g->refusal.kind;

    return fault == FAILURE_MEMORY ? PTO_ENOMEM
           : fault == FAILURE_GANG ? PTO_ESYNC_START
                                   : PTO_EARGS;
}
