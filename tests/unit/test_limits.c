/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring sizes from options and the environment: what is accepted and refused, and which one has
 * precedence.
 */
#include "host/limits.h"

#include "tests/fixture/port_test.h"

static const char *const names[LIMITS_VARIABLES] = { "PTO2_RING_TASK_WINDOW", "PTO2_RING_HEAP",
                                                     "PTO2_RING_DEP_POOL" };

static int clear(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < LIMITS_VARIABLES; i++)
        unsetenv(names[i]);
    return 0;
}

static void one_number_is_for_all_rings(void **state)
{
    uint64_t value[PTO_RINGS];

    (void)state;
    assert_true(limits_parse(" +64 ", 4, 1024, true, value));
    for (uint32_t i = 0; i < PTO_RINGS; i++)
        assert_int_equal(value[i], 64);
    assert_true(limits_parse("18446744073709551615", 0, UINT64_MAX, false, value));
    assert_true(value[3] == UINT64_MAX);
}

static void four_numbers_are_one_for_each(void **state)
{
    uint64_t value[PTO_RINGS];

    (void)state;
    assert_true(limits_parse("4, 8,16 ,1024", 4, 1024, true, value));
    assert_int_equal(value[0], 4);
    assert_int_equal(value[1], 8);
    assert_int_equal(value[2], 16);
    assert_int_equal(value[3], 1024);
}

static void anything_else_is_refused(void **state)
{
    static const char *const bad[] = {
        "",        " ",       "x",         "12x",        "-4",       "- 4",
        "+-4",     "0x10",    "4 8",       "3",          "2048",     "12",
        "4,8",     "4,8,16",  "4,8,16,",   "4,8,16,32,", "4,,16,32", "4,8,16,32,4",
        ",4,8,16", "4,8,x,4", "4,8,16,12", "4;8;4;4",    "4.0",      "18446744073709551616",
    };
    uint64_t value[PTO_RINGS] = { 1, 2, 3, 4 };

    (void)state;
    for (uint32_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(limits_parse(bad[i], 4, 1024, true, value));
        for (uint32_t k = 0; k < PTO_RINGS; k++)
            assert_int_equal(value[k], k + 1);
    }
}

static void what_does_not_fit_or_is_negative_is_refused(void **state)
{
    uint64_t value[PTO_RINGS];

    (void)state;
    assert_false(limits_parse("18446744073709551616", 0, UINT64_MAX, false, value));
    assert_false(limits_parse("-1", 0, UINT64_MAX, false, value));
}

static void nothing_set_is_no_limit(void **state)
{
    struct pto_ring_limits limits = { .task_window = { 1 } };
    const char *warning[LIMITS_VARIABLES];

    (void)state;
    assert_int_equal(limits_resolve(NULL, &limits, warning), 0);
    for (uint32_t i = 0; i < PTO_RINGS; i++)
        assert_true(limits.task_window[i] == 0 && limits.heap[i] == 0 && limits.dep_pool[i] == 0);
    for (uint32_t i = 0; i < LIMITS_VARIABLES; i++)
        assert_true(warning[i] == NULL);
}

static void an_option_goes_before_the_environment(void **state)
{
    struct pto_ring_limits options = { .task_window = { 0, 8, 0, 0 },
                                       .heap = { 1024, 0, 0, 5000 } };
    struct pto_ring_limits limits = { 0 };
    const char *warning[LIMITS_VARIABLES];

    (void)state;
    setenv(names[0], "16,32,64,128", 1);
    setenv(names[2], "77", 1);
    assert_int_equal(limits_resolve(&options, &limits, warning), 4 + 2 + 4);
    assert_int_equal(limits.task_window[0], 16);
    assert_int_equal(limits.task_window[1], 8);
    assert_int_equal(limits.task_window[3], 128);
    assert_int_equal(limits.heap[0], 1024);
    assert_int_equal(limits.heap[1], 0);
    assert_int_equal(limits.heap[3], 5000);
    assert_int_equal(limits.dep_pool[2], 77);
}

static void a_variable_that_cannot_be_read_is_ignored_by_name(void **state)
{
    struct pto_ring_limits options = { .dep_pool = { 0, 0, 0, 4 } };
    struct pto_ring_limits limits = { 0 };
    const char *warning[LIMITS_VARIABLES];

    (void)state;
    setenv(names[0], "100", 1);
    setenv(names[1], "1023", 1);
    setenv(names[2], "3000000000", 1);
    assert_int_equal(limits_resolve(&options, &limits, warning), 1);
    for (uint32_t i = 0; i < LIMITS_VARIABLES; i++) {
        assert_true(warning[i] != NULL);
        assert_true(strstr(warning[i], names[i]) == warning[i]);
    }
    assert_int_equal(limits.dep_pool[3], 4);
    setenv(names[1], "1024", 1);
    assert_int_equal(limits_resolve(&options, &limits, warning), 5);
    assert_true(warning[1] == NULL);
}

static void an_option_out_of_range_is_refused(void **state)
{
    static const struct pto_ring_limits bad[] = {
        { .task_window = { 2 } },
        { .task_window = { 0, 0, 0, 12 } },
        { .task_window = { 0, 1ull << 31 } },
        { .heap = { 0, 1023 } },
        { .dep_pool = { 3 } },
        { .dep_pool = { 0, 0, 1ull << 31 } },
    };
    static const struct pto_ring_limits good = { .task_window = { 4, 1 << 30 },
                                                 .heap = { 1024, UINT64_MAX },
                                                 .dep_pool = { 4, INT32_MAX } };
    struct pto_ring_limits limits;
    const char *warning[LIMITS_VARIABLES];

    (void)state;
    for (uint32_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(limits_resolve(&bad[i], &limits, warning), PTO_EINVAL);
    assert_int_equal(limits_resolve(&good, &limits, warning), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(one_number_is_for_all_rings, clear),
        cmocka_unit_test_setup(four_numbers_are_one_for_each, clear),
        cmocka_unit_test_setup(anything_else_is_refused, clear),
        cmocka_unit_test_setup(what_does_not_fit_or_is_negative_is_refused, clear),
        cmocka_unit_test_setup(nothing_set_is_no_limit, clear),
        cmocka_unit_test_setup(an_option_goes_before_the_environment, clear),
        cmocka_unit_test_setup(a_variable_that_cannot_be_read_is_ignored_by_name, clear),
        cmocka_unit_test_setup(an_option_out_of_range_is_refused, clear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
