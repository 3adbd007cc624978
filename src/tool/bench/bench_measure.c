/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the cost of empty tasks. Measurements of all configurations alternate, so that a
 * disturbance of the machine affects each of them. Devices stay open; tensors are made before the
 * clock starts.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/bench/bench_measure.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>

#include "base/os.h"
#include "tool/bench/bench_simpler.h"
#include "tool/scene/terminal.h"

enum {
    CHUNK = 1024,          /* number of tasks submitted between two checks for an interrupt */
    WARM_TASKS = 1000,     /* number of warm-up tasks before the first measurement of a device */
    PINGPONG_BATCHES = 25, /* number of batches; the median of their times is the result */
    PINGPONG_ROUNDS = 2000,
    PINGPONG_LOOK = 1 << 12, /* number of spins between two checks for an interrupt */
    /*
     * length of a CPU mask, in cpu_set_t of 1024 CPUs; the kernel rejects a mask that is too small
     */
    CPU_SETS = 16
};

struct bench {
    const struct bench_settings *settings;
    struct bench_results *results;
    struct pto_device *device[BENCH_WORKER_COUNTS_MAX];
    struct pto_callable *callable;
    struct pto_callable *compat; /* callable with simpler's API; NULL: that API is not measured */
    struct pto_run_report report;
    uint32_t runs_done;
};

static volatile sig_atomic_t is_interrupted;

static void list_rows(const struct bench_settings *settings, struct bench_results *results);
static int open_devices(struct bench *b);
static void close_devices(struct bench *b);
static int measure_rows(struct bench *b);
static int measure_one_task(struct bench *b);
static double measure_pingpong(void);

int bench_measure(const struct bench_settings *settings, struct bench_results *results_out)
{
    static struct bench bench;
    struct bench *b = &bench;
    int status;

    memset(b, 0, sizeof(*b));
    memset(results_out, 0, sizeof(*results_out));
    b->settings = settings;
    b->results = results_out;
    results_out->one_task_p50_us = results_out->one_task_p99_us = NAN;
    results_out->pingpong_after_ns = NAN;
    list_rows(settings, results_out);
    results_out->pingpong_before_ns = measure_pingpong();
    status = open_devices(b);
    if (status == PTO_OK)
        status = measure_rows(b);
    if (status == PTO_OK)
        status = measure_one_task(b);
    close_devices(b);
    if (status == PTO_OK)
        results_out->pingpong_after_ns = measure_pingpong();
    results_out->is_interrupted = is_interrupted != 0;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, TERMINAL_CLEAR);
    return status;
}

void bench_interrupt(void)
{
    is_interrupted = 1;
}

static int bench_measure_compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Returns a quantile of the values, interpolated linearly between two neighbours. */
double bench_quantile(double *values, uint32_t count, double q)
{
    if (count == 0)
        return NAN;
    qsort(values, count, sizeof(*values), bench_measure_compare_doubles);

    double at = q * (count - 1);
    uint32_t below = (uint32_t)at;
    uint32_t above = below + 1 < count ? below + 1 : below;

    return values[below] + (at - below) * (values[above] - values[below]);
}

/* ---- devices ---- */

static void empty_kernel(int64_t *args)
{
    __asm__ volatile("" ::"r"(args) : "memory");
}

static void submit_load(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct bench_load *load = (const struct bench_load *)(uintptr_t)entry->scalar[0];

    for (uint32_t from = 0; from < load->task_count && !is_interrupted; from += CHUNK) {
        uint32_t left = load->task_count - from;

        bench_submit(o, load, from, from + (left < CHUNK ? left : CHUNK), false);
    }
}

/*
 * Launches a graph twice. The memory is cold in the first launch, so only the second one is
 * measured.
 */
static int launch_load(struct bench *b, struct pto_device *device, const struct pto_entry *entry)
{
    struct pto_graph *graph;
    int status = pto_graph_build(device, b->callable, entry, NULL, &b->report, &graph);

    for (int i = 0; i < 2 && status >= 0; i++) {
        pto_run_report_init(&b->report);
        status = pto_graph_run(graph, entry, NULL, &b->report);
    }
    if (status >= 0)
        (void)pto_graph_destroy(graph);
    return status;
}

static int run_load(struct bench *b, struct pto_device *device, const struct bench_load *load,
                    bool is_again)
{
    uint64_t scalar = (uint64_t)(uintptr_t)load;
    struct pto_entry entry = { .scalar_count = 1, .scalar = &scalar };
    int status;

    pto_run_report_init(&b->report);
    status = is_again ? launch_load(b, device, &entry)
                      : pto_run(device, b->callable, &entry, NULL, &b->report);
    if (status < 0)
        fprintf(stderr, "pto bench: a run failed: %s\n", b->report.error.text);
    return status;
}

/*
 * Runs the tasks of a load with simpler's ordering rules. They are submitted by our API or by
 * simpler's.
 */
static int run_compared(struct bench *b, struct pto_device *device, const struct bench_load *load,
                        enum bench_way way)
{
    const uint64_t own = (uint64_t)(uintptr_t)load;
    const uint64_t compat[3] = { (uint64_t)(uintptr_t)load->task, (uint64_t)(uintptr_t)load->item,
                                 load->task_count };
    struct pto_entry entry = { .scalar_count = way == BENCH_COMPAT ? 3 : 1,
                               .scalar = way == BENCH_COMPAT ? compat : &own };
    struct pto_run_options options;
    int status;

    pto_run_options_init(&options);
    options.deps = PTO_DEPS_SIMPLER;
    pto_run_report_init(&b->report);
    status = pto_run(device, way == BENCH_COMPAT ? b->compat : b->callable, &entry, &options,
                     &b->report);
    if (status < 0)
        fprintf(stderr, "pto bench: a run failed: %s\n", b->report.error.text);
    return status;
}

static int warm_up(struct bench *b, struct pto_device *device)
{
    struct bench_load load;
    int status;

    if (!bench_make(PATTERN_STENCIL, LAYOUT_BUFFERS, WARM_TASKS, &load))
        return PTO_ENOMEM;
    status = run_load(b, device, &load, false);
    bench_free(&load);
    return status;
}

static int open_devices(struct bench *b)
{
    static const struct pto_kernel kernel = { "empty", empty_kernel, PTO_CORE_AIV };
    struct pto_callable_params callable_params;
    int status;

    pto_callable_params_init(&callable_params);
    callable_params.name = "bench";
    callable_params.orchestration = submit_load;
    callable_params.kernels = &kernel;
    callable_params.kernel_count = 1;
    callable_params.keeps_signals = true;
    status = pto_callable_create(&callable_params, &b->callable);
    if (status == PTO_OK && b->settings->is_compared)
        status = bench_simpler_load(&b->compat);
    for (uint32_t i = 0; i < b->settings->worker_count_count && status == PTO_OK; i++) {
        uint32_t workers = b->settings->worker_counts[i];
        struct pto_device_params params;

        pto_device_params_init(&params);
        params.workers = workers;
        if (workers > pto_platform_at(0)->clusters * PTO_CLUSTER_CORES)
            params.clusters = (workers + PTO_CLUSTER_CORES - 1) / PTO_CLUSTER_CORES;
        status = pto_device_open(&params, &b->device[i]);
        if (status < 0)
            fprintf(stderr,
                    "pto bench: a device with workers=%u cannot be opened: %s; `pto doctor` looks "
                    "for the reason\n",
                    workers, status == PTO_EINVAL ? "too many workers" : pto_strerror(status));
        else
            status = warm_up(b, b->device[i]);
    }
    return status;
}

static void close_devices(struct bench *b)
{
    for (uint32_t i = 0; i < BENCH_WORKER_COUNTS_MAX; i++)
        pto_device_close(b->device[i]);
    pto_callable_destroy(b->callable);
    if (b->compat != NULL)
        pto_callable_destroy(b->compat);
}

/* ---- patterns ---- */

static void list_rows(const struct bench_settings *settings, struct bench_results *results)
{
    for (int p = 0; p < PATTERN_COUNT; p++)
        for (int l = 0; l < LAYOUT_COUNT; l++)
            for (uint32_t w = 0; w < settings->worker_count_count; w++) {
                struct bench_row *row = &results->row[results->row_count];

                if ((settings->pattern >= 0 && settings->pattern != p) ||
                    (settings->layout >= 0 && settings->layout != l) ||
                    /* the comparison of APIs has no row for a relaunch, which submits no tasks */
                    (settings->is_compared && l == LAYOUT_AGAIN))
                    continue;
                row->pattern = (enum pattern)p;
                row->layout = (enum layout)l;
                row->workers = settings->worker_counts[w];
                results->row_count++;
            }
}

static int measure_row(struct bench *b, struct bench_row *row, struct pto_device *device,
                       const struct bench_load *load)
{
    const struct bench_settings *s = b->settings;

    if (isatty(STDERR_FILENO))
        fprintf(stderr, TERMINAL_CLEAR "%u/%u %s %s", b->runs_done,
                b->results->row_count * s->repeat, pattern_name[row->pattern],
                layout_name[row->layout]);

    for (int way = 0; way < (s->is_compared ? BENCH_WAYS : 1); way++) {
        int status = way == BENCH_OWN ? run_load(b, device, load, row->layout == LAYOUT_AGAIN)
                                      : run_compared(b, device, load, (enum bench_way)way);

        /* after an interrupt the run is incomplete, so its result is not checked */
        if (status < 0 || is_interrupted)
            return status;
        if (b->report.executions != load->task_count) {
            fprintf(stderr, "pto bench: %" PRIu64 " of %u tasks ran\n", b->report.executions,
                    load->task_count);
            return PTO_EKERNEL;
        }
        row->ns[way][row->samples] = (double)b->report.ns / load->task_count;
        if (way == BENCH_OWN) {
            row->executions += b->report.executions;
            row->stolen += b->report.stolen;
        }
    }
    row->samples++;
    b->runs_done++;
    return PTO_OK;
}

/*
 * Measures all rows in turn, as often as the settings require. Adjacent rows have the same pattern,
 * layout and tensors, and another number of workers.
 */
static int measure_rows(struct bench *b)
{
    uint32_t counts = b->settings->worker_count_count;

    for (uint32_t r = 0; r < b->settings->repeat; r++) {
        for (uint32_t i = 0; i < b->results->row_count && !is_interrupted; i += counts) {
            struct bench_row *row = &b->results->row[i];
            struct bench_load load;
            int status = PTO_OK;

            if (!bench_make(row->pattern,
                            row->layout == LAYOUT_AGAIN ? LAYOUT_BUFFERS : row->layout,
                            b->settings->tasks, &load)) {
                fprintf(stderr, "pto bench: not enough memory for %u tasks\n", b->settings->tasks);
                return PTO_ENOMEM;
            }
            for (uint32_t w = 0; w < counts && status == PTO_OK && !is_interrupted; w++)
                status = measure_row(b, &row[w], b->device[w], &load);
            bench_free(&load);
            if (status < 0)
                return status;
        }
    }
    return PTO_OK;
}

/* ---- latency ---- */

/*
 * Measures runs of one task on the device with the most worker threads, including the time to wake
 * these.
 */
static int measure_one_task(struct bench *b)
{
    uint32_t runs = b->settings->one_task_runs;
    struct pto_device *device = b->device[b->settings->worker_count_count - 1];
    double *us = malloc(runs * sizeof(*us));
    struct bench_load load = { 0 };
    uint32_t done = 0;
    int status = PTO_ENOMEM;

    if (us == NULL || !bench_make(PATTERN_NODEP, LAYOUT_BUFFERS, 1, &load))
        goto free_samples;
    for (status = PTO_OK; done < runs && status == PTO_OK && !is_interrupted; done++) {
        uint64_t start = os_now_ns();

        status = run_load(b, device, &load, false);
        us[done] = (double)(os_now_ns() - start) / 1000;
    }
    if (status == PTO_OK && !is_interrupted) {
        b->results->one_task_p50_us = bench_quantile(us, done, 0.5);
        b->results->one_task_p99_us = bench_quantile(us, done, 0.99);
    }
    bench_free(&load);
free_samples:
    free(us);
    return status;
}

/* ---- a cache line that travels between two threads ---- */

struct pingpong {
    /*
     * Number of times that the two threads have passed the word to each other. If it is odd, it is
     * the other thread's turn.
     */
    _Alignas(128) uint32_t ball;
    _Alignas(128) double batch_ns[PINGPONG_BATCHES];
    uint32_t batches;
};

/*
 * Spins until the word has the given value; false if interrupted. Acquire and release order nothing
 * but this word.
 */
static bool wait_for_ball(const struct pingpong *p, uint32_t value)
{
    for (uint32_t spins = 0; __atomic_load_n(&p->ball, __ATOMIC_ACQUIRE) != value; spins++)
        if (spins % PINGPONG_LOOK == PINGPONG_LOOK - 1 && is_interrupted)
            return false;
    return true;
}

static void *serve_ball(void *arg)
{
    struct pingpong *p = arg;
    uint32_t ball = 0;

    for (uint32_t batch = 0; batch < PINGPONG_BATCHES; batch++) {
        uint64_t start = os_now_ns();

        for (uint32_t i = 0; i < PINGPONG_ROUNDS; i++, ball += 2) {
            __atomic_store_n(&p->ball, ball + 1, __ATOMIC_RELEASE);
            if (!wait_for_ball(p, ball + 2))
                return NULL;
        }
        p->batch_ns[p->batches++] = (double)(os_now_ns() - start) / PINGPONG_ROUNDS;
    }
    return NULL;
}

static void *return_ball(void *arg)
{
    struct pingpong *p = arg;

    for (uint32_t ball = 1; ball < 2 * PINGPONG_BATCHES * PINGPONG_ROUNDS; ball += 2) {
        if (!wait_for_ball(p, ball))
            return NULL;
        __atomic_store_n(&p->ball, ball + 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

/* Selects the first two CPUs that this process may use; false if there is only one. */
static bool pick_cpus(cpu_set_t one[2][CPU_SETS])
{
    cpu_set_t allowed[CPU_SETS];
    int found = 0;

    if (sched_getaffinity(0, sizeof(allowed), allowed) != 0)
        return false;
    for (size_t cpu = 0; cpu < 8 * sizeof(allowed) && found < 2; cpu++) {
        if (!CPU_ISSET_S(cpu, sizeof(allowed), allowed))
            continue;
        CPU_ZERO_S(sizeof(one[found]), one[found]);
        CPU_SET_S(cpu, sizeof(one[found]), one[found]);
        found++;
    }
    return found == 2;
}

/*
 * Returns the median round trip in ns. Returns NaN if there is only one CPU, because the result
 * would be the cost of a context switch.
 */
static double measure_pingpong(void)
{
    static struct pingpong p;
    void *(*const players[2])(void *) = { return_ball, serve_ball };
    cpu_set_t one[2][CPU_SETS];
    pthread_attr_t attributes;
    pthread_t thread[2];
    int started = 0;

    memset(&p, 0, sizeof(p));
    if (is_interrupted || !pick_cpus(one) || pthread_attr_init(&attributes) != 0)
        return NAN;
    for (int i = 0; i < 2 && started == i; i++) {
        pthread_attr_setaffinity_np(&attributes, sizeof(one[i]), one[i]);
        started += pthread_create(&thread[i], &attributes, players[i], &p) == 0;
    }
    /* if only return_ball has started, stop it: it would wait forever for serve_ball */
    if (started == 1)
        serve_ball(&p);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    pthread_attr_destroy(&attributes);
    return started == 2 && !is_interrupted ? bench_quantile(p.batch_ns, p.batches, 0.5) : NAN;
}
