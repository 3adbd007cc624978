/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * Runs in steps: prepare, launch, poll, wait, cancel, the descriptor, finish; errors for invalid
 * handles, after forks and for calls in the wrong place; pto_call.
 *
 * A kernel that must be running during a call waits at a gate, which the test opens. Time-outs of a
 * minute are tested by setting back the clock of this thread, so that the deadline is near.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/fixture/open_test.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { ROUNDS = 10, DEVICE_REUSES = 20, FORKS = 5 };
#else
enum { ROUNDS = 50, DEVICE_REUSES = 1000, FORKS = 50 };
#endif

#if defined(__SANITIZE_THREAD__)
enum { HAS_CHILD_THREADS = 0 }; /* TSan cannot follow threads that a child starts */
#else
enum { HAS_CHILD_THREADS = 1 };
#endif

enum { KERNEL_COUNT, KERNEL_GATE, KERNEL_NOTE, KERNEL_STORE, KERNEL_ENTER, KERNEL_LEAVE, KERNELS };
enum { IN_FLIGHT = 8, CALLERS = 4, AFTER_GATE = 10, REUSES = 1000 };

static uint32_t words[16];
static uint32_t counted;
static uint32_t at_gate;     /* kernels and orchestrations that have arrived */
static uint32_t gate_graphs; /* of orchestrate_gate, complete */
static uint32_t is_open;
static uint64_t noted[64];
static uint32_t note_count;
static uint32_t inside; /* runs between their first and their last kernel */
static uint32_t together;
static _Thread_local uint64_t clock_back_ns;

/* Replaces libc's function. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    uint64_t ns;

    if (clock_back_ns == 0 || result != 0)
        return result;
    ns = (uint64_t)now->tv_sec * 1000000000 + (uint64_t)now->tv_nsec - clock_back_ns;
    now->tv_sec = (time_t)(ns / 1000000000);
    now->tv_nsec = (long)(ns % 1000000000);
    return 0;
}

static uint64_t true_ns(void)
{
    struct timespec now;

    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void await(const uint32_t *word, uint32_t value)
{
    uint64_t deadline = true_ns() + HANG_SECONDS * 1000 * MS;

    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value) {
        if (true_ns() > deadline)
            fail_msg("nobody came to the gate");
        rest();
    }
}

static void reset(void)
{
    counted = at_gate = note_count = inside = together = 0;
    __atomic_store_n(&is_open, 0, __ATOMIC_RELEASE);
    unexpected = NULL;
}

static void open_gate(void)
{
    __atomic_store_n(&is_open, 1, __ATOMIC_RELEASE);
}

static void stand_at_gate(void)
{
    __atomic_fetch_add(&at_gate, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&is_open, __ATOMIC_ACQUIRE) == 0)
        rest();
}

/* ---- kernels and orchestrations ---- */

static void kernel_count(int64_t *args)
{
    (void)args;
    __atomic_fetch_add(&counted, 1, __ATOMIC_RELAXED);
}

static void kernel_gate(int64_t *args)
{
    (void)args;
    stand_at_gate();
}

static void kernel_note(int64_t *args)
{
    noted[__atomic_fetch_add(&note_count, 1, __ATOMIC_RELAXED)] = (uint64_t)args[0];
}

static void kernel_store(int64_t *args)
{
    *(uint64_t *)pto_tensor_data(pto_arg_tensor(args, 0)) = (uint64_t)args[1];
}

static void kernel_enter(int64_t *args)
{
    (void)args;
    if (__atomic_fetch_add(&inside, 1, __ATOMIC_RELAXED) != 0)
        __atomic_fetch_add(&together, 1, __ATOMIC_RELAXED);
}

static void kernel_leave(int64_t *args)
{
    (void)args;
    __atomic_fetch_sub(&inside, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&counted, 1, __ATOMIC_RELAXED);
}

static const struct pto_kernel kernels[KERNELS] = {
    [KERNEL_COUNT] = { "count", kernel_count, PTO_CORE_AIV },
    [KERNEL_GATE] = { "gate", kernel_gate, PTO_CORE_AIV },
    [KERNEL_NOTE] = { "note", kernel_note, PTO_CORE_AIC },
    [KERNEL_STORE] = { "store", kernel_store, PTO_CORE_AIV },
    [KERNEL_ENTER] = { "enter", kernel_enter, PTO_CORE_AIV },
    [KERNEL_LEAVE] = { "leave", kernel_leave, PTO_CORE_AIC },
};

static struct pto_tensor word_tensor(void)
{
    const uint32_t shape[] = { 16 };

    return pto_tensor_external(words, shape, 1, PTO_UINT32);
}

static void orchestrate_count(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = word_tensor();

    (void)entry;
    for (int i = 0; i < 3; i++)
        pto_aiv(o, KERNEL_COUNT, PTO_INOUT(&t));
}

/* Submits a kernel that waits at the gate, and others that depend on it. */
static void orchestrate_gate(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = word_tensor();

    (void)entry;
    pto_aiv(o, KERNEL_GATE, PTO_INOUT(&t));
    for (int i = 0; i < AFTER_GATE; i++)
        pto_aiv(o, KERNEL_COUNT, PTO_INOUT(&t));
    __atomic_add_fetch(&gate_graphs, 1, __ATOMIC_RELEASE);
}

/* The orchestration itself waits at the gate; its calls after that are too late. */
static void orchestrate_standing(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = pto_tensor_info_make((uint32_t[]){ 4 }, 1, PTO_UINT32);
    struct pto_tensor t = word_tensor();
    struct pto_args args;

    (void)entry;
    EXPECT(pto_task_id_is_valid(pto_aiv(o, KERNEL_COUNT, PTO_INOUT(&t)).task));
    stand_at_gate();
    EXPECT(!pto_task_id_is_valid(pto_aiv(o, KERNEL_COUNT, PTO_INOUT(&t)).task));
    EXPECT(pto_orch_status(o) == PTO_ECANCELED);
    pto_args_init(&args);
    pto_add_output(&args, &info);
    EXPECT(!pto_task_id_is_valid(pto_alloc_tensors(o, &args).task));
    EXPECT(pto_scope_begin(o, PTO_SCOPE_AUTO) == PTO_ECANCELED);
    EXPECT(pto_scope_end(o) == PTO_ECANCELED);
}

static void orchestrate_note(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aic(o, KERNEL_NOTE, PTO_INT(entry->scalar[0]));
}

static void orchestrate_store(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, KERNEL_STORE, PTO_WRITE(&entry->tensor[0]), PTO_INT(entry->scalar[0]));
    pto_aiv(o, KERNEL_STORE, PTO_WRITE(&entry->tensor[1]), PTO_INT(entry->scalar[1]));
}

static void orchestrate_visit(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = word_tensor();

    (void)entry;
    pto_aiv(o, KERNEL_ENTER, PTO_INOUT(&t));
    pto_aiv(o, KERNEL_COUNT, PTO_INOUT(&t));
    pto_aic(o, KERNEL_LEAVE, PTO_INOUT(&t));
}

static void orchestrate_failing(struct pto_orch *o, const struct pto_entry *entry)
{
    orchestrate_count(o, entry);
    pto_orch_fail(o, PTO_EORCH, "on purpose");
}

/* Called at the beginning of a test: resets the counters and closes the gate. */
static struct pto_device *open_reset(uint32_t workers)
{
    reset();
    return open_device(NULL, 0, workers);
}

static struct pto_run *prepare(struct pto_device *device, struct pto_callable *callable)
{
    struct pto_run *run = NULL;

    assert_int_equal(pto_run_prepare(device, callable, NULL, NULL, &run), PTO_OK);
    assert_non_null(run);
    return run;
}

static struct pto_run *launch(struct pto_device *device, struct pto_callable *callable)
{
    struct pto_run *run = prepare(device, callable);

    assert_int_equal(pto_run_launch(run), PTO_OK);
    return run;
}

static void assert_works(struct pto_device *device)
{
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_count);
    struct pto_run_report report;
    struct pto_run *run;

    __atomic_store_n(&counted, 0, __ATOMIC_RELAXED);
    pto_run_report_init(&report);
    assert_int_equal(pto_run(device, callable, NULL, NULL, &report), PTO_OK);
    assert_int_equal(counted, 3);
    assert_int_equal(report.executions, 3);
    run = launch(device, callable);
    assert_int_equal(pto_run_wait(run, 0), PTO_OK);
    assert_int_equal(pto_run_finish(run, &report), PTO_OK);
    assert_int_equal(counted, 6);
    assert_int_equal(report.executions, 3);
    assert_int_equal(report.error.status, PTO_OK);
    assert_string_equal(report.error.text, "");
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    assert_nothing_unexpected();
}

static void assert_in_text(const struct pto_error *error, const char *part)
{
    if (strstr(error->text, part) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", part, error->text);
}

/* ---- prepare, launch, poll, wait ---- */

static bool keep_edge(void *context, uint64_t before, uint64_t after)
{
    (void)before;
    (void)after;
    ++*(uint32_t *)context;
    return true;
}

static void prepare_copies_descriptors_scalars_and_options(void **state)
{
    struct pto_device *device = open_reset(2);
    struct pto_callable *store = make_callable(kernels, KERNELS, orchestrate_store);
    struct pto_callable *count = make_callable(kernels, KERNELS, orchestrate_count);
    uint64_t memory[2] = { 0, 0 };
    struct pto_tensor tensors[2];
    uint64_t scalars[2] = { 11, 22 };
    struct pto_entry entry = { 2, 2, tensors, scalars };
    struct pto_run_options options;
    struct pto_run *run, *other;
    uint32_t edges = 0;

    (void)state;
    for (int i = 0; i < 2; i++)
        tensors[i] = pto_tensor_external(&memory[i], (uint32_t[]){ 1 }, 1, PTO_UINT64);
    pto_run_options_init(&options);
    assert_int_equal(pto_run_prepare(device, store, &entry, &options, &run), PTO_OK);
    options.mode = PTO_MODE_HOST; /* no task completes before every edge was found */
    options.edge = keep_edge;
    options.edge_context = &edges;
    assert_int_equal(pto_run_prepare(device, count, NULL, &options, &other), PTO_OK);
    memset(tensors, 0xff, sizeof(tensors));
    memset(scalars, 0xff, sizeof(scalars));
    memset(&entry, 0xff, sizeof(entry));
    memset(&options, 0xff, sizeof(options));
    assert_int_equal(pto_run_launch(run), PTO_OK);
    assert_int_equal(pto_run_launch(other), PTO_OK);
    assert_int_equal(pto_run_wait(run, 0), PTO_OK);
    assert_int_equal(pto_run_wait(other, 0), PTO_OK);
    assert_int_equal(memory[0], 11);
    assert_int_equal(memory[1], 22);
    assert_int_equal(edges, 2);
    assert_int_equal(pto_run_finish(run, NULL), PTO_OK);
    assert_int_equal(pto_run_finish(other, NULL), PTO_OK);
    pto_callable_destroy(store);
    pto_callable_destroy(count);
    pto_device_close(device);
}

static void a_run_that_cannot_be_is_not_prepared(void **state)
{
    struct pto_device *device = open_reset(1);
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_count);
    struct pto_tensor tensor = word_tensor();
    const uint64_t scalar = 1;
    const struct pto_entry entries[] = {
        { PTO_ENTRY_TENSORS_MAX + 1, 0, &tensor, NULL },
        { 0, PTO_ENTRY_SCALARS_MAX + 1, NULL, &scalar },
        { 1, 0, NULL, NULL },
        { 0, 1, NULL, NULL },
    };
    struct pto_run *run = NULL;
    struct pto_run_options options;

    (void)state;
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
        assert_int_equal(pto_run_prepare(device, callable, &entries[i], NULL, &run), PTO_EINVAL);
    for (int i = 0; i < 3; i++) {
        pto_run_options_init(&options);
        if (i == 0)
            options.size--;
        else if (i == 1)
            options.mode = (enum pto_mode)9;
        else
            options.deps = (enum pto_deps)9;
        assert_int_equal(pto_run_prepare(device, callable, NULL, &options, &run), PTO_EINVAL);
    }
    assert_int_equal(pto_run_prepare(device, callable, NULL, NULL, NULL), PTO_EINVAL);
    assert_null(run);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

/* Descriptors that only code without our functions could make. */
static void an_entry_tensor_beyond_its_buffer_is_refused(void **state)
{
    struct pto_device *device = open_reset(1);
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_count);
    struct pto_tensor tensors[6];
    struct pto_error error = { .size = sizeof(error) };
    struct pto_run_options options;
    struct pto_run *run;

    (void)state;
    pto_run_options_init(&options);
    options.error = &error;
    for (int i = 0; i < 6; i++)
        tensors[i] = word_tensor();
    tensors[1].shapes[0]++;
    tensors[2].start = 1;
    tensors[3].start = 1ull << 62; /* bytes that are 0, with 64 bits */
    tensors[4].ndims = 5;
    for (uint32_t d = 0; d < 5; d++)
        tensors[4].shapes[d] = tensors[4].strides[d] = UINT32_MAX; /* a sum that wraps */
    tensors[5].size = 63;
    for (int i = 0; i < 6; i++) {
        const struct pto_entry entry = { 1, 0, &tensors[i], NULL };
        int status = pto_run_prepare(device, callable, &entry, &options, &run);

        assert_int_equal(status, i == 0 ? PTO_OK : PTO_EINVAL);
        if (i == 0)
            assert_int_equal(pto_run_finish(run, NULL), PTO_ECANCELED);
        else
            assert_non_null(
                strstr(error.text, i == 5 ? "tensor 0 of the entry reaches beyond its 63"
                                          : "tensor 0 of the entry reaches beyond its 64"));
    }
    pto_callable_destroy(callable);
    pto_device_close(device);
}

static void an_entry_may_have_tensors_or_scalars_only(void **state)
{
    struct pto_device *device = open_reset(1);
    struct pto_callable *note = make_callable(kernels, KERNELS, orchestrate_note);
    struct pto_callable *count = make_callable(kernels, KERNELS, orchestrate_count);
    const struct pto_tensor tensor = word_tensor();
    const uint64_t scalar = 5;
    const struct pto_entry scalars_only = { 0, 1, NULL, &scalar };
    const struct pto_entry tensors_only = { 1, 0, &tensor, NULL };
    const struct pto_entry nothing = { 0, 0, NULL, NULL };

    (void)state;
    assert_int_equal(pto_run(device, note, &scalars_only, NULL, NULL), PTO_OK);
    assert_int_equal(noted[0], 5);
    assert_int_equal(pto_run(device, count, &tensors_only, NULL, NULL), PTO_OK);
    assert_int_equal(pto_run(device, count, &nothing, NULL, NULL), PTO_OK);
    pto_callable_destroy(note);
    pto_callable_destroy(count);
    pto_device_close(device);
}

static void a_launch_returns_at_once_and_is_made_once(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        struct pto_device *device = open_reset(workers);
        struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_gate);
        uint32_t graphs = gate_graphs;
        struct pto_run_report report;
        struct pto_run *run = prepare(device, callable);

        for (int i = 0; i < 20; i++)
            rest();
        assert_int_equal(at_gate, 0);
        assert_int_equal(pto_run_poll(run), PTO_RUN_PENDING);
        assert_int_equal(pto_run_launch(run), PTO_OK);
        assert_int_equal(pto_run_launch(run), PTO_EINVAL);
        await(&at_gate, 1);
        await(&gate_graphs, graphs + 1);
        assert_int_equal(pto_run_poll(run), PTO_RUN_PENDING);
        assert_int_equal(pto_run_launch(run), PTO_EINVAL);
        open_gate();
        assert_int_equal(pto_run_wait(run, 0), PTO_OK);
        assert_int_equal(pto_run_poll(run), PTO_RUN_ENDED);
        assert_int_equal(pto_run_launch(run), PTO_EINVAL);
        assert_int_equal(counted, AFTER_GATE);
        pto_run_report_init(&report);
        assert_int_equal(pto_run_finish(run, &report), PTO_OK);
        assert_int_equal(report.tasks, AFTER_GATE + 1);
        assert_int_equal(report.executions, AFTER_GATE + 1);
        assert_int_equal(report.edges, AFTER_GATE);
        assert_int_equal(report.workers, workers);
        pto_callable_destroy(callable);
        pto_device_close(device);
    }
}

static void runs_take_place_in_the_order_of_their_launches(void **state)
{
    static const uint64_t order[IN_FLIGHT] = { 3, 0, 7, 1, 6, 2, 5, 4 };
    static const uint64_t finish_order[IN_FLIGHT] = { 6, 7, 1, 0, 4, 3, 5, 2 };

    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        struct pto_device *device = open_reset(workers);
        struct pto_callable *gate = make_callable(kernels, KERNELS, orchestrate_gate);
        struct pto_callable *note = make_callable(kernels, KERNELS, orchestrate_note);
        struct pto_run *run[IN_FLIGHT], *first = launch(device, gate);

        for (uint64_t i = 0; i < IN_FLIGHT; i++) {
            const struct pto_entry entry = { 0, 1, NULL, &i };

            assert_int_equal(pto_run_prepare(device, note, &entry, NULL, &run[i]), PTO_OK);
        }
        for (int i = 0; i < IN_FLIGHT; i++)
            assert_int_equal(pto_run_launch(run[order[i]]), PTO_OK);
        for (int i = 0; i < IN_FLIGHT; i++)
            assert_int_equal(pto_run_poll(run[i]), PTO_RUN_PENDING);
        await(&at_gate, 1);
        assert_int_equal(note_count, 0);
        open_gate();
        for (int i = 0; i < IN_FLIGHT; i++) {
            struct pto_run *r = run[finish_order[i]];
            struct pto_run_report report;

            assert_int_equal(pto_run_wait(r, 0), PTO_OK);
            pto_run_report_init(&report);
            assert_int_equal(pto_run_finish(r, &report), PTO_OK);
            assert_int_equal(report.executions, 1);
        }
        assert_int_equal(note_count, IN_FLIGHT);
        assert_memory_equal(noted, order, sizeof(order));
        assert_int_equal(pto_run_finish(first, NULL), PTO_OK);
        pto_callable_destroy(gate);
        pto_callable_destroy(note);
        assert_int_equal(pto_device_close(device), PTO_OK);
    }
}

static void a_wait_ends_at_its_time_out_and_the_run_goes_on(void **state)
{
    struct pto_device *device = open_reset(2);
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_gate);
    struct pto_run *run = launch(device, callable);
    uint64_t begin;

    (void)state;
    await(&at_gate, 1);
    assert_int_equal(pto_run_wait(run, 1), PTO_ETIMEOUT);
    begin = true_ns();
    assert_int_equal(pto_run_wait(run, 50 * MS), PTO_ETIMEOUT);
    assert_true(true_ns() - begin >= 50 * MS);
    assert_int_equal(pto_run_poll(run), PTO_RUN_PENDING);
    open_gate();
    assert_int_equal(pto_run_wait(run, UINT64_MAX), PTO_OK);
    assert_int_equal(counted, AFTER_GATE);
    assert_int_equal(pto_run_wait(run, 1), PTO_OK);
    assert_int_equal(pto_run_wait(run, 0), PTO_OK);
    assert_int_equal(pto_run_finish(run, NULL), PTO_OK);
    pto_callable_destroy(callable);
    pto_device_close(device);
}

static void waits_of_a_minute_end(void **state)
{
    struct pto_device *device = open_reset(2);
    struct pto_callable *gate = make_callable(kernels, KERNELS, orchestrate_gate);
    struct pto_callable *count = make_callable(kernels, KERNELS, orchestrate_count);
    struct pto_run *run = launch(device, gate);
    struct pto_run_report report;

    (void)state;
    assert_int_equal(PTO_TIMEOUT_DEFAULT_NS, 60000 * MS);
    await(&at_gate, 1);
    assert_int_equal(pto_run_wait(run, 20 * MS), PTO_ETIMEOUT);
    clock_back_ns = PTO_TIMEOUT_DEFAULT_NS - 20 * MS;
    assert_int_equal(pto_run_wait(run, 0), PTO_ETIMEOUT);
    pto_run_report_init(&report);
    assert_int_equal(pto_run(device, count, NULL, NULL, &report), PTO_ETIMEOUT);
    clock_back_ns = 0;
    assert_int_equal(report.error.status, PTO_ETIMEOUT);
    assert_in_text(&report.error, "busy");
    assert_int_equal(counted, 0);
    assert_int_equal(pto_run_poll(run), PTO_RUN_PENDING);
    open_gate();
    assert_int_equal(pto_run_wait(run, 0), PTO_OK);
    assert_int_equal(pto_run_finish(run, NULL), PTO_OK);
    assert_works(device);
    pto_callable_destroy(gate);
    pto_callable_destroy(count);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

static void nobody_waits_for_a_run_that_was_not_launched(void **state)
{
    struct pto_device *device = open_reset(1);
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_count);
    struct pto_run *run = prepare(device, callable);

    (void)state;
    assert_int_equal(pto_run_wait(run, 0), PTO_EINVAL);
    assert_int_equal(pto_run_wait(run, 1), PTO_EINVAL);
    assert_int_equal(pto_run_poll(run), PTO_RUN_PENDING);
    assert_int_equal(pto_run_launch(run), PTO_OK);
    assert_int_equal(pto_run_wait(run, 0), PTO_OK);
    assert_int_equal(pto_run_finish(run, NULL), PTO_OK);
    pto_callable_destroy(callable);
    pto_device_close(device);
}

static void a_failed_run_tells_so_in_wait_and_in_finish(void **state)
{
    struct pto_device *device = open_reset(2);
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_failing);
    struct pto_run *run = launch(device, callable);
    struct pto_run_report report;

    (void)state;
    assert_int_equal(pto_run_wait(run, 0), PTO_EORCH);
    assert_int_equal(pto_run_poll(run), PTO_RUN_ENDED);
    pto_run_report_init(&report);
    assert_int_equal(pto_run_finish(run, &report), PTO_EORCH);
    assert_int_equal(report.error.status, PTO_EORCH);
    assert_in_text(&report.error, "on purpose");
    assert_works(device);
    pto_callable_destroy(callable);
    pto_device_close(device);
}

/* ---- several threads ---- */

struct caller {
    pthread_t handle;
    struct pto_device *device;
    struct pto_callable *callable;
    struct pto_run *run;
    int way; /* 0: pto_run, 1: in steps, 2: both alternately, 3: waits for `run` */
    int status;
};

static int call_in_steps(const struct caller *c)
{
    struct pto_run *run;
    int status = pto_run_prepare(c->device, c->callable, NULL, NULL, &run);

    if (status == PTO_OK)
        status = pto_run_launch(run);
    if (status == PTO_OK)
        status = pto_run_wait(run, 0);
    return status == PTO_OK ? pto_run_finish(run, NULL) : status;
}

static void *caller_main(void *arg)
{
    struct caller *c = arg;

    if (c->way == 3) {
        c->status = pto_run_wait(c->run, 0);
        return NULL;
    }
    for (int i = 0; i < ROUNDS && c->status == PTO_OK; i++)
        c->status = c->way == 0 || (c->way == 2 && i % 2 == 0)
                        ? pto_run(c->device, c->callable, NULL, NULL, NULL)
                        : call_in_steps(c);
    return NULL;
}

static void assert_callers(const int way[CALLERS], uint32_t workers)
{
    struct pto_device *device = open_reset(workers);
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_visit);
    struct caller c[CALLERS];

    for (int i = 0; i < CALLERS; i++) {
        c[i] = (struct caller){ .device = device, .callable = callable, .way = way[i] };
        assert_int_equal(pthread_create(&c[i].handle, NULL, caller_main, &c[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(c[i].handle, NULL);
        assert_int_equal(c[i].status, PTO_OK);
    }
    assert_int_equal(counted, 2 * CALLERS * ROUNDS);
    assert_int_equal(together, 0);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

static void threads_that_call_at_once_run_one_after_the_other(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++)
        assert_callers((const int[CALLERS]){ 0, 0, 0, 0 }, workers);
}

static void threads_that_launch_at_once_run_one_after_the_other(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++)
        assert_callers((const int[CALLERS]){ 1, 1, 1, 1 }, workers);
}

static void called_and_launched_runs_take_turns(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++)
        assert_callers((const int[CALLERS]){ 0, 1, 2, 2 }, workers);
}

static void several_threads_may_wait_for_one_run(void **state)
{
    struct pto_device *device = open_reset(2);
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_gate);
    struct pto_run *run = launch(device, callable);
    struct caller c[CALLERS];

    (void)state;
    await(&at_gate, 1);
    for (int i = 0; i < CALLERS; i++) {
        c[i] = (struct caller){ .run = run, .way = 3, .status = 1 };
        assert_int_equal(pthread_create(&c[i].handle, NULL, caller_main, &c[i]), 0);
    }
    open_gate();
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(c[i].handle, NULL);
        assert_int_equal(c[i].status, PTO_OK);
    }
    assert_int_equal(pto_run_finish(run, NULL), PTO_OK);
    pto_callable_destroy(callable);
    pto_device_close(device);
}

/* ---- the descriptor ---- */

static int poll_descriptor(int descriptor, int timeout_ms)
{
    struct pollfd p = { .fd = descriptor, .events = POLLIN };

    return poll(&p, 1, timeout_ms) == 1 && (p.revents & POLLIN) != 0;
}

static void the_descriptor_is_readable_once_the_run_has_ended(void **state)
{
    struct pto_device *device = open_reset(2);
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_gate);
    struct pto_run *run = prepare(device, callable);
    struct epoll_event event = { .events = EPOLLIN, .data.u32 = 42 };
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    int descriptor = pto_run_fd(run);

    (void)state;
    assert_true(descriptor >= 0);
    assert_int_equal(fcntl(descriptor, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event), 0);
    assert_false(poll_descriptor(descriptor, 0));
    assert_int_equal(pto_run_launch(run), PTO_OK);
    await(&at_gate, 1);
    assert_false(poll_descriptor(descriptor, 10));
    assert_int_equal(epoll_wait(epoll, &event, 1, 10), 0);
    open_gate();
    assert_true(poll_descriptor(descriptor, 30000));
    event.data.u32 = 0;
    assert_int_equal(epoll_wait(epoll, &event, 1, 30000), 1);
    assert_int_equal(event.data.u32, 42);
    assert_int_equal(pto_run_poll(run), PTO_RUN_ENDED);
    assert_true(poll_descriptor(descriptor, 0)); /* and stays so */
    assert_int_equal(pto_run_fd(run), descriptor);
    assert_int_equal(pto_run_finish(run, NULL), PTO_OK);
    assert_int_equal(fcntl(descriptor, F_GETFD), -1);
    assert_int_equal(errno, EBADF);
    close(epoll);
    pto_callable_destroy(callable);
    pto_device_close(device);
}

static void each_run_has_a_descriptor_of_its_own(void **state)
{
    struct pto_device *device = open_reset(2);
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_count);
    struct pto_run *run[3];
    int descriptor[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        run[i] = i == 2 ? launch(device, callable) : prepare(device, callable);
        if (i == 2) /* requested after the end of the run */
            assert_int_equal(pto_run_wait(run[i], 0), PTO_OK);
        descriptor[i] = pto_run_fd(run[i]);
        assert_true(descriptor[i] >= 0);
    }
    assert_true(poll_descriptor(descriptor[2], 0));
    assert_int_not_equal(descriptor[0], descriptor[1]);
    assert_int_not_equal(descriptor[1], descriptor[2]);
    assert_int_equal(pto_run_cancel(run[0]), PTO_OK);
    assert_true(poll_descriptor(descriptor[0], 0));
    assert_false(poll_descriptor(descriptor[1], 0));
    assert_int_equal(pto_run_finish(run[0], NULL), PTO_ECANCELED);
    assert_int_equal(pto_run_finish(run[1], NULL), PTO_ECANCELED);
    assert_int_equal(pto_run_finish(run[2], NULL), PTO_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(fcntl(descriptor[i], F_GETFD), -1);
    pto_callable_destroy(callable);
    pto_device_close(device);
}

/* ---- cancel ---- */

static void assert_cancelled(struct pto_run *run, uint64_t executions, const char *text)
{
    struct pto_run_report report;

    assert_int_equal(pto_run_wait(run, 0), PTO_ECANCELED);
    assert_int_equal(pto_run_poll(run), PTO_RUN_ENDED);
    assert_int_equal(pto_run_cancel(run), PTO_OK);
    assert_int_equal(pto_run_launch(run), PTO_EINVAL);
    pto_run_report_init(&report);
    assert_int_equal(pto_run_finish(run, &report), PTO_ECANCELED);
    assert_int_equal(report.error.status, PTO_ECANCELED);
    assert_int_equal(report.executions, executions);
    assert_in_text(&report.error, "cancelled");
    assert_in_text(&report.error, text);
}

static void a_prepared_run_is_cancelled_at_once(void **state)
{
    struct pto_device *device = open_reset(2);
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_count);
    struct pto_run *run = prepare(device, callable);

    (void)state;
    assert_int_equal(pto_run_cancel(run), PTO_OK);
    assert_int_equal(pto_run_poll(run), PTO_RUN_ENDED);
    assert_cancelled(run, 0, "before it started");
    assert_int_equal(counted, 0);
    assert_works(device);
    pto_callable_destroy(callable);
    pto_device_close(device);
}

static void a_queued_run_is_cancelled_at_once_and_leaves_the_queue(void **state)
{
    struct pto_device *device = open_reset(2);
    struct pto_callable *gate = make_callable(kernels, KERNELS, orchestrate_gate);
    struct pto_callable *note = make_callable(kernels, KERNELS, orchestrate_note);
    struct pto_run *run[5], *first;

    (void)state;
    first = launch(device, gate);
    await(&at_gate, 1);
    for (uint64_t i = 0; i < 5; i++) {
        const struct pto_entry entry = { 0, 1, NULL, &i };

        assert_int_equal(pto_run_prepare(device, note, &entry, NULL, &run[i]), PTO_OK);
        assert_int_equal(pto_run_launch(run[i]), PTO_OK);
    }
    for (int i = 0; i < 5; i += 2) { /* the first run, one in the middle, the last one */
        assert_int_equal(pto_run_cancel(run[i]), PTO_OK);
        assert_int_equal(pto_run_poll(run[i]), PTO_RUN_ENDED);
    }
    assert_int_equal(pto_run_poll(first), PTO_RUN_PENDING);
    open_gate();
    assert_int_equal(pto_run_wait(first, 0), PTO_OK);
    for (int i = 0; i < 5; i++) {
        if (i % 2 == 0) {
            assert_cancelled(run[i], 0, "before it started");
            continue;
        }
        assert_int_equal(pto_run_wait(run[i], 0), PTO_OK);
        assert_int_equal(pto_run_finish(run[i], NULL), PTO_OK);
    }
    assert_int_equal(note_count, 2);
    assert_int_equal(noted[0], 1);
    assert_int_equal(noted[1], 3);
    assert_int_equal(pto_run_finish(first, NULL), PTO_OK);
    assert_works(device);
    pto_callable_destroy(gate);
    pto_callable_destroy(note);
    pto_device_close(device);
}

static struct pto_run *launch_in_mode(struct pto_device *device, struct pto_callable *callable,
                                      int mode)
{
    struct pto_run_options options;
    struct pto_run *run = NULL;

    pto_run_options_init(&options);
    options.mode = (enum pto_mode)mode;
    assert_int_equal(pto_run_prepare(device, callable, NULL, &options, &run), PTO_OK);
    assert_int_equal(pto_run_launch(run), PTO_OK);
    return run;
}

static void a_running_run_is_cancelled_when_its_kernels_have_returned(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct pto_device *device = open_reset(1 + (uint32_t)i % 2);
        struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_gate);
        uint32_t graphs = gate_graphs;
        struct pto_run *run;

        run = launch_in_mode(device, callable, i / 2);
        await(&at_gate, 1);
        /* otherwise the run is cancelled while its graph is built */
        await(&gate_graphs, graphs + 1);
        assert_int_equal(pto_run_cancel(run), PTO_OK);
        /* the run waits for the kernel */
        assert_int_equal(pto_run_wait(run, 20 * MS), PTO_ETIMEOUT);
        assert_int_equal(pto_run_poll(run), PTO_RUN_PENDING);
        assert_int_equal(pto_run_finish(run, NULL), PTO_EBUSY);
        assert_int_equal(pto_run_cancel(run), PTO_OK);
        open_gate();
        assert_cancelled(run, 1, "after 1 of 11 tasks");
        assert_int_equal(counted, 0); /* later runs are not started */
        assert_works(device);
        assert_int_equal(pto_callable_destroy(callable), PTO_OK);
        assert_int_equal(pto_device_close(device), PTO_OK);
    }
}

static void a_run_is_cancelled_while_its_graph_is_built(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct pto_device *device = open_reset(1 + (uint32_t)i % 2);
        struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_standing);
        struct pto_run *run;

        run = launch_in_mode(device, callable, i / 2);
        await(&at_gate, 1);
        assert_int_equal(pto_run_poll(run), PTO_RUN_PENDING);
        assert_int_equal(pto_run_cancel(run), PTO_OK);
        open_gate();
        assert_int_equal(pto_run_wait(run, 0), PTO_ECANCELED);
        assert_true(counted <= 1);
        assert_cancelled(run, counted, "while its graph was built");
        assert_works(device);
        pto_callable_destroy(callable);
        assert_int_equal(pto_device_close(device), PTO_OK);
    }
}

static void a_run_that_has_ended_is_not_cancelled(void **state)
{
    struct pto_device *device = open_reset(2);
    struct pto_callable *count = make_callable(kernels, KERNELS, orchestrate_count);
    struct pto_callable *failing = make_callable(kernels, KERNELS, orchestrate_failing);
    struct pto_run *good, *bad;
    struct pto_run_report report;

    (void)state;
    good = launch(device, count);
    bad = launch(device, failing);
    assert_int_equal(pto_run_wait(good, 0), PTO_OK);
    assert_int_equal(pto_run_wait(bad, 0), PTO_EORCH);
    assert_int_equal(pto_run_cancel(good), PTO_OK);
    assert_int_equal(pto_run_cancel(bad), PTO_OK);
    assert_int_equal(pto_run_wait(good, 0), PTO_OK);
    assert_int_equal(pto_run_wait(bad, 0), PTO_EORCH);
    pto_run_report_init(&report);
    assert_int_equal(pto_run_finish(good, &report), PTO_OK);
    assert_int_equal(report.executions, 3);
    assert_string_equal(report.error.text, "");
    assert_int_equal(pto_run_finish(bad, NULL), PTO_EORCH);
    assert_works(device); /* the cancellation does not affect a later run */
    pto_callable_destroy(count);
    pto_callable_destroy(failing);
    pto_device_close(device);
}

/* Opens the gate when the executing run has been cancelled. */
static void *cancel_at_gate(void *run)
{
    await(&at_gate, 1);
    if (pto_run_cancel(run) == PTO_OK)
        open_gate();
    return NULL;
}

static void *execute(void *run)
{
    return (void *)(intptr_t)pto_run_execute(run);
}

static void a_run_is_executed_by_its_caller_and_cancelled_by_another_thread(void **state)
{
    struct pto_device *device = open_reset(1);
    struct pto_callable *gate = make_callable(kernels, KERNELS, orchestrate_gate);
    struct pto_callable *count = make_callable(kernels, KERNELS, orchestrate_count);
    struct pto_run *run = prepare(device, count), *first;
    struct pollfd ends = { .events = POLLIN };
    pthread_t other;
    void *status;

    (void)state;
    ends.fd = pto_run_fd(run);
    assert_int_equal(pto_run_execute(run), PTO_OK);
    assert_true(counted > 0);
    assert_int_equal(poll(&ends, 1, 0), 1);
    assert_int_equal(pto_run_execute(run), PTO_EINVAL); /* once */
    assert_int_equal(pto_run_wait(run, 0), PTO_OK);
    assert_int_equal(pto_run_finish(run, NULL), PTO_OK);

    run = prepare(device, gate);
    assert_int_equal(pthread_create(&other, NULL, cancel_at_gate, run), 0);
    assert_int_equal(pto_run_execute(run), PTO_ECANCELED);
    pthread_join(other, NULL);
    assert_int_equal(pto_run_finish(run, NULL), PTO_ECANCELED);

    reset(); /* and a run that is queued */
    first = launch(device, gate);
    await(&at_gate, 1);
    run = prepare(device, count);
    assert_int_equal(pthread_create(&other, NULL, execute, run), 0);
    while (pto_run_wait(run, 1) == PTO_EINVAL) /* until it is in the queue */
        rest();
    assert_int_equal(pto_run_launch(run), PTO_EINVAL);
    assert_int_equal(pto_run_cancel(run), PTO_OK);
    pthread_join(other, &status);
    assert_int_equal((intptr_t)status, PTO_ECANCELED);
    assert_int_equal(pto_run_finish(run, NULL), PTO_ECANCELED);
    assert_int_equal(counted, 0);
    open_gate();
    assert_int_equal(pto_run_wait(first, 0), PTO_OK);
    assert_int_equal(pto_run_finish(first, NULL), PTO_OK);
    assert_works(device);
    pto_callable_destroy(gate);
    pto_callable_destroy(count);
    pto_device_close(device);
}

/* Whatever state a cancellation finds, the run ends, and its status says how. */
static void a_run_may_be_cancelled_at_any_moment(void **state)
{
    struct pto_device *device = open_reset(2);
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_visit);

    (void)state;
    for (int i = 0; i < 20 * ROUNDS; i++) {
        struct pto_run_report report;
        struct pto_run *run = launch(device, callable);
        int status;

        for (int k = 0; k < i % 97 * 10; k++)
            pto_pause();
        assert_int_equal(pto_run_cancel(run), PTO_OK);
        status = pto_run_wait(run, 0);
        assert_true(status == PTO_OK || status == PTO_ECANCELED);
        pto_run_report_init(&report);
        assert_int_equal(pto_run_finish(run, &report), status);
        if (status == PTO_OK)
            assert_int_equal(report.executions, 3);
    }
    assert_works(device);
    pto_callable_destroy(callable);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

/* ---- finish, close, destroy ---- */

static void assert_gone(struct pto_run *run)
{
    assert_int_equal(pto_run_finish(run, NULL), PTO_EINVAL);
    assert_int_equal(pto_run_launch(run), PTO_EINVAL);
    assert_int_equal(pto_run_poll(run), PTO_EINVAL);
    assert_int_equal(pto_run_wait(run, 0), PTO_EINVAL);
    assert_int_equal(pto_run_cancel(run), PTO_EINVAL);
    assert_int_equal(pto_run_fd(run), PTO_EINVAL);
}

static void a_run_is_finished_once_and_not_before_its_end(void **state)
{
    struct pto_device *device = open_reset(2);
    struct pto_callable *gate = make_callable(kernels, KERNELS, orchestrate_gate);
    struct pto_callable *count = make_callable(kernels, KERNELS, orchestrate_count);
    struct pto_run_report report, small;
    struct pto_run *prepared, *running, *queued;

    (void)state;
    prepared = prepare(device, count);
    running = launch(device, gate);
    queued = launch(device, count);
    await(&at_gate, 1);
    pto_run_report_init(&report);
    memset(&small, 0, sizeof(small));
    assert_int_equal(pto_run_finish(running, &report), PTO_EBUSY);
    assert_int_equal(pto_run_finish(queued, &report), PTO_EBUSY);
    assert_int_equal(report.error.status, PTO_OK);
    assert_int_equal(pto_run_finish(prepared, &small), PTO_EINVAL);
    assert_int_equal(pto_run_finish(prepared, &report), PTO_ECANCELED);
    assert_int_equal(report.error.status, PTO_ECANCELED);
    assert_in_text(&report.error, "never launched");
    assert_gone(prepared);
    open_gate();
    assert_int_equal(pto_run_wait(queued, 0), PTO_OK);
    assert_int_equal(pto_run_wait(running, 0), PTO_OK);
    assert_int_equal(pto_run_finish(queued, &small), PTO_EINVAL);
    assert_int_equal(pto_run_finish(queued, NULL), PTO_OK);
    assert_gone(queued);
    assert_int_equal(pto_run_finish(running, NULL), PTO_OK);
    assert_gone(running);
    assert_works(device);
    pto_callable_destroy(gate);
    pto_callable_destroy(count);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

static void a_device_with_runs_is_not_closed(void **state)
{
    struct pto_device *device = open_reset(2);
    struct pto_callable *gate = make_callable(kernels, KERNELS, orchestrate_gate);
    struct pto_callable *count = make_callable(kernels, KERNELS, orchestrate_count);
    struct pto_run *prepared, *running, *queued;
    uint64_t addr;

    (void)state;
    assert_int_equal(pto_mem_alloc(device, 100, &addr), PTO_OK);
    prepared = prepare(device, count);
    assert_int_equal(pto_device_close(device), PTO_EBUSY);
    running = launch(device, gate);
    queued = launch(device, count);
    assert_int_equal(pto_device_close(device), PTO_EBUSY);
    await(&at_gate, 1);
    assert_int_equal(pto_device_close(device), PTO_EBUSY);
    open_gate();
    assert_int_equal(pto_run_wait(queued, 0), PTO_OK);
    assert_int_equal(pto_device_close(device), PTO_EBUSY);
    assert_int_equal(pto_run_launch(prepared), PTO_OK);
    assert_int_equal(pto_run_wait(prepared, 0), PTO_OK);
    assert_int_equal(pto_run_finish(prepared, NULL), PTO_OK);
    assert_int_equal(pto_run_finish(running, NULL), PTO_OK);
    assert_int_equal(pto_device_close(device), PTO_EBUSY);
    assert_int_equal(pto_run_finish(queued, NULL), PTO_OK);
    assert_int_equal(counted, AFTER_GATE + 6);
    assert_int_equal(pto_mem_write(device, addr, "x", 1), PTO_OK); /* nothing was freed */
    assert_works(device);
    assert_int_equal(pto_device_close(device), PTO_OK);
    assert_int_equal(pto_device_close(device), PTO_EINVAL);
    assert_int_equal(pto_callable_destroy(gate), PTO_OK);
    assert_int_equal(pto_callable_destroy(count), PTO_OK);
}

static struct pto_device *own_device;
static struct pto_callable *own_callable;
static int own_status[3];

/* What a run must not do to its own device. */
static void orchestrate_sawing(struct pto_orch *o, const struct pto_entry *entry)
{
    orchestrate_count(o, entry);
    own_status[0] = pto_device_close(own_device);
    own_status[1] = pto_callable_destroy(own_callable);
    own_status[2] = pto_run(own_device, own_callable, NULL, NULL, NULL);
}

static void a_run_cannot_close_its_own_device(void **state)
{
    struct pto_run *run;

    (void)state;
    own_device = open_reset(2);
    own_callable = make_callable(kernels, KERNELS, orchestrate_sawing);
    for (int i = 0; i < 2; i++) {
        memset(own_status, 0, sizeof(own_status));
        if (i == 0) {
            assert_int_equal(pto_run(own_device, own_callable, NULL, NULL, NULL), PTO_OK);
        } else {
            run = launch(own_device, own_callable);
            assert_int_equal(pto_run_wait(run, 0), PTO_OK);
            assert_int_equal(pto_run_finish(run, NULL), PTO_OK);
        }
        for (int k = 0; k < 3; k++)
            assert_int_equal(own_status[k], PTO_EBUSY);
    }
    assert_int_equal(counted, 6);
    assert_works(own_device);
    assert_int_equal(pto_callable_destroy(own_callable), PTO_OK);
    assert_int_equal(pto_device_close(own_device), PTO_OK);
}

static void a_callable_that_runs_use_is_not_destroyed(void **state)
{
    struct pto_device *device = open_reset(2);
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_gate);
    struct pto_run *run, *other;

    (void)state;
    run = prepare(device, callable);
    other = prepare(device, callable);
    assert_int_equal(pto_callable_destroy(callable), PTO_EBUSY);
    assert_int_equal(pto_run_launch(run), PTO_OK);
    await(&at_gate, 1);
    assert_int_equal(pto_callable_destroy(callable), PTO_EBUSY);
    assert_int_equal(pto_run_cancel(other), PTO_OK);
    open_gate();
    assert_int_equal(pto_run_wait(run, 0), PTO_OK);
    assert_int_equal(pto_callable_destroy(callable), PTO_EBUSY);
    assert_int_equal(pto_run_finish(run, NULL), PTO_OK);
    assert_int_equal(pto_callable_destroy(callable), PTO_EBUSY);
    assert_int_equal(pto_run_finish(other, NULL), PTO_ECANCELED);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    assert_int_equal(pto_callable_destroy(callable), PTO_EINVAL);
    assert_int_equal(pto_device_close(device), PTO_OK);
}

/* ---- handles ---- */

static struct pto_device *good_device;
static struct pto_callable *good_callable;
static struct pto_run *good_run;

static int device_close_fn(void *h)
{
    return pto_device_close(h);
}

static int device_run_fn(void *h)
{
    return pto_run(h, good_callable, NULL, NULL, NULL);
}

static int device_prepare_fn(void *h)
{
    struct pto_run *run;

    return pto_run_prepare(h, good_callable, NULL, NULL, &run);
}

static int device_alloc_fn(void *h)
{
    uint64_t addr;

    return pto_mem_alloc(h, 8, &addr);
}

static int device_free_fn(void *h)
{
    return pto_mem_free(h, 8, NULL);
}

static int device_write_fn(void *h)
{
    return pto_mem_write(h, 8, words, 8);
}

static int device_read_fn(void *h)
{
    return pto_mem_read(h, 8, words, 8);
}

static int device_check_fn(void *h)
{
    return pto_mem_check(h, NULL);
}

static int run_launch_fn(void *h)
{
    return pto_run_launch(h);
}

static int run_execute_fn(void *h)
{
    return pto_run_execute(h);
}

static int run_poll_fn(void *h)
{
    return pto_run_poll(h);
}

static int run_wait_fn(void *h)
{
    return pto_run_wait(h, 0);
}

static int run_cancel_fn(void *h)
{
    return pto_run_cancel(h);
}

static int run_fd_fn(void *h)
{
    return pto_run_fd(h);
}

static int run_finish_fn(void *h)
{
    return pto_run_finish(h, NULL);
}

static int callable_destroy_fn(void *h)
{
    return pto_callable_destroy(h);
}

static int callable_run_fn(void *h)
{
    return pto_run(good_device, h, NULL, NULL, NULL);
}

static int callable_prepare_fn(void *h)
{
    struct pto_run *run;

    return pto_run_prepare(good_device, h, NULL, NULL, &run);
}

typedef int (*handle_fn)(void *handle);

static const handle_fn device_fn[] = { device_run_fn,   device_prepare_fn, device_alloc_fn,
                                       device_free_fn,  device_write_fn,   device_read_fn,
                                       device_check_fn, device_close_fn };
static const handle_fn run_fn[] = { run_launch_fn, run_execute_fn, run_poll_fn,  run_wait_fn,
                                    run_cancel_fn, run_fd_fn,      run_finish_fn };
static const handle_fn callable_fn[] = { callable_run_fn, callable_prepare_fn,
                                         callable_destroy_fn };

/* Returns the index of the first function that does not return `status`, or -1. */
static int find_other(const handle_fn *fn, size_t bytes, const void *handle, int status)
{
    for (size_t i = 0; i < bytes / sizeof(fn[0]); i++)
        if (fn[i]((void *)(uintptr_t)handle) != status)
            return (int)i;
    return -1;
}

static void assert_no_device(const void *handle)
{
    assert_int_equal(find_other(device_fn, sizeof(device_fn), handle, PTO_EINVAL), -1);
}

static void assert_no_run(const void *handle)
{
    assert_int_equal(find_other(run_fn, sizeof(run_fn), handle, PTO_EINVAL), -1);
}

static void assert_no_callable(const void *handle)
{
    assert_int_equal(find_other(callable_fn, sizeof(callable_fn), handle, PTO_EINVAL), -1);
}

static void assert_no_handle(const void *handle)
{
    assert_no_device(handle);
    assert_no_run(handle);
    assert_no_callable(handle);
}

static void open_good_ones(void)
{
    good_device = open_reset(1);
    good_callable = make_callable(kernels, KERNELS, orchestrate_count);
    good_run = prepare(good_device, good_callable);
}

static void close_good_ones(void)
{
    assert_int_equal(pto_run_launch(good_run), PTO_OK);
    assert_int_equal(pto_run_wait(good_run, 0), PTO_OK);
    assert_int_equal(pto_run_finish(good_run, NULL), PTO_OK);
    assert_works(good_device);
    assert_int_equal(pto_callable_destroy(good_callable), PTO_OK);
    assert_int_equal(pto_device_close(good_device), PTO_OK);
    assert_no_handle(good_device);
    assert_no_handle(good_callable);
    assert_no_handle(good_run);
}

static void handles_of_another_kind_are_refused(void **state)
{
    (void)state;
    open_good_ones();
    assert_no_handle(NULL);
    assert_no_run(good_device);
    assert_no_callable(good_device);
    assert_no_device(good_run);
    assert_no_callable(good_run);
    assert_no_device(good_callable);
    assert_no_run(good_callable);
    close_good_ones();
}

static bool is_good(uint64_t number)
{
    return number == (uintptr_t)good_device || number == (uintptr_t)good_run ||
           number == (uintptr_t)good_callable;
}

static void handles_that_were_made_up_are_refused(void **state)
{
    uint64_t good[3], random = 0x9e3779b97f4a7c15ull;
    char *heap = malloc(4096);
    char stack[64];

    (void)state;
    open_good_ones();
    good[0] = (uintptr_t)good_device;
    good[1] = (uintptr_t)good_callable;
    good[2] = (uintptr_t)good_run;
    memset(stack, 0, sizeof(stack));
    memset(heap, 0, 4096);
    assert_no_handle(stack);
    assert_no_handle(heap);
    assert_no_handle(words);
    assert_no_handle(kernels);
    assert_no_handle((void *)UINTPTR_MAX);
    assert_no_handle((void *)(uintptr_t)0xfffffffffffffff1);
    /* invalid values next to valid ones: every single bit, and values slightly beyond a limit */
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 64 + 32; k++) {
            uint64_t near = k < 64 ? good[i] ^ 1ull << k : good[i] + (uint64_t)k - 80;

            if (!is_good(near))
                assert_no_handle((void *)(uintptr_t)near);
        }
    for (int i = 0; i < 10000; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if (!is_good(random))
            assert_no_handle((void *)(uintptr_t)random);
        if (!is_good(random % 4096))
            assert_no_handle((void *)(uintptr_t)(random % 4096));
    }
    free(heap);
    close_good_ones();
}

static void handles_stay_refused_when_their_places_are_used_again(void **state)
{
    struct pto_callable *callable, *first_callable = NULL;
    struct pto_run *run, *first_run = NULL;
    struct pto_device *device, *first_device = NULL;

    (void)state;
    open_good_ones();
    for (int i = 0; i < REUSES; i++) {
        callable = make_callable(kernels, KERNELS, orchestrate_count);
        run = prepare(good_device, callable);
        assert_int_equal(pto_run_finish(run, NULL), PTO_ECANCELED);
        assert_int_equal(pto_callable_destroy(callable), PTO_OK);
        if (i == 0) {
            first_callable = callable;
            first_run = run;
        }
        assert_no_handle(first_callable);
        assert_no_handle(first_run);
        assert_no_handle(callable);
        assert_no_handle(run);
    }
    for (int i = 0; i < DEVICE_REUSES; i++) {
        device = open_reset(1);
        if (i == 0)
            first_device = device;
        else
            assert_no_handle(first_device);
        assert_int_equal(pto_device_close(device), PTO_OK);
    }
    close_good_ones();
}

static void many_handles_live_at_once(void **state)
{
    enum { MANY = 3000 };
    static struct pto_callable *callable[MANY];
    struct pto_run *run[64];

    (void)state;
    open_good_ones();
    for (int i = 0; i < MANY; i++)
        callable[i] = make_callable(kernels, KERNELS, orchestrate_count);
    for (int i = 0; i < 64; i++)
        run[i] = launch(good_device, callable[i * 40]);
    for (int i = 63; i >= 0; i--) {
        assert_int_equal(pto_run_wait(run[i], 0), PTO_OK);
        assert_int_equal(pto_run_finish(run[i], NULL), PTO_OK);
    }
    assert_int_equal(counted, 3 * 64);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(pto_callable_destroy(callable[i]), PTO_OK);
    close_good_ones();
}

/* ---- operations of an orchestration, called by others ---- */

static struct pto_orch *kept;
static int tried[4]; /* results of submit, alloc, scope_begin and scope_end */
static int fail_tried;
static bool has_outputs;

static void try_operations(struct pto_orch *o)
{
    struct pto_tensor_info info = pto_tensor_info_make((uint32_t[]){ 4 }, 1, PTO_UINT32);
    struct pto_outputs out = { { PTO_TASK_ID_INVALID }, 0, NULL };
    struct pto_tensor t = word_tensor();
    struct pto_args args;

    pto_args_init(&args);
    pto_add_inout(&args, &t);
    tried[0] =
        o->ops->submit(o, &(struct pto_kernels){ -1, KERNEL_COUNT, -1 }, &args, PTO_SITE, &out);
    pto_args_init(&args);
    pto_add_output(&args, &info);
    tried[1] = o->ops->alloc(o, &args, PTO_SITE, &out);
    has_outputs = pto_task_id_is_valid(out.task) || out.count != 0 || out.tensor != NULL;
    tried[2] = pto_scope_begin(o, PTO_SCOPE_AUTO);
    tried[3] = pto_scope_end(o);
}

static void assert_tried_in_vain(void)
{
    for (int i = 0; i < 4; i++)
        if (tried[i] != PTO_EINVAL)
            fail_msg("operation %d returned %d", i, tried[i]);
    assert_false(has_outputs);
}

static void kernel_trying(int64_t *args)
{
    (void)args;
    try_operations(kept);
    __atomic_fetch_add(&counted, 1, __ATOMIC_RELAXED);
}

static void kernel_failing(int64_t *args)
{
    (void)args;
    fail_tried = pto_orch_fail(kept, PTO_EORCH, "by a kernel");
}

static void *thread_trying(void *arg)
{
    try_operations(arg);
    return NULL;
}

static void orchestrate_first_kernel(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = word_tensor();

    (void)entry;
    kept = o;
    pto_aiv(o, 0, PTO_INOUT(&t));
}

static void orchestrate_with_thread(struct pto_orch *o, const struct pto_entry *entry)
{
    pthread_t handle;

    orchestrate_count(o, entry);
    if (pthread_create(&handle, NULL, thread_trying, o) == 0)
        pthread_join(handle, NULL);
    orchestrate_count(o, entry);
}

static void orchestrate_keeping(struct pto_orch *o, const struct pto_entry *entry)
{
    kept = o;
    orchestrate_gate(o, entry);
}

static void orchestrate_with_kept(struct pto_orch *o, const struct pto_entry *entry)
{
    EXPECT(o != kept);
    orchestrate_count(o, entry);
    try_operations(kept);
}

static struct pto_callable *make_with_kernel(pto_kernel_fn fn)
{
    struct pto_kernel kernel = { "trying", fn, PTO_CORE_AIV };
    struct pto_callable_params params;
    struct pto_callable *callable = NULL;

    pto_callable_params_init(&params);
    params.orchestration = orchestrate_first_kernel;
    params.kernels = &kernel;
    params.kernel_count = 1;
    assert_int_equal(pto_callable_create(&params, &callable), PTO_OK);
    return callable;
}

static void a_kernel_cannot_act_as_the_orchestration(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct pto_device *device = open_reset(1 + (uint32_t)i % 2);
        struct pto_callable *callable = make_with_kernel(kernel_trying);
        struct pto_run_report report;
        struct pto_run *run;

        memset(tried, 0, sizeof(tried));
        run = launch_in_mode(device, callable, i / 2);
        assert_int_equal(pto_run_wait(run, 0), PTO_OK);
        pto_run_report_init(&report);
        assert_int_equal(pto_run_finish(run, &report), PTO_OK);
        assert_int_equal(counted, 1);
        assert_int_equal(report.tasks, 1);
        assert_tried_in_vain();
        assert_works(device);
        pto_callable_destroy(callable);
        pto_device_close(device);
    }
}

static void a_kernel_cannot_fail_the_run_as_the_orchestration(void **state)
{
    struct pto_device *device = open_reset(1);
    struct pto_callable *callable = make_with_kernel(kernel_failing);

    (void)state;
    fail_tried = 0;
    assert_int_equal(pto_run(device, callable, NULL, NULL, NULL), PTO_OK);
    assert_int_equal(fail_tried, PTO_EINVAL);
    assert_works(device);
    pto_callable_destroy(callable);
    pto_device_close(device);
}

static void another_thread_cannot_act_as_the_orchestration(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 2; workers++) {
        struct pto_device *device = open_reset(workers);
        struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_with_thread);

        memset(tried, 0, sizeof(tried));
        assert_int_equal(pto_run(device, callable, NULL, NULL, NULL), PTO_OK);
        assert_int_equal(counted, 6);
        assert_tried_in_vain();
        assert_works(device);
        pto_callable_destroy(callable);
        pto_device_close(device);
    }
}

static void nobody_acts_as_an_orchestration_that_has_returned(void **state)
{
    struct pto_device *device = open_reset(2);
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_keeping);
    struct pto_run *run;

    (void)state;
    run = launch(device, callable);
    await(&at_gate, 1);
    for (int i = 0; i < 20; i++)
        rest();
    memset(tried, 0, sizeof(tried));
    try_operations(kept); /* a kernel of this run is executing */
    assert_tried_in_vain();
    open_gate();
    assert_int_equal(pto_run_wait(run, 0), PTO_OK);
    memset(tried, 0, sizeof(tried));
    try_operations(kept);
    assert_tried_in_vain();
    assert_int_equal(pto_orch_status(kept), PTO_EINVAL);
    assert_int_equal(pto_run_finish(run, NULL), PTO_OK);
    memset(tried, 0, sizeof(tried));
    try_operations(kept); /* the handle belongs to the device and outlives the run */
    assert_tried_in_vain();
    assert_works(device);
    pto_callable_destroy(callable);
    pto_device_close(device);
}

static void an_orchestration_cannot_act_as_one_of_another_device(void **state)
{
    struct pto_device *device = open_reset(1), *other = open_reset(2);
    struct pto_callable *keeping = make_callable(kernels, KERNELS, orchestrate_keeping);
    struct pto_callable *with_kept = make_callable(kernels, KERNELS, orchestrate_with_kept);
    struct pto_run *run = launch(device, keeping);

    (void)state;
    await(&at_gate, 1);
    for (int i = 0; i < 2; i++) { /* while the other run executes, and after its end */
        struct pto_run_report report;

        memset(tried, 0, sizeof(tried));
        __atomic_store_n(&counted, 0, __ATOMIC_RELAXED);
        pto_run_report_init(&report);
        assert_int_equal(pto_run(other, with_kept, NULL, NULL, &report), PTO_OK);
        assert_int_equal(report.tasks, 3);
        assert_int_equal(counted, 3);
        assert_tried_in_vain();
        open_gate();
        assert_int_equal(pto_run_wait(run, 0), PTO_OK);
    }
    assert_int_equal(pto_run_finish(run, NULL), PTO_OK);
    assert_works(device);
    assert_works(other);
    pto_callable_destroy(keeping);
    pto_callable_destroy(with_kept);
    pto_device_close(device);
    pto_device_close(other);
}

static void a_run_that_has_ended_keeps_its_status(void **state)
{
    struct pto_device *device = open_reset(1);
    struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_keeping);
    struct pto_run *run;

    (void)state;
    open_gate();
    run = launch(device, callable);
    assert_int_equal(pto_run_wait(run, 0), PTO_OK);
    assert_int_equal(pto_orch_fail(kept, PTO_EORCH, "too late"), PTO_EINVAL);
    assert_int_equal(pto_run_wait(run, 0), PTO_OK);
    assert_int_equal(pto_run_finish(run, NULL), PTO_OK);
    pto_callable_destroy(callable);
    pto_device_close(device);
}

/* ---- fork ---- */

/* Returns the exit code of a child that calls fn; 99 if it does not end. */
static int in_child(int (*fn)(void))
{
    uint64_t deadline = true_ns() + HANG_SECONDS * 1000 * MS;
    pid_t child;
    int status;

    fflush(NULL);
    child = fork();
    if (child == 0)
        _exit(fn());
    assert_true(child > 0);
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (true_ns() > deadline) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return 99;
        }
        rest();
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static int child_calls_all(void)
{
    int other = find_other(device_fn, sizeof(device_fn), good_device, PTO_EFORKED);

    if (other >= 0)
        return 10 + other;
    other = find_other(run_fn, sizeof(run_fn), good_run, PTO_EFORKED);
    return other >= 0 ? 20 + other : 0;
}

static int child_runs(void)
{
    struct pto_device_params params;
    struct pto_device *device;
    struct pto_run *run;

    if (!HAS_CHILD_THREADS)
        return 0;
    counted = 0;
    pto_device_params_init(&params);
    params.workers = 2;
    if (pto_device_open(&params, &device) != PTO_OK)
        return 30;
    if (pto_run(device, good_callable, NULL, NULL, NULL) != PTO_OK)
        return 31;
    if (pto_run_prepare(device, good_callable, NULL, NULL, &run) != PTO_OK ||
        pto_run_launch(run) != PTO_OK || pto_run_wait(run, 0) != PTO_OK ||
        pto_run_finish(run, NULL) != PTO_OK)
        return 32;
    if (counted != 6)
        return 33;
    if (pto_device_close(device) != PTO_OK)
        return 34;
    return 0;
}

static int child_calls_and_runs(void)
{
    int result = child_calls_all();

    if (result == 0)
        result = child_runs();
    return result != 0 ? result : child_calls_all();
}

static void a_child_is_told_that_the_device_is_its_parents(void **state)
{
    (void)state;
    open_good_ones();
    assert_works(good_device); /* its threads are there */
    assert_int_equal(in_child(child_calls_all), 0);
    assert_int_equal(in_child(child_runs), 0);
    assert_int_equal(in_child(child_calls_and_runs), 0);
    counted = 0;
    close_good_ones();
}

static void a_child_of_a_device_at_work_is_told_the_same(void **state)
{
    struct pto_callable *gate = make_callable(kernels, KERNELS, orchestrate_gate);
    struct pto_run *run;

    (void)state;
    open_good_ones();
    run = launch(good_device, gate);
    await(&at_gate, 1);
    assert_int_equal(in_child(child_calls_and_runs), 0);
    open_gate();
    assert_int_equal(pto_run_wait(run, 0), PTO_OK);
    assert_int_equal(counted, AFTER_GATE);
    assert_int_equal(pto_run_finish(run, NULL), PTO_OK);
    close_good_ones();
    pto_callable_destroy(gate);
}

static uint32_t is_over;

static void *thread_polling(void *arg)
{
    struct pto_device *device = arg;
    uint64_t addr;

    while (__atomic_load_n(&is_over, __ATOMIC_RELAXED) == 0) {
        (void)pto_run_poll(good_run);
        if (pto_mem_alloc(device, 8, &addr) == PTO_OK)
            (void)pto_mem_free(device, addr, NULL);
    }
    return NULL;
}

static void a_fork_may_come_at_any_moment(void **state)
{
    pthread_t handle[2];
    int worst = 0;

    (void)state;
    open_good_ones();
    __atomic_store_n(&is_over, 0, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&handle[i], NULL, thread_polling, good_device), 0);
    for (int i = 0; i < FORKS && worst == 0; i++)
        worst = in_child(child_calls_all);
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(handle[i], NULL);
    assert_int_equal(worst, 0); /* 99: the child hangs */
    close_good_ones();
}

/* ---- everything at once ---- */

static void one_call_does_everything(void **state)
{
    const uint64_t scalar = 77;
    const struct pto_entry entry = { 0, 1, NULL, &scalar };
    struct pto_error error = { .size = sizeof(error) };

    (void)state;
    reset();
    assert_int_equal(pto_call("a2a3sim", orchestrate_note, kernels, KERNELS, &entry, &error),
                     PTO_OK);
    assert_int_equal(pto_call("a5sim", orchestrate_note, kernels, KERNELS, &entry, NULL), PTO_OK);
    assert_int_equal(note_count, 2);
    assert_int_equal(noted[1], 77);
    assert_int_equal(error.status, PTO_OK);
    assert_string_equal(error.text, "");
    assert_int_equal(pto_call("a2a3sim", orchestrate_failing, kernels, KERNELS, NULL, &error),
                     PTO_EORCH);
    assert_int_equal(error.status, PTO_EORCH);
    assert_in_text(&error, "on purpose");
    assert_int_equal(pto_call("a2a3sim", orchestrate_failing, kernels, KERNELS, NULL, NULL),
                     PTO_EORCH);
    assert_int_equal(pto_call("a9sim", orchestrate_count, kernels, KERNELS, NULL, &error),
                     PTO_ENOSUP);
    assert_int_equal(error.status, PTO_ENOSUP);
    assert_in_text(&error, pto_strerror(PTO_ENOSUP));
    assert_int_equal(pto_call(NULL, orchestrate_count, kernels, KERNELS, NULL, &error), PTO_EINVAL);
    assert_int_equal(error.status, PTO_EINVAL);
    assert_int_equal(pto_call("a2a3sim", NULL, kernels, KERNELS, NULL, NULL), PTO_EINVAL);
    assert_int_equal(pto_call("a2a3sim", orchestrate_count, NULL, KERNELS, NULL, NULL), PTO_EINVAL);
    assert_int_equal(pto_call("a2a3sim", orchestrate_count, kernels, 1025, NULL, NULL), PTO_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prepare_copies_descriptors_scalars_and_options),
        cmocka_unit_test(a_run_that_cannot_be_is_not_prepared),
        cmocka_unit_test(an_entry_tensor_beyond_its_buffer_is_refused),
        cmocka_unit_test(an_entry_may_have_tensors_or_scalars_only),
        cmocka_unit_test(a_launch_returns_at_once_and_is_made_once),
        cmocka_unit_test(runs_take_place_in_the_order_of_their_launches),
        cmocka_unit_test(a_wait_ends_at_its_time_out_and_the_run_goes_on),
        cmocka_unit_test(waits_of_a_minute_end),
        cmocka_unit_test(nobody_waits_for_a_run_that_was_not_launched),
        cmocka_unit_test(a_failed_run_tells_so_in_wait_and_in_finish),
        cmocka_unit_test(threads_that_call_at_once_run_one_after_the_other),
        cmocka_unit_test(threads_that_launch_at_once_run_one_after_the_other),
        cmocka_unit_test(called_and_launched_runs_take_turns),
        cmocka_unit_test(several_threads_may_wait_for_one_run),
        cmocka_unit_test(the_descriptor_is_readable_once_the_run_has_ended),
        cmocka_unit_test(each_run_has_a_descriptor_of_its_own),
        cmocka_unit_test(a_prepared_run_is_cancelled_at_once),
        cmocka_unit_test(a_queued_run_is_cancelled_at_once_and_leaves_the_queue),
        cmocka_unit_test(a_running_run_is_cancelled_when_its_kernels_have_returned),
        cmocka_unit_test(a_run_is_cancelled_while_its_graph_is_built),
        cmocka_unit_test(a_run_that_has_ended_is_not_cancelled),
        cmocka_unit_test(a_run_is_executed_by_its_caller_and_cancelled_by_another_thread),
        cmocka_unit_test(a_run_may_be_cancelled_at_any_moment),
        cmocka_unit_test(a_run_is_finished_once_and_not_before_its_end),
        cmocka_unit_test(a_device_with_runs_is_not_closed),
        cmocka_unit_test(a_run_cannot_close_its_own_device),
        cmocka_unit_test(a_callable_that_runs_use_is_not_destroyed),
        cmocka_unit_test(handles_of_another_kind_are_refused),
        cmocka_unit_test(handles_that_were_made_up_are_refused),
        cmocka_unit_test(handles_stay_refused_when_their_places_are_used_again),
        cmocka_unit_test(many_handles_live_at_once),
        cmocka_unit_test(a_kernel_cannot_act_as_the_orchestration),
        cmocka_unit_test(a_kernel_cannot_fail_the_run_as_the_orchestration),
        cmocka_unit_test(another_thread_cannot_act_as_the_orchestration),
        cmocka_unit_test(nobody_acts_as_an_orchestration_that_has_returned),
        cmocka_unit_test(an_orchestration_cannot_act_as_one_of_another_device),
        cmocka_unit_test(a_run_that_has_ended_keeps_its_status),
        cmocka_unit_test(a_child_is_told_that_the_device_is_its_parents),
        cmocka_unit_test(a_child_of_a_device_at_work_is_told_the_same),
        cmocka_unit_test(a_fork_may_come_at_any_moment),
        cmocka_unit_test(one_call_does_everything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
