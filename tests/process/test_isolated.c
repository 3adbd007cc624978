/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Isolated devices: they can do what other devices can, leave nothing behind, and refuse the rest.
 * test_isolated_ends.c has the cases in which their processes end.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "link/watcher.h"
#include "sim/isolated_wire.h"
#include "tests/fixture/isolated_test.h"

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
    struct pto_device *device = open_isolated(2);

    (void)state;
    add_on(device);
    add_on(device);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

static void tells_what_it_is(void **state)
{
    struct pto_device *device = open_isolated(2);
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

/* Addresses of the host's memory are not in device memory. */
static void device_memory_is_out_of_reach_and_has_bounds(void **state)
{
    struct pto_device *device = open_isolated(1), *second = open_isolated(1);
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
    assert_non_null(strstr(error.text, "is inside"));
    assert_int_equal(pto_mem_free(device, addr, &error), PTO_OK);
    assert_int_equal(pto_mem_free(device, addr, &error), PTO_EMEMORY);
    assert_non_null(strstr(error.text, "freed before"));
    assert_int_equal(pto_device_close(second), PTO_OK);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

static void a_kernel_that_writes_beyond_its_tensor_is_noticed(void **state)
{
    struct rig r = set_rig(open_isolated(1));
    struct pto_error error;

    (void)state;
    pto_error_init(&error);
    assert_int_equal(run_wild(&r, BEYOND), PTO_OK);
    assert_int_equal(pto_mem_check(r.device, &error), PTO_EMEMORY);
    assert_non_null(strstr(error.text, "beyond its end"));
    assert_int_equal(pto_mem_free(r.device, r.addr, &error), PTO_EMEMORY);
    assert_int_equal(pto_device_close(r.device), PTO_OK);
}

static void a_child_that_a_kernel_forks_ends_when_it_returns(void **state)
{
    struct rig r = set_rig(open_isolated(2));

    (void)state;
    assert_int_equal(run_wild(&r, FORK), PTO_OK);
    assert_int_equal(element(&r, 0), 2);
    assert_int_equal(element(&r, 1), EXIT_FAILURE);
    assert_works(&r);
    assert_int_equal(pto_device_close(r.device), PTO_OK);
}

static void graphs_are_built_and_launched(void **state)
{
    struct rig r = set_rig(open_isolated(2)), other = set_rig(r.device);
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
    struct rig r = set_rig(open_isolated(2));
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
    for (int i = 0; i < 2; i++) { /* repeated calls are allowed */
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
    char failure[4096];

    (void)state;
    if (IS_SANITIZED && !IS_TSAN)
        /*
         * sanitizers install their own handlers instead of the one that makes a thread leave its
         * kernel
         */
        return;
    r = set_rig(open_isolated(2));
    pto_run_options_init(&options);
    options.stall_timeout_ns = 1000 * MS; /* longer than a busy machine keeps a process waiting */
    pto_run_report_init(&report);
    assert_refused(pto_run(r.device, wild, entry_of(&r, LOOP), &options, &report), PTO_ESTALL,
                   "kernel \"wild\" of task 1 does not return");
    assert_non_null(report.error.site.file);
    assert_non_null(strstr(report.error.text, "source:"));
    assert_true(pto_device_last_failure(r.device, failure, sizeof(failure)) > 0);
    assert_non_null(strstr(failure, "task 2, kernel \"count\" (source:"));
    assert_refused(run_wild(&r, NOTHING), PTO_ELOST, "a kernel never returned");
    assert_int_equal(pto_stuck_threads(), 0); /* none of this process */
    assert_int_equal(pto_device_close(r.device), PTO_OK);
}

static void a_run_can_be_cancelled(void **state)
{
    struct rig r = set_rig(open_isolated(1));
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
    struct rig r[3] = { set_rig(open_isolated(2)), set_rig(open_isolated(1)),
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
    struct rig r = set_rig(open_isolated(1));
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

static uint64_t count_pages(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu", &pages), 1);
    fclose(file);
    return pages;
}

static void nothing_is_left_after_close(void **state)
{
    struct rig r;
    uint32_t descriptors = 0;
    uint64_t pages = 0;

    (void)state;
    for (int i = 0; i < 20; i++) {
        r = set_rig(open_isolated(2));
        if (i % 4 == 3)
            (void)run_wild(&r, EXIT);
        else
            assert_works(&r);
        if (i % 2 == 0)
            assert_int_equal(pto_mem_free(r.device, r.addr, NULL), PTO_OK);
        assert_int_equal(pto_device_close(r.device), PTO_OK);
        assert_int_equal(children_of(getpid(), NULL), 0);
        if (i == 7) { /* everything that is made once per process exists by now */
            descriptors = count_descriptors();
            pages = count_pages();
        }
    }
    assert_int_equal(count_descriptors(), descriptors);
    if (!IS_SANITIZED)
        /* the device memory would be millions of KiB */
        assert_in_range(count_pages(), 0, pages + 256);
}

/* ---- what it refuses ---- */

static void watch_task(void *context, const struct pto_task_view *view)
{
    (void)context;
    (void)view;
}

static void functions_and_observers_are_refused(void **state)
{
    struct rig r = set_rig(open_isolated(1));
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
                   "`edge`, `task` and `step`");
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
    setenv("PTO_CHILD", program, 1);
    assert_int_equal(pto_device_open(&params, &device), expected);
    unsetenv("PTO_CHILD");
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
    const char garbage[] = "#!/bin/sh\nhead -c 400000 /dev/urandom >&3\nsleep 100\n";

    (void)state;
    assert_not_opened("/nowhere/pto-child", PTO_ENOSUP, "/nowhere/pto-child");
    assert_not_opened("/bin/true", PTO_ESYSTEM, "PTO_CHILD");
    snprintf(path, sizeof(path), "%s/garbage", folder);
    assert_int_equal(file_write(path, garbage, sizeof(garbage) - 1), PTO_OK);
    assert_int_equal(chmod(path, 0700), 0);
    assert_not_opened(path, PTO_ESYSTEM, "PTO_CHILD");
}

static void note_end(void *waker)
{
    waker_wake_always(waker);
}

/* Starts pto-child as the library does, but with another version. */
static void a_library_of_another_version_is_refused(void **state)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct isolated_hello hello = { .link = link_hello_make(LINK_DEVICE, sizeof(hello)),
                                    .clusters = 1,
                                    .workers = 1,
                                    .version = "99.1" };
    struct endpoint_start how = { .hello = &hello.link };
    struct spin_policy policy = waker_spin_policy(2);
    const struct payload_wait wait = { payload_await, &policy };
    struct watcher watcher = { .count = 1, .ended = note_end };
    struct payload in = { 0 };
    struct isolated_control *control;
    struct record_head answer;
    struct endpoint e;

    (void)state;
    how.memory = link_file_make("control", sizeof(*control));
    control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, how.memory, 0);
    assert_ptr_not_equal(control, MAP_FAILED);
    hello.link.memory_bytes = sizeof(*control);
    hello.link.generation = 1;
    sim_isolated_sizes(hello.size);
    endpoint_init(&e, &lock);
    watcher.endpoint[0] = &e;
    watcher.owner = &control->line[0].host;
    assert_int_equal(watcher_start(&watcher), PTO_OK);
    line_open(e.line,
              &(struct line_ends){ &control->line[0].to_chip, &control->line[0].to_host,
                                   &control->line[0].host, &control->line[0].chip },
              1, ISOLATED_KINDS);
    assert_int_equal(e.ops->start(&e, &how, NULL), PTO_OK);
    watcher_add(&watcher, &e);
    assert_int_equal(payload_receive(e.line, &answer, &in, &wait), PTO_OK);
    assert_int_equal(answer.kind, ISOLATED_READY);
    assert_int_equal(answer.status, PTO_ENOSUP);
    assert_non_null(strstr(payload_take_text(&in), "99.1"));
    watcher_stop(&watcher);
    e.ops->end(&e, 0);
    payload_free(&in);
    munmap(control, sizeof(*control));
    close(how.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tensors_of_the_host_are_copied_there_and_back),
        TEST(tells_what_it_is),
        TEST(device_memory_is_out_of_reach_and_has_bounds),
        TEST(a_kernel_that_writes_beyond_its_tensor_is_noticed),
        TEST(a_child_that_a_kernel_forks_ends_when_it_returns),
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
    };

    alarm(2 * HANG_SECONDS); /* one limit for all tests, which start many processes */
    return cmocka_run_group_tests(tests, set_up_isolated, tear_down_isolated);
}
