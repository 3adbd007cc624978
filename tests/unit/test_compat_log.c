/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines of code that was compiled with the reference's headers: which lines go where. */
#include "compat/orch/compat_log.h"

#include "compat/orch/layout.h"
#include "pto/log.h"
#include "tests/fixture/fixture.h"

static uint32_t lines;
static int last_level;
static char last_function[32], last_text[2048];

static void take_line(void *context, int level, const char *function, const char *text)
{
    *(uint32_t *)context += 1;
    last_level = level;
    snprintf(last_function, sizeof(last_function), "%s", function);
    snprintf(last_text, sizeof(last_text), "%s", text);
}

static struct pto_log taken_from(int threshold)
{
    struct pto_log log;

    pto_log_init(&log);
    log.fn = take_line;
    log.context = &lines;
    log.threshold = threshold;
    lines = 0;
    return log;
}

static int reset_log(void **state)
{
    (void)state;
    return pto_log_set(NULL);
}

static void lines_below_the_threshold_are_dropped(void **state)
{
    struct pto_log log = taken_from(PTO_LOG_WARN);

    (void)state;
    assert_int_equal(pto_log_set(&log), PTO_OK);
    compat_log_text(PTO_LOG_TIMING, "f", "not this");
    assert_int_equal(lines, 0);
    compat_log_text(PTO_LOG_WARN, "kernel", "%d of %s", 3, "these");
    assert_int_equal(lines, 1);
    assert_int_equal(last_level, PTO_LOG_WARN);
    assert_string_equal(last_function, "kernel");
    assert_string_equal(last_text, "3 of these");
    log = taken_from(PTO_LOG_OFF);
    assert_int_equal(pto_log_set(&log), PTO_OK);
    compat_log_text(PTO_LOG_ERROR, "f", "nor this");
    assert_int_equal(lines, 0);
}

static void a_line_may_be_of_any_length_and_of_no_function(void **state)
{
    static char text[5000];
    struct pto_log log = taken_from(PTO_LOG_DEBUG);

    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    assert_int_equal(pto_log_set(&log), PTO_OK);
    compat_log_text(PTO_LOG_INFO, NULL, "%s", text);
    assert_string_equal(last_function, "");
    assert_true(strlen(last_text) >= 1000 && strlen(last_text) < sizeof(last_text) - 1);
    assert_int_equal(strspn(last_text, "a"), strlen(last_text));
}

static struct compat_log_state *bound;

static int bind_state(struct compat_log_state *to)
{
    bound = to;
    return 0;
}

/* The reference's own logger reads the same memory, which may change the threshold at any time. */
static void the_state_of_a_worker_counts_instead(void **state)
{
    static struct compat_log_state theirs = { 1, sizeof(theirs), PTO_LOG_ERROR, 0 };
    struct pto_log log = taken_from(PTO_LOG_DEBUG);
    union {
        int (*fn)(struct compat_log_state *);
        void *symbol;
    } bind = { bind_state };

    (void)state;
    log.state = &theirs;
    assert_int_equal(pto_log_set(&log), PTO_OK);
    compat_log_bind(bind.symbol);
    assert_ptr_equal(bound, &theirs);
    compat_log_text(PTO_LOG_WARN, "f", "dropped");
    assert_int_equal(lines, 0);
    theirs.threshold = PTO_LOG_WARN;
    compat_log_text(PTO_LOG_WARN, "f", "taken");
    assert_int_equal(lines, 1);
    assert_int_equal(pto_log_set(NULL), PTO_OK);
    compat_log_bind(bind.symbol);
    assert_ptr_not_equal(bound, &theirs);
    assert_int_equal(bound->threshold, PTO_LOG_TIMING);
    compat_log_bind(NULL); /* an object without a logger */
}

static void an_unknown_size_is_refused(void **state)
{
    struct pto_log log = taken_from(PTO_LOG_DEBUG);

    (void)state;
    log.size = 3;
    assert_int_equal(pto_log_set(&log), PTO_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(lines_below_the_threshold_are_dropped, reset_log),
        cmocka_unit_test_teardown(a_line_may_be_of_any_length_and_of_no_function, reset_log),
        cmocka_unit_test_teardown(the_state_of_a_worker_counts_instead, reset_log),
        cmocka_unit_test_teardown(an_unknown_size_is_refused, reset_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
