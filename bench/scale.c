/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What our own cost per task and memory depend on, one point of one curve in a
 * process, so that the peak of resident memory is that of this point:
 *
 *     scale CURVE X [RUNS]   a line of JSON; the fastest run counts
 *     scale --list           curves with their points
 *     scale fixed            one-task run, device, graph: times in microseconds
 *     scale held X [RUNS]    X tiles streamed, held and kept, and beside them loops that do
 *                            nothing but touch the memory that holding and keeping them takes
 *     scale growth [RUNS]    regions that no grid fits, held: 1 000 and 100 000 of them, and
 *                            beside them loops that touch the memory which those take
 *
 * Tasks are made while they are submitted; nothing here grows with their number.
 * Under callgrind with --instr-atstart=no only the last run of a point is counted.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <valgrind/callgrind.h>

#include "tool/bench/bench_fresh.h"
#include "overlap/regions.h"
#include "pto/pto.h"

enum {
    TASKS = 100000,      /* of a point, where X is something else */
    TASKS_BUILT = 10000, /* with many predecessors, all of them alive */
    RUNS = 3,
    TILE = 16,
    WIDTH = 64,
    PREDECESSORS_MAX = 1000,
    FIXED_RUNS = 2000,
    FIXED_DEVICES = 200,
    FIXED_GRAPHS = 200,
    FIXED_GRAPH_TASKS = 1000
};

#define MEMORY_MAX (4ull << 30)
#define ITEM_BASE 0x7f0000000000ull /* nothing lies behind it: the kernels are empty */
#define GROUP_BYTES (1ull << 16)    /* from one buffer of predecessors to the next */

static_assert(PREDECESSORS_MAX * TILE * sizeof(float) <= GROUP_BYTES, "groups do not overlap");

struct point;

enum how {
    STREAMED,
    BUILT, /* the graph is complete before the first task runs */
    KEPT,  /* pto_graph_build, which alone is measured */
};

struct curve {
    const char *name;
    void (*submit)(struct pto_orch *o, const struct point *p);
    const char *points;
    enum how how;
};

struct point {
    const struct curve *curve;
    uint32_t x;
    uint32_t tasks;
    struct pto_tensor whole; /* for regions */
};

static struct point point;
static struct pto_run_report report;
static struct pto_callable *callable;

static const struct curve *find_curve(const char *name);
static int measure_point(int runs);
static int measure_fixed(void);
static void list_curves(void);
static int measure_held(uint32_t items, int runs);
static int measure_growth(int runs);

int main(int argc, char **argv)
{
    const struct curve *curve = argc > 1 ? find_curve(argv[1]) : NULL;
    int x = argc > 2 ? atoi(argv[2]) : 0;
    int runs = argc > 3 ? atoi(argv[3]) : RUNS;

    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        list_curves();
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "fixed") == 0)
        return measure_fixed();
    if ((argc == 3 || argc == 4) && strcmp(argv[1], "held") == 0 && x > 0 && runs > 0)
        return measure_held((uint32_t)x, runs);
    if ((argc == 2 || (argc == 3 && x > 0)) && strcmp(argv[1], "growth") == 0)
        return measure_growth(argc == 3 ? x : RUNS);
    if (argc < 3 || argc > 4 || curve == NULL || x < 1 || runs < 1) {
        fprintf(stderr, "usage: scale CURVE X [RUNS] | scale --list | scale fixed | "
                        "scale held X [RUNS] | scale growth [RUNS]\n");
        return 2;
    }
    point.curve = curve;
    point.x = (uint32_t)x;
    return measure_point(runs);
}

/* ---- what is submitted ---- */

static struct pto_tensor item(uint32_t index)
{
    const uint32_t shape[2] = { TILE, TILE };

    return pto_tensor_external((void *)(ITEM_BASE + 4096ull * index), shape, 2, PTO_FLOAT32);
}

static void submit_nodep(struct pto_orch *o, const struct point *p)
{
    struct pto_args args;

    for (uint32_t i = 0; i < p->tasks; i++) {
        pto_args_init(&args);
        pto_submit_aiv(o, 0, &args);
    }
}

/* A buffer of its own for every task: none is ever used again. */
static void submit_fresh(struct pto_orch *o, const struct point *p)
{
    struct pto_args args;

    for (uint32_t i = 0; i < p->tasks; i++) {
        struct pto_tensor t = item(i);

        pto_args_init(&args);
        pto_add_inout(&args, &t);
        pto_submit_aiv(o, 0, &args);
    }
}

static void submit_stencil(struct pto_orch *o, const struct point *p)
{
    static struct pto_tensor row[2][WIDTH];
    struct pto_args args;

    for (uint32_t i = 0; i < 2 * WIDTH; i++)
        row[i / WIDTH][i % WIDTH] = item(i);
    for (uint32_t i = 0; i < p->tasks; i++) {
        uint32_t x = i % WIDTH, now = i / WIDTH % 2;

        pto_args_init(&args);
        pto_add_input(&args, &row[!now][(x + WIDTH - 1) % WIDTH]);
        pto_add_input(&args, &row[!now][x]);
        pto_add_input(&args, &row[!now][(x + 1) % WIDTH]);
        pto_add_output_existing(&args, &row[now][x]);
        pto_submit_aiv(o, 0, &args);
    }
}

/* One writer, X readers, one writer ...: the writer has X predecessors, found by itself. */
static void submit_readers(struct pto_orch *o, const struct point *p)
{
    struct pto_tensor t = item(0);
    struct pto_args args;

    for (uint32_t i = 0; i < p->tasks; i++) {
        pto_args_init(&args);
        if (i % (p->x + 1) == 0)
            pto_add_inout(&args, &t);
        else
            pto_add_input(&args, &t);
        pto_submit_aiv(o, 0, &args);
    }
}

/* X tasks without arguments, then one that names all of them. */
static void submit_explicit(struct pto_orch *o, const struct point *p)
{
    static struct pto_task_id id[PREDECESSORS_MAX];
    struct pto_args args;
    uint32_t count = 0;

    for (uint32_t i = 0; i < p->tasks; i++) {
        pto_args_init(&args);
        if (count == p->x) {
            pto_set_deps(&args, id, NULL, count);
            pto_submit_aiv(o, 0, &args);
            count = 0;
        } else {
            id[count++] = pto_submit_aiv(o, 0, &args).task;
        }
    }
}

/* X writers of tiles, then one that reads the whole buffer; group after group. */
static void submit_groups(struct pto_orch *o, const struct point *p, bool is_fresh)
{
    const uint32_t tile[1] = { TILE };
    struct pto_tensor whole = p->whole;
    struct pto_args args;

    for (uint32_t i = 0; i < p->tasks; i++) {
        uint32_t group = i / (p->x + 1), at[1] = { i % (p->x + 1) * TILE };

        if (at[0] == 0 && is_fresh)
            whole = pto_tensor_external((void *)(ITEM_BASE + GROUP_BYTES * group),
                                        (uint32_t[]){ p->x * TILE }, 1, PTO_FLOAT32);
        pto_args_init(&args);
        if (i % (p->x + 1) == p->x) {
            pto_add_input(&args, &whole);
            pto_submit_aiv(o, 0, &args);
        } else {
            struct pto_tensor t = pto_tensor_view(&whole, tile, at);

            pto_add_output_existing(&args, &t);
            pto_submit_aiv(o, 0, &args);
        }
    }
}

/* A buffer of its own for every group: the reader has X predecessors, and nobody else has any. */
static void submit_gather(struct pto_orch *o, const struct point *p)
{
    submit_groups(o, p, true);
}

/* One buffer for all: a tile that is written again waits for all living readers of the whole. */
static void submit_gather_same(struct pto_orch *o, const struct point *p)
{
    submit_groups(o, p, false);
}

/* Every task writes one of X regions; neighbours are not taken one after the other. */
static void submit_regions(struct pto_orch *o, const struct point *p, uint32_t dims, uint32_t width)
{
    uint32_t shape[PTO_MAX_DIMS] = { dims == 1 ? width : TILE, width };
    struct pto_args args;

    for (uint32_t i = 0; i < p->tasks; i++) {
        uint32_t at[PTO_MAX_DIMS] = { 0 };
        struct pto_tensor t;

        at[dims - 1] = (uint32_t)((uint64_t)i * 7919 % p->x) * TILE;
        t = pto_tensor_view(&p->whole, shape, at);
        pto_args_init(&args);
        pto_add_inout(&args, &t);
        pto_submit_aiv(o, 0, &args);
    }
}

static void submit_disjoint(struct pto_orch *o, const struct point *p)
{
    submit_regions(o, p, 1, TILE);
}

static void submit_overlapping(struct pto_orch *o, const struct point *p)
{
    submit_regions(o, p, 1, TILE + TILE / 2);
}

static void submit_strided(struct pto_orch *o, const struct point *p)
{
    submit_regions(o, p, 2, TILE);
}

static void submit_tiles(struct pto_orch *o, const struct point *p)
{
    fresh_tiles(o, p->tasks);
}

static void submit_ragged(struct pto_orch *o, const struct point *p)
{
    fresh_ragged(o, p->tasks);
}

static void submit_boxes(struct pto_orch *o, const struct point *p)
{
    fresh_boxes(o, p->tasks);
}

static void submit_strides(struct pto_orch *o, const struct point *p)
{
    fresh_strides(o, p->tasks);
}

static void submit_looks(struct pto_orch *o, const struct point *p)
{
    fresh_looks(o, p->tasks);
}

static void submit_rounds(struct pto_orch *o, const struct point *p)
{
    fresh_rounds(o, p->tasks);
}

#define TASK_POINTS "1000 10000 100000 1000000 10000000"
#define PREDECESSOR_POINTS "1 3 10 30 100 300 1000"
#define REGION_POINTS "1 10 100 1000 10000 100000"
#define FRESH_POINTS "1000 10000 100000"
#define CORE_POINTS "3 6 12 24 48 72 108" /* whole clusters: 1 AIC and 2 AIV each */
#define WORKER_POINTS "1 2 3 4 6 8"

static const struct curve curves[] = {
    { "tasks:nodep", submit_nodep, TASK_POINTS, STREAMED },
    { "tasks:stencil64", submit_stencil, TASK_POINTS, STREAMED },
    { "tasks:fresh-buffers", submit_fresh, TASK_POINTS, STREAMED },
    { "predecessors:readers", submit_readers, PREDECESSOR_POINTS, STREAMED },
    { "predecessors:tiles", submit_gather, PREDECESSOR_POINTS, STREAMED },
    { "predecessors:readers-built", submit_readers, PREDECESSOR_POINTS, BUILT },
    { "predecessors:tiles-built", submit_gather, PREDECESSOR_POINTS, BUILT },
    { "predecessors:same-tiles", submit_gather_same, PREDECESSOR_POINTS, STREAMED },
    { "predecessors:same-tiles-built", submit_gather_same, PREDECESSOR_POINTS, BUILT },
    { "predecessors:explicit-built", submit_explicit, PREDECESSOR_POINTS, BUILT },
    { "regions:disjoint", submit_disjoint, REGION_POINTS, STREAMED },
    { "regions:overlapping", submit_overlapping, REGION_POINTS, STREAMED },
    { "regions:strided", submit_strided, REGION_POINTS, STREAMED },
    { "regions:disjoint-built", submit_disjoint, REGION_POINTS, BUILT },
    { "regions:overlapping-built", submit_overlapping, REGION_POINTS, BUILT },
    { "regions:strided-built", submit_strided, REGION_POINTS, BUILT },
    { "fresh:tiles", submit_tiles, FRESH_POINTS, STREAMED },
    { "fresh:tiles-built", submit_tiles, FRESH_POINTS, BUILT },
    { "fresh:tiles-kept", submit_tiles, FRESH_POINTS, KEPT },
    { "fresh:ragged", submit_ragged, FRESH_POINTS, STREAMED },
    { "fresh:ragged-built", submit_ragged, FRESH_POINTS, BUILT },
    { "fresh:ragged-kept", submit_ragged, FRESH_POINTS, KEPT },
    { "fresh:boxes", submit_boxes, FRESH_POINTS, STREAMED },
    { "fresh:boxes-built", submit_boxes, FRESH_POINTS, BUILT },
    { "fresh:boxes-kept", submit_boxes, FRESH_POINTS, KEPT },
    { "fresh:strides", submit_strides, FRESH_POINTS, STREAMED },
    { "fresh:strides-built", submit_strides, FRESH_POINTS, BUILT },
    { "fresh:strides-kept", submit_strides, FRESH_POINTS, KEPT },
    { "fresh:looks", submit_looks, FRESH_POINTS, STREAMED },
    { "fresh:looks-built", submit_looks, FRESH_POINTS, BUILT },
    { "fresh:looks-kept", submit_looks, FRESH_POINTS, KEPT },
    { "fresh:rounds", submit_rounds, FRESH_POINTS, STREAMED },
    { "fresh:rounds-built", submit_rounds, FRESH_POINTS, BUILT },
    { "fresh:rounds-kept", submit_rounds, FRESH_POINTS, KEPT },
    { "cores:nodep", submit_nodep, CORE_POINTS, STREAMED },
    { "cores:stencil64", submit_stencil, CORE_POINTS, STREAMED },
    { "workers:nodep", submit_nodep, WORKER_POINTS, STREAMED },
    { "workers:stencil64", submit_stencil, WORKER_POINTS, STREAMED },
};

enum { CURVES = sizeof(curves) / sizeof(curves[0]) };

static const struct curve *find_curve(const char *name)
{
    for (int i = 0; i < CURVES; i++)
        if (strcmp(curves[i].name, name) == 0)
            return &curves[i];
    return NULL;
}

static void list_curves(void)
{
    for (int i = 0; i < CURVES; i++)
        printf("%s %s\n", curves[i].name, curves[i].points);
}

static bool is_about(const char *subject)
{
    return strncmp(point.curve->name, subject, strlen(subject)) == 0;
}

/* ---- a point ---- */

static void empty_kernel(int64_t *args)
{
    __asm__ volatile("" ::"r"(args) : "memory");
}

static void submit_all(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    point.curve->submit(o, &point);
}

static bool is_failed(const char *what, int status)
{
    if (status < 0)
        fprintf(stderr, "scale: %s: %s: %s\n", what, pto_strerror(status), report.error.text);
    return status < 0;
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* VmRSS or VmHWM of this process, in bytes; 0: not known. */
static uint64_t memory_bytes(const char *field)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    uint64_t kib = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, field, strlen(field)) == 0)
            kib = strtoull(line + strlen(field) + 1, NULL, 10);
    if (file != NULL)
        fclose(file);
    return 1024 * kib;
}

static bool open_device(uint32_t workers, uint32_t cores, struct pto_device **device_out)
{
    struct pto_device_params params;

    pto_device_params_init(&params);
    params.platform = "a5sim";
    params.workers = workers;
    params.clusters = cores / PTO_CLUSTER_CORES;
    params.memory_max = MEMORY_MAX; /* a curve that bends is not to take the machine along */
    return !is_failed("no device", pto_device_open(&params, device_out));
}

static bool make_callable(void)
{
    static const struct pto_kernel kernel = { "empty", empty_kernel, PTO_CORE_AIV };
    struct pto_callable_params params;

    pto_callable_params_init(&params);
    params.name = "scale";
    params.orchestration = submit_all;
    params.kernels = &kernel;
    params.kernel_count = 1;
    pto_run_report_init(&report);
    return !is_failed("no callable", pto_callable_create(&params, &callable));
}

/* Wide enough for the last region of those that overlap their neighbour. */
static void make_whole(void)
{
    bool is_strided = strstr(point.curve->name, "strided") != NULL;
    uint32_t width = point.x * TILE + (strstr(point.curve->name, "overlap") != NULL ? TILE / 2 : 0);
    uint32_t shape[PTO_MAX_DIMS] = { is_strided ? TILE : width, width };

    point.whole = pto_tensor_external((void *)ITEM_BASE, shape, is_strided ? 2 : 1, PTO_FLOAT32);
}

/* One run, or the building of one graph, and how long it took; 0: it failed. */
static uint64_t run_once(struct pto_device *device, const struct pto_run_options *options)
{
    struct pto_entry entry = { 0 };
    struct pto_graph *graph;
    uint64_t start = now_ns();
    uint64_t ns;

    pto_run_report_init(&report);
    if (point.curve->how != KEPT) {
        if (is_failed("a run failed", pto_run(device, callable, &entry, options, &report)))
            return 0;
        return report.ns;
    }
    if (is_failed("no graph", pto_graph_build(device, callable, &entry, NULL, &report, &graph)))
        return 0;
    ns = now_ns() - start;
    (void)pto_graph_destroy(graph);
    return ns;
}

struct measured {
    double ns; /* a task, of the fastest run */
    double cpu_ns;
    uint64_t memory_before;
};

static bool measure_runs(int runs, struct measured *out)
{
    uint32_t cores = is_about("cores:") ? point.x : 8 * PTO_CLUSTER_CORES;
    uint32_t workers = is_about("workers:") ? point.x : 1;
    struct pto_run_options options;
    struct pto_device *device;
    uint64_t best = 0, best_cpu = 0;

    make_whole();
    pto_run_options_init(&options);
    options.mode = point.curve->how == BUILT ? PTO_MODE_HOST : PTO_MODE_STREAM;
    if (!make_callable() || !open_device(workers, cores, &device))
        return false;
    out->memory_before = memory_bytes("VmRSS");
    for (int i = 0; i < runs; i++) {
        uint64_t ns, cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

        if (i == runs - 1)
            CALLGRIND_START_INSTRUMENTATION;
        ns = run_once(device, &options);
        cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        if (ns == 0)
            return false;
        if (i == 0 || ns < best)
            best = ns;
        if (i == 0 || cpu < best_cpu)
            best_cpu = cpu;
    }
    CALLGRIND_STOP_INSTRUMENTATION;
    out->ns = (double)best / point.tasks;
    out->cpu_ns = (double)best_cpu / point.tasks;
    (void)pto_callable_destroy(callable);
    (void)pto_device_close(device);
    return true;
}

static int measure_point(int runs)
{
    struct measured m;

    point.tasks = is_about("tasks:") || is_about("fresh:") ? point.x : TASKS;
    if (is_about("predecessors:")) { /* whole groups only */
        point.tasks = point.curve->how == BUILT ? TASKS_BUILT : TASKS;
        point.tasks = (point.tasks / (point.x + 1) + 1) * (point.x + 1);
    }
    if (is_about("predecessors:") && point.x > PREDECESSORS_MAX)
        return 2;
    if (!measure_runs(runs, &m))
        return 1;
    printf("{\"curve\": \"%s\", \"x\": %" PRIu32 ", \"tasks\": %" PRIu32 ", \"edges\": %" PRIu64
           ", \"ns_per_task\": %.2f, \"cpu_ns_per_task\": %.2f, \"memory_before\": %" PRIu64
           ", \"memory_peak\": %" PRIu64 "}\n",
           point.curve->name, point.x, point.tasks, report.edges, m.ns, m.cpu_ns, m.memory_before,
           memory_bytes("VmHWM"));
    return 0;
}

/* ---- fixed costs ---- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print_fixed(const char *name, double *us, uint32_t count, bool is_first)
{
    qsort(us, count, sizeof(*us), compare_doubles);
    printf("%s\"%s\": {\"p50_us\": %.3f, \"p99_us\": %.3f, \"count\": %" PRIu32 "}",
           is_first ? "{" : ", ", name, us[count / 2], us[count * 99 / 100], count);
}

static double us_since(uint64_t start_ns)
{
    return (double)(now_ns() - start_ns) / 1000;
}

static bool fixed_devices(double *open_us, double *close_us)
{
    for (uint32_t i = 0; i < FIXED_DEVICES; i++) {
        struct pto_device *device;
        uint64_t start = now_ns();

        if (!open_device(2, 8 * PTO_CLUSTER_CORES, &device))
            return false;
        open_us[i] = us_since(start);
        start = now_ns();
        (void)pto_device_close(device);
        close_us[i] = us_since(start);
    }
    return true;
}

/* With `rest_us` between two runs the other worker has gone to sleep. */
static bool fixed_runs(struct pto_device *device, struct pto_graph *graph, uint32_t rest_us,
                       double *us, uint32_t count)
{
    struct pto_entry entry = { 0 };

    for (uint32_t i = 0; i < count; i++) {
        struct timespec rest = { 0, (long)rest_us * 1000 };
        uint64_t start;
        int status;

        if (rest_us != 0)
            nanosleep(&rest, NULL);
        start = now_ns();
        status = graph != NULL ? pto_graph_run(graph, &entry, NULL, &report)
                               : pto_run(device, callable, &entry, NULL, &report);
        us[i] = us_since(start);
        if (is_failed("a run failed", status))
            return false;
    }
    return true;
}

static bool fixed_builds(struct pto_device *device, double *us)
{
    struct pto_entry entry = { 0 };

    for (uint32_t i = 0; i < FIXED_GRAPHS; i++) {
        struct pto_graph *graph;
        uint64_t start = now_ns();

        if (is_failed("no graph", pto_graph_build(device, callable, &entry, NULL, &report, &graph)))
            return false;
        us[i] = us_since(start);
        (void)pto_graph_destroy(graph);
    }
    return true;
}

/* The graph of point.tasks tasks: built, and launched again. */
static bool fixed_graph(struct pto_device *device, const char *build_name, const char *run_name,
                        double *us)
{
    struct pto_entry entry = { 0 };
    struct pto_graph *graph;
    bool is_fine;

    if (!fixed_builds(device, us))
        return false;
    print_fixed(build_name, us, FIXED_GRAPHS, false);
    if (is_failed("no graph", pto_graph_build(device, callable, &entry, NULL, &report, &graph)))
        return false;
    is_fine = fixed_runs(device, graph, 0, us, FIXED_RUNS);
    if (is_fine)
        print_fixed(run_name, us, FIXED_RUNS, false);
    (void)pto_graph_destroy(graph);
    return is_fine;
}

static int measure_fixed(void)
{
    static double us[FIXED_RUNS], close_us[FIXED_DEVICES];
    struct pto_device *device;

    point.curve = &curves[0];
    point.tasks = 1;
    if (!make_callable() || !fixed_devices(us, close_us) ||
        !open_device(2, 8 * PTO_CLUSTER_CORES, &device))
        return 1;
    print_fixed("device open", us, FIXED_DEVICES, true);
    print_fixed("device close", close_us, FIXED_DEVICES, false);
    if (!fixed_runs(device, NULL, 0, us, FIXED_RUNS))
        return 1;
    print_fixed("run of one task", us, FIXED_RUNS, false);
    if (!fixed_runs(device, NULL, 1000, us, FIXED_RUNS / 4))
        return 1;
    print_fixed("run of one task after 1 ms of rest", us, FIXED_RUNS / 4, false);
    if (!fixed_graph(device, "graph of one task, build", "graph of one task, launch", us))
        return 1;
    point.curve = find_curve("tasks:stencil64");
    point.tasks = FIXED_GRAPH_TASKS;
    if (!fixed_graph(device, "stencil64 of 1000 tasks, build", "stencil64 of 1000 tasks, launch",
                     us))
        return 1;
    printf("}\n");
    (void)pto_callable_destroy(callable);
    (void)pto_device_close(device);
    return 0;
}

/* ---- what memory takes ---- */

struct line {
    uint64_t word[8];
};

enum {
    SLOT_LINES = 5,  /* of a task with one tensor */
    SLOT_FILLED = 4, /* of these: header, edges, descriptor */
    AHEAD = 16,      /* items after which memory is asked for, as the engine does */
    NODE_FILLED = 11 /* entries of a node of the tree, as a rule */
};

/* Memory of tasks that are held, as the engine lays it out. */
struct room {
    struct line *slot;
    uint32_t (*books)[4]; /* of a slot, and of an id */
    uint32_t (*ids)[4];
    struct region *record; /* a power of two of them */
    struct region_shape *shape;
    uint32_t records;
    struct tree_node *node; /* those with leaves, then those above them */
    uint32_t leaf_nodes;
    struct region_frame *frame; /* FRESH_STRIDES of them */
    uint32_t dims;              /* that a search compares; 0: bytes */
    bool has_frames;            /* many, not one */
};

static void free_room(struct room *m)
{
    free(m->slot);
    free(m->books);
    free(m->ids);
    free(m->record);
    free(m->shape);
    free(m->node);
    free(m->frame);
}

/* With the numbers of their children in the upper nodes: which is next is known when one is read. */
static bool make_room(struct room *m, uint32_t items, uint32_t records_min)
{
    uint32_t uppers = items / NODE_FILLED / NODE_FILLED + 1;

    for (m->records = REGION_TABLE_START; m->records < records_min;)
        m->records *= 2;
    m->leaf_nodes = uppers * NODE_FILLED;
    m->slot = calloc((size_t)items * SLOT_LINES, sizeof(*m->slot));
    m->books = calloc(items, sizeof(*m->books));
    m->ids = calloc(items, sizeof(*m->ids));
    m->record = aligned_alloc(sizeof(struct line), m->records * sizeof(*m->record));
    m->shape = aligned_alloc(sizeof(struct line), m->records * sizeof(*m->shape));
    m->node = aligned_alloc(sizeof(struct line), (m->leaf_nodes + uppers) * sizeof(*m->node));
    m->frame = calloc(FRESH_STRIDES, sizeof(*m->frame));
    if (m->slot == NULL || m->books == NULL || m->ids == NULL || m->record == NULL ||
        m->shape == NULL || m->node == NULL || m->frame == NULL) {
        fprintf(stderr, "scale: no memory\n");
        free_room(m);
        return false;
    }
    memset(m->record, 0, m->records * sizeof(*m->record));
    memset(m->shape, 0, m->records * sizeof(*m->shape));
    memset(m->node, 0, (m->leaf_nodes + uppers) * sizeof(*m->node));
    for (uint32_t i = 0; i < m->leaf_nodes; i++)
        m->node[m->leaf_nodes + fresh_place(i / NODE_FILLED, uppers)].child[i % NODE_FILLED] =
            fresh_place(i, m->leaf_nodes);
    return true;
}

/* A task is written once, in the order in which tasks are submitted. */
static inline void touch_slot(struct room *m, uint32_t i)
{
    struct line *slot = &m->slot[(size_t)i * SLOT_LINES];

    for (uint32_t k = 0; k < SLOT_FILLED; k++)
        __builtin_prefetch(&slot[AHEAD * SLOT_LINES + k], 1, 3);
    for (uint32_t k = 0; k < SLOT_FILLED; k++)
        slot[k] = (struct line){ { i, k, i, k, i, k, i, k } };
    m->books[i][0] = m->ids[i][0] = i + 1;
}

/* ... then its tile's record and what is beside it, in the same order. */
static void touch_tiles(struct room *m, uint32_t items)
{
    memset(m->record, 0, m->records * sizeof(*m->record));
    for (uint32_t i = 0; i < items; i++) {
        uint64_t place = i % m->records;

        touch_slot(m, i);
        m->record[place] = (struct region){ .start = i, .length = 1, .writer = { i, i } };
        m->shape[place].frame_next = m->shape[place].frame_prev = m->shape[place].known = i;
        __asm__ volatile("" ::: "memory");
    }
}

/* All lines of a node that a search looks at. */
static inline uint32_t look_at(const struct tree_node *n, uint32_t dims)
{
    uint32_t sum = n->count + n->frame[0];

    for (uint32_t d = 0; d < dims; d++)
        sum += n->in[d].min[0] + n->in[d].max[0];
    for (uint32_t i = 0; i < TREE_FANOUT && dims == 0; i += 8)
        sum += (uint32_t)(n->lo[i] + n->hi[i]);
    return sum;
}

static inline void put_into(struct tree_node *n, uint32_t dims, uint32_t i)
{
    uint32_t k = i % TREE_FANOUT;

    n->count = k;
    n->frame[k] = n->last[k] = n->child[k] = n->serial[k] = i;
    n->lo[k] = n->hi[k] = i;
    for (uint32_t d = 0; d < dims; d++)
        n->in[d].min[k] = n->in[d].max[k] = i;
}

/*
 * ... or a region's anywhere, and the two lowest nodes of the tree above it, of which the upper
 * one says where the other is. What is above those is in a cache. A submit ends before the next
 * one begins: so what is read for an item is there before anything is asked for the next one.
 */
static uint64_t touch_scattered(struct room *m, uint32_t items)
{
    uint32_t uppers = m->leaf_nodes / NODE_FILLED;
    uint64_t sum = 0;

    for (uint32_t i = 0; i < items; i++) {
        uint32_t place = fresh_place(i, items) + (uint32_t)(sum >> 63); /* 0, which takes a look */
        uint32_t group = place / NODE_FILLED;
        uint32_t at = fresh_scattered(place, 1, m->records);
        const struct tree_node *upper =
            &m->node[m->leaf_nodes + fresh_place(group / NODE_FILLED, uppers)];
        struct tree_node *leaf;

        touch_slot(m, i);
        __builtin_prefetch(&m->record[at], 1, 3);
        __builtin_prefetch(&m->shape[at], 1, 3);
        __builtin_prefetch((char *)&m->shape[at] + sizeof(struct line), 1, 3);
        if (m->has_frames) { /* found by a record of its own */
            uint32_t frame = i % FRESH_STRIDES, of = fresh_scattered(frame, 2, m->records);

            sum += m->record[of].start + m->shape[of].geom.base + m->shape[of].frame_next;
            sum += m->frame[frame].geom.base;
            m->frame[frame].population++;
            m->frame[frame].class_of[1].count++;
        }
        sum += look_at(upper, m->dims);
        leaf = &m->node[upper->child[group % NODE_FILLED]];
        sum += look_at(leaf, m->dims);
        m->record[at] = (struct region){ .start = i, .length = 1, .writer = { i, i } };
        m->shape[at] = (struct region_shape){ .known = i };
        put_into(leaf, m->dims, i);
        __asm__ volatile("" ::"r"(sum) : "memory");
    }
    return sum;
}

/* When the tasks run, one after the other: header, and what the submitter knows of them. */
static uint64_t touch_run(struct room *m, uint32_t items)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < items; i++) {
        struct line *slot = &m->slot[(size_t)i * SLOT_LINES];

        __builtin_prefetch(&slot[AHEAD * SLOT_LINES], 1, 3);
        sum += slot->word[0] + slot->word[2];
        slot->word[3] = 1;
        m->books[i][0] = 0;
        m->books[i][2] = i;
        __asm__ volatile("" ::: "memory");
    }
    return sum;
}

/* ... or when they are copied into an image, in memory that is new: header, descriptor, three lists. */
static uint64_t touch_image(const struct room *m, uint32_t items)
{
    size_t bytes = items * (3 * sizeof(struct line) + 3 * sizeof(uint32_t));
    struct line *image =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t sum = 0;

    if (image == MAP_FAILED)
        return 0;
    (void)madvise(image, bytes, MADV_HUGEPAGE); /* as the engine's */
    for (uint32_t i = 0; i < items; i++) {
        const struct line *slot = &m->slot[(size_t)i * SLOT_LINES];
        struct line *payload = &image[items + 2 * (size_t)i];
        uint32_t *list = (uint32_t *)(void *)&image[3 * (size_t)items] + i;

        __builtin_prefetch(&slot[AHEAD * SLOT_LINES], 0, 3);
        image[i] = slot[0];
        payload[0] = slot[2];
        payload[1] = slot[3];
        list[0] = list[items] = list[2 * (size_t)items] = i;
    }
    for (uint32_t i = 0; i < items; i++) /* its edges, and what memory it names */
        sum += image[i].word[0] + image[items + 2 * (size_t)i].word[0];
    munmap(image, bytes);
    return sum;
}

static uint64_t touch_held(struct room *m, uint32_t items)
{
    touch_tiles(m, items);
    return touch_run(m, items);
}

static uint64_t touch_kept(struct room *m, uint32_t items)
{
    touch_tiles(m, items);
    return touch_image(m, items);
}

static uint64_t touch_grown(struct room *m, uint32_t items)
{
    return touch_scattered(m, items) + touch_run(m, items);
}

/* Processor time a task, of the fastest of `runs` after a first one, which finds no pages. */
static double time_touched(struct room *m, uint32_t items, int runs,
                           uint64_t (*touch)(struct room *m, uint32_t items))
{
    uint64_t best = UINT64_MAX;
    volatile uint64_t seen = 0;

    for (int i = 0; i <= runs; i++) {
        uint64_t start = clock_ns(CLOCK_PROCESS_CPUTIME_ID), ns;

        seen += touch(m, items);
        ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start;
        if (i != 0 && ns < best)
            best = ns;
    }
    return (double)best / items;
}

/* Processor time a task of a curve, where it is the number of tasks; below 0: it failed. */
static double time_curve(const char *name, uint32_t items, int runs)
{
    struct measured m;

    point.curve = find_curve(name);
    point.x = point.tasks = items;
    return measure_runs(runs + 1, &m) ? m.cpu_ns : -1;
}

static int measure_held(uint32_t items, int runs)
{
    static const char *const names[] = { "fresh:tiles", "fresh:tiles-built", "fresh:tiles-kept" };
    double ns[3], touched[3] = { 0 };
    struct room room = { 0 };

    for (int i = 0; i < 3; i++)
        if ((ns[i] = time_curve(names[i], items, runs)) < 0)
            return 1;
    if (!make_room(&room, items, items))
        return 1;
    touched[1] = time_touched(&room, items, runs, touch_held);
    touched[2] = time_touched(&room, items, runs, touch_kept);
    free_room(&room);
    printf("ns a task       measured  of streamed  memory alone  streamed and memory  of that\n");
    for (int i = 0; i < 3; i++)
        printf("%-15s %8.0f %12.1f %13.0f %20.0f %8.2f\n",
               (const char *[]){ "streamed", "held", "kept" }[i], ns[i], ns[i] / ns[0], touched[i],
               ns[0] + touched[i], ns[i] / (ns[0] + touched[i]));
    return 0;
}

static int measure_growth(int runs)
{
    static const struct {
        const char *name;
        uint32_t dims;
        bool has_frames;
    } rows[] = { { "fresh:ragged-built", 2, false },
                 { "fresh:boxes-built", 5, false },
                 { "fresh:strides-built", 0, true } };
    static const uint32_t items[2] = { 1000, 100000 };

    printf("%-20s %8s %7s %8s %7s %6s %15s\n", "ns a task", "10^3", "memory", "10^5", "memory",
           "times", "without memory");
    for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double ns[2], touched[2];

        for (int k = 0; k < 2; k++) {
            int repeats = k == 0 ? 20 * runs : runs; /* they take no time */
            struct room room = { .dims = rows[i].dims, .has_frames = rows[i].has_frames };

            ns[k] = time_curve(rows[i].name, items[k], repeats);
            if (ns[k] < 0 || !make_room(&room, items[k], 2 * items[k]))
                return 1;
            touched[k] = time_touched(&room, items[k], repeats, touch_grown);
            free_room(&room);
        }
        printf("%-20s %8.0f %7.0f %8.0f %7.0f %6.2f %15.2f\n", rows[i].name, ns[0], touched[0],
               ns[1], touched[1], ns[1] / ns[0], (ns[1] - touched[1]) / (ns[0] - touched[0]));
    }
    return 0;
}
