/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the tests of the pure folders on machines without cmocka, such as qemu-aarch64 with a static
 * program: all in one program, with the counts of random cases divided by TEST_SHARE. Defines the
 * few names of cmocka that they use.
 */
#define PLAIN_PURE

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

static jmp_buf plain_end;

static void plain_fail(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));

static void plain_fail(const char *file, int line, const char *format, ...)
{
    va_list list;

    printf("%s:%d: ", file, line);
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("\n");
    longjmp(plain_end, 1);
}

/* A separate condition, so that an assertion that holds costs nothing. */
#define plain_check(condition, text) \
    ((condition) ? (void)0 : plain_fail(__FILE__, __LINE__, "%s", (text)))

#define cmocka_unit_test(function) \
    {                              \
#function, function        \
    }
#define assert_true(condition) plain_check((condition), #condition)
#define assert_false(condition) plain_check(!(condition), "not " #condition)
#define assert_int_equal(a, b) plain_check((uint64_t)(a) == (uint64_t)(b), #a " == " #b)
#define assert_ptr_equal(a, b) plain_check((const void *)(a) == (const void *)(b), #a " == " #b)
#define assert_string_equal(a, b) plain_check(strcmp((a), (b)) == 0, #a " == " #b)
#define assert_memory_equal(a, b, bytes) \
    plain_check(memcmp((a), (b), (bytes)) == 0, #a " has the bytes of " #b)
#define assert_memory_not_equal(a, b, bytes) \
    plain_check(memcmp((a), (b), (bytes)) != 0, #a " has not the bytes of " #b)
#define assert_in_range(a, min, max) \
    plain_check((a) >= (min) && (a) <= (max), #a " is from " #min " to " #max)
#define fail_msg(...) plain_fail(__FILE__, __LINE__, __VA_ARGS__)

#include "test_tensor.c"
#include "test_overlap.c"
#include "test_regions.c"
#include "test_graph.c"
#include "test_sched.c"

/* Returns the number of failures. */
static int plain_run(const char *group, const struct CMUnitTest *tests, size_t count)
{
    static int failed; /* static, so that they survive the longjmp */
    static size_t i;

    failed = 0;
    for (i = 0; i < count; i++) {
        if (setjmp(plain_end) == 0) {
            tests[i].run(NULL);
        } else {
            printf("failed: %s\n", tests[i].name);
            failed++;
        }
    }
    printf("%s: %d passed, %d failed\n", group, (int)count - failed, failed);
    return failed;
}

#define PLAIN_GROUP(tests) plain_run(#tests, (tests), sizeof(tests) / sizeof((tests)[0]))

int main(void)
{
    int failed = 0;

    failed += PLAIN_GROUP(tensor_tests);
    failed += PLAIN_GROUP(overlap_tests);
    failed += PLAIN_GROUP(regions_tests);
    failed += PLAIN_GROUP(graph_tests);
    failed += PLAIN_GROUP(sched_tests);
    return failed != 0;
}
