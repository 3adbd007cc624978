/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * Streams of records: records arrive completely and in order, a full stream refuses records, and
 * whatever is written into its memory, a reader copies nothing outside of it and stops.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>

#include "tests/fixture/fixture.h"
#include "base/waker.h"
#include "link/channel.h"

enum { ANY_KIND = RECORD_PAD + 1, KINDS };

static struct stream stream;
static struct channel writer, reader;
static struct record record;

static void begin(void)
{
    memset(&stream, 0, sizeof(stream));
    channel_init(&writer, &stream, 3, KINDS);
    channel_init(&reader, &stream, 3, KINDS);
}

static bool send(uint64_t key, uint32_t bytes)
{
    static unsigned char body[RECORD_BODY_MAX];
    const struct record_head head = { .kind = ANY_KIND, .key = key };
    const struct record_part part[2] = { { body, bytes / 2 }, { body, bytes - bytes / 2 } };

    memset(body, (int)key, sizeof(body));
    return channel_write(&writer, &head, part, 2);
}

static void assert_received(uint64_t key, uint32_t bytes)
{
    assert_int_equal(channel_read(&reader, &record), CHANNEL_RECORD);
    assert_int_equal(record.head.key, key);
    assert_int_equal(record.head.body_bytes, bytes);
    for (uint32_t i = 0; i < bytes; i++)
        assert_int_equal(record.body[i], (unsigned char)key);
}

static void records_arrive_in_order_around_the_end(void **state)
{
    unsigned seed = 7;

    (void)state;
    begin();
    for (uint64_t key = 1; key < 5000;) {
        uint32_t sizes[8];
        uint32_t count = 1 + (uint32_t)rand_r(&seed) % 8;

        for (uint32_t i = 0; i < count; i++) {
            sizes[i] = (uint32_t)rand_r(&seed) % (RECORD_BODY_MAX + 1);
            assert_true(send(key + i, sizes[i]));
        }
        for (uint32_t i = 0; i < count; i++)
            assert_received(key + i, sizes[i]);
        assert_int_equal(channel_read(&reader, &record), CHANNEL_EMPTY);
        key += count;
    }
}

static void a_full_stream_refuses(void **state)
{
    uint64_t sent = 0;

    (void)state;
    begin();
    while (send(sent, 1000))
        sent++;
    assert_true(sent > 50);
    assert_received(0, 1000);
    while (!send(sent, 1000)) /* at the end of the ring, padding needs more room than the record */
        assert_int_equal(channel_read(&reader, &record), CHANNEL_RECORD);
    while (channel_read(&reader, &record) == CHANNEL_RECORD) {
    }
    assert_int_equal(record.head.key, sent);
}

static void another_generation_is_not_read(void **state)
{
    (void)state;
    begin();
    writer.generation = 2;
    assert_true(send(1, 8));
    assert_int_equal(channel_read(&reader, &record), CHANNEL_BROKEN);
    begin();
    writer.number = 5;
    assert_true(send(1, 8));
    assert_int_equal(channel_read(&reader, &record), CHANNEL_BROKEN);
}

static void what_is_not_read_can_be_taken_back(void **state)
{
    uint64_t position[3];

    (void)state;
    begin();
    reader.has_claims = true;
    for (uint64_t key = 0; key < 3; key++) {
        assert_true(send(key, 100));
        position[key] = writer.last;
    }
    assert_received(0, 100);
    assert_false(channel_take_back(&writer, position[0]));
    assert_true(channel_take_back(&writer, position[1]));
    assert_false(channel_take_back(&writer, position[1]));
    assert_received(2, 100);
    assert_int_equal(channel_read(&reader, &record), CHANNEL_EMPTY);
    /* other records are at the position of the first one */
    for (uint64_t key = 3; key < 1000; key++) {
        assert_true(send(key, 1000));
        assert_false(channel_take_back(&writer, position[0]));
        assert_received(key, 1000);
    }
}

/* Sanitizers detect reads beyond the stream and writes beyond the record. */
static void nonsense_is_not_believed(void **state)
{
    unsigned seed = 11;
    uint32_t broken = 0, whole = 0;

    (void)state;
    for (int round = 0; round < 200000; round++) {
        unsigned char *at = stream.bytes;
        uint32_t flips = 1 + (uint32_t)rand_r(&seed) % 3;
        enum channel_result result;
        uint32_t count = 0;

        if (round % 64 == 0)
            memset(stream.bytes, 0, sizeof(stream.bytes));
        channel_init(&writer, &stream, 3, KINDS);
        channel_init(&reader, &stream, 3, KINDS);
        reader.has_claims = round % 2 != 0;
        stream.head.v = stream.tail.v = 0;
        for (uint64_t i = 0; i < 4; i++)
            (void)send(i, (uint32_t)rand_r(&seed) % 300);
        for (uint32_t i = 0; i < flips; i++) {
            at = stream.bytes + (uint32_t)rand_r(&seed) % 512;
            *at = (unsigned char)rand_r(&seed);
        }
        if (rand_r(&seed) % 8 == 0)
            stream.tail.v = (uint64_t)rand_r(&seed) << (rand_r(&seed) % 33);
        while ((result = channel_read(&reader, &record)) == CHANNEL_RECORD) {
            assert_true(record.head.body_bytes <= RECORD_BODY_MAX);
            assert_true(++count <= CHANNEL_BYTES / CHANNEL_UNIT);
        }
        broken += result == CHANNEL_BROKEN;
        whole += result == CHANNEL_EMPTY;
    }
    assert_true(broken > 1000 && whole > 1000);
}

/* ---- wakers, and streams between threads ---- */

enum { MESSAGES = IS_SANITIZED ? 8000 : 200000 };

static struct waker waker[2]; /* of the writer, of the reader */

static bool await_holds(struct waker *w, bool (*holds)(void *context), struct spin_policy policy,
                        uint64_t deadline_ns)
{
    return waker_await(w, &(struct waker_wait){
                              .holds = holds, .policy = policy, .deadline_ns = deadline_ns }) >= 0;
}

static uint32_t sleeps_of(const struct waker *w)
{
    return a32_load_acquire(&w->sleepers) / WAKER_ANNOUNCED;
}

static bool can_send(void *context)
{
    (void)context;
    return channel_has_room(&writer, 256);
}

static bool can_receive(void *context)
{
    (void)context;
    return !channel_is_empty(&reader);
}

static void *write_all(void *context)
{
    const struct spin_policy none = { 0 }; /* sleeps at once */

    (void)context;
    for (uint64_t i = 0; i < MESSAGES; i++) {
        if (!await_holds(&waker[0], can_send, none, now_ns() + 60000 * MS)) {
            EXPECT(!"a minute without room");
            return NULL;
        }
        EXPECT(send(i, i % 256));
        waker_wake(&waker[1]);
    }
    return NULL;
}

static void no_thread_sleeps_through_a_wake(void **state)
{
    const struct spin_policy none = { 0 };
    pthread_t thread;

    (void)state;
    begin();
    assert_int_equal(pthread_create(&thread, NULL, write_all, NULL), 0);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        assert_true(await_holds(&waker[1], can_receive, none, now_ns() + 60000 * MS));
        assert_received(i, i % 256);
        waker_wake(&waker[0]);
    }
    pthread_join(thread, NULL);
    assert_nothing_unexpected();
    assert_false(await_holds(&waker[1], can_receive, none, now_ns() + MS));
}

/* Wakes the other side when it sleeps or, if it does not fall asleep, after some time. */
static void *wake_once(void *context)
{
    const bool *sleeps = context;
    uint64_t later = now_ns() + MS;

    while (*sleeps ? sleeps_of(&waker[1]) == 0 : now_ns() < later)
        sched_yield();
    EXPECT(send(1, 0));
    waker_wake(&waker[1]);
    return NULL;
}

static void await_one(struct spin_policy policy, bool sleeps)
{
    pthread_t thread;

    begin();
    assert_int_equal(pthread_create(&thread, NULL, wake_once, &sleeps), 0);
    assert_true(await_holds(&waker[1], can_receive, policy, now_ns() + 60000 * MS));
    pthread_join(thread, NULL);
    assert_nothing_unexpected();
    assert_received(1, 0);
}

static void whoever_slept_for_a_moment_stays_awake_for_one(void **state)
{
    const struct spin_policy long_one = { .yield_ns_max = 4000000000 },
                             short_one = { .yield_ns_max = 1 };

    (void)state;
    memset(waker, 0, sizeof(waker));
    await_one(long_one, true);
    assert_int_equal(sleeps_of(&waker[1]), 1);
    assert_true(a32_load_acquire(&waker[1].wait_ns) > 0); /* duration of that wait */
    a32_store_relaxed(&waker[1].wait_ns, 3000000000);     /* as if the wait had taken long */
    await_one(long_one, false);
    assert_int_equal(sleeps_of(&waker[1]), 1); /* the next wait did not sleep */
    a32_store_relaxed(&waker[1].sleepers, 0);
    await_one(short_one,
              true); /* whatever value is stored, the next wait does not spin longer than allowed */
    assert_int_equal(a32_load_acquire(&waker[1].wait_ns), 0); /* and forgets */
}

/* ---- claims ---- */

enum { CLAIMED = MESSAGES / 20 };

static unsigned char had[CLAIMED];

static void *write_and_take_back(void *context)
{
    uint64_t *taken = context, position[4] = { 0 };

    for (uint64_t i = 0; i < CLAIMED; i++) {
        while (!channel_has_room(&writer, 64) ||
               (i % 8 == 0 && a64_load_acquire(&stream.head) != a64_load_acquire(&stream.tail)))
            sched_yield(); /* the reader keeps up, so both sides use the same memory */
        EXPECT(send(i, 8));
        position[i % 4] = writer.last;
        if (i >= 3 && i % 2 != 0 && channel_take_back(&writer, position[(i - 1) % 4])) {
            __atomic_fetch_add(&had[i - 1], 1, __ATOMIC_RELAXED);
            ++*taken;
        }
    }
    return NULL;
}

static void a_record_has_one_owner(void **state)
{
    uint64_t taken = 0, end = now_ns() + 240000 * MS, last = 0;
    pthread_t thread;

    (void)state;
    begin();
    reader.has_claims = true;
    assert_int_equal(pthread_create(&thread, NULL, write_and_take_back, &taken), 0);
    do {
        if (channel_read(&reader, &record) == CHANNEL_RECORD) {
            last = record.head.key;
            __atomic_fetch_add(&had[last], 1, __ATOMIC_RELAXED);
        } else {
            sched_yield(); /* on a machine with few CPUs the writer waits for this thread */
        }
        assert_true(now_ns() < end);
    } while (last != CLAIMED - 1); /* bytes that no reader releases */
    pthread_join(thread, NULL);
    assert_nothing_unexpected();
    for (uint64_t i = 0; i < CLAIMED; i++)
        assert_int_equal(had[i], 1);
    print_message("%llu of %d taken back\n", (unsigned long long)taken, CLAIMED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_arrive_in_order_around_the_end),
        cmocka_unit_test(a_full_stream_refuses),
        cmocka_unit_test(another_generation_is_not_read),
        cmocka_unit_test(nonsense_is_not_believed),
        cmocka_unit_test(no_thread_sleeps_through_a_wake),
        cmocka_unit_test(whoever_slept_for_a_moment_stays_awake_for_one),
        cmocka_unit_test(what_is_not_read_can_be_taken_back),
        cmocka_unit_test(a_record_has_one_owner),
    };

    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
