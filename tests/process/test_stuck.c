/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain - asan: its programs have no handlers for signals; tsan: it holds signals back */
/*
 * Kernels and functions that do not return are reported with their line, wherever their thread is
 * interrupted: it may hold the lock of the allocator, of stdio or of the loader. Each kernel runs
 * in a forked process, because its device is lost.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>

#include "tests/fixture/tree_test.h"

enum { ROUNDS = 2 };

static void *volatile sink;

static void spin_once(void)
{
}

static void allocate_once(void)
{
    static _Thread_local size_t size;
    void *volatile memory = malloc(size = (size * 7 + 24) % 100000);

    free(memory);
}

static void print_once(void)
{
    static FILE *null;

    if (null == NULL)
        null = fopen("/dev/null", "w");
    fprintf(null, "%p\n", sink);
    fflush(null);
}

static void load_once(void)
{
    void *volatile library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);

    sink = dlsym(RTLD_DEFAULT, "malloc");
    dlclose(library);
}

static _Unwind_Reason_Code see_frame(struct _Unwind_Context *at, void *context)
{
    (void)at;
    (void)context;
    return _URC_NO_REASON;
}

static void unwind_once(void)
{
    (void)_Unwind_Backtrace(see_frame, NULL);
}

static void nap_once(void)
{
    usleep(10);
}

static void (*const deeds[])(void) = { spin_once, allocate_once, print_once,
                                       load_once, unwind_once,   nap_once };
static void (*deed)(void);

/*
 * The thread that waits for the run is made to leave a kernel that does not return, and its locks
 * would stay locked. So this kernel runs forever only on other threads.
 */
static void endless(int64_t *args)
{
    static volatile bool is_endless;

    (void)args;
    while (gettid() == getpid() && !is_endless)
        usleep(100);
    if (gettid() == getpid())
        return;
    is_endless = true;
    for (volatile int i = 0;; i++)
        deed();
}

static void submit_endless(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    pto_aiv(o, 0, PTO_BLOCKS(4));
}

static void orchestrate_endlessly(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    (void)o;
    for (volatile int i = 0;; i++)
        spin_once();
}

/* Runs the orchestration in a separate process, which ends; the error is in the shared text. */
static void run_forked(pto_orch_fn orchestration, int status, char *text)
{
    static const struct pto_kernel kernels[] = { { "endless", endless, PTO_CORE_AIV } };
    const struct pto_entry entry = { 0 };
    pid_t pid = fork();
    int end;

    if (pid == 0) {
        struct pto_device_params params;
        struct pto_run_options options;
        struct pto_run_report report;
        struct pto_callable *callable;
        struct pto_device *device;

        pto_device_params_init(&params);
        params.workers = 1;
        pto_run_options_init(&options);
        if (status == PTO_ESTALL)
            options.stall_timeout_ns = 20 * MS;
        else
            options.timeout_ns = 300 * MS;
        pto_run_report_init(&report);
        if (pto_device_open(&params, &device) < 0 ||
            pto_callable_create(
                &(struct pto_callable_params){ .size = sizeof(struct pto_callable_params),
                                               .orchestration = orchestration,
                                               .kernels = kernels,
                                               .kernel_count = 1 },
                &callable) < 0)
            _exit(2);
        end = pto_run(device, callable, &entry, &options, &report);
        snprintf(text, PTO_ERROR_TEXT_MAX, "%s", report.error.text);
        _exit(end == status ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &end, 0), pid);
    if (end != 0)
        fail_msg("end %#x: %s", (unsigned)end, text);
}

static char *shared_text(void)
{
    char *text =
        mmap(NULL, PTO_ERROR_TEXT_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(text, MAP_FAILED);
    return text;
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("no \"%s\" in \"%s\"", part, text);
}

static void a_kernel_that_does_not_return_is_reported_with_its_line(void **state)
{
    char *text = shared_text();

    (void)state;
    for (uint32_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++)
        for (uint32_t round = 0; round < ROUNDS; round++) {
            deed = deeds[i];
            run_forked(submit_endless, round != 0 ? PTO_ESTALL : PTO_ETIMEOUT, text);
            assert_has(text, "kernel \"endless\" of task 0 ");
            if (strstr(text, "endless (test_stuck.c:") == NULL)
                fail_msg("deed %u: %s", i, text);
        }
    munmap(text, PTO_ERROR_TEXT_MAX);
}

static void an_orchestration_that_does_not_return_is_reported_with_its_line(void **state)
{
    char *text = shared_text();

    (void)state;
    run_forked(orchestrate_endlessly, PTO_ETIMEOUT, text);
    assert_has(text, "orchestrate_endlessly (test_stuck.c:");
    munmap(text, PTO_ERROR_TEXT_MAX);
}

static const char sub_source[] = "#include <pto/worker.h>\n"
                                 "#include <stdlib.h>\n"
                                 "static void *volatile kept;\n"
                                 "int spins(const struct pto_sub_call *c)\n"
                                 "{ for (volatile int i = 0; c != NULL; i++) ; return 0; }\n"
                                 "int allocates(const struct pto_sub_call *c)\n"
                                 "{ for (int i = 0; c != NULL; i++) { kept = malloc(24 + i % "
                                 "99999); free(kept); } return 0; }\n";

static void submit_late(struct pto_level *level, void *context)
{
    assert_int_equal(pto_level_set_task_timeout(level, 20 * MS), PTO_OK);
    submit_one(level, context);
}

static void a_function_that_does_not_return_is_reported_with_its_line(void **state)
{
    static const char *const names[] = { "spins", "allocates" };
    struct one one = { .children = PTO_ON(0) };
    struct bytes object = keep(compile(sub_source, "-g"));

    (void)state;
    open_worker(0, 1);
    for (uint32_t i = 0; i < 2; i++) {
        one.callable = register_bytes(object, PTO_CHILD_SUB, names[i]);
        assert_int_equal(run(submit_late, &one), PTO_ETIMEOUT);
        assert_has(run_report.error.text, "its time-out, and the child was killed");
        /* If the thread holds the lock of the allocator, the lines cannot be found. */
        if (i == 0)
            assert_has(run_report.error.text, ": it was in spins (source:5)");
        reopen(0);
    }
    close_worker();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_kernel_that_does_not_return_is_reported_with_its_line),
        TEST(an_orchestration_that_does_not_return_is_reported_with_its_line),
        TEST(a_function_that_does_not_return_is_reported_with_its_line),
    };

    if (argc == 2)
        cmocka_set_test_filter(argv[1]);
    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
