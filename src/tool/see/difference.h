/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What changed between two runs, and whether it is more than noise.
 *
 * Executions of a kernel are compared with those of the kernel of equal name and, if both runs have
 * the same tasks, of equal shapes and scalars. Each set of executions is cut, in the order of time,
 * into batches. The medians and lower quartiles of batches show how much the run varied, and so how
 * far two equal runs may be apart. The limits are such that all comparisons of equal runs together
 * report a difference once in twenty times. A difference below a floor is ignored, because another
 * process on the machine may cause it. If most of three or more kernels changed by one factor, the
 * machine ran at another speed: kernels are compared after division by that factor. Virtual clocks
 * have no noise.
 */
#ifndef PTO_SEE_DIFFERENCE_H
#define PTO_SEE_DIFFERENCE_H

#include "tool/see/analysis.h"

/* Results of a comparison: X(name, key) */
#define SEE_CHANGE_MAP(X)                                                          \
    X(SAME, "same") /* the difference is no more than noise */                     \
    X(SLOWER, "slower")                                                            \
    X(FASTER, "faster")                                                            \
    X(UNKNOWN, "unknown") /* there are too few executions to estimate the noise */ \
    X(ADDED, "added")                                                              \
    X(REMOVED, "removed")

enum see_changed {
#define X(name, key) SEE_CHANGED_##name,
    SEE_CHANGE_MAP(X)
#undef X
        SEE_CHANGED_COUNT
};

enum { SEE_BEFORE, SEE_AFTER, SEE_RUNS };

struct see_diff_row {
    const char *name; /* name of a kernel, or "submission" or "scheduling" */
    bool is_kernel;
    enum see_changed changed;
    /* time after by time before and, for a kernel, by `machine`; 1: only one run has the row */
    double ratio;
    double spread; /* the row counts as changed if `ratio` differs from 1 by more than this */
    uint64_t count[SEE_RUNS];
    uint64_t median_ns[SEE_RUNS];
    uint64_t total_ns[SEE_RUNS];
    uint64_t path_ns[SEE_RUNS];
};

struct see_difference {
    const struct see_analysis *of[SEE_RUNS];
    struct see_diff_row *row; /* changed rows first, the largest change of time first */
    uint32_t count;
    double machine;       /* factor by which most kernels changed, taken for the machine's */
    uint32_t changed;     /* number of rows that are not SAME or UNKNOWN */
    bool has_means;       /* the runs have virtual clocks: `ratio` compares means, not medians */
    bool has_other_tasks; /* the runs differ in their numbers of tasks, executions or cores */
    char text[512];       /* summary in one line */
};

/* Returns the mean or the median duration of a row, whichever its ratio compares. */
double see_diff_ns(const struct see_difference *d, const struct see_diff_row *row, int run);
const char *see_changed_key(enum see_changed changed);
/* Compares two runs. Returns PTO_OK or PTO_ENOMEM. */
int see_difference_make(const struct see_analysis *before, const struct see_analysis *after,
                        struct see_difference *out);
void see_difference_free(struct see_difference *d);

#endif
