/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structs of the index of regions and its inline functions; overlap.h has the contract.
 *
 * Each region has one record, which one hash probe finds by exact match. A record that overlaps no
 * other one is called untangled, and then that probe is the whole cost, whether the region is a
 * buffer or a tile of one. The same holds for tiles of a matrix that are all of one size (struct
 * region_tile); other boxes are first searched among the known ones, by their descriptors. Only an
 * access to a new or a tangled region has to search for everything that overlaps it:
 *
 *     intervals   lie in cells of the address space, one grid for each power of
 *                 two; a region is in the grid of its size, in the cell of its
 *                 start, so it extends at most into the next. Once too many cells
 *                 were searched without a result, all intervals are also in the tree
 *                 (region_tree.h), and only the tree is searched
 *     boxes       have a grid for each frame. As long as all boxes of a frame are
 *                 of one size, each in one cell, and no other region is in their
 *                 buffer, the tree has one leaf for all of them, else one for each
 *
 * All cells hash into one table: a head for each bucket, then an overflow chain. Records of tasks
 * that have completed are dropped when a look-up finds them; completing a task changes nothing
 * here.
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
    REGION_LEVEL_FRAME = 0, /* level of the frames' own records; no region is that small */
    /* number of classes of box shapes in a frame; shapes of one class are equal when rounded up */
    REGION_CLASSES = 8,
    REGION_FRAME_CACHE = 16, /* entries of frame_cache, the recently used frames by hash */
    /* log2 of the entries of `known`, the boxes that are found by their descriptors */
    REGION_KNOWN_BITS = 10,
    REGION_JOINED_MIN = 8, /* a join replaces at least this many edges */
    REGION_JOIN_BITS = 5,  /* log2 of the entries of `join` */
    REGION_FRAMES_MAX = UINT16_MAX,
    REGION_BYTES_BITS = 6, /* log2 of the bytes of struct region */
    REGION_TABLE_START = 1024,
    REGION_TABLE_KEPT = 1 << 18, /* maximum number of entries kept between runs */
    /*
     * bytes; unit of the offsets and sizes of vectors
     */
    REGION_VECTOR_UNIT = 64,
    /*
     * position of the epoch in known_box.form: it replaces two flags that are 0 in every box there
     */
    REGION_EPOCH_SHIFT = 40,
};

enum region_flag {
    REGION_USED = 1,
    REGION_TANGLED = 2,       /* another record may overlap this one, so accesses have to search */
    REGION_CROSSING = 4,      /* the region extends into the next cell */
    REGION_SUPERSEDED = 8,    /* one of the readers waits for `writer`, so later writers need not */
    REGION_HAS_WRITERS = 16,  /* the vector contains writers */
    REGION_MORE_WRITERS = 32, /* the vector contains writers for which no recorded reader waits */
};

struct region {
    uint64_t start; /* first byte, or first element under simpler's rules */
    uint64_t length;
    struct ref writer;
    struct ref reader[REGION_READERS_INLINE];
    uint32_t last; /* number of the task that accessed the region last */
    uint32_t next; /* next record in the overflow chain of its bucket */
    /* list of further readers and writers, as an offset in units of 64 bytes; 0: none */
    uint32_t vector;
    union {
        struct {
            uint16_t reader_count : 2;
            uint16_t flags : 6; /* enum region_flag */
            uint16_t level : 6; /* level of its grid of intervals, or class of a box */
            uint16_t kind : 2;  /* enum region_kind */
        };
        uint16_t state; /* reader_count, flags, level and kind in one word */
    };
    uint16_t frame; /* frame of a box or of a frame's own record; 0: none */
};

static_assert(offsetof(struct region, frame) == offsetof(struct region, state) + 2,
              "region_tag loads both fields at once");

/*
 * Bit in `level`, in addition to the class, for boxes of a flat frame: the geometry (region_shape)
 * follows from the interval and was not computed yet.
 */
enum { REGION_IS_DERIVED = 32, REGION_CLASS = REGION_CLASSES - 1 };

/* Fields of region.state. */
enum {
    REGION_FLAGS_SHIFT = 2,
    REGION_LEVEL_SHIFT = 8,
    REGION_KIND_SHIFT = 14,
    REGION_STATE_KIND = 3 << REGION_KIND_SHIFT,
    /* Fields that are kept when all tasks that accessed the region have completed. */
    REGION_STATE_SHAPE = (REGION_USED | REGION_TANGLED | REGION_CROSSING) << REGION_FLAGS_SHIFT |
                         63 << REGION_LEVEL_SHIFT | REGION_STATE_KIND,
    /*
     * Fields that show whether a record is in use, untangled and contiguous: then only REGION_USED
     * is set.
     */
    REGION_STATE_KNOWN = (REGION_USED | REGION_TANGLED) << REGION_FLAGS_SHIFT | REGION_STATE_KIND,
};

/* Fields of a record that only a search needs. */
struct region_shape {
    struct geom geom;    /* unused for contiguous regions under the safe rules */
    uint32_t frame_next; /* next in the list of a frame's boxes */
    uint32_t frame_prev;
    /* index of the only entry of `known` that can name this record */
    uint32_t known;
    /* serial number of the record's leaf in the tree; matches no leaf if the record has none */
    uint32_t serial;
    /*
     * if the record is tangled: its readers wait for writers from this task on; 0: for all writers
     */
    uint32_t floor;
    /* slot of the join that stands for the writers before `floor`; 0: none */
    uint32_t join;
};

/*
 * Value of region_shape.join: the next reader makes a join, if its predecessors are still the same.
 */
#define REGION_JOIN_WANTED UINT32_MAX

/*
 * A box that is found by the bytes of its descriptor, which identify it; dimensions after the
 * second are compared with the record's geometry. While the entry is valid, the record belongs to
 * the box and is untangled, because code that changes the record removes the entry.
 */
struct known_box {
    uint64_t addr;
    uint64_t start;
    /*
     * ndims, dtype, flags and epoch; inverted if there are more than two dimensions; 0: free entry
     */
    uint64_t form;
    uint64_t shape;
    uint64_t extent;
    uint64_t stride;
    struct region *record;
    uint64_t reserved;
};

/*
 * A region that was read by a task with many predecessors. From the next reader on, a join stands
 * for those predecessors. Only used under simpler's rules, which do not record readers.
 */
struct region_join {
    struct geom geom;
    struct ref ref; /* the join; slot 0: not made yet */
    /*
     * readers also wait for each writer from this task on, because the join stands only for earlier
     * ones
     */
    uint32_t floor;
    uint32_t size; /* predecessors that the join stands for; 0: the entry is unused */
    /*
     * readers' edges to writers since the join was made; when they reach `size`, a new join is made
     */
    uint32_t extra;
};

struct region_class {
    uint8_t level[PTO_MAX_DIMS];
    /* a box of this class spans several cells, or did; stays set while the class is in use */
    uint8_t is_crossing;
    uint32_t count;
    uint64_t salt; /* added to the cell numbers of this class before they are hashed */
    uint32_t width[PTO_MAX_DIMS]; /* number of cells in each dimension */
    /* shape of the latest box of this class, which most boxes share */
    uint32_t shape[PTO_MAX_DIMS];
    uint64_t extent; /* extent of the latest box of this class */
};

/*
 * What the descriptors of all tiles of a frame have in common, and numbers derived from it. Only
 * for frames with two dimensions whose rows have no gaps.
 */
enum { REGION_TILE_FORM = 2 };
#define REGION_NO_FORM UINT64_MAX /* value that `form` of no tensor has */

struct region_tile {
    /*
     * addr, size, form, shape, extent and strides; form is REGION_NO_FORM if the frame has no tiles
     */
    uint64_t common[6];
    /* 2^64 / row length, rounded up: a multiplication replaces the division by the row length */
    uint64_t inverse;
    uint64_t start_max;
    uint64_t length; /* bytes */
    /* number added to the cell numbers of the tiles' class before they are hashed */
    uint64_t salt;
    uint32_t row_mask;
    /* a tile that starts at most this many rows into a cell also ends in it */
    uint32_t row_slack;
    uint32_t column_mask;
    uint32_t column_slack;
    uint32_t column_max; /* a tile that starts at a column up to this one also ends in its row */
    uint32_t width;      /* cells in a row */
    /* value of region.state, and above it of region.frame, for a tile that no live task accesses */
    uint32_t state;
    uint8_t row_level;
    uint8_t column_level;
    uint8_t elem_log;
};

struct region_frame {
    struct region_tile tile; /* common properties of the latest tiles */
    /* strides, base and size; `shape` is the number of indices in each dimension */
    struct geom geom;
    uint32_t population; /* number of boxes in the frame that have records */
    uint32_t first;      /* index of the first record in the list of the frame's boxes */
    uint32_t next_free;
    uint32_t class; /* class of the latest box, probably also of the next one */
    /* class of all boxes, if each lies in one cell and the frame is alone in its buffer; else 0 */
    uint32_t simple;
    uint32_t flat; /* equal to `simple` if there are two dimensions and rows have no gaps; else 0 */
    bool is_used;
    bool has_known; /* some of its boxes are in `known`, or were */
    /* when last checked, no record from outside of the frame overlapped its buffer */
    bool is_alone;
    bool has_leaf; /* one leaf of the tree stands for all boxes */
    /* each box has its own leaf; a frame with boxes has either is_spread or has_leaf */
    bool is_spread;
    uint32_t record; /* index of the frame's own record in the table */
    /* new boxes until region_try_one_leaf checks again whether one leaf is enough */
    uint32_t look_wait;
    struct region_class class_of[REGION_CLASSES];
};

/* The large arrays of the index. They are separate so that the small fields stay close together. */
struct region_tables {
    struct known_box known[1 << REGION_KNOWN_BITS];
    struct region_join join[1 << REGION_JOIN_BITS];
    /* A bit for each bucket that was used. Buckets of larger tables share bits. */
    uint64_t touched[REGION_TABLE_KEPT / 64];
};

struct regions {
    /* Written by the graph that embeds the index. */
    /* by slot: number of the task that has it, and where the slot is */
    const struct slot_info *info;
    uint32_t dead_before; /* all tasks with a lower number have completed */
    /* no task with this number or a higher one was submitted in a MANUAL scope */
    uint32_t ordered_from;
    enum pto_deps deps;
    bool may_join; /* joins may be made */
    /* indexed by tag: enum access if arguments with the tag have a quick path, else 0 */
    uint8_t quick[UINT8_MAX + 1];

    /* Written by the index itself. */
    struct region_tables *side_tables;
    /* number of the task being submitted, plus 1; set only where a record may enter the tree */
    uint32_t seq;
    struct region *table;
    struct region_shape *table_shape;
    uint64_t table_mask;     /* mask of a record's byte offset in the table */
    uint32_t table_count;    /* a power of two */
    uint64_t touched_count;  /* how often a free entry of the table was filled */
    struct region *overflow; /* index 0 is never used */
    struct region_shape *overflow_shape;
    uint32_t overflow_count;
    uint32_t overflow_free;
    uint32_t overflow_live;
    struct region_frame *frame;         /* index 0 is never used */
    const struct region_tile *tile_now; /* properties of the tiles that were looked up last */
    uint32_t frame_count;
    uint32_t frame_free;
    /* frame that the current access uses; it is not freed, even without boxes */
    uint32_t frame_pinned;
    uint32_t frame_cache[REGION_FRAME_CACHE];
    uint64_t level_length; /* length of the region whose level is level_now */
    uint32_t level_now;
    uint64_t level_mask; /* bit for each level of the interval index that has records */
    uint64_t top;        /* no record of this run extends above this address */
    uint32_t level_count[REGION_LEVELS];
    uint32_t level_crossing[REGION_LEVELS];
    uint32_t vector_free[32];
    uint64_t known_epoch; /* epoch of the valid entries of `known` */
    bool has_versions;    /* a tensor had a version other than 0 (simpler's rules) */
    bool is_indexed;      /* every interval has a leaf in the tree */
    bool is_short;        /* the tree ran out of memory */
    bool has_joins;       /* some entries of `join` are used */
    struct region_tree tree;
    uint32_t leaf_count; /* valid leaves of the tree; its other leaves are stale */
    uint32_t serial;     /* serial number of the latest leaf */
    uint32_t frame_near; /* frame of which a new interval is probably a row; 0: none */
    /*
     * list of frames that have lost all boxes, but may still be named by stale leaves of the tree
     */
    uint32_t frame_parked;
    uint32_t parked_count;
    uint32_t filled;    /* records made since the run began */
    uint32_t scan_next; /* value of `filled` at which has_intervals scans all records again */
    /* cells of the interval grids that were visited without finding a record */
    uint64_t vain_cells;
    struct pool table_pool;
    struct pool table_shape_pool;
    struct pool overflow_pool;
    struct pool overflow_shape_pool;
    struct pool frame_pool;
    struct pool vector_pool;
};

/* Readers and writers of a region for which its record has no room. */
struct region_vector {
    uint32_t count;
    uint32_t capacity;
    struct ref ref[];
};

enum region_ref_flag { /* bits of `slot` in a ref of a vector */
                       REGION_REF_WRITE = 1u << 31,
                       REGION_REF_SUPERSEDED = 1u << 30,
                       REGION_REF_SLOT = (1u << 30) - 1,
};

/* region_index.c */
/*
 * Makes t wait for conflicting tasks in other records, then finds or creates the record of the
 * argument's region. NULL: no record is needed, or *status_out has the error. May remove
 * ACCESS_REPLACE from *access.
 */
struct region *region_resolve(struct regions *x, struct slot *t, const struct pto_tensor *tensor,
                              uint32_t *access, int *status_out);
bool region_is_alive(struct regions *x, const struct region *e);
void region_remove(struct regions *x, struct region *e);
/* Returns a free entry of a bucket for a new record. NULL: out of memory. */
struct region *region_place(struct regions *x, uint32_t bucket);
/*
 * Fills a free entry with the record of a region; `level` is the class if the region has a frame.
 */
void region_fill(struct regions *x, struct region *e, const struct geom *geom, uint32_t frame,
                 uint32_t level);

/* regions.c */
/* Makes t wait for the conflicting tasks of one record that have number `since` or a higher one. */
int region_wait(struct regions *x, struct slot *t, struct region *e, uint32_t access,
                uint32_t since);
/* Whether a writer with number `since` or a higher one is recorded. */
bool region_has_writer_since(const struct regions *x, const struct region *e, uint32_t since);
/* Number of the latest reader; 0: none. */
uint32_t region_latest_reader(const struct regions *x, const struct region *e);
void region_forget_readers(struct regions *x, struct region *e);
/*
 * Returns the latest live task in one record that writes the region or, if `with_readers`, reads
 * it. Slot 0: none.
 */
struct ref region_latest_user(struct regions *x, const struct region *e, bool with_readers);
void region_drop_vector(struct regions *x, struct region *e);

/*
 * region_join.c: if a record has many readers, replaces them by a join, for which t and later tasks
 * wait.
 */
int region_join_readers(struct regions *x, struct slot *t, struct region *e);

/*
 * region_index.c: returns the shape of a record, after computing its geometry if it was not
 * computed yet.
 */
struct region_shape *region_shape(struct regions *x, struct region *e);
/*
 * Remembers the descriptor of an untangled box of a flat frame, so that boxes like it are found as
 * tiles.
 */
void region_note_tile(struct regions *x, const struct region *e, const struct pto_tensor *tensor);

static inline struct region_vector *region_vector(const struct regions *x, uint32_t vector)
{
    return (struct region_vector *)(void *)(x->vector_pool.base +
                                            (uint64_t)vector * REGION_VECTOR_UNIT);
}

/* Marks a record's bucket as used. */
static inline void region_touch(struct regions *x, const struct region *e)
{
    uint64_t at = (uint64_t)((const char *)e - (const char *)x->table);
    uint64_t bucket = at >> REGION_BYTES_BITS & (REGION_TABLE_KEPT - 1);

    if (at > x->table_mask)
        return; /* e is in the overflow array, where an entry is cleared when it is taken */
    x->side_tables->touched[bucket / 64] |= 1ull << bucket % 64;
    x->touched_count++;
}

/*
 * Whether a bucket may have records. False: it has none, and the caller avoids reading its first
 * entry, which may not be in the cache.
 */
static inline bool region_is_touched(const struct regions *x, uint32_t bucket)
{
    bucket &= REGION_TABLE_KEPT - 1;
    return (x->side_tables->touched[bucket / 64] >> bucket % 64 & 1) != 0;
}

/*
 * Whether the table has to grow: more than an eighth of its size is in overflow chains, and more
 * than half of it is in use. A table that is mostly empty does not grow: its chains are long because
 * records share a cell, so that more buckets would not help.
 */
static inline bool regions_are_crowded(const struct regions *x)
{
    return x->overflow_live * 8 > x->table_count &&
           2 * (x->touched_count + x->overflow_live) > x->table_count;
}

/*
 * Level of the grid of intervals whose cells are as long as the region, or less than twice as long.
 * The level of an empty region has no meaning.
 */
static inline uint32_t region_level(uint64_t length)
{
    uint64_t below = (length - 1) | ((1u << REGION_LEVEL_MIN) - 1);

    return (64 - (uint32_t)__builtin_clzll(below)) & (REGION_LEVELS - 1);
}

/*
 * Like region_level, but keeps the latest result: most regions are as long as the previous one, and
 * the bit scan is slow.
 */
static inline uint32_t region_level_now(struct regions *x, uint64_t length)
{
    if (__builtin_expect(length != x->level_length, 0)) {
        x->level_length = length;
        x->level_now = region_level(length);
    }
    return x->level_now;
}

/* Number of a cell of the address space. Adjacent cells have consecutive numbers. */
static inline uint64_t region_cell_number(uint64_t salt, uint32_t level, uint64_t cell)
{
    return cell + ((uint64_t)level << 32) + salt;
}

/*
 * Byte offset in the table of a cell's bucket. Cells with consecutive numbers have consecutive
 * buckets, so regions in address order use the table in that order. Occasional gaps in that
 * sequence keep regions in every 2^n-th cell out of one common bucket. When the table doubles, a
 * record stays in its bucket or moves up by the old size.
 */
static inline uint64_t region_cell_offset(const struct regions *x, uint64_t number)
{
    const uint64_t step = 0x109e3779bull; /* 1 + 0.618 / 16, as a fraction of 2^32 */

    return (number * step >> (32 - REGION_BYTES_BITS)) & x->table_mask;
}

/* Returns the first record of a cell's bucket. */
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

/*
 * Level (log2 of a cell's length) for boxes of this extent in one dimension: a cell is as long as
 * the box, or less than twice as long, and at most 2^31.
 */
static inline uint32_t region_box_level(uint32_t shape)
{
    uint32_t level = shape > 1 ? 32 - (uint32_t)__builtin_clz(shape - 1) : 0;

    return level < 32 ? level : 31;
}

/*
 * Returns the bucket of a cell in a frame's grid for a class. Boxes in one cell whose starts have
 * different remainders get distant buckets.
 */
static inline uint32_t region_box_bucket(const struct regions *x, const struct region_class *class,
                                         const uint32_t cell[], uint32_t ndims, uint32_t rest)
{
    uint64_t number = 0;

    for (uint32_t d = 0; d < ndims; d++)
        number = number * class->width[d] + cell[d];
    return region_cell_bucket(x, number + class->salt + ((uint64_t)rest << 32));
}

/* Offsets of 64-bit words in a descriptor; two dimensions fit into one word. */
enum {
    TENSOR_FORM = offsetof(struct pto_tensor, ndims),
    TENSOR_SHAPE = offsetof(struct pto_tensor, shapes),
    TENSOR_STRIDE = offsetof(struct pto_tensor, strides),
};

static_assert(TENSOR_SHAPE - TENSOR_FORM == sizeof(uint64_t),
              "one word has ndims, dtype and flags");
static_assert(offsetof(struct pto_tensor, manual_dep) - TENSOR_FORM == 5 &&
                  offsetof(struct pto_tensor, is_contiguous) - TENSOR_FORM == 6,
              "the epoch takes the place of two flags that no known box has");

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

/*
 * Called when boxes of the frame may no longer have one size: they are no longer looked up as
 * tiles.
 */
static inline void region_roughen(struct region_frame *f)
{
    f->simple = f->flat = 0;
    f->tile.common[REGION_TILE_FORM] = REGION_NO_FORM;
}

/*
 * Remembers the properties of the latest box, which the next one probably shares. `shape` is in the
 * order of the frame's strides.
 */
static inline void region_note_box(struct region_frame *f, uint32_t class,
                                   const struct pto_tensor *t, const uint32_t shape[])
{
    f->class = class;
    f->class_of[class].extent = t->extent;
    memcpy(f->class_of[class].shape, shape, sizeof(f->class_of[class].shape));
}

/*
 * Index in `known` for a box. Only the address of the first element is hashed: of boxes that share
 * it, which overlap, only one can be in `known`.
 */
static inline uint32_t region_known_place(const struct pto_tensor *t)
{
    uint64_t key = t->start * 0x2545f491 + t->addr;

    return (uint32_t)((key * 0x9e3779b97f4a7c15ull) >> (64 - REGION_KNOWN_BITS));
}

/* Removes the entry in `known` of a record that is about to change its region or become tangled. */
static inline void region_forget_known(struct regions *x, const struct region_shape *shape,
                                       const struct region *e)
{
    struct known_box *known = &x->side_tables->known[shape->known];

    if (known->record == e)
        known->form = 0;
}

static inline uint32_t *region_frame_cache(const struct regions *x, uint64_t base, uint32_t stride)
{
    return (uint32_t *)(uintptr_t)&x->frame_cache[((base ^ stride) * 0x9e3779b97f4a7c15ull) >> 60];
}

/* Returns the untangled record of a box whose descriptor is in `known`; NULL: none. */
static inline struct region *region_find_known(const struct regions *x,
                                               const struct pto_tensor *tensor)
{
    const struct known_box *known = &x->side_tables->known[region_known_place(tensor)];

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

/* Adds a box to `known`, so that its descriptor finds its record. */
static inline void region_make_known(struct regions *x, struct region *e,
                                     struct region_shape *shape, const struct pto_tensor *tensor)
{
    uint32_t place = region_known_place(tensor);
    uint64_t form = tensor_word(tensor, TENSOR_FORM) ^ x->known_epoch;
    struct known_box *known = &x->side_tables->known[place];

    /* a flat frame finds its boxes as tiles, which is quicker */
    if (x->frame[e->frame].flat != 0) {
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

/* Value of region.state for a contiguous region without accesses. */
static inline uint32_t region_dense_state(uint32_t level, bool is_crossing)
{
    return (REGION_USED | is_crossing * REGION_CROSSING) << REGION_FLAGS_SHIFT |
           level << REGION_LEVEL_SHIFT;
}

/* region.state in the lower half, region.frame in the upper half. */
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
