/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pattern, once, for counting instructions or for a quick look at time:
 *
 *     count PATTERN LAYOUT TASKS WORKERS WINDOW [REPETITIONS [TRACE]]
 *
 * LAYOUT is buffers, tiles, tiles2d, or again: buffers, in a graph that was
 * built and launched before; or simpler: buffers, submitted through include/simpler/; or
 * compat: the same through the compatibility layer, by the object that is beside this program; or
 * object: what that object does by itself, with operations that do nothing.
 * Under callgrind with --collect-atstart=no only the run itself is counted.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <valgrind/callgrind.h>

#include "tool/bench/bench_patterns.h"
#include "compat/orch/layout.h"
#include "wire/chip_callable.h"

static struct bench_load load;
static struct pto_device *device;
static struct pto_callable *callable;
static struct pto_graph *graph; /* NULL: every run submits its tasks */
static struct pto_run_options options;
static struct pto_run_report report;
static uint64_t scalar[3];
static struct pto_entry entry = { .scalar_count = 3, .scalar = scalar };

pto_orch_fn count_bind_simpler(void); /* count_simpler.cc */

static void empty_kernel(int64_t *args)
{
    __asm__ volatile("" ::"r"(args) : "memory");
}

static void submit_all(struct pto_orch *o, const struct pto_entry *unused)
{
    (void)unused;
    bench_submit(o, &load, 0, load.task_count, true);
}

static int index_of(const char *name, const char *const names[], int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    fprintf(stderr, "count: there is no \"%s\"\n", name);
    exit(2);
}

static bool is_failed(const char *what, int status)
{
    if (status < 0)
        fprintf(stderr, "count: %s: %s: %s\n", what, pto_strerror(status), report.error.text);
    return status < 0;
}

static bool open_device(uint32_t workers, pto_orch_fn orchestration)
{
    static const struct pto_kernel kernel = { "empty", empty_kernel, PTO_CORE_AIV };
    struct pto_callable_params callable_params;
    struct pto_device_params params;

    pto_device_params_init(&params);
    params.workers = workers;
    pto_callable_params_init(&callable_params);
    callable_params.orchestration = orchestration;
    callable_params.kernels = &kernel;
    callable_params.kernel_count = 1;
    pto_run_report_init(&report);
    return !is_failed("no device", pto_device_open(&params, &device)) &&
           !is_failed("no callable", pto_callable_create(&callable_params, &callable));
}

static size_t read_object(const char *program, char *to, size_t room)
{
    char path[4096];
    FILE *file;
    size_t size = 0;

    snprintf(path, sizeof(path), "%s_compat.so", program);
    file = fopen(path, "rb");
    if (file != NULL) {
        size = fread(to, 1, room, file);
        fclose(file);
    }
    return size;
}

/* A chip callable with the object twice: as the orchestration and as kernel 0. Our rules, to compare. */
static bool load_compat(const char *program)
{
    enum { ROOM = 1 << 20 };
    char *bytes = calloc(1, 2 * ROOM);
    struct chip_callable *head = (struct chip_callable *)(void *)bytes;
    struct core_callable *core;
    struct pto_load_options how;
    size_t size = bytes != NULL ? read_object(program, bytes + sizeof(*head), ROOM / 2) : 0;
    size_t at = (size + CHIP_CALLABLE_CHILD_ALIGN - 1) / CHIP_CALLABLE_CHILD_ALIGN *
                CHIP_CALLABLE_CHILD_ALIGN;
    int status = PTO_ELOAD;

    if (size != 0) {
        head->binary_size = (uint32_t)size;
        head->func_name_length = (uint32_t)strlen(strcpy(head->func_name, "submit_all"));
        head->child_count = 1;
        head->child_offsets[0] = (uint32_t)at;
        core = (struct core_callable *)(void *)(bytes + sizeof(*head) + at);
        core->binary_size = (uint32_t)size;
        memcpy(core + 1, bytes + sizeof(*head), size);
        pto_load_options_init(&how);
        how.deps = PTO_DEPS_SAFE;
        (void)pto_callable_destroy(callable);
        status = pto_callable_load_memory(bytes, sizeof(*head) + at + sizeof(*core) + size, &how,
                                          &callable, &report.error);
    }
    if (status >= 0)
        status = pto_register(device, callable, &report.error);
    free(bytes);
    return !is_failed("no object for the compatibility layer", status);
}

/* ---- the object alone ---- */

struct compat_runtime { /* as far as it knows it */
    const struct compat_ops *ops;
    uint8_t scope_mode;
};

static bool is_never_fatal(struct compat_runtime *rt)
{
    (void)rt;
    return false;
}

/* Of the result only the address is of interest: compilers of C would copy all of it. */
static void *submit_nothing(void *result)
{
    return result;
}

static void run_object(const char *program, int repetitions)
{
    static struct compat_ops ops = { .is_fatal = is_never_fatal };
    static struct compat_entry arguments;
    struct compat_runtime runtime = { &ops, 0 };
    void (*bind)(struct compat_runtime * rt), (*enter)(const struct compat_entry *arguments);
    void *(*submit)(void *result) = submit_nothing;
    char path[4096];
    double best = 1e30;
    void *object;

    snprintf(path, sizeof(path), "%s_compat.so", program);
    object = dlopen(path, RTLD_NOW);
    if (object == NULL) {
        fprintf(stderr, "count: %s\n", dlerror());
        exit(1);
    }
    *(void **)&bind = dlsym(object, "framework_bind_runtime");
    *(void **)&enter = dlsym(object, "submit_all");
    memcpy(&ops.submit, &submit, sizeof(submit));
    memcpy(arguments.scalar, scalar, sizeof(scalar));
    bind(&runtime);
    while (repetitions-- > 0) {
        struct timespec begin, end;
        double ns;

        clock_gettime(CLOCK_MONOTONIC, &begin);
        CALLGRIND_TOGGLE_COLLECT;
        enter(&arguments);
        CALLGRIND_TOGGLE_COLLECT;
        clock_gettime(CLOCK_MONOTONIC, &end);
        ns = (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
        best = ns < best ? ns : best;
    }
    printf("object tasks=%u ns_per_task=%.1f\n", load.task_count, best / load.task_count);
    dlclose(object);
}

/* ---- a run ---- */

/* A new run, or the graph launched once more. False: it failed. */
static bool run_once(void)
{
    int status = graph != NULL ? pto_graph_run(graph, &entry, &options, &report)
                               : pto_run(device, callable, &entry, &options, &report);

    if (status >= 0 && report.executions != load.task_count)
        fprintf(stderr, "count: not every task ran\n");
    return !is_failed("a run failed", status) && report.executions == load.task_count;
}

int main(int argc, char **argv)
{
    enum pattern pattern;
    enum layout layout;
    double best = 1e30;
    bool is_simpler, is_compat, is_object;
    int repetitions;

    if (argc < 6) {
        fprintf(stderr, "usage: count PATTERN LAYOUT TASKS WORKERS WINDOW [REPETITIONS [TRACE]]\n");
        return 2;
    }
    pattern = (enum pattern)index_of(argv[1], pattern_name, PATTERN_COUNT);
    is_simpler = strcmp(argv[2], "simpler") == 0;
    is_compat = strcmp(argv[2], "compat") == 0;
    is_object = strcmp(argv[2], "object") == 0;
    repetitions = argc > 6 ? atoi(argv[6]) : 1;
    layout = is_simpler || is_compat || is_object
                 ? LAYOUT_BUFFERS
                 : (enum layout)index_of(argv[2], layout_name, LAYOUT_COUNT);
    if (!bench_make(pattern, layout == LAYOUT_AGAIN ? LAYOUT_BUFFERS : layout,
                    (uint32_t)atoi(argv[3]), &load)) {
        fprintf(stderr, "count: out of memory\n");
        return 1;
    }
    pto_run_options_init(&options);
    options.live_max = (uint32_t)atoi(argv[5]);
    options.trace = argc > 7 ? (enum pto_trace)atoi(argv[7]) : PTO_TRACE_OFF;
    scalar[0] = (uint64_t)(uintptr_t)load.task;
    scalar[1] = (uint64_t)(uintptr_t)load.item;
    scalar[2] = load.task_count;
    if (is_object) {
        run_object(argv[0], repetitions);
        bench_free(&load);
        return 0;
    }
    if (!open_device((uint32_t)atoi(argv[4]), is_simpler ? count_bind_simpler() : submit_all))
        return 1;
    if (is_compat && !load_compat(argv[0]))
        return 1;
    if (layout == LAYOUT_AGAIN &&
        (is_failed("no graph",
                   pto_graph_build(device, callable, &entry, &options, &report, &graph)) ||
         !run_once()))
        return 1;
    while (repetitions-- > 0) {
        bool is_fine;

        CALLGRIND_TOGGLE_COLLECT;
        is_fine = run_once();
        CALLGRIND_TOGGLE_COLLECT;
        if (!is_fine)
            return 1;
        if ((double)report.ns / load.task_count < best)
            best = (double)report.ns / load.task_count;
    }
    printf("%s %s tasks=%u edges=%llu stolen=%llu ns_per_task=%.1f\n", argv[1], argv[2],
           load.task_count, (unsigned long long)report.edges, (unsigned long long)report.stolen,
           best);
    if (graph != NULL)
        (void)pto_graph_destroy(graph);
    pto_callable_destroy(callable);
    pto_device_close(device);
    bench_free(&load);
    return 0;
}
