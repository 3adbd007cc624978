/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Isolated devices: what they can do as any other one, what they refuse, and what is left
 * of one whose kernels, or whose neighbours, end its process. The program is started by
 * itself a second time, as the host that is killed.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "sim/far_wire.h"
#include "tests/unit/artefact_test.h"

extern char **environ;

/* What kernel "wild" does, by the entry's first scalar; 0: it is not submitted. */
#define DEEDS                                                                               \
    "enum { NOTHING, EXIT, UNDERSCORE_EXIT, ABORT, CRASH, LOOP, WAIT, BAD_FREE, SCRIBBLE, " \
    "BESIDE, LATER, BEYOND, ORCH_EXIT, ORCH_CRASH };\n"
enum {
    NOTHING,
    EXIT,
    UNDERSCORE_EXIT,
    ABORT,
    CRASH,
    LOOP,     /* sets element 1 */
    WAIT,     /* the same, until element 2 is set */
    BAD_FREE, /* the allocator notices */
    SCRIBBLE, /* over all of the heap */
    BESIDE,   /* a thread of its own calls abort while it waits */
    LATER,    /* the same, once the kernel has returned and element 2 is set */
    BEYOND,   /* writes behind its tensor */
    ORCH_EXIT,
    ORCH_CRASH,
};

static const char wild_orchestration[] =
    "#include <stdlib.h>\n"
    "#include <pto/orch.h>\n" DEEDS
    "void orchestrate(struct pto_orch *o, const struct pto_entry *e)\n"
    "{\n"
    "    uint64_t what = pto_scalar(o, 0);\n"
    "    if (what == ORCH_EXIT) exit(3);\n"
    "    if (what == ORCH_CRASH) *(volatile int *)8 = 1;\n"
    "    pto_aiv(o, 0, PTO_INOUT(&e->tensor[0]));\n"
    "    if (what != NOTHING) pto_aiv(o, 1, PTO_INOUT(&e->tensor[0]), PTO_INT(what));\n"
    "    pto_aiv(o, 0, PTO_INOUT(&e->tensor[0]));\n"
    "}\n";

static const char count_kernel[] = "#include <pto/kernel.h>\n"
                                   "void kernel_entry(int64_t *args)\n"
                                   "{ ++*(int *)pto_tensor_data(pto_arg_tensor(args, 0)); }\n";

static const char wild_kernel[] =
    "#include <pthread.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
    "#include <pto/kernel.h>\n" DEEDS "static char *volatile kept;\n"
    "static void *call_abort(void *word)\n"
    "{\n"
    "    while (word != NULL && *(volatile int *)word == 0) usleep(1000);\n"
    "    abort();\n"
    "}\n"
    "void kernel_entry(int64_t *args)\n"
    "{\n"
    "    volatile int *data = (int *)pto_tensor_data(pto_arg_tensor(args, 0));\n"
    "    pthread_t thread;\n"
    "    switch (args[1]) {\n"
    "    case EXIT: exit(7);\n"
    "    case UNDERSCORE_EXIT: _exit(9);\n"
    "    case ABORT: abort();\n"
    "    case CRASH: *(volatile int *)8 = 1; break;\n"
    "    case LOOP: data[1] = 1; for (;;) usleep(1000);\n"
    "    case WAIT: data[1] = 1; while (data[2] == 0) usleep(1000); break;\n"
    "    case BAD_FREE: kept = malloc(4000); kept += 8; free(kept); break;\n"
    "    case SCRIBBLE: kept = malloc(16); memset(kept, 0x5a, 1ul << 32); break;\n"
    "    case BESIDE: pthread_create(&thread, NULL, call_abort, NULL); for (;;) usleep(1000);\n"
    "    case LATER: pthread_create(&thread, NULL, call_abort, (void *)&data[2]); break;\n"
    "    case BEYOND: data[16] = 1; break;\n"
    "    }\n"
    "}\n";

enum { INTS = 16 };

/* A device with the callable, and its tensor in device memory. */
struct rig {
    struct pto_device *device;
    uint64_t addr;
    struct pto_tensor tensor;
    uint64_t scalar[1];
    struct pto_entry entry;
};

static struct pto_callable *wild;
static struct recipe wild_recipe;
static struct artefact_kernel wild_kernels[2];
static struct bytes count_bytes;

static int set_up(void **state)
{
    if (make_folder(state) != 0)
        return -1;
    count_bytes = compile(count_kernel, "");
    wild_recipe = (struct recipe){ .orchestration_bytes = compile(wild_orchestration, ""),
                                   .kernel_bytes = compile(wild_kernel, "-pthread") };
    wild_kernels[0] =
        (struct artefact_kernel){ 0, PTO_CORE_AIV, "count", count_bytes.at, count_bytes.size };
    wild_kernels[1] =
        (struct artefact_kernel){ 1, PTO_CORE_AIV, "wild", wild_recipe.kernel_bytes.at,
                                  wild_recipe.kernel_bytes.size };
    wild_recipe.parts =
        (struct artefact_parts){ .name = "far",
                                 .platform = "a2a3sim",
                                 .orchestration = wild_recipe.orchestration_bytes.at,
                                 .orchestration_size = wild_recipe.orchestration_bytes.size,
                                 .kernels = wild_kernels,
                                 .kernel_count = 2 };
    wild = load_recipe(&wild_recipe);
    return 0;
}

static int tear_down(void **state)
{
    assert_int_equal(pto_callable_destroy(wild), PTO_OK);
    free_recipe(&wild_recipe);
    free(count_bytes.at);
    return remove_folder(state);
}

static struct pto_device *open_far(uint32_t workers)
{
    struct pto_device_params params;
    struct pto_error error;
    struct pto_device *device = NULL;

    pto_error_init(&error);
    pto_device_params_init(&params);
    params.clusters = 2;
    params.workers = workers;
    params.is_isolated = true;
    params.error = &error;
    if (pto_device_open(&params, &device) < 0)
        fail_msg("%s", error.text);
    return device;
}

static struct rig set_rig(struct pto_device *device)
{
    static const int zero[INTS];
    struct rig r = { .device = device };

    assert_int_equal(pto_mem_alloc(device, sizeof(zero), &r.addr), PTO_OK);
    assert_int_equal(pto_mem_write(device, r.addr, zero, sizeof(zero)), PTO_OK);
    r.tensor = pto_tensor_external((void *)(uintptr_t)r.addr, (uint32_t[]){ INTS }, 1, PTO_INT32);
    r.tensor.space = PTO_SPACE_DEVICE;
    return r;
}

static const struct pto_entry *entry_of(struct rig *r, uint64_t what)
{
    r->scalar[0] = what;
    r->entry = (struct pto_entry){ 1, 1, &r->tensor, r->scalar };
    return &r->entry;
}

static int run_wild(struct rig *r, uint64_t what)
{
    pto_run_report_init(&report);
    return pto_run(r->device, wild, entry_of(r, what), NULL, &report);
}

static int element(struct rig *r, uint32_t index)
{
    int value;

    assert_int_equal(pto_mem_read(r->device, r->addr + index * sizeof(int), &value, sizeof(value)),
                     PTO_OK);
    return value;
}

static void set_element(struct rig *r, uint32_t index, int value)
{
    assert_int_equal(pto_mem_write(r->device, r->addr + index * sizeof(int), &value, sizeof(value)),
                     PTO_OK);
}

static void assert_works(struct rig *r)
{
    int before = element(r, 0);

    if (run_wild(r, NOTHING) < 0)
        fail_msg("%s", report.error.text);
    assert_int_equal(element(r, 0), before + 2);
}

/* The device has gone, which is said; whoever opens another one can go on. */
static void assert_gone(struct rig *r, int status, const char *words)
{
    struct pto_device_info info;
    struct rig other;
    uint64_t addr;

    assert_refused(status, PTO_EPEER, words);
    pto_device_info_init(&info);
    assert_int_equal(pto_device_info(r->device, &info), PTO_OK);
    assert_true(info.is_lost);
    assert_refused(run_wild(r, NOTHING), PTO_ELOST, "its process has ended");
    assert_int_equal(pto_mem_alloc(r->device, 64, &addr), PTO_ELOST);
    assert_int_equal(pto_mem_read(r->device, r->addr, &addr, sizeof(addr)), PTO_ELOST);
    assert_int_equal(pto_mem_free(r->device, r->addr, NULL), PTO_ELOST);
    assert_int_equal(pto_device_close(r->device), PTO_OK);
    assert_int_equal(pto_stuck_threads(), 0);
    other = set_rig(open_far(2));
    assert_works(&other);
    assert_int_equal(pto_device_close(other.device), PTO_OK);
}

/* ---- processes ---- */

static char state_of(pid_t pid)
{
    char path[64], text[512] = { 0 };
    FILE *file;
    char *end;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    if (file == NULL)
        return 0;
    (void)!fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    end = strrchr(text, ')');
    return end != NULL ? end[2] : 0;
}

/* The children of a process; returns how many there are, *last is one of them. */
static uint32_t children_of(pid_t parent, pid_t *last)
{
    DIR *proc = opendir("/proc");
    uint32_t count = 0;

    assert_non_null(proc);
    for (struct dirent *entry = readdir(proc); entry != NULL; entry = readdir(proc)) {
        char path[300], text[512] = { 0 };
        FILE *file;
        char *end;
        int ppid = 0;

        snprintf(path, sizeof(path), "/proc/%.250s/stat", entry->d_name);
        file = entry->d_name[0] >= '0' && entry->d_name[0] <= '9' ? fopen(path, "r") : NULL;
        if (file == NULL)
            continue;
        (void)!fread(text, 1, sizeof(text) - 1, file);
        fclose(file);
        end = strrchr(text, ')');
        if (end != NULL && sscanf(end + 1, " %*c %d", &ppid) == 1 && ppid == parent) {
            count++;
            if (last != NULL)
                *last = (pid_t)atoi(entry->d_name);
        }
    }
    closedir(proc);
    return count;
}

static pid_t only_child(void)
{
    pid_t pid = 0;

    assert_int_equal(children_of(getpid(), &pid), 1);
    return pid;
}

static uint32_t count_descriptors(void)
{
    DIR *folder_of = opendir("/proc/self/fd");
    uint32_t count = 0;

    assert_non_null(folder_of);
    while (readdir(folder_of) != NULL)
        count++;
    closedir(folder_of);
    return count;
}

static uint64_t count_pages(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu", &pages), 1);
    fclose(file);
    return pages;
}

/* ---- as any other device ---- */

static void add_on(struct pto_device *device)
{
    struct pto_callable *callable = load_flags(ADD);
    int a[64], b[64], c[64] = { 0 };
    struct pto_tensor t[3];
    struct pto_entry entry = { .tensor_count = 3, .tensor = t };

    for (int i = 0; i < 64; i++) {
        a[i] = i;
        b[i] = 100 * i;
    }
    t[0] = pto_tensor_external(a, (uint32_t[]){ 64 }, 1, PTO_INT32);
    t[1] = pto_tensor_external(b, (uint32_t[]){ 64 }, 1, PTO_INT32);
    t[2] = pto_tensor_external(c, (uint32_t[]){ 64 }, 1, PTO_INT32);
    pto_run_report_init(&report);
    if (pto_run(device, callable, &entry, NULL, &report) < 0)
        fail_msg("%s", report.error.text);
    for (int i = 0; i < 64; i++)
        assert_int_equal(c[i], 101 * i);
    assert_int_equal(report.executions, 1);
    assert_int_equal(report.core_count, 6);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
}

static void tensors_of_the_host_are_copied_there_and_back(void **state)
{
    struct pto_device *device = open_far(2);

    (void)state;
    add_on(device);
    add_on(device);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

static void tells_what_it_is(void **state)
{
    struct pto_device *device = open_far(2);
    struct pto_device_info info;

    (void)state;
    pto_device_info_init(&info);
    assert_int_equal(pto_device_info(device, &info), PTO_OK);
    assert_string_equal(info.platform, "a2a3sim");
    assert_int_equal(info.aic_count, 2);
    assert_int_equal(info.aiv_count, 4);
    assert_int_equal(info.workers, 2);
    assert_true(info.is_isolated);
    assert_false(info.is_lost);
    assert_false(info.runs_functions);
    assert_false(info.has_observers);
    assert_int_equal(pto_device_info(NULL, &info), PTO_EINVAL);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

/* Whatever the host has, its address is none of the device's. */
static void device_memory_is_out_of_reach_and_has_bounds(void **state)
{
    struct pto_device *device = open_far(1), *second = open_far(1);
    uint64_t addr, other;
    char text[] = "through the file", got[sizeof(text)] = { 0 };
    struct pto_error error;
    int ends[2];

    (void)state;
    pto_error_init(&error);
    assert_int_equal(pto_mem_alloc(device, 5000, &addr), PTO_OK);
    assert_int_equal(pto_mem_alloc(second, 5000, &other), PTO_OK);
    assert_int_equal(addr % 1024, 0);
    assert_int_not_equal(addr, other);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], (void *)(uintptr_t)addr, 1), -1);
    assert_int_equal(errno, EFAULT);
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(pto_mem_write(device, addr + 4000, text, sizeof(text)), PTO_OK);
    assert_int_equal(pto_mem_read(device, addr + 4000, got, sizeof(got)), PTO_OK);
    assert_string_equal(got, text);
    assert_int_equal(pto_mem_write(second, addr, text, sizeof(text)), PTO_EMEMORY);
    assert_int_equal(pto_mem_write(device, addr + 4990, text, sizeof(text)), PTO_EMEMORY);
    assert_int_equal(pto_mem_read(device, addr - 1, got, 1), PTO_EMEMORY);
    assert_int_equal(pto_mem_alloc(device, 1ull << 45, &other), PTO_ENOMEM);
    assert_int_equal(pto_mem_check(device, &error), PTO_OK);
    assert_int_equal(pto_mem_free(device, addr + 1, &error), PTO_EMEMORY);
    assert_non_null(strstr(error.text, "lies inside"));
    assert_int_equal(pto_mem_free(device, addr, &error), PTO_OK);
    assert_int_equal(pto_mem_free(device, addr, &error), PTO_EMEMORY);
    assert_non_null(strstr(error.text, "freed before"));
    assert_int_equal(pto_device_close(second), PTO_OK);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

static void a_kernel_that_writes_beyond_its_tensor_is_noticed(void **state)
{
    struct rig r = set_rig(open_far(1));
    struct pto_error error;

    (void)state;
    pto_error_init(&error);
    assert_int_equal(run_wild(&r, BEYOND), PTO_OK);
    assert_int_equal(pto_mem_check(r.device, &error), PTO_EMEMORY);
    assert_non_null(strstr(error.text, "beyond its end"));
    assert_int_equal(pto_mem_free(r.device, r.addr, &error), PTO_EMEMORY);
    assert_int_equal(pto_device_close(r.device), PTO_OK);
}

static void graphs_are_built_and_launched(void **state)
{
    struct rig r = set_rig(open_far(2)), other = set_rig(r.device);
    struct pto_graph *graph = NULL;

    (void)state;
    pto_run_report_init(&report);
    if (pto_graph_build(r.device, wild, entry_of(&r, NOTHING), NULL, &report, &graph) < 0)
        fail_msg("%s", report.error.text);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(pto_graph_run(graph, entry_of(&r, NOTHING), NULL, NULL), PTO_OK);
        assert_int_equal(pto_graph_run(graph, entry_of(&other, NOTHING), NULL, NULL), PTO_OK);
    }
    assert_int_equal(element(&r, 0), 20);
    assert_int_equal(element(&other, 0), 20);
    pto_run_report_init(&report);
    assert_refused(pto_graph_run(graph, entry_of(&r, LOOP), NULL, &report), PTO_EGRAPH, "scalar 0");
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
    assert_int_equal(pto_device_close(r.device), PTO_OK);
}

static void a_run_is_recorded(void **state)
{
    struct rig r = set_rig(open_far(2));
    struct pto_run_options options;
    struct pto_error error;
    char path[100];
    char *text;
    size_t size;

    (void)state;
    pto_error_init(&error);
    pto_run_options_init(&options);
    options.trace = PTO_TRACE_TIMES;
    assert_int_equal(pto_run(r.device, wild, entry_of(&r, NOTHING), &options, NULL), PTO_OK);
    snprintf(path, sizeof(path), "%s/timeline", folder);
    for (int i = 0; i < 2; i++) { /* as often as one likes */
        if (pto_trace_write(r.device, path, &error) < 0)
            fail_msg("%s", error.text);
        assert_int_equal(file_read(path, 1 << 24, &text, &size), PTO_OK);
        assert_non_null(memmem(text, size, "count", 5));
        free(text);
    }
    assert_int_equal(run_wild(&r, NOTHING), PTO_OK); /* which is not */
    assert_int_equal(pto_trace_write(r.device, path, &error), PTO_OK);
    assert_int_equal(pto_device_close(r.device), PTO_OK);
}

static void a_failure_has_its_place_in_the_source(void **state)
{
    struct rig r;
    struct pto_run_options options;
    char story[4096];

    (void)state;
    if (IS_SANITIZED && !IS_TSAN)
        return; /* whose handlers are there instead of the one that calls a thread back */
    r = set_rig(open_far(2));
    pto_run_options_init(&options);
    options.stall_timeout_ns = 200 * MS;
    pto_run_report_init(&report);
    assert_refused(pto_run(r.device, wild, entry_of(&r, LOOP), &options, &report), PTO_ESTALL,
                   "kernel \"wild\" of task 1 does not return");
    assert_non_null(report.error.site.file);
    assert_non_null(strstr(report.error.text, "source:"));
    assert_true(pto_device_story(r.device, story, sizeof(story)) > 0);
    assert_non_null(strstr(story, "task 2, kernel \"count\" (source:"));
    assert_refused(run_wild(&r, NOTHING), PTO_ELOST, "a kernel never returned");
    assert_int_equal(pto_stuck_threads(), 0); /* none of this process */
    assert_int_equal(pto_device_close(r.device), PTO_OK);
}

static void a_run_can_be_cancelled(void **state)
{
    struct rig r = set_rig(open_far(1));
    struct pto_run *run;

    (void)state;
    assert_int_equal(pto_run_prepare(r.device, wild, entry_of(&r, WAIT), NULL, &run), PTO_OK);
    assert_int_equal(pto_run_launch(run), PTO_OK);
    while (element(&r, 1) == 0)
        nap_ns(MS);
    assert_int_equal(pto_run_cancel(run), PTO_OK);
    set_element(&r, 2, 1);
    assert_int_equal(pto_run_wait(run, 0), PTO_ECANCELED);
    assert_int_equal(pto_run_finish(run, NULL), PTO_ECANCELED);
    assert_works(&r);
    assert_int_equal(pto_device_close(r.device), PTO_OK);
}

static void several_devices_work_beside_each_other(void **state)
{
    struct rig r[3] = { set_rig(open_far(2)), set_rig(open_far(1)),
                        set_rig(open_device("a2a3sim", 2, 2)) };
    struct pto_run *run[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pto_run_prepare(r[i].device, wild, entry_of(&r[i], WAIT), NULL, &run[i]),
                         PTO_OK);
        assert_int_equal(pto_run_launch(run[i]), PTO_OK);
    }
    for (int i = 0; i < 3; i++) /* they all run now */
        while (element(&r[i], 1) == 0)
            nap_ns(MS);
    for (int i = 0; i < 3; i++)
        set_element(&r[i], 2, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pto_run_wait(run[i], 0), PTO_OK);
        assert_int_equal(pto_run_finish(run[i], NULL), PTO_OK);
        assert_int_equal(element(&r[i], 0), 2);
    }
    assert_refused(run_wild(&r[0], EXIT), PTO_EPEER, "exit code 7");
    assert_works(&r[1]);
    assert_works(&r[2]);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pto_device_close(r[i].device), PTO_OK);
}

static void a_child_of_the_host_leaves_the_device_alone(void **state)
{
    struct rig r = set_rig(open_far(1));
    struct pto_callable *mine = load_flags(ADD);
    pid_t child;
    int status;

    (void)state;
    assert_int_equal(pto_register(r.device, mine, NULL), PTO_OK);
    child = fork();
    if (child == 0)
        _exit(pto_callable_destroy(mine) == PTO_OK &&
                      pto_mem_free(r.device, r.addr, NULL) == PTO_EFORKED
                  ? 0
                  : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_works(&r);
    assert_int_equal(pto_device_close(r.device), PTO_OK);
    assert_int_equal(pto_callable_destroy(mine), PTO_OK);
}

static void nothing_is_left_after_close(void **state)
{
    struct rig r;
    uint32_t descriptors = 0;
    uint64_t pages = 0;

    (void)state;
    for (int i = 0; i < 20; i++) {
        r = set_rig(open_far(2));
        if (i % 4 == 3)
            (void)run_wild(&r, EXIT);
        else
            assert_works(&r);
        if (i % 2 == 0)
            assert_int_equal(pto_mem_free(r.device, r.addr, NULL), PTO_OK);
        assert_int_equal(pto_device_close(r.device), PTO_OK);
        assert_int_equal(children_of(getpid(), NULL), 0);
        if (i == 7) { /* what is made once is there */
            descriptors = count_descriptors();
            pages = count_pages();
        }
    }
    assert_int_equal(count_descriptors(), descriptors);
    if (!IS_SANITIZED)
        assert_in_range(count_pages(), 0, pages + 256); /* the device's memory is millions */
}

/* ---- what it refuses ---- */

static void orchestrate_nothing(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)o;
    (void)entry;
}

static void watch_task(void *context, const struct pto_task_view *view)
{
    (void)context;
    (void)view;
}

static void functions_and_observers_are_refused(void **state)
{
    struct rig r = set_rig(open_far(1));
    struct pto_callable *functions = make_callable(NULL, 0, orchestrate_nothing);
    struct pto_run_options options;

    (void)state;
    pto_run_report_init(&report);
    assert_refused(pto_run(r.device, functions, NULL, NULL, &report), PTO_ENOSUP,
                   "functions of this program");
    pto_run_options_init(&options);
    options.task = watch_task;
    pto_run_report_init(&report);
    assert_refused(pto_run(r.device, wild, entry_of(&r, NOTHING), &options, &report), PTO_ENOSUP,
                   "`edge` and `task`");
    assert_works(&r);
    assert_int_equal(pto_device_close(r.device), PTO_OK);
    assert_int_equal(pto_callable_destroy(functions), PTO_OK);
}

static void assert_not_opened(const char *program, int expected, const char *words)
{
    struct pto_device_params params;
    struct pto_device *device = NULL;
    struct pto_error error;
    uint32_t descriptors = count_descriptors();

    pto_error_init(&error);
    pto_device_params_init(&params);
    params.is_isolated = true;
    params.error = &error;
    setenv("PTO_CHIP", program, 1);
    assert_int_equal(pto_device_open(&params, &device), expected);
    unsetenv("PTO_CHIP");
    assert_int_equal(error.status, expected);
    if (strstr(error.text, words) == NULL)
        fail_msg("\"%s\", expected \"%s\"", error.text, words);
    assert_null(device);
    assert_int_equal(count_descriptors(), descriptors);
    assert_int_equal(children_of(getpid(), NULL), 0);
}

static void a_program_that_is_none_is_refused(void **state)
{
    char path[100];
    const char garbage[] = "#!/bin/sh\nhead -c 4096 /dev/urandom >&3\nsleep 100\n";

    (void)state;
    assert_not_opened("/nowhere/pto-chip", PTO_ENOSUP, "/nowhere/pto-chip");
    assert_not_opened("/bin/true", PTO_ESYSTEM, "PTO_CHIP");
    snprintf(path, sizeof(path), "%s/garbage", folder);
    assert_int_equal(file_write(path, garbage, sizeof(garbage) - 1), PTO_OK);
    assert_int_equal(chmod(path, 0700), 0);
    assert_not_opened(path, PTO_ESYSTEM, "PTO_CHIP");
}

/* Starts pto-chip as the library does, but for what it is told. */
static void a_library_of_another_version_is_refused(void **state)
{
    const struct far_patience patience = { -1, 60 };
    struct far_hello hello = { .host = getpid(), .clusters = 1, .workers = 1 };
    struct far_bytes out = { 0 }, in = { 0 };
    posix_spawn_file_actions_t actions;
    char program[300], self[200] = { 0 };
    char *argv[] = { program, NULL };
    struct far_head answer;
    int run[2], side[2];
    pid_t pid;

    (void)state;
    assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    *strrchr(self, '/') = '\0';
    snprintf(program, sizeof(program), "%s/../lib/pto/pto-chip", self);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, run), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, side), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, side[1], 100);
    posix_spawn_file_actions_adddup2(&actions, run[1], FAR_RUN_FD);
    posix_spawn_file_actions_adddup2(&actions, 100, FAR_SIDE_FD);
    assert_int_equal(posix_spawn(&pid, program, &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(run[1]);
    close(side[1]);
    sim_far_sizes(hello.size);
    strcpy(hello.version, "99.1");
    sim_bytes_put(&out, &hello, sizeof(hello));
    assert_int_equal(sim_far_send(run[0], &patience, (struct far_head){ .kind = FAR_HELLO }, &out),
                     PTO_OK);
    assert_int_equal(sim_far_receive(run[0], &patience, &answer, &in), PTO_OK);
    assert_int_equal(answer.status, PTO_ENOSUP);
    assert_non_null(strstr(sim_bytes_take_text(&in), "99.1"));
    close(run[0]);
    close(side[0]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    sim_bytes_free(&out);
    sim_bytes_free(&in);
}

/* ---- kernels that end their process ---- */

static void exit_in_a_kernel_ends_its_device_only(void **state)
{
    struct rig r = set_rig(open_far(2));
    char story[4096];

    (void)state;
    assert_int_equal(run_wild(&r, EXIT), PTO_EPEER);
    assert_non_null(strstr(report.error.text,
                           "kernel \"wild\" in block 0 of task 1 ended the process of the device"));
    assert_int_equal(report.error.kernel, 1);
    assert_true(pto_device_story(r.device, story, sizeof(story)) > 0);
    assert_non_null(strstr(story, "task 1, kernel \"wild\" (source:"));
    assert_non_null(strstr(story, "close it and open another one"));
    assert_gone(&r, PTO_EPEER, "exit code 7");
}

static void abort_in_a_kernel_ends_its_device_only(void **state)
{
    struct rig r = set_rig(open_far(2));

    (void)state;
    assert_gone(&r, run_wild(&r, ABORT),
                "kernel \"wild\" in block 0 of task 1 ended the process of the device, which was "
                "ended by signal 6");
}

static void an_end_without_a_word_is_told_as_such(void **state)
{
    struct rig r = set_rig(open_far(1));

    (void)state;
    assert_gone(&r, run_wild(&r, UNDERSCORE_EXIT), "exit code 9, and left no word");
}

static void an_orchestration_that_ends_the_process_is_named(void **state)
{
    struct rig r = set_rig(open_far(1));

    (void)state;
    assert_gone(&r, run_wild(&r, ORCH_EXIT),
                IS_SANITIZED ? "by the orchestration" : "exit code 3, by the orchestration");
    if (IS_SANITIZED)
        return; /* which has handlers of its own for crashes */
    r = set_rig(open_far(1));
    assert_gone(&r, run_wild(&r, ORCH_CRASH), "by the orchestration");
}

/* The allocator's checks differ, but none of them is the host's. */
static void a_damaged_heap_is_the_heap_of_one_process(void **state)
{
    struct rig r = set_rig(open_far(1));
    int status = run_wild(&r, BAD_FREE);

    (void)state;
    if (IS_SANITIZED)
        assert_gone(&r, status, "the process of the device");
    else
        assert_gone(&r, status, "kernel \"wild\" in block 0 of task 1 ended the process");
    r = set_rig(open_far(1));
    assert_true(run_wild(&r, SCRIBBLE) < 0);
    for (int i = 0; i < 5; i++)
        (void)run_wild(&r, NOTHING); /* with what is left of it */
    assert_int_equal(pto_device_close(r.device), PTO_OK);
    r = set_rig(open_far(1));
    assert_works(&r);
    assert_int_equal(pto_device_close(r.device), PTO_OK);
}

static void a_crash_in_a_kernel_is_no_end(void **state)
{
    struct rig r = set_rig(open_far(2));

    (void)state;
    if (IS_SANITIZED) { /* as in a process of the sanitizer's */
        assert_int_equal(pto_device_close(r.device), PTO_OK);
        return;
    }
    for (int i = 0; i < 3; i++) {
        assert_refused(run_wild(&r, CRASH), PTO_ECRASH, "kernel \"wild\" crashed at address 0x8");
        assert_works(&r);
    }
    assert_int_equal(pto_device_close(r.device), PTO_OK);
}

static void kernels_beside_whoever_ends_the_process_are_named(void **state)
{
    struct rig r = set_rig(open_far(1));
    pid_t pid;

    (void)state;
    assert_gone(&r, run_wild(&r, BESIDE), "while kernel \"wild\" ran block 0 of task 1");
    r = set_rig(open_far(1));
    pid = only_child();
    assert_int_equal(run_wild(&r, LATER), PTO_OK);
    set_element(&r, 2, 1);
    while (state_of(pid) != 'Z')
        nap_ns(MS);
    assert_gone(&r, run_wild(&r, NOTHING), "outside of kernels; one that ran last");
}

/* ---- whoever ends it from outside ---- */

static struct pto_run *launch_loop(struct rig *r)
{
    struct pto_run_options options;
    struct pto_run *run;

    pto_run_options_init(&options);
    options.stall_timeout_ns = 600000 * MS;
    assert_int_equal(pto_run_prepare(r->device, wild, entry_of(r, LOOP), &options, &run), PTO_OK);
    assert_int_equal(pto_run_launch(run), PTO_OK);
    while (element(r, 1) == 0)
        nap_ns(MS);
    return run;
}

static void a_process_that_is_killed_ends_its_run(void **state)
{
    struct rig r = set_rig(open_far(1));
    struct pto_run *run = launch_loop(&r);

    (void)state;
    assert_int_equal(kill(only_child(), SIGKILL), 0);
    pto_run_report_init(&report);
    assert_int_equal(pto_run_wait(run, 0), PTO_EPEER);
    assert_gone(&r, pto_run_finish(run, &report), "was ended by signal 9");
    r = set_rig(open_far(1)); /* before it knows the callable */
    assert_int_equal(kill(only_child(), SIGKILL), 0);
    assert_refused(run_wild(&r, NOTHING), PTO_ELOST, "was ended by signal 9");
    assert_int_equal(pto_device_close(r.device), PTO_OK);
    /* While nothing runs: whoever runs first is told. */
    r = set_rig(open_far(1));
    assert_works(&r);
    assert_int_equal(kill(only_child(), SIGKILL), 0);
    assert_gone(&r, run_wild(&r, NOTHING), "was ended by signal 9");
}

static void a_process_that_is_stopped_is_ended(void **state)
{
    struct rig r = set_rig(open_far(1));
    struct pto_run *run = launch_loop(&r);

    (void)state;
    assert_int_equal(kill(only_child(), SIGSTOP), 0);
    pto_run_report_init(&report);
    assert_int_equal(pto_run_wait(run, 0), PTO_EPEER);
    assert_gone(&r, pto_run_finish(run, &report), "did not answer for 10 s and was ended for it");
}

static void signals_of_a_terminal_are_the_hosts(void **state)
{
    struct rig r = set_rig(open_far(1));
    pid_t pid = only_child();

    (void)state;
    assert_int_equal(kill(pid, SIGINT), 0);
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(kill(pid, SIGHUP), 0);
    assert_works(&r);
    assert_int_equal(pto_device_close(r.device), PTO_OK);
}

/* Loops on an isolated device until it is killed; in a second process. */
static int be_killed(void)
{
    void *state = NULL;
    struct rig r;

    if (set_up(&state) != 0)
        return 1;
    r = set_rig(open_far(1));
    (void)launch_loop(&r);
    (void)remove_folder(&state);
    if (write(STDOUT_FILENO, "!", 1) != 1)
        return 1;
    for (;;)
        pause();
}

static void the_process_ends_with_its_host(void **state)
{
    posix_spawn_file_actions_t actions;
    char path[] = "/proc/self/exe", victim[] = "victim", mark;
    char *argv[] = { path, victim, NULL };
    pid_t host, chip = 0;
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    assert_int_equal(posix_spawn(&host, path, &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    assert_int_equal(read(ends[0], &mark, 1), 1);
    close(ends[0]);
    assert_int_equal(children_of(host, &chip), 1);
    assert_int_equal(kill(host, SIGKILL), 0);
    assert_int_equal(waitpid(host, NULL, 0), host);
    while (state_of(chip) != 0 && state_of(chip) != 'Z') /* whoever inherits it may not collect */
        nap_ns(MS);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(tensors_of_the_host_are_copied_there_and_back),
        TEST(tells_what_it_is),
        TEST(device_memory_is_out_of_reach_and_has_bounds),
        TEST(a_kernel_that_writes_beyond_its_tensor_is_noticed),
        TEST(graphs_are_built_and_launched),
        TEST(a_run_is_recorded),
        TEST(a_failure_has_its_place_in_the_source),
        TEST(a_run_can_be_cancelled),
        TEST(several_devices_work_beside_each_other),
        TEST(a_child_of_the_host_leaves_the_device_alone),
        TEST(nothing_is_left_after_close),
        TEST(functions_and_observers_are_refused),
        TEST(a_program_that_is_none_is_refused),
        TEST(a_library_of_another_version_is_refused),
        TEST(exit_in_a_kernel_ends_its_device_only),
        TEST(abort_in_a_kernel_ends_its_device_only),
        TEST(an_end_without_a_word_is_told_as_such),
        TEST(an_orchestration_that_ends_the_process_is_named),
        TEST(a_damaged_heap_is_the_heap_of_one_process),
        TEST(a_crash_in_a_kernel_is_no_end),
        TEST(kernels_beside_whoever_ends_the_process_are_named),
        TEST(a_process_that_is_killed_ends_its_run),
        TEST(a_process_that_is_stopped_is_ended),
        TEST(signals_of_a_terminal_are_the_hosts),
        TEST(the_process_ends_with_its_host),
    };

    alarm(HANG_SECONDS);
    if (argc > 1 && strcmp(argv[1], "victim") == 0)
        return be_killed();
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
