/* SPDX-License-Identifier: Apache-2.0 */
/* Time on a card, also with a counter that does not report its rate. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cann/device/counter.h"

static void ticks_are_nanoseconds_at_any_rate(void **state)
{
    (void)state;
    assert_int_equal(counter_ns(50000000, 50000000), 1000000000);
    assert_int_equal(counter_ns(7, 50000000), 140);
    assert_int_equal(counter_ns(123456789, 1000000000), 123456789);
    /* Ten years: the product would not fit into 64 bits. */
    assert_int_equal(counter_ns(315360000ull * 50000000 + 25, 50000000),
                     315360000ull * 1000000000 + 500);
}

static void a_counter_without_a_rate_still_counts(void **state)
{
    (void)state;
    assert_int_equal(counter_ns(0, 0), 0);
    assert_int_equal(counter_ns(123, 0), 123);
    /*
     * If the slowest counter, 50 MHz, is taken for a faster one, a deadline is late, never early.
     */
    assert_true(counter_ns(50000000, 0) <= counter_ns(50000000, 50000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_are_nanoseconds_at_any_rate),
        cmocka_unit_test(a_counter_without_a_rate_still_counts),
    };

    return cmocka_run_group_tests_name("counter", tests, NULL, NULL);
}
