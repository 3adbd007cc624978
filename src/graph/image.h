/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A built graph that can be launched many times: its slots, copied out of the builder's pools, with
 * the successors of each task as a list of lines. Nothing is linked, sealed or retired while it
 * runs. The thread that makes a task ready resets its counter, and the thread that completes a task
 * resets its other fields, so a launch has nothing to reset.
 *
 * Memory that a launch reads is compact: a plain task has one line, which is not written, and its
 * counter in an array. Tasks are stored in an order in which they can run, so a worker that runs
 * alone needs no counters.
 *
 * Pure, like all of this folder. The image lies in one piece of memory that belongs to the caller,
 * and its outputs in another; it is built and changed while nothing runs.
 */
#ifndef PTO_IMAGE_H
#define PTO_IMAGE_H

#include "graph/graph.h"

/*
 * An address that a slot contains and that lies in a tensor of the entry, so that each launch
 * replaces it. The slot contains it in an argument's descriptor or in its predicate.
 */
struct image_patch {
    uint32_t line;
    uint16_t argument; /* index of the argument; IMAGE_PREDICATE: the predicate's operand */
    uint16_t entry;
    uint64_t offset; /* bytes from the entry tensor's address */
};

enum { IMAGE_PREDICATE = UINT16_MAX };

struct image {
    char *slots;         /* headers of slots, from line 1 on; after them payloads */
    uint32_t *successor; /* lines of the successors, task after task */
    /*
     * predecessors that have not completed, by line of the task's header; outside of the headers so
     * that many counters share a cache line
     */
    struct a32 *counter;
    /* lines of slots in three parts: the roots, last one first; the early roots; all other tasks */
    uint32_t *task;
    uint32_t *line; /* line of each slot, by its number in the graph that was built */
    struct image_patch *patch;
    struct passed_scalar *passed;
    uint64_t heap; /* address of the outputs on the chip that runs the image */
    uint64_t slot_bytes;
    uint64_t heap_bytes;
    uint64_t edge_count;
    uint32_t number_count;
    uint32_t header_lines;
    uint32_t task_count;
    uint32_t submitted;  /* number of submits in the built graph, allocations included */
    uint32_t root_count; /* roots, which are tasks without predecessors; without the early ones */
    /*
     * early roots: they have a predicate or are a team, and a launch decides about them before
     * anything runs
     */
    uint32_t early_count;
    bool has_teams; /* some tasks are teams, whose invocations end on other threads */
    bool is_plain;  /* each task is one line, and runs one kernel or none */
    uint32_t patch_count;
    uint32_t passed_count;
    uint64_t bytes; /* size of the image without its outputs */
};

/*
 * Computes the counts and `bytes` that the image of a built graph will have. The graph must not
 * have run.
 */
void image_measure(struct image *image, const struct graph *g, const struct pto_entry *entry);
/*
 * Fills the image in `memory`, which has image->bytes bytes, aligned to 128. Descriptors will point
 * to outputs at `heap`, aligned to GRAPH_OUTPUT_ALIGN; the outputs themselves are not touched.
 */
void image_fill(struct image *image, const struct graph *g, const struct pto_entry *entry,
                char *memory, uint64_t heap);
/*
 * Sets the pointers of the image, which follow from its counts. Returns the end of its last array.
 */
char *image_lay_out(struct image *image, char *memory, uint64_t heap);
/*
 * Returns the slot that starts in line *line, and sets *line to that of the next slot; start with
 * 1. NULL: no more slots.
 */
struct slot *image_next(const struct image *image, uint32_t *line);

/* What an image that was built elsewhere may refer to. */
struct image_limits {
    const struct graph_kernel *kernels;
    uint32_t kernel_count;
    uint32_t clusters;     /* clusters of the chip */
    uint32_t tensor_count; /* tensors of the entry */
    uint32_t scalar_count;
    const char *sites; /* source locations of submits and their file names, up to `end` */
    const char *end;
};

/* Whether every number in the image is valid. Called after image_lay_out. */
bool image_check(struct image *image, const struct image_limits *limits);
/*
 * Converts an address in the builder's outputs to one in the image's. Other addresses are returned
 * unchanged.
 */
uint64_t image_moved(const struct image *image, const struct graph *g, uint64_t addr);
/* Index of the entry's tensor in which the address lies; -1: none. */
int32_t image_find_entry(const struct pto_entry *entry, uint64_t addr);
/*
 * Calls `each` for every piece of memory that tasks use and that is neither in the entry nor an
 * output.
 */
void image_each_outside(const struct graph *g, const struct pto_entry *entry,
                        void (*each)(void *context, uint64_t addr, uint64_t bytes), void *context);
/* Calls `each` for every edge, with submission indices. */
void image_each_edge(const struct image *image,
                     void (*each)(void *context, uint32_t before, uint32_t after), void *context);
/* Writes the current addresses and scalars of the entry into the slots. */
void image_bind(struct image *image, const struct pto_entry *entry);
/* Makes the image the current graph: the next run is a launch. */
void image_start(struct graph *g, const struct image *image, const struct graph_params *params);

#endif
