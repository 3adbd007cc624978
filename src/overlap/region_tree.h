/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree over what regions reach: an R-tree whose nodes know more than bytes.
 *
 * Every entry has the interval of bytes that is below it. Where all of that is
 * of one frame (regions.h), it also has the ranges of indices in that frame's
 * dimensions: boxes that lie side by side have intervals that interleave, and
 * only their indices keep them apart. Nothing here depends on sizes or shapes.
 *
 * A leaf is a number that the caller chose, and a serial number by which he knows
 * an entry whose record has become another one. Such entries are dropped when
 * they are met; bounds only grow until the tree is made anew.
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
    TREE_DIMS = PTO_MAX_DIMS + 1, /* and what is left of the start */
    TREE_DEPTH_MAX = 32,
};

/* Values of `frame` that are not a frame's index. */
#define TREE_MIXED 0u         /* several frames: only bytes count */
#define TREE_PLAIN UINT32_MAX /* intervals, which any frame can put in terms of its indices */
#define TREE_LOOSE (UINT32_MAX - 1u) /* the same, but for all indices except the first */

/* What an entry reaches. */
struct tree_bounds {
    uint64_t lo;
    uint64_t hi;   /* exclusive */
    uint32_t last; /* number of the latest access, or a higher one */
    uint32_t frame;
    uint32_t dims; /* of that frame, and one for the rest; 0 without a frame */
    uint32_t min[TREE_DIMS];
    uint32_t max[TREE_DIMS]; /* inclusive */
};

/* What a search looks at comes first: it meets nodes that no cache has. */
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
    uint32_t child[TREE_FANOUT];  /* a node; in a leaf node, the caller's number */
    uint32_t serial[TREE_FANOUT]; /* in a leaf node */
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
     * Puts an interval, which is TREE_PLAIN or TREE_LOOSE, in terms of a frame's
     * indices: sets all but lo and hi. Intervals that meet still do.
     */
    void (*convert)(void *context, uint32_t frame, struct tree_bounds *bounds);
    void *context;
};

struct tree_probe {
    struct tree_bounds bounds;
    /* Called for each leaf whose bounds meet; false: it is to be dropped. It changes no tree. */
    bool (*visit)(struct tree_probe *p, uint32_t leaf, uint32_t serial);
    uint32_t since;               /* leaves whose latest access is older do not matter */
    bool is_skipped;              /* there were such leaves */
    bool is_over;                 /* set by `visit`: nothing else matters */
    struct tree_bounds converted; /* the bounds in terms of the frame that was met last */
};

/* Makes an empty tree. False: memory has run out. */
bool region_tree_clear(struct region_tree *tree);
/* False: memory has run out, and the tree is not to be used any more. */
bool region_tree_insert(struct region_tree *tree, const struct tree_bounds *bounds, uint32_t leaf,
                        uint32_t serial);
/* An access of a leaf, whose bounds these are. */
void region_tree_touch(struct region_tree *tree, const struct tree_bounds *bounds, uint32_t leaf);
/* Visits every leaf that the probe's bounds can meet. */
void region_tree_search(struct region_tree *tree, struct tree_probe *p);

/* Leaves got other numbers: `moved` gives the new one, or false for one that is to be dropped. */
void region_tree_renumber(struct region_tree *tree,
                          bool (*moved)(void *context, uint32_t *leaf, uint32_t serial),
                          void *context);

#endif
