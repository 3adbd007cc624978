/* SPDX-License-Identifier: Apache-2.0 */
/* What region_index.c, which has the records, and region_query.c, which searches them, share. */
#ifndef PTO_REGION_PROBE_H
#define PTO_REGION_PROBE_H

#include "overlap/overlap.h"

enum {
    PROBE_FRAMES = 32,
    OVERFLOW_BIT = 1u << 31, /* of a record's index: in the overflow array */
};

/* One access on its way through the index. */
struct probe {
    struct tree_probe tree; /* first: what the tree knows of it */
    struct regions *x;
    struct slot *t;
    const struct geom *geom;
    const struct region *self; /* its own record, if there is one */
    uint32_t access;           /* enum access */
    uint32_t since;            /* what was recorded before it is ordered before `self` */
    uint64_t salt;
    uint32_t met;    /* records near it */
    uint32_t reader; /* the latest one of `self`, if it counts for a reader; 0: none */
    bool has_newer;  /* a writer after that overlaps */
    bool is_tangled; /* something that overlaps stays recorded */
    bool is_joined;  /* a later one will not look at what was recorded before: who records tells */
    bool has_all_frames;
    int status;
    struct ref user;    /* without a task to wait: the latest one that is recorded */
    uint32_t own_frame; /* of a box; 0: none */
    uint32_t class;     /* in that, and the bucket of its cell */
    uint32_t bucket;
    uint32_t frame_count;
    uint32_t frame[PROBE_FRAMES]; /* frames met on the way */
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

/* region_index.c: the record of exactly this region, or NULL. Drops what is dead in its chain on the way. */
struct region *region_find_exact(struct probe *p, uint32_t bucket);
/* A new record in the bucket. NULL: memory has run out. */
struct region *region_insert(struct probe *p, uint32_t bucket, uint32_t level);

/* region_table.c: doubles the table, which is all that lies in its pool, and drops what has gone. */
int regions_grow(struct regions *x);

/* region_frame.c */
/* The frame of a box, which is not among those recently used: known, or new. 0: none. */
uint32_t region_find_frame(struct probe *p, const struct geom *geom, bool may_create);
/* The record of this very box; where it would be if there is none. */
struct region *region_find_box(struct probe *p, uint32_t *bucket_out, uint32_t *class_out);
uint32_t region_bucket_of_box(const struct regions *x, const struct geom *geom, uint32_t frame,
                              uint32_t class);
/* The bucket of a frame's own record, by all that makes the frame. */
uint32_t region_bucket_of_frame(const struct regions *x, const struct geom *geom);
/* The geometry of a box of a flat frame, whose rows have no gaps: its interval says all. */
void region_derive_geom(const struct regions *x, const struct region *e, struct geom *geom);

/* region_query.c: deals with all records that overlap the probe's region, but for its own. */
void region_query(struct probe *p);
/*
 * region_join.c: region_query for a reader that waits for what the reader before waited
 * for, too. If that was much, a join is made of it, for this reader and those after it.
 */
void region_query_joined(struct probe *p, struct region_shape *shape);
/* A reader is recorded: is it worth while for the next one? */
void region_want_join(struct regions *x, const struct slot *t, struct region_shape *shape);
/* The same for a reader that is not recorded, with what is recorded for the same region. */
void region_query_unrecorded(struct probe *p, struct region *e);
/* Whether nothing can overlap a new box of the frame, because nothing at all is in its memory. */
bool region_is_first(struct regions *x, uint32_t frame);

bool region_tree_start(struct regions *x);
/* Makes the tree anew if most of it is out of date. False: memory has run out. */
bool region_tree_tidy(struct regions *x);
/* A new record becomes a leaf; an interval in terms of the frame `near`, if that is not 0. */
void region_enter_tree(struct regions *x, struct region *e, uint32_t near);
/* The access of a record that may have a leaf. */
void region_touch_leaf(struct regions *x, struct region *e);
/* If it is one it is none any more. */
void region_leave_tree(struct regions *x, struct region *e);
/* A frame whose boxes had no leaves got another box: one leaf for all if it is simple, or one each. */
void region_put_leaves(struct regions *x, uint32_t frame);
/* A frame whose boxes have a leaf each got another one: from time to time, whether one will do. */
void region_try_one_leaf(struct regions *x, uint32_t frame);
/* The table has grown; records are where these say, by index in the table and in the overflow array. */
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

/* The frame of a box: recently used, or known, or new. 0: none. */
static inline uint32_t region_frame_of(struct probe *p, const struct geom *geom, bool may_create)
{
    uint32_t cached = *region_frame_cache(p->x, geom->base, geom->stride[0]);

    if (cached != 0 && geom_same_frame(&p->x->frame[cached].geom, geom) &&
        p->x->frame[cached].geom.size == geom->size)
        return cached;
    return region_find_frame(p, geom, may_create);
}

/* A box joins its frame. */
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

/* All writers count for the readers of the region. */
static inline void region_forget_floor(struct region_shape *shape)
{
    shape->floor = 0;
    shape->join = 0;
}

/* Under the reference's rules each buffer is an address space of its own. */
static inline uint64_t salt_of(const struct geom *geom)
{
    return geom->base * 0xff51afd7ed558ccdull;
}

/* Asks for the head of a bucket and what is beside it, before anybody has to wait for them. */
static inline void region_ask_for(const struct regions *x, uint32_t bucket)
{
    const char *shape = (const char *)&x->table_shape[bucket];

    __builtin_prefetch(&x->table[bucket], 1, 3);
    __builtin_prefetch(shape, 1, 3);
    __builtin_prefetch(shape + sizeof(struct region_shape) - 1, 1, 3);
}

#endif
