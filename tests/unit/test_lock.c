/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * Assertions about locks: in a checked build, a thread that does not hold the lock aborts.
 */
#ifndef PTO_CHECKED
#define PTO_CHECKED
#define IS_CHECKED_VARIANT 0
#else
#define IS_CHECKED_VARIANT 1
#endif
#include "base/lock.h"

#include <setjmp.h>
#include <signal.h>

#include "tests/fixture/fixture.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sigjmp_buf before;

static void on_abort(int number)
{
    siglongjmp(before, number);
}

/* Whether the assertion aborts. */
static bool aborts(bool is_expected_held)
{
    struct sigaction action = { .sa_handler = on_abort }, saved;
    int number;

    sigaction(SIGABRT, &action, &saved);
    number = sigsetjmp(before, 1);
    if (number == 0) {
        if (is_expected_held)
            assert_held(&lock);
        else
            assert_not_held(&lock);
    }
    sigaction(SIGABRT, &saved, NULL);
    return number == SIGABRT;
}

static void *look(void *seen)
{
    *(bool *)seen = aborts(true) && !aborts(false);
    return NULL;
}

static void only_the_thread_that_has_the_lock_holds_it(void **state)
{
    bool is_refused = false;
    pthread_t other;

    (void)state;
    assert_true(aborts(true));
    assert_false(aborts(false));
    pthread_mutex_lock(&lock);
    assert_false(aborts(true));
    assert_true(aborts(false));
    assert_int_equal(pthread_create(&other, NULL, look, &is_refused), 0);
    pthread_join(other, NULL);
    assert_true(is_refused);
    pthread_mutex_unlock(&lock);
    assert_true(aborts(true));
}

static void a_wait_gives_the_lock_back(void **state)
{
    pthread_cond_t cond;

    (void)state;
    os_cond_init(&cond);
    pthread_mutex_lock(&lock);
    assert_false(os_cond_wait(&cond, &lock, os_now_ns() + 1000));
    assert_held(&lock);
    pthread_mutex_unlock(&lock);
    pthread_cond_destroy(&cond);
}

static void sanitized_variants_are_checked(void **state)
{
    (void)state;
    assert_int_equal(IS_CHECKED_VARIANT, IS_SANITIZED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_thread_that_has_the_lock_holds_it),
        cmocka_unit_test(a_wait_gives_the_lock_back),
        cmocka_unit_test(sanitized_variants_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
