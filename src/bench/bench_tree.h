/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto bench tree`: what a task of level 3 costs that does nothing, from pto_worker_run and back,
 * hot and after a rest, with as many children as CPUs and with four times as many; tasks by the
 * hundred thousand; what a worker costs that has nothing to do.
 */
#ifndef PTO_BENCH_TREE_H
#define PTO_BENCH_TREE_H

#include <stdbool.h>
#include <stdint.h>

enum bench_tree_case {
    BENCH_TREE_SUB_HOT,
    BENCH_TREE_SUB_RESTED,
    BENCH_TREE_CHIP_HOT,
    BENCH_TREE_CHIP_RESTED,
    BENCH_TREE_CASES
};

/* Its name, and what it should take at most, p50. */
struct bench_tree_aim {
    const char *name;
    double most_us;
};
extern const struct bench_tree_aim bench_tree_aim[BENCH_TREE_CASES];

enum {
    BENCH_TREE_RUNS = 2,
    BENCH_TREE_IDLE = 8 /* children of the worker that has nothing to do */
};

/* One number of children; half of them are chips. */
struct bench_tree_run {
    uint32_t chips;
    uint32_t subs;
    double p50_us[BENCH_TREE_CASES];
    double p99_us[BENCH_TREE_CASES];
    double any_ns; /* a task for any SUB worker, among many */
};

struct bench_tree_results {
    struct bench_tree_run run[BENCH_TREE_RUNS];
    uint32_t few, many; /* tasks */
    double one_few_ns;  /* each, on one SUB worker */
    double one_many_ns;
    double two_ns; /* on any of two */
    double start_ms;
    double idle_s;
    double idle_ms; /* of CPU time, of all children and of the worker */
    double close_ms;
};

/* 0, or negative after a sentence on stderr. */
int bench_tree(bool is_quick, struct bench_tree_results *results);
/* Only so many tasks on one SUB worker, for those who count instructions. */
int bench_tree_stream(uint32_t tasks, double *ns_out);

/* The shared object that children load: what bench_child.c is compiled to. */
extern const unsigned char bench_object[], bench_object_end[];

#endif
