/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a rank waits for a signal if ranks outnumber CPUs: src/comm/comm_shared.c unchanged, with a
 * counter of yields and simulated CPUs of the other ranks.
 */
#define _GNU_SOURCE
#include <sched.h>

#include "base/os.h"
#include "tests/fixture/fixture.h"

static uint32_t yields;

static void count_yield(void)
{
    yields++;
}

#define os_yield count_yield
#include "comm/comm_shared.c"
#undef os_yield

enum { RANKS = 4, LOOKS_NEEDED = 20 };

static_assert((int)LOOKS_NEEDED < (int)CROWD_LOOKS,
              "what is waited for comes within one turn of looks");

static struct shared_head head[RANKS];
static uint32_t looks_made;

/* The signal arrives after a number of checks. */
static bool has_come_after_looks(void *context)
{
    (void)context;
    return looks_made++ >= LOOKS_NEEDED;
}

static int never_judge(void *context)
{
    (void)context;
    return PTO_OK;
}

/* Lets rank 0 wait; the states of the other ranks are in `head`. Returns how often it yields. */
static uint32_t wait_in_a_crowd(void)
{
    struct shared_head *heads[RANKS] = { &head[0], &head[1], &head[2], &head[3] };
    struct shared s = { .base = { .rank = 0, .rank_count = RANKS },
                        .own = &head[0],
                        .head = heads,
                        .looks = 1,
                        .is_crowded = true,
                        .yield_ns = UINT32_MAX };

    yields = looks_made = 0;
    assert_int_equal(shared_await(&s, &(struct shared_wait){ .holds = has_come_after_looks,
                                                             .judge = never_judge,
                                                             .timeout_ns = UINT64_MAX }),
                     PTO_OK);
    return yields;
}

/* Rank 1, which sends the signal, is on another CPU. */
static int begin(void **state)
{
    uint32_t cpu = os_cpu_here();
    cpu_set_t one;

    (void)state;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    memset(head, 0, sizeof(head));
    for (uint32_t i = 0; i < RANKS; i++)
        a32_store_relaxed(&head[i].cpu, i % 2 == 0 ? cpu + 1 : cpu + 2);
    return 0;
}

static void it_yields_to_a_rank_that_needs_its_cpu(void **state)
{
    (void)state;
    assert_true(wait_in_a_crowd() > 0);
}

static void it_looks_while_that_rank_sleeps(void **state)
{
    (void)state;
    a32_store_relaxed(&head[2].waker.sleepers, WAKER_SLEEPS);
    assert_int_equal(wait_in_a_crowd(), 0);
}

static void it_looks_if_all_others_are_elsewhere(void **state)
{
    (void)state;
    a32_store_relaxed(&head[2].cpu, a32_load_relaxed(&head[1].cpu));
    assert_int_equal(wait_in_a_crowd(), 0);
}

static void it_yields_to_a_rank_whose_cpu_is_unknown(void **state)
{
    (void)state;
    a32_store_relaxed(&head[2].cpu, 0);
    assert_true(wait_in_a_crowd() > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(it_yields_to_a_rank_that_needs_its_cpu, begin),
        cmocka_unit_test_setup(it_looks_while_that_rank_sleeps, begin),
        cmocka_unit_test_setup(it_looks_if_all_others_are_elsewhere, begin),
        cmocka_unit_test_setup(it_yields_to_a_rank_whose_cpu_is_unknown, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
