/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access to a region: what it waits for, how it is recorded. Inline, because
 * every tensor argument of every task comes through here; whatever is not the
 * ordinary case is a call.
 */
#ifndef PTO_ACCESS_H
#define PTO_ACCESS_H

#include "graph/graph.h"

/* The interval of a contiguous region; all 0 for one that is strided, no length if it is empty. */
struct span {
    uint64_t start;
    uint64_t length;
    uint64_t hash; /* of its cell */
};

static inline struct span span_of(uint64_t start, uint64_t length)
{
    uint32_t level = region_level(length);

    return (struct span){ start, length, region_hash(0, level, start >> level) };
}

static inline struct region *span_head(const struct regions *x, const struct span *span)
{
    return &x->table[span->hash >> x->table_shift];
}

/* regions.c: the same as region_access for a region for which the first look was not enough. */
int region_reach(struct graph *g, struct slot *t, const struct pto_tensor *tensor,
                 const struct span *span, uint32_t access);
/* The same for a contiguous region by its tag, whose bucket starts with `head`. */
int region_reach_dense(struct graph *g, struct slot *t, const struct pto_tensor *tensor,
                       struct region *head, uint64_t start, uint64_t length);
/* Waits and records at the record of the very region, which a live task may have touched. */
int region_apply(struct graph *g, struct slot *t, struct region *e, uint32_t access);

/* Forgets who touched the region, but for the writer, which has gone or is about to be replaced. */
static inline void region_forget(struct regions *x, struct region *e)
{
    e->state &= REGION_STATE_SHAPE;
    if (e->vector != 0)
        region_drop_vector(x, e);
}

/* Records the access of t, where nobody else is recorded. */
static inline void record_first(const struct slot *t, struct region *e, uint32_t access)
{
    e->last = t->seq;
    if ((access & (ACCESS_RECORD | ACCESS_WRITE)) == ACCESS_RECORD) {
        e->reader[0] = slot_ref(t);
        e->state |= 1; /* reader_count */
    } else if ((access & ACCESS_RECORD) != 0) {
        e->writer = slot_ref(t);
    }
}

/* The same; often all those that touched the region have gone, and there is nobody to wait for. */
__attribute__((always_inline)) static inline int apply_access(struct graph *g, struct slot *t,
                                                              struct region *e, uint32_t access)
{
    if (e->last >= g->dead_before)
        return region_apply(g, t, e, access);
    region_forget(&g->regions, e);
    record_first(t, e, access);
    return PTO_OK;
}

/* The first record of the bucket of a contiguous region. */
static inline struct region *region_head(const struct regions *x, uint64_t start, uint64_t length)
{
    uint32_t level = region_level(length);

    return &x->table[region_hash(0, level, start >> level) >> x->table_shift];
}

/* Whether the record is that of this very contiguous region, and overlaps no other. */
static inline bool region_is(const struct region *e, uint64_t start, uint64_t length)
{
    return e->start == start && e->length == length &&
           (e->state & REGION_STATE_KNOWN) == REGION_USED << REGION_FLAGS_SHIFT;
}

/*
 * Makes t wait for what conflicts with the access, and records it. Nearly every
 * argument is a region that is recorded already and overlaps nothing else: one
 * probe finds it. No record has length 0.
 */
static inline int region_access(struct graph *g, struct slot *t, const struct pto_tensor *tensor,
                                const struct span *span, uint32_t access)
{
    struct region *e = span_head(&g->regions, span);

    if (!region_is(e, span->start, span->length))
        return region_reach(g, t, tensor, span, access);
    return apply_access(g, t, e, access);
}

#endif
