/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * Requests and answers of any length: they arrive completely although the stream is shorter, and of
 * invalid sequences of records nothing is copied beyond the received bytes.
 */
#include <pthread.h>

#include "tests/fixture/fixture.h"
#include "link/payload.h"

enum { KIND = RECORD_PAD + 1, KINDS };

static struct stream streams[2];
static struct waker wakers[2];
static struct line here, there;
static struct spin_policy policy;
static const struct payload_wait forever = { payload_await, &policy };

static int no_wait(void *context, struct line *l, bool for_room)
{
    (void)context;
    (void)l;
    (void)for_room;
    return PTO_ETIMEOUT;
}

static const struct payload_wait never = { no_wait, NULL };

static void begin(void)
{
    const struct line_ends ends = { &streams[0], &streams[1], &wakers[0], &wakers[1] };
    const struct line_ends others = { &streams[1], &streams[0], &wakers[1], &wakers[0] };

    memset(wakers, 0, sizeof(wakers));
    line_reset(&ends);
    line_open(&here, &ends, 1, KINDS);
    line_open(&there, &others, 1, KINDS);
}

static void pieces_are_taken_as_they_were_put(void **state)
{
    struct payload p = { 0 };
    uint32_t number = 7, taken;

    (void)state;
    payload_put(&p, &number, sizeof(number));
    payload_put_text(&p, "text");
    payload_put_text(&p, NULL);
    payload_take_to(&p, &taken, sizeof(taken));
    assert_int_equal(taken, 7);
    assert_string_equal(payload_take_text(&p), "text");
    assert_null(payload_take_text(&p));
    assert_false(p.is_short);
    assert_null(payload_take(&p, 1));
    assert_true(p.is_short);
    payload_clear(&p);
    payload_put(&p, &(uint64_t){ UINT64_MAX }, 8); /* an impossible length */
    assert_null(payload_take_text(&p));
    payload_free(&p);
}

/* Sends back what it receives. */
static void *echo(void *context)
{
    struct payload p = { 0 };
    struct record_head head;

    (void)context;
    do {
        EXPECT(payload_receive(&there, &head, &p, &forever) == PTO_OK);
        EXPECT(payload_send(&there, head, &p, &forever) == PTO_OK);
    } while (head.value != 0);
    payload_free(&p);
    return NULL;
}

static void any_length_arrives_whole(void **state)
{
    static const size_t sizes[] = { 0,       8, RECORD_BODY_MAX, RECORD_BODY_MAX + 8, CHANNEL_BYTES,
                                    3u << 20 };
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    struct payload out = { 0 }, in = { 0 };
    pthread_t thread;

    (void)state;
    begin();
    assert_int_equal(pthread_create(&thread, NULL, echo, NULL), 0);
    for (uint64_t i = 0; i < COUNT; i++) {
        const struct record_head head = { .kind = KIND, .key = i, .value = COUNT - 1 - i };
        struct record_head answer;

        payload_clear(&out);
        for (uint64_t k = 0; k < sizes[i] / 8; k++)
            payload_put(&out, &k, sizeof(k));
        assert_int_equal(payload_send(&here, head, &out, &forever), PTO_OK);
        assert_int_equal(payload_receive(&here, &answer, &in, &forever), PTO_OK);
        assert_int_equal(answer.key, i);
        assert_int_equal(in.size, sizes[i]);
        assert_memory_equal(in.size != 0 ? in.at : "", out.size != 0 ? out.at : "", in.size);
    }
    pthread_join(thread, NULL);
    assert_nothing_unexpected();
    payload_free(&out);
    payload_free(&in);
}

/* Records that are valid individually; sanitizers detect bytes that are copied in excess. */
static void other_sequences_are_refused(void **state)
{
    unsigned seed = 5;
    uint32_t refused = 0, whole = 0;
    struct payload in = { 0 };

    (void)state;
    for (int round = 0; round < 20000; round++) {
        static unsigned char body[RECORD_BODY_MAX];
        struct record_head head;
        int status;

        begin();
        for (int i = 0; i < 3; i++) {
            uint32_t r = (uint32_t)rand_r(&seed);
            const struct record_head forged = { .kind = KIND,
                                                .key = r % 8 == 0,
                                                .message_bytes = r % 16 == 1 ? UINT64_MAX
                                                                 : r % 16 == 2
                                                                     ? PAYLOAD_BYTES_MAX + 1
                                                                 : r % 16 == 3 ? 0
                                                                               : 6000 };

            (void)line_send(&there, &forged,
                            &(struct record_part){ body, r % 5 == 0 ? 0 : 2000 + r % 3 * 1000 }, 1);
        }
        status = payload_receive(&here, &head, &in, &never);
        refused += status == PTO_EFORMAT;
        whole += status == PTO_OK;
        assert_true(status == PTO_OK ? in.size == head.message_bytes && in.size <= 6000
                                     : in.size <= 9000);
    }
    assert_true(refused > 1000 && whole > 1000);
    payload_free(&in);
}

/* The reader says that it has read what was not written. */
static void a_reader_that_lies_ends_the_sending(void **state)
{
    struct payload out = { 0 };

    (void)state;
    begin();
    for (uint64_t k = 0; k < CHANNEL_BYTES / 4; k++)
        payload_put(&out, &k, sizeof(k));
    a64_store_release(&streams[0].head, 1ull << 40);
    assert_int_equal(payload_send(&here, (struct record_head){ .kind = KIND }, &out, &forever),
                     PTO_EFORMAT);
    payload_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_taken_as_they_were_put),
        cmocka_unit_test(any_length_arrives_whole),
        cmocka_unit_test(other_sequences_are_refused),
        cmocka_unit_test(a_reader_that_lies_ends_the_sending),
    };

    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
