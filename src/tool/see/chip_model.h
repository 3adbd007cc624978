/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model that repeats a recorded run with the list scheduler: it has the graph, the chip, the
 * costs of scheduling, and the durations of executions with their spread. Predictions are compared
 * with the model's own makespans, never with the recorded one, so that what the model leaves out
 * cancels.
 *
 * In a recording by a wall clock, each duration is replaced by the median of the executions with
 * equal keys, because a single execution may include a time in which its thread had no CPU.
 * Durations by a virtual clock are used as recorded.
 */
#ifndef PTO_SEE_CHIP_MODEL_H
#define PTO_SEE_CHIP_MODEL_H

#include "tool/see/idle_time.h"
#include "tool/see/list_schedule.h"

enum {
    SEE_SEEDS = 16, /* number of predictions for the band of makespans */
    /* number of predictions for each hypothetical change; odd, so that the median is one of them */
    SEE_ROW_SEEDS = 15,
    SEE_CLUSTERS_MAX = 4096,
    SEE_SEEDS_TEXT_MAX = 128,
};

/*
 * The durations of one kernel in all tasks with the same kernels, block count, shapes and scalars
 * (the same key of struct see_task).
 */
struct see_spread {
    uint64_t median_ns;
    /* deviation relative to the median; computed from quartiles, which ignore outliers */
    double deviation;
    uint32_t count;
};

struct see_model {
    const struct see_work *w;
    struct see_jobs jobs;
    struct see_scheduler *scheduler;
    struct see_machine machine; /* the recorded chip, with estimated scheduling costs */
    struct see_spread *spread;  /* spread of each key and lane, at index key * 3 + lane */
    /* scratch memory: the duration of each slice of the group in the current prediction */
    uint64_t *slice_ns;
    uint64_t *ns;
    bool has_exact_durations;
    /* number of predictions for each change: SEE_ROW_SEEDS, or fewer for large graphs */
    uint32_t seeds;
    uint64_t recorded_ns;  /* recorded makespan */
    uint64_t repeated_ns;  /* makespan of the model with the recorded durations */
    uint64_t predicted_ns; /* median makespan of the model over all seeds */
    uint64_t band_ns[2];   /* smallest and largest makespan over all seeds */
};

/* A change of the model whose effect is to be predicted. A struct of zeros changes nothing. */
struct see_change {
    const double *scale; /* factor for the durations of each kernel; NULL: all are 1 */
    /* for each pair of tasks: 1 if its edges are removed; NULL: no edge is removed */
    const uint8_t *is_cut;
    uint32_t clusters;    /* number of clusters; 0: as recorded */
    bool has_all_threads; /* whether there is a host thread for each core */
    bool has_no_dispatch;
    bool has_no_submits;
    bool has_no_edges;
};

/* Returns PTO_OK or PTO_ENOMEM. The model must not be copied: its scheduler points into it. */
int see_model_make(const struct see_work *w, const struct see_idle *idle, struct see_model *m);
void see_model_free(struct see_model *m);
/*
 * Returns the median makespan after the change over the model's seeds; `band_ns` gets the smallest
 * and the largest one.
 */
uint64_t see_model_predict(struct see_model *m, const struct see_change *change,
                           uint64_t band_ns[2]);
/* Returns the number of predictions per change for a run with this number of executions. */
uint32_t see_model_seeds(uint64_t executions);
/* Formats, for a table, how many predictions a row is the median of; returns `text`. */
char *see_model_seeds_text(const struct see_model *m, char text[SEE_SEEDS_TEXT_MAX]);
/* Returns the makespan with the change, predicted from the recorded durations. */
uint64_t see_model_repeat(struct see_model *m, const struct see_change *change);
/*
 * Returns the makespan with the change, from the recorded durations, except that every execution of
 * `task` takes `ns`.
 */
uint64_t see_model_repeat_with(struct see_model *m, const struct see_change *change, uint32_t task,
                               uint64_t ns);
/* Returns the length of the longest path through the changed graph, from the recorded durations. */
uint64_t see_model_path(struct see_model *m, const struct see_change *change);
/* Returns the spread of executions that have the key and the lane of this slice. */
const struct see_spread *see_model_spread(const struct see_model *m, uint64_t slice);

#endif
