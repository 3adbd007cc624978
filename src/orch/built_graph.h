/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that are built once and launched many times. What the orchestration read
 * while it ran is part of the graph, so it is noted, and a launch for which it would
 * be different is refused.
 *
 * Pure: notes lie in pools of the orchestration's while the graph is built; what is
 * kept lies in memory of the driver's, which asks how much it has to be:
 *
 *     built_graph_record .. built_graph_measure, built_graph_fill
 *     then for each launch: built_graph_start
 *
 * One thread at a time: the one that leads the run.
 */
#ifndef PTO_LAUNCH_H
#define PTO_LAUNCH_H

#include "graph/image.h"
#include "orch/orch.h"

/* Bytes that the orchestration read or wrote itself, or an output that starts with a value. */
struct graph_fact {
    int32_t entry; /* tensor of the entry in which it lies; -1: `at` is an address */
    uint32_t dtype;
    uint64_t at;
    uint64_t bytes;
    uint64_t bits;
    uint64_t mask; /* of the bits that were not the orchestration's own */
};

struct graph_facts {
    struct graph_fact *fact;
    uint64_t count;
};

struct built_graph {
    struct image image;
    struct sharing_choice launches; /* whether they are shared */
    struct pto_entry built;         /* the entry with which it was built */
    uint64_t *bound_addr;           /* of the tensors that the image names now */
    uint64_t *bound_scalar;
    uint64_t varying[PTO_SCALAR_WORDS];  /* scalars that were declared to vary, as bits */
    uint64_t passed[PTO_SCALAR_WORDS];   /* scalars that tasks get as they are at a launch */
    bool has_guards;                     /* around its outputs */
    bool has_lost_fact;                  /* there was no memory for one */
    struct graph_facts list[ORCH_LISTS]; /* enum orch_list */
};

/* The orchestration is about to run: what it reads is to be noted. Fails the run if it may not. */
int built_graph_record(struct built_graph *b, struct orch *o, struct graph_params *params);
/* What the orchestration itself read or wrote. */
void built_graph_note_read(struct built_graph *b, struct orch *o, uint64_t addr, uint32_t bytes,
                           uint64_t bits);
void built_graph_note_write(struct built_graph *b, struct orch *o, uint64_t addr, uint32_t bytes,
                            uint64_t bits);
/* It asks for a scalar, which must not be one that varies: else the run fails. */
int built_graph_note_scalar(struct built_graph *b, struct orch *o, uint32_t index,
                            const struct pto_site *site);

/* The graph is built and nothing was run: the bytes that built_graph_fill needs. */
uint64_t built_graph_measure(struct built_graph *b, struct orch *o);
/*
 * Keeps the graph in `memory`, aligned to 128. Outputs will be at `heap`, which has the bytes that
 * the image says, aligned to GRAPH_OUTPUT_ALIGN; nothing is written there before a launch.
 */
void built_graph_fill(struct built_graph *b, struct orch *o, char *memory, uint64_t heap);

/* What was filled was copied to `memory`, and lies there now. */
void built_graph_move(struct built_graph *b, char *memory);
/*
 * A graph that was filled elsewhere now lies in `memory`: its counts and b->image.heap are right, or
 * it says in a few words what is not, and everything else is set. NULL: it can be launched. Behind it,
 * in the same bytes, are the sites of its tasks. Of the limits, what is the graph's own is filled in.
 */
const char *built_graph_take(struct built_graph *b, char *memory, uint64_t bytes,
                             struct image_limits limits);

/* Makes the graph that of the launch, or fails the run. Returns its status. */
int built_graph_start(struct built_graph *b, struct orch *o, const struct graph_params *params);

#endif
