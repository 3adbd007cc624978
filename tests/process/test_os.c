/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * The operating system layer: each function is called for what it promises and at its limits. Times
 * are only compared with lower bounds.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/os.h"
#include "tests/fixture/fixture.h"

enum { NS_PER_MS = 1000000, PAGES = 16 };

static bool is_zero(const unsigned char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != 0)
            return false;
    }
    return true;
}

/* Reads the byte in a child process; returns whether that ends the child with SIGSEGV. */
static bool faults_on_read(const volatile unsigned char *byte)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        struct rlimit no_core = { 0 };

        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGSEGV, SIG_DFL);
        _exit(*byte & 1);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static void time_does_not_go_backwards(void **state)
{
    (void)state;
    uint64_t before = os_now_ns();

    for (int i = 0; i < 1000; i++) {
        uint64_t now = os_now_ns();

        assert_true(now >= before);
        before = now;
    }
}

static void reserved_addresses_have_no_memory(void **state)
{
    (void)state;
    size_t bytes = (size_t)1 << 36; /* more than the machine has */
    unsigned char *addr = os_reserve(bytes);

    assert_non_null(addr);
    assert_true(faults_on_read(addr));
    assert_true(faults_on_read(addr + bytes - 1));
    os_release(addr, bytes);
}

static void reserving_the_impossible_gives_null(void **state)
{
    (void)state;
    assert_null(os_reserve(SIZE_MAX / 2));
    assert_null(os_reserve(0));
}

static void committed_memory_is_zero_and_writable(void **state)
{
    (void)state;
    size_t page = os_page_bytes();
    unsigned char *addr = os_reserve(PAGES * page);

    assert_non_null(addr);
    assert_int_equal(os_commit(addr + page, 2 * page), PTO_OK);
    assert_true(is_zero(addr + page, 2 * page));
    addr[page] = 1;
    addr[3 * page - 1] = 2;
    assert_true(faults_on_read(addr));
    assert_true(faults_on_read(addr + 3 * page));
    os_release(addr, PAGES * page);
}

static void committing_again_keeps_the_contents(void **state)
{
    (void)state;
    size_t page = os_page_bytes();
    unsigned char *addr = os_reserve(PAGES * page);

    assert_int_equal(os_commit(addr, page), PTO_OK);
    addr[5] = 55;
    assert_int_equal(os_commit(addr, 2 * page), PTO_OK);
    assert_int_equal(addr[5], 55);
    os_release(addr, PAGES * page);
}

static void decommitted_memory_comes_back_as_zero(void **state)
{
    (void)state;
    size_t page = os_page_bytes();
    unsigned char *addr = os_reserve(PAGES * page);

    assert_int_equal(os_commit(addr, PAGES * page), PTO_OK);
    for (size_t i = 0; i < PAGES * page; i++)
        addr[i] = 0xff;
    os_decommit(addr + page, 2 * page);
    assert_true(faults_on_read(addr + page));
    assert_int_equal(os_commit(addr + page, 2 * page), PTO_OK);
    assert_true(is_zero(addr + page, 2 * page));
    assert_int_equal(addr[page - 1], 0xff);
    assert_int_equal(addr[3 * page], 0xff);
    os_release(addr, PAGES * page);
}

static void committing_beyond_the_reserve_is_an_error(void **state)
{
    (void)state;
    size_t page = os_page_bytes();
    unsigned char *addr = os_reserve(PAGES * page);

    /* A hole after the first half ensures that there is no neighbouring mapping. */
    os_release(addr + PAGES / 2 * page, PAGES / 2 * page);
    assert_int_equal(os_commit(addr, PAGES * page), PTO_ENOMEM);
    assert_int_equal(os_commit(addr + PAGES / 2 * page, page), PTO_ENOMEM);
    assert_int_equal(os_commit(addr, SIZE_MAX / 2), PTO_ENOMEM);
    os_release(addr, PAGES / 2 * page);
}

static void releasing_nothing_is_allowed(void **state)
{
    (void)state;
    os_release(NULL, 0);
}

static void a_page_is_a_power_of_two(void **state)
{
    (void)state;
    size_t page = os_page_bytes();

    assert_true(page >= 4096);
    assert_int_equal(page & (page - 1), 0);
}

static void a_wait_ends_at_its_deadline(void **state)
{
    (void)state;
    struct a32 word = { 7 };
    uint64_t deadline = os_now_ns() + 20 * NS_PER_MS;

    while (os_wait(&word, 7, deadline))
        assert_true(os_now_ns() < deadline + 100000ULL * NS_PER_MS);
    assert_true(os_now_ns() >= deadline);
}

static void a_wait_with_a_past_deadline_returns_at_once(void **state)
{
    (void)state;
    struct a32 word = { 7 };

    assert_false(os_wait(&word, 7, 0));
    assert_false(os_wait(&word, 7, os_now_ns() - 1));
}

static void a_wait_for_another_value_returns_at_once(void **state)
{
    (void)state;
    struct a32 word = { 7 };

    assert_true(os_wait(&word, 8, UINT64_MAX));
    assert_true(os_wait(&word, 8, UINT64_MAX - 1));
}

enum { SLEEPERS = 4 };

struct bed {
    struct a32 word;
    struct a32 up;
};

static void *sleep_until_set(void *arg)
{
    struct bed *bed = arg;

    while (a32_load_acquire(&bed->word) == 0)
        os_wait(&bed->word, 0, UINT64_MAX);
    a32_add_acq_rel(&bed->up, 1);
    return NULL;
}

static void a_wake_wakes_all_that_wait(void **state)
{
    (void)state;
    struct bed bed = { 0 };
    struct a32 never = { 0 };
    pthread_t threads[SLEEPERS];

    for (int i = 0; i < SLEEPERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, sleep_until_set, &bed), 0);
    /* Time to fall asleep; if they do not, they pass without needing the wake. */
    while (os_wait(&never, 0, os_now_ns() + 20 * NS_PER_MS))
        ;
    assert_int_equal(a32_load_acquire(&bed.up), 0);
    a32_store_release(&bed.word, 1);
    os_wake(&bed.word, UINT32_MAX);
    for (int i = 0; i < SLEEPERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(a32_load_acquire(&bed.up), SLEEPERS);
}

static void waking_nobody_is_allowed(void **state)
{
    (void)state;
    struct a32 word = { 0 };

    os_wake(&word, 0);
    os_wake(&word, 1);
}

static void there_is_at_least_one_cpu(void **state)
{
    (void)state;
    assert_in_range(os_cpu_count(), 1, 16384);
}

/*
 * The test cannot see whether the fence orders; it checks that the call returns while threads run.
 */
static void *spin_until_set(void *arg)
{
    struct a32 *stop = arg;

    while (a32_load_acquire(stop) == 0)
        os_yield();
    return NULL;
}

static void a_fence_on_all_threads_returns(void **state)
{
    (void)state;
    struct a32 stop = { 0 };
    pthread_t thread;

    if (!os_fence_all_init())
        skip();
    assert_true(os_fence_all_init());
    assert_int_equal(pthread_create(&thread, NULL, spin_until_set, &stop), 0);
    for (int i = 0; i < 100; i++)
        os_fence_all();
    a32_store_release(&stop, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_does_not_go_backwards),
        cmocka_unit_test(reserved_addresses_have_no_memory),
        cmocka_unit_test(reserving_the_impossible_gives_null),
        cmocka_unit_test(committed_memory_is_zero_and_writable),
        cmocka_unit_test(committing_again_keeps_the_contents),
        cmocka_unit_test(decommitted_memory_comes_back_as_zero),
        cmocka_unit_test(committing_beyond_the_reserve_is_an_error),
        cmocka_unit_test(releasing_nothing_is_allowed),
        cmocka_unit_test(a_page_is_a_power_of_two),
        cmocka_unit_test(a_wait_ends_at_its_deadline),
        cmocka_unit_test(a_wait_with_a_past_deadline_returns_at_once),
        cmocka_unit_test(a_wait_for_another_value_returns_at_once),
        cmocka_unit_test(a_wake_wakes_all_that_wait),
        cmocka_unit_test(waking_nobody_is_allowed),
        cmocka_unit_test(there_is_at_least_one_cpu),
        cmocka_unit_test(a_fence_on_all_threads_returns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
