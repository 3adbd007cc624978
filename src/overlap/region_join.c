/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides where a join (overlap.h) replaces many edges: from the writers for which successive
 * readers of a region wait, and from the readers for which successive writers of its parts wait.
 */
#include <string.h>

#include "overlap/region_probe.h"

/* ---- many writers ---- */

/*
 * Makes the probe's task wait for conflicting tasks in the region's own record, `own`, and in all
 * records that overlap it.
 */
static void query_with(struct probe *p, struct region *own)
{
    if (own == NULL || (own->flags & REGION_TANGLED) != 0 || p->x->has_versions)
        region_query(p);
    if (own != NULL && p->status >= 0 && region_wait(p->x, p->t, own, p->access, p->since) < 0)
        p->status = PTO_ENOMEM;
}

/*
 * Makes a new join wait for all conflicting tasks that the probe finds. Slot 0: no conflicting task
 * is live, or memory ran out.
 */
static struct ref join_writers(struct probe *p, struct region *own, uint32_t *size_out)
{
    struct regions *x = p->x;
    struct slot *t = p->t;
    struct slot *join = edges_join_begin(x, t, t->seq - 1);
    struct ref ref = { 0, 0 };

    *size_out = 0;
    if (join == NULL) {
        p->status = PTO_ENOMEM;
        return ref;
    }
    p->t = join;
    query_with(p, own);
    p->t = t;
    *size_out = edges_count(x, join);
    return edges_join_end(x, t, join);
}

static void wait_for_join(struct probe *p, struct ref join)
{
    if (join.slot != 0 && p->status >= 0 && ref_wait_for(p->x, p->t, join) < 0)
        p->status = PTO_ENOMEM;
}

void region_query_joined(struct probe *p, struct region_shape *shape)
{
    struct ref join = { shape->join, shape->floor - 1 };
    uint32_t size;

    /* while a join is made, the search must not make another one */
    if (shape->join == REGION_JOIN_WANTED && !p->x->may_join) {
        region_query(p);
        return;
    }
    if (shape->join != REGION_JOIN_WANTED) {
        region_query(p);
    } else {
        join = join_writers(p, NULL, &size);
        shape->join = join.slot;
        shape->floor = p->t->seq;
    }
    wait_for_join(p, join);
}

void region_want_join(struct regions *x, const struct slot *t, struct region_shape *shape)
{
    if (shape->join == 0 && t->edge_count == SLOT_EDGES_INLINE && x->may_join &&
        edges_count(x, t) >= REGION_JOINED_MIN)
        shape->join = REGION_JOIN_WANTED;
}

static struct region_join *place_of(struct regions *x, const struct geom *geom)
{
    uint64_t key = (geom->base + geom->lo) * 0xff51afd7ed558ccdull + geom->hi;

    return &x->side_tables->join[(key * 0x9e3779b97f4a7c15ull) >> (64 - REGION_JOIN_BITS)];
}

/*
 * Finds conflicts for one more reader of a region that has a struct region_join: the reader waits
 * for the join, and for each task that wrote after the join was made. If there is no join yet, or
 * these writers are as many as the join has predecessors, a new join is made first.
 */
static void query_like_before(struct probe *p, struct region *e, struct region_join *join)
{
    uint32_t before;

    p->is_joined = true;
    if (join->extra >= join->size) {
        join->ref = join_writers(p, e, &join->size);
        join->floor = p->t->seq;
        join->extra = 0;
    } else {
        before = edges_count(p->x, p->t);
        p->since = join->floor;
        query_with(p, e);
        join->extra += edges_count(p->x, p->t) - before;
    }
    wait_for_join(p, join->ref);
}

void region_query_unrecorded(struct probe *p, struct region *e)
{
    struct regions *x = p->x;
    const struct slot *t = p->t;
    uint32_t before = edges_count(p->x, t), added;
    struct region_join *join = place_of(x, p->geom);

    if (x->has_joins && join->size != 0 && geom_equal(&join->geom, p->geom) &&
        (p->x->may_join || join->extra < join->size)) {
        query_like_before(p, e, join);
        return;
    }
    query_with(p, e);
    added = edges_count(p->x, t) - before;
    if (added >= REGION_JOINED_MIN && p->x->may_join) {
        *join = (struct region_join){ .geom = *p->geom, .size = added, .extra = added };
        x->has_joins = true;
    }
}

/* ---- joins of many readers ---- */

static uint32_t count_readers(const struct regions *x, const struct region *e)
{
    const struct region_vector *v = region_vector(x, e->vector);
    uint32_t count = 0;

    for (uint32_t i = 0; i < e->reader_count; i++)
        count += ref_is_alive(x, e->reader[i]);
    for (uint32_t i = v->count; i-- > 0 && count < REGION_JOINED_MIN;)
        count += (v->ref[i].slot & REGION_REF_WRITE) == 0 && ref_is_alive(x, v->ref[i]);
    return count;
}

/*
 * Whether r is a live join. A join must not wait for another join, so joins in e->reader stay
 * there.
 */
static bool is_join(struct regions *x, struct ref r)
{
    return ref_is_alive(x, r) && edges_is_join(x, r);
}

int region_join_readers(struct regions *x, struct slot *t, struct region *e)
{
    const struct region_vector *v = region_vector(x, e->vector);
    struct ref joined[REGION_READERS_INLINE];
    uint32_t count = 0, latest;
    struct slot *join;
    int status = 0;

    if (e->vector == 0 || v->count + e->reader_count < REGION_JOINED_MIN || !x->may_join ||
        count_readers(x, e) < REGION_JOINED_MIN)
        return PTO_OK;
    for (uint32_t i = 0; i < e->reader_count; i++)
        if (is_join(x, e->reader[i]))
            joined[count++] = e->reader[i];
    latest = region_latest_reader(x, e);
    if (latest == t->seq || count == REGION_READERS_INLINE)
        /* t must stay in the record as a reader, or e->reader is full of joins */
        return PTO_OK;
    join = edges_join_begin(x, t, latest);
    if (join == NULL)
        return PTO_ENOMEM;
    for (uint32_t i = 0; i < e->reader_count; i++)
        if (!is_join(x, e->reader[i]))
            status |= ref_wait_for(x, join, e->reader[i]);
    for (uint32_t i = 0; i < v->count; i++)
        if ((v->ref[i].slot & REGION_REF_WRITE) == 0)
            status |= ref_wait_for(x, join, v->ref[i]);
    joined[count++] = edges_join_end(x, t, join);
    region_forget_readers(x, e);
    memcpy(e->reader, joined, count * sizeof(joined[0]));
    e->reader_count = count & 3; /* mutation: lost-join */
    return status;
}
