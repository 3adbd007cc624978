/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `pto bench` measures: nanoseconds per empty task for patterns, layouts
 * and numbers of workers, the latency of a run of one task, and a cache line's
 * way between two CPUs as a yardstick for the machine. One thread; the results
 * belong to the caller.
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

/* Who submits, and by which rules the tasks are ordered. */
enum bench_way {
    BENCH_OWN,   /* pto/orch.h, ours */
    BENCH_RULES, /* pto/orch.h, simpler's */
    BENCH_DOOR,  /* include/simpler/, simpler's */
    BENCH_WAYS
};

struct bench_settings {
    uint32_t tasks;
    uint32_t repeat;
    uint32_t one_task_runs;
    int pattern;      /* enum pattern, or -1: all */
    int layout;       /* enum layout, or -1: all */
    bool is_compared; /* with simpler's API and rules; else there is BENCH_OWN only */
    uint32_t worker_count_count;
    uint32_t worker_counts[BENCH_WORKER_COUNTS_MAX];
};

struct bench_row {
    enum pattern pattern;
    enum layout layout;
    uint32_t workers;
    uint32_t samples;                        /* repetitions that were measured */
    double ns[BENCH_WAYS][BENCH_REPEAT_MAX]; /* per task, of each */
    uint64_t executions;                     /* of all repetitions together */
    uint64_t stolen;
};

/* What was not measured is NaN or has no samples. */
struct bench_results {
    uint32_t row_count;
    struct bench_row row[BENCH_ROWS_MAX];
    double one_task_p50_us;
    double one_task_p99_us;
    double pingpong_before_ns; /* there and back */
    double pingpong_after_ns;
    bool is_interrupted;
};

/* Returns 0, or a negative status after a sentence on stderr. */
int bench_measure(const struct bench_settings *settings, struct bench_results *results_out);

/* Makes bench_measure return soon, with what it has. Safe in a signal handler. */
void bench_interrupt(void);

/* Sorts. */
double bench_quantile(double *values, uint32_t count, double q);

#endif
