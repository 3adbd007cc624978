/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data of the orchestration's engine: the set of bytes that it has written itself, compared with an
 * array of flags; the first failure of a run; and reports from another process with arbitrary
 * contents.
 */
#include "orch/orch.h"
#include "orch/run_message.h"
#include "orch/write_set.h"

#include "tests/fixture/port_test.h"

enum { ROOM = 4096, POOL_BYTES = 1 << 20 };

/* The bytes from `first` on that were written, with all bits of each. */
static uint64_t naive_mask(const bool *is_written, uint32_t first, uint32_t bytes)
{
    uint64_t mask = 0;

    for (uint32_t i = 0; i < bytes; i++)
        mask |= is_written[first + i] ? 0xffull << 8 * i : 0;
    return mask;
}

static void written_bytes_are_those_that_were_added(void **state)
{
    static bool is_written[ROOM];
    struct rng random = { 11 };
    struct pool_budget budget = { .max = POOL_BYTES };
    struct write_set w = { .pool = { .owner = &budget } };

    (void)state;
    w.pool.base = malloc(POOL_BYTES);
    w.pool.limit = w.pool.max = POOL_BYTES;
    for (int turn = 0; turn < 2; turn++) { /* the second run does not see writes of the first */
        const uint64_t base = turn == 0 ? 0x7f0000000003ull : 5;

        memset(is_written, 0, sizeof(is_written));
        write_set_start(&w);
        assert_int_equal(write_set_mask(&w, base, 8), 0);
        for (uint32_t i = 0; i < 20000 / TEST_SHARE; i++) {
            uint32_t bytes = 1u << rng_below(&random, 4), at = rng_below(&random, ROOM - bytes);

            if (rng_below(&random, 8) == 0) {
                assert_true(write_set_add(&w, base + at, bytes));
                memset(is_written + at, 1, bytes);
            }
            bytes = 1 + rng_below(&random, 8);
            at = rng_below(&random, ROOM - bytes);
            assert_int_equal(write_set_mask(&w, base + at, bytes),
                             naive_mask(is_written, at, bytes));
        }
    }
    free(w.pool.base);
}

static void memory_that_has_run_out_is_said(void **state)
{
    struct pool_budget budget = { .max = 0 };
    struct write_set w = { .pool = { .owner = &budget } };

    (void)state;
    write_set_start(&w);
    assert_false(write_set_add(&w, 64, 4));
    assert_int_equal(write_set_mask(&w, 64, 4), 0);
}

static void the_first_failure_of_a_run_stays(void **state)
{
    const struct pto_site site = { "orch.c", 7 };
    struct graph graph = { .scope_count = 3 };
    struct orch o = { .graph = &graph, .quota = 5 };
    struct failure first = orch_failure(PTO_EINVAL, FAILURE_TAG, &site);
    struct failure second = orch_failure(PTO_ENOMEM, FAILURE_NONE, NULL);

    (void)state;
    assert_int_equal(second.kernel, -1);
    assert_int_equal(second.argument, -1);
    assert_null(second.site.file);
    assert_int_equal(orch_fail(&o, &first), PTO_EINVAL);
    assert_int_equal(o.quota, 0); /* noticed by the next submit */
    assert_int_equal(orch_fail(&o, &second), PTO_EINVAL);
    assert_int_equal(o.failure.kind, FAILURE_TAG);
    assert_int_equal(o.failure.scope_depth, 2);
    assert_int_equal(o.failure.site.line, 7);
}

/* It polls for the 64th time without a submit: only then tasks run on its thread. */
static void an_orchestration_that_submits_may_ask_for_ever(void **state)
{
    struct graph graph = { .seq = 0 };
    struct orch o = { .graph = &graph };

    (void)state;
    for (uint32_t i = 0; i < 10 * ORCH_POLLS; i++) {
        graph.seq += i % (ORCH_POLLS - 1) == 0;
        assert_int_equal(orch_polled(&o, 1), PTO_OK);
        assert_true(o.polls < ORCH_POLLS);
    }
}

static void a_report_from_elsewhere_is_made_safe(void **state)
{
    static struct run_ended ended;

    (void)state;
    memset(&ended, 'x', sizeof(ended));
    assert_false(run_ended_check(&ended));
    ended.stall.count = STALL_TASKS;
    ended.failure.status = PTO_ELOST;
    ended.trace.lines.count = LINES_MAX;
    assert_true(run_ended_check(&ended));
    assert_int_equal(strlen(ended.failure.text), FAILURE_TEXT - 1);
    assert_int_equal(strlen(ended.trace.lines.line[LINES_MAX - 1].file), LINES_FILE_BYTES - 1);
    assert_int_equal(strlen(ended.trace.lines.line[0].function), LINES_FUNCTION_BYTES - 1);
    ended.stall.count++;
    assert_false(run_ended_check(&ended));
    ended.stall.count--;
    ended.failure.status = 1;
    assert_false(run_ended_check(&ended));
}

static const struct CMUnitTest orch_tests[] = {
    cmocka_unit_test(written_bytes_are_those_that_were_added),
    cmocka_unit_test(memory_that_has_run_out_is_said),
    cmocka_unit_test(the_first_failure_of_a_run_stays),
    cmocka_unit_test(an_orchestration_that_submits_may_ask_for_ever),
    cmocka_unit_test(a_report_from_elsewhere_is_made_safe),
};

TEST_MAIN(orch_tests)
