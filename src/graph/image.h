/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A built graph that can be launched again and again: its slots, copied out of
 * the builder's pools, with the successors of each task as a list of lines.
 * Nothing is linked, sealed or retired while it runs; whoever makes a task
 * ready puts its counter back to where it was, and whoever completes one what
 * else it has, so a launch has nothing to reset.
 *
 * What a launch goes through lies close together: one line for a plain task,
 * which is not written to, and a counter for each in an array of their own. Tasks lie
 * in an order in which they can be run: whoever is alone needs no counters.
 *
 * Pure, like all of this folder. The image lies in memory of the caller's, in
 * one piece, and its outputs in another; it is built and changed while nothing runs.
 */
#ifndef PTO_IMAGE_H
#define PTO_IMAGE_H

#include "graph/graph.h"

/* A descriptor or a predicate that lies in an entry tensor. */
struct image_patch {
    uint32_t line;
    uint16_t argument; /* IMAGE_PREDICATE: the operand */
    uint16_t entry;
    uint64_t offset; /* bytes from the entry tensor's address */
};

enum { IMAGE_PREDICATE = UINT16_MAX };

struct image {
    char *slots;         /* headers, from line 1 on; then tensors and scalars */
    uint32_t *successor; /* lines */
    struct a32 *counter; /* predecessors left, by line of the header: few lines for many tasks */
    uint32_t *task;      /* lines: the roots, last one first; the early ones; all others */
    uint32_t *line;      /* of each slot, by its number in the builder's books */
    struct image_patch *patch;
    struct passed_scalar *passed;
    uint64_t heap; /* where outputs are for those who run it */
    uint64_t slot_bytes;
    uint64_t heap_bytes;
    uint64_t edge_count;
    uint32_t number_count;
    uint32_t header_lines;
    uint32_t task_count;
    uint32_t submitted;   /* tasks, allocations included */
    uint32_t root_count;  /* tasks that wait for nothing */
    uint32_t early_count; /* the same, but they are settled before anything runs */
    bool has_teams;       /* of tasks that end on other threads */
    bool is_plain;        /* each task is one line, and runs one kernel or none */
    uint32_t patch_count;
    uint32_t passed_count;
    uint64_t bytes; /* of everything but the heap */
};

/*
 * What the graph needs as an image: fills the counts and `bytes`. The graph is
 * built and was not run.
 */
void image_measure(struct image *image, const struct graph *g, const struct pto_entry *entry);
/*
 * Fills the image in `memory`, which has image->bytes, aligned to 128. Outputs will be at `heap`,
 * aligned to GRAPH_OUTPUT_ALIGN; nothing is written there.
 */
void image_fill(struct image *image, const struct graph *g, const struct pto_entry *entry,
                char *memory, uint64_t heap);
/* Sets the pointers, which follow from the counts. Returns where it ends. */
char *image_lay_out(struct image *image, char *memory, uint64_t heap);
/* The task in *line, which becomes that of the next one; the first is in line 1. NULL: there is none. */
struct slot *image_next(const struct image *image, uint32_t *line);

/* What an image may name that was built elsewhere. */
struct image_limits {
    const struct graph_kernel *kernels;
    uint32_t kernel_count;
    uint32_t clusters;     /* of the chip */
    uint32_t tensor_count; /* of the entry */
    uint32_t scalar_count;
    const char *sites; /* places in the source, and their names, up to `end` */
    const char *end;
};

/* Whether every number in it leads to where it should. Its pointers are set. */
bool image_check(struct image *image, const struct image_limits *limits);
/* An address of the builder's heap, in the image's. Others stay. */
uint64_t image_moved(const struct image *image, const struct graph *g, uint64_t addr);
/* The tensor of the entry in which the address lies; -1: none. */
int32_t image_find_entry(const struct pto_entry *entry, uint64_t addr);
/* Calls `each` for what tasks use and is neither the entry's nor an output. */
void image_each_outside(const struct graph *g, const struct pto_entry *entry,
                        void (*each)(void *context, uint64_t addr, uint64_t bytes), void *context);
/* Calls `each` for every edge, with submission indices. */
void image_each_edge(const struct image *image,
                     void (*each)(void *context, uint32_t before, uint32_t after), void *context);
/* Lets descriptors and scalars name what the entry has now. */
void image_bind(struct image *image, const struct pto_entry *entry);
/* Makes the graph that of the image: the next run is a launch. */
void image_start(struct graph *g, const struct image *image, const struct graph_params *params);

#endif
