/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain tsan - asan: crashes are reported by the sanitizer first */
/*
 * Kernels that crash or never return, deadlines and stalls: cases that `pto drill` cannot show,
 * because they are about threads, about the application around the device, or about many
 * repetitions.
 *
 * Kernels that never return do so when the test opens the gate, so that no test leaves a thread
 * behind. With AddressSanitizer crashes are not caught, and a caller cannot be made to leave its
 * kernel: those tests are skipped there.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/fixture/gate_test.h"
#include "tests/fixture/counts_test.h"

#if defined(__SANITIZE_ADDRESS__)
enum { CRASHES = 0, CRASHES_LONG = 0, ROUNDS = 20 };
#elif defined(__SANITIZE_THREAD__)
enum { CRASHES = 12, CRASHES_LONG = 12, ROUNDS = 10 };
#else
enum { CRASHES = 200, CRASHES_LONG = 5000, ROUNDS = 200 };
#endif

#if defined(__SANITIZE_THREAD__)
enum { HAS_CHILD_THREADS = 0 }; /* TSan cannot follow threads that a child starts */
#else
enum { HAS_CHILD_THREADS = 1 };
#endif

/* The last scalar of a kernel says what the kernel does. */
enum act {
    ACT_COUNT,
    ACT_CRASH,
    /* crashes, but not on the caller's thread, where it waits until another thread runs it */
    ACT_CRASH_FAR,
    ACT_CRASH_BLOCK, /* crashes in block 3; the other blocks wait until it is about to crash */
    ACT_CRASH_LANE,  /* crashes on the second AIV of the cluster */
    ACT_CRASH_LATER, /* crashes when the gate opens */
    ACT_FOREVER,     /* waits until the gate opens */
    ACT_SHORT,       /* short_ms, which counts */
    ACT_LONG,        /* waits until all short kernels have returned */
    ACT_LATE,        /* late_ms */
    ACT_50_MS,
    ACT_300_MS,
    ACT_700_MS,
    ACT_AWAIT, /* waits until another kernel is at the gate or takes long */
    ACT_DEFER,
};

enum { KERNEL_AIV, KERNEL_AIC, KERNELS };
enum { SHORT_ONES = 35 };

static uint32_t words[16];
static uint32_t counted;
static uint32_t has_crashed;
static uint32_t was_on_caller;
static uint32_t counter;
static uint64_t caller; /* its pthread_t */
/* for ACT_CRASH: 0 is an access that raises SIGSEGV; others are passed to raise() */
static uint32_t signal_next;
static uint32_t short_ms, late_ms;

static bool await(const uint32_t *word, uint32_t value)
{
    uint64_t deadline = now_ns() + HANG_SECONDS * 1000 * MS;

    while (load(word) < value && now_ns() < deadline)
        rest();
    return load(word) >= value;
}

__attribute__((noinline, no_sanitize("undefined"))) static void crash(void)
{
    volatile uintptr_t address = 8;

    if (load(&signal_next) != 0)
        raise((int)load(&signal_next));
    else
        (void)*(volatile uint32_t *)address;
}

static void stand(void)
{
    __atomic_fetch_add(&standing, 1, __ATOMIC_ACQ_REL);
    while (load(&is_gate_open) == 0)
        rest();
}

static void act(int64_t *args, int64_t what)
{
    bool is_caller = __atomic_load_n(&caller, __ATOMIC_RELAXED) == (uint64_t)pthread_self();

    switch ((enum act)what) {
    case ACT_COUNT:
        break;
    case ACT_CRASH:
        store(&was_on_caller, is_caller);
        crash();
        break;
    case ACT_CRASH_FAR:
        if (is_caller) {
            (void)await(&has_crashed, 1);
            break;
        }
        store(&was_on_caller, false);
        store(&has_crashed, 1);
        crash();
        break;
    case ACT_CRASH_BLOCK:
        if (pto_block_index(args) == 3) {
            store(&has_crashed, 1);
            crash();
        }
        (void)await(&has_crashed, 1);
        break;
    case ACT_CRASH_LANE:
        if (pto_sub_block(args) == 1)
            crash();
        break;
    case ACT_CRASH_LATER:
        stand();
        store(&has_crashed, 1);
        crash();
        break;
    case ACT_FOREVER:
        stand();
        break;
    case ACT_SHORT:
        pass_time(load(&short_ms) * MS);
        break;
    case ACT_LONG:
        (void)await(&counted, SHORT_ONES);
        break;
    case ACT_LATE:
        pass_time(load(&late_ms) * MS);
        break;
    case ACT_50_MS:
        pass_time(50 * MS);
        break;
    case ACT_300_MS:
        __atomic_fetch_add(&standing, 1, __ATOMIC_ACQ_REL);
        pass_time(300 * MS);
        break;
    case ACT_700_MS:
        __atomic_fetch_add(&standing, 1, __ATOMIC_ACQ_REL);
        pass_time(700 * MS);
        break;
    case ACT_AWAIT:
        (void)await(&standing, 1);
        break;
    case ACT_DEFER:
        (void)pto_defer(args, &counter, 1);
        break;
    }
    __atomic_fetch_add(&counted, 1, __ATOMIC_RELAXED);
}

static void kernel(int64_t *args)
{
    act(args, args[1]);
}

static const struct pto_kernel kernels[KERNELS] = {
    [KERNEL_AIV] = { "aiv", kernel, PTO_CORE_AIV },
    [KERNEL_AIC] = { "aic", kernel, PTO_CORE_AIC },
};

/* ---- devices and runs ---- */

static void reset(void)
{
    store(&counted, 0); /* a kernel that was stuck may have written these last */
    store(&standing, 0);
    store(&has_crashed, 0);
    store(&was_on_caller, 2);
    store(&is_gate_open, 0);
    store(&signal_next, 0);
    __atomic_store_n(&caller, (uint64_t)pthread_self(), __ATOMIC_RELAXED);
}

static struct pto_device *open_reset(uint32_t workers, uint32_t clusters)
{
    reset();
    return open_device(NULL, clusters, workers);
}

struct times {
    uint64_t timeout_ms;
    uint64_t stall_ms;
    uint64_t data_ms;
    uint64_t grace_ms; /* 0: the default */
    enum pto_mode mode;
};

static struct pto_run_options options_of(struct times times)
{
    struct pto_run_options options;

    pto_run_options_init(&options);
    options.timeout_ns = times.timeout_ms * MS;
    options.stall_timeout_ns = times.stall_ms * MS;
    options.data_timeout_ns = times.data_ms * MS;
    options.grace_ns = times.grace_ms * MS;
    options.mode = times.mode;
    return options;
}

/* The entry has one tensor, `words`; everything else is in the report. */
static int run(struct pto_device *device, pto_orch_fn orchestration, struct times times,
               struct pto_run_report *report)
{
    struct pto_tensor tensor = pto_tensor_external(words, PTO_DIMS(16), 1, PTO_UINT32);
    struct pto_entry entry = { .tensor_count = 1, .tensor = &tensor };
    struct pto_run_options options = options_of(times);
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestration);
    int status;

    pto_run_report_init(report);
    status = pto_run(device, callable, &entry, &options, report);
    assert_int_equal(status, report->error.status);
    (void)pto_callable_destroy(callable); /* a kernel of the device may never return */
    return status;
}

static struct pto_run *launch(struct pto_device *device, pto_orch_fn orchestration,
                              struct times times)
{
    struct pto_tensor tensor = pto_tensor_external(words, PTO_DIMS(16), 1, PTO_UINT32);
    struct pto_entry entry = { .tensor_count = 1, .tensor = &tensor };
    struct pto_run_options options = options_of(times);
    struct pto_run *handle = NULL;

    /* The callable is not destroyed, so that a test may end in any way. */
    assert_int_equal(pto_run_prepare(device, make_callable(kernels, KERNELS, orchestration), &entry,
                                     &options, &handle),
                     PTO_OK);
    assert_int_equal(pto_run_launch(handle), PTO_OK);
    return handle;
}

static void orchestrate_well(struct pto_orch *o, const struct pto_entry *entry)
{
    for (int i = 0; i < 3; i++)
        pto_aiv(o, KERNEL_AIV, PTO_INOUT(entry->tensor), PTO_INT(ACT_COUNT));
}

static void assert_works(struct pto_device *device)
{
    struct pto_run_report report;

    store(&counted, 0);
    assert_int_equal(run(device, orchestrate_well, (struct times){ 0 }, &report), PTO_OK);
    assert_int_equal(load(&counted), 3);
}

static void assert_in_report(struct pto_device *device, const char *part)
{
    static char report[8192];

    assert_true(pto_device_last_failure(device, report, sizeof(report)) > 0);
    assert_in(report, part);
}

static void assert_lost(struct pto_device *device)
{
    struct pto_run_report report;

    assert_int_equal(run(device, orchestrate_well, (struct times){ 0 }, &report), PTO_ELOST);
    assert_in(report.error.text, "lost");
}

/* Opens the gate and waits until all kernels have left it. */
static void assert_nobody_is_stuck(void)
{
    uint64_t deadline = now_ns() + HANG_SECONDS * 1000 * MS;

    store(&is_gate_open, 1);
    while (pto_stuck_threads() != 0 && now_ns() < deadline)
        rest();
    assert_int_equal(pto_stuck_threads(), 0);
}

static void need_handler(void)
{
    if (!HAS_HANDLER)
        skip();
}

/* ---- crashes ---- */

static void orchestrate_crash(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aic(o, KERNEL_AIC, PTO_INOUT(entry->tensor), PTO_INT(ACT_COUNT));
    pto_aiv(o, KERNEL_AIV, PTO_INOUT(entry->tensor), PTO_INT(ACT_CRASH));
    pto_aic(o, KERNEL_AIC, PTO_INOUT(entry->tensor), PTO_INT(ACT_COUNT));
}

static void a_crash_on_the_callers_thread_is_told(void **state)
{
    struct pto_run_report report;
    struct pto_device *device;

    (void)state;
    need_handler();
    device = open_reset(1, 0);
    for (int mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++) {
        reset();
        assert_int_equal(
            run(device, orchestrate_crash, (struct times){ .mode = (enum pto_mode)mode }, &report),
            PTO_ECRASH);
        assert_int_equal(load(&was_on_caller), 1);
        assert_int_equal(load(&counted), 1); /* tasks after the failed one do not run */
        assert_int_equal(report.error.kernel, KERNEL_AIV);
        assert_int_equal(report.error.task.raw, 1);
        assert_string_equal(report.error.site.file, __FILE__);
        assert_in(report.error.text, "\"aiv\" crashed at address 0x8 in block 0 of task 1");
        assert_works(device);
    }
    assert_int_equal(pto_device_close(device), PTO_OK);
}

static void orchestrate_crash_far(struct pto_orch *o, const struct pto_entry *entry)
{
    for (int i = 0; i < 2; i++)
        pto_aiv(o, KERNEL_AIV, PTO_IN(entry->tensor), PTO_INT(ACT_CRASH_FAR));
}

static void a_crash_on_a_workers_thread_is_told(void **state)
{
    (void)state;
    need_handler();
    for (uint32_t workers = 1; workers <= 4; workers *= 2) {
        struct pto_device *device = open_reset(workers, 0);
        struct pto_run_report report;

        assert_int_equal(run(device, orchestrate_crash_far, (struct times){ 0 }, &report),
                         PTO_ECRASH);
        assert_int_equal(load(&was_on_caller), 0);
        assert_in(report.error.text, "SIGSEGV");
        assert_works(device);
        assert_int_equal(pto_device_close(device), PTO_OK);
    }
}

static void a_crash_on_the_runners_thread_is_told(void **state)
{
    struct pto_run_report report;
    struct pto_device *device;
    struct pto_run *handle;
    struct pollfd end;

    (void)state;
    need_handler();
    device = open_reset(1, 0);
    handle = launch(device, orchestrate_crash, (struct times){ 0 });
    end = (struct pollfd){ .fd = pto_run_fd(handle), .events = POLLIN };
    assert_int_equal(poll(&end, 1, 20000), 1);
    pto_run_report_init(&report);
    assert_int_equal(pto_run_finish(handle, &report), PTO_ECRASH);
    assert_in(report.error.text, "\"aiv\" crashed");
    assert_works(device);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

static void orchestrate_crash_block(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_AIV, PTO_IN(entry->tensor), PTO_INT(ACT_CRASH_BLOCK), PTO_BLOCKS(8));
    pto_aiv(o, KERNEL_AIV, PTO_IN(entry->tensor), PTO_INT(ACT_50_MS), PTO_BLOCKS(4));
}

static void orchestrate_crash_gang(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_AIV, PTO_IN(entry->tensor), PTO_INT(ACT_CRASH_BLOCK), PTO_GANG(8));
}

static void orchestrate_crash_lane(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_mix(o, PTO_LANES(KERNEL_AIC, KERNEL_AIV, KERNEL_AIV), PTO_INOUT(entry->tensor),
            PTO_INT(ACT_CRASH_LANE), PTO_BLOCKS(4));
}

static void a_block_crashes_while_others_are_in_flight(void **state)
{
    (void)state;
    need_handler();
    for (uint32_t workers = 1; workers <= 4; workers++) {
        struct pto_device *device = open_reset(workers, 0);
        struct pto_run_report report;

        assert_int_equal(run(device, orchestrate_crash_block, (struct times){ 0 }, &report),
                         PTO_ECRASH);
        assert_in(report.error.text, "in block 3 of task 0");
        assert_works(device);
        reset();
        assert_int_equal(run(device, orchestrate_crash_gang, (struct times){ 0 }, &report),
                         PTO_ECRASH);
        assert_in(report.error.text, "in block 3 of task 0");
        assert_int_equal(load(&counted), 7); /* kernels that had started return as usual */
        assert_works(device);
        reset();
        assert_int_equal(run(device, orchestrate_crash_lane, (struct times){ 0 }, &report),
                         PTO_ECRASH);
        assert_in(report.error.text, "lane AIV1");
        assert_works(device);
        assert_int_equal(pto_device_close(device), PTO_OK);
    }
}

static void orchestrate_crashes(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    for (int i = 0; i < 64; i++) {
        pto_aiv(o, KERNEL_AIV, PTO_INT(0), PTO_INT(ACT_CRASH));
        pto_aiv(o, KERNEL_AIV, PTO_INT(0), PTO_INT(ACT_CRASH), PTO_GANG(4));
    }
}

static void everything_may_crash_at_once(void **state)
{
    struct pto_device *device;

    (void)state;
    need_handler();
    device = open_reset(4, 0);
    for (int i = 0; i < 20; i++) {
        struct pto_run_report report;

        assert_int_equal(run(device, orchestrate_crashes, (struct times){ 0 }, &report),
                         PTO_ECRASH);
        assert_true(report.error.kernel == KERNEL_AIV);
    }
    assert_works(device);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

static void a_device_survives_any_number_of_crashes(void **state)
{
    static const int signals[] = { 0, SIGSEGV, SIGBUS, SIGFPE, SIGILL };
    struct pto_device *device;
    const int crashes = getenv("PTO_TEST_LONG") != NULL ? CRASHES_LONG : CRASHES;
    uint32_t threads = 0;

    (void)state;
    need_handler();
    device = open_reset(2, 0);
    for (int i = 0; i < crashes; i++) {
        struct pto_run_report report;

        reset();
        store(&signal_next, (uint32_t)signals[i % 5]);
        assert_int_equal(run(device,
                             i % 3 == 0   ? orchestrate_crash
                             : i % 3 == 1 ? orchestrate_crash_gang
                                          : orchestrate_crash_far,
                             (struct times){ 0 }, &report),
                         PTO_ECRASH);
        if (i % 10 == 0)
            assert_works(device);
        if (i == crashes / 2)
            threads = count_threads();
    }
    assert_true(count_threads() <= threads + 1);
    assert_works(device);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

/* The third task of the chain never runs; the dummy after it has no kernel. */
static void orchestrate_crash_and_more(struct pto_orch *o, const struct pto_entry *entry)
{
    orchestrate_crash(o, entry);
    pto_dummy(o, PTO_INOUT(entry->tensor));
}

static void a_crash_is_in_the_timeline(void **state)
{
    struct pto_tensor tensor = pto_tensor_external(words, PTO_DIMS(16), 1, PTO_UINT32);
    struct pto_entry entry = { .tensor_count = 1, .tensor = &tensor };
    struct pto_run_options options = options_of((struct times){ 0 });
    char folder[] = "/tmp/test_faults.XXXXXX";
    struct pto_callable *callable;
    struct pto_device *device;
    struct pto_run_report report;
    char path[64], text[16384] = "";
    struct stat about;
    int pipe;

    (void)state;
    need_handler();
    assert_non_null(mkdtemp(folder));
    device = open_reset(2, 0);
    callable = make_callable(kernels, KERNELS, orchestrate_crash_and_more);
    options.trace = PTO_TRACE_TIMES;
    options.mode = PTO_MODE_HOST;
    pto_run_report_init(&report);
    assert_int_equal(pto_run(device, callable, &entry, &options, &report), PTO_ECRASH);
    assert_int_equal(report.stopped, 1);
    assert_int_equal(report.dummies, 1);
    assert_int_equal(report.skipped, 0);
    snprintf(path, sizeof(path), "%s/timeline.json", folder);
    assert_int_equal(pto_trace_write(device, path, NULL), PTO_OK);
    assert_int_equal(stat(path, &about), 0);
    assert_true(S_ISREG(about.st_mode) && about.st_size > 0);
    unlink(path);
    /* A target that is not a regular file is written in place and keeps its type. */
    assert_int_equal(mkfifo(path, 0600), 0);
    pipe = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    assert_int_equal(pto_trace_write(device, path, NULL), PTO_OK);
    assert_int_equal(stat(path, &about), 0);
    assert_true(S_ISFIFO(about.st_mode));
    assert_true(read(pipe, text, sizeof(text) - 1) > 0);
    assert_non_null(strstr(text, "\"name\":\"never ran\""));
    assert_non_null(strstr(text, "\"note\":\"the run had ended\""));
    close(pipe);
    unlink(path);
    rmdir(folder);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

static void orchestrate_as_told(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aic(o, KERNEL_AIC, PTO_INOUT(entry->tensor), PTO_INT(ACT_COUNT));
    pto_aiv(o, KERNEL_AIV, PTO_INOUT(entry->tensor), PTO_PASS(0), PTO_BLOCKS(4));
    pto_aiv(o, KERNEL_AIV, PTO_INOUT(entry->tensor), PTO_PASS(0));
}

static void a_graph_whose_launch_crashed_is_launched_again(void **state)
{
    struct pto_tensor tensor = pto_tensor_external(words, PTO_DIMS(16), 1, PTO_UINT32);
    uint64_t scalar = ACT_COUNT;
    struct pto_entry entry = { 1, 1, &tensor, &scalar };
    struct pto_run_options options;
    struct pto_callable *callable;
    struct pto_graph *graph = NULL;
    struct pto_device *device;

    (void)state;
    need_handler();
    device = open_reset(2, 0);
    callable = make_callable(kernels, KERNELS, orchestrate_as_told);
    pto_run_options_init(&options);
    assert_int_equal(pto_run_options_vary(&options, 0), PTO_OK);
    assert_int_equal(pto_graph_build(device, callable, &entry, &options, NULL, &graph), PTO_OK);
    for (int i = 0; i < 20; i++) {
        struct pto_run_report report;

        pto_run_report_init(&report);
        scalar = ACT_CRASH;
        assert_int_equal(pto_graph_run(graph, &entry, NULL, &report), PTO_ECRASH);
        assert_in(report.error.text, "of task 1");
        scalar = ACT_COUNT;
        store(&counted, 0);
        assert_int_equal(pto_graph_run(graph, &entry, NULL, NULL), PTO_OK);
        assert_int_equal(load(&counted), 6);
    }
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

static void a_run_may_be_cancelled_while_a_kernel_crashes(void **state)
{
    struct pto_device *device;

    (void)state;
    need_handler();
    device = open_reset(2, 0);
    for (int i = 0; i < ROUNDS; i++) {
        struct pto_run_report report;
        struct pto_run *handle;
        int status;

        reset();
        __atomic_store_n(&caller, 0, __ATOMIC_RELAXED);
        handle = launch(device, i % 2 == 0 ? orchestrate_crash : orchestrate_crash_gang,
                        (struct times){ 0 });
        for (volatile int k = 0; k < i * 200; k++) {
        }
        assert_int_equal(pto_run_cancel(handle), PTO_OK);
        (void)pto_run_wait(handle, 0);
        pto_run_report_init(&report);
        status = pto_run_finish(handle, &report);
        assert_true(status == PTO_ECRASH || status == PTO_ECANCELED);
        assert_int_equal(report.error.status, status);
        assert_true(report.error.text[0] != '\0');
    }
    assert_works(device);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

/* ---- the application's own handlers ---- */

static sigjmp_buf application_back;
static volatile sig_atomic_t application_faults;

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    (void)context;
    application_faults++;
    siglongjmp(application_back, 1);
}

static void on_plain_fault(int number)
{
    (void)number;
    application_faults++;
    siglongjmp(application_back, 1);
}

static void assert_application_gets_fault(void)
{
    int before = application_faults;

    if (sigsetjmp(application_back, 1) == 0)
        crash();
    assert_int_equal(application_faults, before + 1);
}

static void *fault_on_a_thread(void *arg)
{
    (void)arg;
    if (sigsetjmp(application_back, 1) == 0)
        crash();
    return NULL;
}

static void orchestrate_fault(struct pto_orch *o, const struct pto_entry *entry)
{
    orchestrate_well(o, entry);
    if (sigsetjmp(application_back, 1) == 0)
        crash();
}

static void faults_outside_of_kernels_are_the_applications(void **state)
{
    struct sigaction before, mine, now;

    (void)state;
    need_handler();
    for (int is_plain = 0; is_plain <= 1; is_plain++) {
        struct pto_device *device;
        struct pto_run_report report;
        pthread_t thread;
        int faults;

        memset(&mine, 0, sizeof(mine));
        if (is_plain)
            mine.sa_handler = on_plain_fault;
        else
            mine.sa_sigaction = on_fault;
        mine.sa_flags = is_plain ? 0 : SA_SIGINFO;
        sigaction(SIGSEGV, &mine, &before);
        device = open_reset(2, 0);
        assert_application_gets_fault();
        assert_int_equal(run(device, orchestrate_crash, (struct times){ 0 }, &report), PTO_ECRASH);
        assert_application_gets_fault(); /* this thread has run kernels */
        faults = application_faults;
        assert_int_equal(pthread_create(&thread, NULL, fault_on_a_thread, NULL), 0);
        pthread_join(thread, NULL);
        assert_int_equal(application_faults, faults + 1);
        assert_int_equal(run(device, orchestrate_fault, (struct times){ 0 }, &report), PTO_OK);
        assert_int_equal(application_faults, faults + 2);
        assert_int_equal(pto_device_close(device), PTO_OK);
        assert_application_gets_fault();
        sigaction(SIGSEGV, NULL, &now);
        assert_ptr_equal(now.sa_handler, mine.sa_handler);
        sigaction(SIGSEGV, &before, NULL);
    }
}

static void a_handler_that_was_installed_later_stays(void **state)
{
    struct pto_device *first, *second;
    struct sigaction before, mine, now;

    (void)state;
    need_handler();
    first = open_reset(1, 0);
    second = open_reset(1, 0);
    memset(&mine, 0, sizeof(mine));
    mine.sa_sigaction = on_fault;
    mine.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &mine, &before);
    assert_int_equal(pto_device_close(first), PTO_OK);
    assert_int_equal(pto_device_close(second), PTO_OK);
    sigaction(SIGSEGV, NULL, &now);
    assert_ptr_equal(now.sa_sigaction, on_fault);
    assert_application_gets_fault();
    /* If our handler was there before, cmocka's handler was there before ours. */
    sigaction(SIGSEGV, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
}

static void without_a_handler_the_process_dies_of_it(void **state)
{
    int status = 0;
    pid_t child;

    (void)state;
    need_handler();
    if (!HAS_CHILD_THREADS)
        skip();
    child = fork();
    if (child == 0) {
        struct pto_device_params params;
        struct pto_device *device;

        signal(SIGSEGV, SIG_DFL);
        pto_device_params_init(&params);
        if (pto_device_open(&params, &device) < 0)
            _exit(1);
        crash();
        _exit(2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

/* ---- kernels that never return ---- */

static void orchestrate_forever(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_AIV, PTO_INOUT(entry->tensor), PTO_INT(ACT_FOREVER));
    pto_aic(o, KERNEL_AIC, PTO_INOUT(entry->tensor), PTO_INT(ACT_COUNT));
}

static void orchestrate_forever_gang(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_AIV, PTO_INOUT(entry->tensor), PTO_INT(ACT_FOREVER), PTO_GANG(4));
}

static const struct times short_stall = { .stall_ms = 150 };

static void a_kernel_that_never_returns_loses_the_device(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        struct pto_device *device = open_reset(workers, 0);
        struct pto_device *other = open_reset(workers, 0);
        struct pto_run_report report;

        assert_int_equal(run(device, orchestrate_forever_gang, short_stall, &report), PTO_ESTALL);
        assert_in(report.error.text, "kernel \"aiv\" of task 0 does not return (sub_class=S1)");
        assert_in_report(device, "runs block 3 on AIV 3");
        assert_in_report(device, "the device is lost");
        assert_int_equal(pto_stuck_threads(), 4);
        assert_lost(device);
        assert_in_report(device, "sub_class=S1"); /* the report of the stall is kept */
        assert_works(other);
        assert_int_equal(pto_device_close(device), PTO_OK);
        assert_int_equal(pto_stuck_threads(), 4);
        assert_works(other);
        assert_nobody_is_stuck();
        assert_int_equal(pto_device_close(other), PTO_OK);
    }
}

/* The kernel returns before the device is closed, so nothing is left behind. */
static void a_kernel_may_return_after_its_run(void **state)
{
    struct pto_device *device = open_reset(2, 0);
    struct pto_run_report report;

    (void)state;
    assert_int_equal(run(device, orchestrate_forever_gang, short_stall, &report), PTO_ESTALL);
    assert_nobody_is_stuck();
    assert_lost(device); /* it stays so */
    assert_int_equal(pto_device_close(device), PTO_OK);
}

static void the_caller_is_called_back_from_its_kernel(void **state)
{
    struct pto_run_report report;
    struct pto_device *device;

    (void)state;
    need_handler();
    device = open_reset(1, 0);
    assert_int_equal(run(device, orchestrate_forever, short_stall, &report), PTO_ESTALL);
    assert_int_equal(report.error.kernel, KERNEL_AIV);
    assert_int_equal(pto_stuck_threads(), 0);
    assert_lost(device);
    assert_int_equal(pto_device_close(device), PTO_OK);
    device = open_reset(1, 0); /* the same thread runs kernels again */
    assert_works(device);
    assert_int_equal(run(device, orchestrate_crash, (struct times){ 0 }, &report), PTO_ECRASH);
    assert_works(device);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

static void runs_behind_a_lost_one_are_told(void **state)
{
    struct pto_device *device = open_reset(2, 0);
    struct pto_run *first = launch(device, orchestrate_forever_gang, short_stall);
    struct pto_run *second = launch(device, orchestrate_well, (struct times){ 0 });
    struct pto_run_report report;

    (void)state;
    assert_int_equal(pto_run_wait(first, 0), PTO_ESTALL);
    assert_int_equal(pto_run_wait(second, 0), PTO_ELOST);
    pto_run_report_init(&report);
    assert_int_equal(pto_run_finish(second, &report), PTO_ELOST);
    assert_in(report.error.text, "lost");
    assert_int_equal(pto_run_finish(first, NULL), PTO_ESTALL);
    assert_in_report(device, "sub_class=S1");
    assert_int_equal(load(&counted), 0);
    assert_int_equal(pto_device_close(device), PTO_OK);
    assert_nobody_is_stuck();
}

static void orchestrate_crash_later(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_AIV, PTO_INOUT(entry->tensor), PTO_INT(ACT_CRASH_LATER), PTO_GANG(2));
}

/* For example, the application frees memory that a kernel still uses. */
static void a_kernel_may_crash_after_its_device_was_closed(void **state)
{
    struct pto_run_report report;
    struct pto_device *device;

    (void)state;
    need_handler();
    device = open_reset(2, 0);
    assert_int_equal(run(device, orchestrate_crash_later, short_stall, &report), PTO_ESTALL);
    assert_int_equal(pto_stuck_threads(), 2);
    assert_int_equal(pto_device_close(device), PTO_OK);
    assert_nobody_is_stuck();
    assert_int_equal(load(&has_crashed), 1);
}

static void a_graph_that_never_ends_is_told(void **state)
{
    struct pto_tensor tensor = pto_tensor_external(words, PTO_DIMS(16), 1, PTO_UINT32);
    struct pto_entry entry = { .tensor_count = 1, .tensor = &tensor };
    struct pto_run_options options = options_of(short_stall);
    struct pto_device *device = open_reset(2, 0);
    struct pto_graph *graph = NULL;
    struct pto_run_report report;

    (void)state;
    assert_int_equal(
        pto_graph_build(device, make_callable(kernels, KERNELS, orchestrate_forever_gang), &entry,
                        NULL, NULL, &graph),
        PTO_OK);
    pto_run_report_init(&report);
    assert_int_equal(pto_graph_run(graph, &entry, &options, &report), PTO_ESTALL);
    assert_in(report.error.text, "sub_class=S1");
    assert_int_equal(pto_graph_run(graph, &entry, &options, &report), PTO_ELOST);
    assert_int_equal(pto_graph_destroy(graph), PTO_OK);
    assert_int_equal(pto_device_close(device), PTO_OK);
    assert_nobody_is_stuck();
}

/* ---- alarms ---- */

static void orchestrate_long_and_short(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_AIV, PTO_INT(0), PTO_INT(ACT_LONG));
    for (int i = 0; i < SHORT_ONES; i++)
        pto_aic(o, KERNEL_AIC, PTO_INOUT(entry->tensor), PTO_INT(ACT_SHORT));
}

/* All together take longer than a stall; a busy machine may make one as long: then all is repeated with more time. */
static void a_long_kernel_is_no_stall_while_others_go_on(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        int status = PTO_ESTALL;

        for (uint32_t factor = 1; factor <= 16 && status == PTO_ESTALL; factor *= 16) {
            struct pto_device *device = open_reset(workers, 0);
            struct pto_run_report report;

            store(&short_ms, 10 * factor);
            status = run(device, orchestrate_long_and_short,
                         (struct times){ .stall_ms = 200 * factor }, &report);
            assert_true(status != PTO_OK || load(&counted) == SHORT_ONES + 1);
            assert_int_equal(pto_device_close(device), PTO_OK);
            assert_nobody_is_stuck();
        }
        assert_int_equal(status, PTO_OK);
    }
}

static void orchestrate_300_ms(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_AIV, PTO_INOUT(entry->tensor), PTO_INT(ACT_300_MS));
    pto_aiv(o, KERNEL_AIV, PTO_INOUT(entry->tensor), PTO_INT(ACT_COUNT));
}

static void orchestrate_late(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_AIV, PTO_INOUT(entry->tensor), PTO_INT(ACT_LATE));
    pto_aiv(o, KERNEL_AIV, PTO_INOUT(entry->tensor), PTO_INT(ACT_COUNT));
}

/*
 * Kernels have 200 ms to return after a stall was noticed. On a busy machine the stall may be
 * noticed after the kernel has returned, or the kernel may be too late. Then the next attempt gives
 * both more time.
 */
static void a_kernel_that_returns_after_the_alarm_does_not_lose_the_device(void **state)
{
    int status = PTO_OK, next = PTO_OK;

    (void)state;
    for (uint32_t ms = 300; ms <= 30000 && (status != PTO_ESTALL || next != PTO_OK); ms *= 10) {
        struct times times = { .stall_ms = 200, .grace_ms = ms == 300 ? 0 : 2 * ms };
        struct pto_device *device = open_reset(2, 0);
        struct pto_run_report report;

        store(&late_ms, ms);
        status = run(device, orchestrate_late, times, &report);
        assert_true(status == PTO_ESTALL ? load(&counted) <= 1 : status == PTO_OK);
        next = run(device, orchestrate_well, (struct times){ 0 }, &report);
        assert_true(next == PTO_OK || (status == PTO_ESTALL && next == PTO_ELOST));
        assert_int_equal(pto_device_close(device), PTO_OK);
        assert_nobody_is_stuck();
    }
    assert_int_equal(status, PTO_ESTALL);
    assert_int_equal(next, PTO_OK);
}

static void orchestrate_defer(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_AIV, PTO_INOUT(entry->tensor), PTO_INT(ACT_DEFER));
    pto_aiv(o, KERNEL_AIV, PTO_INOUT(entry->tensor), PTO_INT(ACT_COUNT));
}

static void a_condition_that_never_holds_does_not_lose_the_device(void **state)
{
    struct pto_device *device = open_reset(2, 0);

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct pto_run_report report;

        assert_int_equal(run(device, orchestrate_defer, (struct times){ .stall_ms = 50 }, &report),
                         PTO_ESTALL);
        assert_in(report.error.text, "sub_class=S4");
        assert_in_report(device, "which is 0 and must reach 1");
        assert_works(device);
    }
    assert_int_equal(pto_device_close(device), PTO_OK);
}

/* ---- deadlines ---- */

static void orchestrate_build_for_ever(struct pto_orch *o, const struct pto_entry *entry)
{
    uint64_t end = now_ns() + HANG_SECONDS * 1000 * MS;

    while (pto_orch_status(o) == PTO_OK && now_ns() < end) {
        pto_aiv(o, KERNEL_AIV, PTO_INOUT(entry->tensor), PTO_INT(ACT_COUNT));
        rest();
    }
}

static uint64_t got;

static void orchestrate_get(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_AIV, PTO_INOUT(entry->tensor), PTO_INT(ACT_300_MS));
    got = PTO_GET(o, entry->tensor, 5);
    pto_aiv(o, KERNEL_AIV, PTO_INOUT(entry->tensor), PTO_INT(ACT_COUNT));
}

/* With one cluster: the gang is ready when the long kernel has its core. */
static void orchestrate_team_behind(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_AIV, PTO_INT(0), PTO_INT(ACT_700_MS));
    pto_aic(o, KERNEL_AIC, PTO_INOUT(entry->tensor), PTO_INT(ACT_AWAIT));
    pto_aiv(o, KERNEL_AIV, PTO_INOUT(entry->tensor), PTO_INT(ACT_COUNT), PTO_GANG(2));
}

static void assert_late(struct pto_device *device, pto_orch_fn orchestration, struct times times,
                        const char *says)
{
    struct pto_run_report report;

    reset();
    assert_int_equal(run(device, orchestration, times, &report), PTO_ETIMEOUT);
    assert_in(report.error.text, "the run has not ended after");
    assert_in_report(device, says);
    assert_works(device);
}

static void the_time_of_a_run_is_over_wherever_it_is(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        struct pto_device *device = open_reset(workers, 1);

        for (int mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++) {
            struct times times = { .timeout_ms = 20, .mode = (enum pto_mode)mode };

            assert_late(device, orchestrate_build_for_ever, times, "still being built");
            assert_late(device, orchestrate_300_ms, times, "task 1");
            assert_late(device, orchestrate_defer, times, "task 1");
            times.timeout_ms = 300;
            assert_late(device, orchestrate_team_behind, times,
                        "waits for cores that are free together");
        }
        assert_late(device, orchestrate_get, (struct times){ .timeout_ms = 20 }, "task 0");
        assert_int_equal(pto_device_close(device), PTO_OK);
    }
}

/* Takes longer than a thread keeps its place. */
static void data_of_a_long_kernel_is_waited_for(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 3; workers++) {
        struct pto_device *device = open_reset(workers, 0);
        struct pto_run_report report;

        words[5] = 77;
        got = 0;
        assert_int_equal(run(device, orchestrate_get, (struct times){ 0 }, &report), PTO_OK);
        assert_int_equal(got, 77);
        assert_int_equal(load(&counted), 2);
        assert_int_equal(run(device, orchestrate_get, (struct times){ .data_ms = 10 }, &report),
                         PTO_ETENSOR_WAIT);
        assert_in(report.error.text, "did not complete in 10 ms");
        assert_works(device);
        assert_int_equal(pto_device_close(device), PTO_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crash_on_the_callers_thread_is_told),
        cmocka_unit_test(a_crash_on_a_workers_thread_is_told),
        cmocka_unit_test(a_crash_on_the_runners_thread_is_told),
        cmocka_unit_test(a_block_crashes_while_others_are_in_flight),
        cmocka_unit_test(everything_may_crash_at_once),
        cmocka_unit_test(a_device_survives_any_number_of_crashes),
        cmocka_unit_test(a_crash_is_in_the_timeline),
        cmocka_unit_test(a_graph_whose_launch_crashed_is_launched_again),
        cmocka_unit_test(a_run_may_be_cancelled_while_a_kernel_crashes),
        cmocka_unit_test(faults_outside_of_kernels_are_the_applications),
        cmocka_unit_test(a_handler_that_was_installed_later_stays),
        cmocka_unit_test(without_a_handler_the_process_dies_of_it),
        cmocka_unit_test(a_kernel_that_never_returns_loses_the_device),
        cmocka_unit_test(a_kernel_may_return_after_its_run),
        cmocka_unit_test(the_caller_is_called_back_from_its_kernel),
        cmocka_unit_test(runs_behind_a_lost_one_are_told),
        cmocka_unit_test(a_kernel_may_crash_after_its_device_was_closed),
        cmocka_unit_test(a_graph_that_never_ends_is_told),
        cmocka_unit_test(a_long_kernel_is_no_stall_while_others_go_on),
        cmocka_unit_test(a_kernel_that_returns_after_the_alarm_does_not_lose_the_device),
        cmocka_unit_test(a_condition_that_never_holds_does_not_lose_the_device),
        cmocka_unit_test(the_time_of_a_run_is_over_wherever_it_is),
        cmocka_unit_test(data_of_a_long_kernel_is_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
