/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that are built once and launched many times. What the orchestration read
 * while it ran is part of the graph, so it is noted, and a launch for which it would
 * be different is refused.
 *
 * Pure: notes lie in pools of the orchestration's while the graph is built; what is
 * kept lies in memory of the driver's, which asks how much it has to be:
 *
 *     launch_record .. launch_measure, launch_fill, launch_outside_bytes, launch_keep_outside
 *     then for each launch: launch_start
 *
 * One thread at a time: the one that leads the run.
 */
#ifndef PTO_LAUNCH_H
#define PTO_LAUNCH_H

#include "graph/image.h"
#include "orch/orch.h"

/* Bytes that the orchestration read or wrote itself, or an output that starts with a value. */
struct launch_note {
    int32_t entry; /* tensor of the entry in which it lies; -1: `at` is an address */
    uint32_t dtype;
    uint64_t at;
    uint64_t bytes;
    uint64_t bits;
    uint64_t mask; /* of the bits that were not the orchestration's own */
};

struct launch_list {
    struct launch_note *note;
    uint64_t count;
};

enum { SCALAR_PASSED = 1, SCALAR_READ = 2 };

struct launch {
    struct image image;
    struct sharing_choice launches; /* whether they are shared */
    struct pto_entry built;         /* the entry with which it was built */
    uint64_t *bound_addr;           /* of the tensors that the image names now */
    uint64_t *bound_scalar;
    uint8_t scalar_use[PTO_ENTRY_SCALARS_MAX];
    bool has_lost_note;                  /* there was no memory for one */
    struct launch_list list[ORCH_LISTS]; /* enum orch_list */
};

/* The orchestration is about to run: everything that it reads is to be noted. */
void launch_record(struct launch *l, struct orch *o, struct graph_params *params);
/* What the orchestration itself read or wrote. */
void launch_note_read(struct launch *l, struct orch *o, uint64_t addr, uint32_t bytes,
                      uint64_t bits);
void launch_note_write(struct launch *l, struct orch *o, uint64_t addr, uint32_t bytes,
                       uint64_t bits);
void launch_note_scalar(struct launch *l, uint32_t index);
/* It looked into the entry by itself: any of the scalars may matter. */
void launch_note_scalars(struct launch *l, const struct orch *o);

/* The graph is built and nothing was run: the bytes that launch_fill needs. */
uint64_t launch_measure(struct launch *l, struct orch *o);
/* Keeps the graph in `memory`, which is aligned to GRAPH_OUTPUT_ALIGN. */
void launch_fill(struct launch *l, struct orch *o, char *memory);
/* Memory that the graph names by itself is kept as a list, in order, in so many bytes. */
uint64_t launch_outside_bytes(const struct launch *l);
void launch_keep_outside(struct launch *l, void *memory);

/* Makes the graph that of the launch, or fails the run. Returns its status. */
int launch_start(struct launch *l, struct orch *o, const struct graph_params *params);

#endif
