/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structs of the index of regions, whose contract is overlap.h, and what is inlined of it.
 *
 * One record a region. Records are found by exact match with one hash probe.
 * A record that overlaps no other one is untangled, and then that probe is
 * all there is to do, whether the region is a buffer or a tile of one. So it is
 * for tiles of a matrix that are all alike (struct region_tile); other boxes are
 * looked for among the known ones first, by their descriptors. Only a new region,
 * or a tangled one, asks for everything that overlaps it:
 *
 *     intervals   lie in cells of the address space, one grid for each power of
 *                 two; a region is in the grid of its size, in the cell of its
 *                 start, so it reaches at most into the next. From the first
 *                 time on that many cells are looked at in vain, they are in the
 *                 tree (region_tree.h), too, and only that is searched
 *     boxes       have a grid for each frame. As long as all boxes of a frame are
 *                 of one size, each in a cell, with nobody else in its memory, the
 *                 tree has one leaf for all of them; else it has one for each
 *
 * All cells hash into one table: a head for each bucket, then an overflow
 * chain. Records of tasks that have gone are dropped when they are met; a
 * task that retires touches nothing here.
 *
 * Used by the submitting thread only.
 */
#ifndef PTO_REGIONS_H
#define PTO_REGIONS_H

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "overlap/geom.h"
#include "overlap/region_tree.h"
#include "overlap/tasks.h"
#include "port/port.h"
#include "pto/rules.h"
#include "pto/status.h"

enum {
    REGION_READERS_INLINE = 3,
    REGION_LEVEL_MIN = 6,
    REGION_LEVELS = 64,
    REGION_LEVEL_FRAME = 0,  /* of frames' own records: no region is that small */
    REGION_CLASSES = 8,      /* box shapes (rounded up) that a frame keeps apart */
    REGION_FRAME_CACHE = 16, /* recently used frames, by hash */
    REGION_KNOWN_BITS = 10,  /* boxes known by their descriptors: 1024 */
    REGION_JOINED_MIN = 8,   /* edges that make a join worth while */
    REGION_JOIN_BITS = 5,    /* regions whose readers have many predecessors: 32 */
    REGION_FRAMES_MAX = UINT16_MAX,
    REGION_BYTES_BITS = 6, /* of a record: 64 */
    REGION_TABLE_START = 1024,
    REGION_TABLE_KEPT = 1 << 18, /* between runs, at most */
    REGION_VECTOR_UNIT = 64,     /* bytes */
    REGION_EPOCH_SHIFT = 40,     /* in a word: flags that no box that is looked for has set */
};

enum region_flag {
    REGION_USED = 1,
    REGION_TANGLED = 2,       /* another record may overlap this one */
    REGION_CROSSING = 4,      /* reaches into the cell after its own */
    REGION_SUPERSEDED = 8,    /* `writer` is ordered before one of the readers */
    REGION_HAS_WRITERS = 16,  /* the vector has writers, too */
    REGION_MORE_WRITERS = 32, /* and some of them are not superseded */
};

struct region {
    uint64_t start; /* interval */
    uint64_t length;
    struct ref writer;
    struct ref reader[REGION_READERS_INLINE];
    uint32_t last;   /* sequence number of the latest access */
    uint32_t next;   /* overflow chain */
    uint32_t vector; /* further readers and writers, in 64-byte units of the pool; 0: none */
    union {
        struct {
            uint16_t reader_count : 2;
            uint16_t flags : 6; /* enum region_flag */
            uint16_t level : 6; /* of the interval index; class of a box */
            uint16_t kind : 2;  /* enum region_kind */
        };
        uint16_t state; /* all of them */
    };
    uint16_t frame; /* of a box, or of a frame's own record; 0: none */
};

static_assert(offsetof(struct region, frame) == offsetof(struct region, state) + 2,
              "region_tag looks at both at once");

/*
 * In `level` of a box of a flat frame, beside its class: its geometry follows from
 * the interval, and is not in its shape yet (region_shape).
 */
enum { REGION_IS_DERIVED = 32, REGION_CLASS = REGION_CLASSES - 1 };

/* Parts of region.state. */
enum {
    REGION_FLAGS_SHIFT = 2,
    REGION_LEVEL_SHIFT = 8,
    REGION_KIND_SHIFT = 14,
    REGION_STATE_KIND = 3 << REGION_KIND_SHIFT,
    /* What is left when everybody who touched the region has gone. */
    REGION_STATE_SHAPE = (REGION_USED | REGION_TANGLED | REGION_CROSSING) << REGION_FLAGS_SHIFT |
                         63 << REGION_LEVEL_SHIFT | REGION_STATE_KIND,
    /* What tells whether a record is untangled and contiguous: only REGION_USED may be set. */
    REGION_STATE_KNOWN = (REGION_USED | REGION_TANGLED) << REGION_FLAGS_SHIFT | REGION_STATE_KIND,
};

/* What only queries need, beside each record. */
struct region_shape {
    struct geom geom;    /* not for contiguous regions of the safe rules */
    uint32_t frame_next; /* list of a frame's boxes */
    uint32_t frame_prev;
    uint32_t known;  /* of a frame's box: the only place among the known ones where it can be */
    uint32_t serial; /* of its leaf in the tree, if it is to have one; else not that of any leaf */
    uint32_t floor;  /* while it is tangled, from where on writers count for readers; 0: all */
    uint32_t join;   /* slot of one for the writers below `floor` that readers wait for; 0: none */
};

/* Of `join`: the next reader makes one, if the writers are still the same. */
#define REGION_JOIN_WANTED UINT32_MAX

/*
 * A box by its descriptor, whose bytes say which region it is; those of further
 * dimensions are compared with the geometry. As long as this is here, the record
 * is that of the box, and untangled: whoever changes that sees to it.
 */
struct known_box {
    uint64_t addr;
    uint64_t start;
    uint64_t form; /* ndims, dtype, flags, epoch; 0: none; inverted: more than two dimensions */
    uint64_t shape;
    uint64_t extent;
    uint64_t stride;
    struct region *record;
    uint64_t reserved;
};

/*
 * Under the reference's rules, which record no readers: a region that was read by a task with
 * many predecessors. From the next reader on a join stands for them.
 */
struct region_join {
    struct geom geom;
    struct ref ref; /* slot 0: there is none yet */
    uint32_t floor; /* writers from here on are waited for one by one */
    uint32_t size;  /* predecessors that it stands for; 0: nothing is here */
    uint32_t extra; /* edges to others since then: as many as that, and it is made anew */
};

struct region_class {
    uint8_t level[PTO_MAX_DIMS];
    uint8_t is_crossing; /* sticky while the class is in use */
    uint32_t count;
    uint64_t salt;                /* of its cells' buckets */
    uint32_t width[PTO_MAX_DIMS]; /* cells of each dimension */
    uint32_t shape[PTO_MAX_DIMS]; /* of the latest box: most have the same */
    uint64_t extent;              /* of that */
};

/*
 * What a descriptor of a tile has in common with all others of its frame, and what
 * follows from that. For frames with two dimensions whose rows have no gaps.
 */
enum { REGION_TILE_FORM = 2 };
#define REGION_NO_FORM UINT64_MAX /* of no tensor */

struct region_tile {
    uint64_t common[6]; /* addr, size, form, shape, extent, strides; REGION_NO_FORM: none */
    uint64_t inverse;   /* of the row length: 32 bits times it, without the lower 64, is divided */
    uint64_t start_max;
    uint64_t length; /* bytes */
    uint64_t salt;   /* of its class */
    uint32_t row_mask;
    uint32_t row_slack; /* how far into a cell it may begin to be within that cell */
    uint32_t column_mask;
    uint32_t column_slack;
    uint32_t column_max; /* to end in the row in which it begins */
    uint32_t width;      /* cells of a row */
    uint32_t state;      /* of a record that has gone: state and frame */
    uint8_t row_level;
    uint8_t column_level;
    uint8_t elem_log;
};

struct region_frame {
    struct region_tile tile; /* of the latest ones */
    struct geom geom;        /* strides, base, size; shape: how many indices each dimension has */
    uint32_t population;     /* boxes recorded */
    uint32_t first;          /* list of them */
    uint32_t next_free;
    uint32_t class; /* of the latest box: the next one is likely to be of it, too */
    uint32_t
        simple; /* class of all boxes, if each is in one cell and the frame is alone; 0: not so */
    uint32_t flat; /* the same if there are two dimensions and rows have no gaps */
    bool is_used;
    bool has_known;     /* some of its boxes are, or were, known by their descriptors */
    bool is_alone;      /* its memory was no other region's that is recorded, or frame's */
    bool has_leaf;      /* one leaf of the tree stands for all of its boxes */
    bool is_spread;     /* each box has a leaf; of a frame with boxes one of the two is true */
    uint32_t record;    /* its own */
    uint32_t look_wait; /* new boxes until one leaf may do again */
    struct region_class class_of[REGION_CLASSES];
};

/* The large arrays of the index: apart, so that what is near the start of the index is near. */
struct region_tables {
    struct known_box known[1 << REGION_KNOWN_BITS];
    struct region_join join[1 << REGION_JOIN_BITS];
    /* A bit for each head that came into use, and for those of larger tables with the same bits. */
    uint64_t touched[REGION_TABLE_KEPT / 64];
};

struct regions {
    /* Written by the graph, in which the index is embedded. */
    const struct slot_info *info; /* by slot: who is alive */
    uint32_t dead_before;         /* every task before this one has gone */
    uint32_t ordered_from;        /* from this task on, no task was in a MANUAL scope */
    enum pto_deps deps;
    bool may_join;                /* joins may be made */
    uint8_t quick[UINT8_MAX + 1]; /* by tag: its access, if it has a quick way; else 0 */

    /* The index's own. */
    struct region_tables *far;
    uint32_t seq; /* of the task after the one that is being submitted, on the long ways */
    struct region *table;
    struct region_shape *table_shape;
    uint64_t table_mask;     /* of the offset of a record in it, in bytes */
    uint32_t table_count;    /* a power of two */
    uint64_t touched_count;  /* how often an entry of the table came into use */
    struct region *overflow; /* index 0 is never used */
    struct region_shape *overflow_shape;
    uint32_t overflow_count;
    uint32_t overflow_free;
    uint32_t overflow_live;
    struct region_frame *frame;         /* index 0 is never used */
    const struct region_tile *tile_now; /* what the latest tile was like */
    uint32_t frame_count;
    uint32_t frame_free;
    uint32_t frame_pinned; /* in use by the access under way, boxes or not */
    uint32_t frame_cache[REGION_FRAME_CACHE];
    uint64_t level_length; /* of the latest region, and its level */
    uint32_t level_now;
    uint64_t level_mask; /* levels of the interval index that hold records */
    uint64_t top;        /* no record of this run reaches above it */
    uint32_t level_count[REGION_LEVELS];
    uint32_t level_crossing[REGION_LEVELS];
    uint32_t vector_free[32];
    uint64_t known_epoch; /* in `form` of what is known now */
    bool has_versions;    /* a version other than 0 was seen (simpler rules) */
    bool is_indexed;      /* intervals have leaves in the tree, too */
    bool is_short;        /* memory for the tree has run out */
    bool has_joins;       /* some of `join` are in use */
    struct region_tree tree;
    uint32_t leaf_count;   /* records that have a leaf; the tree's others are to be dropped */
    uint32_t serial;       /* of the latest leaf */
    uint32_t frame_near;   /* that a new interval is likely to be a row of; 0: none */
    uint32_t frame_parked; /* list of frames that have gone, but which the tree may still name */
    uint32_t parked_count;
    uint32_t filled;     /* how many records were made */
    uint32_t scan_next;  /* ... and how many it takes until all may be looked through again */
    uint64_t vain_cells; /* of the grids of intervals: looked at, and nothing near was there */
    struct pool table_pool;
    struct pool table_shape_pool;
    struct pool overflow_pool;
    struct pool overflow_shape_pool;
    struct pool frame_pool;
    struct pool vector_pool;
};

/* Readers and writers of a region beyond those in its record. */
struct region_vector {
    uint32_t count;
    uint32_t capacity;
    struct ref ref[];
};

enum region_ref_flag { /* in `slot` of a ref in a vector */
                       REGION_REF_WRITE = 1u << 31,
                       REGION_REF_SUPERSEDED = 1u << 30,
                       REGION_REF_SLOT = (1u << 30) - 1,
};

/* region_index.c */
/*
 * The record of the argument's region, found or made, after t was made to wait
 * for what conflicts in other records. NULL: there is none and needs to be none,
 * or *status_out says why not. May take ACCESS_REPLACE away.
 */
struct region *region_resolve(struct regions *x, struct slot *t, const struct pto_tensor *tensor,
                              uint32_t *access, int *status_out);
bool region_is_alive(struct regions *x, const struct region *e);
void region_remove(struct regions *x, struct region *e);
/* Room for a record in a bucket: one that is not in use. NULL when memory has run out. */
struct region *region_place(struct regions *x, uint32_t bucket);
/* Makes a record of a free entry of the right bucket; `level` is the class if there is a frame. */
void region_fill(struct regions *x, struct region *e, const struct geom *geom, uint32_t frame,
                 uint32_t level);

/* regions.c */
/* Makes t wait for what conflicts with the access among the tasks of one record, from `since` on. */
int region_wait(struct regions *x, struct slot *t, struct region *e, uint32_t access,
                uint32_t since);
/* Whether a task from `since` on is recorded as a writer. */
bool region_has_writer_since(const struct regions *x, const struct region *e, uint32_t since);
/* The number of the latest reader; 0: none. */
uint32_t region_latest_reader(const struct regions *x, const struct region *e);
void region_forget_readers(struct regions *x, struct region *e);
/* The latest living one of the tasks of one record that writes it, or also reads it; slot 0: none. */
struct ref region_latest_user(struct regions *x, const struct region *e, bool with_readers);
void region_drop_vector(struct regions *x, struct region *e);

/* region_join.c: if many readers are recorded, a join takes their place, for t and others that wait. */
int region_join_readers(struct regions *x, struct slot *t, struct region *e);

/* region_index.c: what is beside the record. */
struct region_shape *region_shape(struct regions *x, struct region *e);
/* A box that nothing overlaps was found or recorded, in a flat frame. */
void region_note_tile(struct regions *x, const struct region *e, const struct pto_tensor *tensor);

static inline struct region_vector *region_vector(const struct regions *x, uint32_t vector)
{
    return (struct region_vector *)(void *)(x->vector_pool.base +
                                            (uint64_t)vector * REGION_VECTOR_UNIT);
}

/* The record, which was none, is one from now on. */
static inline void region_touch(struct regions *x, const struct region *e)
{
    uint64_t at = (uint64_t)((const char *)e - (const char *)x->table);
    uint64_t bucket = at >> REGION_BYTES_BITS & (REGION_TABLE_KEPT - 1);

    if (at > x->table_mask)
        return; /* what is behind the table is cleared when it is taken */
    x->far->touched[bucket / 64] |= 1ull << bucket % 64;
    x->touched_count++;
}

/* False: the bucket is empty, and its head need not be looked at, which is far away in a large table. */
static inline bool region_is_touched(const struct regions *x, uint32_t bucket)
{
    bucket &= REGION_TABLE_KEPT - 1;
    return (x->far->touched[bucket / 64] >> bucket % 64 & 1) != 0;
}

/* Whether the table has to grow: many are behind others, and not only because they share a cell. */
static inline bool regions_are_crowded(const struct regions *x)
{
    return x->overflow_live * 8 > x->table_count &&
           2 * (x->touched_count + x->overflow_live) > x->table_count;
}

/* The grid whose cells are as long as the region or up to twice that; of an empty one, any. */
static inline uint32_t region_level(uint64_t length)
{
    uint64_t below = (length - 1) | ((1u << REGION_LEVEL_MIN) - 1);

    return (64 - (uint32_t)__builtin_clzll(below)) & (REGION_LEVELS - 1);
}

/* The same; most regions are as long as the one before, and the scan for a bit takes long. */
static inline uint32_t region_level_now(struct regions *x, uint64_t length)
{
    if (__builtin_expect(length != x->level_length, 0)) {
        x->level_length = length;
        x->level_now = region_level(length);
    }
    return x->level_now;
}

/* The number of a cell of the address space: those side by side have numbers in a row. */
static inline uint64_t region_cell_number(uint64_t salt, uint32_t level, uint64_t cell)
{
    return cell + ((uint64_t)level << 32) + salt;
}

/*
 * Cells with numbers in a row have buckets in a row, so that whoever takes regions in the order of
 * their addresses goes through the table in order, too; but for a gap now and then, so that those who
 * take every 2^n-th do not meet in one bucket. A table of twice the size has a record in the same
 * bucket, or as far behind as the table was long.
 */
static inline uint64_t region_cell_offset(const struct regions *x, uint64_t number)
{
    const uint64_t step = 0x109e3779bull; /* 1 + 0.618 / 16, with 32 bits behind the point */

    return (number * step >> (32 - REGION_BYTES_BITS)) & x->table_mask;
}

/* The first record of a cell's bucket. */
static inline struct region *region_cell_head(const struct regions *x, uint64_t number)
{
    return (struct region *)(void *)((char *)x->table + region_cell_offset(x, number));
}

static inline uint32_t region_cell_bucket(const struct regions *x, uint64_t number)
{
    return (uint32_t)(region_cell_offset(x, number) >> REGION_BYTES_BITS);
}

static inline uint32_t region_bucket(const struct regions *x, uint64_t salt, uint32_t level,
                                     uint64_t cell)
{
    return region_cell_bucket(x, region_cell_number(salt, level, cell));
}

/* The cells of a box's class are as long as it is, or up to twice that; the longest are half of all. */
static inline uint32_t region_box_level(uint32_t shape)
{
    uint32_t level = shape > 1 ? 32 - (uint32_t)__builtin_clz(shape - 1) : 0;

    return level < 32 ? level : 31;
}

/* The bucket of a cell of a frame's grid for a class; combs in one cell have buckets far apart. */
static inline uint32_t region_box_bucket(const struct regions *x, const struct region_class *class,
                                         const uint32_t cell[], uint32_t ndims, uint32_t rest)
{
    uint64_t number = 0;

    for (uint32_t d = 0; d < ndims; d++)
        number = number * class->width[d] + cell[d];
    return region_cell_bucket(x, number + class->salt + ((uint64_t)rest << 32));
}

/* Words of a descriptor that hold several fields; two dimensions are one word. */
enum {
    TENSOR_FORM = offsetof(struct pto_tensor, ndims),
    TENSOR_SHAPE = offsetof(struct pto_tensor, shapes),
    TENSOR_STRIDE = offsetof(struct pto_tensor, strides),
};

static_assert(TENSOR_SHAPE - TENSOR_FORM == sizeof(uint64_t), "dtype and flags are between");
static_assert(offsetof(struct pto_tensor, manual_dep) - TENSOR_FORM == 5 &&
                  offsetof(struct pto_tensor, is_contiguous) - TENSOR_FORM == 6,
              "a box that is looked for has neither: the epoch takes their place");

static inline uint64_t tensor_word(const struct pto_tensor *t, size_t at)
{
    uint64_t word;

    memcpy(&word, (const char *)t + at, sizeof(word));
    return word;
}

static inline bool tile_is_like(const struct region_tile *tile, const struct pto_tensor *tensor)
{
    return ((tile->common[0] ^ tensor->addr) | (tile->common[1] ^ tensor->size) |
            (tile->common[2] ^ tensor_word(tensor, TENSOR_FORM)) |
            (tile->common[3] ^ tensor_word(tensor, TENSOR_SHAPE)) |
            (tile->common[4] ^ tensor->extent) |
            (tile->common[5] ^ tensor_word(tensor, TENSOR_STRIDE))) == 0;
}

/* The frame is not flat any more, or may not be: its tiles are not found as such. */
static inline void region_roughen(struct region_frame *f)
{
    f->simple = f->flat = 0;
    f->tile.common[REGION_TILE_FORM] = REGION_NO_FORM;
}

/* What the next box of the frame is likely to be; `shape` in the order of its strides. */
static inline void region_note_box(struct region_frame *f, uint32_t class,
                                   const struct pto_tensor *t, const uint32_t shape[])
{
    f->class = class;
    f->class_of[class].extent = t->extent;
    memcpy(f->class_of[class].shape, shape, sizeof(f->class_of[class].shape));
}

/* By the first element alone: boxes that share it overlap, and a box has but one place. */
static inline uint32_t region_known_place(const struct pto_tensor *t)
{
    uint64_t key = t->start * 0x2545f491 + t->addr;

    return (uint32_t)((key * 0x9e3779b97f4a7c15ull) >> (64 - REGION_KNOWN_BITS));
}

/* The record is about to be that of another region, or tangled. */
static inline void region_forget_known(struct regions *x, const struct region_shape *shape,
                                       const struct region *e)
{
    struct known_box *known = &x->far->known[shape->known];

    if (known->record == e)
        known->form = 0;
}

static inline uint32_t *region_frame_cache(const struct regions *x, uint64_t base, uint32_t stride)
{
    return (uint32_t *)(uintptr_t)&x->frame_cache[((base ^ stride) * 0x9e3779b97f4a7c15ull) >> 60];
}

/* The record of a box that came with the same descriptor before and that nothing overlaps. */
static inline struct region *region_find_known(const struct regions *x,
                                               const struct pto_tensor *tensor)
{
    const struct known_box *known = &x->far->known[region_known_place(tensor)];

    if (known->start != tensor->start || known->addr != tensor->addr ||
        known->shape != tensor_word(tensor, TENSOR_SHAPE) ||
        known->stride != tensor_word(tensor, TENSOR_STRIDE) ||
        known->form != (tensor_word(tensor, TENSOR_FORM) ^ x->known_epoch) ||
        known->extent != tensor->extent)
        return NULL;
    port_check((known->record->flags & (REGION_USED | REGION_TANGLED)) == REGION_USED);
    port_check(known->record->kind == REGION_BOX && known->record->frame != 0);
    return known->record;
}

/* Makes a box known whose record may be found by its descriptor. */
static inline void region_make_known(struct regions *x, struct region *e,
                                     struct region_shape *shape, const struct pto_tensor *tensor)
{
    uint32_t place = region_known_place(tensor);
    uint64_t form = tensor_word(tensor, TENSOR_FORM) ^ x->known_epoch;
    struct known_box *known = &x->far->known[place];

    if (x->frame[e->frame].flat != 0) { /* for which there is a quicker way */
        region_note_tile(x, e, tensor);
        return;
    }
    shape->known = place;
    x->frame[e->frame].has_known = true;
    known->addr = tensor->addr;
    known->start = tensor->start;
    known->form = tensor->ndims > 2 ? ~form : form;
    known->shape = tensor_word(tensor, TENSOR_SHAPE);
    known->extent = tensor->extent;
    known->stride = tensor_word(tensor, TENSOR_STRIDE);
    known->record = e;
}

/* Of a contiguous region that nobody has touched. */
static inline uint32_t region_dense_state(uint32_t level, bool is_crossing)
{
    return (REGION_USED | is_crossing * REGION_CROSSING) << REGION_FLAGS_SHIFT |
           level << REGION_LEVEL_SHIFT;
}

/* State, in the lower half, and frame. */
static inline uint32_t region_tag(const struct region *e)
{
    uint32_t tag;

    memcpy(&tag, &e->state, sizeof(tag));
    return tag;
}

static inline void region_set_tag(struct region *e, uint32_t state, uint32_t frame)
{
    uint32_t tag = state | frame << 16;

    memcpy(&e->state, &tag, sizeof(tag));
}

#endif
