/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures for `pto bench`: nanoseconds per empty task for patterns, layouts and numbers of
 * workers, the latency of a run of one task, and the round trip of a cache line between two CPUs as
 * a yardstick of the machine. One thread; the caller owns the results.
 */
#ifndef PTO_BENCH_MEASURE_H
#define PTO_BENCH_MEASURE_H

#include "tool/bench/bench_patterns.h"

enum {
    BENCH_WORKER_COUNTS_MAX = 2,
    BENCH_ROWS_MAX = PATTERN_COUNT * LAYOUT_COUNT * BENCH_WORKER_COUNTS_MAX,
    BENCH_REPEAT_MAX = 100,
    BENCH_TASKS_MAX = 10000000
};

/* API by which tasks are submitted, and ordering rules of the run. */
enum bench_way {
    BENCH_OWN,    /* pto/orch.h with our rules */
    BENCH_RULES,  /* pto/orch.h with simpler's rules */
    BENCH_COMPAT, /* include/simpler/ with simpler's rules */
    BENCH_WAYS
};

struct bench_settings {
    uint32_t tasks;
    uint32_t repeat;
    uint32_t one_task_runs;
    int pattern; /* enum pattern, or -1: all */
    int layout;  /* enum layout, or -1: all */
    /* whether to measure simpler's API and rules as well; if not, only BENCH_OWN is measured */
    bool is_compared;
    uint32_t worker_count_count;
    uint32_t worker_counts[BENCH_WORKER_COUNTS_MAX];
};

struct bench_row {
    enum pattern pattern;
    enum layout layout;
    uint32_t workers;
    uint32_t samples;                        /* number of repetitions that were completed */
    double ns[BENCH_WAYS][BENCH_REPEAT_MAX]; /* time per task of each repetition */
    uint64_t executions;                     /* executions in all repetitions */
    uint64_t stolen;
};

/* Results of `pto bench`. A result that is missing is NaN or has no samples. */
struct bench_results {
    uint32_t row_count;
    struct bench_row row[BENCH_ROWS_MAX];
    double one_task_p50_us;
    double one_task_p99_us;
    /* round trip of a cache line between two CPUs, measured before everything else */
    double pingpong_before_ns;
    double pingpong_after_ns;
    bool is_interrupted;
};

/* Runs all measurements. Returns 0, or a negative status after a sentence on stderr. */
int bench_measure(const struct bench_settings *settings, struct bench_results *results_out);

/* Makes bench_measure return soon with the results so far. Safe in a signal handler. */
void bench_interrupt(void);

/*
 * Returns the quantile `q`, from 0 to 1, of the values, which are sorted by the call. Returns NaN
 * if there are no values.
 */
double bench_quantile(double *values, uint32_t count, double q);

#endif
