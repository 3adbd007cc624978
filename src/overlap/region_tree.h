/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An R-tree over the bounds of regions, which may include more than bytes. Every entry has the
 * interval of bytes of everything below it. If all of that belongs to one frame (regions.h), the
 * entry also has the ranges of indices in the frame's dimensions: the intervals of adjacent boxes
 * interleave, and only their indices separate them. Nothing here depends on sizes or shapes.
 *
 * A leaf has a number that the caller chooses, and a serial number from which the caller sees that
 * the number now belongs to another region. A search drops such leaves; bounds only grow until the
 * tree is rebuilt.
 *
 * Nodes come from a pool; used by the submitting thread only.
 */
#ifndef PTO_REGION_TREE_H
#define PTO_REGION_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "port/pool.h"
#include "pto/tensor.h"

enum {
    TREE_FANOUT = 16,
    TREE_DIMS = PTO_MAX_DIMS + 1, /* dimensions, and the remainder of the start */
    TREE_DEPTH_MAX = 32,
};

/* Values of `frame` that are not a frame's index. */
#define TREE_MIXED 0u         /* entries of several frames: only bytes count */
#define TREE_PLAIN UINT32_MAX /* an interval, which can be converted to indices of any frame */
/* like TREE_PLAIN, but after the conversion only the first dimension's index is limited */
#define TREE_LOOSE (UINT32_MAX - 1u)

/* Bounds of an entry. */
struct tree_bounds {
    uint64_t lo;
    uint64_t hi; /* end of the bytes, exclusive */
    /*
     * number of the latest task that accessed anything below the entry; may be too high, never too
     * low
     */
    uint32_t last;
    uint32_t frame;
    /*
     * number of ranges in min and max: dimensions of the frame, and one for the remainder; 0: no
     * frame
     */
    uint32_t dims;
    uint32_t min[TREE_DIMS];
    uint32_t max[TREE_DIMS]; /* largest index in each dimension, inclusive */
};

/*
 * Node of the tree. Fields that a search reads come first, because its nodes are often not in the
 * cache.
 */
struct tree_node {
    uint32_t count;
    uint32_t height; /* 0: a leaf node */
    uint32_t next_free;
    uint8_t dims[TREE_FANOUT];
    uint32_t reserved[9];
    uint32_t frame[TREE_FANOUT];
    struct {
        uint32_t min[TREE_FANOUT];
        uint32_t max[TREE_FANOUT];
    } in[TREE_DIMS];
    uint32_t last[TREE_FANOUT];
    uint32_t child[TREE_FANOUT];  /* index of a node; in a leaf node, the caller's number */
    uint32_t serial[TREE_FANOUT]; /* the caller's serial number; leaf nodes only */
    uint64_t lo[TREE_FANOUT];
    uint64_t hi[TREE_FANOUT];
};

struct region_tree {
    struct tree_node *node; /* index 0 is never used */
    uint32_t node_count;
    uint32_t free;
    uint32_t root; /* 0: the tree is empty */
    uint32_t leaves;
    struct pool pool;
    /*
     * Converts the bounds of an interval (TREE_PLAIN or TREE_LOOSE) to indices of a frame: sets all
     * fields but lo and hi. The indices of overlapping intervals overlap as well.
     */
    void (*convert)(void *context, uint32_t frame, struct tree_bounds *bounds);
    void *context;
};

struct tree_probe {
    struct tree_bounds bounds;
    /*
     * Called for each leaf whose bounds overlap the probe's. Returns false if the tree shall drop
     * the leaf. Must not change a tree.
     */
    bool (*visit)(struct tree_probe *p, uint32_t leaf, uint32_t serial);
    /* leaves whose latest access is by a task before this one are skipped */
    uint32_t since;
    bool is_skipped; /* set by the search: a leaf was skipped because of `since` */
    bool is_over;    /* `visit` sets it to end the search */
    /* the probe's bounds as indices of one frame: the one for which they were converted last */
    struct tree_bounds converted;
};

/* Makes an empty tree. False: out of memory. */
bool region_tree_clear(struct region_tree *tree);
/* Adds a leaf. False: out of memory, and the tree must not be used any more. */
bool region_tree_insert(struct region_tree *tree, const struct tree_bounds *bounds, uint32_t leaf,
                        uint32_t serial);
/* Raises `last` of the leaf that has these bounds to bounds->last. */
void region_tree_touch(struct region_tree *tree, const struct tree_bounds *bounds, uint32_t leaf);
/* Calls `visit` for every leaf that may overlap the probe's bounds. */
void region_tree_search(struct region_tree *tree, struct tree_probe *p);

/*
 * Changes the numbers of leaves: `moved` sets the new number, or returns false for a leaf to drop.
 */
void region_tree_renumber(struct region_tree *tree,
                          bool (*moved)(void *context, uint32_t *leaf, uint32_t serial),
                          void *context);

#endif
