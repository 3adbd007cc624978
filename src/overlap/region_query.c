/* SPDX-License-Identifier: Apache-2.0 */
/* Finds all records that overlap a region, with the grids of intervals and the tree. */
#include <string.h>

#include "overlap/region_probe.h"

enum {
    /*
     * intervals are also kept in the tree after this many visits of cells that had no record, plus
     * four per record
     */
    VAIN_CELLS_MAX = 1024,
    /* the tree is rebuilt when it has more stale leaves than this, plus three per valid leaf */
    STALE_LEAVES_MAX = 64,
    PARKED_FRAMES_MAX = 64,
    /*
     * maximum number of cells visited to check that a frame is alone in its buffer; if it spans
     * more cells, all records are scanned
     */
    ALONE_STEPS = 256,
    /* number of new boxes of a frame after which region_try_one_leaf checks the frame again */
    ALONE_WAIT = 32,
    SCAN_SHARE = 16, /* has_intervals scans all records again after 1/16 as many new ones */
};

static void visit_record(struct probe *p, struct region *e);
static bool visit_leaf(struct tree_probe *tree, uint32_t leaf, uint32_t serial);
static void visit_bucket(struct probe *p, uint32_t bucket);
static void visit_boxes(struct probe *p, uint32_t frame);
static bool query_intervals(struct probe *p);
static void query_everything(struct probe *p);
static void put_in_terms(void *context, uint32_t frame, struct tree_bounds *b);
static void box_bounds(const struct geom *geom, uint32_t frame, struct tree_bounds *b);
static void spread(struct regions *x, uint32_t frame);
static void index_intervals(struct regions *x);
static bool query_is_alone(struct regions *x, uint32_t frame);

/* ---- the query ---- */

/*
 * Number that is added to a region's bounds in the tree. Under simpler's rules bounds count
 * elements from the start of a buffer, so the buffer's address is added, which keeps the bounds of
 * different buffers apart.
 */
static uint64_t tree_shift(const struct regions *x, const struct geom *geom)
{
    return x->deps == PTO_DEPS_SAFE ? 0 : geom->base;
}

static void query_tree(struct probe *p)
{
    struct tree_bounds *b = &p->tree.bounds;
    uint64_t shift = tree_shift(p->x, p->geom);

    b->lo = p->geom->lo + shift;
    b->hi = p->geom->hi + shift;
    b->frame = p->geom->kind == REGION_CONTIGUOUS ? TREE_PLAIN : TREE_LOOSE;
    b->dims = 0;
    if (p->own_frame != 0)
        box_bounds(p->geom, p->own_frame, b);
    p->tree.since = (p->access & ACCESS_WRITE) == 0 ? p->since : 0;
    p->tree.visit = visit_leaf;
    region_tree_search(&p->x->tree, &p->tree);
    p->is_tangled = p->is_tangled || p->tree.is_skipped;
}

/*
 * Whether the box lies in one cell, as all boxes of a simple frame do (struct region_frame); then
 * only boxes in that cell can overlap it.
 */
static bool is_like_others(const struct probe *p)
{
    const struct region_frame *f = &p->x->frame[p->own_frame];
    const struct region_class *class = &f->class_of[f->simple];
    uint32_t crossed = 0;

    for (uint32_t d = 0; d < p->geom->ndims; d++)
        crossed |= p->geom->offset[d] >> class->level[d] ^
                   (p->geom->offset[d] + p->geom->shape[d] - 1) >> class->level[d];
    return f->simple != 0 && f->simple == p->class && crossed == 0;
}

void region_query(struct probe *p)
{
    struct regions *x = p->x;
    const struct region_frame *own = &x->frame[p->own_frame];

    port_check(p->t != NULL || (p->access & (ACCESS_RECORD | ACCESS_LOOKUP)) == 0);
    port_check(own->population == 0 || own->has_leaf != own->is_spread);
    if (x->has_versions) {
        query_everything(p);
        return;
    }
    if (p->own_frame != 0 && own->population != 0 && !own->is_spread) {
        if (is_like_others(p)) {
            visit_bucket(p, p->bucket);
            return;
        }
        spread(p->x, p->own_frame);
    }
    if (!x->is_indexed && !query_intervals(p))
        index_intervals(p->x);
    query_tree(p);
    for (uint32_t f = 1; p->has_all_frames && f < x->frame_count; f++)
        if (x->frame[f].is_used && x->frame[f].has_leaf && f != p->own_frame)
            visit_boxes(p, f);
    for (uint32_t i = 0; i < p->frame_count && !p->has_all_frames; i++)
        visit_boxes(p, p->frame[i]);
    if (x->is_short)
        p->status = PTO_ENOMEM;
}

/*
 * Visits the boxes of the only cell of a frame that the region touches. False: the frame is not
 * simple, or the region touches several cells.
 */
static bool visit_cell(struct probe *p, uint32_t frame)
{
    const struct region_frame *f = &p->x->frame[frame];
    const struct region_class *class = &f->class_of[f->simple];
    struct tree_bounds b = p->tree.bounds;
    uint32_t cell[PTO_MAX_DIMS];

    put_in_terms(p->x, frame, &b);
    if (f->simple == 0 || (b.dims > f->geom.ndims && b.min[f->geom.ndims] != b.max[f->geom.ndims]))
        return false;
    for (uint32_t d = 0; d < f->geom.ndims; d++) {
        cell[d] = b.min[d] >> class->level[d];
        if (cell[d] != b.max[d] >> class->level[d])
            return false;
    }
    visit_bucket(p, region_box_bucket(p->x, class, cell, f->geom.ndims,
                                      b.dims > f->geom.ndims ? b.min[f->geom.ndims] : 0));
    return true;
}

/*
 * Visits the boxes of a frame that the region touches. From now on each of these boxes has its own
 * leaf in the tree.
 */
static void visit_boxes(struct probe *p, uint32_t frame)
{
    struct regions *x = p->x;

    if (p->t == NULL && visit_cell(p, frame))
        return;
    spread(p->x, frame);
    for (uint32_t index = x->frame[frame].first; index != 0;) {
        struct region *e = record_at(x, index - 1);

        index = shape_at(x, index - 1)->frame_next;
        visit_record(p, e);
    }
}

static void note_frame(struct probe *p, uint32_t frame)
{
    if (frame == p->own_frame)
        return;
    if (p->frame_count == PROBE_FRAMES)
        p->has_all_frames = true;
    else
        p->frame[p->frame_count++] = frame;
}

/*
 * Visits a record that may overlap the region: if it does, makes the task wait for its conflicting
 * tasks.
 */
static void visit_record(struct probe *p, struct region *e)
{
    struct regions *x = p->x;
    struct geom interval;
    const struct geom *other;
    enum overlap o;

    if (e == p->self || (e->flags & REGION_USED) == 0 || p->status < 0 || e->kind == REGION_FRAME)
        return;
    if (!x->has_versions && (e->start >= p->geom->hi || e->start + e->length <= p->geom->lo))
        return;
    p->met += e->last >= p->since;
    if (!region_is_alive(p->x, e)) {
        region_remove(p->x, e);
        return;
    }
    if (p->x->deps == PTO_DEPS_SAFE) {
        if (e->kind == REGION_CONTIGUOUS) {
            interval.kind = REGION_CONTIGUOUS;
            interval.lo = e->start;
            interval.hi = e->start + e->length;
            other = &interval;
        } else {
            other = &region_shape(x, e)->geom;
        }
        o = overlap_safe(p->geom, other);
    } else {
        o = overlap_simpler(p->geom, &shape_of(x, e)->geom);
    }
    if (o == OVERLAP_NONE)
        return;
    if (p->t == NULL) {
        struct ref user = region_latest_user(p->x, e, (p->access & ACCESS_WRITE) != 0);

        if (user.seq > p->user.seq)
            p->user = user;
        return;
    }
    if ((p->access & ACCESS_WRITE) != 0 && o != OVERLAP_COVERS && e->vector != 0)
        p->status = region_join_readers(p->x, p->t, e) < 0 ? PTO_ENOMEM : PTO_OK;
    if (p->reader != 0)
        p->has_newer = p->has_newer || region_has_writer_since(x, e, p->reader + 1);
    if ((p->access & ACCESS_LOOKUP) != 0 && p->status >= 0)
        p->status = region_wait(p->x, p->t, e, p->access, p->since) < 0 ? PTO_ENOMEM : PTO_OK;
    if (o == OVERLAP_COVERS && (p->access & ACCESS_REPLACE) != 0) {
        region_remove(p->x, e);
        return;
    }
    if ((p->access & ACCESS_RECORD) != 0 || p->is_joined) {
        p->is_tangled = true;
        if ((e->flags & REGION_TANGLED) == 0)
            region_forget_floor(shape_of(x, e));
        e->flags |= REGION_TANGLED;
        if (e->kind == REGION_BOX && e->frame != 0)
            region_forget_known(x, shape_of(x, e), e);
    }
}

/* Whether a leaf of the tree still belongs to the record for which it was made. */
static inline bool is_leaf_of(const struct region *e, const struct region_shape *shape,
                              uint32_t serial)
{
    return (e->flags & REGION_USED) != 0 && shape->serial == serial;
}

static bool visit_leaf(struct tree_probe *tree, uint32_t leaf, uint32_t serial)
{
    struct probe *p = (struct probe *)tree;
    struct region *e = record_at(p->x, leaf);

    if (!is_leaf_of(e, shape_at(p->x, leaf), serial))
        return false;
    if (e->kind == REGION_FRAME)
        note_frame(p, e->frame);
    else
        visit_record(p, e);
    tree->is_over = p->status < 0;
    return (e->flags & REGION_USED) != 0;
}

/*
 * Visits, in each grid, the cells in which a region that overlaps this one can start. False: there
 * are too many cells for the number of records.
 */
static bool query_intervals(struct probe *p)
{
    struct regions *x = p->x;
    uint64_t levels = x->level_mask & ~(1ull << REGION_LEVEL_FRAME);
    uint64_t cells = 0, records = 0;

    for (uint64_t mask = levels; mask != 0; mask &= mask - 1) {
        uint32_t level = (uint32_t)__builtin_ctzll(mask);

        cells += ((p->geom->hi - 1) >> level) - (p->geom->lo >> level) + 1;
        records += x->level_count[level];
    }
    if (cells > VAIN_CELLS_MAX + 4 * records || x->vain_cells > VAIN_CELLS_MAX + 4 * records)
        return false;
    for (uint64_t mask = levels; mask != 0; mask &= mask - 1) {
        uint32_t level = (uint32_t)__builtin_ctzll(mask);
        uint64_t first = p->geom->lo >> level;
        uint64_t last = (p->geom->hi - 1) >> level;

        if (x->level_crossing[level] != 0 && first > 0)
            first--;
        for (uint64_t cell = first; cell <= last; cell++)
            visit_bucket(p, region_bucket(x, p->salt, level, cell));
    }
    if (cells > 8 + 2 * (uint64_t)p->met)
        x->vain_cells += cells - p->met;
    return true;
}

/*
 * Visits all records, which is slow. Only tensors whose `version` is not 0 need it, which exist
 * under simpler's rules and are rare: they also conflict with lower versions of their buffer that
 * they do not overlap.
 */
static void query_everything(struct probe *p)
{
    for (uint32_t b = 0; b < p->x->table_count; b++)
        visit_bucket(p, b);
}

static void visit_bucket(struct probe *p, uint32_t bucket)
{
    struct regions *x = p->x;
    struct region *head = &x->table[bucket];
    uint32_t *link = &head->next;

    visit_record(p, head);
    while (*link != 0) {
        uint32_t index = *link;
        struct region *e = &x->overflow[index];

        visit_record(p, e);
        if ((e->flags & REGION_USED) == 0) {
            *link = e->next;
            e->next = x->overflow_free;
            x->overflow_free = index;
            x->overflow_live--;
        } else {
            link = &e->next;
        }
    }
}

struct ref region_find_user(struct regions *x, const struct pto_tensor *element, bool with_readers)
{
    struct geom geom;
    struct probe p;

    geom_init_safe(&geom, element);
    probe_init(&p, x, NULL, &geom, with_readers ? ACCESS_WRITE : 0);
    region_query(&p);
    return p.user;
}

/* ---- leaves ---- */

/*
 * Number of index ranges for boxes of a frame: one per dimension, and one for the remainder of the
 * start if boxes can have one.
 */
static uint32_t frame_dims(const struct geom *geom)
{
    return geom->ndims + (geom->stride[geom->ndims - 1] != 1);
}

static uint32_t clamp(uint64_t value)
{
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

/*
 * Converts the bounds of an interval to ranges of indices in a frame. For a contiguous region
 * (TREE_PLAIN) the ranges are exact. For other regions, of which only the enclosing interval
 * counts, only the range of the first index is limited.
 */
static void put_in_terms(void *context, uint32_t frame, struct tree_bounds *b)
{
    const struct regions *x = context;
    const struct geom *of = &x->frame[frame].geom;
    bool is_exact = b->frame == TREE_PLAIN;
    uint64_t first = b->lo > of->base ? b->lo - of->base : 0;
    uint64_t last = b->hi - 1 > of->base ? b->hi - 1 - of->base : 0;
    uint32_t d = 0;

    if (x->deps == PTO_DEPS_SAFE) {
        first /= of->elem_bytes;
        last /= of->elem_bytes;
    }
    b->frame = frame;
    b->dims = frame_dims(of);
    for (bool is_one = true; d < b->dims && is_one; d++) {
        uint32_t stride = d < of->ndims ? of->stride[d] : 1;
        uint64_t at = first / stride, end = last / stride;

        b->min[d] = clamp(at);
        b->max[d] = clamp(end);
        is_one = at == end && is_exact;
        first -= at * stride;
        last -= end * stride;
    }
    /* the interval spans several rows: any index in the inner dimensions */
    for (; d < b->dims; d++) {
        b->min[d] = 0;
        b->max[d] = UINT32_MAX;
    }
}

static void box_bounds(const struct geom *geom, uint32_t frame, struct tree_bounds *b)
{
    b->frame = frame;
    b->dims = frame_dims(geom);
    for (uint32_t d = 0; d < geom->ndims; d++) {
        b->min[d] = geom->offset[d];
        b->max[d] = clamp((uint64_t)geom->offset[d] + geom->shape[d] - 1);
    }
    if (b->dims != geom->ndims)
        b->min[geom->ndims] = b->max[geom->ndims] = geom->rest;
}

static bool has_leaf(const struct regions *x, const struct region *e)
{
    if (e->kind == REGION_FRAME)
        return x->frame[e->frame].has_leaf;
    if (e->kind == REGION_BOX && e->frame != 0)
        return x->frame[e->frame].is_spread;
    return x->is_indexed;
}

/*
 * Computes the bounds of a record's leaf in the tree; `last` is the number of the latest task that
 * accessed the region.
 */
static void record_bounds(struct regions *x, struct region *e, uint32_t last, struct tree_bounds *b)
{
    struct region_shape *shape = region_shape(x, e);

    b->lo = e->start;
    if (x->deps != PTO_DEPS_SAFE)
        b->lo += shape->geom.base;
    b->hi = b->lo + e->length;
    /*
     * accesses to a frame's boxes do not update the frame's leaf, so treat it as accessed by the
     * latest task
     */
    b->last = e->kind == REGION_FRAME ? UINT32_MAX : last;
    b->frame = e->kind == REGION_CONTIGUOUS ? TREE_PLAIN : TREE_LOOSE;
    b->dims = 0;
    if (e->kind == REGION_BOX && e->frame != 0)
        box_bounds(&shape->geom, e->frame, b);
}

void region_touch_leaf(struct regions *x, struct region *e)
{
    struct tree_bounds b;

    if (!has_leaf(x, e))
        return;
    record_bounds(x, e, x->seq, &b);
    region_tree_touch(&x->tree, &b, index_of(x, e));
}

/*
 * Adds a leaf to the tree for a record. If `near` is not 0, the leaf of an interval also gets its
 * indices in that frame.
 */
static void enter_tree(struct regions *x, struct region *e, uint32_t last, uint32_t near)
{
    struct region_shape *shape = region_shape(x, e);
    struct tree_bounds b;

    record_bounds(x, e, last, &b);
    if (near != 0 && b.frame == TREE_PLAIN)
        put_in_terms(x, near, &b);
    if (++x->serial == 0)
        x->serial = 1;
    shape->serial = x->serial;
    x->leaf_count++;
    if (!region_tree_insert(&x->tree, &b, index_of(x, e), x->serial))
        x->is_short = true;
}

void region_enter_tree(struct regions *x, struct region *e, uint32_t near)
{
    enter_tree(x, e, x->seq, near);
}

void region_leave_tree(struct regions *x, struct region *e)
{
    if (has_leaf(x, e)) {
        port_check(x->leaf_count != 0);
        shape_of(x, e)->serial = 0;
        x->leaf_count--;
    }
}

bool region_tree_start(struct regions *x)
{
    x->tree.convert = put_in_terms;
    x->tree.context = x;
    return region_tree_clear(&x->tree);
}

static void drop_frame_leaf(struct regions *x, struct region_frame *f)
{
    if (f->has_leaf)
        region_leave_tree(x, record_at(x, f->record));
    f->has_leaf = false;
}

/* Replaces the leaf that stands for all boxes of a frame by one leaf for each box. */
static void spread(struct regions *x, uint32_t frame)
{
    struct region_frame *f = &x->frame[frame];

    if (f->is_spread)
        return;
    drop_frame_leaf(x, f);
    region_roughen(f);
    f->is_alone = false;
    f->is_spread = true;
    f->look_wait = ALONE_WAIT + f->population;
    for (uint32_t index = f->first; index != 0; index = shape_at(x, index - 1)->frame_next)
        enter_tree(x, record_at(x, index - 1), record_at(x, index - 1)->last, 0);
}

void region_put_leaves(struct regions *x, uint32_t frame)
{
    struct region_frame *f = &x->frame[frame];

    if (f->simple == 0) {
        spread(x, frame);
    } else if (!f->has_leaf) {
        f->has_leaf = true;
        region_enter_tree(x, record_at(x, f->record), 0);
    }
}

void region_try_one_leaf(struct regions *x, uint32_t frame)
{
    struct region_frame *f = &x->frame[frame];
    uint32_t class = f->class;

    if (f->look_wait-- != 0)
        return;
    f->look_wait = ALONE_WAIT + f->population;
    if (class == 0 || f->class_of[class].count != f->population ||
        f->class_of[class].is_crossing != 0 || x->deps != PTO_DEPS_SAFE ||
        !query_is_alone(x, frame))
        return;
    for (uint32_t index = f->first; index != 0; index = shape_at(x, index - 1)->frame_next)
        region_leave_tree(x, record_at(x, index - 1));
    f->is_spread = false;
    f->is_alone = true;
    f->simple = class;
    region_put_leaves(x, frame);
}

/* Calls `each` for every record that is in use. */
static void each_record(struct regions *x, void (*each)(struct regions *x, struct region *e))
{
    for (uint32_t i = 0; i < x->table_count; i++)
        if (region_is_touched(x, i) && (x->table[i].flags & REGION_USED) != 0)
            each(x, &x->table[i]);
    for (uint32_t i = 1; i < x->overflow_count; i++)
        if ((x->overflow[i].flags & REGION_USED) != 0)
            each(x, &x->overflow[i]);
}

static bool query_is_interval(const struct region *e)
{
    return e->kind != REGION_FRAME && (e->kind != REGION_BOX || e->frame == 0);
}

static void enter_interval(struct regions *x, struct region *e)
{
    if (query_is_interval(e))
        enter_tree(x, e, e->last, 0);
}

/* Adds all intervals to the tree. From now on every interval has a leaf. */
static void index_intervals(struct regions *x)
{
    x->is_indexed = true;
    each_record(x, enter_interval);
}

static void enter_again(struct regions *x, struct region *e)
{
    if (has_leaf(x, e))
        enter_tree(x, e, e->last, 0);
}

bool region_tree_tidy(struct regions *x)
{
    if (x->tree.leaves <= 4 * x->leaf_count + STALE_LEAVES_MAX &&
        x->parked_count <= PARKED_FRAMES_MAX + x->leaf_count / 4)
        return !x->is_short;
    if (!region_tree_clear(&x->tree))
        return false;
    x->leaf_count = 0;
    each_record(x, enter_again);
    /*
     * free the frames that lost all boxes: only stale leaves could still name them, and the rebuilt
     * tree has none.
     */
    while (x->frame_parked != 0) {
        uint32_t frame = x->frame_parked;

        x->frame_parked = x->frame[frame].next_free;
        x->frame[frame].next_free = x->frame_free;
        x->frame_free = frame;
    }
    x->parked_count = 0;
    return !x->is_short;
}

/* Where each record is after the table has grown: its new index. */
struct new_places {
    const struct regions *x;
    const uint32_t *head;
    const uint32_t *chained;
};

static bool find_moved(void *context, uint32_t *leaf, uint32_t serial)
{
    const struct new_places *now = context;
    uint32_t index = *leaf & OVERFLOW_BIT ? now->chained[*leaf & ~OVERFLOW_BIT] : now->head[*leaf];
    const struct region *e = record_at(now->x, index);

    *leaf = index;
    return has_leaf(now->x, e) && is_leaf_of(e, shape_at(now->x, index), serial);
}

void region_tree_follow(struct regions *x, const uint32_t *head, const uint32_t *chained)
{
    struct new_places places = { x, head, chained };

    region_tree_renumber(&x->tree, find_moved, &places);
}

/* ---- whether a frame is alone in its buffer ---- */

/*
 * Whether `e` overlaps the frame's buffer, has live tasks, and does not belong to the frame.
 * Removes `e` if its tasks have completed.
 */
static bool is_intruder(struct regions *x, uint32_t frame, struct region *e)
{
    const struct geom *of = &x->frame[frame].geom;

    if ((e->flags & REGION_USED) == 0 || e->frame == frame || e->start >= of->base + of->size ||
        e->start + e->length <= of->base)
        return false;
    if (region_is_alive(x, e))
        return true;
    if (e->kind == REGION_FRAME)
        /* if that frame gets boxes again, check again whether it is alone in its buffer */
        x->frame[e->frame].is_alone = false;
    else
        /*
         * an access could use the record again without visiting the boxes of `frame`, so remove it
         */
        region_remove(x, e);
    return false;
}

static bool visit_neighbour(struct tree_probe *tree, uint32_t leaf, uint32_t serial)
{
    struct probe *p = (struct probe *)tree;
    struct region *e = record_at(p->x, leaf);

    if (!is_leaf_of(e, shape_at(p->x, leaf), serial))
        return false;
    tree->is_over = is_intruder(p->x, p->own_frame, e);
    return (e->flags & REGION_USED) != 0;
}

/*
 * Whether an interval overlaps the frame's buffer. Also true if it would take too long to find out.
 */
static bool has_intervals(struct regions *x, uint32_t frame)
{
    const struct geom *of = &x->frame[frame].geom;
    uint32_t records = x->table_count + x->overflow_count;
    uint64_t levels = x->level_mask & ~(1ull << REGION_LEVEL_FRAME);
    uint64_t cells = 0;

    for (uint64_t mask = levels; mask != 0; mask &= mask - 1) {
        uint32_t level = (uint32_t)__builtin_ctzll(mask);

        cells += ((of->base + of->size - 1) >> level) - (of->base >> level) + 2;
    }
    if (cells > ALONE_STEPS) {
        if (x->filled < x->scan_next)
            return true; /* assume that there is such an interval */
        x->scan_next = x->filled + records / SCAN_SHARE;
        for (uint32_t i = 0; i < records; i++)
            if (i != x->table_count &&
                is_intruder(x, frame,
                            i < x->table_count ? &x->table[i] : &x->overflow[i - x->table_count]))
                return true;
        return false;
    }
    for (uint64_t mask = levels; mask != 0; mask &= mask - 1) {
        uint32_t level = (uint32_t)__builtin_ctzll(mask);
        uint64_t first = of->base >> level, last = (of->base + of->size - 1) >> level;

        for (uint64_t cell = first > 0 ? first - 1 : 0; cell <= last; cell++)
            for (struct region *e = &x->table[region_bucket(x, 0, level, cell)];;
                 e = &x->overflow[e->next]) {
                if (is_intruder(x, frame, e))
                    return true;
                if (e->next == 0)
                    break;
            }
    }
    return false;
}

/*
 * Whether no record with live tasks overlaps the frame's buffer, except those of the frame. A later
 * access to any other region in that buffer finds the leaf that stands for all boxes, and replaces
 * it by one for each box.
 */
static bool query_is_alone(struct regions *x, uint32_t frame)
{
    const struct geom *of = &x->frame[frame].geom;
    struct probe p;

    probe_init(&p, x, NULL, of, 0);
    p.own_frame = frame;
    p.tree.bounds =
        (struct tree_bounds){ .lo = of->base, .hi = of->base + of->size, .frame = TREE_MIXED };
    p.tree.since = 0;
    p.tree.visit = visit_neighbour;
    region_tree_search(&x->tree, &p.tree);
    return !p.tree.is_over && (x->is_indexed || !has_intervals(x, frame));
}

bool region_is_first(struct regions *x, uint32_t frame)
{
    struct region_frame *f = &x->frame[frame];

    if (frame == 0 || f->population != 0 || x->deps != PTO_DEPS_SAFE)
        return false;
    drop_frame_leaf(x, f);
    f->is_spread = false;
    f->is_alone = query_is_alone(x, frame);
    return f->is_alone;
}
