/* SPDX-License-Identifier: Apache-2.0 */
/* The log of calls in the form in which `pto selfcheck` packs it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif

#include "tool/cli/selfcheck.h"
#include "tests/fixture/fixture.h"

enum { CALLS = (1 << 20) + 1000 };

/*
 * Counts lines with that text. Searches line by line, because ASan checks the whole text at each
 * search.
 */
static uint32_t count_of(const char *text, size_t size, const char *part)
{
    const char *end = text + size;
    uint32_t count = 0;

    while (text < end) {
        const char *next = memchr(text, '\n', (size_t)(end - text));

        next = next != NULL ? next + 1 : end;
        count += memmem(text, (size_t)(next - text), part, strlen(part)) != NULL;
        text = next;
    }
    return count;
}

/* A long loop before the call that failed, and a call that did not return. */
static void packs_the_end_of_a_long_log(void **state)
{
    char path[] = "/tmp/pto-selfcheck-test-XXXXXX", *text = NULL;
    int file = mkstemp(path);
    FILE *log = fdopen(file, "w"), *to;
    size_t size = 0;

    (void)state;
    assert_non_null(log);
    fprintf(log, "#\t7\tstage\tlibraries\n");
    for (uint32_t i = 0; i < CALLS; i++)
        fprintf(log, "%u\t7\tf\t0\t9\n", i);
    fprintf(log, "#\t7\tbegin\tf\n1\t7\tf\t507899\t9\n#\t7\tbegin\tg\n");
    fclose(log);
    to = open_memstream(&text, &size);
    assert_non_null(to);
    cli_selfcheck_write_calls(to, path);
    fclose(to);
    (void)unlink(path);
    assert_int_equal(1, count_of(text, size, "#\t7\tstage\tlibraries\n"));
    assert_int_equal(1, count_of(text, size, "\tf\t507899\t"));
    assert_int_equal(0, count_of(text, size, "#\t7\tbegin\tf\n"));
    assert_int_equal(1, count_of(text, size, "#\t7\tbegin\tg\n"));
    assert_int_equal(1, count_of(text, size, "#\t0\tcut\t1002 lines\n"));
    assert_int_equal(CALLS - 1002, count_of(text, size, "\tf\t0\t9\n"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packs_the_end_of_a_long_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
