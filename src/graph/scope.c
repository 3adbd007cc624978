/* SPDX-License-Identifier: Apache-2.0 */
/* Scopes: how long intermediate tensors live, and whether dependencies are inferred. */
#include "graph/graph.h"

#include <string.h>

/*
 * How an argument is looked up and recorded, by its tag; see docs/user/ordering.md. In a MANUAL
 * scope nothing is looked up. Under the reference's rules a MANUAL scope also records nothing;
 * other scopes neither look up nor record new outputs, and do not record readers.
 */
#define SAFE(name, text, use)                                         \
    [PTO_TAG_##name] = ((use) == 0           ? 0                      \
                        : ((use)&PTO_WRITES) ? ACCESS_LOOKUP | WRITES \
                                             : ACCESS_LOOKUP | ACCESS_RECORD),
#define SAFE_MANUAL(name, text, use)                                        \
    [PTO_TAG_##name] = ((use) == 0           ? 0                            \
                        : ((use)&PTO_WRITES) ? ACCESS_RECORD | ACCESS_WRITE \
                                             : ACCESS_RECORD),
#define SIMPLER(name, text, use)                                                           \
    [PTO_TAG_##name] = ((use)&PTO_CREATES                   ? 0                            \
                        : (use) == (PTO_READS | PTO_WRITES) ? ACCESS_LOOKUP | WRITES       \
                        : ((use)&PTO_WRITES)                ? ACCESS_RECORD | ACCESS_WRITE \
                        : ((use)&PTO_READS)                 ? ACCESS_LOOKUP                \
                                                            : 0),
enum { WRITES = ACCESS_RECORD | ACCESS_WRITE | ACCESS_REPLACE };

static const uint8_t access_of[PTO_DEPS_COUNT][2][PTO_TAG_COUNT] = {
    [PTO_DEPS_SAFE] = { [false] = { PTO_TAG_MAP(SAFE) }, [true] = { PTO_TAG_MAP(SAFE_MANUAL) } },
    [PTO_DEPS_SIMPLER] = { [false] = { PTO_TAG_MAP(SIMPLER) } },
};

/* Copies what every submit needs to know of the innermost scope to fields of the graph. */
static void set_current(struct graph *g)
{
    uint32_t depth = g->scope_count - 1;
    bool is_manual = g->scope[depth].is_manual;

    if (is_manual && !g->is_manual)
        g->manual_from = g->seq;
    else if (!is_manual && g->is_manual && g->seq != g->manual_from)
        g->regions.ordered_from = g->seq;
    g->ring = depth < GRAPH_RINGS - 1 ? depth : GRAPH_RINGS - 1;
    g->ring_raw = pto_task_id_make(g->ring, 0).raw;
    g->ids_now = &g->ids[g->ring];
    g->is_manual = is_manual;
    g->access = access_of[g->deps][is_manual];
    memcpy(g->regions.quick, g->access, PTO_TAG_COUNT);
    g->regions.quick[PTO_TAG_OUTPUT] = 0;
    /* runs with guards check every descriptor, so no tensor takes the quick path */
    if (g->guard_bytes != 0)
        memset(g->regions.quick, 0, PTO_TAG_COUNT);
}

int graph_scope_begin(struct graph *g, enum pto_scope_mode mode, const struct pto_site *site)
{
    struct scope *scope = &g->scope[g->scope_count];
    bool is_manual = g->scope_count > 0 && g->scope[g->scope_count - 1].is_manual;

    /* the outermost scope, which is the run itself, is not counted */
    if (g->scope_count > PTO_SCOPE_DEPTH_MAX) {
        return graph_refuse(g, FAILURE_SCOPE_DEPTH, -1, g->scope_count);
    }
    if ((uint32_t)mode > PTO_SCOPE_MANUAL) {
        return graph_refuse(g, FAILURE_SCOPE_MODE, -1, (uint64_t)mode);
    }
    if (is_manual && mode == PTO_SCOPE_AUTO) {
        return graph_refuse(g, FAILURE_AUTO_IN_MANUAL, -1, 0);
    }
    *scope = (struct scope){ .mode = mode,
                             .is_manual = is_manual || mode == PTO_SCOPE_MANUAL,
                             .site = site };
    g->scope_count++;
    set_current(g);
    scope->first_local = g->ids_now->next_local;
    return PTO_OK;
}

/*
 * Remembers a scope that ends, for errors about later uses of its outputs. Frees the chunks of
 * their descriptors, which are reused after a delay.
 */
static void forget_outputs(struct graph *g, struct scope *scope)
{
    g->ended[g->ended_count++ % GRAPH_SCOPES_REPORTED] =
        (struct ended_scope){ g->ring, scope->first_local, g->ids_now->next_local, scope->site };
    while (scope->first_chunk != 0) {
        uint32_t chunk = scope->first_chunk;
        struct chunk_link *link = graph_chunk(g, chunk);

        scope->first_chunk = link->next;
        *link = (struct chunk_link){ 0, g->ended_count };
        if (g->free_descriptor_chunk == 0)
            g->free_descriptor_chunk = chunk;
        else
            graph_chunk(g, g->last_descriptor_chunk)->next = chunk;
        g->last_descriptor_chunk = chunk;
    }
}

/*
 * Ends a scope, which releases its outputs; tasks that use them keep them until they complete.
 * Under the reference's rules later tasks may still use outputs that another task retains.
 */
int graph_scope_end(struct graph *g)
{
    bool is_safe = g->deps == PTO_DEPS_SAFE;
    struct scope *scope;

    if (g->scope_count == 0)
        return graph_refuse(g, FAILURE_SCOPE_UNDERFLOW, -1, 0);
    scope = &g->scope[g->scope_count - 1];
    for (uint32_t index = scope->first_buffer; index != 0;) {
        struct buffer *buffer = graph_buffer(g, index);
        /* read before the release, after which the buffer may be reused */
        uint32_t after = buffer->next;

        if (is_safe) /* mutation: keep-seq */
            buffer->seq = 0;
        buffer_release(g, index, true);
        index = after;
    }
    if (scope->first_chunk != 0)
        forget_outputs(g, scope);
    g->scope_count--;
    if (g->scope_count > 0)
        set_current(g);
    return PTO_OK;
}

/*
 * Returns where the innermost remembered scope in which the task was submitted began; NULL: no such
 * scope is remembered.
 */
static const struct pto_site *find_ended(const struct graph *g, struct pto_task_id task)
{
    uint32_t ring = pto_task_id_ring(task), local = pto_task_id_local(task);
    const struct ended_scope *best = NULL;
    uint32_t reported =
        g->ended_count < GRAPH_SCOPES_REPORTED ? g->ended_count : GRAPH_SCOPES_REPORTED;

    for (uint32_t i = 0; i < reported; i++) {
        const struct ended_scope *e = &g->ended[i];

        if (e->ring == ring && local >= e->first_local && local < e->end_local &&
            (best == NULL || e->end_local - e->first_local < best->end_local - best->first_local))
            best = e;
    }
    return best != NULL ? best->site : NULL;
}

int graph_refuse_ended(struct graph *g, struct pto_task_id owner, int32_t argument)
{
    const struct id_entry *e = ids_find(g, owner);

    (void)graph_refuse(g, FAILURE_SCOPE_ENDED, argument, owner.raw);
    g->refusal.scope = find_ended(g, owner); /* NULL: the descriptor may come from another run */
    g->refusal.creator = e != NULL && g->refusal.scope != NULL ? e->seq : 0;
    return PTO_EARGS;
}
