/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds or makes the record of any region, and makes the new task wait for conflicting tasks in all
 * records that overlap it.
 */
#include "overlap/access.h"
#include "overlap/region_probe.h"

#include <string.h>

static void derive_shape(struct regions *x, struct region *e)
{
    region_derive_geom(x, e, &shape_of(x, e)->geom);
    e->level &= REGION_CLASS;
}

struct region_shape *region_shape(struct regions *x, struct region *e)
{
    if (e->kind == REGION_BOX && e->frame != 0 && (e->level & REGION_IS_DERIVED) != 0)
        derive_shape(x, e);
    return shape_of(x, e);
}

/* Returns a frame of which a contiguous tensor is probably a row; 0: none. */
static uint32_t frame_near(const struct regions *x, const struct pto_tensor *tensor)
{
    uint32_t frame = *region_frame_cache(x, tensor->addr, tensor->strides[0]);
    const struct geom *of = &x->frame[frame].geom;

    return of->base == tensor->addr && of->stride[0] == tensor->strides[0] ? frame : 0;
}

/*
 * Searches again for conflicts with a region that already has a record, `e`, and overlaps other
 * records (is tangled). A reader need not search all accesses: if a task has written an overlapping
 * region since the latest recorded reader, that writer waited for that reader, and so stands for
 * all accesses before it. Otherwise the new reader waits for the same writers as the latest one.
 * See docs/user/ordering.md.
 */
static void query_again(struct probe *p, struct region *e)
{
    struct region_shape *shape = shape_of(p->x, e);
    uint32_t since = p->since;
    uint32_t reader = region_latest_reader(p->x, e);

    /* if the record gets a leaf in the tree before its next access, the leaf copies this number */
    e->last = p->t->seq;
    region_touch_leaf(p->x, e);
    if (p->x->deps == PTO_DEPS_SAFE &&
        (p->access & (ACCESS_LOOKUP | ACCESS_WRITE)) == ACCESS_LOOKUP &&
        reader >= p->x->ordered_from && reader >= p->x->dead_before) {
        p->reader = reader;
        p->since = reader + 1;
        region_query(p);
        if (p->has_newer) {
            region_forget_readers(p->x, e);
            shape->floor = reader + 1;
            shape->join = 0;
        }
        if (p->has_newer || reader == p->t->seq)
            return;
        p->reader = 0;
        if (shape->floor > e->writer.seq && shape->floor > since)
            p->since = shape->floor;
        else {
            p->since = since;
            if (shape->join != REGION_JOIN_WANTED)
                shape->join = 0;
        }
        region_query_joined(p, shape);
        return;
    }
    region_forget_floor(shape);
    region_query(p);
}

/* Computes the geometry of the tensor by the dependency rules of the run. */
static inline void describe(struct probe *p, struct geom *geom, const struct pto_tensor *tensor)
{
    struct regions *x = p->x;

    if (x->deps == PTO_DEPS_SAFE) {
        geom_init_safe(geom, tensor);
        return;
    }
    geom_init_simpler(geom, tensor);
    p->salt = salt_of(geom);
    x->has_versions = x->has_versions || geom->version != 0;
    /*
     * under simpler's rules only a box covers other regions; another region does not even cover
     * itself
     */
    if (geom->kind != REGION_BOX)
        p->access &= ~(uint32_t)ACCESS_REPLACE;
}

/* Returns the record of exactly this region, or NULL, and the bucket in which it belongs. */
static inline struct region *index_find_record(struct probe *p, const struct pto_tensor *tensor,
                                               uint32_t *bucket_out, uint32_t *level_out)
{
    struct regions *x = p->x;
    const struct geom *geom = p->geom;

    if (geom->kind == REGION_BOX && !tensor->is_contiguous) {
        p->own_frame = region_frame_of(p, geom, (p->access & ACCESS_RECORD) != 0);
        x->frame_pinned = p->own_frame;
    }
    if (p->own_frame != 0) {
        struct region *e = region_find_box(p, bucket_out, level_out);

        p->class = *level_out;
        p->bucket = *bucket_out;
        region_note_box(&x->frame[p->own_frame], *level_out, tensor, geom->shape);
        return e;
    }
    x->frame_near = frame_near(x, tensor);
    *level_out = region_level(geom->hi - geom->lo);
    *bucket_out = region_bucket(x, p->salt, *level_out, geom->lo >> *level_out);
    return region_find_exact(p, *bucket_out);
}

/*
 * Sets the record's tangled flag to what the query found: whether records that overlap it remain.
 */
static inline void note_tangled(const struct probe *p, struct region *e)
{
    if (p->is_tangled && (e->flags & REGION_TANGLED) == 0)
        region_forget_floor(shape_of(p->x, e));
    e->flags &= ~(uint32_t)REGION_TANGLED;
    if (p->is_tangled)
        e->flags |= REGION_TANGLED;
    if (p->is_tangled && (p->access & ACCESS_WRITE) == 0)
        region_want_join(p->x, p->t, shape_of(p->x, e));
}

struct region *region_resolve(struct regions *x, struct slot *t, const struct pto_tensor *tensor,
                              uint32_t *access, int *status_out)
{
    struct geom geom;
    struct probe p;
    uint32_t level, bucket;
    struct region *e;

    x->seq = t->seq + 1;
    probe_init(&p, x, t, &geom, *access);
    describe(&p, &geom, tensor);
    *access = p.access;
    if (geom.lo >= geom.hi)
        return NULL;
    if ((regions_are_crowded(x) && regions_grow(x) < 0) || !region_tree_tidy(x)) {
        *status_out = PTO_ENOMEM;
        return NULL;
    }
    e = index_find_record(&p, tensor, &bucket, &level);
    p.self = e;
    if (e != NULL && x->deps == PTO_DEPS_SAFE && e->writer.seq >= x->ordered_from)
        /*
         * the record's writer waited for all earlier tasks that overlap it: docs/user/ordering.md
         */
        p.since = e->writer.seq;
    if (x->deps != PTO_DEPS_SAFE && *access == ACCESS_LOOKUP) {
        region_query_unrecorded(&p, e);
        *status_out = p.status;
        return NULL;
    }
    if (e == NULL) {
        if (!region_is_first(x, p.own_frame))
            region_query(&p);
    } else if ((e->flags & REGION_TANGLED) != 0 || x->has_versions) {
        query_again(&p, e);
    }
    if (p.status >= 0 && e == NULL && (p.access & ACCESS_RECORD) != 0) {
        e = region_insert(&p, bucket, level);
        if (e == NULL || x->is_short)
            p.status = PTO_ENOMEM;
    }
    *status_out = p.status;
    if (p.status < 0 || e == NULL)
        return NULL;
    if ((p.access & ACCESS_RECORD) != 0)
        note_tangled(&p, e);
    return e;
}

struct region *region_find_exact(struct probe *p, uint32_t bucket)
{
    struct regions *x = p->x;
    struct region *e = &x->table[bucket];
    uint32_t *link = &e->next;
    bool is_plain = p->geom->kind == REGION_CONTIGUOUS;
    uint64_t length = p->geom->hi - p->geom->lo;

    if (!region_is_touched(x, bucket))
        return NULL;
    for (;;) {
        if ((e->flags & REGION_USED) != 0 && e->start == p->geom->lo && e->length == length &&
            e->kind == p->geom->kind &&
            (is_plain || geom_equal(&region_shape(x, e)->geom, p->geom)))
            return e;
        for (;;) {
            uint32_t index = *link;

            if (index == 0)
                return NULL;
            e = &x->overflow[index];
            if ((e->flags & REGION_USED) != 0 && region_is_alive(p->x, e))
                break;
            if ((e->flags & REGION_USED) != 0)
                region_remove(p->x, e);
            *link = e->next;
            e->next = x->overflow_free;
            x->overflow_free = index;
            x->overflow_live--;
        }
        link = &e->next;
    }
}

struct region *region_insert(struct probe *p, uint32_t bucket, uint32_t level)
{
    struct region *e = region_place(p->x, bucket);

    if (e != NULL)
        region_fill(p->x, e, p->geom, p->own_frame, level);
    return e;
}

/*
 * Fills a record that belongs in a grid of intervals: of a contiguous region, a box without a
 * frame, or a frame.
 */
static inline void fill_interval(struct regions *x, struct region *e, const struct geom *geom,
                                 uint32_t level)
{
    struct region_shape *shape;

    if ((geom->lo >> level) != ((geom->hi - 1) >> level)) {
        e->flags |= REGION_CROSSING;
        x->level_crossing[level]++;
    }
    x->level_count[level]++;
    x->level_mask |= 1ull << level;
    if (geom->kind == REGION_CONTIGUOUS) {
        if (x->is_indexed)
            region_enter_tree(x, e, x->frame_near);
        return;
    }
    shape = shape_of(x, e);
    shape->geom = *geom;
    shape->known = 0;
    if (x->is_indexed && geom->kind != REGION_FRAME)
        region_enter_tree(x, e, 0);
}

/*
 * Fills the record of a box in the grid of its frame, and updates whether all boxes of the frame
 * have one size.
 */
static inline void fill_box(struct regions *x, struct region *e, const struct geom *geom,
                            uint32_t frame, uint32_t class)
{
    struct region_frame *f = &x->frame[frame];
    uint32_t index = index_of(x, e);
    struct region_shape *shape = shape_at(x, index);
    bool is_simple;

    shape->geom = *geom;
    shape->known = 0;
    region_list_box(x, f, index, shape);
    f->class_of[class].count++;
    for (uint32_t d = 0; d < geom->ndims; d++) {
        uint32_t bits = f->class_of[class].level[d];

        if (geom->offset[d] >> bits != (geom->offset[d] + geom->shape[d] - 1) >> bits)
            f->class_of[class].is_crossing = 1;
    }
    is_simple = !f->is_spread && f->is_alone && f->class_of[class].count == f->population &&
                f->class_of[class].is_crossing == 0;
    if (!is_simple || f->simple != class)
        /* else the new box is like the others, so the frame's struct region_tile stays valid */
        region_roughen(f);
    if (f->is_spread) {
        region_enter_tree(x, e, 0);
        region_try_one_leaf(x, frame);
        return;
    }
    /* number of the task being submitted; spread() copies it to the record's leaf in the tree */
    e->last = x->seq - 1;
    if (is_simple)
        f->simple = class;
    region_put_leaves(x, frame);
    if (geom->ndims == 2 && geom->stride[1] == 1 && geom->stride[0] > 1 &&
        /* so that 32-bit sums of row or column numbers do not wrap */
        f->class_of[class].level[0] < 31 && f->class_of[class].level[1] < 31)
        f->flat = f->simple;
}

void region_fill(struct regions *x, struct region *e, const struct geom *geom, uint32_t frame,
                 uint32_t level)
{
    port_check((e->flags & REGION_USED) == 0 && geom->lo < geom->hi);
    region_touch(x, e);
    if (x->top < geom->hi)
        x->top = geom->hi;
    e->start = geom->lo;
    e->length = geom->hi - geom->lo;
    e->writer = (struct ref){ 0, 0 };
    e->vector = 0;
    e->reader_count = 0;
    e->level = level & 63;
    e->kind = geom->kind & 3;
    e->flags = REGION_USED;
    e->frame = (uint16_t)frame;
    x->filled++;
    if (frame == 0)
        fill_interval(x, e, geom, level);
    else
        fill_box(x, e, geom, frame, level);
}

struct region *region_add_tile(struct regions *x, const struct pto_tensor *tensor)
{
    const struct region_tile *tile = x->tile_now;
    uint32_t class = tile->state >> REGION_LEVEL_SHIFT & REGION_CLASS;
    struct region_frame *f = &x->frame[tile->state >> 16];
    struct region_shape *shape;
    struct region *e;

    if (!tile_is_like(tile, tensor) || f->population == 0 || regions_are_crowded(x))
        return NULL;
    e = tile_place(x, tile, tensor);
    if (e == NULL || (e->flags & REGION_USED) != 0 || e->next != 0)
        return NULL;
    region_touch(x, e);
    x->filled++;
    e->start = tensor->addr + (tensor->start << tile->elem_log);
    e->length = tile->length;
    e->writer = (struct ref){ 0, 0 };
    e->last = 0;
    e->vector = 0;
    region_set_tag(e, (uint16_t)tile->state, tile->state >> 16);
    if (x->top < e->start + e->length)
        x->top = e->start + e->length;
    shape = &x->table_shape[e - x->table];
    shape->known = 0;
    region_list_box(x, f, (uint32_t)(e - x->table), shape);
    f->class_of[class].count++;
    return e;
}

/*
 * Returns an entry of a bucket for a new record: the first one if it is free or its tasks have
 * completed, else a new one in the overflow chain.
 */
struct region *region_place(struct regions *x, uint32_t bucket)
{
    struct region *e = &x->table[bucket];
    uint32_t index;

    if ((e->flags & REGION_USED) == 0)
        return e;
    if (!region_is_alive(x, e)) {
        region_remove(x, e);
        return e;
    }
    index = x->overflow_free;
    if (index != 0) {
        x->overflow_free = x->overflow[index].next;
    } else {
        if (pool_take(&x->overflow_pool, sizeof(struct region)) == NULL ||
            pool_take(&x->overflow_shape_pool, sizeof(struct region_shape)) == NULL)
            return NULL;
        index = x->overflow_count++;
    }
    x->overflow_live++;
    e = &x->overflow[index];
    e->flags = 0; /* the entry may hold a record of an earlier run */
    e->next = x->table[bucket].next;
    x->table[bucket].next = index;
    return e;
}

/* Removes a record. One in a chain stays linked, marked as unused, until its chain is walked. */
void region_remove(struct regions *x, struct region *e)
{
    uint32_t level = e->level;

    port_check((e->flags & REGION_USED) != 0);
    if (e->vector != 0)
        region_drop_vector(x, e);
    region_leave_tree(x, e);
    e->flags &= ~(uint32_t)REGION_USED;
    if (e->kind != REGION_BOX || e->frame == 0) {
        if ((e->flags & REGION_CROSSING) != 0)
            x->level_crossing[level]--;
        if (--x->level_count[level] == 0)
            x->level_mask &= ~(1ull << level);
    }
    if (e->kind == REGION_FRAME) {
        uint32_t frame = e->frame;

        x->frame[frame].is_used = false;
        x->frame[frame].next_free = x->frame_parked;
        x->frame_parked = frame;
        x->parked_count++;
        memset(x->frame_cache, 0, sizeof(x->frame_cache));
    } else if (e->kind == REGION_BOX && e->frame != 0) {
        struct region_shape *shape = shape_of(x, e);
        struct region_frame *f = &x->frame[e->frame];

        region_forget_known(x, shape, e);
        if (shape->frame_prev != 0)
            shape_at(x, shape->frame_prev - 1)->frame_next = shape->frame_next;
        else
            f->first = shape->frame_next;
        if (shape->frame_next != 0)
            shape_at(x, shape->frame_next - 1)->frame_prev = shape->frame_prev;
        port_check(f->population != 0 && f->class_of[level & REGION_CLASS].count != 0);
        f->population--;
        f->class_of[level & REGION_CLASS].count--;
    }
}

bool region_is_alive(struct regions *x, const struct region *e)
{
    if (e->kind == REGION_FRAME) {
        uint32_t frame = e->frame;

        return x->frame[frame].population != 0 || x->frame_pinned == frame;
    }
    if (e->last < x->dead_before)
        return false;
    if (ref_is_alive(x, e->writer))
        return true;
    for (uint32_t i = 0; i < e->reader_count; i++)
        if (ref_is_alive(x, e->reader[i]))
            return true;
    if (e->vector != 0) {
        struct region_vector *v = region_vector(x, e->vector);

        for (uint32_t i = 0; i < v->count; i++) {
            struct ref r = { v->ref[i].slot & REGION_REF_SLOT, v->ref[i].seq };

            if (ref_is_alive(x, r))
                return true;
        }
    }
    return false;
}
