/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain tsan - asan: lost devices keep their memory */
/*
 * Deadlines of runs, and orchestrations that do not return. Kernels and orchestrations that never
 * return do so when a test opens the gate. The stall detector, which could end them as well, gets a
 * time-out that no test reaches: so if a call returns, the deadline was the cause.
 *
 * The machine may be busy. Where a time is judged, the best of several attempts counts, and the
 * measured delay with which a thread of the test is woken is added to the limit.
 */
#include <pthread.h>

#include "tests/fixture/gate_test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_SLOWED = 1 };
#else
enum { IS_SLOWED = 0 };
#endif

#define NEVER_NS (600000 * MS)

enum { CHAIN = 1000, ROUND = 64, TRIES = 10 };
enum kernel {
    KERNEL_SHORT, /* half a millisecond */
    KERNEL_2_MS,
    KERNEL_10_MS,
    KERNEL_30_MS,
    KERNEL_GATE,
    KERNEL_OPEN,
    KERNEL_ALLOCATE,
    KERNEL_NOTHING,
    KERNELS
};

static float values[16];

/* ---- kernels ---- */

static void take_half(int64_t *args)
{
    uint64_t end = now_ns() + MS / 2;

    (void)args;
    while (now_ns() < end) {
    }
}

static void take_2_ms(int64_t *args)
{
    uint64_t end = now_ns() + 2 * MS;

    (void)args;
    while (now_ns() < end) {
    }
}

static void take_10_ms(int64_t *args)
{
    (void)args;
    pass_time(10 * MS);
}

static void take_30_ms(int64_t *args)
{
    (void)args;
    pass_time(30 * MS);
}

static void open_gate(int64_t *args)
{
    (void)args;
    store(&is_gate_open, 1);
}

/* An orchestration that is mostly interrupted while it holds the lock of the allocator. */
static void allocate(int64_t *args)
{
    void *volatile memory;

    (void)args;
    bump(&standing);
    while (load(&is_gate_open) == 0) {
        memory = malloc(100000);
        free(memory);
    }
}

static void do_nothing(int64_t *args)
{
    (void)args;
}

static const struct pto_kernel kernels[KERNELS] = {
    [KERNEL_SHORT] = { "half", take_half, PTO_CORE_AIV },
    [KERNEL_2_MS] = { "two", take_2_ms, PTO_CORE_AIV },
    [KERNEL_10_MS] = { "ten", take_10_ms, PTO_CORE_AIV },
    [KERNEL_30_MS] = { "thirty", take_30_ms, PTO_CORE_AIV },
    [KERNEL_GATE] = { "gate", stand_at_gate, PTO_CORE_AIV },
    [KERNEL_OPEN] = { "open", open_gate, PTO_CORE_AIV },
    [KERNEL_ALLOCATE] = { "allocate", allocate, PTO_CORE_AIV },
    [KERNEL_NOTHING] = { "nothing", do_nothing, PTO_CORE_AIV },
};

/* ---- orchestrations ---- */

static void submit(struct pto_orch *o, const struct pto_entry *entry, enum kernel kernel, int count)
{
    for (int i = 0; i < count; i++)
        pto_aiv(o, (int32_t)kernel, PTO_INOUT(entry->tensor));
}

static void orchestrate_well(struct pto_orch *o, const struct pto_entry *entry)
{
    submit(o, entry, KERNEL_NOTHING, 3);
}

static void orchestrate_chain(struct pto_orch *o, const struct pto_entry *entry)
{
    submit(o, entry, KERNEL_2_MS, CHAIN);
}

static void orchestrate_short(struct pto_orch *o, const struct pto_entry *entry)
{
    submit(o, entry, KERNEL_SHORT, CHAIN);
}

static void orchestrate_30_ms(struct pto_orch *o, const struct pto_entry *entry)
{
    submit(o, entry, KERNEL_30_MS, 2);
}

static void orchestrate_gate(struct pto_orch *o, const struct pto_entry *entry)
{
    submit(o, entry, KERNEL_GATE, 1);
    submit(o, entry, KERNEL_NOTHING, 1);
}

static void orchestrate_allocating_kernel(struct pto_orch *o, const struct pto_entry *entry)
{
    submit(o, entry, KERNEL_ALLOCATE, 1);
}

static void orchestrate_loop(struct pto_orch *o, const struct pto_entry *entry)
{
    submit(o, entry, KERNEL_NOTHING, 1);
    while (load(&is_gate_open) == 0)
        rest();
}

/* An orchestration that is mostly interrupted while it holds a lock that all threads need. */
static void orchestrate_allocate(struct pto_orch *o, const struct pto_entry *entry)
{
    void *volatile memory;

    submit(o, entry, KERNEL_NOTHING, 1);
    while (load(&is_gate_open) == 0) {
        memory = malloc(100000);
        free(memory);
    }
}

static void orchestrate_ignore(struct pto_orch *o, const struct pto_entry *entry)
{
    while (load(&is_gate_open) == 0)
        submit(o, entry, KERNEL_NOTHING, 1);
}

/* An orchestration that submits tasks forever; all wait for a kernel that does not return. */
static void orchestrate_behind_gate(struct pto_orch *o, const struct pto_entry *entry)
{
    submit(o, entry, KERNEL_GATE, 1);
    while (pto_orch_status(o) == PTO_OK)
        submit(o, entry, KERNEL_NOTHING, 1);
}

/* The same, but it takes a while to return after it gets the error. */
static void orchestrate_behind_gate_slowly(struct pto_orch *o, const struct pto_entry *entry)
{
    orchestrate_behind_gate(o, entry);
    pass_time(50 * MS);
}

#define LONG_NAME "a-folder-with-a-long-name/a-folder-with-a-long-name/a-folder-with-a-long-name/"
static const char long_path[] =
    "/" LONG_NAME LONG_NAME LONG_NAME LONG_NAME LONG_NAME LONG_NAME "orch.c";

/* A path as long as that of a source deep in a tree. */
static void orchestrate_gate_far_away(struct pto_orch *o, const struct pto_entry *entry)
{
    static const struct pto_site site = { long_path, 7 };
    struct pto_args args;

    pto_args_init(&args);
    pto_add_inout(&args, entry->tensor);
    (void)pto_submit_at(o, PTO_LANES(-1, KERNEL_GATE, -1), &args, &site);
}

static void orchestrate_ignore_refusal(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, 99, PTO_INOUT(entry->tensor));
    orchestrate_ignore(o, entry);
}

/*
 * Submits a kernel that waits for a later task, and a kernel that the orchestration's thread may
 * run.
 */
static void orchestrate_in_pairs(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    pto_aiv(o, KERNEL_GATE, PTO_INT(0));
    /* with a limit of two live tasks, the builder waits here */
    pto_aiv(o, KERNEL_GATE, PTO_INT(0));
    pto_aiv(o, KERNEL_NOTHING, PTO_INT(0));
    pto_aiv(o, KERNEL_OPEN, PTO_INT(0));
}

static uint32_t thread_changes;

/*
 * The orchestration's thread runs the longer kernel and loses its place in the meantime, while the
 * task that the orchestration waits for completes.
 */
static void orchestrate_at_home(struct pto_orch *o, const struct pto_entry *entry)
{
    const pid_t begun = gettid(); /* the compiler treats pthread_self as constant */

    for (int i = 0; i < 4; i++) {
        submit(o, entry, KERNEL_2_MS, 1);
        pto_aiv(o, KERNEL_10_MS, PTO_INT(0));
        (void)PTO_GET(o, entry->tensor, 0);
        thread_changes += gettid() != begun;
    }
}

/*
 * Submits more tasks than a ring of four has room for; the first one does not return before the
 * gate opens.
 */
static void orchestrate_a_full_ring(struct pto_orch *o, const struct pto_entry *entry)
{
    for (int i = 0; i < 9; i++)
        PTO_SCOPE(o) /* the scope ends, so the ring releases the task when the task completes */
            submit(o, entry, i == 0 ? KERNEL_GATE : KERNEL_NOTHING, 1);
}

/* ---- runs ---- */

struct times {
    uint64_t timeout_ns;
    uint64_t launch_ns;
    uint64_t grace_ns;
    uint64_t stall_ns; /* 0: never */
    uint32_t live_max;
    uint64_t window; /* size of each ring in tasks; 0: no limit */
    bool keeps_thread;
    enum pto_mode mode;
    enum pto_trace trace;
};

/*
 * Objects of a run. They stay allocated until the program ends, so that a run may end in any way.
 */
struct parts {
    struct pto_tensor tensor;
    struct pto_entry entry;
    struct pto_callable *callable;
    struct pto_run_options options;
};

static struct parts *make_parts(pto_orch_fn orchestration, struct times times)
{
    struct parts *p = calloc(1, sizeof(*p));
    struct pto_callable_params params;

    assert_non_null(p);
    p->tensor = pto_tensor_external(values, PTO_DIMS(16), 1, PTO_FLOAT32);
    p->entry = (struct pto_entry){ .tensor_count = 1, .tensor = &p->tensor };
    pto_callable_params_init(&params);
    params.orchestration = orchestration;
    params.kernels = kernels;
    params.kernel_count = KERNELS;
    assert_int_equal(pto_callable_create(&params, &p->callable), PTO_OK);
    pto_run_options_init(&p->options);
    p->options.mode = times.mode;
    p->options.timeout_ns = times.timeout_ns;
    p->options.launch_timeout_ns = times.launch_ns;
    p->options.grace_ns = times.grace_ns;
    p->options.stall_timeout_ns = times.stall_ns != 0 ? times.stall_ns : NEVER_NS;
    p->options.trace = times.trace;
    p->options.live_max = times.live_max;
    for (int ring = 0; ring < 4; ring++)
        p->options.rings.task_window[ring] = times.window;
    p->options.keeps_thread = times.keeps_thread;
    return p;
}

static struct pto_run *launch(struct pto_device *device, pto_orch_fn orchestration,
                              struct times times)
{
    struct parts *p = make_parts(orchestration, times);
    struct pto_run *run = NULL;

    assert_int_equal(pto_run_prepare(device, p->callable, &p->entry, &p->options, &run), PTO_OK);
    assert_int_equal(pto_run_launch(run), PTO_OK);
    return run;
}

static int finish(struct pto_run *run, struct pto_run_report *report)
{
    pto_run_report_init(report);
    (void)pto_run_wait(run, 0);
    return pto_run_finish(run, report);
}

static int run(struct pto_device *device, pto_orch_fn orchestration, struct times times,
               struct pto_run_report *report)
{
    return finish(launch(device, orchestration, times), report);
}

/* The same on the calling thread. */
static int call(struct pto_device *device, pto_orch_fn orchestration, struct times times,
                struct pto_run_report *report)
{
    struct parts *p = make_parts(orchestration, times);

    pto_run_report_init(report);
    return pto_run(device, p->callable, &p->entry, &p->options, report);
}

typedef int run_fn(struct pto_device *device, pto_orch_fn orchestration, struct times times,
                   struct pto_run_report *report);

/*
 * Repeats a run with a growing time-out until a kernel waits at the gate when the deadline passes.
 */
static int run_until_standing(run_fn *how, struct pto_device *device, pto_orch_fn orchestration,
                              struct times *times, struct pto_run_report *report)
{
    int status = how(device, orchestration, *times, report);

    while (status == PTO_ETIMEOUT && load(&standing) == 0 && times->timeout_ns < NEVER_NS) {
        times->timeout_ns *= 4;
        status = how(device, orchestration, *times, report);
    }
    return status;
}

static void assert_works(struct pto_device *device)
{
    struct pto_run_report report;

    assert_int_equal(run(device, orchestrate_well, (struct times){ 0 }, &report), PTO_OK);
    assert_int_equal(report.executions, 3);
}

static void assert_lost(struct pto_device *device, const char *says)
{
    struct pto_device_info info;
    char failure[4096];

    pto_device_info_init(&info);
    assert_int_equal(pto_device_info(device, &info), PTO_OK);
    assert_true(info.is_lost);
    assert_true(pto_device_last_failure(device, failure, sizeof(failure)) > 0);
    assert_in(failure, says);
}

/*
 * A report begins with the cause, so that a reader that shows only its beginning shows the cause.
 */
static void assert_decided_first(struct pto_device *device, const struct pto_error *error)
{
    char begin[2 * PTO_ERROR_TEXT_MAX], failure[sizeof(begin)];

    snprintf(begin, sizeof(begin), "%s (%d)\n%s\nthe device is lost: a kernel never returned",
             pto_strerror(error->status), error->status, error->text);
    assert_true(pto_device_last_failure(device, failure, sizeof(failure)) > 0);
    assert_int_equal(strncmp(failure, begin, strlen(begin)), 0);
}

static void close_device(struct pto_device *device)
{
    uint64_t end = now_ns() + HANG_SECONDS * 1000 * MS;

    store(&is_gate_open, 1);
    while (pto_stuck_threads() != 0 && now_ns() < end)
        rest();
    assert_int_equal(pto_stuck_threads(), 0);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

/* ---- how late threads are woken ---- */

static uint32_t is_noise_over;

static void *measure_noise(void *worst)
{
    while (load(&is_noise_over) == 0) {
        uint64_t at = now_ns() + MS, late;
        struct timespec until = { .tv_sec = (time_t)(at / (1000 * MS)),
                                  .tv_nsec = (long)(at % (1000 * MS)) };

        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        late = now_ns() - at;
        if (late > *(uint64_t *)worst)
            *(uint64_t *)worst = late;
    }
    return NULL;
}

/* ---- a deadline is kept ---- */

/* Without checks of the clock in between, a whole round of ROUND tasks would run. */
static void kernels_that_have_not_begun_do_not_begin(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        struct pto_device *device = open_gated(workers);

        for (int mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++) {
            struct times times = { .timeout_ns = 5 * MS,
                                   .grace_ns = NEVER_NS,
                                   .mode = (enum pto_mode)mode };
            struct pto_run_report report;
            uint64_t least = UINT64_MAX;

            for (int i = 0; i < TRIES && least >= ROUND; i++) {
                assert_int_equal(call(device, orchestrate_short, times, &report), PTO_ETIMEOUT);
                assert_in(report.error.text, "the run has not ended after 5 ms");
                assert_in(report.error.text, "raise the time-out");
                assert_null(strstr(report.error.text, "sub_class"));
                least = report.executions < least ? report.executions : least;
            }
            assert_true(least < ROUND); /* ten of these fit into the time limit */
            assert_works(device);
        }
        close_device(device);
    }
}

static void a_run_ends_within_two_milliseconds_and_a_kernel(void **state)
{
    struct times times = { .timeout_ns = 20 * MS, .grace_ns = NEVER_NS };
    struct pto_device *device = open_gated(0);
    uint64_t best = UINT64_MAX, noise = 0;
    struct pto_run_report report;
    pthread_t thread;

    (void)state;
    store(&is_noise_over, 0);
    assert_int_equal(pthread_create(&thread, NULL, measure_noise, &noise), 0);
    for (int i = 0; i < TRIES && best > 4 * MS; i++) {
        uint64_t begin = now_ns(), late;

        assert_int_equal(call(device, orchestrate_chain, times, &report), PTO_ETIMEOUT);
        late = now_ns() - begin - times.timeout_ns;
        best = late < best ? late : best;
    }
    store(&is_noise_over, 1);
    pthread_join(thread, NULL);
    print_message("%.3f ms after the deadline, with kernels of 2 ms; threads are woken up to %.3f "
                  "ms late\n",
                  (double)best / 1e6, (double)noise / 1e6);
    assert_true(IS_SLOWED || best <= 4 * MS + noise);
    close_device(device);
}

static void a_deadline_may_be_over_at_once(void **state)
{
    struct pto_device *device = open_gated(0);
    struct pto_run_report report;

    (void)state;
    for (int mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++) {
        struct times times = { .timeout_ns = 1000,
                               .grace_ns = NEVER_NS,
                               .mode = (enum pto_mode)mode };

        assert_int_equal(call(device, orchestrate_chain, times, &report), PTO_ETIMEOUT);
        assert_in(report.error.text, "after 1 us");
        assert_works(device);
    }
    close_device(device);
}

static void a_kernel_that_is_running_is_waited_for(void **state)
{
    struct pto_device *device = open_gated(0);
    struct times times = { .timeout_ns = 5 * MS, .grace_ns = NEVER_NS };
    struct pto_run_report report = { .executions = 0 };

    (void)state;
    for (int i = 0; i < TRIES && report.executions == 0; i++) {
        int status = call(device, orchestrate_30_ms, times, &report);

        assert_true(status == PTO_ETIMEOUT || report.executions == 2);
        if (strstr(report.error.text, "of task 0 is still running") == NULL)
            report.executions = 0; /* on a busy machine the deadline is noticed earlier or later */
    }
    assert_int_equal(report.executions, 1);
    assert_in(report.error.text, "kernel \"thirty\" of task 0 is still running");
    assert_works(device);
    close_device(device);
}

/* A ring that is full while a kernel runs is not a deadlock. */
static void a_slow_kernel_does_not_fail_a_full_ring(void **state)
{
    struct pto_device *device = open_gated(2);
    struct times times = { .window = 4 };
    struct pto_run_report report;
    struct pto_run *handle = launch(device, orchestrate_a_full_ring, times);

    (void)state;
    while (load(&standing) == 0)
        rest();
    pass_time(1200 * MS); /* more than twice the time after which a deadlock is reported */
    store(&is_gate_open, 1);
    if (finish(handle, &report) < 0)
        fail_msg("%s", report.error.text);
    assert_int_equal(report.executions, 9);
    close_device(device);
}

/* ---- what does not come back is given up ---- */

static void a_kernel_that_never_returns_is_given_up(void **state)
{
    (void)state;
    for (int mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++) {
        struct times times = { .timeout_ns = 20 * MS,
                               .grace_ns = 100 * MS,
                               .mode = (enum pto_mode)mode,
                               .trace = PTO_TRACE_TIMES };
        struct pto_device *device = open_gated(0);
        char path[] = "/tmp/pto-deadline-XXXXXX", text[4096] = "";
        struct pto_run_report report;
        FILE *file;

        assert_int_equal(run_until_standing(run, device, orchestrate_gate, &times, &report),
                         PTO_ETIMEOUT);
        assert_in(report.error.text, "kernel \"gate\" of task 0 is still running");
        assert_lost(device, "a kernel never returned");
        assert_true(mkstemp(path) >= 0);
        assert_int_equal(pto_trace_write(device, path, NULL), PTO_OK);
        file = fopen(path, "r");
        assert_non_null(file);
        assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
        assert_in(text, "had not returned");
        fclose(file);
        unlink(path);
        close_device(device);
    }
}

/* The caller's thread is made to leave the kernel, and no lock stays locked. */
static void a_kernel_that_is_left_holds_no_lock(void **state)
{
    struct times times = { .timeout_ns = 20 * MS, .grace_ns = 20 * MS };

    (void)state;
    /* TSan delivers signals only after a blocking call has returned */
    if (!HAS_HANDLER || IS_SLOWED)
        skip();
    for (int i = 0; i < TRIES; i++) {
        struct pto_device *device = open_gated(1);
        struct pto_run_report report;

        assert_int_equal(
            run_until_standing(call, device, orchestrate_allocating_kernel, &times, &report),
            PTO_ETIMEOUT);
        free(malloc(100000));
        assert_lost(device, "a kernel never returned");
        close_device(device);
    }
}

static void assert_left(pto_orch_fn orchestration, int status, bool is_called)
{
    for (int mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++) {
        struct times times = { .timeout_ns = 20 * MS,
                               .grace_ns = 20 * MS,
                               .mode = (enum pto_mode)mode };
        struct pto_device *device = open_gated(0);
        struct pto_run_report report;

        assert_int_equal((is_called ? call : run)(device, orchestration, times, &report), status);
        if (status == PTO_ETIMEOUT)
            assert_in(report.error.text,
                      "the run has not ended after 20 ms: the graph is still being built");
        assert_lost(device, "an orchestration did not return after its run had ended");
        free(malloc(100000)); /* no thread holds the lock */
        close_device(device);
    }
}

static void an_orchestration_that_loops_is_given_up(void **state)
{
    (void)state;
    if (!HAS_HANDLER)
        skip();
    assert_left(orchestrate_loop, PTO_ETIMEOUT, true);
    assert_left(orchestrate_loop, PTO_ETIMEOUT, false);
    if (!IS_SLOWED) /* TSan delivers signals only after a blocking call has returned */
        assert_left(orchestrate_allocate, PTO_ETIMEOUT, true);
}

static void an_orchestration_that_ignores_errors_is_given_up(void **state)
{
    (void)state;
    assert_left(orchestrate_ignore, PTO_ETIMEOUT, true);
    assert_left(orchestrate_ignore_refusal, PTO_EARGS, false);
}

/* The message does not say that the orchestration was still submitting. */
static void a_kernel_that_holds_all_up_is_named(void **state)
{
    struct times times = { .timeout_ns = 1500 * MS, .grace_ns = 20 * MS, .live_max = 2 };
    struct pto_device *device = open_gated(2);
    struct pto_run_report report;

    (void)state;
    assert_int_equal(call(device, orchestrate_behind_gate, times, &report), PTO_ETIMEOUT);
    assert_in(report.error.text, "kernel \"gate\" of task 0 is still running");
    assert_lost(device, "a kernel never returned");
    assert_decided_first(device, &report.error);
    close_device(device);
}

/*
 * The time in which kernels had to return ends while the orchestration waits for room, from second
 * 1.0 to 2.0. So the orchestration gets more time afterwards.
 */
static void an_orchestration_that_is_held_up_has_time_afterwards(void **state)
{
    struct times times = { .timeout_ns = 1100 * MS, .grace_ns = 700 * MS, .live_max = 2 };
    struct pto_device *device = open_gated(2);
    struct pto_run_report report;
    char failure[8192];

    (void)state;
    assert_int_equal(call(device, orchestrate_behind_gate_slowly, times, &report), PTO_ETIMEOUT);
    assert_lost(device, "a kernel never returned");
    assert_true(pto_device_last_failure(device, failure, sizeof(failure)) > 0);
    assert_null(strstr(failure, "an orchestration did not return"));
    close_device(device);
}

/* The message is complete, however long the path of the source and the other parts are. */
static void the_sentence_is_never_cut(void **state)
{
    struct times times = { .timeout_ns = 20 * MS, .grace_ns = 100 * MS };
    struct pto_device *device = open_gated(2);
    struct pto_run_report report;
    char sentence[160];

    (void)state;
    assert_true(strlen(long_path) < PTO_ERROR_TEXT_MAX);
    assert_int_equal(run_until_standing(call, device, orchestrate_gate_far_away, &times, &report),
                     PTO_ETIMEOUT);
    assert_string_equal(report.error.site.file, long_path);
    assert_int_equal(strncmp(report.error.text, "...", 3), 0);
    snprintf(sentence, sizeof(sentence),
             "/orch.c:7: the run has not ended after %llu ms: kernel \"gate\" of task 0 is still "
             "running",
             (unsigned long long)(times.timeout_ns / MS));
    assert_in(report.error.text, sentence);
    assert_in(report.error.text, "look in a timeline for where the time went");
    assert_decided_first(device, &report.error);
    close_device(device);
}

static void the_same_after_a_cancellation(void **state)
{
    struct pto_device *device = open_gated(0);
    struct pto_run_report report;
    struct pto_run *handle;

    (void)state;
    handle = launch(device, orchestrate_ignore, (struct times){ .stall_ns = 50 * MS });
    while (pto_device_last_failure(device, NULL, 0) != PTO_EBUSY)
        rest(); /* a run in the queue is ended in another way */
    assert_int_equal(pto_run_cancel(handle), PTO_OK);
    assert_int_equal(finish(handle, &report), PTO_ECANCELED);
    assert_lost(device, "an orchestration did not return after its run had ended");
    close_device(device);
}

/* ---- from the launch ---- */

static void await_kernel(void)
{
    uint64_t end = now_ns() + HANG_SECONDS * 1000 * MS;

    while (load(&standing) == 0 && now_ns() < end)
        rest();
    assert_int_equal(load(&standing), 1);
}

static void time_in_the_queue_counts(void **state)
{
    struct pto_device *device = open_gated(0);
    struct times times = { .launch_ns = 5 * MS, .grace_ns = NEVER_NS };
    struct pto_run_report report;
    struct pto_run *first, *behind;

    (void)state;
    first = launch(device, orchestrate_gate, (struct times){ 0 });
    await_kernel();
    behind = launch(device, orchestrate_well, (struct times){ 0 });
    assert_int_equal(run(device, orchestrate_well, times, &report), PTO_ETIMEOUT);
    assert_in(report.error.text, "the run had not started 5 ms after its launch");
    assert_int_equal(call(device, orchestrate_well, times, &report), PTO_ETIMEOUT);
    assert_in(report.error.text, "the run had not started 5 ms after its launch");
    assert_int_equal(pto_run_poll(first), PTO_RUN_PENDING);
    assert_int_equal(pto_run_poll(behind), PTO_RUN_PENDING);
    store(&is_gate_open, 1);
    assert_int_equal(finish(first, &report), PTO_OK);
    assert_int_equal(finish(behind, &report), PTO_OK);
    times.launch_ns = 500 * MS; /* enough time to begin, also on a busy machine */
    assert_int_equal(run(device, orchestrate_chain, times, &report), PTO_ETIMEOUT);
    assert_in(report.error.text, "the run has not ended 500 ms after its launch");
    times.timeout_ns = 1000;
    assert_int_equal(run(device, orchestrate_chain, times, &report), PTO_ETIMEOUT);
    assert_in(report.error.text, "the run has not ended after 1 us");
    assert_works(device);
    close_device(device);
}

/* ---- the thread of an orchestration ---- */

static void an_orchestration_stays_on_its_thread(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        struct pto_device *device = open_gated(workers);
        struct times times = { .keeps_thread = true };
        struct pto_run_report report = { .takeovers = 0 };

        thread_changes = 0;
        for (int i = 0; i < TRIES && report.takeovers == 0; i++) { /* or the monitor was late */
            assert_int_equal(call(device, orchestrate_at_home, times, &report), PTO_OK);
            assert_int_equal(report.executions, 8);
        }
        assert_true(report.takeovers > 0);
        assert_int_equal(run(device, orchestrate_at_home, times, &report), PTO_OK);
        assert_int_equal(thread_changes, 0);
        times.keeps_thread = false; /* on a busy machine a kernel may seem to be stuck */
        thread_changes = 1;
        for (int i = 0; i < TRIES && thread_changes != 0; i++) {
            thread_changes = 0;
            assert_int_equal(call(device, orchestrate_at_home, times, &report), PTO_OK);
        }
        assert_int_equal(thread_changes, 0);
        close_device(device);
    }
}

/* Kernels on all threads wait for a task that is not submitted yet. */
static void it_changes_only_if_nothing_else_helps(void **state)
{
    struct pto_device *device = open_gated(1);
    struct times times = { .live_max = 1 };
    struct pto_run_report report;

    (void)state;
    assert_int_equal(call(device, orchestrate_in_pairs, times, &report), PTO_OK);
    assert_int_equal(report.executions, 4);
    store(&is_gate_open, 0);
    times.keeps_thread = true;
    times.stall_ns = 50 * MS;
    times.grace_ns = 20 * MS;
    assert_int_equal(call(device, orchestrate_in_pairs, times, &report), PTO_ESTALL);
    assert_in(report.error.text, "kernel \"gate\"");
    assert_lost(device, "");
    close_device(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_that_have_not_begun_do_not_begin),
        cmocka_unit_test(a_run_ends_within_two_milliseconds_and_a_kernel),
        cmocka_unit_test(a_deadline_may_be_over_at_once),
        cmocka_unit_test(a_kernel_that_is_running_is_waited_for),
        cmocka_unit_test(a_slow_kernel_does_not_fail_a_full_ring),
        cmocka_unit_test(a_kernel_that_never_returns_is_given_up),
        cmocka_unit_test(a_kernel_that_is_left_holds_no_lock),
        cmocka_unit_test(an_orchestration_that_loops_is_given_up),
        cmocka_unit_test(an_orchestration_that_ignores_errors_is_given_up),
        cmocka_unit_test(a_kernel_that_holds_all_up_is_named),
        cmocka_unit_test(an_orchestration_that_is_held_up_has_time_afterwards),
        cmocka_unit_test(the_sentence_is_never_cut),
        cmocka_unit_test(the_same_after_a_cancellation),
        cmocka_unit_test(time_in_the_queue_counts),
        cmocka_unit_test(an_orchestration_stays_on_its_thread),
        cmocka_unit_test(it_changes_only_if_nothing_else_helps),
    };

    return cmocka_run_group_tests_name("deadlines", tests, NULL, NULL);
}
