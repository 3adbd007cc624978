/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds or makes records in the cases that need no search: new regions with no other region nearby,
 * and boxes of a recently used frame. Adds accesses to a record, also if its own fields are full.
 * The shortest paths are in access.h, the long ones in region_index.c.
 */
#include "overlap/access.h"

#include <string.h>

static int wait_for_vector(struct regions *x, struct slot *t, struct region *e, bool is_write,
                           uint32_t since);
static int regions_append(struct regions *x, struct slot *t, struct region *e, uint32_t flags);
static int regions_append_reader(struct regions *x, struct slot *t, struct region *e,
                                 bool is_ordered);

/* Makes t wait for the conflicting tasks of a record; simpler's rules record no readers. */
static inline int wait_here(struct regions *x, struct slot *t, struct region *e, uint32_t access,
                            uint32_t since)
{
    bool is_write = (access & ACCESS_WRITE) != 0;
    int status = 0;

    if ((!is_write || (e->flags & REGION_SUPERSEDED) == 0) && e->writer.seq >= since)
        status |= ref_wait_for(x, t, e->writer);
    if (is_write) /* mutation: no-war */
        for (uint32_t i = 0; i < e->reader_count; i++)
            if (e->reader[i].seq >= since)
                status |= ref_wait_for(x, t, e->reader[i]);
    if (e->vector != 0 && (is_write || (e->flags & REGION_HAS_WRITERS) != 0))
        status |= wait_for_vector(x, t, e, is_write, since);
    return status;
}

/* Adds t to a record as a reader. is_ordered: t waits for every writer in the record. */
static inline int record_reader(struct regions *x, struct slot *t, struct region *e,
                                bool is_ordered)
{
    if (e->vector == 0 && e->reader_count < REGION_READERS_INLINE) {
        e->reader[e->reader_count++] = slot_ref(t);
    } else {
        struct region_vector *v = region_vector(x, e->vector);

        if (e->vector == 0 || (e->flags & REGION_MORE_WRITERS) != 0 || v->count == v->capacity)
            return regions_append_reader(x, t, e, is_ordered);
        v->ref[v->count++] = slot_ref(t);
    }
    if (is_ordered)
        /* later writers need not wait for `writer`, because they wait for this reader */
        e->flags |= REGION_SUPERSEDED;
    return PTO_OK;
}

int region_wait(struct regions *x, struct slot *t, struct region *e, uint32_t access,
                uint32_t since)
{
    return e->last >= since ? wait_here(x, t, e, access, since) : PTO_OK;
}

__attribute__((noinline)) static int apply_slowly(struct regions *x, struct slot *t,
                                                  struct region *e, uint32_t access)
{
    e->last = t->seq;
    if ((access & ACCESS_LOOKUP) != 0 && wait_here(x, t, e, access, 0) < 0)
        return PTO_ENOMEM;
    if ((access & ACCESS_REPLACE) != 0) {
        e->writer = slot_ref(t);
        region_forget(x, e);
        return PTO_OK;
    }
    if ((access & ACCESS_RECORD) == 0)
        return PTO_OK;
    if ((access & ACCESS_WRITE) == 0)
        return record_reader(x, t, e, (access & ACCESS_LOOKUP) != 0);
    if (ref_is_alive(x, e->writer) || e->reader_count != 0 || e->vector != 0)
        return regions_append(x, t, e, REGION_REF_WRITE);
    e->writer = slot_ref(t);
    e->flags &= ~(uint32_t)REGION_SUPERSEDED;
    return PTO_OK;
}

/* Adds a reader when the record, or its vector, is full. The reader waits for the writer. */
__attribute__((noinline)) static int crowd(struct regions *x, struct slot *t, struct region *e)
{
    uint32_t vector = x->vector_free[1];
    uint32_t alive = 0;

    e->last = t->seq;
    e->flags |= REGION_SUPERSEDED; /* later writers wait for this reader instead of `writer` */
    for (uint32_t i = 0; i < REGION_READERS_INLINE && e->vector == 0; i++)
        alive += ref_is_alive(x, e->reader[i]);
    if (vector == 0 || alive != REGION_READERS_INLINE) {
        if (regions_append_reader(x, t, e, true) < 0)
            return PTO_ENOMEM;
    } else {
        struct region_vector *v = region_vector(x, vector);

        x->vector_free[1] = v->count;
        v->count = 1;
        v->ref[0] = slot_ref(t);
        e->vector = vector;
    }
    return ref_wait_for(x, t, e->writer);
}

/*
 * The usual cases, without a call: a reader for which there is room, and a writer after a writer.
 * Adds t before its edges are linked, which is harmless: if linking fails, the run fails.
 */
int region_apply(struct regions *x, struct slot *t, struct region *e, uint32_t access)
{
    struct ref writer = e->writer;
    struct ref own = slot_ref(t);

    port_check((e->flags & REGION_USED) != 0 && e->kind != REGION_FRAME);
    if (access == (ACCESS_LOOKUP | ACCESS_RECORD)) {
        struct region_vector *v = region_vector(x, e->vector);

        if ((e->flags & REGION_HAS_WRITERS) != 0)
            return apply_slowly(x, t, e, access);
        if (e->vector == 0 && e->reader_count < REGION_READERS_INLINE)
            e->reader[e->reader_count++] = own;
        else if (e->vector != 0 && v->count < v->capacity)
            v->ref[v->count++] = own;
        else
            return crowd(x, t, e);
        /* later writers need not wait for `writer`, because they wait for this reader */
        e->flags |= REGION_SUPERSEDED;
    } else if ((access & ACCESS_REPLACE) != 0 && e->vector == 0 && e->reader_count == 0 &&
               (e->flags & REGION_SUPERSEDED) == 0) {
        e->writer = own;
    } else {
        return apply_slowly(x, t, e, access);
    }
    e->last = own.seq;
    return ref_is_alive(x, writer) ? edges_link(x, t, writer) : PTO_OK;
}

/* Whether all tasks that accessed a contiguous region have completed. */
static inline bool regions_is_gone(struct regions *x, const struct region *e)
{
    return e->last < x->dead_before || !region_is_alive(x, e);
}

/*
 * Whether no live task in a bucket accesses the interval. Removes records of completed tasks that
 * touch it: if they stayed, a later access would use one as if it overlapped nothing.
 */
static inline bool is_clear(struct regions *x, struct region *e, uint64_t start, uint64_t end)
{
    for (;; e = &x->overflow[e->next]) {
        if (e->start < end && start < e->start + e->length && (e->flags & REGION_USED) != 0) {
            if (e->kind != REGION_CONTIGUOUS || !regions_is_gone(x, e))
                return false;
            region_remove(x, e);
        }
        if (e->next == 0)
            return true;
    }
}

/* Finds the record of exactly this region in the chain of a bucket. */
static struct region *find_chained(const struct regions *x, const struct span *span,
                                   const struct region *head)
{
    for (uint32_t index = head->next; index != 0; index = x->overflow[index].next) {
        struct region *e = &x->overflow[index];

        if (e->start == span->start && e->length == span->length && e->kind == REGION_CONTIGUOUS &&
            (e->flags & REGION_USED) != 0)
            return e;
    }
    return NULL;
}

/*
 * Returns an entry for a new record: that of a contiguous region whose tasks have completed, or a
 * new one in the chain. NULL: the table has to grow first.
 */
static inline struct region *regions_find_place(struct regions *x, struct region *head)
{
    for (struct region *e = head;; e = &x->overflow[e->next]) {
        if ((e->flags & REGION_USED) == 0 ||
            (e->kind == REGION_CONTIGUOUS && regions_is_gone(x, e)))
            return e;
        if (e->next == 0)
            break;
    }
    if (regions_are_crowded(x))
        return NULL; /* the table has to grow first */
    return region_place(x, (uint32_t)(head - x->table));
}

/* Turns an entry that is free, or whose tasks have completed, into the record of a new region. */
static inline void take_over(struct regions *x, struct region *e, uint64_t start, uint64_t length,
                             uint32_t level, bool is_crossing)
{
    uint32_t was_crossing = 0;

    if ((e->flags & REGION_USED) != 0) {
        port_check(e->level == level && e->kind == REGION_CONTIGUOUS && !region_is_alive(x, e));
        was_crossing = (e->flags & REGION_CROSSING) != 0;
        if (e->vector != 0)
            region_drop_vector(x, e);
    } else {
        region_touch(x, e);
        x->level_count[level]++;
        x->level_mask |= 1ull << level;
    }
    if (was_crossing != is_crossing)
        x->level_crossing[level] += is_crossing - was_crossing;
    if (x->top < start + length)
        x->top = start + length;
    e->start = start;
    e->length = length;
    e->writer = (struct ref){ 0, 0 };
    e->vector = 0;
    region_set_tag(e, region_dense_state(level, is_crossing), 0);
}

/*
 * Finds the record of a contiguous region in its bucket, or makes it, if all records are of its
 * size class and the adjacent buckets show that nothing overlaps it. NULL: needs region_resolve.
 */
__attribute__((noinline)) static struct region *insert_dense(struct regions *x,
                                                             const struct span *span,
                                                             struct region *head)
{
    uint64_t start = span->start;
    uint64_t end = start + span->length;
    uint32_t level = region_level(span->length);
    uint64_t cell = start >> level;
    bool is_crossing = cell != (end - 1) >> level;
    struct region *e = head->next != 0 ? find_chained(x, span, head) : NULL;

    if (e != NULL)
        return (e->flags & REGION_TANGLED) == 0 ? e : NULL;
    if ((x->level_mask & ~(1ull << level)) != 0 || x->is_indexed || !is_clear(x, head, start, end))
        return NULL;
    if (is_crossing && !is_clear(x, &x->table[region_bucket(x, 0, level, cell + 1)], start, end))
        return NULL;
    if (x->level_crossing[level] != 0 &&
        !is_clear(x, &x->table[region_bucket(x, 0, level, cell - 1)], start, end))
        return NULL;
    e = regions_find_place(x, head);
    if (e == NULL)
        return NULL;
    take_over(x, e, start, span->length, level, is_crossing);
    e->last = 0;
    return e;
}

/* Whether a bucket has at most one record, and that one does not touch the interval. */
static inline bool is_apart(const struct region *e, uint64_t start, uint64_t end)
{
    return e->next == 0 && (e->start >= end || e->start + e->length <= start);
}

/* Like region_find_known, for a box with more than two dimensions. */
__attribute__((noinline)) static struct region *find_known_deep(struct regions *x,
                                                                const struct pto_tensor *tensor)
{
    const struct known_box *known = &x->side_tables->known[region_known_place(tensor)];
    size_t bytes = (tensor->ndims - 2) * sizeof(uint32_t);
    const struct geom *geom;

    if (known->start != tensor->start || known->addr != tensor->addr ||
        known->shape != tensor_word(tensor, TENSOR_SHAPE) ||
        known->stride != tensor_word(tensor, TENSOR_STRIDE) ||
        known->form != ~(tensor_word(tensor, TENSOR_FORM) ^ x->known_epoch) ||
        known->extent != tensor->extent)
        return NULL;
    geom = &region_shape(x, known->record)->geom;
    if (memcmp(&geom->stride[2], &tensor->strides[2], bytes) != 0 ||
        memcmp(&geom->shape[2], &tensor->shapes[2], bytes) != 0)
        return NULL;
    return known->record;
}

/* A box that may belong to a recently used frame, while its record is looked up. */
struct box {
    uint64_t lo;
    uint64_t length;
    uint32_t frame;
    uint32_t class;
    uint32_t bucket;
    uint32_t rest;
    uint32_t offset[PTO_MAX_DIMS];
    bool is_crossing;
};

/* Computes where a box lies in its frame. False: the tensor is no box of this frame and class. */
__attribute__((always_inline)) static inline bool box_init(struct box *box, const struct regions *x,
                                                           const struct pto_tensor *tensor,
                                                           uint32_t frame, uint32_t ndims)
{
    const struct region_frame *f = &x->frame[frame];
    const struct region_class *class = &f->class_of[f->class];
    uint32_t rest = (uint32_t)tensor->start;
    uint32_t cell[PTO_MAX_DIMS];
    uint32_t crossed = 0;

    for (uint32_t d = 0; d < ndims; d++) {
        uint32_t stride = tensor->strides[d];
        uint32_t shape = tensor->shapes[d];
        uint32_t level = class->level[d];
        uint32_t at = rest;

        if (stride != f->geom.stride[d])
            return false; /* the stride is that of another frame */
        if (stride != 1) {
            at = rest / stride;
            rest %= stride;
        } else {
            rest = 0;
        }
        if ((uint64_t)at + shape > f->geom.shape[d])
            return false; /* the tensor is not a box */
        if (shape != class->shape[d] && (shape == 0 || level != region_box_level(shape)))
            return false; /* the shape is of another class */
        box->offset[d] = at;
        cell[d] = at >> level;
        crossed |= cell[d] ^ (at + shape - 1) >> level;
    }
    box->lo = tensor->addr + tensor->start * f->geom.elem_bytes;
    box->length = tensor->extent * f->geom.elem_bytes;
    box->frame = frame;
    box->class = f->class;
    box->bucket = region_box_bucket(x, class, cell, ndims, rest);
    box->rest = rest;
    box->is_crossing = crossed != 0;
    return true;
}

/* Whether two boxes are in one cell, so that they overlap; no box of the class may cross cells. */
static inline bool is_in_cell(const struct regions *x, const struct box *box,
                              const struct region_shape *shape, uint32_t ndims)
{
    const uint8_t *level = x->frame[box->frame].class_of[box->class].level;

    if (shape->geom.rest != box->rest)
        return false; /* boxes with different remainders interleave without overlap */
    for (uint32_t d = 0; d < ndims; d++)
        if (shape->geom.offset[d] >> level[d] != box->offset[d] >> level[d])
            return false;
    return true;
}

/* Sets the geometry of a new box, except fields that all boxes of its frame share. */
static inline void set_geom(struct geom *geom, const struct box *box,
                            const struct pto_tensor *tensor, uint32_t ndims)
{
    geom->lo = box->lo;
    geom->hi = box->lo + box->length;
    geom->rest = box->rest;
    for (uint32_t d = 0; d < ndims; d++) {
        geom->shape[d] = tensor->shapes[d];
        geom->offset[d] = box->offset[d];
    }
}

/* Makes a new box's record in the first entry of its bucket. NULL: the entry is in use; search. */
__attribute__((noinline)) static struct region *add_box(struct regions *x, const struct slot *t,
                                                        const struct box *box,
                                                        const struct pto_tensor *tensor)
{
    struct geom geom = x->frame[box->frame].geom;
    struct region *e;

    if (regions_are_crowded(x))
        return NULL; /* the table has to grow first, which region_resolve does */
    x->frame_pinned = box->frame;
    x->seq = t->seq + 1;
    e = region_place(x, box->bucket);
    if (e == NULL)
        return NULL;
    memset(geom.shape, 0, sizeof(geom.shape));
    memset(geom.offset, 0, sizeof(geom.offset));
    set_geom(&geom, box, tensor, tensor->ndims);
    region_fill(x, e, &geom, box->frame, box->class);
    region_make_known(x, e, region_shape(x, e), tensor);
    return e;
}

/*
 * Finds the untangled record of a box. If there is none, makes it if nothing can overlap the box:
 * all boxes of the frame are of its class, each in a separate cell, and no live task accesses its
 * cell. In one frame the interval identifies the box, because its length determines the shape.
 * NULL: the caller must search.
 */
__attribute__((always_inline)) static inline struct region *find_in_frame(
    struct regions *x, const struct slot *t, const struct pto_tensor *tensor, uint32_t frame)
{
    const struct region_frame *f = &x->frame[frame];
    uint32_t ndims = tensor->ndims;
    struct region *gone = NULL;
    struct region_shape *gone_shape = NULL, *shape;
    struct region *e;
    struct box box;
    bool is_new;

    if (!box_init(&box, x, tensor, frame, ndims))
        return NULL;
    is_new = f->simple == f->class && f->class != 0 && !box.is_crossing &&
             pto_tensor_numel(tensor) != tensor->extent;
    e = &x->table[box.bucket];
    shape = &x->table_shape[box.bucket];
    for (;;) {
        if (e->kind == REGION_BOX && e->frame == frame && (e->flags & REGION_USED) != 0) {
            (void)region_shape(x, e); /* computes the geometry if that was not done yet */
            if (e->start == box.lo && e->length == box.length) {
                if ((e->flags & REGION_TANGLED) != 0)
                    return NULL;
                region_make_known(x, e, shape, tensor);
                return e;
            }
            if (gone == NULL && e->last < x->dead_before) {
                gone = e;
                gone_shape = shape;
            } else if (is_new && is_in_cell(x, &box, shape, ndims)) {
                if (!regions_is_gone(x, e))
                    return NULL;
                region_remove(x, e);
            }
        }
        if (e->next == 0)
            break;
        shape = &x->overflow_shape[e->next];
        e = &x->overflow[e->next];
    }
    if (!is_new)
        return NULL;
    if (gone == NULL)
        return add_box(x, t, &box, tensor);
    region_forget_known(x, gone_shape, gone);
    gone->start = box.lo;
    gone->length = box.length;
    gone->flags = REGION_USED;
    set_geom(&gone_shape->geom, &box, tensor, ndims);
    region_make_known(x, gone, gone_shape, tensor);
    return gone;
}

/* Finds the record of a box, if its frame is a recently used one; NULL: none. */
static inline struct region *find_box(struct regions *x, const struct slot *t,
                                      const struct pto_tensor *tensor)
{
    uint32_t frame = *region_frame_cache(x, tensor->addr, tensor->strides[0]);
    const struct region_frame *f = &x->frame[frame];
    uint32_t ndims = tensor->ndims;
    struct region *e;

    if (ndims > 2) {
        e = find_known_deep(x, tensor);
        if (e != NULL)
            return e;
    }
    if (f->geom.base != tensor->addr || f->geom.size != tensor->size ||
        f->geom.elem_bytes != pto_dtype_size(tensor->dtype) || f->geom.ndims != ndims ||
        tensor->start >> 32 != 0 || f->class_of[f->class].count == 0)
        return NULL;
    e = find_in_frame(x, t, tensor, frame);
    if (e != NULL)
        region_note_box(&x->frame[frame], f->class, tensor, tensor->shapes);
    return e;
}

/*
 * The reach_ functions find or make a record and apply the access, from the shortest path to the
 * longest. Each ends with a tail call of the next one, so that it needs no stack frame; therefore
 * all have the parameters of region_reach.
 */

/* Finds the record of any region, if necessary by a search, and applies the access. */
__attribute__((noinline)) static int reach_far(struct regions *x, struct slot *t,
                                               const struct pto_tensor *tensor,
                                               const struct span *span, uint32_t access)
{
    int status = PTO_OK;
    struct region *e = region_resolve(x, t, tensor, &access, &status);

    (void)span;
    if (e == NULL)
        return status;
    if (x->deps == PTO_DEPS_SAFE && e->kind == REGION_BOX && e->frame != 0 &&
        (e->flags & REGION_TANGLED) == 0)
        region_make_known(x, e, region_shape(x, e), tensor);
    return apply_access(x, t, e, access);
}

/* Finds a contiguous region in its bucket and the adjacent ones, and applies the access. */
__attribute__((noinline)) static int reach_dense(struct regions *x, struct slot *t,
                                                 const struct pto_tensor *tensor,
                                                 const struct span *span, uint32_t access)
{
    struct region *e = insert_dense(x, span, span_head(x, span));

    return e != NULL ? apply_access(x, t, e, access) : reach_far(x, t, tensor, span, access);
}

__attribute__((noinline)) static int reach_around(struct regions *x, struct slot *t,
                                                  const struct pto_tensor *tensor, uint64_t start,
                                                  uint64_t length)
{
    struct span span = span_of(start, length);

    if (tensor->addr == 0 || length == 0) /* no record has length 0 */
        return submit_refuse_quick(x, t, tensor);
    return reach_dense(x, t, tensor, &span, x->quick[tensor->tag]);
}

/* Drops the vector of the bucket's first record, whose tasks have completed, and starts again. */
__attribute__((noinline)) static int reach_forgotten(struct regions *x, struct slot *t,
                                                     const struct pto_tensor *tensor,
                                                     struct region *e, uint64_t start,
                                                     uint64_t length)
{
    region_forget(x, e);
    return region_reach_dense(x, t, tensor, e, start, length);
}

/*
 * Like region_reach_dense, where another region may be near, or the bucket's first record `e` has
 * another size class. If the adjacent cells are clear, reuses `e`, whose tasks have completed.
 */
__attribute__((noinline)) static int reach_among(struct regions *x, struct slot *t,
                                                 const struct pto_tensor *tensor, struct region *e,
                                                 uint64_t start, uint64_t length)
{
    uint32_t level = region_level_now(x, length);
    uint64_t end = start + length;
    uint64_t cell = start >> level;
    bool is_crossing = cell != (end - 1) >> level;

    if (is_crossing && !is_apart(&x->table[region_bucket(x, 0, level, cell + 1)], start, end))
        return reach_around(x, t, tensor, start, length);
    if (x->level_crossing[level] != 0 &&
        !is_apart(&x->table[region_bucket(x, 0, level, cell - 1)], start, end))
        return reach_around(x, t, tensor, start, length);
    take_over(x, e, start, length, level, is_crossing);
    record_first(t, e, x->quick[tensor->tag]);
    return PTO_OK;
}

/*
 * The usual case of a new region, without a loop or a call: the tasks of its bucket's first record
 * have completed, that record is of the region's size class, and buffers come in address order.
 */
int region_reach_dense(struct regions *x, struct slot *t, const struct pto_tensor *tensor,
                       struct region *e, uint64_t start, uint64_t length)
{
    uint32_t level = region_level_now(x, length);
    const uint32_t crossing = REGION_CROSSING << REGION_FLAGS_SHIFT;
    uint32_t state;

    if (x->level_mask != 1ull << level || e->next != 0 || e->last >= x->dead_before ||
        (e->state & REGION_STATE_KIND) != 0 || x->is_indexed || tensor->addr == 0)
        return reach_around(x, t, tensor, start, length);
    if (e->vector != 0)
        return reach_forgotten(x, t, tensor, e, start, length);
    state = region_dense_state(level, start >> level != (start + length - 1) >> level);
    if (start < x->top || ((e->state ^ state) & REGION_STATE_SHAPE & ~crossing) != 0)
        return reach_among(x, t, tensor, e, start, length);
    x->level_crossing[level] += (state & crossing) / crossing - (e->state & crossing) / crossing;
    x->top = start + length;
    e->start = start;
    e->length = length;
    e->writer = (struct ref){ 0, 0 };
    region_set_tag(e, state, 0);
    record_first(t, e, x->quick[tensor->tag]);
    return PTO_OK;
}

/* Finds the record of a strided region, an empty one, or any region under simpler's rules. */
__attribute__((noinline)) static int reach_any_box(struct regions *x, struct slot *t,
                                                   const struct pto_tensor *tensor,
                                                   const struct span *span, uint32_t access)
{
    struct region *e = x->deps == PTO_DEPS_SAFE ? find_box(x, t, tensor) : NULL;

    return e != NULL ? apply_access(x, t, e, access) : reach_far(x, t, tensor, span, access);
}

/* Finds the record of a box that region_find_known did not find, if it is a tile. */
__attribute__((noinline)) static int reach_box(struct regions *x, struct slot *t,
                                               const struct pto_tensor *tensor,
                                               const struct span *span, uint32_t access)
{
    uint64_t lo, length;
    struct region *e = region_find_tile(x, tensor, &lo, &length);

    if (e == NULL || ((e->start != lo || e->length != length) && !region_take_tile(x, e, lo)))
        return reach_any_box(x, t, tensor, span, access);
    return region_apply_known(x, t, e, access);
}

int region_reach(struct regions *x, struct slot *t, const struct pto_tensor *tensor,
                 const struct span *span, uint32_t access)
{
    struct region *e;

    if (span->length != 0)
        return reach_dense(x, t, tensor, span, access);
    e = region_find_known(x, tensor);
    if (e == NULL)
        return reach_box(x, t, tensor, span, access);
    return region_apply_known(x, t, e, access);
}

/* ---- vectors: readers and writers that do not fit into a record ---- */

static uint32_t vector_order(uint32_t capacity)
{
    return (uint32_t)__builtin_ctz((capacity + 1) * sizeof(struct ref) / REGION_VECTOR_UNIT);
}

static uint32_t take_vector(struct regions *x, uint32_t order)
{
    uint32_t vector = x->vector_free[order];
    uint64_t bytes = (uint64_t)REGION_VECTOR_UNIT << order;
    char *memory;

    if (vector != 0) {
        x->vector_free[order] = region_vector(x, vector)->count;
    } else {
        memory = pool_take(&x->vector_pool, bytes);
        if (memory == NULL)
            return 0;
        vector = (uint32_t)((uint64_t)(memory - x->vector_pool.base) / REGION_VECTOR_UNIT);
    }
    port_check(vector != 0); /* index 0 means "none" */
    region_vector(x, vector)->count = 0;
    region_vector(x, vector)->capacity = (uint32_t)(bytes / sizeof(struct ref)) - 1;
    return vector;
}

static void put_vector(struct regions *x, uint32_t vector)
{
    uint32_t order = vector_order(region_vector(x, vector)->capacity);

    region_vector(x, vector)->count = x->vector_free[order];
    x->vector_free[order] = vector;
}

void region_drop_vector(struct regions *x, struct region *e)
{
    put_vector(x, e->vector);
    e->vector = 0;
}

/* Appends t to the vector of the record. */
static int regions_append(struct regions *x, struct slot *t, struct region *e, uint32_t flags)
{
    struct region_vector *v;

    if (e->vector == 0 && (e->vector = take_vector(x, 1)) == 0)
        return PTO_ENOMEM;
    v = region_vector(x, e->vector);
    /* drop completed tasks; enlarge the vector if that frees less than half */
    if (v->count == v->capacity) {
        uint32_t kept = 0;

        for (uint32_t i = 0; i < v->count; i++) {
            struct ref r = { v->ref[i].slot & REGION_REF_SLOT, v->ref[i].seq };

            if (ref_is_alive(x, r))
                v->ref[kept++] = v->ref[i];
        }
        v->count = kept;
        if (kept > v->capacity / 2) {
            uint32_t larger = take_vector(x, vector_order(v->capacity) + 2);

            if (larger == 0)
                return PTO_ENOMEM;
            memcpy(region_vector(x, larger)->ref, v->ref, kept * sizeof(struct ref));
            region_vector(x, larger)->count = kept;
            put_vector(x, e->vector);
            e->vector = larger;
            v = region_vector(x, larger);
        }
    }
    if ((flags & REGION_REF_WRITE) != 0)
        e->flags |= REGION_HAS_WRITERS | REGION_MORE_WRITERS;
    port_check(v->count < v->capacity && (t->number & ~(uint32_t)REGION_REF_SLOT) == 0);
    v->ref[v->count].slot = t->number | flags;
    v->ref[v->count++].seq = t->seq;
    return PTO_OK;
}

/* Makes t wait for conflicting tasks in the vector of a record, which come in order of time. */
static int wait_for_vector(struct regions *x, struct slot *t, struct region *e, bool is_write,
                           uint32_t since)
{
    const struct region_vector *v = region_vector(x, e->vector);
    int status = 0;

    for (uint32_t i = v->count; i-- > 0 && v->ref[i].seq >= since;) {
        uint32_t flags = v->ref[i].slot & ~(uint32_t)REGION_REF_SLOT;
        struct ref r = { v->ref[i].slot & REGION_REF_SLOT, v->ref[i].seq };

        if (is_write ? (flags & REGION_REF_SUPERSEDED) == 0 : (flags & REGION_REF_WRITE) != 0)
            status |= ref_wait_for(x, t, r);
    }
    return status;
}

bool region_has_writer_since(const struct regions *x, const struct region *e, uint32_t since)
{
    if (e->writer.seq >= since)
        return true;
    if (e->vector != 0 && (e->flags & REGION_HAS_WRITERS) != 0) {
        const struct region_vector *v = region_vector(x, e->vector);

        for (uint32_t i = v->count; i-- > 0 && v->ref[i].seq >= since;)
            if ((v->ref[i].slot & REGION_REF_WRITE) != 0)
                return true;
    }
    return false;
}

uint32_t region_latest_reader(const struct regions *x, const struct region *e)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < e->reader_count; i++)
        found = e->reader[i].seq > found ? e->reader[i].seq : found;
    if (e->vector != 0) {
        const struct region_vector *v = region_vector(x, e->vector);

        for (uint32_t i = v->count; i-- > 0 && v->ref[i].seq > found;)
            if ((v->ref[i].slot & REGION_REF_WRITE) == 0)
                found = v->ref[i].seq;
    }
    return found;
}

void region_forget_readers(struct regions *x, struct region *e)
{
    e->reader_count = 0;
    if (e->vector != 0) {
        struct region_vector *v = region_vector(x, e->vector);
        uint32_t kept = 0;

        for (uint32_t i = 0; i < v->count; i++)
            if ((v->ref[i].slot & REGION_REF_WRITE) != 0)
                v->ref[kept++] = v->ref[i];
        v->count = kept;
        if (kept == 0)
            region_drop_vector(x, e);
    }
}

struct ref region_latest_user(struct regions *x, const struct region *e, bool with_readers)
{
    struct ref found = ref_is_alive(x, e->writer) ? e->writer : (struct ref){ 0, 0 };

    for (uint32_t i = 0; i < e->reader_count && with_readers; i++)
        if (e->reader[i].seq > found.seq && ref_is_alive(x, e->reader[i]))
            found = e->reader[i];
    if (e->vector != 0) {
        const struct region_vector *v = region_vector(x, e->vector);

        for (uint32_t i = v->count; i-- > 0 && v->ref[i].seq > found.seq;) {
            struct ref r = { v->ref[i].slot & REGION_REF_SLOT, v->ref[i].seq };

            if ((with_readers || (v->ref[i].slot & REGION_REF_WRITE) != 0) && ref_is_alive(x, r))
                found = r;
        }
    }
    return found;
}

/* Adds a reader that does not fit the record, or that waits for writers in the vector. */
static int regions_append_reader(struct regions *x, struct slot *t, struct region *e,
                                 bool is_ordered)
{
    uint32_t kept = 0;

    if (is_ordered)
        e->flags |= REGION_SUPERSEDED;
    if (is_ordered && (e->flags & REGION_MORE_WRITERS) != 0) {
        struct region_vector *v = region_vector(x, e->vector);

        for (uint32_t i = 0; i < v->count; i++)
            if ((v->ref[i].slot & REGION_REF_WRITE) != 0)
                v->ref[i].slot |= REGION_REF_SUPERSEDED;
        e->flags &= ~(uint32_t)REGION_MORE_WRITERS;
    }
    if (e->vector != 0)
        return regions_append(x, t, e, 0);
    for (uint32_t i = 0; i < REGION_READERS_INLINE; i++) /* drop completed tasks */
        if (ref_is_alive(x, e->reader[i]))
            e->reader[kept++] = e->reader[i];
    e->reader_count = kept & 3;
    if (kept == REGION_READERS_INLINE)
        return regions_append(x, t, e, 0);
    e->reader[e->reader_count++] = slot_ref(t);
    return PTO_OK;
}
