/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * Deferred completion, through the public interface: a task completes when its kernels have
 * returned and the conditions that they registered hold. Here, conditions are fulfilled by other
 * tasks, and by a thread outside of the runtime that plays the role of a DMA engine.
 */
#include "tests/fixture/device_test.h"

enum {
    KERNEL_DEFER,      /* tensor, counter, expected */
    KERNEL_DEFER_AIC,  /* the same */
    KERNEL_DEFER_SLOW, /* the same, but takes more than a time slice */
    KERNEL_MANY,       /* tensor, counter, n: registers n conditions that the counter is 1 */
    KERNEL_MANY_AIC,   /* the same */
    KERNEL_THREE,      /* tensor: registers conditions that each of the first three counters is 1 */
    KERNEL_RAISE,   /* tensor, counter, value: sets the counter; no successor may have run before */
    KERNEL_ADD,     /* tensor, counter, value: writes the payload, then adds to the counter */
    KERNEL_AFTER,   /* tensor, payload: checks that the payload has been written */
    KERNEL_RELEASE, /* tensor, counter, n: sets the counter when n kernels have arrived */
    KERNEL_RAW,     /* tensor, which: writes an invalid condition without pto_defer */
    KERNEL_ERROR,   /* tensor, code */
    KERNEL_ERROR_AIC, /* the same */
    KERNEL_COUNT,     /* tensor */
    KERNELS
};

enum { COUNTERS = 8, SLOW_MS = 6 };

static struct {
    uint32_t counter[COUNTERS];
    uint32_t arrived; /* number of deferring kernels that have registered their conditions */
    uint32_t refused; /* number of conditions that pto_defer refused */
    uint32_t after;   /* tasks that followed */
    uint32_t counted;
    uint64_t after_ns; /* time of the last successor */
    uint64_t payload;  /* written without atomics */
    uint64_t *output;  /* address to which the transfer writes */
    uint32_t token[2];
} scene;

static struct {
    struct launch launch;
    uint32_t count;
    uint32_t steps[4];
    uint32_t expected;
    int64_t code;
} plan;

/* ---- kernels ---- */

static void register_counter(const int64_t *args, uint32_t index, uint32_t expected)
{
    if (!pto_defer(args, &scene.counter[index], expected))
        bump(&scene.refused);
}

static void kernel_defer(int64_t *args)
{
    const struct pto_local_context *local = pto_arg_local(args);

    EXPECT(local->completion_capacity == PTO_COMPLETIONS_MAX);
    EXPECT(*(const uint32_t *)(uintptr_t)local->completion_count_addr == 0);
    EXPECT(*(const int32_t *)(uintptr_t)local->completion_error_addr == 0);
    register_counter(args, (uint32_t)args[1], (uint32_t)args[2]);
    EXPECT(*(const uint32_t *)(uintptr_t)local->completion_count_addr == 1);
    if (pto_arg_tensor(args, 0)->tag == PTO_TAG_OUTPUT)
        __atomic_store_n(&scene.output, pto_tensor_data(pto_arg_tensor(args, 0)), __ATOMIC_RELEASE);
    bump(&scene.arrived);
}

static void kernel_defer_slow(int64_t *args)
{
    nap_ns(SLOW_MS * MS);
    kernel_defer(args);
}

static void kernel_many(int64_t *args)
{
    for (int64_t i = 0; i < args[2]; i++)
        register_counter(args, (uint32_t)args[1], 1);
    bump(&scene.arrived);
}

static void kernel_three(int64_t *args)
{
    for (uint32_t i = 0; i < 3; i++)
        register_counter(args, i, 1);
    bump(&scene.arrived);
}

static void kernel_raise(int64_t *args)
{
    nap_ns(2 * MS); /* delays the counter, so that a successor that runs too early is noticed */
    EXPECT(load(&scene.after) == 0);
    pto_notify_set(&scene.counter[args[1]], (uint32_t)args[2]);
}

static void kernel_add(int64_t *args)
{
    nap_ns(1 * MS);
    EXPECT(load(&scene.after) == 0);
    scene.payload += (uint64_t)args[2];
    pto_notify_add(&scene.counter[args[1]], (uint32_t)args[2]);
}

static void kernel_after(int64_t *args)
{
    EXPECT(scene.payload == (uint64_t)args[1]);
    scene.after_ns = now_ns();
    bump(&scene.after);
}

static void kernel_release(int64_t *args)
{
    wait_until(&scene.arrived, (uint32_t)args[2], true);
    nap_ns(1 * MS);
    EXPECT(load(&scene.after) == 0);
    pto_notify_set(&scene.counter[args[1]], 1);
}

enum { RAW_NULL, RAW_MISALIGNED, RAW_TYPE, RAW_NEGATIVE_TYPE, RAW_COUNT, RAWS };

static void kernel_raw(int64_t *args)
{
    const struct pto_local_context *local = pto_arg_local(args);
    struct pto_completion *entry =
        (struct pto_completion *)(uintptr_t)local->completion_entries_addr;
    uint32_t *count = (uint32_t *)(uintptr_t)local->completion_count_addr;

    *entry = (struct pto_completion){ .addr = (uint64_t)(uintptr_t)&scene.counter[0],
                                      .type = PTO_COMPLETION_COUNTER };
    *count = 1;
    switch (args[1]) {
    case RAW_NULL:
        entry->addr = 0;
        break;
    case RAW_MISALIGNED:
        entry->addr += 2;
        break;
    case RAW_TYPE:
        entry->type = PTO_COMPLETION_COUNTER + 1;
        break;
    case RAW_NEGATIVE_TYPE:
        entry->type = -1;
        break;
    case RAW_COUNT:
        *count = PTO_COMPLETIONS_MAX + 1;
        break;
    }
}

static void kernel_error(int64_t *args)
{
    *(int32_t *)(uintptr_t)pto_arg_local(args)->completion_error_addr = (int32_t)args[1];
}

static void kernel_count(int64_t *args)
{
    (void)args;
    bump(&scene.counted);
}

static const struct pto_kernel kernels[KERNELS] = {
    [KERNEL_DEFER] = { "defer", kernel_defer, PTO_CORE_AIV },
    [KERNEL_DEFER_AIC] = { "defer_aic", kernel_defer, PTO_CORE_AIC },
    [KERNEL_DEFER_SLOW] = { "defer_slow", kernel_defer_slow, PTO_CORE_AIV },
    [KERNEL_MANY] = { "many", kernel_many, PTO_CORE_AIV },
    [KERNEL_MANY_AIC] = { "many_aic", kernel_many, PTO_CORE_AIC },
    [KERNEL_THREE] = { "three", kernel_three, PTO_CORE_AIV },
    [KERNEL_RAISE] = { "raise", kernel_raise, PTO_CORE_AIV },
    [KERNEL_ADD] = { "add", kernel_add, PTO_CORE_AIV },
    [KERNEL_AFTER] = { "after", kernel_after, PTO_CORE_AIV },
    [KERNEL_RELEASE] = { "release", kernel_release, PTO_CORE_AIV },
    [KERNEL_RAW] = { "raw", kernel_raw, PTO_CORE_AIV },
    [KERNEL_ERROR] = { "error", kernel_error, PTO_CORE_AIV },
    [KERNEL_ERROR_AIC] = { "error_aic", kernel_error, PTO_CORE_AIC },
    [KERNEL_COUNT] = { "count", kernel_count, PTO_CORE_AIV },
};

/* ---- runs ---- */

/* Submits two independent tasks: one defers its completion, the other one fulfils its condition. */
static struct pto_tensor token(uint32_t index)
{
    return pto_tensor_external(&scene.token[index], PTO_DIMS(1), 1, PTO_UINT32);
}

static void reset(void)
{
    memset(&scene, 0, sizeof(scene));
}

static int run(const struct setting *at, pto_orch_fn orchestration)
{
    int status = run_with(at, kernels, KERNELS, orchestration, NULL);

    if (status == PTO_OK)
        assert_int_equal(report.stopped, 0);
    return status;
}

static void orchestrate_fine(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token(0), other = token(1);

    (void)entry;
    for (uint32_t i = 0; i < PTO_DEFERRED_MAX; i++)
        pto_aiv(o, KERNEL_DEFER, PTO_IN(&t), PTO_INT(0), PTO_INT(1));
    pto_aiv(o, KERNEL_AFTER, PTO_INOUT(&t), PTO_INT(0));
    pto_aiv(o, KERNEL_RELEASE, PTO_INOUT(&other), PTO_INT(0), PTO_INT(PTO_DEFERRED_MAX));
}

/* The successor of the deferred task ran exactly once. */
static void assert_followed(const struct setting *at, pto_orch_fn orchestration)
{
    reset();
    assert_int_equal(run(at, orchestration), PTO_OK);
    assert_int_equal(scene.after, 1);
}

/* All entries of the table are free again. */
static void assert_device_works(const struct setting *at)
{
    assert_followed(at, orchestrate_fine);
}

/* ---- conditions ---- */

/* Sets the counter to the values of the plan, one after the other. */
static void orchestrate_steps(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token(0), other = token(1);

    (void)entry;
    pto_aiv(o, KERNEL_DEFER, PTO_INOUT(&t), PTO_INT(0), PTO_INT(plan.expected));
    pto_aiv(o, KERNEL_AFTER, PTO_INOUT(&t), PTO_INT(0));
    pto_aiv(o, KERNEL_RELEASE, PTO_INOUT(&other), PTO_INT(1), PTO_INT(1));
    for (uint32_t i = 0; i < plan.count; i++)
        pto_aiv(o, KERNEL_RAISE, PTO_INOUT(&other), PTO_INT(0), PTO_INT(plan.steps[i]));
}

static void a_task_is_over_when_the_counter_is_no_less_than_expected(const struct setting *at)
{
    static const struct {
        uint32_t expected, count, steps[4];
    } cases[] = {
        { 1, 1, { 1 } },
        { 3, 3, { 1, 2, 3 } },
        { 3, 3, { 2, 1, 0xffffffff } },
        { 0x7fffffff, 2, { 0x7ffffffe, 0x80000000 } },
        { 0x80000001, 4, { 1, 0x7fffffff, 0x80000000, 0x80000001 } },
        { 0xffffffff, 3, { 0, 0xfffffffe, 0xffffffff } },
        { 5, 2, { 4, 0x80000000 } },
    };

    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        plan.expected = cases[i].expected;
        plan.count = cases[i].count;
        memcpy(plan.steps, cases[i].steps, sizeof(plan.steps));
        assert_followed(at, orchestrate_steps);
    }
}

static void orchestrate_held_before(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token(0);

    (void)entry;
    pto_aiv(o, KERNEL_DEFER, PTO_INOUT(&t), PTO_INT(0), PTO_INT(0));
    pto_aiv(o, KERNEL_DEFER, PTO_INOUT(&t), PTO_INT(1), PTO_INT(5));
    pto_aiv(o, KERNEL_DEFER_SLOW, PTO_INOUT(&t), PTO_INT(1), PTO_INT(1));
    pto_aiv(o, KERNEL_AFTER, PTO_INOUT(&t), PTO_INT(0));
}

static void a_condition_may_hold_before_it_is_registered(const struct setting *at)
{
    reset();
    scene.counter[1] = 5;
    assert_int_equal(run(at, orchestrate_held_before), PTO_OK);
    assert_int_equal(scene.after, 1);
    assert_int_equal(report.executions, 4);
}

static void orchestrate_three(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token(0), other = token(1);

    (void)entry;
    pto_aiv(o, KERNEL_THREE, PTO_INOUT(&t));
    pto_aiv(o, KERNEL_AFTER, PTO_INOUT(&t), PTO_INT(0));
    pto_aiv(o, KERNEL_RELEASE, PTO_INOUT(&other), PTO_INT(4), PTO_INT(1));
    for (uint32_t i = 0; i < 3; i++)
        pto_aiv(o, KERNEL_RAISE, PTO_INOUT(&other), PTO_INT(plan.steps[i]), PTO_INT(1));
}

static void all_conditions_have_to_hold(const struct setting *at)
{
    static const uint32_t orders[][4] = { { 0, 1, 2 }, { 2, 1, 0 }, { 1, 0, 2 } };

    for (uint32_t i = 0; i < 3; i++) {
        memcpy(plan.steps, orders[i], sizeof(plan.steps));
        assert_followed(at, orchestrate_three);
    }
}

/*
 * Uses plain writes before the notification and plain reads after it, so that TSan checks the
 * order.
 */
static void orchestrate_payload(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token(0), other = token(1);

    (void)entry;
    pto_aiv(o, KERNEL_DEFER, PTO_INOUT(&t), PTO_INT(0), PTO_INT(15));
    pto_aiv(o, KERNEL_AFTER, PTO_INOUT(&t), PTO_INT(15));
    for (uint32_t i = 1; i <= 5; i++)
        pto_aiv(o, KERNEL_ADD, PTO_INOUT(&other), PTO_INT(0), PTO_INT(i));
}

static void what_was_written_before_a_notification_is_there_for_the_next_task(
    const struct setting *at)
{
    assert_followed(at, orchestrate_payload);
}

/* ---- lanes, blocks, gangs ---- */

static void orchestrate_launch(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token(0), other = token(1);

    (void)entry;
    pto_mix(o, plan.launch.lanes, PTO_INOUT(&t), PTO_INT(0), PTO_INT(1), LAUNCHED(plan.launch));
    pto_aiv(o, KERNEL_AFTER, PTO_INOUT(&t), PTO_INT(0));
    pto_aiv(o, KERNEL_RELEASE, PTO_INOUT(&other), PTO_INT(0), PTO_INT(plan.count));
}

static const struct launch launches[] = {
    { { -1, KERNEL_DEFER, -1 }, 1, false },
    { { -1, KERNEL_DEFER_SLOW, -1 }, 1, false },
    { { -1, KERNEL_DEFER, -1 }, 20, false },
    { { -1, KERNEL_DEFER_SLOW, -1 }, 4, false },
    { { KERNEL_DEFER_AIC, KERNEL_DEFER, KERNEL_DEFER }, 1, false },
    { { -1, KERNEL_DEFER, KERNEL_DEFER }, 1, false },
    { { KERNEL_DEFER_AIC, KERNEL_DEFER, KERNEL_DEFER }, 10, false },
    { { KERNEL_DEFER_AIC, -1, -1 }, 2, true },
    { { KERNEL_DEFER_AIC, KERNEL_DEFER, KERNEL_DEFER_SLOW }, 2, true },
};

static void lanes_and_blocks_may_all_defer_their_task(const struct setting *at)
{
    for (uint32_t i = 0; i < sizeof(launches) / sizeof(launches[0]); i++) {
        plan.launch = launches[i];
        plan.count = invocations(&plan.launch);
        assert_followed(at, orchestrate_launch);
        assert_int_equal(scene.arrived, plan.count);
    }
}

/* The only cluster runs other tasks while this many tasks are deferred. */
static void a_task_that_waits_needs_no_core(const struct setting *at)
{
    assert_device_works(at);
    assert_int_equal(report.executions, PTO_DEFERRED_MAX + 2);
}

/* More deferred tasks than the table has entries, but not at the same time. */
static void orchestrate_many_rounds(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token(0);

    (void)entry;
    for (uint32_t i = 0; i < 500; i++) {
        pto_aiv(o, KERNEL_DEFER, PTO_INOUT(&t), PTO_INT(0), PTO_INT(0),
                i % 2 != 0 ? PTO_TIMED((int)(i / 2 % PTO_TIMING_SLOTS)) : PTO_BLOCKS(1));
        pto_aiv(o, KERNEL_COUNT, PTO_INOUT(&t));
    }
}

static void any_number_of_tasks_may_wait_one_after_the_other(const struct setting *at)
{
    reset();
    assert_int_equal(run(at, orchestrate_many_rounds), PTO_OK);
    assert_int_equal(scene.counted, 500);
    assert_int_equal(report.executions, 1000);
}

/* ---- somebody outside ---- */

/* The thread that plays the DMA engine: writes to the requested address and raises the counter. */
struct transfer {
    pthread_t thread;
    uint64_t after_ms;
    uint64_t value;
    uint64_t raised_ns;
};

static void *transfer_main(void *arg)
{
    struct transfer *transfer = arg;

    wait_until(&scene.arrived, 1, true);
    nap_ns(transfer->after_ms * MS);
    EXPECT(load(&scene.after) == 0);
    scene.payload = transfer->value;
    if (__atomic_load_n(&scene.output, __ATOMIC_ACQUIRE) != NULL)
        scene.output[0] = transfer->value;
    transfer->raised_ns = now_ns();
    pto_notify_set(&scene.counter[0], 1);
    return NULL;
}

static void begin_transfer(struct transfer *transfer, uint64_t after_ms, uint64_t value)
{
    *transfer = (struct transfer){ .after_ms = after_ms, .value = value };
    assert_int_equal(pthread_create(&transfer->thread, NULL, transfer_main, transfer), 0);
}

static void end_transfer(struct transfer *transfer)
{
    assert_int_equal(pthread_join(transfer->thread, NULL), 0);
}

static void orchestrate_outside(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token(0);

    (void)entry;
    pto_aiv(o, KERNEL_DEFER, PTO_INOUT(&t), PTO_INT(0), PTO_INT(1));
    pto_aiv(o, KERNEL_AFTER, PTO_INOUT(&t), PTO_INT(99));
}

static void a_thread_that_nobody_knows_may_notify(const struct setting *at)
{
    const uint64_t limit_ns = (IS_SANITIZED ? 500 : 50) * MS;
    uint64_t took_ns = UINT64_MAX;

    for (uint32_t i = 0; i < 3 && took_ns >= limit_ns; i++) { /* the machine may be busy */
        struct transfer transfer;

        reset();
        begin_transfer(&transfer, 60, 99);
        assert_int_equal(run(at, orchestrate_outside), PTO_OK);
        end_transfer(&transfer);
        assert_int_equal(scene.after, 1);
        took_ns = scene.after_ns - transfer.raised_ns;
    }
    assert_true(took_ns < limit_ns);
}

/* The thread that builds the graph does something else; other threads continue. */
static void orchestrate_busy(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token(0), other = token(1);

    (void)entry;
    pto_aiv(o, KERNEL_DEFER, PTO_INOUT(&t), PTO_INT(0), PTO_INT(1));
    pto_aiv(o, KERNEL_AFTER, PTO_INOUT(&t), PTO_INT(99));
    for (uint32_t i = 0; i < 100; i++) /* enough ready tasks to be offered to other workers */
        pto_aiv(o, KERNEL_COUNT, PTO_AFTER(&other));
    wait_until(&scene.after, 1, true);
}

static void conditions_are_looked_at_while_the_orchestration_is_busy(const struct setting *at)
{
    struct transfer transfer;

    if (at->workers == 1)
        return;
    reset();
    begin_transfer(&transfer, 20, 99);
    assert_int_equal(run(at, orchestrate_busy), PTO_OK);
    end_transfer(&transfer);
    assert_int_equal(scene.after, 1);
    assert_int_equal(scene.counted, 100);
}

enum { MORE_SCOPES = 20 };

/*
 * The engine writes into the output after the kernel has returned and the scope of the output has
 * ended.
 */
static void orchestrate_output(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(128), 1, PTO_UINT64);

    (void)entry;
    pto_tensor_info_fill(&info, 1);
    PTO_SCOPE(o) {
        struct pto_outputs made = pto_aiv(o, KERNEL_DEFER, PTO_OUT(&info), PTO_INT(0), PTO_INT(1));

        if (pto_output(made, 0) != NULL)
            pto_aiv(o, KERNEL_AFTER, PTO_IN(pto_output(made, 0)), PTO_INT(99));
    }
    for (uint32_t i = 0; i < MORE_SCOPES; i++)
        PTO_SCOPE(o) {
            pto_aiv(o, KERNEL_COUNT, PTO_OUT(&info));
        }
}

static void kernel_after_output(int64_t *args)
{
    EXPECT(*(const uint64_t *)pto_tensor_data(pto_arg_tensor(args, 0)) == 99);
    bump(&scene.after);
}

static void its_outputs_are_there_until_the_conditions_hold(const struct setting *at)
{
    struct pto_kernel own[KERNELS];
    struct transfer transfer;

    memcpy(own, kernels, sizeof(own));
    own[KERNEL_AFTER].fn = kernel_after_output;
    reset();
    begin_transfer(&transfer, 5, 99);
    assert_int_equal(run_with(at, own, KERNELS, orchestrate_output, NULL), PTO_OK);
    end_transfer(&transfer);
    assert_int_equal(scene.after, 1);
    assert_int_equal(scene.counted, MORE_SCOPES);
}

static void orchestrate_get_after_transfer(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(4), 1, PTO_UINT64);
    struct pto_outputs made;

    (void)entry;
    made = pto_aiv(o, KERNEL_DEFER, PTO_OUT(&info), PTO_INT(0), PTO_INT(1));
    if (pto_output(made, 0) != NULL)
        EXPECT(pto_get_data(o, pto_output(made, 0), 1, PTO_DIMS(0)) == 98);
}

static void the_orchestration_reads_what_a_transfer_brought(const struct setting *at)
{
    struct transfer transfer;

    reset();
    begin_transfer(&transfer, 10, 98);
    assert_int_equal(run(at, orchestrate_get_after_transfer), PTO_OK);
    end_transfer(&transfer);
}

/* ---- too many ---- */

static void orchestrate_sum(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token(0), other = token(1);

    (void)entry;
    pto_mix(o, plan.launch.lanes, PTO_INOUT(&t), PTO_INT(0), PTO_INT(plan.count),
            LAUNCHED(plan.launch));
    pto_aiv(o, KERNEL_AFTER, PTO_INOUT(&t), PTO_INT(0));
    if (plan.code == PTO_OK) /* otherwise no thread fulfils it, and the run has to end by itself */
        pto_aiv(o, KERNEL_RELEASE, PTO_INOUT(&other), PTO_INT(0),
                PTO_INT(invocations(&plan.launch)));
}

static void a_task_may_have_64_conditions(const struct setting *at)
{
    static const struct {
        struct launch launch;
        uint32_t count;
        int status;
    } sums[] = {
        { { { -1, KERNEL_MANY, -1 }, 1, false }, 64, PTO_OK },
        { { { -1, KERNEL_MANY, -1 }, 1, false }, 65, PTO_EWAIT_OVERFLOW },
        { { { -1, KERNEL_MANY, -1 }, 1, false }, 1000, PTO_EWAIT_OVERFLOW },
        { { { KERNEL_MANY_AIC, -1, -1 }, 1, false }, 65, PTO_EWAIT_OVERFLOW },
        { { { -1, KERNEL_MANY, -1 }, 4, false }, 16, PTO_OK },
        { { { -1, KERNEL_MANY, -1 }, 5, false }, 13, PTO_EREGISTRATION },
        { { { KERNEL_MANY_AIC, KERNEL_MANY, KERNEL_MANY }, 1, false }, 21, PTO_OK },
        { { { KERNEL_MANY_AIC, KERNEL_MANY, KERNEL_MANY }, 1, false }, 22, PTO_EREGISTRATION },
        { { { -1, KERNEL_MANY, KERNEL_MANY }, 1, false }, 33, PTO_EREGISTRATION },
        { { { -1, KERNEL_MANY, KERNEL_MANY }, 1, false }, 65, PTO_EWAIT_OVERFLOW },
        { { { -1, KERNEL_MANY, KERNEL_MANY }, 2, false }, 16, PTO_OK },
        { { { -1, KERNEL_MANY, KERNEL_MANY }, 2, false }, 17, PTO_EREGISTRATION },
    };

    assert_int_equal(PTO_EWAIT_OVERFLOW, -102);
    assert_int_equal(PTO_EREGISTRATION, -103);
    for (uint32_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
        int status;

        plan.launch = sums[i].launch;
        plan.count = sums[i].count;
        plan.code = sums[i].status;
        reset();
        status = run(at, orchestrate_sum);
        if (sums[i].status == PTO_OK) {
            assert_int_equal(status, PTO_OK);
            assert_int_equal(scene.after, 1);
            assert_int_equal(scene.refused, 0);
        } else {
            assert_refused(status, sums[i].status, "\"many");
            assert_int_equal(scene.after, 0);
            assert_true(scene.refused % (plan.count > 64 ? plan.count - 64 : 1) == 0);
            assert_int_equal(scene.refused != 0, plan.count > 64);
        }
    }
    assert_device_works(at);
}

static void orchestrate_full_table(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token(0);

    (void)entry;
    for (uint32_t i = 0; i <= PTO_DEFERRED_MAX; i++)
        pto_aiv(o, KERNEL_DEFER, PTO_IN(&t), PTO_INT(0), PTO_INT(1));
    pto_aiv(o, KERNEL_AFTER, PTO_INOUT(&t), PTO_INT(0));
}

static void no_more_than_64_tasks_may_wait_at_a_time(const struct setting *at)
{
    for (uint32_t i = 0; i < 3; i++) { /* what one run leaves does not affect the next one */
        reset();
        assert_refused(run(at, orchestrate_full_table), PTO_EWAIT_OVERFLOW, "64 tasks may wait");
        assert_int_equal(scene.after, 0);
        assert_true(pto_task_id_is_valid(report.error.task));
        assert_int_equal(report.error.kernel, KERNEL_DEFER);
        assert_non_null(strstr(report.error.text, "test_deferred.c"));
    }
    assert_device_works(at);
}

/* ---- errors ---- */

static void orchestrate_raw(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token(0);

    (void)entry;
    pto_aiv(o, KERNEL_RAW, PTO_INOUT(&t), PTO_INT(plan.code));
    pto_aiv(o, KERNEL_AFTER, PTO_INOUT(&t), PTO_INT(0));
}

static void a_condition_that_cannot_be_looked_at_ends_the_run(const struct setting *at)
{
    assert_int_equal(PTO_ECOMPLETION, -101);
    for (plan.code = 0; plan.code < RAWS; plan.code++) {
        reset();
        assert_refused(run(at, orchestrate_raw),
                       plan.code == RAW_COUNT ? PTO_EWAIT_OVERFLOW : PTO_ECOMPLETION,
                       "kernel \"raw\" registered");
        assert_int_equal(scene.after, 0);
        assert_int_equal(report.error.kernel, KERNEL_RAW);
        assert_device_works(at);
    }
}

static void orchestrate_error(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token(0);

    (void)entry;
    pto_mix(o, plan.launch.lanes, PTO_INOUT(&t), PTO_INT(plan.code), LAUNCHED(plan.launch));
    pto_aiv(o, KERNEL_AFTER, PTO_INOUT(&t), PTO_INT(0));
}

static void a_kernel_may_end_the_run_with_a_code_of_its_own(const struct setting *at)
{
    static const struct {
        struct launch launch;
        const char *words;
    } cases[] = {
        { { { -1, KERNEL_ERROR, -1 }, 1, false }, "kernel \"error\"" },
        { { { KERNEL_ERROR_AIC, -1, -1 }, 1, false }, "kernel \"error_aic\"" },
        { { { -1, -1, KERNEL_ERROR }, 1, false }, "kernel \"error\"" },
        { { { -1, KERNEL_ERROR, -1 }, 100, false }, "kernel \"error\"" },
        { { { -1, KERNEL_ERROR, -1 }, 4, true }, "kernel \"error\"" },
        { { { KERNEL_ERROR_AIC, KERNEL_ERROR, KERNEL_ERROR }, 1, false }, "kernel \"error" },
        { { { -1, KERNEL_ERROR, KERNEL_ERROR }, 1, false }, "kernel \"error\"" },
        { { { -1, KERNEL_ERROR, KERNEL_ERROR }, 10, false }, "kernel \"error\"" },
        { { { KERNEL_ERROR_AIC, -1, KERNEL_ERROR }, 2, true }, "kernel \"error" },
    };
    static const int32_t codes[] = { 9, -9, 101, 102, 103, 1234, -5, INT32_MAX, INT32_MIN };

    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (uint32_t c = 0; c < sizeof(codes) / sizeof(codes[0]); c++) {
            plan.launch = cases[i].launch;
            plan.code = codes[c];
            reset();
            assert_refused(run(at, orchestrate_error), codes[c] < 0 ? codes[c] : -codes[c],
                           "kernel");
            assert_int_equal(scene.after, 0);
            assert_in_range(report.error.kernel, KERNEL_ERROR, KERNEL_ERROR_AIC);
            if (codes[c] == 9)
                assert_non_null(strstr(report.error.text, cases[i].words));
        }
    assert_device_works(at);
}

/* The orchestration gets the failure as well, soon after it has occurred. */
static void orchestrate_on_and_on(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token(0), other = token(1);
    uint32_t count = 0;

    (void)entry;
    pto_aiv(o, KERNEL_ERROR, PTO_INOUT(&t), PTO_INT(9));
    while (pto_orch_status(o) == PTO_OK && count++ < 10000000)
        pto_aiv(o, KERNEL_COUNT, PTO_AFTER(&other));
    EXPECT(pto_orch_status(o) == PTO_EORCH);
    EXPECT(!pto_task_id_is_valid(pto_aiv(o, KERNEL_COUNT, PTO_AFTER(&other)).task));
}

static void the_orchestration_learns_of_the_error(const struct setting *at)
{
    for (uint32_t i = 0; i < 20; i++) {
        reset();
        assert_refused(run(at, orchestrate_on_and_on), PTO_EORCH, "kernel \"error\"");
        assert_int_equal(report.error.kernel, KERNEL_ERROR);
    }
}

/* The task that would read it does not run. */
static void orchestrate_get_after_error(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(4), 1, PTO_UINT64);
    struct pto_tensor t = token(0);
    struct pto_outputs made;
    uint64_t bits = 1;

    (void)entry;
    pto_tensor_info_fill(&info, 77);
    pto_aiv(o, KERNEL_ERROR, PTO_INOUT(&t), PTO_INT(9));
    made = pto_aiv(o, KERNEL_COUNT, PTO_INOUT(&t), PTO_OUT(&info));
    if (pto_output(made, 0) == NULL)
        return; /* told before */
    EXPECT(o->ops->get_data(o, pto_output(made, 0), 1, PTO_DIMS(0), PTO_SITE, &bits) == PTO_EORCH);
    EXPECT(bits == 0);
}

static void reading_gives_0_after_an_error(const struct setting *at)
{
    reset();
    assert_refused(run(at, orchestrate_get_after_error), PTO_EORCH, "kernel \"error\"");
    assert_int_equal(scene.counted, 0);
}

/* ---- cancelled ---- */

static void orchestrate_for_ever(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor t = token(0);

    (void)entry;
    pto_mix(o, plan.launch.lanes, PTO_INOUT(&t), PTO_INT(0), PTO_INT(1),
            PTO_BLOCKS(plan.launch.blocks));
    pto_aiv(o, KERNEL_AFTER, PTO_INOUT(&t), PTO_INT(0));
}

static void a_task_that_waits_for_ever_can_be_cancelled(const struct setting *at)
{
    for (uint32_t i = 0; i < sizeof(launches) / sizeof(launches[0]); i++) {
        struct pto_callable *callable = make_callable(kernels, KERNELS, orchestrate_for_ever);
        struct pto_run *handle;

        plan.launch = launches[i];
        reset();
        handle = start_run(at, callable);
        wait_until(&scene.arrived, invocations(&plan.launch), true);
        assert_int_equal(pto_run_wait(handle, 3 * MS), PTO_ETIMEOUT);
        assert_int_equal(pto_run_cancel(handle), PTO_OK);
        assert_int_equal(pto_run_wait(handle, 0), PTO_ECANCELED);
        pto_run_report_init(&report);
        assert_int_equal(pto_run_finish(handle, &report), PTO_ECANCELED);
        assert_int_equal(scene.after, 0);
        assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    }
    assert_device_works(at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(0, a_task_is_over_when_the_counter_is_no_less_than_expected),
        EACH(0, a_condition_may_hold_before_it_is_registered),
        EACH(0, all_conditions_have_to_hold),
        EACH(0, what_was_written_before_a_notification_is_there_for_the_next_task),
        /* One more cluster than the gangs need, so that the task that releases them can run. */
        EACH(3, lanes_and_blocks_may_all_defer_their_task),
        EACH(1, a_task_that_waits_needs_no_core),
        EACH(0, any_number_of_tasks_may_wait_one_after_the_other),
        EACH(0, a_thread_that_nobody_knows_may_notify),
        EACH_STREAM(0, conditions_are_looked_at_while_the_orchestration_is_busy),
        EACH(0, its_outputs_are_there_until_the_conditions_hold),
        EACH_STREAM(0, the_orchestration_reads_what_a_transfer_brought),
        EACH(2, a_task_may_have_64_conditions),
        EACH(0, no_more_than_64_tasks_may_wait_at_a_time),
        EACH(0, a_condition_that_cannot_be_looked_at_ends_the_run),
        EACH(2, a_kernel_may_end_the_run_with_a_code_of_its_own),
        EACH_STREAM(0, the_orchestration_learns_of_the_error),
        EACH_STREAM(0, reading_gives_0_after_an_error),
        EACH(2, a_task_that_waits_for_ever_can_be_cancelled),
    };

    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
