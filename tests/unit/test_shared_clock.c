/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain tsan */
/*
 * A clock that several processes share, here with a thread for each: members act in the order of
 * their times, a member that gets work from another one is not overtaken, and a member that waits
 * for others checks after each announcement before time passes.
 */
#include <pthread.h>
#include <string.h>

#include "base/os.h"
#include "link/shared_clock.h"
#include "tests/fixture/fixture.h"

static struct shared_clock shared;

static void await_turn(uint32_t member)
{
    while (!shared_clock_await(&shared, member, os_now_ns() + 100 * MS)) {
    }
}

static void set_up_clock(void)
{
    memset(&shared, 0, sizeof(shared));
    shared_clock_init(&shared);
}

static void the_earliest_member_is_first(void **state)
{
    (void)state;
    set_up_clock();
    assert_int_equal(shared_clock_least(&shared, 0), SHARED_CLOCK_NEVER);
    shared_clock_publish(&shared, 3, 20);
    assert_true(shared_clock_is_first(&shared, 3));
    shared_clock_publish(&shared, 5, 20);
    assert_true(shared_clock_is_first(&shared, 3)); /* equal times are ordered by number */
    assert_false(shared_clock_is_first(&shared, 5));
    shared_clock_publish(&shared, 5, 19);
    assert_false(shared_clock_is_first(&shared, 3));
    assert_true(shared_clock_is_first(&shared, 5));
    assert_int_equal(shared_clock_least(&shared, 5), 20);
    shared_clock_publish(&shared, 5, SHARED_CLOCK_NEVER);
    assert_false(shared_clock_is_first(&shared, 5));
    assert_false(shared_clock_await(&shared, 5, os_now_ns() + MS));
}

static void a_waiting_member_looks_before_time_passes(void **state)
{
    uint64_t announced;

    (void)state;
    set_up_clock();
    shared_clock_publish(&shared, 1, 10);
    shared_clock_publish(&shared, 2, SHARED_CLOCK_NEVER);
    shared_clock_set_awaits(&shared, 2, true);
    assert_false(shared_clock_must_look(&shared, 2, &announced));
    assert_true(shared_clock_is_first(&shared, 1));
    shared_clock_announce(&shared, 1, 10);
    shared_clock_publish(&shared, 1, 50);
    assert_false(shared_clock_is_first(&shared, 1));
    assert_true(shared_clock_must_look(&shared, 2, &announced));
    assert_int_equal(a64_load_relaxed(&shared.announced_ns), 10);
    shared_clock_publish(&shared, 2, 12); /* it may continue at 10, and ends at 12 */
    shared_clock_see(&shared, 2, announced);
    assert_false(shared_clock_is_first(&shared, 1));
    assert_true(shared_clock_is_first(&shared, 2));
    shared_clock_publish(&shared, 2, SHARED_CLOCK_NEVER);
    assert_true(shared_clock_is_first(&shared, 1));
}

/* ---- threads ---- */

/*
 * Members are scanned in the order of their numbers, so the giver can act after the taker was
 * scanned.
 */
enum { THREADS = 3, STEPS = IS_SANITIZED ? 300 : 5000, TAKER = 0, GIVER = THREADS + 1 };

static struct {
    uint64_t ns[(THREADS + 1) * STEPS];
    uint32_t member[(THREADS + 1) * STEPS];
    uint32_t count; /* not atomic, because one member acts at a time */
} acts;

static void act(uint32_t member, uint64_t ns)
{
    acts.ns[acts.count] = ns;
    acts.member[acts.count++] = member;
}

static void *act_often(void *context)
{
    uint32_t member = (uint32_t)(uintptr_t)context, seed = member * 2654435761u;
    uint64_t ns = 1;

    for (int i = 0; i < STEPS; i++) {
        seed = seed * 1664525 + 1013904223;
        ns += seed >> 28;
        shared_clock_publish(&shared, member, ns);
        await_turn(member);
        act(member, ns);
    }
    shared_clock_publish(&shared, member, SHARED_CLOCK_NEVER);
    return NULL;
}

/* Acts at its own times; each time it gives work to the taker, which acts a little later. */
static void *give_often(void *context)
{
    uint64_t ns = 1;

    (void)context;
    for (int i = 0; i < STEPS / 2; i++) {
        ns += 7;
        shared_clock_publish(&shared, GIVER, ns);
        await_turn(GIVER);
        act(GIVER, ns);
        shared_clock_publish(&shared, TAKER, ns + 1);
        shared_clock_publish(&shared, GIVER, SHARED_CLOCK_NEVER);
        await_turn(TAKER);
        act(TAKER, ns + 1);
        shared_clock_publish(&shared, GIVER, ns + 1);
        shared_clock_publish(&shared, TAKER, SHARED_CLOCK_NEVER);
    }
    shared_clock_publish(&shared, GIVER, SHARED_CLOCK_NEVER);
    return NULL;
}

static void threads_act_in_the_order_of_their_times(void **state)
{
    pthread_t thread[THREADS + 1];

    (void)state;
    set_up_clock();
    acts.count = 0;
    for (uint32_t i = 1; i <= GIVER; i++) /* no member passes one that has not begun */
        shared_clock_publish(&shared, i, 1);
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(
            pthread_create(&thread[i], NULL, act_often, (void *)(uintptr_t)(TAKER + 1 + i)), 0);
    assert_int_equal(pthread_create(&thread[THREADS], NULL, give_often, NULL), 0);
    for (uint32_t i = 0; i <= THREADS; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(acts.count, (THREADS + 1) * STEPS);
    for (uint32_t i = 1; i < acts.count; i++)
        if (acts.ns[i] < acts.ns[i - 1] ||
            (acts.ns[i] == acts.ns[i - 1] && acts.member[i] < acts.member[i - 1]))
            fail_msg("member %u acted at %llu after member %u at %llu", acts.member[i],
                     (unsigned long long)acts.ns[i], acts.member[i - 1],
                     (unsigned long long)acts.ns[i - 1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_earliest_member_is_first),
        cmocka_unit_test(a_waiting_member_looks_before_time_passes),
        cmocka_unit_test(threads_act_in_the_order_of_their_times),
    };

    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
