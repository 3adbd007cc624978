/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker and its children: streams of records and the wakers of their readers, with
 * src/link/channel.c and src/base/waker.c unchanged. A stream has room for two records, so a third
 * one needs the room of the first. There is no time here: a wait that no thread ends is a deadlock.
 *
 * Memory whose order is checked has notes: the room of a record in a stream, when it is written and
 * read.
 */
#include <assert.h>

#include "overtaken.h"
#include "scenario_list.h"
#include "weak.h"

/* The struct keeps its size; the code uses the small number. */
#define CHANNEL_BYTES CHANNEL_BYTES_ROOM
#include "link/channel.h"
#undef CHANNEL_BYTES

enum { CHANNEL_BYTES = 2 * CHANNEL_UNIT, STREAMS = 2 };

static struct stream stream[STREAMS];

static bool is_shared(const void *at)
{
    return at >= (const void *)stream && at < (const void *)(stream + STREAMS);
}

/* The beginning stands for the whole record. */
static void *noted_copy(void *to, const void *from, size_t bytes)
{
    if (bytes != 0 && is_shared(to) && explore_in_thread())
        atomic_note_write(to);
    if (bytes != 0 && is_shared(from) && explore_in_thread())
        atomic_note_read(from);
    return memmove(to, from, bytes);
}

#define memcpy(to, from, bytes) noted_copy(to, from, bytes)
#undef static_assert
#define static_assert(condition, text) _Static_assert(1, text)
#include "link/channel.c"
#undef memcpy
#define a32_cas_relaxed(a, expected, v) model_cas(a, expected, v)
#include "base/waker.c"
#undef a32_cas_relaxed

/* ---- stand-ins for the system ---- */

uint64_t os_now_ns(void)
{
    return 1;
}

uint32_t os_machine_cpu_count(void)
{
    return 1;
}

void os_yield(void)
{
}

bool os_wait_shared(struct a32 *word, uint32_t expected, uint64_t deadline_ns)
{
    (void)deadline_ns;
    return explore_futex_wait(word, expected);
}

void os_wake_shared(struct a32 *word, uint32_t count)
{
    explore_futex_wake(word, count);
}

/* ---- both ends ---- */

enum { ANY_KIND = RECORD_PAD + 1, KINDS };

static struct channel writer[STREAMS], reader[STREAMS];
static struct waker waker[2]; /* of the writers, of the reader */
static uint64_t received[STREAMS], taken_back;
static uint32_t records;

static void start(uint32_t count, uint32_t overtaken)
{
    memset(stream, 0, sizeof(stream));
    memset(waker, 0, sizeof(waker));
    for (uint32_t i = 0; i < STREAMS; i++) {
        channel_init(&writer[i], &stream[i], 1, KINDS);
        channel_init(&reader[i], &stream[i], 1, KINDS);
        received[i] = 0;
    }
    records = count;
    taken_back = 0;
    overtaken_word = &waker[overtaken].sleepers;
}

/* Waits sleep at once, because spinning has no effect on memory order. */
static void await(struct waker *w, bool (*holds)(void *context), void *context)
{
    (void)waker_await(
        w, &(struct waker_wait){ .holds = holds, .context = context, .deadline_ns = UINT64_MAX });
}

static bool has_room(void *context)
{
    return channel_has_room(context, 0);
}

static bool has_record(void *context)
{
    return !channel_is_empty(context);
}

static void write_one(struct channel *c, uint64_t key)
{
    const struct record_head head = { .kind = ANY_KIND, .key = key };

    await(&waker[0], has_room, c);
    explore_assert(channel_write(c, &head, NULL, 0));
    waker_wake(&waker[1]);
}

static void read_one(uint32_t i)
{
    struct record r;

    explore_assert(channel_read(&reader[i], &r) == CHANNEL_RECORD);
    explore_assert(r.head.key == ++received[i]);
    waker_wake(&waker[0]);
}

/* ---- one writer, one reader ---- */

static void setup_stream(void)
{
    start(2, 1);
}

static void setup_short(void)
{
    start(3, 0);
}

static void stream_thread(int id)
{
    for (uint64_t i = 1; i <= records; i++) {
        if (id == 0) {
            write_one(&writer[0], i);
        } else {
            await(&waker[1], has_record, &reader[0]);
            read_one(0);
        }
    }
}

static void check_stream(void)
{
    explore_assert(received[0] == records);
}

/* ---- two writers wake one reader: neither takes the other's wake away ---- */

static void setup_two(void)
{
    start(1, 1);
}

static bool has_any(void *context)
{
    (void)context;
    return !channel_is_empty(&reader[0]) || !channel_is_empty(&reader[1]);
}

static void two_thread(int id)
{
    if (id != 2) {
        write_one(&writer[id], 1);
        return;
    }
    while (received[0] + received[1] < 2) {
        await(&waker[1], has_any, NULL);
        for (uint32_t i = 0; i < 2; i++)
            if (!channel_is_empty(&reader[i]))
                read_one(i);
    }
}

static void check_two(void)
{
    explore_assert(received[0] == 1 && received[1] == 1);
}

/* ---- a record that is taken back ---- */

static void setup_claims(void)
{
    start(2, 1);
    reader[0].has_claims = true;
}

static void claims_thread(int id)
{
    struct record r;

    if (id == 0) {
        const struct record_head head = { .kind = ANY_KIND, .key = 1 };

        explore_assert(channel_write(&writer[0], &head, NULL, 0));
        taken_back = channel_take_back(&writer[0], writer[0].last);
    } else if (channel_read(&reader[0], &r) == CHANNEL_RECORD) {
        received[0] = r.head.key;
    }
}

/* The wake may have come too late for both: then the record is still in the stream. */
static void check_claims(void)
{
    struct record r;

    if (received[0] == 0 && channel_read(&reader[0], &r) == CHANNEL_RECORD)
        received[0] = r.head.key;
    explore_assert(received[0] + taken_back == 1);
}

int main(int argc, char **argv)
{
    static const struct scenario list[] = {
        { { "stream", 2, setup_stream, stream_thread, check_stream },
          "R41 A41 F31",
          { .preemption_max = 3, .delay_max = 2, .execution_max = 200000, .random_count = 10000 } },
        { { "short stream", 2, setup_short, stream_thread, check_stream },
          "R42 A42 F31",
          { .preemption_max = 2, .delay_max = 2, .execution_max = 200000, .random_count = 10000 } },
        { { "two children", 3, setup_two, two_thread, check_two },
          "F31",
          { .preemption_max = 2, .delay_max = 1, .execution_max = 200000, .random_count = 20000 } },
        { { "taken back", 2, setup_claims, claims_thread, check_claims },
          "",
          { .preemption_max = 3, .delay_max = 2, .execution_max = 100000, .random_count = 2000 } },
    };

    return scenario_main(argc, argv, list, sizeof(list) / sizeof(list[0]));
}
