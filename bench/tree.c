/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a task of level 3 costs that does nothing: the round trip from pto_worker_run and back,
 * hot and after a rest; throughput; start and idleness of a worker. Prints microseconds.
 *
 *     build/bench/tree [CHILDREN]
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "pto/worker.h"

enum { ROUNDS = 4000, RESTED = 1000, MANY = 100000 };

static struct pto_worker *worker;
static double sample[ROUNDS];

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void check(int status, const char *what)
{
    if (status >= 0)
        return;
    fprintf(stderr, "tree: %s: %s\n", what, pto_strerror(status));
    exit(1);
}

struct load {
    uint64_t callable;
    uint64_t children;
    uint32_t count;
};

static void submit(struct pto_level *level, void *context)
{
    const struct load *load = context;
    struct pto_args args;

    for (uint32_t i = 0; i < load->count; i++) {
        pto_args_init(&args);
        (void)pto_level_submit(level, load->callable, load->children, &args);
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* One task at a time, with a pause between two. */
static void round_trips(const char *what, struct load *load, int rounds, long rest_ns)
{
    for (int i = -rounds / 10; i < rounds; i++) {
        double begin;

        if (rest_ns != 0)
            nanosleep(&(struct timespec){ 0, rest_ns }, NULL);
        begin = now_us();
        check(pto_worker_run(worker, submit, load, NULL), what);
        if (i >= 0)
            sample[i] = now_us() - begin;
    }
    qsort(sample, (size_t)rounds, sizeof(sample[0]), compare);
    printf("%-34s p50 %7.2f us   p99 %8.2f us\n", what, sample[rounds / 2],
           sample[rounds * 99 / 100]);
}

static void throughput(const char *what, struct load load, uint32_t count)
{
    double begin = now_us();

    load.count = count;
    check(pto_worker_run(worker, submit, &load, NULL), what);
    printf("%-34s %u tasks: %.2f us each\n", what, count, (now_us() - begin) / count);
}

static uint64_t known(enum pto_child_kind kind, const char *path)
{
    struct pto_worker_callable callable;
    struct pto_error error;
    uint64_t number = 0;

    pto_error_init(&error);
    pto_worker_callable_init(&callable);
    callable.kind = kind;
    callable.path = path;
    callable.symbol = kind == PTO_CHILD_SUB ? "nothing" : NULL;
    callable.error = &error;
    if (pto_worker_register(worker, &callable, &number) < 0) {
        fprintf(stderr, "tree: %s\n", error.text);
        exit(1);
    }
    return number;
}

/* CPU time of a child, in clock ticks. */
static long ticks_of(uint32_t child)
{
    struct pto_child_info info;
    char path[64];
    long user = 0, system = 0;
    FILE *file;

    pto_child_info_init(&info);
    check(pto_worker_child(worker, child, &info), "child");
    snprintf(path, sizeof(path), "/proc/%d/stat", info.pid);
    file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld",
                               &user, &system) != 2)
        user = -1;
    if (file != NULL)
        fclose(file);
    return user + system;
}

int main(int argc, char **argv)
{
    uint32_t count = argc > 1 ? (uint32_t)atoi(argv[1]) : 2;
    struct pto_worker_params params;
    char path[4096];
    struct load sub = { .count = 1 }, chip = { .count = 1 };
    double begin = now_us();
    long before = 0, after = 0;

    snprintf(path, sizeof(path), "%s_callable.so", argv[0]);
    pto_worker_params_init(&params);
    params.chip_count = count / 2;
    params.sub_count = count - count / 2;
    check(pto_worker_open(&params, &worker), "open");
    printf("%u chips, %u SUB workers\n%-34s %.1f ms\n", params.chip_count, params.sub_count,
           "start", (now_us() - begin) / 1e3);
    sub.callable = known(PTO_CHILD_SUB, path);
    sub.children = PTO_ON(params.chip_count);
    round_trips("empty SUB task, hot", &sub, ROUNDS, 0);
    round_trips("empty SUB task, after 200 us", &sub, RESTED, 200000);
    if (params.chip_count != 0) {
        chip.callable = known(PTO_CHILD_CHIP, path);
        chip.children = PTO_ON(0);
        round_trips("empty chip task, hot", &chip, ROUNDS, 0);
        round_trips("empty chip task, after 200 us", &chip, RESTED, 200000);
    }
    throughput("SUB tasks on one child", sub, MANY / 10);
    throughput("SUB tasks on one child", sub, MANY);
    throughput("SUB tasks on one child", sub, 10 * MANY);
    sub.children = 0;
    throughput("SUB tasks on any", sub, MANY);
    for (uint32_t i = 0; i < count; i++)
        before += ticks_of(i);
    sleep(2);
    for (uint32_t i = 0; i < count; i++)
        after += ticks_of(i);
    printf("%-34s %ld ms of CPU in 2 s\n", "idle", (after - before) * 1000 / sysconf(_SC_CLK_TCK));
    begin = now_us();
    check(pto_worker_close(worker), "close");
    printf("%-34s %.1f ms\n", "close", (now_us() - begin) / 1e3);
    return 0;
}
