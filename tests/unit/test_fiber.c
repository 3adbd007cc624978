/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * Fibers: switches in and out, preserved state, reused stacks. Observations inside of a fiber are
 * recorded and checked outside, because a failing assertion jumps to the stack of the test runner.
 * plain_fiber.c runs the same cases without cmocka.
 */
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fiber.h"
#include "pto/pto.h"

/* Included last, because its macro fail() would rewrite a member of that name in pto.h. */
#ifndef PLAIN_FIBER
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#endif

#if defined(__has_feature)
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    HAS_FEATURE(address_sanitizer) || HAS_FEATURE(thread_sanitizer)
enum { IS_SANITIZED = 1 };
#else
enum { IS_SANITIZED = 0 };
#endif

enum { STACK_BYTES = 256 * 1024, OVERFLOW_BYTES = 128 * 1024 };
enum { RESTARTS = 100000, HANDOVERS = 1000 };

/* prevents the compiler from computing the result in advance */
static volatile uint64_t opaque_seed = 3;

struct counter {
    struct fiber *fiber;
    uint32_t rounds;
    uint32_t seen;
    uint64_t sum;
};

static void count_rounds(void *arg)
{
    struct counter *counter = arg;

    for (uint32_t i = 0; i < counter->rounds; i++) {
        counter->seen = i + 1;
        fiber_yield(counter->fiber);
    }
}

static struct fiber *create_fiber(void)
{
    struct fiber *fiber = NULL;

    assert_int_equal(fiber_create(STACK_BYTES, &fiber), PTO_OK);
    assert_true(fiber != NULL);
    return fiber;
}

static void is_done_before_it_is_started(void **state)
{
    (void)state;
    struct fiber *fiber = create_fiber();

    assert_true(fiber_is_done(fiber));
    fiber_destroy(fiber);
}

static void destroys_nothing_without_complaint(void **state)
{
    (void)state;
    fiber_destroy(NULL);
}

static void refuses_a_stack_that_no_machine_has(void **state)
{
    (void)state;
    struct fiber *fiber = NULL;

    assert_int_equal(fiber_create(SIZE_MAX, &fiber), PTO_ENOMEM);
    assert_int_equal(fiber_create(SIZE_MAX / 2, &fiber), PTO_ENOMEM);
    assert_true(fiber == NULL);
}

static void yields_and_resumes_where_it_was(void **state)
{
    (void)state;
    struct counter counter = { .fiber = create_fiber(), .rounds = 5 };

    fiber_start(counter.fiber, count_rounds, &counter);
    assert_int_equal(counter.seen, 0);
    for (uint32_t i = 1; i <= 5; i++) {
        fiber_resume(counter.fiber);
        assert_int_equal(counter.seen, i);
        assert_false(fiber_is_done(counter.fiber));
    }
    fiber_resume(counter.fiber);
    assert_true(fiber_is_done(counter.fiber));
    fiber_destroy(counter.fiber);
}

static void yield_deeper(struct counter *counter, uint32_t depth)
{
    volatile uint64_t local = depth * 7 + 1;

    if (depth == 0) {
        fiber_yield(counter->fiber);
        return;
    }
    yield_deeper(counter, depth - 1);
    fiber_yield(counter->fiber);
    counter->sum += local;
}

static void yield_from_the_depth(void *arg)
{
    yield_deeper(arg, 20);
}

static void keeps_the_frames_of_nested_calls(void **state)
{
    (void)state;
    struct counter counter = { .fiber = create_fiber() };
    uint32_t resumes = 0;

    fiber_start(counter.fiber, yield_from_the_depth, &counter);
    while (!fiber_is_done(counter.fiber) && resumes < 100) {
        fiber_resume(counter.fiber);
        resumes++;
    }
    assert_int_equal(resumes, 22);
    assert_int_equal(counter.sum, 7 * 210 + 20);
    fiber_destroy(counter.fiber);
}

/*
 * More live values than there are preserved registers, both integers and floats, which change in
 * every round, so that all preserved registers are in use across a switch on both sides.
 */
struct mixer {
    struct fiber *fiber;
    bool is_inside;
    uint64_t digest;
};

static void mix_step(struct mixer *mixer)
{
    if (mixer->is_inside)
        fiber_yield(mixer->fiber);
    else
        fiber_resume(mixer->fiber);
}

static uint64_t mix(struct mixer *mixer, uint64_t seed, bool is_switching)
{
    uint64_t a = seed, b = seed * 3, c = seed * 5, d = seed * 7, e = seed * 11, f = seed * 13;
    uint64_t g = seed * 17, h = seed * 19, i = seed * 23, j = seed * 29, k = seed * 31;
    double p = (double)seed, q = p * 1.5, r = p * 2.5, s = p * 3.5, t = p * 4.5, u = p * 5.5;
    double v = p * 6.5, w = p * 7.5, x = p * 8.5;

    for (int round = 0; round < 100; round++) {
        if (is_switching)
            mix_step(mixer);
        a += b, b ^= c, c += d, d ^= e, e += f, f ^= g, g += h, h ^= i, i += j, j ^= k, k += a;
        p += q, q *= 0.5, r += s, s *= 0.5, t += u, u *= 0.5, v += w, w *= 0.5, x += p;
    }
    return (a ^ b ^ c ^ d ^ e ^ f ^ g ^ h ^ i ^ j ^ k) +
           (uint64_t)(p + q + r + s + t + u + v + w + x);
}

static void mix_inside(void *arg)
{
    struct mixer *mixer = arg;
    struct mixer inside = { .fiber = mixer->fiber, .is_inside = true };

    mixer->digest = mix(&inside, opaque_seed + 1, true);
}

static void keeps_every_preserved_register_on_both_sides(void **state)
{
    (void)state;
    struct mixer mixer = { .fiber = create_fiber() };

    fiber_start(mixer.fiber, mix_inside, &mixer);

    uint64_t outside = mix(&mixer, opaque_seed, true);

    fiber_resume(mixer.fiber);
    assert_true(fiber_is_done(mixer.fiber));
    assert_true(outside == mix(&mixer, opaque_seed, false));
    assert_true(mixer.digest == mix(&mixer, opaque_seed + 1, false));
    fiber_destroy(mixer.fiber);
}

/*
 * Returns the rounding mode that arithmetic has. On x86-64 fegetround() reads the x87 unit alone,
 * while doubles are rounded by SSE: -1 if the two differ.
 */
static int rounding_seen(void)
{
    volatile double one = 1.0, tiny = 1e-20;
    volatile double above = one + tiny, below = one - tiny, minus_below = -one - tiny;
    int mode = FE_TONEAREST;

    if (above > 1.0)
        mode = FE_UPWARD;
    else if (minus_below < -1.0)
        mode = FE_DOWNWARD;
    else if (below < 1.0)
        mode = FE_TOWARDZERO;
    return mode == fegetround() ? mode : -1;
}

struct rounding {
    struct fiber *fiber;
    int at_start;
    int after_yield;
};

static void round_upward(void *arg)
{
    struct rounding *rounding = arg;

    rounding->at_start = rounding_seen();
    fesetround(FE_UPWARD);
    fiber_yield(rounding->fiber);
    rounding->after_yield = rounding_seen();
}

static void has_a_rounding_mode_of_its_own(void **state)
{
    (void)state;
    struct rounding rounding = { .fiber = create_fiber() };

    fesetround(FE_DOWNWARD);
    fiber_start(rounding.fiber, round_upward, &rounding);
    fesetround(FE_TONEAREST);
    fiber_resume(rounding.fiber);

    int outside_after_yield = rounding_seen();

    fesetround(FE_TOWARDZERO);
    fiber_resume(rounding.fiber);

    int outside_after_end = rounding_seen();

    fesetround(FE_TONEAREST);
    assert_int_equal(rounding.at_start, FE_DOWNWARD);
    assert_int_equal(outside_after_yield, FE_TONEAREST);
    assert_int_equal(rounding.after_yield, FE_UPWARD);
    assert_int_equal(outside_after_end, FE_TOWARDZERO);
    fiber_destroy(rounding.fiber);
}

static void note_alignment(void *arg)
{
    /*
     * A misaligned stack would first fault at a vector store that the compiler assumes to be
     * aligned.
     */
    _Alignas(16) volatile char block[16];
    struct counter *counter = arg;

    counter->sum = (uintptr_t)block % 16;
    counter->seen = 1;
}

static void starts_with_an_aligned_stack(void **state)
{
    (void)state;
    struct counter counter = { .fiber = create_fiber() };

    fiber_start(counter.fiber, note_alignment, &counter);
    fiber_resume(counter.fiber);
    assert_int_equal(counter.seen, 1);
    assert_int_equal(counter.sum, 0);
    fiber_destroy(counter.fiber);
}

static void serves_many_runs_one_after_the_other(void **state)
{
    (void)state;
    struct counter counter = { .fiber = create_fiber(), .rounds = 1 };

    for (uint32_t i = 0; i < RESTARTS; i++) {
        counter.seen = 0;
        fiber_start(counter.fiber, count_rounds, &counter);
        fiber_resume(counter.fiber);
        assert_int_equal(counter.seen, 1);
        fiber_resume(counter.fiber);
        assert_true(fiber_is_done(counter.fiber));
    }
    fiber_destroy(counter.fiber);
}

static void hold_a_block_and_yield(void *arg)
{
    struct counter *counter = arg;
    volatile char block[512];

    block[0] = 1;
    block[sizeof(block) - 1] = 2;
    yield_deeper(counter, 10);
    counter->sum += (uint64_t)(block[0] + block[sizeof(block) - 1]);
}

static void starts_again_after_a_run_was_given_up(void **state)
{
    (void)state;
    struct counter counter = { .fiber = create_fiber(), .rounds = 1 };

    for (uint32_t i = 0; i < RESTARTS / 100; i++) {
        fiber_start(counter.fiber, hold_a_block_and_yield, &counter);
        fiber_resume(counter.fiber);
        fiber_resume(counter.fiber);
        assert_false(fiber_is_done(counter.fiber));
    }
    fiber_start(counter.fiber, count_rounds, &counter);
    fiber_start(counter.fiber, count_rounds, &counter);
    fiber_resume(counter.fiber);
    fiber_resume(counter.fiber);
    assert_true(fiber_is_done(counter.fiber));
    assert_int_equal(counter.seen, 1);
    fiber_destroy(counter.fiber);
}

static void is_destroyed_with_a_run_given_up(void **state)
{
    (void)state;

    for (uint32_t i = 0; i < 100; i++) {
        struct counter counter = { .fiber = create_fiber() };

        fiber_start(counter.fiber, hold_a_block_and_yield, &counter);
        fiber_resume(counter.fiber);
        fiber_destroy(counter.fiber);
    }
}

static void fill_the_stack(void *arg)
{
    struct counter *counter = arg;
    volatile unsigned char block[STACK_BYTES - 16 * 1024];

    for (size_t i = 0; i < sizeof(block); i++)
        block[i] = (unsigned char)(i * 31);
    fiber_yield(counter->fiber);
    for (size_t i = 0; i < sizeof(block); i++)
        counter->sum += block[i] != (unsigned char)(i * 31);
    counter->seen = 1;
}

static void uses_nearly_all_of_its_stack(void **state)
{
    (void)state;
    struct counter counter = { .fiber = create_fiber() };
    struct counter neighbour = { .fiber = create_fiber() };

    fiber_start(counter.fiber, fill_the_stack, &counter);
    fiber_start(neighbour.fiber, fill_the_stack, &neighbour);
    fiber_resume(counter.fiber);
    fiber_resume(neighbour.fiber);
    fiber_resume(counter.fiber);
    fiber_resume(neighbour.fiber);
    assert_int_equal(counter.seen + neighbour.seen, 2);
    assert_int_equal(counter.sum + neighbour.sum, 0);
    fiber_destroy(neighbour.fiber);
    fiber_destroy(counter.fiber);
}

/* Takes at least a kilobyte of stack per level. */
static uint64_t descend(uint64_t depth)
{
    volatile char block[1024];

    block[depth % sizeof(block)] = (char)depth;
    if (depth == 0)
        return opaque_seed;
    return descend(depth - 1) + (uint64_t)block[depth % sizeof(block)];
}

static void overflow_the_stack(void *arg)
{
    struct counter *counter = arg;

    counter->sum = descend((STACK_BYTES + OVERFLOW_BYTES) / 1024);
}

static void faults_when_the_stack_overflows(void **state)
{
    (void)state;
    int status = 0;

    if (IS_SANITIZED)
        skip();

    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct counter counter = { 0 };
        struct fiber *below = NULL; /* the most likely place where an overflow would go unnoticed */
        struct rlimit no_core = { 0 };

        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGSEGV, SIG_DFL);
        if (fiber_create(STACK_BYTES, &counter.fiber) != PTO_OK ||
            fiber_create(STACK_BYTES, &below) != PTO_OK)
            _exit(1);
        fiber_start(counter.fiber, overflow_the_stack, &counter);
        fiber_resume(counter.fiber);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static void interleaves_with_another_fiber(void **state)
{
    (void)state;
    struct counter first = { .fiber = create_fiber(), .rounds = 100 };
    struct counter second = { .fiber = create_fiber(), .rounds = 50 };

    fiber_start(first.fiber, count_rounds, &first);
    fiber_start(second.fiber, count_rounds, &second);
    for (uint32_t i = 1; i <= 50; i++) {
        fiber_resume(first.fiber);
        fiber_resume(second.fiber);
        fiber_resume(first.fiber);
        assert_int_equal(first.seen, 2 * i);
        assert_int_equal(second.seen, i);
    }
    fiber_resume(second.fiber);
    fiber_resume(first.fiber);
    assert_true(fiber_is_done(first.fiber));
    assert_true(fiber_is_done(second.fiber));
    fiber_destroy(first.fiber);
    fiber_destroy(second.fiber);
}

static void *resume_once(void *arg)
{
    fiber_resume(arg);
    return NULL;
}

static void continues_on_a_thread_that_did_not_start_it(void **state)
{
    (void)state;
    struct counter counter = { .fiber = create_fiber(), .rounds = 20 };

    fiber_start(counter.fiber, count_rounds, &counter);
    for (uint32_t i = 1; i <= 20; i++) {
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, resume_once, counter.fiber), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(counter.seen, i);
    }
    fiber_resume(counter.fiber);
    assert_true(fiber_is_done(counter.fiber));
    fiber_destroy(counter.fiber);
}

struct relay {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint32_t turn;
    struct counter counter;
};

struct runner {
    struct relay *relay;
    uint32_t index;
};

static void *resume_in_turns(void *arg)
{
    struct runner *runner = arg;
    struct relay *relay = runner->relay;

    for (uint32_t i = 0; i < HANDOVERS / 2; i++) {
        pthread_mutex_lock(&relay->mutex);
        while (relay->turn != runner->index)
            pthread_cond_wait(&relay->changed, &relay->mutex);
        fiber_resume(relay->counter.fiber);
        relay->turn = 1 - relay->turn;
        pthread_cond_signal(&relay->changed);
        pthread_mutex_unlock(&relay->mutex);
    }
    return NULL;
}

static void is_resumed_by_two_threads_in_turns(void **state)
{
    (void)state;
    struct relay relay = {
        .mutex = PTHREAD_MUTEX_INITIALIZER,
        .changed = PTHREAD_COND_INITIALIZER,
        .counter = { .fiber = create_fiber(), .rounds = HANDOVERS },
    };
    struct runner runners[2] = { { &relay, 0 }, { &relay, 1 } };
    pthread_t threads[2];

    fiber_start(relay.counter.fiber, count_rounds, &relay.counter);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, resume_in_turns, &runners[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(relay.counter.seen, HANDOVERS);
    assert_false(fiber_is_done(relay.counter.fiber));
    fiber_resume(relay.counter.fiber);
    assert_true(fiber_is_done(relay.counter.fiber));
    fiber_destroy(relay.counter.fiber);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_done_before_it_is_started),
        cmocka_unit_test(destroys_nothing_without_complaint),
        cmocka_unit_test(refuses_a_stack_that_no_machine_has),
        cmocka_unit_test(yields_and_resumes_where_it_was),
        cmocka_unit_test(keeps_the_frames_of_nested_calls),
        cmocka_unit_test(keeps_every_preserved_register_on_both_sides),
        cmocka_unit_test(has_a_rounding_mode_of_its_own),
        cmocka_unit_test(starts_with_an_aligned_stack),
        cmocka_unit_test(serves_many_runs_one_after_the_other),
        cmocka_unit_test(starts_again_after_a_run_was_given_up),
        cmocka_unit_test(is_destroyed_with_a_run_given_up),
        cmocka_unit_test(uses_nearly_all_of_its_stack),
        cmocka_unit_test(faults_when_the_stack_overflows),
        cmocka_unit_test(interleaves_with_another_fiber),
        cmocka_unit_test(continues_on_a_thread_that_did_not_start_it),
        cmocka_unit_test(is_resumed_by_two_threads_in_turns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
