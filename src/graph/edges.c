/* SPDX-License-Identifier: Apache-2.0 */
/* Edges: a task waits for another task, or for many tasks through a join. */
#include "graph/submit.h"

static int link_unusual(struct graph *g, struct slot *p, struct slot *t, void *head, uint32_t seq);
static struct edge *spill_edge(struct graph *g, struct slot *t);

/*
 * Adds an edge to the list of successors of p, whose first edge was `head` when the caller looked.
 * False: p has completed since.
 */
static inline bool edges_add(struct graph *g, struct slot *p, struct slot *t, void *head,
                             struct edge *e)
{
    e->self = t;
    atomic_note_write(e);
    if (!g->is_shared) {
        e->next = head;
        aptr_store_relaxed(&p->successors, e); /* accessed by one thread */
        return true;
    }
    do {
        e->next = head;
        if (head == SLOT_SEALED)
            return false;
    } while (!aptr_cas_acq_rel(&p->successors, &head, e)); /* R1 A2 */
    return true;
}

/*
 * Makes t wait for r. Only the submitter adds successors, so if t already waits for r, t's edge is
 * usually the first in r's list. If a join was made in between, the join's edge may be the first
 * instead; then t gets a second edge, and both are counted.
 */
int edges_link(struct regions *x, struct slot *t, struct ref r)
{
    struct graph *g = graph_of_index(x);
    struct slot *p = graph_slot(g, g->info[r.slot].line);
    void *head = aptr_load_acquire(&p->successors); /* A2 */

    port_check(ref_is_alive(x, r) && p->number == r.slot);
    if (head == SLOT_SEALED || p == t || (uintptr_t)head - (uintptr_t)t < sizeof(struct slot)) {
        if (head == SLOT_SEALED && g->ended_fn != NULL)
            g->ended_fn(g->ended_context, p, t);
        return PTO_OK;
    }
    if (t->edge_count >= g->edges_plain) {
        struct edge_chunk *chunk = (struct edge_chunk *)(void *)g->edge_pool.base + t->edge_chunk;

        if (g->edges_plain == 0 || t->edge_chunk == 0 || chunk->count == GRAPH_EDGES_PER_CHUNK ||
            (head != NULL && ((struct edge *)head)->self == t))
            return link_unusual(g, p, t, head, r.seq);
        chunk->count += edges_add(g, p, t, head, &chunk->edge[chunk->count]);
        return PTO_OK;
    }
    t->edge_count += edges_add(g, p, t, head, &t->edge[t->edge_count]);
    return PTO_OK;
}

/*
 * Links an edge that does not fit into the slot of t, or that has to be reported through wired_fn.
 */
__attribute__((noinline)) static int link_unusual(struct graph *g, struct slot *p, struct slot *t,
                                                  void *head, uint32_t seq)
{
    bool is_inline = t->edge_count < SLOT_EDGES_INLINE;
    struct edge *e;

    if (!is_inline && head != NULL && ((struct edge *)head)->self == t)
        return PTO_OK;
    /* mutation: drop-ignored */
    if (g->edge_fn != NULL && !g->edge_fn(g->edge_context, seq - 1, t->seq - 1))
        return PTO_OK;
    e = is_inline ? &t->edge[t->edge_count] : spill_edge(g, t);
    if (e == NULL)
        return PTO_ENOMEM;
    if (!edges_add(g, p, t, head, e))
        return PTO_OK; /* the edge is not counted, so the next one overwrites it */
    /* mutation: no-flow */
    if (g->wired_fn != NULL)
        g->wired_fn(g->wired_context, seq - 1, t->seq - 1);
    if (is_inline)
        t->edge_count++;
    else
        ((struct edge_chunk *)(void *)g->edge_pool.base + t->edge_chunk)->count++;
    return PTO_OK;
}

/* Returns a free edge in the slot's chain of chunks. The caller counts it once it is linked. */
static struct edge *spill_edge(struct graph *g, struct slot *t)
{
    struct edge_chunk *chunk = (struct edge_chunk *)(void *)g->edge_pool.base + t->edge_chunk;
    uint32_t index;

    if (t->edge_chunk == 0 || chunk->count == GRAPH_EDGES_PER_CHUNK) {
        index = g->free_edge_chunk;
        if (index != 0) {
            chunk = (struct edge_chunk *)(void *)g->edge_pool.base + index;
            g->free_edge_chunk = chunk->next;
        } else {
            chunk = pool_take(&g->edge_pool, sizeof(*chunk));
            if (chunk == NULL)
                return NULL;
            index = g->edge_chunk_count++;
        }
        chunk->count = 0;
        chunk->next = t->edge_chunk;
        t->edge_chunk = index;
        t->flags |= SLOT_HAS_SPILL;
        g->info[t->number].is_spilled = true;
    }
    return &chunk->edge[chunk->count];
}

uint32_t edges_count_spilled(const struct graph *g, const struct slot *t)
{
    const struct edge_chunk *base = (const struct edge_chunk *)(void *)g->edge_pool.base;
    uint32_t edges = 0;

    for (uint32_t c = t->edge_chunk; c != 0; c = base[c].next)
        edges += base[c].count;
    return edges;
}

/* ---- joins ---- */

struct slot *edges_join_begin(struct regions *x, struct slot *t, uint32_t seq)
{
    struct graph *g = graph_of_index(x);
    struct slot_info *info = slot_provide(g, 0);
    struct slot *join;

    if (info == NULL)
        return NULL;
    join = graph_slot(g, info->line);
    g->free_slot[0] = info->next;
    atomic_note_write(join);
    /* relaxed: a later release publishes the join to other threads */
    aptr_store_relaxed(&join->successors, NULL);
    a32_store_relaxed(&join->pending, SLOT_BIAS);
    join->seq = info->seq = seq;
    join->kernel[0] = SLOT_NO_KERNEL;
    join->counts = slot_counts(0, 0);
    join->traits = 0; /* no lanes, no edges */
    join->buffer = 0;
    join->block_count = 0;
    join->site = NULL;
    join->id = pto_task_id_invalid();
    g->live++;
    g->join_total++;
    port_check(aptr_load_relaxed(&t->successors) == NULL); /* t is being submitted */
    aptr_store_relaxed(
        &t->successors,
        /* sealed, so that the join does not get an edge from t; no other thread knows t yet */
        SLOT_SEALED);
    return join;
}

struct ref edges_join_end(struct regions *x, struct slot *t, struct slot *join)
{
    struct graph *g = graph_of_index(x);

    port_check(aptr_load_relaxed(&t->successors) == SLOT_SEALED); /* set by edges_join_begin */
    aptr_store_relaxed(&t->successors, NULL); /* relaxed: no task waits for t yet */
    if (!arm_task(g, join))
        return slot_ref(join);
    graph_retire(g, join->number);
    return (struct ref){ 0, 0 };
}

void graph_allow_joins(struct graph *g, bool may)
{
    g->edges_plain = !may || g->edge_fn != NULL || g->wired_fn != NULL ? 0 : SLOT_EDGES_INLINE;
    g->regions.may_join = g->edges_plain != 0;
}

bool edges_is_join(struct regions *x, struct ref r)
{
    return slot_is_join(graph_slot(graph_of_index(x), x->info[r.slot].line));
}

uint32_t edges_count(struct regions *x, const struct slot *t)
{
    return graph_count_edges(graph_of_index(x), t);
}
