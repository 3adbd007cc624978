/* SPDX-License-Identifier: Apache-2.0 */
/* Runs: results, counts, and what other threads see of an executing run. */
#include "tests/conformance/suite.h"

/* Runs with one buffer of `count` words, which are 1, 2, 3 and so on before the run. */
static int run_on(const char *entry, uint64_t addr, uint32_t count, struct suite_run *run)
{
    struct chip_code *code = suite_load(entry);
    int status;

    for (uint32_t i = 0; i < count; i++)
        suite_set_word(addr, i, i + 1);
    suite_run_init(run, code);
    suite_add_tensor(run, addr, count);
    status = suite_execute(run);
    chip_unload(suite_chip, code);
    return status;
}

static void tasks_run_in_the_order_of_their_data(void **state)
{
    struct chip_code *code = suite_load("vector");

    (void)state;
    for (int32_t i = -3; i < 30; i++)
        assert_int_equal(suite_run_vector(code, i), PTO_OK);
    chip_unload(suite_chip, code);
}

static void both_modes_have_the_same_results(void **state)
{
    uint64_t a = suite_buffer(8), c = suite_buffer(8);

    (void)state;
    suite_set_word(a, 3, 4);
    for (int mode = PTO_MODE_STREAM; mode <= PTO_MODE_HOST; mode++) {
        struct chip_code *code = suite_load_for("vector", (enum pto_mode)mode);

        for (int deps = PTO_DEPS_SAFE; deps <= PTO_DEPS_SIMPLER; deps++) {
            struct suite_run run;

            suite_set_word(c, 3, 0);
            suite_run_init(&run, code);
            run.options.mode = (enum pto_mode)mode;
            run.options.deps = (enum pto_deps)deps;
            suite_add_tensor(&run, a, 8);
            suite_add_tensor(&run, a, 8);
            suite_add_tensor(&run, c, 8);
            suite_add_scalar(&run, 5);
            assert_int_equal(suite_execute(&run), PTO_OK);
            assert_int_equal(suite_word(c, 3), 44);
        }
        chip_unload(suite_chip, code);
    }
}

static void every_block_runs_once(void **state)
{
    uint64_t addr = suite_buffer(80);
    struct suite_run run;

    (void)state;
    assert_int_equal(run_on("blocks", addr, 80, &run), PTO_OK);
    for (uint32_t i = 0; i < 80; i++)
        assert_int_equal(suite_word(addr, i), i < 40 ? 4000 + i : i + 1);
    assert_int_equal(run.report.tasks, 1);
    assert_int_equal(run.report.executions, 40);
}

static void outputs_live_as_long_as_their_scopes(void **state)
{
    uint64_t addr = suite_buffer(8);
    struct suite_run run;

    (void)state;
    assert_int_equal(run_on("scopes", addr, 8, &run), PTO_OK);
    for (uint32_t i = 0; i < 8; i++) /* 7 + 20 * 14, twice */
        assert_int_equal(suite_word(addr, i), i < 4 ? i + 1 : 2 * (7 + 20 * 14));
    assert_int_equal(run.report.tasks, 1 + 20 * 3 + 1);
    assert_int_equal(run.report.executions, 20 * 2 + 1);
}

static void an_orchestration_reads_and_writes_elements(void **state)
{
    struct chip_code *code = suite_load("elements");
    uint64_t a = suite_buffer(4), b = suite_buffer(2);
    struct suite_run run;

    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        suite_set_word(a, i, i + 1);
    suite_set_word(b, 1, 5);
    suite_run_init(&run, code);
    suite_add_tensor(&run, a, 4);
    suite_add_tensor(&run, b, 2);
    suite_add_scalar(&run, 100);
    assert_int_equal(suite_execute(&run), PTO_OK);
    assert_int_equal(suite_word(a, 0), 109);
    assert_int_equal(suite_word(a, 1), 6);
    assert_int_equal(suite_word(a, 3), SUITE_CLUSTERS * 100 + SUITE_CLUSTERS * PTO_CLUSTER_AIVS);
    assert_int_equal(suite_word(b, 1), 50); /* one predicate holds, the other one does not */
    assert_int_equal(run.report.tasks, 3);
    assert_int_equal(run.report.executions, 2);
    chip_unload(suite_chip, code);
}

/*
 * Kernels on several cores at the same time: the result is right, or the run is refused with a
 * message.
 */
static bool has_team(const char *entry, uint64_t addr)
{
    struct suite_run run;
    int status = run_on(entry, addr, 8, &run);

    if (status == PTO_ENOSUP) {
        assert_true(run.failure.text[0] != '\0');
        assert_int_equal(run.report.executions, 0);
        assert_int_equal(suite_word(addr, 0), 1);
    } else {
        assert_int_equal(status, PTO_OK);
    }
    return status == PTO_OK;
}

static void lanes_of_a_task_run_together(void **state)
{
    uint64_t addr = suite_buffer(8);

    (void)state;
    suite_skip_unless(has_team("lanes", addr), "no tasks with several lanes");
    assert_int_equal(suite_word(addr, 0), 100);
    assert_int_equal(suite_word(addr, 1), 101);
}

static void blocks_of_a_gang_run_together(void **state)
{
    uint64_t addr = suite_buffer(8);

    (void)state;
    suite_skip_unless(has_team("gang", addr), "no blocks that start together");
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(suite_word(addr, i), 400 + i);
}

static void a_run_moves_and_can_be_cancelled(void **state)
{
    struct chip_code *code = suite_load("endless"), *next = suite_load("vector");
    uint64_t addr = suite_buffer(4);
    struct suite_run run;
    pthread_t thread;

    (void)state;
    suite_run_init(&run, code);
    suite_add_tensor(&run, addr, 4);
    thread = suite_launch(&run);
    suite_wait_for_progress(0);
    suite_wait_for_progress(chip_progress(suite_chip));
    assert_int_equal(chip_poll(suite_chip), PTO_RUN_PENDING);
    chip_cancel(suite_chip, run.request.number);
    chip_cancel(suite_chip, run.request.number);
    assert_int_equal(suite_join(thread, &run), PTO_ECANCELED);
    assert_int_equal(chip_poll(suite_chip), PTO_RUN_ENDED);
    assert_true(run.report.tasks > 0);
    assert_true(run.report.executions <= run.report.tasks);
    /* the cancelled number is not that of the next run */
    assert_int_equal(suite_run_vector(next, 2), PTO_OK);
    chip_unload(suite_chip, code);
    chip_unload(suite_chip, next);
}

static void a_run_is_cancelled_before_it_starts(void **state)
{
    struct chip_code *code = suite_load("blocks");
    uint64_t addr = suite_buffer(80);
    struct suite_run run;

    (void)state;
    suite_run_init(&run, code);
    suite_add_tensor(&run, addr, 80);
    chip_cancel(suite_chip, run.request.number);
    assert_int_equal(suite_execute(&run), PTO_ECANCELED);
    assert_int_equal(run.report.executions, 0);
    assert_int_equal(suite_word(addr, 0), 0);
    chip_cancel(suite_chip, run.request.number); /* it is over */
    suite_run_init(&run, code);
    suite_add_tensor(&run, addr, 80);
    assert_int_equal(suite_execute(&run), PTO_OK);
    assert_int_equal(suite_word(addr, 0), 4000);
    chip_unload(suite_chip, code);
}

static void memory_is_there_while_a_kernel_runs(void **state)
{
    struct chip_code *code = suite_load("waits");
    uint64_t addr = suite_buffer(2);
    struct suite_run run;
    pthread_t thread;

    (void)state;
    suite_run_init(&run, code);
    suite_add_tensor(&run, addr, 2);
    thread = suite_launch(&run);
    suite_wait_for_word(addr, 1);
    assert_int_equal(chip_poll(suite_chip), PTO_RUN_PENDING);
    suite_set_word(addr, 1, 1);
    assert_int_equal(suite_join(thread, &run), PTO_OK);
    assert_int_equal(run.report.executions, 1);
    chip_unload(suite_chip, code);
}

const struct CMUnitTest suite_runs[] = {
    SUITE_TEST(tasks_run_in_the_order_of_their_data),
    SUITE_TEST(both_modes_have_the_same_results),
    SUITE_TEST(every_block_runs_once),
    SUITE_TEST(outputs_live_as_long_as_their_scopes),
    SUITE_TEST(an_orchestration_reads_and_writes_elements),
    SUITE_TEST(lanes_of_a_task_run_together),
    SUITE_TEST(blocks_of_a_gang_run_together),
    SUITE_TEST(a_run_moves_and_can_be_cancelled),
    SUITE_TEST(a_run_is_cancelled_before_it_starts),
    SUITE_TEST(memory_is_there_while_a_kernel_runs),
};
SUITE_COUNT(suite_runs);
