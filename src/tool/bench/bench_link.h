/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures communication between ranks with any communication library. Each library has a table of
 * functions, called a link; clock and repetitions are the same for all libraries. Every rank calls
 * bench_link_measure; rank 0 gets the results.
 */
#ifndef PTO_BENCH_LINK_H
#define PTO_BENCH_LINK_H

#include <stdbool.h>
#include <stdint.h>

struct bench_link {
    uint32_t rank;
    uint32_t rank_count; /* number of ranks, at least 2 */
    void *context;
    /* All functions of a link return 0, or non-zero on failure. */
    int (*barrier)(void *context);
    /* Copies from rank 0 to rank 1. On return the copy is complete on rank 1. */
    int (*put)(void *context, uint64_t bytes);
    /* Sends a few bytes from rank 0 to rank 1 and back. */
    int (*round_trip)(void *context);
    int (*all_reduce)(void *context, const float *in, float *out, uint64_t count);
};

/* A case, and the limits of its time with 2 and with 4 ranks, as multiples of Open MPI's time. */
struct bench_link_case {
    const char *name;
    uint64_t bytes;
    /* time limits for 2 and for 4 ranks, as multiples of Open MPI's time; 0: no limit */
    double at_most[2];
};

enum { BENCH_LINK_CASES = 9, BENCH_LINK_BYTES_MAX = 64 << 20 };
extern const struct bench_link_case bench_link_case[BENCH_LINK_CASES];

struct bench_link_result {
    double p50_ns;
    double p99_ns;
    uint32_t samples; /* number of samples; 0: not measured */
};

/*
 * Measures all cases; with is_quick, with a tenth of the repetitions. Returns 0, or negative if a
 * function of the link failed or the sum was wrong; then *failed_out is the name of the case.
 */
int bench_link_measure(const struct bench_link *link, bool is_quick,
                       struct bench_link_result results[BENCH_LINK_CASES], const char **failed_out);

/* Binds the calling process to a CPU of its own, if there are enough. Returns 0, or negative. */
int bench_link_pin(uint32_t rank);

/*
 * Prints name, p50, p99 and number of samples of each case in a line, for programs that compare
 * libraries.
 */
void bench_link_print(const struct bench_link_result results[BENCH_LINK_CASES]);

#endif
