/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `pto bench tree`: what a task of level 3 costs that does nothing, from pto_worker_run and back,
 * hot and after a rest, with as many children as CPUs and with four times as many; tasks by the
 * hundred thousand; what a worker costs that has nothing to do. After 200 us children may
 * still look for more; after 2 ms they sleep, and so do CPUs: what it takes to wake those is measured, too.
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

/* Its name, and what it should take at most, p50. */
struct bench_tree_aim {
    const char *name;
    uint64_t rest_ns;
    double most_us;    /* 0: it is not known before, but */
    double most_times; /* so many times of what two bare processes take */
};
extern const struct bench_tree_aim bench_tree_aim[BENCH_TREE_CASES];
/* That, in us. */
struct bench_tree_results;
double bench_tree_most_us(const struct bench_tree_results *results, enum bench_tree_case which);

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

/* Two bare processes that wake each other, after as long as children of the case rest. */
struct bench_tree_bare {
    double p50_us;
    double p99_us;
};

struct bench_tree_results {
    struct bench_tree_run run[BENCH_TREE_RUNS];
    struct bench_tree_bare rested, asleep;
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
