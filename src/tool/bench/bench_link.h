/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `pto bench comm` measures, over any library that ranks can talk through: each
 * brings a table of functions (a link), and the same clock and the same counts are
 * used for all of them. Every rank calls bench_link_measure; rank 0 has the results.
 */
#ifndef PTO_BENCH_LINK_H
#define PTO_BENCH_LINK_H

#include <stdbool.h>
#include <stdint.h>

struct bench_link {
    uint32_t rank;
    uint32_t rank_count; /* at least 2 */
    void *context;
    /* 0, or not if it failed. */
    int (*barrier)(void *context);
    /* Rank 0 to rank 1, and complete there. */
    int (*put)(void *context, uint64_t bytes);
    /* Ranks 0 and 1: a few bytes there and back. */
    int (*round_trip)(void *context);
    int (*all_reduce)(void *context, const float *in, float *out, uint64_t count);
};

/* What is measured: a row, and what it may cost in terms of Open MPI, with 2 and with 4 ranks. */
struct bench_link_case {
    const char *name;
    uint64_t bytes;
    double at_most[2]; /* 0: not promised */
};

enum { BENCH_LINK_CASES = 9, BENCH_LINK_BYTES_MAX = 64 << 20 };
extern const struct bench_link_case bench_link_case[BENCH_LINK_CASES];

struct bench_link_result {
    double p50_ns;
    double p99_ns;
    uint32_t samples; /* 0: not measured */
};

/*
 * Measures all cases, or a tenth as often. 0, or negative: a function of the link failed,
 * or gave a wrong sum; *failed_out is the case.
 */
int bench_link_measure(const struct bench_link *link, bool is_quick,
                       struct bench_link_result results[BENCH_LINK_CASES], const char **failed_out);

/* Puts the calling process on a CPU of its own, if there are as many; 0, or negative. */
int bench_link_pin(uint32_t rank);

/* A line for each case, for programs that compare: name, p50, p99, samples. */
void bench_link_print(const struct bench_link_result results[BENCH_LINK_CASES]);

#endif
