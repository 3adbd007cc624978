/* SPDX-License-Identifier: Apache-2.0 */
/* variants: asan - plain: the sanitizers judge what was read; tsan: one thread */
/*
 * Damaged messages from ranks of other hosts: decoders accept or refuse them, and access only the
 * mirrors, windows and buffers for which a message is meant.
 */
#include <sys/mman.h>

#include "comm/comm_tls.h"
#include "tests/fixture/fixture.h"
#include "tests/fixture/random_test.h"

enum {
    WINDOW = 4096,
    MIRROR = SHARED_CONTROL_BYTES + SHARED_SCRATCH_BYTES,
    CALL_BYTES = 256,
    OWN_OFFSET = 4096,
    PEER_OFFSET = 8192,
};

static struct tls *t;
static struct tls_call call;
static struct tls_block blocks[2];

/* A communicator with two ranks on two hosts, whose lane has no connection. */
static int make_comm(void **state)
{
    static struct comm_request request = { .rank = 0, .rank_count = 2 };
    static struct shared_memory memory = { .alloc = comm_shm_alloc };

    (void)state;
    t = calloc(1, sizeof(*t));
    pthread_mutex_init(&t->block_lock, NULL);
    pthread_mutex_init(&t->call_lock, NULL);
    os_cond_init(&t->answered);
    if (comm_shm_init(&t->shm, &request, &comm_tls_ops, &memory) < 0)
        return -1;
    for (uint32_t i = 0; i < 2; i++) /* of the exact size, so that a sanitizer sees its end */
        t->shm.shared.head[i] = aligned_alloc(SHARED_LINE, sizeof(struct shared_head));
    for (uint32_t i = 0; i < 2; i++)
        memset(t->shm.shared.head[i], 0, sizeof(struct shared_head));
    t->shm.shared.own = t->shm.shared.head[0];
    t->is_remote = calloc(2, sizeof(*t->is_remote));
    t->is_remote[1] = true;
    t->shm.shared.remote = &tls_send_remote;
    t->mesh.lane = calloc(2, sizeof(*t->mesh.lane));
    t->mesh.rank_count = 2;
    blocks[0] = (struct tls_block){ &blocks[1], 0, OWN_OFFSET, MIRROR + WINDOW,
                                    aligned_alloc(SHARED_LINE, MIRROR + WINDOW) };
    blocks[1] =
        (struct tls_block){ NULL, 1, PEER_OFFSET, MIRROR, aligned_alloc(SHARED_LINE, MIRROR) };
    for (uint32_t i = 0; i < 2; i++)
        memset(blocks[i].at, 0, blocks[i].bytes);
    t->blocks = blocks;
    call =
        (struct tls_call){ .number = 1, .rank = 1, .bytes = CALL_BYTES, .to = malloc(CALL_BYTES) };
    t->calls = &call;
    return lane_init(&t->mesh.lane[1], 1, -1, 0);
}

static int free_comm(void **state)
{
    (void)state;
    lane_fini(&t->mesh.lane[1]);
    free(t->mesh.lane);
    for (uint32_t i = 0; i < 2; i++) {
        free(t->shm.shared.head[i]);
        free(blocks[i].at);
        t->shm.shared.head[i] = NULL;
    }
    free(call.to);
    free(t->is_remote);
    comm_shm_fini(&t->shm);
    pthread_mutex_destroy(&t->block_lock);
    pthread_mutex_destroy(&t->call_lock);
    pthread_cond_destroy(&t->answered);
    free(t);
    return 0;
}

/* A number that is often valid, often at a border, and sometimes anything. */
static uint64_t odd_number(void)
{
    static const uint64_t border[] = { 0,
                                       1,
                                       OWN_OFFSET,
                                       PEER_OFFSET,
                                       WINDOW,
                                       WINDOW - 4,
                                       WINDOW - 3,
                                       SHARED_SCRATCH_BYTES,
                                       SHARED_SCRATCH_BYTES - 1,
                                       LANE_DATA_MAX,
                                       SHARED_ENTRIES,
                                       SHARED_ENTRIES - 1,
                                       UINT32_MAX,
                                       UINT64_MAX,
                                       UINT64_MAX - 3,
                                       CALL_BYTES,
                                       1ull << 63 };

    return random_below(8) == 0 ? rng_next(&chance)
                                : border[random_below(sizeof(border) / sizeof(border[0]))];
}

static struct tls_wire_place odd_place(uint64_t offset)
{
    return (struct tls_wire_place){ random_below(8) == 0 ? odd_number() : offset,
                                    random_below(2) == 0 ? random_below(WINDOW) : odd_number() };
}

static size_t pack_some(uint8_t kind, uint8_t *bytes)
{
    struct tls_wire_place own = odd_place(OWN_OFFSET), peer = odd_place(PEER_OFFSET);
    struct tls_wire_entry entry = { .index = (uint32_t)odd_number(),
                                    .state = random_below(6),
                                    .serial = odd_number(),
                                    .offset = odd_number() };
    struct tls_wire_control control = { .offset = peer.offset, .arrived = random_below(9) };
    struct tls_wire_round round = { .offset = peer.offset,
                                    .number = (uint32_t)odd_number(),
                                    .has_call = random_below(2) == 0,
                                    .args = { odd_number(), odd_number() } };
    struct tls_wire_signal signal = { own, random_below(3), (int32_t)odd_number(),
                                      random_below(3) };
    struct tls_wire_get get = { own, random_below(3), odd_number(), (uint32_t)odd_number() };
    struct tls_wire_answer answer = { random_below(3), odd_number(), -(int32_t)random_below(3), 0 };

    switch (kind) {
    case TLS_KIND_ENTRY:
        return tls_wire_pack_entry(&entry, bytes);
    case TLS_KIND_CONTROL:
        return tls_wire_pack_control(&control, bytes);
    case TLS_KIND_SCRATCH:
        return tls_wire_pack_place(&peer, bytes) + random_below(300);
    case TLS_KIND_ROUND:
        return tls_wire_pack_round(&round, bytes);
    case TLS_KIND_STATE:
        return tls_wire_pack_state(random_below(4), (int32_t)odd_number(), bytes);
    case TLS_KIND_PUT:
        return tls_wire_pack_place(&own, bytes) + random_below(300);
    case TLS_KIND_SIGNAL:
        return tls_wire_pack_signal(&signal, bytes);
    case TLS_KIND_GET:
        return tls_wire_pack_get(&get, bytes);
    case TLS_KIND_ANSWER:
        return tls_wire_pack_answer(&answer, bytes) + random_below(300);
    default:
        return random_below(300);
    }
}

static uint32_t rounds(void)
{
    return getenv("PTO_TEST_LONG") != NULL ? 10000000 : 100000;
}

/* Damages some bytes in half of the cases. */
static void damage(uint8_t *bytes, size_t size)
{
    for (uint32_t k = size > 0 && random_below(2) == 0 ? random_below(4) : 0; k > 0; k--)
        bytes[random_below(size)] ^= (uint8_t)(1u << random_below(8));
}

/* Makes the lane again before its queue of records reaches its limit. */
static void empty_lane(void)
{
    struct lane *lane = &t->mesh.lane[1];

    if (lane->kept_bytes < LANE_KEPT_MAX)
        return;
    lane_fini(lane);
    assert_int_equal(lane_init(lane, 1, -1, 0), PTO_OK);
}

static void records_stay_inside(void **state)
{
    uint64_t accepted = 0, refused = 0;

    (void)state;
    chance.state = 20;
    for (uint32_t i = 0; i < rounds(); i++) {
        uint8_t kind = (uint8_t)random_below(TLS_KIND_ANSWER + 2), made[1024] = { 0 };
        size_t size = pack_some(kind, made);
        uint8_t *bytes; /* of the exact size */
        int status;

        if (random_below(8) == 0)
            size = random_below(size + 8);
        damage(made, size);
        bytes = malloc(size);
        memcpy(bytes, made, size);
        call.got = 0;
        status = tls_apply_record(t, 1, kind, bytes, size);
        free(bytes);
        assert_true(status == PTO_OK || status == PTO_EINVAL);
        accepted += status == PTO_OK;
        refused += status != PTO_OK;
        call.status = PTO_OK;
        empty_lane();
    }
    /* each of the two outcomes occurred often */
    assert_true(accepted > rounds() / 10 && refused > rounds() / 10);
}

static void headers_and_greetings_are_checked(void **state)
{
    (void)state;
    chance.state = 21;
    for (uint32_t i = 0; i < rounds(); i++) {
        struct lane_header header = { random_below(3), 0, random_below(LANE_PAYLOAD_MAX * 2),
                                      random_below(3), odd_number() };
        struct lane_hello hello = { .epoch = random_below(3) }, got;
        uint8_t bytes[LANE_HELLO_BYTES];

        lane_pack_header(&header, bytes);
        damage(bytes, LANE_HEADER_BYTES);
        if (lane_unpack_header(bytes, &header)) {
            assert_true(header.bytes <= LANE_PAYLOAD_MAX);
            assert_true((header.kind == LANE_BEAT) == (header.number == 0));
        }
        lane_pack_hello(&hello, bytes);
        damage(bytes, sizeof(bytes));
        if (lane_unpack_hello(bytes, &got))
            assert_true(got.epoch != 0);
    }
}

static void messages_of_the_meeting_are_checked(void **state)
{
    (void)state;
    chance.state = 22;
    for (uint32_t i = 0; i < rounds() / 4; i++) {
        struct tls_hello hello = { .rank = random_below(5), .host = "host", .address = "::1" };
        struct tls_answer answer = { .status = -(int32_t)random_below(3),
                                     .rank = -1,
                                     .text = "why" };
        struct tls_entry entry = { .port = random_below(70000), .host = "host" };
        uint8_t bytes[TLS_ANSWER_BYTES];

        tls_meet_pack_hello(&hello, bytes);
        damage(bytes, TLS_HELLO_BYTES);
        if (tls_meet_unpack_hello(bytes, &hello)) {
            assert_true(strlen(hello.host) < sizeof(hello.host) && hello.host[0] != '\0');
            assert_true(strlen(hello.token) < sizeof(hello.token) && hello.port <= UINT16_MAX);
        }
        tls_meet_pack_answer(&answer, bytes);
        damage(bytes, TLS_ANSWER_BYTES);
        if (tls_meet_unpack_answer(bytes, &answer))
            assert_true(answer.status <= 0 && strlen(answer.text) < sizeof(answer.text));
        tls_meet_pack_entry(&entry, bytes);
        damage(bytes, TLS_ENTRY_BYTES);
        if (tls_meet_unpack_entry(bytes, &entry))
            assert_true(entry.port <= UINT16_MAX && strlen(entry.address) < sizeof(entry.address));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_stay_inside),
        cmocka_unit_test(headers_and_greetings_are_checked),
        cmocka_unit_test(messages_of_the_meeting_are_checked),
    };

    return cmocka_run_group_tests(tests, make_comm, free_comm);
}
