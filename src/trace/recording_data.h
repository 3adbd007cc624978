/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Per-task data and edges derived from the records of a run, for the exporters whose files explain
 * a run. Not thread-safe. A recording points to the trace_slices that it was made from, and owns
 * its arrays.
 */
#ifndef PTO_TRACE_RECORDING_DATA_H
#define PTO_TRACE_RECORDING_DATA_H

#include "pto/recording.h"
#include "trace/snapshot.h"

/*
 * When a task was submitted, became ready and ended. Times are those of the machine's monotonic
 * clock, or PTO_RECORDING_NO_TIME.
 */
struct recording_task {
    uint64_t submit_ns;
    /* time at which it became ready; PTO_RECORDING_NO_TIME: it was ready when submitted */
    uint64_t ready_ns;
    uint64_t end_ns;   /* time at which it ended; PTO_RECORDING_NO_TIME: with its last slice */
    uint32_t ready_by; /* index of the predecessor whose end made it ready, or PTO_RECORDING_NONE */
    uint32_t flags;    /* bits of enum pto_recording_flag */
    uint32_t key;
};

/* Properties that all tasks with one key share. */
struct recording_key {
    uint64_t hash; /* hash of the arguments, the kernels and the block count */
    uint32_t kernel[3];
    uint32_t blocks;
};

struct recording_edge {
    uint32_t from, to;
    int16_t from_argument, to_argument;
    uint8_t reason; /* enum pto_recording_reason */
    bool is_wired;
};

struct recording {
    const struct trace_slices *slices;
    struct recording_task *task; /* one for each task, by submission index */
    struct recording_key *key;
    uint32_t key_count;
    struct recording_edge *edge; /* sorted by successor, then predecessor */
    uint64_t edge_count;
    uint64_t edges_lost;
    bool has_edges; /* `edge` includes the edges that the ordering rules ask for */
};

/* Makes a recording from the slices of a run. Returns PTO_OK or PTO_ENOMEM. */
int recording_make(const struct trace_slices *slices, struct recording *out);
void recording_free(struct recording *r);

/*
 * recording_rules.c: adds the edges that the rules ask for. Requires that the arguments of all
 * tasks were recorded.
 */
int recording_apply_rules(struct recording *r);
/*
 * recording_edges.c: collects the edges that the engine created and, if the arguments of all tasks
 * were recorded, those that the rules ask for. Returns PTO_OK or PTO_ENOMEM.
 */
int recording_find_edges(struct recording *r);

#endif
