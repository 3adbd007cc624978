/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failing runs: the failure is reported as data with its place in the source, and the next run
 * works.
 */
#include "tests/conformance/suite.h"

/* Runs a program that fails, then one that succeeds. */
static void run_failing(const char *entry, struct suite_run *run)
{
    struct chip_code *code = suite_load(entry), *next = suite_load("vector");
    uint64_t addr = suite_buffer(8);
    struct suite_run own;

    suite_run_init(&own, code);
    if (run->options.size != 0)
        own.options = run->options;
    if (run->request.stall_ns != 0)
        own.request.stall_ns = run->request.stall_ns;
    suite_add_tensor(&own, addr, 8);
    suite_add_tensor(&own, addr, 8);
    assert_true(suite_execute(&own) < 0);
    *run = own;
    assert_false(run->is_lost);
    assert_null(run->graph);
    if (run->failure.site.file != NULL) /* it may be that of the code */
        assert_string_equal(run->failure.site.file, "suite_orchestration.c");
    run->failure.site.file = NULL;
    assert_int_equal(suite_run_vector(next, 9), PTO_OK);
    chip_unload(suite_chip, code);
    chip_unload(suite_chip, next);
}

static void what_is_refused_is_told_with_its_place(void **state)
{
    static const struct {
        const char *entry;
        enum failure_kind fault;
        int32_t line;
        int32_t argument;
        uint64_t value;
    } cases[] = {
        { "unknown_kernel", FAILURE_KERNEL, 1000, -1, 99 },
        { "other_core", FAILURE_CORE_TYPE, 1001, -1, KERNEL_SCALE },
        { "bad_view", FAILURE_VIEW, 1005, 1, PTO_VIEW_OUT_OF_RANGE },
        { "bad_bounds", FAILURE_BOUNDS, 1011, 0, 36 },
        { "bad_element", FAILURE_DATA, 1013, -1, DATA_INDEX },
        { "bad_scalar", FAILURE_PASSED, 1014, 0, 5 },
        { "open_scope", FAILURE_SCOPES_OPEN, 1016, -1, 1 },
        { "ends_scope", FAILURE_SCOPE_UNDERFLOW, 0, -1, 0 },
    };

    (void)state;
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct suite_run run = { .options.size = 0 };

        run_failing(cases[i].entry, &run);
        assert_int_equal(run.failure.status, PTO_EARGS);
        assert_int_equal(run.failure.kind, cases[i].fault);
        assert_int_equal(run.failure.site.line, cases[i].line);
        assert_int_equal(run.failure.argument, cases[i].argument);
        assert_int_equal(run.failure.value[0], cases[i].value);
        assert_int_equal(run.report.executions, 0);
    }
}

static void an_orchestration_gives_up(void **state)
{
    struct suite_run run = { .options.size = 0 };

    (void)state;
    run_failing("gives_up", &run);
    assert_int_equal(run.failure.status, PTO_EORCH);
    assert_int_equal(run.failure.kind, FAILURE_GAVE_UP);
    assert_string_equal(run.failure.text, "no such model");
}

static void memory_for_outputs_is_limited(void **state)
{
    struct suite_run run = { .options.size = 0 };

    (void)state;
    run_failing("large", &run);
    assert_int_equal(run.failure.status, PTO_ENOMEM);
    assert_int_equal(run.failure.kind, FAILURE_MEMORY);
    assert_int_equal(run.failure.value[0], SUITE_MEMORY_MAX);
    assert_true(run.failure.value[1] >= 4ull << 30);
}

static void a_run_ends_when_its_time_is_over(void **state)
{
    struct suite_run run;

    (void)state;
    suite_run_init(&run, NULL);
    run.options.timeout_ns = 50 * MS;
    run_failing("endless", &run);
    assert_int_equal(run.failure.status, PTO_ETIMEOUT);
}

static void a_crash_fails_its_run_only(void **state)
{
    struct suite_run run = { .options.size = 0 };

    (void)state;
    suite_skip_unless(chip_properties(suite_chip)->survives_crashes, "does not survive crashes");
    /* cmocka has installed its signal handlers since the chip was opened */
    assert_true(chip_close(suite_chip));
    suite_chip = suite_open();
    run_failing("crashes", &run);
    assert_int_equal(run.failure.status, PTO_ECRASH);
    assert_int_equal(run.failure.kind, FAILURE_CRASH);
    assert_int_equal(run.failure.kernel, KERNEL_CRASH);
    assert_int_equal(run.failure.value[0], 8); /* the address */
}

static void a_stall_is_told_with_its_tasks(void **state)
{
    struct suite_run run;

    (void)state;
    suite_skip_unless(chip_properties(suite_chip)->ends_stalls, "does not end stalls");
    suite_run_init(&run, NULL);
    run.request.stall_ns = 50 * MS;
    run_failing("defers", &run);
    assert_int_equal(run.failure.status, PTO_ESTALL);
    assert_int_equal(run.failure.kind, FAILURE_STALL);
    assert_int_equal(run.failure.value[1], STALL_DEFERRED);
    assert_int_equal(run.stall.count, 1);
    assert_int_equal(run.stall.live, 1);
    assert_int_equal(run.stall.task[0].kernel, KERNEL_DEFER);
    assert_int_equal(run.stall.task[0].cause, STALL_DEFERRED);
    assert_int_equal(run.stall.task[0].expected, 1);
    suite_run_init(&run, NULL);
    run.options.timeout_ns = 50 * MS;
    run_failing("defers", &run);
    assert_int_equal(run.failure.status, PTO_ETIMEOUT);
}

/* A kernel that never returns; here it returns in the end, so that the chip can be closed. */
static void a_chip_is_lost_with_its_kernel(void **state)
{
    struct chip_code *code;
    uint64_t addr = suite_buffer(2), begin;
    struct suite_run run;

    (void)state;
    suite_skip_unless(chip_properties(suite_chip)->ends_stalls, "does not end stalls");
    code = suite_load("waits");
    suite_run_init(&run, code);
    run.request.stall_ns = 50 * MS;
    suite_add_tensor(&run, addr, 2);
    assert_int_equal(suite_execute(&run), PTO_ESTALL);
    assert_true(run.is_lost);
    assert_int_equal(run.stall.task[0].cause, STALL_RUNS);
    assert_int_equal(run.stall.task[0].kernel, KERNEL_GATE);
    suite_run_init(&run, code);
    suite_add_tensor(&run, addr, 2);
    assert_int_equal(chip_start(suite_chip, &run.request), PTO_ELOST);
    suite_set_word(addr, 1, 1);
    for (begin = suite_now(); chip_stuck_threads() != 0;)
        if (suite_is_late(begin))
            fail_msg("the kernel does not return");
    suite_expect_leak(code); /* it stays loaded */
    chip_unload(suite_chip, code);
}

const struct CMUnitTest suite_failures[] = {
    SUITE_TEST(what_is_refused_is_told_with_its_place),
    SUITE_TEST(an_orchestration_gives_up),
    SUITE_TEST(memory_for_outputs_is_limited),
    SUITE_TEST(a_run_ends_when_its_time_is_over),
    SUITE_TEST(a_crash_fails_its_run_only),
    SUITE_TEST(a_stall_is_told_with_its_tasks),
    SUITE_TEST(a_chip_is_lost_with_its_kernel),
};
SUITE_COUNT(suite_failures);
