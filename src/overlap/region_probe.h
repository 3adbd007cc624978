/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declarations that region_index.c, which keeps the records, and region_query.c, which searches
 * them, share.
 */
#ifndef PTO_REGION_PROBE_H
#define PTO_REGION_PROBE_H

#include "overlap/overlap.h"

enum {
    PROBE_FRAMES = 32,
    OVERFLOW_BIT = 1u << 31, /* set in the index of a record in the overflow array */
};

/* State of the search for one access. */
struct probe {
    struct tree_probe tree; /* part that the tree uses; must be first */
    struct regions *x;
    struct slot *t;
    const struct geom *geom;
    const struct region *self; /* record of exactly this region; NULL: none */
    uint32_t access;           /* enum access */
    /* tasks with a lower number need no edge: a later task that accessed `self` waited for them */
    uint32_t since;
    uint64_t salt;
    /*
     * visited records that overlap in bytes, and whose latest access is by task `since` or a later
     * one
     */
    uint32_t met;
    /*
     * number of the latest reader of `self`, if waiting for it implies waiting for all accesses
     * before it; 0: none
     */
    uint32_t reader;
    bool has_newer; /* a task after `reader` has written an overlapping region */
    /* a record that overlaps the region stays, so the region's own record is tangled */
    bool is_tangled;
    /*
     * the task waits for a join (region_join.c) instead of single tasks, and is not recorded;
     * overlapping records are marked as tangled all the same
     */
    bool is_joined;
    bool has_all_frames;
    int status;
    struct ref user;    /* if `t` is NULL: the latest live task found so far that uses the region */
    uint32_t own_frame; /* frame of the region, if it is a box; 0: none */
    uint32_t class;     /* class of the box in own_frame */
    uint32_t bucket;
    uint32_t frame_count;
    /* frames whose common leaf the search has found; their boxes are visited after the search */
    uint32_t frame[PROBE_FRAMES];
};

static inline void probe_init(struct probe *p, struct regions *x, struct slot *t,
                              const struct geom *geom, uint32_t access)
{
    p->x = x;
    p->t = t;
    p->geom = geom;
    p->self = NULL;
    p->access = access;
    p->since = 0;
    p->salt = 0;
    p->met = 0;
    p->reader = 0;
    p->has_newer = false;
    p->is_tangled = false;
    p->is_joined = false;
    p->has_all_frames = false;
    p->status = PTO_OK;
    p->user = (struct ref){ 0, 0 };
    p->own_frame = 0;
    p->frame_count = 0;
}

/*
 * region_index.c: finds the record of exactly this region, and drops records of completed tasks
 * from its chain. NULL: there is none.
 */
struct region *region_find_exact(struct probe *p, uint32_t bucket);
/* Adds a new record to the bucket. NULL: out of memory. */
struct region *region_insert(struct probe *p, uint32_t bucket, uint32_t level);

/*
 * region_table.c: doubles the table, which has a pool for itself, and drops records of completed
 * tasks.
 */
int regions_grow(struct regions *x);

/* region_frame.c */
/*
 * Returns the frame of a box. Called if that is none of the recently used frames; creates it if
 * may_create is set. 0: none.
 */
uint32_t region_find_frame(struct probe *p, const struct geom *geom, bool may_create);
/*
 * Finds the record of exactly this box; *bucket_out is the bucket in which it belongs. NULL: there
 * is none.
 */
struct region *region_find_box(struct probe *p, uint32_t *bucket_out, uint32_t *class_out);
uint32_t region_bucket_of_box(const struct regions *x, const struct geom *geom, uint32_t frame,
                              uint32_t class);
/* Returns the bucket of a frame's own record; the hash covers all that identifies the frame. */
uint32_t region_bucket_of_frame(const struct regions *x, const struct geom *geom);
/*
 * Computes the geometry of a box of a flat frame (two dimensions, rows without gaps) from its
 * interval.
 */
void region_derive_geom(const struct regions *x, const struct region *e, struct geom *geom);

/*
 * region_query.c: makes the probe's task wait for conflicting tasks in all records that overlap the
 * region, except the region's own.
 */
void region_query(struct probe *p);
/*
 * region_join.c: region_query for a reader that has the same predecessors as the reader before. If
 * they are many, it makes a join that stands for them, which later readers use as well.
 */
void region_query_joined(struct probe *p, struct region_shape *shape);
/* Called after a reader was recorded: decides whether the next reader should make a join. */
void region_want_join(struct regions *x, const struct slot *t, struct region_shape *shape);
/* Like region_query_joined, for a reader that is not recorded; `e` is the record of its region. */
void region_query_unrecorded(struct probe *p, struct region *e);
/*
 * Whether nothing can overlap a new box of the frame, because no record outside of the frame
 * overlaps the frame's buffer.
 */
bool region_is_first(struct regions *x, uint32_t frame);

bool region_tree_start(struct regions *x);
/* Rebuilds the tree if most of its leaves are stale. False: out of memory. */
bool region_tree_tidy(struct regions *x);
/*
 * Adds a leaf for a new record. If `near` is not 0, the leaf of an interval also gets indices of
 * that frame.
 */
void region_enter_tree(struct regions *x, struct region *e, uint32_t near);
/* Updates the latest access in the leaf of a record, if it has one. */
void region_touch_leaf(struct regions *x, struct region *e);
/* Removes the leaf of a record, if it has one. */
void region_leave_tree(struct regions *x, struct region *e);
/*
 * Called when a frame whose boxes have no leaves gets a box: adds one leaf for all boxes if the
 * frame is simple, else one for each box.
 */
void region_put_leaves(struct regions *x, uint32_t frame);
/*
 * Called when a frame whose boxes have a leaf each gets one more box: checks from time to time
 * whether one leaf for all of them would do.
 */
void region_try_one_leaf(struct regions *x, uint32_t frame);
/*
 * Called after the table has grown: replaces the indices of records in the tree. The arrays have
 * the new indices, by old index in the table and in the overflow array.
 */
void region_tree_follow(struct regions *x, const uint32_t *head, const uint32_t *chained);

static inline struct region *record_at(const struct regions *x, uint32_t index)
{
    return index & OVERFLOW_BIT ? &x->overflow[index & ~OVERFLOW_BIT] : &x->table[index];
}

static inline uint32_t index_of(const struct regions *x, const struct region *e)
{
    if (e >= x->table && e < x->table + x->table_count)
        return (uint32_t)(e - x->table);
    return (uint32_t)(e - x->overflow) | OVERFLOW_BIT;
}

static inline struct region_shape *shape_at(const struct regions *x, uint32_t index)
{
    return index & OVERFLOW_BIT ? &x->overflow_shape[index & ~OVERFLOW_BIT]
                                : &x->table_shape[index];
}

static inline struct region_shape *shape_of(const struct regions *x, const struct region *e)
{
    return shape_at(x, index_of(x, e));
}

/*
 * Returns the frame of a box: a recently used one, or another existing one, or a new one; 0: none.
 */
static inline uint32_t region_frame_of(struct probe *p, const struct geom *geom, bool may_create)
{
    uint32_t cached = *region_frame_cache(p->x, geom->base, geom->stride[0]);

    if (cached != 0 && geom_same_frame(&p->x->frame[cached].geom, geom) &&
        p->x->frame[cached].geom.size == geom->size)
        return cached;
    return region_find_frame(p, geom, may_create);
}

/* Adds a box to the list of its frame. */
static inline void region_list_box(const struct regions *x, struct region_frame *f, uint32_t index,
                                   struct region_shape *shape)
{
    shape->frame_prev = 0;
    shape->frame_next = f->first;
    if (f->first != 0)
        shape_at(x, f->first - 1)->frame_prev = index + 1;
    f->first = index + 1;
    f->population++;
}

/*
 * Makes later readers of the region wait for all recorded writers again, instead of only those
 * after `floor`.
 */
static inline void region_forget_floor(struct region_shape *shape)
{
    shape->floor = 0;
    shape->join = 0;
}

/*
 * Number that is added to cell numbers: under simpler's rules each buffer is an address space of
 * its own.
 */
static inline uint64_t salt_of(const struct geom *geom)
{
    return geom->base * 0xff51afd7ed558ccdull;
}

/* Prefetches the head of a bucket and its shape. */
static inline void region_prefetch(const struct regions *x, uint32_t bucket)
{
    const char *shape = (const char *)&x->table_shape[bucket];

    __builtin_prefetch(&x->table[bucket], 1, 3);
    __builtin_prefetch(shape, 1, 3);
    __builtin_prefetch(shape + sizeof(struct region_shape) - 1, 1, 3);
}

#endif
