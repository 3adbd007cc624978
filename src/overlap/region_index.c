/* SPDX-License-Identifier: Apache-2.0 */
/* The region index: the record of a region, made if there is none, and the frames of boxes. */
#include "overlap/access.h"
#include "overlap/region_probe.h"

#include <string.h>

static struct region *find_exact(struct probe *p, uint32_t bucket);
static struct region *find_box(struct probe *p, uint32_t *bucket_out, uint32_t *class_out);
static struct region *insert_record(struct probe *p, uint32_t bucket, uint32_t level);
static int grow_table(struct regions *x);
static uint32_t frame_of(struct probe *p, const struct geom *geom, bool may_create);

/* Of a box of a flat frame: rows without gaps, so what its interval says is all there is. */
static void derive_geom(const struct regions *x, const struct region *e, struct geom *geom)
{
    const struct geom *of = &x->frame[e->frame].geom;
    uint64_t start = (e->start - of->base) / of->elem_bytes;
    uint64_t last = e->length / of->elem_bytes - 1; /* from its first element */
    uint32_t width = of->stride[0];

    *geom = *of;
    geom->lo = e->start;
    geom->hi = e->start + e->length;
    geom->rest = 0;
    memset(geom->shape, 0, sizeof(geom->shape));
    memset(geom->offset, 0, sizeof(geom->offset));
    geom->offset[0] = (uint32_t)(start / width);
    geom->offset[1] = (uint32_t)(start % width);
    geom->shape[0] = (uint32_t)(last / width) + 1;
    geom->shape[1] = (uint32_t)(last % width) + 1;
}

static void derive_shape(struct regions *x, struct region *e)
{
    derive_geom(x, e, &shape_of(x, e)->geom);
    e->level &= REGION_CLASS;
}

struct region_shape *region_shape(struct regions *x, struct region *e)
{
    if (e->kind == REGION_BOX && e->frame != 0 && (e->level & REGION_IS_DERIVED) != 0)
        derive_shape(x, e);
    return shape_of(x, e);
}

/* No record is where it was: what is known is of an epoch that has gone. */
static void forget_known(struct regions *x)
{
    x->known_epoch += 1ull << REGION_EPOCH_SHIFT;
    if (x->known_epoch >> (REGION_EPOCH_SHIFT + 16) != 0) {
        x->known_epoch = 0;
        memset(x->far->known, 0, sizeof(x->far->known));
    }
}

static_assert(sizeof(struct region) == 1 << REGION_BYTES_BITS, "a record is one line");

static void set_table_count(struct regions *x, uint32_t count)
{
    x->table_count = count;
    x->table_mask = (count - 1ull) << REGION_BYTES_BITS;
}

void regions_each_pool(struct regions *x,
                       void (*each)(struct pool *pool, uint64_t share, void *context),
                       void *context)
{
    each(&x->table_pool, 8, context);
    each(&x->table_shape_pool, 16, context);
    each(&x->overflow_pool, 8, context);
    each(&x->overflow_shape_pool, 16, context);
    each(&x->frame_pool, 4, context);
    each(&x->vector_pool, 16, context);
    each(&x->tree.pool, 16, context);
}

/* As many entries as the run before made use of, or up to eight times that. */
static uint32_t table_count_next(const struct regions *x)
{
    uint32_t count = x->table_count;

    if (count < REGION_TABLE_START)
        return REGION_TABLE_START;
    while (count > REGION_TABLE_START && x->touched_count < count / 8)
        count /= 2;
    return count < REGION_TABLE_KEPT ? count : REGION_TABLE_KEPT;
}

static uint32_t touched_words(const struct regions *x)
{
    return (x->table_count < REGION_TABLE_KEPT ? x->table_count : REGION_TABLE_KEPT) / 64;
}

/* A run with few regions does not pay for the whole table. */
static void clear_table(struct regions *x, bool is_same)
{
    for (uint32_t i = 0; i < touched_words(x) && is_same; i++)
        for (uint64_t bits = x->far->touched[i]; bits != 0; bits &= bits - 1)
            memset(&x->table[64 * i + (uint32_t)__builtin_ctzll(bits)], 0, sizeof(struct region));
    if (!is_same)
        memset(x->table, 0, x->table_count * sizeof(struct region));
    memset(x->far->touched, 0, touched_words(x) * sizeof(x->far->touched[0]));
    x->touched_count = 0;
}

int regions_start(struct regions *x, struct region_tables *far, const struct slot_info *info,
                  enum pto_deps deps)
{
    const struct region *table = x->table;
    uint32_t count = table_count_next(x);
    bool is_same;

    x->far = far;
    x->info = info;
    x->deps = deps;
    x->dead_before = x->ordered_from = 1;
    memset(x->quick, 0, sizeof(x->quick));
    x->table_pool.used = x->table_shape_pool.used = 0;
    x->overflow_pool.used = x->overflow_shape_pool.used = 0;
    x->frame_pool.used = x->vector_pool.used = 0;
    x->table = pool_take(&x->table_pool, count * sizeof(struct region));
    x->table_shape = pool_take(&x->table_shape_pool, count * sizeof(struct region_shape));
    x->overflow = pool_take(&x->overflow_pool, sizeof(struct region));
    x->overflow_shape = pool_take(&x->overflow_shape_pool, sizeof(struct region_shape));
    x->frame = pool_take(&x->frame_pool, sizeof(struct region_frame));
    if (x->table == NULL || x->table_shape == NULL || x->overflow == NULL ||
        x->overflow_shape == NULL || x->frame == NULL ||
        pool_take(&x->vector_pool, REGION_VECTOR_UNIT) == NULL)
        return PTO_ENOMEM;
    is_same = x->table == table && x->table_count == count;
    set_table_count(x, count);
    clear_table(x, is_same);
    memset(x->frame, 0, sizeof(struct region_frame)); /* none: it has no boxes */
    region_roughen(x->frame);
    x->tile_now = &x->frame->tile;
    x->overflow_count = 1;
    x->overflow_free = x->overflow_live = 0;
    x->frame_count = 1;
    x->frame_free = x->frame_pinned = 0;
    x->level_mask = 0;
    x->top = 0;
    x->has_versions = false;
    forget_known(x);
    memset(x->frame_cache, 0, sizeof(x->frame_cache));
    memset(x->level_count, 0, sizeof(x->level_count));
    memset(x->level_crossing, 0, sizeof(x->level_crossing));
    memset(x->vector_free, 0, sizeof(x->vector_free));
    x->is_indexed = x->is_short = false;
    x->leaf_count = x->serial = 0;
    x->frame_parked = x->parked_count = 0;
    x->filled = x->scan_next = 0;
    x->vain_cells = 0;
    if (x->has_joins)
        memset(x->far->join, 0, sizeof(x->far->join));
    x->has_joins = false;
    return region_tree_start(x) ? PTO_OK : PTO_ENOMEM;
}

/* A frame of which a contiguous tensor is likely to be a row; 0: none. */
static uint32_t frame_near(const struct regions *x, const struct pto_tensor *tensor)
{
    uint32_t frame = *region_frame_cache(x, tensor->addr, tensor->strides[0]);
    const struct geom *of = &x->frame[frame].geom;

    return of->base == tensor->addr && of->stride[0] == tensor->strides[0] ? frame : 0;
}

/*
 * A region that is recorded already, and overlaps others. For one that is read, the
 * latest reader stands for all before it if somebody has written since, who waited for
 * it; later readers wait for the same writers: docs/user/ordering.md.
 */
static void query_again(struct probe *p, struct region *e)
{
    struct region_shape *shape = shape_of(p->x, e);
    uint32_t since = p->since;
    uint32_t reader = region_latest_reader(p->x, e);

    e->last = p->t->seq; /* should it get a leaf meanwhile */
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

/* Finds or makes the record, and deals with whatever overlaps it. */
struct region *region_resolve(struct regions *x, struct slot *t, const struct pto_tensor *tensor,
                              uint32_t *access, int *status_out)
{
    struct geom geom;
    struct probe p;
    uint32_t level, bucket;
    struct region *e;

    x->seq = t->seq + 1;
    probe_init(&p, x, t, &geom, *access);
    if (x->deps == PTO_DEPS_SAFE) {
        geom_init_safe(&geom, tensor);
    } else {
        geom_init_simpler(&geom, tensor);
        p.salt = salt_of(&geom);
        x->has_versions = x->has_versions || geom.version != 0;
        if (geom.kind != REGION_BOX) /* only a box covers anything, itself included */
            *access = p.access &= ~(uint32_t)ACCESS_REPLACE;
    }
    if (geom.lo >= geom.hi)
        return NULL;
    if ((regions_are_crowded(x) && grow_table(x) < 0) || !region_tree_tidy(x)) {
        *status_out = PTO_ENOMEM;
        return NULL;
    }
    if (geom.kind == REGION_BOX && !tensor->is_contiguous) {
        p.own_frame = frame_of(&p, &geom, (p.access & ACCESS_RECORD) != 0);
        x->frame_pinned = p.own_frame;
    }
    if (p.own_frame != 0) {
        e = find_box(&p, &bucket, &level);
        p.class = level;
        p.bucket = bucket;
        region_note_box(&x->frame[p.own_frame], level, tensor, geom.shape);
    } else {
        x->frame_near = frame_near(x, tensor);
        level = region_level(geom.hi - geom.lo);
        bucket = region_bucket(x, p.salt, level, geom.lo >> level);
        e = find_exact(&p, bucket);
    }
    p.self = e;
    if (e != NULL && x->deps == PTO_DEPS_SAFE && e->writer.seq >= x->ordered_from)
        p.since = e->writer.seq; /* which waited for all that overlaps: docs/user/ordering.md */
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
        e = insert_record(&p, bucket, level);
        if (e == NULL || x->is_short)
            p.status = PTO_ENOMEM;
    }
    *status_out = p.status;
    if (p.status < 0 || e == NULL)
        return NULL;
    if ((p.access & ACCESS_RECORD) != 0) {
        if (p.is_tangled && (e->flags & REGION_TANGLED) == 0)
            region_forget_floor(shape_of(x, e));
        e->flags &= ~(uint32_t)REGION_TANGLED;
        if (p.is_tangled)
            e->flags |= REGION_TANGLED;
        if (p.is_tangled && (p.access & ACCESS_WRITE) == 0)
            region_want_join(x, t, shape_of(x, e));
    }
    return e;
}

/* Asks for the head of a bucket and what is beside it, before anybody has to wait for them. */
static inline void region_ask_for(const struct regions *x, uint32_t bucket)
{
    const char *shape = (const char *)&x->table_shape[bucket];

    __builtin_prefetch(&x->table[bucket], 1, 3);
    __builtin_prefetch(shape, 1, 3);
    __builtin_prefetch(shape + sizeof(struct region_shape) - 1, 1, 3);
}

/* The record of exactly this region, or NULL. Drops what is dead in its chain on the way. */
static struct region *find_exact(struct probe *p, uint32_t bucket)
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

static struct region *insert_record(struct probe *p, uint32_t bucket, uint32_t level)
{
    struct region *e = region_place(p->x, bucket);

    if (e != NULL)
        region_fill(p->x, e, p->geom, p->own_frame, level);
    return e;
}

void region_fill(struct regions *x, struct region *e, const struct geom *geom, uint32_t frame,
                 uint32_t level)
{
    struct region_frame *f = &x->frame[frame];
    struct region_shape *shape;
    uint32_t index;
    bool is_simple;

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
    if (frame == 0) {
        if ((geom->lo >> level) != ((geom->hi - 1) >> level)) {
            e->flags |= REGION_CROSSING;
            x->level_crossing[level]++;
        }
        x->level_count[level]++;
        x->level_mask |= 1ull << level;
    }
    if (geom->kind == REGION_CONTIGUOUS) {
        if (x->is_indexed)
            region_enter_tree(x, e, x->frame_near);
        return;
    }
    index = index_of(x, e);
    shape = shape_at(x, index);
    shape->geom = *geom;
    shape->known = 0;
    if (frame == 0) {
        if (x->is_indexed && geom->kind != REGION_FRAME)
            region_enter_tree(x, e, 0);
        return;
    }
    region_list_box(x, f, index, shape);
    f->class_of[level].count++;
    for (uint32_t d = 0; d < geom->ndims; d++) {
        uint32_t bits = f->class_of[level].level[d];

        if (geom->offset[d] >> bits != (geom->offset[d] + geom->shape[d] - 1) >> bits)
            f->class_of[level].is_crossing = 1;
    }
    is_simple = !f->is_spread && f->is_alone && f->class_of[level].count == f->population &&
                f->class_of[level].is_crossing == 0;
    if (!is_simple || f->simple != level)
        region_roughen(f); /* else what is known of its tiles holds for one more */
    if (f->is_spread) {
        region_enter_tree(x, e, 0);
        region_try_one_leaf(x, frame);
        return;
    }
    e->last = x->seq - 1; /* of the task that is being submitted, for its leaf */
    if (is_simple)
        f->simple = level;
    region_put_leaves(x, frame);
    if (geom->ndims == 2 && geom->stride[1] == 1 && geom->stride[0] > 1 &&
        f->class_of[level].level[0] < 31 && f->class_of[level].level[1] < 31) /* sums do not wrap */
        f->flat = f->simple;
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

/* Room in a bucket: its head if that is free or dead, else a place in the chain. */
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
    e->flags = 0; /* the pool's memory may have been a record of an earlier graph */
    e->next = x->table[bucket].next;
    x->table[bucket].next = index;
    return e;
}

/* The record leaves the index; one in a chain stays linked, unused, until its chain is walked. */
void region_remove(struct regions *x, struct region *e)
{
    uint32_t level = e->level;

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

/* ---- frames: grids for boxes ---- */

/* The class of the box's shape, made if there is room for another; class 0 takes the rest. */
static uint32_t class_of(struct region_frame *f, const struct geom *geom)
{
    uint8_t level[PTO_MAX_DIMS] = { 0 };
    uint32_t unused = 0;

    for (uint32_t d = 0; d < geom->ndims; d++)
        level[d] = (uint8_t)region_box_level(geom->shape[d]);
    for (uint32_t c = 1; c < REGION_CLASSES; c++) {
        if (f->class_of[c].count != 0 && memcmp(f->class_of[c].level, level, sizeof(level)) == 0)
            return c;
        if (f->class_of[c].count == 0 && unused == 0)
            unused = c;
    }
    if (unused != 0) {
        memcpy(f->class_of[unused].level, level, sizeof(level));
        for (uint32_t d = 0; d < geom->ndims; d++)
            f->class_of[unused].width[d] = (f->geom.shape[d] >> level[d]) + 1;
        f->class_of[unused].is_crossing = 0;
        region_roughen(f); /* there may have been boxes of the class, all gone */
    }
    return unused;
}

static uint32_t box_bucket(const struct regions *x, const struct geom *geom, uint32_t frame,
                           uint32_t class)
{
    const struct region_frame *f = &x->frame[frame];
    uint32_t cell[PTO_MAX_DIMS];

    for (uint32_t d = 0; d < geom->ndims; d++)
        cell[d] = geom->offset[d] >> f->class_of[class].level[d];
    return region_box_bucket(x, &f->class_of[class], cell, geom->ndims, geom->rest);
}

/* The record of this very box; where it would be if there is none. */
static struct region *find_box(struct probe *p, uint32_t *bucket_out, uint32_t *class_out)
{
    struct region_frame *f = &p->x->frame[p->own_frame];
    struct region *e;

    *class_out = class_of(f, p->geom);
    *bucket_out = box_bucket(p->x, p->geom, p->own_frame, *class_out);
    region_ask_for(p->x, *bucket_out);
    e = find_exact(p, *bucket_out);
    if (e == NULL && *class_out != 0 && f->class_of[0].count != 0)
        e = find_exact(p, box_bucket(p->x, p->geom, p->own_frame, 0));
    return e;
}

/* Of a frame's own record: by all that makes the frame. */
static uint32_t frame_bucket(const struct regions *x, const struct geom *geom)
{
    uint64_t key = geom->base + geom->ndims;

    for (uint32_t d = 0; d < geom->ndims; d++)
        key = (key ^ geom->stride[d]) * 0xff51afd7ed558ccdull;
    return region_cell_bucket(x, key >> 32);
}

/* The frame of a box: recently used, or known, or new. 0: none. */
static uint32_t frame_of(struct probe *p, const struct geom *geom, bool may_create)
{
    struct regions *x = p->x;
    uint32_t *cached = region_frame_cache(x, geom->base, geom->stride[0]);
    struct geom span = *geom;
    struct region_frame *f;
    struct probe q;
    struct region *e;
    uint32_t bucket, index;

    if (*cached != 0 && geom_same_frame(&x->frame[*cached].geom, geom) &&
        x->frame[*cached].geom.size == geom->size)
        return *cached;
    probe_init(&q, p->x, p->t, &span, 0);
    q.salt = p->salt;
    span.kind = REGION_FRAME;
    span.lo = p->x->deps == PTO_DEPS_SAFE ? geom->base : 0;
    span.hi = span.lo + geom->size;
    span.rest = 0;
    memset(span.shape, 0, sizeof(span.shape));
    memset(span.offset, 0, sizeof(span.offset));
    bucket = frame_bucket(x, &span);
    region_ask_for(x, bucket);
    e = find_exact(&q, bucket);
    if (e != NULL)
        return *cached = e->frame;
    if (!may_create || (x->frame_free == 0 && x->frame_count == REGION_FRAMES_MAX))
        return 0; /* a box without a frame is kept among the intervals */
    index = x->frame_free;
    if (index != 0) {
        x->frame_free = x->frame[index].next_free;
    } else {
        if (pool_take(&x->frame_pool, sizeof(struct region_frame)) == NULL) {
            p->status = PTO_ENOMEM;
            return 0;
        }
        index = x->frame_count++;
    }
    e = insert_record(&q, bucket, REGION_LEVEL_FRAME);
    if (e == NULL) {
        p->status = PTO_ENOMEM;
        return 0;
    }
    e->frame = (uint16_t)index;
    f = &x->frame[index];
    memset(f, 0, sizeof(*f));
    f->record = index_of(x, e);
    region_roughen(f);
    f->geom = *geom;
    f->is_used = true;
    for (uint32_t d = 1; d < geom->ndims; d++)
        f->geom.shape[d] = geom->stride[d - 1] / geom->stride[d];
    f->geom.shape[0] = UINT32_MAX;
    memcpy(f->class_of[0].width, f->geom.shape, sizeof(f->geom.shape));
    for (uint32_t c = 0; c < REGION_CLASSES; c++)
        f->class_of[c].salt = (uint64_t)(REGION_CLASSES * index + c) * 0x9e3779b97f4a7c15ull;
    return *cached = index;
}

/* A box of the frame, which is flat, was found or recorded: its like need not be taken apart. */
void region_note_tile(struct regions *x, const struct region *e, const struct pto_tensor *tensor)
{
    struct region_frame *f = &x->frame[e->frame];
    uint32_t class = e->level & REGION_CLASS;
    const struct region_class *c = &f->class_of[class];
    uint64_t start_max = f->geom.size / f->geom.elem_bytes - tensor->extent;
    uint64_t row_cell = 1ull << c->level[0];
    uint64_t column_cell = 1ull << c->level[1];

    if (tile_is_like(&f->tile, tensor))
        return;
    if (class != f->flat || tensor->strides[0] != f->geom.stride[0] ||
        tensor->strides[1] != f->geom.stride[1] || start_max > UINT32_MAX)
        return;
    f->tile = (struct region_tile){
        .common = { tensor->addr, tensor->size, tensor_word(tensor, TENSOR_FORM),
                    tensor_word(tensor, TENSOR_SHAPE), tensor->extent,
                    tensor_word(tensor, TENSOR_STRIDE) },
        .inverse = UINT64_MAX / tensor->strides[0] + 1, /* it is more than 1 */
        .start_max = start_max,
        .length = tensor->extent * f->geom.elem_bytes,
        .salt = c->salt,
        .row_mask = (uint32_t)(row_cell - 1),
        .row_slack = (uint32_t)(row_cell - tensor->shapes[0]),
        .column_mask = (uint32_t)(column_cell - 1),
        .column_slack = (uint32_t)(column_cell - tensor->shapes[1]),
        .column_max = tensor->strides[0] - tensor->shapes[1],
        .width = c->width[1],
        .state = (uint32_t)e->frame << 16 | REGION_BOX << REGION_KIND_SHIFT |
                 (class | REGION_IS_DERIVED) << REGION_LEVEL_SHIFT |
                 REGION_USED << REGION_FLAGS_SHIFT,
        .row_level = c->level[0],
        .column_level = c->level[1],
        .elem_log = (uint8_t)__builtin_ctz(f->geom.elem_bytes),
    };
}

/* ---- growth ---- */

/* Where each record is from now on; scratch memory while a table grows. */
struct moves {
    uint32_t *head;    /* by index in the table */
    uint32_t *chained; /* by index in the overflow array */
};

static uint32_t moved(const struct moves *m, uint32_t index)
{
    return index & OVERFLOW_BIT ? m->chained[index & ~OVERFLOW_BIT] : m->head[index];
}

/* Before the table grows, while indices still hold. */
static void drop_dead_records(struct regions *x)
{
    for (uint32_t i = 0; i < x->table_count + x->overflow_count; i++) {
        struct region *e = i < x->table_count ? &x->table[i] : &x->overflow[i - x->table_count];

        if (i == x->table_count || (e->flags & REGION_USED) == 0)
            continue;
        if (e->kind != REGION_FRAME && !region_is_alive(x, e))
            region_remove(x, e);
    }
}

/* The bucket of a record. */
static uint32_t bucket_of(const struct regions *x, const struct region *e,
                          const struct region_shape *shape)
{
    uint64_t salt = x->deps != PTO_DEPS_SAFE ? salt_of(&shape->geom) : 0;
    struct geom geom;

    if (e->kind == REGION_FRAME)
        return frame_bucket(x, &shape->geom);
    if (e->kind != REGION_BOX || e->frame == 0)
        return region_bucket(x, salt, e->level, e->start >> e->level);
    if ((e->level & REGION_IS_DERIVED) == 0)
        return box_bucket(x, &shape->geom, e->frame, e->level);
    derive_geom(x, e, &geom);
    return box_bucket(x, &geom, e->frame, e->level & REGION_CLASS);
}

/* Most intervals have nothing beside their record, and then take no memory for it. */
static void move_shape(const struct regions *x, const struct region *e, struct region_shape *to,
                       const struct region_shape *from)
{
    if (e->kind != REGION_CONTIGUOUS || x->is_indexed || (e->flags & REGION_TANGLED) != 0)
        *to = *from;
}

/* The first record of a bucket that was split stays, or goes to the other one. */
static void move_head(struct regions *x, uint32_t index, struct moves *m)
{
    struct region *e = &x->table[index];
    uint32_t bucket = bucket_of(x, e, &x->table_shape[index]);

    e->next = 0;
    region_touch(x, &x->table[bucket]);
    if (bucket == index)
        return;
    port_assert(bucket == index + x->table_count / 2);
    move_shape(x, e, &x->table_shape[bucket], &x->table_shape[index]);
    x->table[bucket] = *e;
    *e = (struct region){ 0 };
    m->head[index] = bucket;
}

/* The same for one in its chain, which becomes a head if there is none yet. */
static void move_chained(struct regions *x, uint32_t index, struct moves *m)
{
    struct region *e = &x->overflow[index];
    uint32_t bucket = bucket_of(x, e, &x->overflow_shape[index]);
    struct region *to = &x->table[bucket];

    if ((to->flags & REGION_USED) != 0) {
        e->next = to->next;
        to->next = index;
        m->chained[index] = index | OVERFLOW_BIT;
        return;
    }
    move_shape(x, e, &x->table_shape[bucket], &x->overflow_shape[index]);
    *to = *e;
    to->next = 0;
    m->chained[index] = bucket;
    e->flags = 0;
    region_touch(x, to);
}

static void free_chained(struct regions *x, uint32_t index)
{
    x->overflow[index].next = x->overflow_free;
    x->overflow_free = index;
    x->overflow_live--;
}

/* Each bucket becomes two: itself, and one in the new half. */
static void split_buckets(struct regions *x, uint32_t count, struct moves *m)
{
    memset(&x->table[count], 0, count * sizeof(struct region));
    for (uint32_t b = 0; b < count; b++) {
        uint32_t index = x->table[b].next;

        if ((x->table[b].flags & REGION_USED) != 0)
            move_head(x, b, m);
        else
            x->table[b] = (struct region){ 0 };
        while (index != 0) {
            uint32_t next = x->overflow[index].next;

            if ((x->overflow[index].flags & REGION_USED) != 0)
                move_chained(x, index, m);
            if ((x->overflow[index].flags & REGION_USED) == 0)
                free_chained(x, index);
            index = next;
        }
    }
}

/* The lists of the frames' boxes, in the order in which they lie there, and where their own records are. */
static void follow_moves(struct regions *x, const struct moves *m)
{
    for (uint32_t f = 1; f < x->frame_count; f++) {
        struct region_frame *frame = &x->frame[f];

        if (frame->is_used)
            frame->record = moved(m, frame->record);
        if (frame->is_used && frame->population != 0)
            frame->first = moved(m, frame->first - 1) + 1;
    }
    for (uint32_t i = 0; x->frame_count > 1 && i < x->table_count + x->overflow_count; i++) {
        bool is_head = i < x->table_count;
        uint32_t index = is_head ? i : i - x->table_count;
        const struct region *e = is_head ? &x->table[index] : &x->overflow[index];
        struct region_shape *shape = is_head ? &x->table_shape[index] : &x->overflow_shape[index];

        if (i == x->table_count || (e->flags & REGION_USED) == 0 || e->kind != REGION_BOX ||
            e->frame == 0)
            continue;
        if (shape->frame_prev != 0)
            shape->frame_prev = moved(m, shape->frame_prev - 1) + 1;
        if (shape->frame_next != 0)
            shape->frame_next = moved(m, shape->frame_next - 1) + 1;
    }
}

/* Doubles the table, which is all that lies in its pool, and drops what has gone. */
static int grow_table(struct regions *x)
{
    uint32_t count = x->table_count;
    uint64_t scratch = ((uint64_t)count + x->overflow_count) * sizeof(uint32_t);
    struct region *more = pool_take(&x->table_pool, count * sizeof(struct region));
    void *more_shape = pool_take(&x->table_shape_pool, count * sizeof(struct region_shape));
    uint32_t *memory = pool_take(&x->table_pool, scratch);
    struct moves m = { memory, memory + count };

    if (more == NULL || more_shape == NULL || memory == NULL)
        return PTO_ENOMEM;
    port_assert(more == x->table + count);
    drop_dead_records(x);
    forget_known(x);
    for (uint32_t i = 0; i < count; i++)
        m.head[i] = i;
    for (uint32_t i = 0; i < x->overflow_count; i++)
        m.chained[i] = i | OVERFLOW_BIT;
    set_table_count(x, 2 * count);
    memset(x->far->touched, 0, touched_words(x) * sizeof(x->far->touched[0]));
    x->touched_count = 0;
    split_buckets(x, count, &m);
    follow_moves(x, &m);
    region_tree_follow(x, m.head, m.chained);
    x->table_pool.used -= scratch;
    return PTO_OK;
}
