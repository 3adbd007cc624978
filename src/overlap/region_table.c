/* SPDX-License-Identifier: Apache-2.0 */
/* The table of records: how it is set up for a run, and how it grows. */
#include <string.h>

#include "overlap/access.h"
#include "overlap/region_probe.h"

static_assert(sizeof(struct region) == 1 << REGION_BYTES_BITS, "a record must fill one cache line");

/* Invalidates all entries of `known` by starting a new epoch, because their records have moved. */
static void forget_known(struct regions *x)
{
    x->known_epoch += 1ull << REGION_EPOCH_SHIFT;
    if (x->known_epoch >> (REGION_EPOCH_SHIFT + 16) != 0) {
        x->known_epoch = 0;
        memset(x->side_tables->known, 0, sizeof(x->side_tables->known));
    }
}

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

/*
 * Size of the table for a new run, in entries: between one and eight times the number that the
 * previous run used, within the limits.
 */
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

/*
 * Clears the table for a new run. If the table has the address and size of the previous run's, only
 * entries that were used are cleared, so that short runs do not pay for a large table.
 */
static void clear_table(struct regions *x, bool is_same)
{
    for (uint32_t i = 0; i < touched_words(x) && is_same; i++)
        for (uint64_t bits = x->side_tables->touched[i]; bits != 0; bits &= bits - 1)
            memset(&x->table[64 * i + (uint32_t)__builtin_ctzll(bits)], 0, sizeof(struct region));
    if (!is_same)
        memset(x->table, 0, x->table_count * sizeof(struct region));
    memset(x->side_tables->touched, 0, touched_words(x) * sizeof(x->side_tables->touched[0]));
    x->touched_count = 0;
}

int regions_start(struct regions *x, struct region_tables *side_tables,
                  const struct slot_info *info, enum pto_deps deps)
{
    const struct region *table = x->table;
    uint32_t count = table_count_next(x);
    bool is_same;

    x->side_tables = side_tables;
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
    /* frame 0 means "no frame" and has no boxes */
    memset(x->frame, 0, sizeof(struct region_frame));
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
        memset(x->side_tables->join, 0, sizeof(x->side_tables->join));
    x->has_joins = false;
    return region_tree_start(x) ? PTO_OK : PTO_ENOMEM;
}

/* ---- growth ---- */

/* New index of each record while the table grows; the arrays are in scratch memory. */
struct moves {
    uint32_t *head;    /* new index, by old index in the table */
    uint32_t *chained; /* new index, by old index in the overflow array */
};

static uint32_t moved(const struct moves *m, uint32_t index)
{
    return index & OVERFLOW_BIT ? m->chained[index & ~OVERFLOW_BIT] : m->head[index];
}

/* Removes records of completed tasks before the table grows, while indices are still valid. */
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

/* Returns the bucket where a record belongs in a table of the current size. */
static uint32_t home_of(const struct regions *x, const struct region *e,
                        const struct region_shape *shape)
{
    uint64_t salt = x->deps != PTO_DEPS_SAFE ? salt_of(&shape->geom) : 0;
    struct geom geom;

    if (e->kind == REGION_FRAME)
        return region_bucket_of_frame(x, &shape->geom);
    if (e->kind != REGION_BOX || e->frame == 0)
        return region_bucket(x, salt, e->level, e->start >> e->level);
    if ((e->level & REGION_IS_DERIVED) == 0)
        return region_bucket_of_box(x, &shape->geom, e->frame, e->level);
    region_derive_geom(x, e, &geom);
    return region_bucket_of_box(x, &geom, e->frame, e->level & REGION_CLASS);
}

/*
 * Copies the struct region_shape of a record that moves. An untangled interval without a leaf has
 * none.
 */
static void move_shape(const struct regions *x, const struct region *e, struct region_shape *to,
                       const struct region_shape *from)
{
    if (e->kind != REGION_CONTIGUOUS || x->is_indexed || (e->flags & REGION_TANGLED) != 0)
        *to = *from;
}

/* When a bucket is split, moves its first record to the new half if it belongs there. */
static void move_head(struct regions *x, uint32_t index, struct moves *m)
{
    struct region *e = &x->table[index];
    uint32_t bucket = home_of(x, e, &x->table_shape[index]);

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

/*
 * Like move_head, for a record in the overflow chain. The record becomes the first of its bucket if
 * the bucket has none yet.
 */
static void move_chained(struct regions *x, uint32_t index, struct moves *m)
{
    struct region *e = &x->overflow[index];
    uint32_t bucket = home_of(x, e, &x->overflow_shape[index]);
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

/* Splits each bucket of the table into two: itself, and one in the new half of the table. */
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

/* Updates the indices of records in the frames: each frame's own record and its list of boxes. */
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

int regions_grow(struct regions *x)
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
    memset(x->side_tables->touched, 0, touched_words(x) * sizeof(x->side_tables->touched[0]));
    x->touched_count = 0;
    split_buckets(x, count, &m);
    follow_moves(x, &m);
    region_tree_follow(x, m.head, m.chained);
    x->table_pool.used -= scratch;
    return PTO_OK;
}
