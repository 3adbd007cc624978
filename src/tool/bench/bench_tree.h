/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto bench tree` measures the overhead of level 3: round trips of empty tasks from
 * pto_worker_run, hot and after a pause, with as many children as CPUs and with four times as many;
 * streams of tasks; and the cost of an idle worker. 200 us after a task, children may still poll;
 * after 2 ms they sleep, and so do CPUs, so that wake-ups are measured as well.
 */
#ifndef PTO_BENCH_TREE_H
#define PTO_BENCH_TREE_H

#include <stdbool.h>
#include <stdint.h>

enum bench_tree_case {
    BENCH_TREE_SUB_HOT,
    BENCH_TREE_SUB_RESTED,
    BENCH_TREE_SUB_ASLEEP,
    BENCH_TREE_CHIP_HOT,
    BENCH_TREE_CHIP_RESTED,
    BENCH_TREE_CHIP_ASLEEP,
    BENCH_TREE_CASES
};

/* A case of `pto bench tree`, and the limit of its p50. */
struct bench_tree_aim {
    const char *name;
    uint64_t rest_ns;
    double most_us; /* limit of the p50 in us; 0: most_times gives the limit */
    /* limit of the p50 as a multiple of the round trip between two bare processes */
    double most_times;
};
extern const struct bench_tree_aim bench_tree_aim[BENCH_TREE_CASES];
/* bench_tree_most_us returns the limit of a case in us, whichever way it is given. */
struct bench_tree_results;
double bench_tree_most_us(const struct bench_tree_results *results, enum bench_tree_case which);

enum {
    BENCH_TREE_RUNS = 2,
    BENCH_TREE_IDLE = 8 /* number of children of the idle worker */
};

/* Results for one number of children, half of which are chips. */
struct bench_tree_run {
    uint32_t chips;
    uint32_t subs;
    double p50_us[BENCH_TREE_CASES];
    double p99_us[BENCH_TREE_CASES];
    double any_ns; /* time per task of a stream that every SUB worker may run */
};

/*
 * Times of round trips of a word between two bare processes that wake each other, with the pause of
 * the case.
 */
struct bench_tree_bare {
    double p50_us;
    double p99_us;
};

struct bench_tree_results {
    struct bench_tree_run run[BENCH_TREE_RUNS];
    struct bench_tree_bare rested, asleep;
    uint32_t few, many; /* numbers of tasks in the short and the long stream */
    double one_few_ns;  /* time per task of the short stream, on one SUB worker */
    double one_many_ns;
    double two_ns; /* time per task of the long stream, on any of two SUB workers */
    double start_ms;
    double idle_s;
    /* CPU time that the worker and all children use while they are idle for idle_s seconds */
    double idle_ms;
    double close_ms;
};

/* Runs all measurements of `pto bench tree`. Returns 0, or negative after a sentence on stderr. */
int bench_tree(bool is_quick, struct bench_tree_results *results);
/* Runs only a stream of tasks on one SUB worker, so that instructions can be counted. */
int bench_tree_stream(uint32_t tasks, double *ns_out);

/* The shared object that children load, compiled from bench_child.c. */
extern const unsigned char bench_object[], bench_object_end[];

#endif
