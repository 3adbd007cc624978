/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual time, measured:
 *
 *     virtual speed [TASKS [SECONDS]]   CPU time to plan a graph with inferred edges, on 24 clusters
 *     virtual same [TASKS]              the same graph recorded twice: whether the bytes are equal
 *     virtual busy                      busy share of 24 clusters over lengths of tasks, as a table
 *     virtual accuracy [RUNS]           predictions of eight graphs against runs whose kernels sleep
 *     virtual json [TASKS [TIMES [RUNS]]]    all of these, the speed several times, as a JSON object
 *
 * accuracy needs a quiet machine: sleeping kernels return late on a busy one. It exits with 1 if the
 * median error is above 5 %, or one above 10 %; speed if it takes more than SECONDS of CPU time.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pto/pto.h"
#include "pto/virtual.h"

enum {
    TILES = 1024,
    WIDTH = 200,
    TILE = 16,
    SHAPES = 8,
    SHAPE_ROWS = 2 * SHAPES, /* each on two numbers of clusters */
    RUNS_MAX = 32,
    CLUSTERS_WHOLE = 24,
    BUSY_COLUMNS = 4,
    LENGTHS = 7,
    BLOCK_BYTES = 1 << 16,
};

struct job {
    const char *name;
    pto_orch_fn orchestrate;
};

/* What the orchestrations build. */
struct plan {
    uint64_t tasks;
    uint32_t seed;
};

static int32_t memory[2][TILES][TILE];

static void fail(const char *what, const struct pto_error *error)
{
    fprintf(stderr, "virtual: %s: %s\n", what, error->text);
    exit(1);
}

/* Scalar 0: microseconds. */
static void sleep_for(int64_t *args)
{
    const struct pto_tensor *t = pto_arg_tensor(args, 0);
    uint32_t tensors = 0;
    int64_t us;

    while (tensors < 8 && args[tensors] == (int64_t)(uintptr_t)(t + tensors))
        tensors++;
    us = args[tensors];
    nanosleep(&(struct timespec){ us / 1000000, us % 1000000 * 1000 }, NULL);
}

static const struct pto_kernel kernels[] = { { "aiv", sleep_for, PTO_CORE_AIV },
                                             { "aic", sleep_for, PTO_CORE_AIC } };

static struct pto_tensor tile(uint32_t array, uint32_t index)
{
    return pto_tensor_external(memory[array][index % TILES], PTO_DIMS(TILE), 1, PTO_INT32);
}

/* From 8 to 36 ms, determined by the task. */
static int64_t length_of(const struct plan *p, uint32_t task)
{
    uint64_t mixed = (task + 1ull + ((uint64_t)p->seed << 32)) * 0x9e3779b97f4a7c15ull;

    return 8000 + (int64_t)(mixed >> 40) % 28000;
}

/* A task that reads some tiles and changes another one; its core type follows its number. */
static void submit(struct pto_orch *o, uint32_t task, const uint32_t *from, uint32_t count,
                   uint32_t to)
{
    const struct plan *p = pto_orch_context(o);
    struct pto_tensor read[4], written = tile(0, to);
    struct pto_args args;

    pto_args_init(&args);
    for (uint32_t i = 0; i < count; i++) {
        read[i] = tile(0, from[i]);
        pto_add_input(&args, &read[i]);
    }
    pto_add_inout(&args, &written);
    pto_add_scalar(&args, (uint64_t)length_of(p, task));
    if (task % 4 == 0)
        (void)pto_submit_aic(o, 1, &args);
    else
        (void)pto_submit_aiv(o, 0, &args);
}

/* ---- graphs ---- */

static void build_chain(struct pto_orch *o, const struct pto_entry *e)
{
    (void)e;
    for (uint32_t i = 0; i < 60; i++)
        submit(o, i, NULL, 0, i % 3);
}

static void build_apart(struct pto_orch *o, const struct pto_entry *e)
{
    (void)e;
    for (uint32_t i = 0; i < 120; i++)
        submit(o, i, NULL, 0, i);
}

static void build_fan(struct pto_orch *o, const struct pto_entry *e)
{
    uint32_t at = 0;

    (void)e;
    for (uint32_t round = 0; round < 6; round++) {
        for (uint32_t i = 1; i <= 16; i++)
            submit(o, at++, (const uint32_t[]){ 0 }, 1, i);
        for (uint32_t i = 1; i <= 16; i += 4)
            submit(o, at++, (const uint32_t[]){ i, i + 1, i + 2, i + 3 }, 4, 0);
    }
}

static void build_stencil(struct pto_orch *o, const struct pto_entry *e)
{
    uint32_t at = 0;

    (void)e;
    for (uint32_t step = 0; step < 10; step++)
        for (uint32_t i = 1; i <= 12; i++)
            submit(o, at++,
                   (const uint32_t[]){ 32 * (step % 2) + i - 1, 32 * (step % 2) + i,
                                       32 * (step % 2) + i + 1 },
                   3, 32 * ((step + 1) % 2) + i);
}

static void build_cholesky(struct pto_orch *o, const struct pto_entry *e)
{
    const uint32_t n = 8;
    uint32_t at = 0;

    (void)e;
    for (uint32_t k = 0; k < n; k++) {
        submit(o, at++, NULL, 0, k * n + k);
        for (uint32_t i = k + 1; i < n; i++)
            submit(o, at++, (const uint32_t[]){ k * n + k }, 1, i * n + k);
        for (uint32_t i = k + 1; i < n; i++)
            for (uint32_t j = k + 1; j <= i; j++)
                submit(o, at++, (const uint32_t[]){ i * n + k, j * n + k }, 2, i * n + j);
    }
}

static void build_wavefront(struct pto_orch *o, const struct pto_entry *e)
{
    const uint32_t n = 11;
    uint32_t at = 0;

    (void)e;
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t j = 1; j < n; j++)
            submit(o, at++, (const uint32_t[]){ (i - 1) * n + j, i * n + j - 1 }, 2, i * n + j);
}

static void build_tree(struct pto_orch *o, const struct pto_entry *e)
{
    uint32_t at = 0;

    (void)e;
    for (uint32_t i = 0; i < 64; i++)
        submit(o, at++, NULL, 0, i);
    for (uint32_t width = 1; width < 64; width *= 2)
        for (uint32_t i = 0; i + width < 64; i += 2 * width)
            submit(o, at++, (const uint32_t[]){ i + width }, 1, i);
}

static void build_random(struct pto_orch *o, const struct pto_entry *e)
{
    uint64_t random = 88172645463325252ull;

    (void)e;
    for (uint32_t i = 0; i < 140; i++) {
        uint32_t from[2], to;

        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        from[0] = (uint32_t)(random >> 10) % 24;
        from[1] = 24 + (uint32_t)(random >> 20) % 24;
        to = 48 + (uint32_t)(random >> 30) % 24;
        submit(o, i, from, 2, i % 3 == 0 ? from[0] + 1 : i % 3 == 1 ? from[1] + 1 : to);
    }
}

static const struct job shapes[SHAPES] = {
    { "chain", build_chain },     { "independent", build_apart }, { "fan", build_fan },
    { "stencil", build_stencil }, { "cholesky", build_cholesky }, { "wavefront", build_wavefront },
    { "tree", build_tree },       { "random", build_random },
};

/* ---- devices ---- */

static struct pto_device *open_device(bool is_virtual, uint32_t clusters, uint32_t workers)
{
    struct pto_device_params params;
    struct pto_device *device;
    struct pto_error error;

    pto_error_init(&error);
    pto_device_params_init(&params);
    params.clusters = clusters;
    params.workers = workers;
    params.is_virtual = is_virtual;
    params.error = &error;
    if (pto_device_open(&params, &device) < 0)
        fail("no device", &error);
    return device;
}

static struct pto_callable *make(pto_orch_fn orchestrate, struct plan *plan)
{
    struct pto_callable_params params;
    struct pto_callable *callable;
    struct pto_error error;

    pto_error_init(&error);
    pto_callable_params_init(&params);
    params.orchestration = orchestrate;
    params.context = plan;
    params.kernels = kernels;
    params.kernel_count = 2;
    params.keeps_signals = true;
    params.error = &error;
    if (pto_callable_create(&params, &callable) < 0)
        fail("no callable", &error);
    return callable;
}

static struct pto_run_report run(struct pto_device *device, pto_orch_fn orchestrate,
                                 struct plan *plan)
{
    struct pto_callable *callable = make(orchestrate, plan);
    struct pto_run_options options;
    struct pto_run_report report;

    pto_run_options_init(&options);
    options.mode = PTO_MODE_HOST;
    pto_run_report_init(&report);
    if (pto_run(device, callable, NULL, &options, &report) < 0)
        fail("the run failed", &report.error);
    pto_callable_destroy(callable);
    return report;
}

static void set_costs(struct pto_device *device, const char *formula, bool is_planned_only,
                      bool has_free_scheduling)
{
    const struct pto_virtual_cost cost[] = { { "aiv", 0, formula, NULL },
                                             { "aic", 0, formula, NULL } };
    struct pto_virtual_options options;
    struct pto_error error;

    pto_error_init(&error);
    pto_virtual_options_init(&options);
    options.is_planned_only = is_planned_only;
    options.cost = cost;
    options.cost_count = 2;
    if (has_free_scheduling)
        options.register_read_ns = options.register_write_ns = options.line_ns = options.pickup_ns =
            options.submit_ns = 0;
    if (pto_virtual_set(device, &options, &error) < 0)
        fail("no costs", &error);
}

/* ---- speed ---- */

/* Each step reads three neighbours of the step before. */
static void build_grid(struct pto_orch *o, const struct pto_entry *e)
{
    const struct plan *p = pto_orch_context(o);

    (void)e;
    for (uint64_t i = 0; i < p->tasks; i++) {
        uint32_t step = (uint32_t)(i / WIDTH) % 2, at = 1 + (uint32_t)(i % WIDTH);
        struct pto_tensor left = tile(step, at - 1), own = tile(step, at),
                          right = tile(step, at + 1);
        struct pto_tensor next = tile(1 - step, at);

        pto_aiv(o, 0, PTO_IN(&left), PTO_IN(&own), PTO_IN(&right), PTO_WRITE(&next),
                PTO_INT((int64_t)i % 3));
    }
}

static double cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct speed {
    double seconds; /* of CPU time */
    uint64_t tasks, edges, makespan_ns, bound_ns;
};

static struct speed measure_speed(uint64_t tasks)
{
    struct plan plan = { .tasks = tasks };
    struct pto_device *device = open_device(true, CLUSTERS_WHOLE, 1);
    struct pto_callable *callable = make(build_grid, &plan);
    struct pto_virtual_report times;
    struct pto_run_report report;
    double begin, seconds;

    set_costs(device, "8us + 700 * scalar(0)", true, true);
    pto_run_report_init(&report);
    begin = cpu_seconds();
    if (pto_run(device, callable, NULL, NULL, &report) < 0)
        fail("the run failed", &report.error);
    seconds = cpu_seconds() - begin;
    pto_virtual_report_init(&times);
    (void)pto_virtual_report(device, &times);
    pto_callable_destroy(callable);
    pto_device_close(device);
    return (struct speed){ seconds, report.tasks, report.edges, times.makespan_ns, times.bound_ns };
}

static int print_speed(uint64_t tasks, double limit)
{
    struct speed s = measure_speed(tasks);

    printf("%llu tasks, %.1f edges each: %.2f s of CPU, %.2f million tasks a second\n",
           (unsigned long long)s.tasks, (double)s.edges / (double)s.tasks, s.seconds,
           (double)s.tasks / s.seconds / 1e6);
    printf("makespan %.3f ms, no schedule takes less than %.3f ms\n", (double)s.makespan_ns / 1e6,
           (double)s.bound_ns / 1e6);
    if (limit != 0 && s.seconds > limit)
        printf("more than %.1f s\n", limit);
    return limit != 0 && s.seconds > limit;
}

/* ---- the same bytes ---- */

/* Records a run of the grid, with all costs of scheduling. Returns the file, already unlinked. */
static FILE *record(uint64_t tasks)
{
    const char *folder = getenv("TMPDIR");
    struct plan plan = { .tasks = tasks };
    struct pto_device *device = open_device(true, CLUSTERS_WHOLE, 1);
    struct pto_callable *callable = make(build_grid, &plan);
    struct pto_run_options options;
    struct pto_run_report report;
    struct pto_error error;
    char path[4096];
    FILE *file;
    int made;

    pto_error_init(&error);
    set_costs(device, "8us + 700 * scalar(0)", true, false);
    pto_run_options_init(&options);
    options.trace = PTO_TRACE_ARGUMENTS;
    pto_run_report_init(&report);
    if (pto_run(device, callable, NULL, &options, &report) < 0)
        fail("the run failed", &report.error);
    snprintf(path, sizeof(path), "%s/virtual-XXXXXX.ptrec", folder != NULL ? folder : "/tmp");
    made = mkstemps(path, 6);
    if (made >= 0)
        close(made);
    if (pto_trace_write(device, path, &error) < 0)
        fail("no recording", &error);
    file = fopen(path, "rb");
    (void)unlink(path);
    pto_callable_destroy(callable);
    pto_device_close(device);
    return file;
}

/* Returns the number of bytes that differ; *bytes_out is the size of a recording. */
static uint64_t count_differences(uint64_t tasks, uint64_t *bytes_out)
{
    static char block[2][BLOCK_BYTES];
    FILE *file[2] = { record(tasks), record(tasks) };
    uint64_t differences = 0;
    size_t got[2];

    *bytes_out = 0;
    do {
        size_t most, least;

        for (int i = 0; i < 2; i++)
            got[i] = file[i] != NULL ? fread(block[i], 1, BLOCK_BYTES, file[i]) : 0;
        most = got[0] > got[1] ? got[0] : got[1];
        least = got[0] > got[1] ? got[1] : got[0];
        differences += most - least;
        for (size_t i = 0; i < least; i++)
            differences += block[0][i] != block[1][i];
        *bytes_out += most;
    } while (got[0] != 0 || got[1] != 0);
    for (int i = 0; i < 2; i++)
        if (file[i] != NULL)
            (void)fclose(file[i]);
    return differences;
}

static int print_same(uint64_t tasks)
{
    uint64_t bytes, differences = count_differences(tasks, &bytes);

    printf("%llu tasks recorded twice: %llu of %llu bytes differ\n", (unsigned long long)tasks,
           (unsigned long long)differences, (unsigned long long)bytes);
    return differences != 0 || bytes < tasks;
}

/* ---- busy ---- */

static void build_independent(struct pto_orch *o, const struct pto_entry *e)
{
    const struct plan *p = pto_orch_context(o);

    (void)e;
    for (uint64_t i = 0; i < p->tasks; i++)
        pto_aiv(o, 0, PTO_INT(1));
}

static double busy_share(pto_orch_fn orchestrate, uint32_t us, bool has_free_scheduling)
{
    struct plan plan = { .tasks = 40000 };
    struct pto_device *device = open_device(true, CLUSTERS_WHOLE, 1);
    struct pto_callable *callable = make(orchestrate, &plan);
    struct pto_virtual_report times;
    struct pto_run_report report;
    char formula[32];

    snprintf(formula, sizeof(formula), "%uus", us);
    set_costs(device, formula, true, has_free_scheduling);
    pto_run_report_init(&report);
    if (pto_run(device, callable, NULL, NULL, &report) < 0)
        fail("the run failed", &report.error);
    pto_virtual_report_init(&times);
    (void)pto_virtual_report(device, &times);
    pto_callable_destroy(callable);
    pto_device_close(device);
    return 100.0 * (double)times.work_ns[PTO_CORE_AIV] /
           ((double)times.makespan_ns * 2 * CLUSTERS_WHOLE);
}

static const uint32_t lengths[LENGTHS] = { 1, 2, 5, 10, 20, 50, 100 };

/* In percent, for each length: independent tasks and a stencil, each without and with costs. */
static void measure_busy(double share[LENGTHS][BUSY_COLUMNS])
{
    for (int i = 0; i < LENGTHS; i++)
        for (int k = 0; k < BUSY_COLUMNS; k++)
            share[i][k] =
                busy_share(k < 2 ? build_independent : build_grid, lengths[i], k % 2 == 0);
}

static int print_busy(void)
{
    double share[LENGTHS][BUSY_COLUMNS];

    measure_busy(share);
    printf("| length of a task | independent, scheduling free | independent | stencil, scheduling "
           "free | stencil |\n| ---: | ---: | ---: | ---: | ---: |\n");
    for (int i = 0; i < LENGTHS; i++)
        printf("| %u us | %.1f %% | %.1f %% | %.1f %% | %.1f %% |\n", lengths[i], share[i][0],
               share[i][1], share[i][2], share[i][3]);
    return 0;
}

/* ---- accuracy ---- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Times in ms; spread and error in percent of the runs. */
struct shape_row {
    const char *name;
    uint32_t clusters;
    double predicted, median, spread, error;
};

static struct shape_row measure_shape(const struct job *job, uint32_t clusters, uint32_t runs)
{
    struct plan plan = { .seed = clusters };
    struct pto_device *real = open_device(false, clusters, 3 * clusters);
    struct pto_device *virtual_one = open_device(true, clusters, 1);
    double took[RUNS_MAX], predicted;

    set_costs(virtual_one, "scalar(0) * 1000", true, true);
    predicted = (double)run(virtual_one, job->orchestrate, &plan).ns / 1e6;
    for (uint32_t i = 0; i < runs; i++)
        took[i] = (double)run(real, job->orchestrate, &plan).ns / 1e6;
    qsort(took, runs, sizeof(took[0]), compare_doubles);
    pto_device_close(virtual_one);
    pto_device_close(real);
    return (struct shape_row){ job->name,
                               clusters,
                               predicted,
                               took[runs / 2],
                               100 * (took[runs - 1] / took[0] - 1),
                               100 * (predicted / took[runs / 2] - 1) };
}

static void measure_shapes(struct shape_row row[SHAPE_ROWS], uint32_t runs)
{
    for (uint32_t i = 0; i < SHAPE_ROWS; i++)
        row[i] = measure_shape(&shapes[i / 2], i % 2 == 0 ? 2 : 4, runs);
}

static int print_accuracy(uint32_t runs)
{
    struct shape_row row[SHAPE_ROWS];
    double error[SHAPE_ROWS];

    measure_shapes(row, runs);
    printf("| graph | clusters | predicted | median run | spread of runs | error |\n"
           "| --- | ---: | ---: | ---: | ---: | ---: |\n");
    for (uint32_t i = 0; i < SHAPE_ROWS; i++) {
        printf("| %s | %u | %.1f ms | %.1f ms | %.1f %% | %+.1f %% |\n", row[i].name,
               row[i].clusters, row[i].predicted, row[i].median, row[i].spread, row[i].error);
        error[i] = fabs(row[i].error);
    }
    qsort(error, SHAPE_ROWS, sizeof(error[0]), compare_doubles);
    printf("error: median %.1f %%, worst %.1f %%\n", error[SHAPES], error[SHAPE_ROWS - 1]);
    return error[SHAPES] > 5 || error[SHAPE_ROWS - 1] > 10;
}

/* ---- JSON ---- */

static int print_json(uint64_t tasks, uint32_t times, uint32_t runs)
{
    double share[LENGTHS][BUSY_COLUMNS];
    struct shape_row row[SHAPE_ROWS];
    uint64_t bytes, differences;
    struct speed s = { 0 };

    printf("{\"cpu_s\": [");
    for (uint32_t i = 0; i < times; i++) {
        s = measure_speed(tasks);
        printf("%s%.4f", i == 0 ? "" : ", ", s.seconds);
    }
    printf("], \"tasks\": %llu, \"edges\": %llu, \"makespan_ns\": %llu, \"bound_ns\": %llu",
           (unsigned long long)s.tasks, (unsigned long long)s.edges,
           (unsigned long long)s.makespan_ns, (unsigned long long)s.bound_ns);
    differences = count_differences(tasks, &bytes);
    printf(", \"recorded_bytes\": %llu, \"different_bytes\": %llu, \"busy\": [",
           (unsigned long long)bytes, (unsigned long long)differences);
    measure_busy(share);
    for (int i = 0; i < LENGTHS; i++)
        printf("%s[%u, %.1f, %.1f, %.1f, %.1f]", i == 0 ? "" : ", ", lengths[i], share[i][0],
               share[i][1], share[i][2], share[i][3]);
    printf("], \"runs\": %u, \"accuracy\": [", runs);
    measure_shapes(row, runs);
    for (uint32_t i = 0; i < SHAPE_ROWS; i++)
        printf("%s{\"graph\": \"%s\", \"clusters\": %u, \"predicted_ms\": %.2f, "
               "\"median_ms\": %.2f, \"spread\": %.2f, \"error\": %.2f}",
               i == 0 ? "" : ", ", row[i].name, row[i].clusters, row[i].predicted, row[i].median,
               row[i].spread, row[i].error);
    printf("]}\n");
    return 0;
}

/* Returns argument `index`, a number from 1 to `most`; else `fallback`. */
static uint64_t number_of(int argc, char **argv, int index, uint64_t most, uint64_t fallback)
{
    uint64_t value = argc > index ? strtoull(argv[index], NULL, 10) : 0;

    return value != 0 && value <= most ? value : fallback;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    uint64_t tasks = number_of(argc, argv, 2, UINT32_MAX, 1000000);

    if (strcmp(what, "speed") == 0)
        return print_speed(tasks, argc > 3 ? strtod(argv[3], NULL) : 0);
    if (strcmp(what, "same") == 0)
        return print_same(tasks);
    if (strcmp(what, "busy") == 0)
        return print_busy();
    if (strcmp(what, "accuracy") == 0)
        return print_accuracy((uint32_t)number_of(argc, argv, 2, RUNS_MAX, 5));
    if (strcmp(what, "json") == 0)
        return print_json(tasks, (uint32_t)number_of(argc, argv, 3, 100, 5),
                          (uint32_t)number_of(argc, argv, 4, RUNS_MAX, 5));
    fprintf(stderr,
            "usage: virtual speed [TASKS [SECONDS]] | same [TASKS] | busy | accuracy [RUNS] "
            "| json [TASKS [TIMES [RUNS]]]\n");
    return 2;
}
