/* SPDX-License-Identifier: Apache-2.0 */
/* Scopes: how long intermediate tensors live, and whether dependencies are inferred. */
#include "graph/graph.h"

#include <string.h>

/* How an argument is looked up and recorded, by tag; docs/ordering.md. */
static const uint8_t access_of[PTO_DEPS_COUNT][2][PTO_TAG_COUNT] = {
    [PTO_DEPS_SAFE] = {
        [false] = { [PTO_TAG_INPUT] = ACCESS_LOOKUP | ACCESS_RECORD,
                    [PTO_TAG_OUTPUT] =
                        ACCESS_LOOKUP | ACCESS_RECORD | ACCESS_WRITE | ACCESS_REPLACE,
                    [PTO_TAG_INOUT] = ACCESS_LOOKUP | ACCESS_RECORD | ACCESS_WRITE | ACCESS_REPLACE,
                    [PTO_TAG_OUTPUT_EXISTING] =
                        ACCESS_LOOKUP | ACCESS_RECORD | ACCESS_WRITE | ACCESS_REPLACE },
        [true] = { [PTO_TAG_INPUT] = ACCESS_RECORD,
                   [PTO_TAG_OUTPUT] = ACCESS_RECORD | ACCESS_WRITE,
                   [PTO_TAG_INOUT] = ACCESS_RECORD | ACCESS_WRITE,
                   [PTO_TAG_OUTPUT_EXISTING] = ACCESS_RECORD | ACCESS_WRITE },
    },
    [PTO_DEPS_SIMPLER] = {
        [false] = { [PTO_TAG_INPUT] = ACCESS_LOOKUP,
                    [PTO_TAG_INOUT] = ACCESS_LOOKUP | ACCESS_RECORD | ACCESS_WRITE | ACCESS_REPLACE,
                    [PTO_TAG_OUTPUT_EXISTING] = ACCESS_RECORD | ACCESS_WRITE },
    },
};

/* What every submit asks about the innermost scope. */
static void set_current(struct graph *g)
{
    uint32_t depth = g->scope_count - 1;
    bool is_manual = g->scope[depth].is_manual;

    if (is_manual && !g->is_manual)
        g->manual_from = g->seq;
    else if (!is_manual && g->is_manual && g->seq != g->manual_from)
        g->ordered_from = g->seq;
    g->ring = depth < GRAPH_RINGS - 1 ? depth : GRAPH_RINGS - 1;
    g->ring_raw = pto_task_id_make(g->ring, 0).raw;
    g->ids_now = &g->ids[g->ring];
    g->is_manual = is_manual;
    g->access = access_of[g->deps][is_manual];
    memcpy(g->quick, g->access, PTO_TAG_COUNT);
    g->quick[PTO_TAG_OUTPUT] = 0;
}

int graph_scope_begin(struct graph *g, enum pto_scope_mode mode, const struct pto_site *site)
{
    struct scope *scope = &g->scope[g->scope_count];
    bool is_manual = g->scope_count > 0 && g->scope[g->scope_count - 1].is_manual;

    if (g->scope_count > PTO_SCOPE_DEPTH_MAX) { /* the run's own scope does not count */
        g->refusal = (struct graph_refusal){ FAULT_SCOPE_DEPTH, -1, g->scope_count };
        return PTO_EARGS;
    }
    if ((uint32_t)mode > PTO_SCOPE_MANUAL) {
        g->refusal = (struct graph_refusal){ FAULT_SCOPE_MODE, -1, (uint64_t)mode };
        return PTO_EARGS;
    }
    if (is_manual && mode == PTO_SCOPE_AUTO) {
        g->refusal = (struct graph_refusal){ FAULT_AUTO_IN_MANUAL, -1, 0 };
        return PTO_EARGS;
    }
    *scope = (struct scope){ .mode = mode,
                             .is_manual = is_manual || mode == PTO_SCOPE_MANUAL,
                             .site = site };
    g->scope_count++;
    set_current(g);
    return PTO_OK;
}

/* Drops the scope's hold on its outputs; tasks that use them keep them as long as they need. */
int graph_scope_end(struct graph *g)
{
    uint32_t *next = (uint32_t *)(void *)g->chunk_next_pool.base;
    struct scope *scope;

    if (g->scope_count == 0) {
        g->refusal = (struct graph_refusal){ FAULT_SCOPE_UNDERFLOW, -1, 0 };
        return PTO_EARGS;
    }
    scope = &g->scope[g->scope_count - 1];
    for (uint32_t index = scope->first_buffer; index != 0;) {
        uint32_t after = graph_buffer(g, index)->next; /* the release may reuse it */

        buffer_release(g, index, true);
        index = after;
    }
    while (scope->first_chunk != 0) {
        uint32_t chunk = scope->first_chunk;

        scope->first_chunk = next[chunk];
        next[chunk] = g->free_descriptor_chunk;
        g->free_descriptor_chunk = chunk;
    }
    g->scope_count--;
    if (g->scope_count > 0)
        set_current(g);
    return PTO_OK;
}
