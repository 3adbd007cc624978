/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the cases of test_fiber.c on machines without cmocka, such as qemu-aarch64 with a static
 * program. Defines the few names of cmocka that they use; main() is in test_fiber.c.
 */
#define PLAIN_FIBER

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

enum { PLAIN_FAILED = 1, PLAIN_SKIPPED = 2 };

static jmp_buf plain_end;

static void plain_fail(const char *file, int line, const char *text)
{
    printf("%s:%d: %s\n", file, line, text);
    longjmp(plain_end, PLAIN_FAILED);
}

static void plain_check(int is_true, const char *file, int line, const char *text)
{
    if (!is_true)
        plain_fail(file, line, text);
}

/* Returns the number of failures, as the exit code. */
static int plain_run(const struct CMUnitTest *tests, size_t count)
{
    static int passed, failed, skipped; /* static, so that they survive the longjmp */
    static size_t i;

    for (i = 0; i < count; i++) {
        switch (setjmp(plain_end)) {
        case 0:
            tests[i].run(NULL);
            passed++;
            break;
        case PLAIN_SKIPPED:
            printf("skipped: %s\n", tests[i].name);
            skipped++;
            break;
        default:
            printf("failed: %s\n", tests[i].name);
            failed++;
            break;
        }
    }
    if (skipped > 0)
        printf("%d skipped\n", skipped);
    printf("%d passed, %d failed\n", passed, failed);
    return failed;
}

#define cmocka_unit_test(function) \
    {                              \
#function, function        \
    }
#define cmocka_run_group_tests(tests, setup, teardown) \
    plain_run((tests), sizeof(tests) / sizeof((tests)[0]))
#define assert_true(condition) plain_check((condition), __FILE__, __LINE__, #condition)
#define assert_false(condition) plain_check(!(condition), __FILE__, __LINE__, "not " #condition)
#define assert_int_equal(a, b) plain_check((a) == (b), __FILE__, __LINE__, #a " == " #b)
#define skip() longjmp(plain_end, PLAIN_SKIPPED)

#include "test_fiber.c"
