/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access to a region: what it waits for, how it is recorded. Inline, because
 * every tensor argument of every task comes through here; whatever is not the
 * ordinary case is a call.
 */
#ifndef PTO_ACCESS_H
#define PTO_ACCESS_H

#include "graph/graph.h"

/* The interval of a contiguous region; length 0 for one that is strided or empty. */
struct span {
    uint64_t start;
    uint64_t length;
    uint32_t level;
};

/* regions.c: the record of a new dense region, if it is plain that nothing overlaps it; or NULL. */
struct region *region_insert_dense(struct graph *g, const struct span *span, struct region *e);
/* The untangled record of a box of a frame in use, found or made in the same way; or NULL. */
struct region *region_find_box(struct graph *g, const struct pto_tensor *tensor);
/* Adds t to the vector of the record. */
int region_append(struct graph *g, struct slot *t, struct region *e, uint32_t flags);

/* Edges to what conflicts among the refs of one record. */
static inline int wait_here(struct graph *g, struct slot *t, struct region *e, uint32_t access)
{
    bool is_write = (access & ACCESS_WRITE) != 0 && g->deps == PTO_DEPS_SAFE;
    int status = 0;

    if (!is_write || (e->flags & REGION_SUPERSEDED) == 0)
        status |= graph_wait_for(g, t, e->writer);
    if (is_write)
        for (uint32_t i = 0; i < e->reader_count; i++)
            status |= graph_wait_for(g, t, e->reader[i]);
    if (e->vector != 0 && (is_write || (e->flags & REGION_HAS_WRITERS) != 0)) {
        struct region_vector *v = region_vector(&g->regions, e->vector);

        for (uint32_t i = 0; i < v->count; i++) {
            uint32_t flags = v->ref[i].slot & ~(uint32_t)REGION_REF_SLOT;
            struct ref r = { v->ref[i].slot & REGION_REF_SLOT, v->ref[i].seq };

            if (is_write ? (flags & REGION_REF_SUPERSEDED) == 0 : (flags & REGION_REF_WRITE) != 0)
                status |= graph_wait_for(g, t, r);
        }
    }
    return status;
}

/* Records a reader that was ordered after every recorded writer, or after none. */
static inline int record_reader(struct graph *g, struct slot *t, struct region *e, bool is_ordered)
{
    struct ref me = { t->number, t->seq };

    if (is_ordered) { /* a later writer need only wait for this reader */
        e->flags |= REGION_SUPERSEDED;
        if ((e->flags & REGION_MORE_WRITERS) != 0) {
            struct region_vector *v = region_vector(&g->regions, e->vector);

            for (uint32_t i = 0; i < v->count; i++)
                if ((v->ref[i].slot & REGION_REF_WRITE) != 0)
                    v->ref[i].slot |= REGION_REF_SUPERSEDED;
            e->flags &= ~(uint32_t)REGION_MORE_WRITERS;
        }
    }
    if (e->vector == 0 && e->reader_count == REGION_READERS_INLINE) { /* forget finished ones */
        uint32_t kept = 0;

        for (uint32_t i = 0; i < REGION_READERS_INLINE; i++)
            if (graph_is_alive(g, e->reader[i]))
                e->reader[kept++] = e->reader[i];
        e->reader_count = (uint8_t)kept;
    }
    if (e->vector != 0 || e->reader_count == REGION_READERS_INLINE)
        return region_append(g, t, e, 0);
    e->reader[e->reader_count++] = me;
    return PTO_OK;
}

/* Waits and records at the record of the very region. */
static inline int apply_access(struct graph *g, struct slot *t, struct region *e, uint32_t access)
{
    struct ref me = { t->number, t->seq };

    e->last = me.seq;
    if ((access & ACCESS_LOOKUP) != 0 && wait_here(g, t, e, access) < 0)
        return PTO_ENOMEM;
    if ((access & ACCESS_REPLACE) != 0) {
        e->writer = me;
        e->reader_count = 0;
        e->flags &= REGION_USED | REGION_TANGLED | REGION_CROSSING;
        if (e->vector != 0)
            region_drop_vector(&g->regions, e);
        return PTO_OK;
    }
    if ((access & ACCESS_RECORD) == 0)
        return PTO_OK;
    if ((access & ACCESS_WRITE) == 0)
        return record_reader(g, t, e, (access & ACCESS_LOOKUP) != 0);
    if (graph_is_alive(g, e->writer) || e->reader_count != 0 || e->vector != 0)
        return region_append(g, t, e, REGION_REF_WRITE);
    e->writer = me;
    e->flags &= ~(uint32_t)REGION_SUPERSEDED;
    return PTO_OK;
}

static inline struct region *span_head(const struct regions *x, const struct span *span)
{
    return &x->table[region_bucket(x, 0, span->level, span->start >> span->level)];
}

/*
 * Makes t wait for what conflicts with the access, and records it. Nearly every
 * argument is a region that is recorded already and overlaps nothing else: one
 * probe finds it. Many of the rest are new and have nothing near them.
 */
__attribute__((always_inline)) static inline int region_access(struct graph *g, struct slot *t,
                                                               const struct pto_tensor *tensor,
                                                               const struct span *span,
                                                               uint32_t access)
{
    struct regions *x = &g->regions;
    struct region *e = NULL;
    int status = PTO_OK;

    if (span->length != 0) {
        e = span_head(x, span);
        if (e->start != span->start || e->length != span->length || e->kind != REGION_CONTIGUOUS ||
            (e->flags & (REGION_USED | REGION_TANGLED)) != REGION_USED)
            e = region_insert_dense(g, span, e);
    } else if (g->deps == PTO_DEPS_SAFE) {
        e = region_find_box(g, tensor);
    }
    if (e == NULL)
        e = region_resolve(g, t, tensor, &access, &status);
    return e != NULL ? apply_access(g, t, e, access) : status;
}

#endif
