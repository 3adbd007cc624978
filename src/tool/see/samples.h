/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of durations of a run, in the order of time, to compare them with those of another run.
 * There is a set for each kernel and key (see struct see_task: tasks with equal shapes and scalars
 * share a key), one for the times between two submits, and one for the delays between the time when
 * an execution could have begun and its begin.
 */
#ifndef PTO_SEE_SAMPLES_H
#define PTO_SEE_SAMPLES_H

#include "tool/see/chip_work.h"

enum { SEE_SET_SUBMITS = -1, SEE_SET_STARTS = -2 };

struct see_set {
    int64_t kernel; /* index of the kernel, or SEE_SET_SUBMITS or SEE_SET_STARTS */
    uint64_t *ns;
    uint32_t count;
};

struct see_samples {
    struct see_set *set; /* sorted by kernel, then by first occurrence */
    uint32_t count;
    uint64_t *room;
};

/* The difference of two sets of durations, and how certain it is. */
struct see_gap {
    double difference; /* relative difference; the first set is 1 */
    double variance;   /* variance of `difference` */
    double freedom;    /* degrees of freedom of that variance */
    bool is_known;     /* whether both sets are large enough for a judgement */
};

/* Makes the sets of a run. Returns PTO_OK or PTO_ENOMEM. */
int see_samples_make(const struct see_work *w, struct see_samples *out);
void see_samples_free(struct see_samples *s);
/* Computes the difference of two sets. Returns PTO_OK or PTO_ENOMEM. */
int see_samples_gap(const struct see_set *before, const struct see_set *after, struct see_gap *out);
/* Returns `count` adjacent sets of one kernel as one set. */
struct see_set see_samples_join(const struct see_set *set, uint32_t count);
/*
 * Returns the limit, in standard errors, that the largest of `tests` differences between equal runs
 * exceeds once in twenty times.
 */
double see_samples_limit(uint32_t tests, double freedom);

#endif
