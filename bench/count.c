/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pattern, once, for counting instructions or for a quick look at time:
 *
 *     count PATTERN LAYOUT TASKS WORKERS WINDOW [REPETITIONS [TRACE]]
 *
 * Under callgrind with --collect-atstart=no only the run itself is counted.
 */
#include <stdio.h>
#include <string.h>
#include <valgrind/callgrind.h>

#include "cli/bench_patterns.h"

static void empty_kernel(int64_t *args)
{
    __asm__ volatile("" ::"r"(args) : "memory");
}

static const struct bench_load *load_of(const struct pto_entry *entry)
{
    return (const struct bench_load *)(uintptr_t)entry->scalar[0];
}

static void submit_all(struct pto_orch *o, const struct pto_entry *entry)
{
    bench_submit(o, load_of(entry), 0, load_of(entry)->task_count, true);
}

static int index_of(const char *name, const char *const names[], int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    fprintf(stderr, "count: there is no \"%s\"\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    const struct pto_kernel kernel = { "empty", empty_kernel, PTO_CORE_AIV };
    struct pto_callable_params callable_params;
    struct pto_device_params device_params;
    struct pto_run_options options;
    struct pto_run_report report;
    struct pto_callable *callable;
    struct pto_device *device;
    struct bench_load load;
    uint64_t scalar;
    double best = 1e30;

    if (argc < 6) {
        fprintf(stderr, "usage: count PATTERN LAYOUT TASKS WORKERS WINDOW [REPETITIONS [TRACE]]\n");
        return 2;
    }
    if (!bench_make((enum pattern)index_of(argv[1], pattern_name, PATTERN_COUNT),
                    (enum layout)index_of(argv[2], layout_name, LAYOUT_COUNT),
                    (uint32_t)atoi(argv[3]), &load)) {
        fprintf(stderr, "count: out of memory\n");
        return 1;
    }
    pto_device_params_init(&device_params);
    device_params.workers = (uint32_t)atoi(argv[4]);
    pto_callable_params_init(&callable_params);
    callable_params.orchestration = submit_all;
    callable_params.kernels = &kernel;
    callable_params.kernel_count = 1;
    pto_run_options_init(&options);
    options.window = (uint32_t)atoi(argv[5]);
    options.trace = argc > 7 ? (enum pto_trace)atoi(argv[7]) : PTO_TRACE_OFF;
    pto_run_report_init(&report);
    scalar = (uint64_t)(uintptr_t)&load;
    if (pto_device_open(&device_params, &device) < 0 ||
        pto_callable_create(&callable_params, &callable) < 0) {
        fprintf(stderr, "count: cannot open a device\n");
        return 1;
    }
    for (int i = argc > 6 ? atoi(argv[6]) : 1; i > 0; i--) {
        struct pto_entry entry = { .scalar_count = 1, .scalar = &scalar };
        int status;

        CALLGRIND_TOGGLE_COLLECT;
        status = pto_run(device, callable, &entry, &options, &report);
        CALLGRIND_TOGGLE_COLLECT;
        if (status < 0 || report.executions != load.task_count) {
            fprintf(stderr, "count: %s\n", report.error.text);
            return 1;
        }
        if ((double)report.ns / load.task_count < best)
            best = (double)report.ns / load.task_count;
    }
    printf("%s %s tasks=%u edges=%llu stolen=%llu ns_per_task=%.1f\n", argv[1], argv[2],
           load.task_count, (unsigned long long)report.edges, (unsigned long long)report.stolen,
           best);
    pto_callable_destroy(callable);
    pto_device_close(device);
    bench_free(&load);
    return 0;
}
