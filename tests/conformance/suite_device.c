/* SPDX-License-Identifier: Apache-2.0 */
/* Open and close: nothing is left behind, and the properties are right. */
#include <malloc.h>

#include "tests/conformance/suite.h"
#include "tests/fixture/counts_test.h"

/* Opens and closes a chip that has memory which is never freed. */
static void live(void)
{
    struct chip *first = suite_chip;
    struct chip_code *code;
    uint64_t addr;

    suite_chip = suite_open();
    code = suite_load("vector");
    assert_int_equal(suite_run_vector(code, 3), PTO_OK);
    assert_int_equal(chip_alloc(suite_chip, 1 << 20, &addr, NULL), PTO_OK);
    chip_unload(suite_chip, code);
    assert_true(chip_close(suite_chip));
    suite_chip = first;
}

static void opens_and_closes_without_leaving_anything(void **state)
{
    enum { WARM = 3, ROUNDS = 20, SLACK = 256 << 10 };
    uint32_t descriptors, threads;
    size_t used;

    (void)state;
    for (uint32_t i = 0; i < WARM; i++)
        live();
    descriptors = count_entries("/proc/self/fd");
    threads = count_threads();
    used = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (uint32_t i = 0; i < ROUNDS; i++)
        live();
    assert_int_equal(count_entries("/proc/self/fd"), descriptors);
    assert_int_equal(count_threads(), threads);
    assert_true(mallinfo2().uordblks + mallinfo2().hblkhd <= used + SLACK); /* 1 MiB a round */
}

static void several_chips_are_open_at_a_time(void **state)
{
    struct chip *first = suite_chip, *second = suite_open();
    struct chip_code *code = suite_load("vector"), *other;

    (void)state;
    suite_chip = second;
    other = suite_load("vector");
    assert_int_equal(suite_run_vector(other, 5), PTO_OK);
    suite_chip = first;
    assert_int_equal(suite_run_vector(code, 6), PTO_OK);
    chip_unload(second, other);
    assert_true(chip_close(second));
    assert_int_equal(suite_run_vector(code, 7), PTO_OK);
    chip_unload(first, code);
}

static void the_properties_are_those_of_the_backend(void **state)
{
    const struct chip_properties *p = chip_properties(suite_chip);

    (void)state;
    assert_string_equal(p->backend, suite_backend->name);
    assert_int_equal(p->clusters, SUITE_CLUSTERS);
    assert_int_equal(p->aic_count, PTO_CLUSTER_AICS * p->clusters);
    assert_int_equal(p->aiv_count, PTO_CLUSTER_AIVS * p->clusters);
    assert_true(p->workers >= 1);
    assert_true(!p->has_graphs || suite_backend->runs->drop != NULL);
    assert_true(!p->has_recorder || suite_backend->runs->record != NULL);
    assert_false(chip_is_builder(suite_chip));
    assert_true(chip_close(NULL));
}

const struct CMUnitTest suite_device[] = {
    SUITE_TEST(opens_and_closes_without_leaving_anything),
    SUITE_TEST(several_chips_are_open_at_a_time),
    SUITE_TEST(the_properties_are_those_of_the_backend),
};
SUITE_COUNT(suite_device);
