/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/bench/bench_link.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"

enum { SAMPLES_MAX = 1000, CASE_PUTS = 3, CASE_BARRIER = 3, CASE_ROUND_TRIP, CASE_ALL_REDUCE };

const struct bench_link_case bench_link_case[BENCH_LINK_CASES] = {
    { "put 8 B", 8, { 1.1, 1.1 } },
    { "put 4 KiB", 4096, { 1.1, 1.1 } },
    { "put 1 MiB", 1 << 20, { 1.1, 1.1 } },
    { "barrier", 0, { 0.8, 0.9 } },
    { "signal round trip", 4, { 0.8, 0.8 } },
    { "all-reduce 4 B", 4, { 0.65, 0.6 } },
    { "all-reduce 4 KiB", 4096, { 0.8, 0.8 } },
    { "all-reduce 1 MiB", 1 << 20, { 1.0, 1.0 } },
    { "all-reduce 64 MiB", 64 << 20, { 1.0, 1.0 } },
};

static int bench_link_compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/*
 * Chooses numbers of samples and repetitions. Small operations run in batches, so that reading the
 * clock does not count.
 */
static void choose_counts(uint64_t bytes, bool is_quick, uint32_t *samples_out, uint32_t *batch_out)
{
    uint32_t samples = bytes > 1 << 20 ? 9 : bytes >= 1 << 20 ? 200 : SAMPLES_MAX;

    *samples_out = is_quick ? (samples + 9) / 10 : samples;
    *batch_out = bytes >= 1 << 20 ? 1 : 50;
}

/* Runs one operation of a case. A rank that takes no part in the operation returns at once. */
static int operate(const struct bench_link *link, uint32_t index, const float *in, float *out)
{
    if (index < CASE_PUTS)
        return link->rank == 0 ? link->put(link->context, bench_link_case[index].bytes) : 0;
    if (index == CASE_BARRIER)
        return link->barrier(link->context);
    if (index == CASE_ROUND_TRIP)
        return link->rank < 2 ? link->round_trip(link->context) : 0;
    return link->all_reduce(link->context, in, out, bench_link_case[index].bytes / sizeof(float));
}

/*
 * Checks the result of an all-reduce. Element i is the sum of rank + i % 7 over all ranks, which
 * floats hold exactly.
 */
static bool is_right(const struct bench_link *link, const float *out, uint64_t count)
{
    uint32_t n = link->rank_count;

    for (uint64_t i = 0; i < count; i++)
        if (out[i] != (float)(n * (n - 1) / 2 + n * (uint32_t)(i % 7)))
            return false;
    return true;
}

static int measure_case(const struct bench_link *link, uint32_t index, bool is_quick,
                        const float *in, float *out, struct bench_link_result *result)
{
    double ns[SAMPLES_MAX];
    uint32_t samples, batch;
    int status = 0;

    choose_counts(bench_link_case[index].bytes, is_quick, &samples, &batch);
    for (uint32_t i = 0; i < batch && status >= 0; i++)
        /* run the operation before the first sample, to warm up caches and connections */
        status = operate(link, index, in, out);
    if (index >= CASE_ALL_REDUCE && status >= 0 &&
        !is_right(link, out, bench_link_case[index].bytes / sizeof(float)))
        return -1;
    for (uint32_t i = 0; i < samples && status >= 0; i++) {
        uint64_t begin;

        status = link->barrier(link->context);
        begin = os_now_ns();
        for (uint32_t k = 0; k < batch && status >= 0; k++)
            status = operate(link, index, in, out);
        ns[i] = (double)(os_now_ns() - begin) / batch;
    }
    if (status < 0 || link->barrier(link->context) < 0)
        return -1;
    qsort(ns, samples, sizeof(ns[0]), bench_link_compare_doubles);
    result->p50_ns = ns[samples / 2];
    result->p99_ns = ns[(samples * 99 + 99) / 100 - 1];
    result->samples = samples;
    return 0;
}

int bench_link_measure(const struct bench_link *link, bool is_quick,
                       struct bench_link_result results[BENCH_LINK_CASES], const char **failed_out)
{
    float *in = malloc(BENCH_LINK_BYTES_MAX), *out = malloc(BENCH_LINK_BYTES_MAX);
    int status = in != NULL && out != NULL ? 0 : -1;

    *failed_out = "memory";
    for (uint64_t i = 0; i < BENCH_LINK_BYTES_MAX / sizeof(float) && status >= 0; i++)
        in[i] = (float)(link->rank + i % 7);
    if (status >= 0)
        memset(out, 0, BENCH_LINK_BYTES_MAX);
    for (uint32_t i = 0; i < BENCH_LINK_CASES && status >= 0; i++) {
        status = measure_case(link, i, is_quick, in, out, &results[i]);
        *failed_out = bench_link_case[i].name;
    }
    free(in);
    free(out);
    return status;
}

int bench_link_pin(uint32_t rank)
{
    cpu_set_t all, one;
    uint32_t at = 0, count;

    if (sched_getaffinity(0, sizeof(all), &all) != 0)
        return -1;
    count = (uint32_t)CPU_COUNT(&all);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && at++ == rank % count) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            return sched_setaffinity(0, sizeof(one), &one);
        }
    return -1;
}

void bench_link_print(const struct bench_link_result results[BENCH_LINK_CASES])
{
    for (uint32_t i = 0; i < BENCH_LINK_CASES; i++)
        printf("%s\t%.1f\t%.1f\t%u\n", bench_link_case[i].name, results[i].p50_ns,
               results[i].p99_ns, results[i].samples);
}
