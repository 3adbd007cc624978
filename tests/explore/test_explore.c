/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of the explorer itself: each correct protocol passes, and in each protocol the usual
 * mistake, which is one word away, is found. Both use the same thread functions; `variant` selects
 * one.
 */
#include <assert.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>

#include "explore.h"
#include "weak.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

enum {
    UNBOUNDED = 1000000,
};

static int variant;
static int passed_count;
static int failed_count;

/* Limits that are large enough to try every schedule. */
static const struct explore_limits all_schedules = {
    .preemption_max = UNBOUNDED,
    .delay_max = UNBOUNDED,
    .execution_max = 3000000,
    .is_quiet = true,
};

static const struct explore_limits few_preemptions = {
    .preemption_max = 2,
    .delay_max = 1,
    .execution_max = 3000000,
    .is_quiet = true,
};

static void expect(bool is_met, const char *name, const char *what)
{
    const struct explore_result *r = explore_last();

    if (is_met) {
        passed_count++;
        return;
    }
    failed_count++;
    printf("FAILED %s: %s (verdict %d after %llu executions: %s)\n", name, what, (int)r->verdict,
           (unsigned long long)r->execution_count, r->message);
}

/*
 * Runs the depth-first search and random schedules; both must find the mistake, and neither may
 * find one in the correct protocol.
 */
static void expect_verdict(struct explore_scenario scenario, int variant_run,
                           const struct explore_limits *limits, enum explore_verdict verdict)
{
    struct explore_limits random = { .random_count = 3000, .seed = 1, .is_quiet = true };
    int status;

    variant = variant_run;
    status = explore_run(&scenario, limits);
    expect(explore_last()->verdict == verdict && (status == 0) == (verdict == EXPLORE_PASSED),
           scenario.name, "verdict, depth-first");
    if (verdict == EXPLORE_PASSED)
        expect(explore_last()->is_exhausted, scenario.name, "exhausted");

    explore_run(&scenario, &random);
    expect(explore_last()->verdict == verdict, scenario.name, "verdict, random");
}

/*
 * Dekker: each thread announces itself, then checks for the other; at least one must see the other.
 */

enum { NO_FENCE, FULL_FENCE, LIGHT_AND_ALL, LIGHT_ONLY, ONE_FULL };

static struct a32 flag[2];
static uint32_t seen[2];

static void dekker_setup(void)
{
    memset(flag, 0, sizeof(flag));
    memset(seen, 0, sizeof(seen));
}

static void dekker_thread(int id)
{
    a32_store_release(&flag[id], 1);
    switch (variant) {
    case FULL_FENCE:
        fence_full();
        break;
    case LIGHT_AND_ALL:
        if (id == 0)
            fence_light();
        else
            explore_fence_all();
        break;
    case LIGHT_ONLY:
        fence_light();
        break;
    case ONE_FULL:
        if (id == 0)
            fence_full();
        break;
    }
    seen[id] = a32_load_acquire(&flag[1 - id]);
}

static void dekker_check(void)
{
    explore_assert(seen[0] == 1 || seen[1] == 1);
    explore_assert(a32_load_relaxed(&flag[0]) == 1);
}

static void test_dekker(void)
{
    struct explore_scenario s = { "dekker", 2, dekker_setup, dekker_thread, dekker_check };

    expect_verdict(s, NO_FENCE, &few_preemptions, EXPLORE_ASSERT);
    expect_verdict(s, LIGHT_ONLY, &few_preemptions, EXPLORE_ASSERT);
    expect_verdict(s, ONE_FULL, &few_preemptions, EXPLORE_ASSERT);
    expect_verdict(s, FULL_FENCE, &all_schedules, EXPLORE_PASSED);
    expect_verdict(s, LIGHT_AND_ALL, &all_schedules, EXPLORE_PASSED);
}

/* Without delays there are no store buffers, which cause the failure above. */
static void test_dekker_without_delays(void)
{
    struct explore_scenario s = { "dekker, no delays", 2, dekker_setup, dekker_thread,
                                  dekker_check };
    struct explore_limits limits = all_schedules;

    limits.delay_max = 0;
    variant = NO_FENCE;
    explore_run(&s, &limits);
    expect(explore_last()->verdict == EXPLORE_PASSED && explore_last()->is_exhausted, s.name,
           "passes");
}

/* Two threads with two steps each, without buffers, have exactly six interleavings. */

static void interleave_thread(int id)
{
    a32_load_relaxed(&flag[id]);
    a32_load_relaxed(&flag[id]);
}

static void test_interleavings_are_counted(void)
{
    struct explore_scenario s = { "interleavings", 2, dekker_setup, interleave_thread, NULL };

    explore_run(&s, &all_schedules);
    expect(explore_last()->execution_count == 6 && explore_last()->step_count == 24, s.name,
           "six of four steps");
}

/* Message passing: data, then a flag. */

enum { MP_CORRECT, MP_STORE_RELAXED, MP_LOAD_RELAXED, MP_FENCES, MP_LIGHT_AND_ALL };

static struct a32 ready;
static struct a32 other_word;
static uint32_t data[4];

static void words_setup(void)
{
    a32_store_relaxed(&ready, 0);
    a32_store_relaxed(&other_word, 0);
    memset(data, 0, sizeof(data));
    atomic_note_write(&data[0]);
}

static void message_send(void)
{
    atomic_note_write(&data[0]);
    data[0] = 42;
    if (variant == MP_FENCES)
        fence_full();
    if (variant == MP_LIGHT_AND_ALL)
        fence_light();
    if (variant == MP_CORRECT || variant == MP_LOAD_RELAXED)
        a32_store_release(&ready, 1);
    else
        a32_store_relaxed(&ready, 1);
}

static void message_thread(int id)
{
    uint32_t is_ready;

    if (id == 0) {
        message_send();
        return;
    }
    if (variant == MP_CORRECT || variant == MP_STORE_RELAXED)
        is_ready = a32_load_acquire(&ready);
    else
        is_ready = a32_load_relaxed(&ready);
    if (variant == MP_FENCES)
        fence_full();
    if (variant == MP_LIGHT_AND_ALL)
        explore_fence_all();
    if (is_ready) {
        atomic_note_read(&data[0]);
        explore_assert(data[0] == 42);
    }
}

static void test_message_passing(void)
{
    struct explore_scenario s = { "message passing", 2, words_setup, message_thread, NULL };

    expect_verdict(s, MP_CORRECT, &all_schedules, EXPLORE_PASSED);
    expect_verdict(s, MP_FENCES, &all_schedules, EXPLORE_PASSED);
    expect_verdict(s, MP_LIGHT_AND_ALL, &all_schedules, EXPLORE_PASSED);
    expect_verdict(s, MP_STORE_RELAXED, &few_preemptions, EXPLORE_RACE);
    expect_verdict(s, MP_LOAD_RELAXED, &few_preemptions, EXPLORE_RACE);
}

/* Notes without any order between them, in each combination. */

static void unordered_thread(int id)
{
    if ((variant >> id) & 1)
        atomic_note_write(&data[0]);
    else
        atomic_note_read(&data[0]);
}

static void test_unordered_notes(void)
{
    struct explore_scenario s = { "unordered notes", 2, words_setup, unordered_thread, NULL };

    expect_verdict(s, 0, &all_schedules, EXPLORE_PASSED);
    expect_verdict(s, 1, &few_preemptions, EXPLORE_RACE);
    expect_verdict(s, 2, &few_preemptions, EXPLORE_RACE);
    expect_verdict(s, 3, &few_preemptions, EXPLORE_RACE);
}

/* Spinlock: taken by a compare-and-swap. */

enum { LOCK_CORRECT, LOCK_CAS_RELAXED, LOCK_UNLOCK_RELAXED };

static void spinlock_thread(int id)
{
    (void)id;
    for (;;) {
        uint32_t expected = 0;
        bool is_mine = variant == LOCK_CAS_RELAXED ? a32_cas_relaxed(&ready, &expected, 1)
                                                   : a32_cas_acq_rel(&ready, &expected, 1);

        if (is_mine)
            break;
        explore_spin();
    }
    atomic_note_write(&data[0]);
    data[0]++;
    if (variant == LOCK_UNLOCK_RELAXED)
        a32_store_relaxed(&ready, 0);
    else
        a32_store_release(&ready, 0);
}

static void spinlock_check(void)
{
    explore_assert(data[0] == 2);
    explore_assert(a32_load_relaxed(&ready) == 0);
}

static void test_spinlock(void)
{
    struct explore_scenario s = { "spinlock", 2, words_setup, spinlock_thread, spinlock_check };

    expect_verdict(s, LOCK_CORRECT, &all_schedules, EXPLORE_PASSED);
    expect_verdict(s, LOCK_CAS_RELAXED, &few_preemptions, EXPLORE_RACE);
    expect_verdict(s, LOCK_UNLOCK_RELAXED, &few_preemptions, EXPLORE_RACE);
}

/* Release sequence: a relaxed addition between the release and the acquire keeps the order. */

enum { SEQUENCE_RMW, SEQUENCE_STORE };

static void sequence_thread(int id)
{
    switch (id) {
    case 0:
        atomic_note_write(&data[0]);
        a32_store_release(&ready, 1);
        break;
    case 1:
        if (variant == SEQUENCE_RMW)
            a32_add_relaxed(&ready, 2);
        else
            a32_store_relaxed(&ready, 3);
        break;
    case 2:
        if (a32_load_acquire(&ready) == 3)
            atomic_note_read(&data[0]);
        break;
    }
}

static void test_release_sequence(void)
{
    struct explore_scenario s = { "release sequence", 3, words_setup, sequence_thread, NULL };

    expect_verdict(s, SEQUENCE_RMW, &all_schedules, EXPLORE_PASSED);
    expect_verdict(s, SEQUENCE_STORE, &few_preemptions, EXPLORE_RACE);
}

/* Counting down: the thread that counts last owns what all threads wrote. */

static void countdown_setup(void)
{
    words_setup();
    a32_store_relaxed(&ready, 3);
}

static void countdown_thread(int id)
{
    bool is_last;

    atomic_note_write(&data[id]);
    data[id] = 1;
    is_last =
        variant == 0 ? a32_sub_acq_rel(&ready, 1) == 1 : a32_add_relaxed(&ready, UINT32_MAX) == 1;
    if (!is_last)
        return;
    for (int i = 0; i < 3; i++) {
        atomic_note_read(&data[i]);
        explore_assert(data[i] == 1);
    }
}

static void test_countdown(void)
{
    struct explore_scenario s = { "countdown", 3, countdown_setup, countdown_thread, NULL };

    expect_verdict(s, 0, &all_schedules, EXPLORE_PASSED);
    expect_verdict(s, 1, &few_preemptions, EXPLORE_RACE);
}

/* Treiber stack: push by compare-and-swap, pop all by a swap. */

enum { STACK_CORRECT, STACK_SWAP_RELAXED, STACK_PUSH_RELAXED };

struct node {
    struct node *next;
    uint32_t value;
};

static struct aptr top;
static struct node nodes[2];
static uint32_t popped_sum;

static void stack_setup(void)
{
    aptr_store_relaxed(&top, NULL);
    memset(nodes, 0, sizeof(nodes));
    popped_sum = 0;
}

static void stack_push(struct node *n, uint32_t value)
{
    void *old = aptr_load_relaxed(&top);
    bool is_pushed;

    n->value = value;
    do {
        atomic_note_write(n);
        n->next = old;
        is_pushed = variant == STACK_PUSH_RELAXED ? weak_aptr_cas_relaxed(&top, &old, n)
                                                  : aptr_cas_acq_rel(&top, &old, n);
    } while (!is_pushed);
}

static void stack_pop_all(void)
{
    struct node *n = variant == STACK_SWAP_RELAXED ? weak_aptr_swap_relaxed(&top, NULL)
                                                   : aptr_swap_acq_rel(&top, NULL);

    for (; n != NULL; n = n->next) {
        atomic_note_read(n);
        popped_sum += n->value;
    }
}

static void stack_thread(int id)
{
    if (id < 2) {
        stack_push(&nodes[id], 10u + (uint32_t)id);
        return;
    }
    stack_pop_all();
    stack_pop_all();
}

static void stack_check(void)
{
    for (struct node *n = aptr_swap_acq_rel(&top, NULL); n != NULL; n = n->next)
        popped_sum += n->value;
    explore_assert(popped_sum == 21);
}

static void test_treiber_stack(void)
{
    struct explore_scenario s = { "treiber stack", 3, stack_setup, stack_thread, stack_check };

    expect_verdict(s, STACK_CORRECT, &all_schedules, EXPLORE_PASSED);
    expect_verdict(s, STACK_SWAP_RELAXED, &few_preemptions, EXPLORE_RACE);
    expect_verdict(s, STACK_PUSH_RELAXED, &few_preemptions, EXPLORE_RACE);
}

/* Deadlock: two locks in opposite order, blocked without spinning. */

static bool is_zero(void *word)
{
    return explore_peek32(word) == 0;
}

static void lock_blocking(struct a32 *word)
{
    uint32_t expected = 0;

    while (!a32_cas_acq_rel(word, &expected, 1)) {
        expected = 0;
        explore_wait_until(is_zero, word);
    }
}

static void two_locks_thread(int id)
{
    struct a32 *first = id == 0 || variant == 0 ? &ready : &other_word;
    struct a32 *second = first == &ready ? &other_word : &ready;

    lock_blocking(first);
    lock_blocking(second);
    a32_store_release(second, 0);
    a32_store_release(first, 0);
}

static void test_deadlock(void)
{
    struct explore_scenario s = { "two locks", 2, words_setup, two_locks_thread, NULL };

    expect_verdict(s, 0, &all_schedules, EXPLORE_PASSED);
    expect_verdict(s, 1, &few_preemptions, EXPLORE_DEADLOCK);
}

/* Livelock: a spin on a word that nobody writes. */

static void spin_forever_thread(int id)
{
    if (id == variant)
        return;
    while (a32_load_acquire(&ready) == 0)
        explore_spin();
}

static void test_livelock(void)
{
    struct explore_scenario s = { "spin forever", 3, words_setup, spin_forever_thread, NULL };

    expect_verdict(s, 1, &few_preemptions, EXPLORE_LIVELOCK);
}

/* Many spinners wait for one writer; the search stays finite and nobody starves. */

static void spinners_thread(int id)
{
    if (id == 3) {
        a32_store_release(&ready, 1);
        a32_store_release(&ready, 2);
        return;
    }
    while (a32_load_acquire(&ready) != 2)
        explore_spin();
}

static void test_spinners(void)
{
    struct explore_scenario s = { "spinners", 4, words_setup, spinners_thread, NULL };

    expect_verdict(s, 0, &few_preemptions, EXPLORE_PASSED);
}

/* Lost wake-up: the sleeper's check and its sleep against the waker's store and its wake. */

enum { SLEEP_CORRECT, SLEEP_NO_CHANGE, SLEEP_DEKKER, SLEEP_DEKKER_NO_FENCE, SLEEP_DEKKER_LIGHT };

static void sleep_by_sequence(void)
{
    for (;;) {
        uint32_t sequence = a32_load_acquire(&other_word);

        if (a32_load_acquire(&ready) != 0)
            return;
        explore_futex_wait(&other_word, sequence);
    }
}

static void wake_by_sequence(void)
{
    a32_store_release(&ready, 1);
    if (variant == SLEEP_CORRECT)
        a32_add_acq_rel(&other_word, 1);
    explore_futex_wake(&other_word, 1);
}

/* The waker skips the system call unless a thread has announced that it sleeps. */
static void sleep_by_flag(void)
{
    while (a32_load_acquire(&ready) == 0) {
        a32_store_relaxed(&other_word, 1);
        if (variant == SLEEP_DEKKER)
            fence_full();
        if (variant == SLEEP_DEKKER_LIGHT)
            explore_fence_all();
        if (a32_load_acquire(&ready) != 0)
            return;
        explore_futex_wait(&other_word, 1);
    }
}

static void wake_by_flag(void)
{
    a32_store_release(&ready, 1);
    if (variant == SLEEP_DEKKER)
        fence_full();
    if (variant == SLEEP_DEKKER_LIGHT)
        fence_light();
    if (a32_load_relaxed(&other_word) == 0)
        return;
    a32_store_relaxed(&other_word, 0);
    explore_futex_wake(&other_word, 1);
}

static void sleep_thread(int id)
{
    bool is_by_flag = variant >= SLEEP_DEKKER;

    if (id == 0 && is_by_flag)
        sleep_by_flag();
    else if (id == 0)
        sleep_by_sequence();
    else if (is_by_flag)
        wake_by_flag();
    else
        wake_by_sequence();
}

static void test_sleep(void)
{
    struct explore_scenario s = { "sleep", 2, words_setup, sleep_thread, NULL };

    expect_verdict(s, SLEEP_CORRECT, &all_schedules, EXPLORE_PASSED);
    expect_verdict(s, SLEEP_NO_CHANGE, &few_preemptions, EXPLORE_DEADLOCK);
    expect_verdict(s, SLEEP_DEKKER, &all_schedules, EXPLORE_PASSED);
    expect_verdict(s, SLEEP_DEKKER_LIGHT, &all_schedules, EXPLORE_PASSED);
    expect_verdict(s, SLEEP_DEKKER_NO_FENCE, &few_preemptions, EXPLORE_DEADLOCK);
}

/* A thread sleeps after a bounded spin, which ends early only if idle rounds are allowed. */

static void spin_then_sleep_thread(int id)
{
    if (id == 1) {
        wake_by_sequence();
        return;
    }
    for (int i = 0; i < 2; i++) {
        if (a32_load_acquire(&ready) != 0)
            return;
        explore_spin();
    }
    sleep_by_sequence();
}

static void test_spin_then_sleep(void)
{
    struct explore_scenario s = { "spin, then sleep", 2, words_setup, spin_then_sleep_thread,
                                  NULL };
    struct explore_limits limits = few_preemptions;

    limits.preemption_max = 3;
    variant = SLEEP_NO_CHANGE;
    explore_run(&s, &limits);
    expect(explore_last()->verdict == EXPLORE_PASSED, s.name, "not reached without idle rounds");
    limits.idle_spin_max = 2;
    explore_run(&s, &limits);
    expect(explore_last()->verdict == EXPLORE_DEADLOCK, s.name, "found with idle rounds");
    variant = SLEEP_CORRECT;
    explore_run(&s, &limits);
    expect(explore_last()->verdict == EXPLORE_PASSED && explore_last()->is_exhausted, s.name,
           "correct one passes");
}

/* A queue as in the engine, three times: unchanged, with R1 relaxed, with R2 relaxed. */

enum {
    SPSC_SIZE = 2,
    SPSC_MASK = SPSC_SIZE - 1,
    SPSC_VALUES = 4,
};

struct spsc {
    alignas(64) struct a32 tail;
    alignas(64) struct a32 head;
    alignas(64) uint32_t slot[SPSC_SIZE];
};

static struct spsc queue;

#define DEFINE_SPSC(name, store_r1, store_r2)                   \
    static bool name##_push(struct spsc *q, uint32_t value)     \
    {                                                           \
        uint32_t tail = a32_load_relaxed(&q->tail);             \
        uint32_t head = a32_load_acquire(&q->head);             \
                                                                \
        assert(tail - head <= SPSC_SIZE);                       \
        if (tail - head == SPSC_SIZE)                           \
            return false;                                       \
        atomic_note_write(&q->slot[tail & SPSC_MASK]);          \
        q->slot[tail & SPSC_MASK] = value;                      \
        store_r1(&q->tail, tail + 1);                           \
        return true;                                            \
    }                                                           \
                                                                \
    static bool name##_pop(struct spsc *q, uint32_t *value_out) \
    {                                                           \
        uint32_t head = a32_load_relaxed(&q->head);             \
        uint32_t tail = a32_load_acquire(&q->tail);             \
                                                                \
        if (tail == head)                                       \
            return false;                                       \
        atomic_note_read(&q->slot[head & SPSC_MASK]);           \
        *value_out = q->slot[head & SPSC_MASK];                 \
        store_r2(&q->head, head + 1);                           \
        return true;                                            \
    }                                                           \
                                                                \
    static void name##_thread(int id)                           \
    {                                                           \
        uint32_t got;                                           \
                                                                \
        for (uint32_t i = 0; i < SPSC_VALUES; i++) {            \
            if (id == 0) {                                      \
                while (!name##_push(&queue, i))                 \
                    explore_spin();                             \
            } else {                                            \
                while (!name##_pop(&queue, &got))               \
                    explore_spin();                             \
                explore_assert(got == i);                       \
            }                                                   \
        }                                                       \
    }

DEFINE_SPSC(spsc, a32_store_release, a32_store_release)
DEFINE_SPSC(spsc_weak_r1, a32_store_relaxed, a32_store_release)
DEFINE_SPSC(spsc_weak_r2, a32_store_release, a32_store_relaxed)

static void spsc_setup(void)
{
    memset(&queue, 0, sizeof(queue));
}

static void test_spsc(void)
{
    struct explore_scenario s = { "spsc", 2, spsc_setup, spsc_thread, NULL };

    expect_verdict(s, 0, &few_preemptions, EXPLORE_PASSED);
    s = (struct explore_scenario){ "spsc, R1 relaxed", 2, spsc_setup, spsc_weak_r1_thread, NULL };
    expect_verdict(s, 0, &few_preemptions, EXPLORE_RACE);
    s = (struct explore_scenario){ "spsc, R2 relaxed", 2, spsc_setup, spsc_weak_r2_thread, NULL };
    expect_verdict(s, 0, &few_preemptions, EXPLORE_RACE);
}

/* Every choice of data is tried; assertions of the C library are caught like the explorer's own. */

static uint32_t chosen_set;

static void choose_thread_body(int id)
{
    uint32_t chosen = explore_choose(5);

    chosen_set |= 1u << chosen;
    assert(variant == 0 || id == 0 || chosen != 4);
}

static void test_choose(void)
{
    struct explore_scenario s = { "choose", 2, NULL, choose_thread_body, NULL };

    chosen_set = 0;
    expect_verdict(s, 0, &all_schedules, EXPLORE_PASSED);
    expect(chosen_set == 0x1f, s.name, "all values");
    expect_verdict(s, 1, &all_schedules, EXPLORE_ASSERT);
}

/* A scenario that differs from run to run is refused, not misjudged. */

static void forgetful_thread(int id)
{
    static uint32_t run_count;

    (void)id;
    if (run_count++ % 4 == 0)
        return;
    a32_load_relaxed(&ready);
    a32_load_relaxed(&ready);
}

static void test_misuse(void)
{
    struct explore_scenario s = { "forgetful", 3, words_setup, forgetful_thread, NULL };

    explore_run(&s, &all_schedules);
    expect(explore_last()->verdict == EXPLORE_MISUSE, s.name, "verdict");
}

/* Outside of threads every operation of the header accesses memory directly. */
static void test_direct(void)
{
    struct a32 a = { 5 };
    struct a64 b = { 0 };
    struct aptr p = { NULL };
    uint32_t expected = 7;
    void *old = &a;

    expect(!a32_cas_acq_rel(&a, &expected, 1) && expected == 5, "direct", "failing cas");
    expect(a32_cas_relaxed(&a, &expected, 0) && a32_sub_acq_rel(&a, 1) == 0, "direct", "cas, sub");
    expect(a32_add_acq_rel(&a, 2) == UINT32_MAX && a32_swap_acq_rel(&a, 9) == 1, "direct", "wraps");
    a64_store_relaxed(&b, UINT64_MAX);
    a64_store_relaxed(&b, a64_load_relaxed(&b) - 1);
    expect(a64_load_relaxed(&b) == UINT64_MAX - 1 && explore_peek64(&b) == b.v, "direct", "64 bit");
    expect(!aptr_cas_acq_rel(&p, &old, &b) && old == NULL, "direct", "failing pointer cas");
    expect(aptr_cas_acq_rel(&p, &old, &b) && aptr_load_acquire(&p) == &b, "direct", "pointer cas");
    aptr_store_relaxed(&p, &a);
    expect(aptr_swap_acq_rel(&p, NULL) == &a && explore_peekptr(&p) == NULL, "direct", "swap");
    fence_full();
    fence_light();
    expect(!explore_in_thread(), "direct", "no thread");
}

/*
 * Small random programs: the outcomes that the explorer meets are exactly those
 * of a direct enumeration of the store buffer model, with a flush at any moment.
 */

enum {
    LITMUS_THREADS = 3,
    LITMUS_OPS = 4, /* maximum number per thread */
    LITMUS_WORDS = 2,
    LITMUS_PROGRAMS = 60,
    OUTCOME_MAX = 4096,
};

enum litmus_kind { LITMUS_LOAD, LITMUS_STORE, LITMUS_FENCE, LITMUS_SWAP, LITMUS_FENCE_ALL };

struct litmus_op {
    enum litmus_kind kind;
    uint32_t word;
    uint32_t value;
};

struct litmus_state {
    int pc[LITMUS_THREADS];
    uint32_t word[LITMUS_WORDS];
    uint32_t loaded[LITMUS_THREADS][LITMUS_OPS];
    struct litmus_op buffer[LITMUS_THREADS][LITMUS_OPS];
    int buffered[LITMUS_THREADS];
};

struct outcomes {
    uint64_t key[OUTCOME_MAX];
    uint32_t count;
};

static struct litmus_op litmus[LITMUS_THREADS][LITMUS_OPS];
static int litmus_threads;
static int litmus_ops;
static struct a32 litmus_word[LITMUS_WORDS];
static struct litmus_state litmus_run;
static struct outcomes explored;
static struct outcomes enumerated;

static void outcomes_add(struct outcomes *o, const struct litmus_state *s)
{
    uint64_t key = s->word[0] << 4 | s->word[1];

    for (int t = 0; t < litmus_threads; t++) {
        for (int i = 0; i < litmus_ops; i++)
            key = key << 4 | s->loaded[t][i];
    }
    for (uint32_t i = 0; i < o->count; i++) {
        if (o->key[i] == key)
            return;
    }
    assert(o->count < OUTCOME_MAX);
    o->key[o->count++] = key;
}

static bool outcomes_equal(const struct outcomes *a, const struct outcomes *b)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < a->count; i++) {
        for (uint32_t k = 0; k < b->count; k++)
            found += a->key[i] == b->key[k];
    }
    return found == a->count && a->count == b->count;
}

static void litmus_setup(void)
{
    memset(litmus_word, 0, sizeof(litmus_word));
    memset(&litmus_run, 0, sizeof(litmus_run));
}

static void litmus_thread(int id)
{
    for (int i = 0; i < litmus_ops; i++) {
        const struct litmus_op *op = &litmus[id][i];
        uint32_t *loaded = &litmus_run.loaded[id][i];

        switch (op->kind) {
        case LITMUS_LOAD:
            *loaded = a32_load_relaxed(&litmus_word[op->word]);
            break;
        case LITMUS_STORE:
            a32_store_relaxed(&litmus_word[op->word], op->value);
            break;
        case LITMUS_FENCE:
            fence_full();
            break;
        case LITMUS_SWAP:
            *loaded = a32_swap_acq_rel(&litmus_word[op->word], op->value);
            break;
        case LITMUS_FENCE_ALL:
            explore_fence_all();
            break;
        }
    }
}

static void litmus_check(void)
{
    for (int i = 0; i < LITMUS_WORDS; i++)
        litmus_run.word[i] = explore_peek32(&litmus_word[i]);
    outcomes_add(&explored, &litmus_run);
}

static void enumerate_flush(struct litmus_state *s, int t)
{
    s->word[s->buffer[t][0].word] = s->buffer[t][0].value;
    s->buffered[t]--;
    memmove(&s->buffer[t][0], &s->buffer[t][1], sizeof(s->buffer[t]) - sizeof(s->buffer[t][0]));
}

static void enumerate_op(struct litmus_state *s, int t)
{
    const struct litmus_op *op = &litmus[t][s->pc[t]];
    uint32_t *loaded = &s->loaded[t][s->pc[t]];

    s->pc[t]++;
    for (int i = 0; i < litmus_threads && op->kind == LITMUS_FENCE_ALL; i++) {
        while (s->buffered[i] > 0)
            enumerate_flush(s, i);
    }
    while (s->buffered[t] > 0 && op->kind != LITMUS_LOAD && op->kind != LITMUS_STORE)
        enumerate_flush(s, t);
    if (op->kind == LITMUS_STORE)
        s->buffer[t][s->buffered[t]++] = *op;
    if (op->kind == LITMUS_LOAD || op->kind == LITMUS_SWAP)
        *loaded = s->word[op->word];
    for (int i = 0; i < s->buffered[t] && op->kind == LITMUS_LOAD; i++) {
        if (s->buffer[t][i].word == op->word)
            *loaded = s->buffer[t][i].value;
    }
    if (op->kind == LITMUS_SWAP)
        s->word[op->word] = op->value;
}

static void enumerate(const struct litmus_state *s)
{
    bool is_end = true;

    for (int t = 0; t < litmus_threads; t++) {
        struct litmus_state next = *s;

        if (s->pc[t] < litmus_ops) {
            is_end = false;
            enumerate_op(&next, t);
            enumerate(&next);
        }
        if (s->buffered[t] > 0) {
            is_end = false;
            next = *s;
            enumerate_flush(&next, t);
            enumerate(&next);
        }
    }
    if (is_end)
        outcomes_add(&enumerated, s);
}

/*
 * Cases that random programs rarely have: a thread loads an old value and then a new one, between
 * two steps of the storing thread; and two buffered stores to one word.
 */
static const struct litmus_op litmus_known[][LITMUS_THREADS][LITMUS_OPS] = {
    {
        { { LITMUS_STORE, 0, 1 }, { LITMUS_LOAD, 1, 0 }, { LITMUS_LOAD, 1, 0 } },
        { { LITMUS_SWAP, 1, 1 },
          { LITMUS_LOAD, 0, 0 },
          { LITMUS_LOAD, 0, 0 },
          { LITMUS_STORE, 1, 2 } },
    },
    {
        { { LITMUS_STORE, 0, 1 },
          { LITMUS_LOAD, 1, 0 },
          { LITMUS_LOAD, 0, 0 },
          { LITMUS_LOAD, 1, 0 } },
        { { LITMUS_STORE, 0, 2 },
          { LITMUS_SWAP, 1, 1 },
          { LITMUS_LOAD, 0, 0 },
          { LITMUS_STORE, 1, 2 } },
    },
    {
        { { LITMUS_STORE, 0, 1 },
          { LITMUS_STORE, 1, 1 },
          { LITMUS_LOAD, 0, 0 },
          { LITMUS_LOAD, 1, 0 } },
        { { LITMUS_STORE, 1, 2 },
          { LITMUS_STORE, 0, 2 },
          { LITMUS_LOAD, 1, 0 },
          { LITMUS_LOAD, 0, 0 } },
    },
};

static void litmus_generate(uint32_t *seed)
{
    uint32_t value = 1;

    for (int t = 0; t < litmus_threads; t++) {
        for (int i = 0; i < litmus_ops; i++) {
            uint32_t kind;

            *seed = *seed * 1664525u + 1013904223u;
            kind = (*seed >> 16) % 16;
            litmus[t][i].kind = kind < 7    ? LITMUS_LOAD
                                : kind < 13 ? LITMUS_STORE
                                : kind < 14 ? LITMUS_FENCE
                                : kind < 15 ? LITMUS_SWAP
                                            : LITMUS_FENCE_ALL;
            litmus[t][i].word = (*seed >> 24) % LITMUS_WORDS;
            litmus[t][i].value = value++;
        }
    }
}

static void test_litmus(void)
{
    struct explore_scenario s = { "litmus", 0, litmus_setup, litmus_thread, litmus_check };
    struct litmus_state start;
    uint32_t seed = 1;
    int different = 0;

    for (int n = 0; n < LITMUS_PROGRAMS; n++) {
        litmus_threads = 2 + n % 2;
        litmus_ops = n % 2 == 0 ? 4 : 2;
        s.thread_count = litmus_threads;
        litmus_generate(&seed);
        if (n % 2 == 0 && n / 2 < (int)COUNT_OF(litmus_known))
            memcpy(litmus, litmus_known[n / 2], sizeof(litmus));
        explored.count = 0;
        enumerated.count = 0;
        memset(&start, 0, sizeof(start));
        enumerate(&start);
        explore_run(&s, &all_schedules);
        expect(explore_last()->is_exhausted, s.name, "exhausted");
        different += !outcomes_equal(&explored, &enumerated);
    }
    expect(different == 0, s.name, "same outcomes as the enumeration");
    if (different > 0)
        printf("%d of %d programs differ\n", different, LITMUS_PROGRAMS);
}

/* About sixty operations per execution; prints the speed, but checks only the result. */

static void throughput_thread(int id)
{
    (void)id;
    for (int i = 0; i < 5; i++) {
        uint32_t expected = 0;

        while (!a32_cas_acq_rel(&ready, &expected, 1)) {
            expected = 0;
            explore_spin();
        }
        atomic_note_write(&data[0]);
        a32_store_relaxed(&other_word, a32_load_relaxed(&other_word) + 1);
        a32_store_release(&ready, 0);
    }
}

static void throughput_check(void)
{
    explore_assert(a32_load_relaxed(&other_word) == 10);
}

static void test_throughput(void)
{
    struct explore_scenario s = { "throughput", 2, words_setup, throughput_thread,
                                  throughput_check };
    struct explore_limits limits = {
        .preemption_max = 3,
        .delay_max = 1,
        .execution_max = 200000,
    };

    explore_run(&s, &limits);
    expect(explore_last()->verdict == EXPLORE_PASSED, s.name, "verdict");
}

int main(void)
{
    static void (*const tests[])(void) = {
        test_direct,          test_interleavings_are_counted,
        test_dekker,          test_dekker_without_delays,
        test_message_passing, test_unordered_notes,
        test_spinlock,        test_release_sequence,
        test_countdown,       test_treiber_stack,
        test_deadlock,        test_livelock,
        test_spinners,        test_sleep,
        test_spin_then_sleep, test_spsc,
        test_choose,          test_misuse,
        test_litmus,          test_throughput,
    };

    for (size_t i = 0; i < COUNT_OF(tests); i++)
        tests[i]();
    printf("%d passed, %d failed\n", passed_count, failed_count);
    return failed_count == 0 ? 0 : 1;
}
