/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph in which the search for races works: nodes in submission order, their accesses, and the
 * regions of memory that these use.
 */
#ifndef PTO_SEE_RACE_GRAPH_H
#define PTO_SEE_RACE_GRAPH_H

#include "tool/see/byte_view.h"
#include "tool/see/precedence.h"
#include "tool/see/races.h"

struct race_access {
    uint32_t node;
    uint32_t region;
    /*
     * index of the access in the recording's array `element`; PTO_RECORDING_NONE: the access is by
     * an argument of the node's task
     */
    uint32_t element;
    int16_t argument;
    uint8_t use; /* enum see_use */
    /*
     * This access cannot race, because an argument only declares it and the recording has what the
     * kernel really used. The orchestration may still wait for it.
     */
    bool only_orders;
    uint32_t touch; /* has the meaning of the field with the same name in struct see_race_side */
};

/* A set of bytes that accesses use, and the regions that overlap it, itself included. */
struct race_region {
    struct see_byte_view view;
    /*
     * Address space of the region: the run, shifted by 32 bits, plus 0 for external memory, or 1 +
     * the allocation, because addresses are reused. Regions of different spaces do not overlap.
     */
    uint64_t space;
    uint32_t next; /* next region in the same bucket of the hash table; PTO_RECORDING_NONE: none */
    uint64_t near; /* index of the first overlapping region in race_graph.near */
    uint32_t near_count;
};

/* A buffer that a task created; lo == hi: unknown. */
struct race_buffer {
    uint64_t lo, hi;
    uint32_t task; /* the first task with the buffer as an argument */
};

/* A part of an invocation between two of its signals. */
struct race_segment {
    uint32_t id; /* as in struct see_touch */
    uint32_t node;
};

struct race_graph {
    const struct see_recording *r;
    uint32_t group;
    uint32_t node_count;
    /*
     * for each node: its task; for an access by the orchestration, the next task that was submitted
     */
    uint32_t *task;
    /*
     * for each node: the orchestration's access, as an index of the recording's array `element`;
     * PTO_RECORDING_NONE: the node is a task
     */
    uint32_t *element;
    /*
     * A task whose kernels signalled has a node for its begin, one for each segment, and one for
     * its end; each node has the begin of its task, and each begin the end. Others are their own.
     */
    uint32_t *begin, *last;
    struct race_segment *segment; /* sorted by id */
    uint32_t segment_count;
    struct race_access *access; /* accesses, sorted by node */
    uint32_t access_count;
    struct race_region *region;
    uint32_t region_count, region_max;
    struct race_buffer *buffer; /* indexed by the allocation's number in the recording */
    uint32_t *bucket;           /* hash table of regions by their bytes */
    uint32_t bucket_count;
    uint32_t *near;
    uint64_t near_count, near_max;
    struct see_precedence order; /* precedence of nodes */
};

/* Makes the graph. Returns PTO_OK or PTO_ENOMEM; race_graph_free must follow in both cases. */
int see_race_graph_make(struct race_graph *g, const struct see_recording *r, uint32_t group);
void see_race_graph_free(struct race_graph *g);
/*
 * race_order.c: makes the precedence of the nodes. If there are segments, it gives the nodes other
 * numbers, so that each comes after its predecessors, and sorts the accesses again. Returns PTO_OK or PTO_ENOMEM.
 */
int see_race_order_make(struct race_graph *g);
/* Compares two struct race_segment by their ids, for qsort. */
int see_race_compare_segments(const void *a, const void *b);
/* Returns the size of the graph in memory, in bytes. */
uint64_t see_race_graph_bytes(const struct race_graph *g);

#endif
