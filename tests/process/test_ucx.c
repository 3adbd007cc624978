/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain - asan: UCX brings its own handlers and hooks, which are what is looked at */
/* What loading UCX leaves as it was in the process; and copies through it. Skipped without UCX. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <signal.h>
#include <sys/mman.h>

#include "base/os.h"
#include "net/ucx.h"
#include "tests/fixture/counts_test.h"
#include "tests/fixture/fixture.h"

#define SOON_NS 60000000000ull

static void on_crash(int number)
{
    (void)number;
}

static void load_or_skip(void)
{
    struct pto_error error;

    pto_error_init(&error);
    if (ucx_init(&error) < 0) {
        print_message("             skipped: %s\n", error.text);
        skip();
    }
}

/* UCX takes the signals of crashes when it is loaded. */
static void signals_of_crashes_stay(void **state)
{
    struct sigaction before = { .sa_handler = on_crash }, after;

    (void)state;
    assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
    load_or_skip();
    assert_int_equal(sigaction(SIGSEGV, NULL, &after), 0);
    assert_true(after.sa_handler == on_crash);
    assert_int_equal(signal(SIGSEGV, SIG_DFL) == SIG_ERR, 0);
}

/* UCX 1.13 replaces mremap by one that does not know the new address. */
static void mremap_stays(void **state)
{
    const size_t bytes = 8192;
    char *from, *to;

    (void)state;
    load_or_skip();
    from = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    to = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(from != MAP_FAILED && to != MAP_FAILED);
    from[0] = 7;
    assert_ptr_equal(mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
    assert_int_equal(to[0], 7);
    assert_int_equal(munmap(to, bytes), 0);
}

/* Two of them in this process, connected to each other. */
static void open_pair(struct ucx *pair[2])
{
    struct pto_error error;
    size_t bytes;

    pto_error_init(&error);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(ucx_open(2, "lo", &pair[i], &error), PTO_OK);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(ucx_connect(pair[i], 1 - i, ucx_address(pair[1 - i], &bytes)), PTO_OK);
}

static void copies_end_and_nothing_is_left(void **state)
{
    enum { BYTES = 1 << 20 };
    static char window[BYTES], from[BYTES], to[BYTES];
    uint32_t files = count_entries("/proc/self/fd"), threads = count_threads();
    struct ucx_copy copy = { .peer = 1, .bytes = BYTES };
    struct ucx_memory *memory;
    struct ucx *pair[2];
    size_t bytes;

    (void)state;
    load_or_skip();
    open_pair(pair);
    memory = ucx_register(pair[1], window, BYTES);
    assert_non_null(memory);
    copy.key = ucx_key_make(pair[0], 1, ucx_memory_key(memory, &bytes));
    assert_non_null(copy.key);
    copy.address = (uintptr_t)window;
    copy.deadline_ns = os_now_ns() + SOON_NS;
    memset(from, 5, BYTES);
    assert_int_equal(ucx_put(pair[0], &copy, from), PTO_OK);
    assert_memory_equal(window, from, BYTES); /* it is there when the call returns */
    assert_int_equal(ucx_get(pair[0], &copy, to), PTO_OK);
    assert_memory_equal(to, from, BYTES);
    /* the other one closes: whatever UCX says of it, the copy ends */
    ucx_unregister(pair[1], memory);
    ucx_close(pair[1]);
    assert_in_range(-ucx_put(pair[0], &copy, from), -PTO_EAGAIN, -PTO_EPEER);
    ucx_lose(pair[0], 1);
    assert_int_equal(ucx_put(pair[0], &copy, from), PTO_EAGAIN);
    ucx_key_free(pair[0], copy.key);
    ucx_close(pair[0]);
    assert_int_equal(count_entries("/proc/self/fd"), files);
    assert_int_equal(count_threads(), threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_of_crashes_stay),
        cmocka_unit_test(mremap_stays),
        cmocka_unit_test(copies_end_and_nothing_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
