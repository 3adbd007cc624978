/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * Lanes between two meshes of this process, over loopback: records arrive once and in order
 * although connections break; and attacks by strangers and damaged peers on a gate.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os.h"
#include "net/mesh.h"
#include "net/packer.h"
#include "tests/fixture/fixture.h"
#include "tests/fixture/random_test.h"

enum { KIND_NUMBER = 7, BIG_BYTES = 50000 };
#define LEASE_NS 200000000ull
#define GRACE_NS 60000000000ull
#define LATE_NS 60000000000ull

static const struct job_key key = { "a key of the tests" };
static const uint8_t job[LANE_JOB_BYTES] = "job";

/* One side. */
struct side {
    struct mesh mesh;
    struct net_address address;
    uint64_t next;  /* number of the record that is expected next */
    uint32_t wrong; /* number of records that arrived out of order, twice, or damaged */
    uint32_t lost;  /* number of times that the peer was given up */
    pthread_mutex_t lock;
};

static int side_deliver(void *context, uint32_t peer, uint8_t kind, const uint8_t *payload,
                        size_t bytes)
{
    struct side *s = context;
    struct unpacker u = { payload, bytes, false };
    uint64_t number = unpack_number(&u, 8);

    (void)peer;
    pthread_mutex_lock(&s->lock);
    s->wrong += kind != KIND_NUMBER || number != s->next || u.has_failed;
    for (; u.left > 0; u.at++, u.left--)
        s->wrong += *u.at != (uint8_t)number;
    s->next = number + 1;
    pthread_mutex_unlock(&s->lock);
    return number == UINT64_MAX ? PTO_EINVAL : PTO_OK;
}

static void side_lose(void *context, uint32_t peer)
{
    struct side *s = context;

    (void)peer;
    pthread_mutex_lock(&s->lock);
    s->lost++;
    pthread_mutex_unlock(&s->lock);
}

static void side_open(struct side *s, uint32_t rank, uint64_t grace_ns)
{
    struct net_address loopback;
    struct lane_link link = { .job = job,
                              .rank = rank,
                              .key = &key,
                              .lease_ns = LEASE_NS,
                              .grace_ns = grace_ns,
                              .context = s,
                              .deliver = side_deliver,
                              .lose = side_lose };
    int listener;

    memset(s, 0, sizeof(*s));
    s->next = 1;
    pthread_mutex_init(&s->lock, NULL);
    assert_int_equal(secure_init(NULL), PTO_OK);
    assert_true(net_address_parse_numeric("127.0.0.1", &loopback));
    listener = net_listen(&loopback);
    assert_true(listener >= 0);
    assert_true(net_address_of(listener, false, &s->address));
    assert_int_equal(mesh_init(&s->mesh, &link, 2, listener, NULL), PTO_OK);
}

static void side_start(struct side *s, uint32_t peer, const struct net_address *address)
{
    assert_int_equal(mesh_add(&s->mesh, peer, address), PTO_OK);
    assert_int_equal(mesh_start(&s->mesh), PTO_OK);
}

static void side_close(struct side *s)
{
    mesh_close(&s->mesh);
    pthread_mutex_destroy(&s->lock);
}

static void open_both(struct side *side, uint64_t grace_ns)
{
    side_open(&side[0], 0, grace_ns);
    side_open(&side[1], 1, grace_ns);
    side_start(&side[0], 1, &side[1].address);
    side_start(&side[1], 0, &side[0].address);
}

static void send_number(struct side *s, uint32_t peer, uint64_t number, size_t bytes)
{
    static const uint64_t LONG_NS = UINT64_MAX;
    uint8_t head[8], data[BIG_BYTES];
    struct packer p = { head };

    pack_number(&p, number, 8);
    memset(data, (uint8_t)number, bytes);
    assert_int_equal(
        lane_send(mesh_lane(&s->mesh, peer), &(struct lane_letter){ .kind = KIND_NUMBER,
                                                                    .head = head,
                                                                    .head_bytes = 8,
                                                                    .data = data,
                                                                    .data_bytes = bytes,
                                                                    .deadline_ns = LONG_NS }),
        PTO_OK);
}

static uint64_t next_of(struct side *s)
{
    uint64_t next;

    pthread_mutex_lock(&s->lock);
    next = s->next;
    pthread_mutex_unlock(&s->lock);
    return next;
}

static enum lane_state state_of(struct side *s, uint32_t peer)
{
    struct lane *lane = mesh_lane(&s->mesh, peer);
    enum lane_state state;

    pthread_mutex_lock(&lane->lock);
    state = lane->state;
    pthread_mutex_unlock(&lane->lock);
    return state;
}

static void await_state(struct side *s, uint32_t peer, enum lane_state state)
{
    uint64_t begin_ns = os_now_ns();

    while (state_of(s, peer) != state) {
        assert_true(os_now_ns() - begin_ns < LATE_NS);
        usleep(1000);
    }
}

/* ---- records ---- */

/* Breaks the connection as a network failure does, which neither side has requested. */
static void break_connection(struct side *s, uint32_t peer)
{
    struct lane *lane = mesh_lane(&s->mesh, peer);

    pthread_mutex_lock(&lane->lock);
    if (lane->secure != NULL)
        (void)shutdown(secure_socket(lane->secure), SHUT_RDWR);
    pthread_mutex_unlock(&lane->lock);
}

static void records_come_once_although_connections_break(void **state)
{
    struct side *side = calloc(2, sizeof(*side));
    uint64_t total = IS_SANITIZED ? 3000 : 20000;

    (void)state;
    open_both(side, GRACE_NS);
    await_state(&side[0], 1, LANE_UP);
    await_state(&side[1], 0, LANE_UP);
    break_connection(&side[0], 1);
    for (uint64_t i = 1; i <= total; i++) {
        send_number(&side[0], 1, i, i % 50 == 0 ? BIG_BYTES : i % 200);
        send_number(&side[1], 0, i, i % 70 == 0 ? BIG_BYTES : i % 100);
        if (random_below(500) == 0)
            break_connection(&side[i % 2], (uint32_t)(1 - i % 2));
    }
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(lane_drain(mesh_lane(&side[i].mesh, 1 - i), os_now_ns() + LATE_NS),
                         PTO_OK);
    assert_int_equal(next_of(&side[0]), total + 1);
    assert_int_equal(next_of(&side[1]), total + 1);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(side[i].wrong, 0);
        assert_int_equal(side[i].lost, 0);
        assert_true(mesh_lane(&side[i].mesh, 1 - i)->connections > 1);
    }
    side_close(&side[0]);
    side_close(&side[1]);
    free(side);
}

static void who_has_gone_is_noticed_without_waiting(void **state)
{
    struct side *side = calloc(2, sizeof(*side));

    (void)state;
    open_both(side, GRACE_NS);
    await_state(&side[0], 1, LANE_UP);
    await_state(&side[1], 0, LANE_UP);
    side_close(&side[1]);
    await_state(&side[0], 1, LANE_LOST);
    assert_int_equal(mesh_lane(&side[0].mesh, 1)->loss, LANE_ENDED);
    assert_int_equal(lane_send(mesh_lane(&side[0].mesh, 1),
                               &(struct lane_letter){ .kind = KIND_NUMBER, .head = "" }),
                     PTO_EPEER);
    assert_int_equal(lane_drain(mesh_lane(&side[0].mesh, 1), UINT64_MAX), PTO_OK);
    side_close(&side[0]);
    free(side);
}

/* ---- damaged peers ---- */

/* A peer played by the test: rank 1, which connects to rank 0. */
static struct secure *forge_connection(struct side *s, const struct job_key *with)
{
    int socket = net_connect(&s->address);
    struct secure *secure;
    uint64_t begin_ns = os_now_ns();
    int status;

    assert_true(socket >= 0);
    secure = secure_make(socket, false, with);
    assert_non_null(secure);
    while ((status = secure_shake(secure)) == PTO_EAGAIN && os_now_ns() - begin_ns < LATE_NS)
        usleep(500);
    if (status == PTO_OK)
        return secure;
    secure_free(secure);
    return NULL;
}

static void forge_bytes(struct secure *secure, const void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t wrote = secure_send(secure, (const char *)bytes + done, size - done);

        if (wrote < 0)
            return;
        done += (size_t)wrote;
    }
}

static void forge_hello(struct secure *secure, const struct lane_hello *changes)
{
    struct lane_hello hello = *changes;
    uint8_t bytes[LANE_HELLO_BYTES];

    memcpy(hello.job, job, sizeof(job));
    lane_pack_hello(&hello, bytes);
    forge_bytes(secure, bytes, sizeof(bytes));
}

static void forge_record(struct secure *secure, uint64_t number, uint64_t ack, uint64_t says)
{
    struct lane_header header = { KIND_NUMBER, LANE_WANTS_ACK, 8, number, ack };
    uint8_t bytes[LANE_HEADER_BYTES + 8];
    struct packer p = { bytes + LANE_HEADER_BYTES };

    lane_pack_header(&header, bytes);
    pack_number(&p, says, 8);
    forge_bytes(secure, bytes, sizeof(bytes));
}

/* Accepts a connection of rank 1 in the role of rank 0, and returns the epoch of its greeting. */
static uint64_t accept_greeting(int listener)
{
    uint8_t bytes[LANE_HELLO_BYTES];
    struct lane_hello hello;
    struct secure *secure;
    uint64_t begin_ns = os_now_ns();
    ssize_t got = 0;
    int socket;

    while ((socket = net_accept(listener)) < 0 && os_now_ns() - begin_ns < LATE_NS)
        usleep(500);
    secure = secure_make(socket, true, &key);
    assert_non_null(secure);
    while (secure_shake(secure) == PTO_EAGAIN && os_now_ns() - begin_ns < LATE_NS)
        usleep(500);
    while (got == 0 && os_now_ns() - begin_ns < LATE_NS)
        got = secure_receive(secure, bytes, sizeof(bytes));
    assert_int_equal(got, sizeof(bytes));
    assert_true(lane_unpack_hello(bytes, &hello));
    secure_free(secure);
    return hello.epoch;
}

/*
 * The side that connects does not know whether the peer accepted a greeting that was not answered,
 * so its next one has a larger epoch: the peer refuses the same one.
 */
static void each_greeting_has_a_larger_epoch(void **state)
{
    struct side *side = calloc(1, sizeof(*side));
    struct net_address loopback, address;
    uint64_t last = 0, epoch;
    int listener;

    (void)state;
    side_open(side, 1, GRACE_NS);
    assert_true(net_address_parse_numeric("127.0.0.1", &loopback));
    listener = net_listen(&loopback);
    assert_true(listener >= 0 && net_address_of(listener, false, &address));
    side_start(side, 0, &address);
    for (int i = 0; i < 3; i++, last = epoch) {
        epoch = accept_greeting(listener);
        assert_true(epoch > last);
    }
    close(listener);
    side_close(side);
    free(side);
}

/* Waits until the other side has closed the connection. */
static void await_end(struct secure *secure)
{
    uint64_t begin_ns = os_now_ns();
    uint8_t bytes[256];

    while (secure_receive(secure, bytes, sizeof(bytes)) >= 0) {
        assert_true(os_now_ns() - begin_ns < LATE_NS);
        usleep(500);
    }
    secure_free(secure);
}

static void open_alone(struct side *s)
{
    struct net_address nowhere;

    side_open(s, 0, GRACE_NS);
    assert_true(net_address_parse_numeric("127.0.0.1", &nowhere));
    /*
     * a connection to a port without a listener would be refused, so rank 0 connects to its own
     * gate instead
     */
    side_start(s, 1, &s->address);
}

static const struct lane_hello good = { .from = 1, .to = 0, .epoch = 5, .lease_ns = LATE_NS };

static void a_record_that_comes_twice_counts_once(void **state)
{
    struct side *s = calloc(1, sizeof(*s));
    struct secure *secure;
    uint64_t begin_ns = os_now_ns();

    (void)state;
    open_alone(s);
    secure = forge_connection(s, &key);
    assert_non_null(secure);
    forge_hello(secure, &good);
    forge_record(secure, 1, 0, 1);
    forge_record(secure, 1, 0, 1);
    forge_record(secure, 2, 0, 2);
    forge_record(secure, 1, 0, 1);
    forge_record(secure, 3, 0, 3);
    while (next_of(s) != 4 && os_now_ns() - begin_ns < LATE_NS)
        usleep(1000);
    assert_int_equal(next_of(s), 4);
    assert_int_equal(s->wrong, 0);
    assert_int_equal(mesh_lane(&s->mesh, 1)->doubles, 2);
    secure_free(secure);
    side_close(s);
    free(s);
}

static void an_old_epoch_is_refused(void **state)
{
    static const struct lane_hello bad[] = {
        { .from = 1, .to = 0, .epoch = 5, .lease_ns = LATE_NS },
        { .from = 1, .to = 0, .epoch = 4, .lease_ns = LATE_NS },
        { .from = 0, .to = 0, .epoch = 9, .lease_ns = LATE_NS },
        { .from = 1, .to = 1, .epoch = 9, .lease_ns = LATE_NS },
        { .from = 2, .to = 0, .epoch = 9, .lease_ns = LATE_NS },
        { .from = UINT32_MAX, .to = 0, .epoch = 9, .lease_ns = LATE_NS },
    };
    struct side *s = calloc(1, sizeof(*s));
    struct secure *secure, *later;

    (void)state;
    open_alone(s);
    secure = forge_connection(s, &key);
    forge_hello(secure, &good);
    await_state(s, 1, LANE_UP);
    for (uint32_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        later = forge_connection(s, &key);
        assert_non_null(later);
        forge_hello(later, &bad[i]);
        await_end(later);
        assert_int_equal(state_of(s, 1), LANE_UP);
    }
    secure_free(secure);
    side_close(s);
    free(s);
}

/* Sends one forged record to a new side; it must give the peer up. */
static void expect_given_up(const struct lane_header *header, uint64_t says, uint64_t received)
{
    struct side *s = calloc(1, sizeof(*s));
    struct lane_hello hello = good;
    struct secure *secure;
    uint8_t bytes[LANE_HEADER_BYTES + 8];
    struct packer p = { bytes + LANE_HEADER_BYTES };

    hello.received = received;
    open_alone(s);
    secure = forge_connection(s, &key);
    assert_non_null(secure);
    forge_hello(secure, &hello);
    lane_pack_header(header, bytes);
    pack_number(&p, says, 8);
    forge_bytes(secure, bytes, sizeof(bytes));
    await_state(s, 1, LANE_LOST);
    assert_int_equal(mesh_lane(&s->mesh, 1)->loss, LANE_INVALID);
    await_end(secure);
    side_close(s);
    assert_int_equal(s->lost, 1);
    free(s);
}

static void a_peer_that_sends_nonsense_is_given_up(void **state)
{
    (void)state;
    expect_given_up(&(struct lane_header){ KIND_NUMBER, 0, 8, 2, 0 }, 2, 0); /* a gap */
    expect_given_up(&(struct lane_header){ KIND_NUMBER, 0, 8, 1, 1 }, 1,
                    0); /* acknowledges nothing */
    expect_given_up(&(struct lane_header){ KIND_NUMBER, 0, 8, 1, 0 }, 1,
                    9); /* has received nothing */
    expect_given_up(&(struct lane_header){ KIND_NUMBER, 0, LANE_PAYLOAD_MAX + 1, 1, 0 }, 1, 0);
    expect_given_up(&(struct lane_header){ KIND_NUMBER, 0, UINT32_MAX, 1, 0 }, 1, 0);
    expect_given_up(&(struct lane_header){ KIND_NUMBER, 2, 8, 1, 0 }, 1, 0);
    expect_given_up(&(struct lane_header){ LANE_BEAT, 0, 8, 0, 0 }, 1, 0);
    expect_given_up(&(struct lane_header){ KIND_NUMBER, 0, 8, 0, 0 }, 1, 0);
    expect_given_up(&(struct lane_header){ KIND_NUMBER, 0, 8, 1, 0 }, UINT64_MAX, 0);
}

/* ---- strangers ---- */

static int connect_plainly(const struct side *s)
{
    struct sockaddr_in at = s->address.u.v4;
    int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(made >= 0);
    assert_int_equal(connect(made, (struct sockaddr *)&at, sizeof(at)), 0);
    return made;
}

/* Whether a good peer can connect while strangers use the gate. */
static void expect_service(struct side *side, uint64_t number)
{
    send_number(&side[0], 1, number, 10);
    send_number(&side[1], 0, number, 10);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(lane_drain(mesh_lane(&side[i].mesh, 1 - i), os_now_ns() + LATE_NS),
                         PTO_OK);
    /* also if its connection has to be made again at the same time */
    break_connection(&side[0], 1);
    await_state(&side[0], 1, LANE_UP);
    assert_int_equal(next_of(&side[0]), number + 1);
    assert_int_equal(next_of(&side[1]), number + 1);
}

static void strangers_are_refused_before_they_are_heard(void **state)
{
    const struct job_key wrong = { "another key" };
    struct side *side = calloc(2, sizeof(*side));
    uint64_t refused;
    uint8_t bytes[600];

    (void)state;
    open_both(side, GRACE_NS);
    expect_service(side, 1);
    refused = side[0].mesh.gate.refused;
    for (uint32_t i = 0; i < (IS_SANITIZED ? 20 : 200); i++) {
        int plain = connect_plainly(&side[0]);

        for (uint32_t k = 0; k < sizeof(bytes); k++)
            bytes[k] = (uint8_t)random_below(256);
        if (i % 2 == 0) /* bytes after the beginning of a handshake record */
            memcpy(bytes, "\x16\x03\x01\x02\x00\x01", 6);
        (void)!send(plain, bytes, random_below(sizeof(bytes)), MSG_NOSIGNAL);
        close(plain);
        if (i % 10 == 0)
            assert_null(forge_connection(&side[0], &wrong));
    }
    expect_service(side, 2);
    assert_true(side[0].mesh.gate.refused > refused);
    assert_int_equal(side[0].wrong + side[1].wrong, 0);
    side_close(&side[0]);
    side_close(&side[1]);
    free(side);
}

/* Steps the handshake of a rank, and greets once. False: it was refused. */
static bool step_guest(struct secure *guest, bool *has_greeted)
{
    static const char greeting[16] = "good day";
    int status = *has_greeted ? PTO_OK : secure_shake(guest);

    if (status == PTO_OK && !*has_greeted)
        *has_greeted = secure_send(guest, greeting, sizeof(greeting)) == sizeof(greeting);
    return status == PTO_OK || status == PTO_EAGAIN;
}

/* All begin their handshakes before the gate looks: as a job of many ranks does. */
static void more_ranks_than_guests_come_at_once(void **state)
{
    enum { MANY = GATE_GUESTS + 40 };
    const struct job_key key = { "one key" };
    struct net_address at;
    uint8_t greeting[GATE_GREETING_MAX];
    struct secure *guest[MANY], *admitted;
    bool has_greeted[MANY] = { false };
    struct epoll_event event;
    struct gate gate;
    uint32_t count = 0;
    int listener, poller = epoll_create1(EPOLL_CLOEXEC);

    (void)state;
    assert_int_equal(net_address_parse("tcp://127.0.0.1:0", &at, NULL), PTO_OK);
    listener = net_listen(&at);
    assert_true(listener >= 0 && net_address_of(listener, false, &at));
    assert_int_equal(gate_open(&gate, listener, poller, 1, &key, 16), PTO_OK);
    gate.patience_ns = LATE_NS; /* however busy the machine is */
    for (uint32_t i = 0; i < MANY; i++) {
        int socket = net_connect(&at);

        (void)poll(&(struct pollfd){ socket, POLLOUT, 0 }, 1, -1);
        assert_int_equal(net_connect_result(socket), 0);
        guest[i] = secure_make(socket, false, &key);
        assert_true(step_guest(guest[i], &has_greeted[i]));
    }
    while (count < MANY) {
        for (uint32_t i = 0; i < MANY; i++)
            assert_true(step_guest(guest[i], &has_greeted[i]));
        if (epoll_wait(poller, &event, 1, 1) == 1 &&
            (admitted = gate_handle(&gate, event.data.u64, greeting)) != NULL) {
            secure_free(admitted);
            count++;
        }
    }
    assert_int_equal(gate.refused, 0);
    for (uint32_t i = 0; i < MANY; i++)
        secure_free(guest[i]);
    gate_close(&gate);
    close(poller);
}

static void idle_strangers_keep_no_rank_out(void **state)
{
    enum { IDLE = 1000 };
    struct side *side = calloc(2, sizeof(*side));
    int idle[IDLE];

    (void)state;
    open_both(side, GRACE_NS);
    expect_service(side, 1);
    for (uint32_t i = 0; i < IDLE; i++) {
        idle[i] = connect_plainly(&side[0]);
        if (i % 3 == 0) /* a client that stops in the middle of a handshake */
            (void)!send(idle[i], "\x16\x03\x01\x02\x00\x01", 6, MSG_NOSIGNAL);
    }
    expect_service(side, 2);
    for (uint32_t i = 0; i < IDLE; i++)
        close(idle[i]);
    expect_service(side, 3);
    side_close(&side[0]);
    side_close(&side[1]);
    free(side);
}

/* A client that does not begin a handshake, or does not continue it, is disconnected. */
static void a_handshake_that_stalls_is_ended(void **state)
{
    struct side *side = calloc(2, sizeof(*side));
    int plain[2];
    ssize_t got;
    char byte;

    (void)state;
    side_open(&side[0], 0, GRACE_NS);
    side_open(&side[1], 1, GRACE_NS);
    side[0].mesh.gate.deadline_ns = 300 * MS;
    side_start(&side[0], 1, &side[1].address);
    side_start(&side[1], 0, &side[0].address);
    for (uint32_t i = 0; i < 2; i++)
        plain[i] = connect_plainly(&side[0]);
    assert_int_equal(send(plain[0], "\x16\x03\x01\x02\x00\x01", 6, MSG_NOSIGNAL), 6);
    for (uint32_t i = 0; i < 2; i++) {
        (void)setsockopt(plain[i], SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){ 60, 0 },
                         sizeof(struct timeval));
        got = recv(plain[i], &byte, 1, 0);
        assert_true(got == 0 || (got < 0 && errno != EAGAIN));
        close(plain[i]);
    }
    expect_service(side, 1);
    side_close(&side[0]);
    side_close(&side[1]);
    free(side);
}

/* Records what a client sends in a good handshake, and sends it again. */
static void a_recorded_connection_opens_nothing(void **state)
{
    struct side *s = calloc(1, sizeof(*s));
    uint8_t bytes[4096], answer[4096];
    size_t size = 0, answered = 0;
    int pair[2], plain;
    struct secure *client;

    (void)state;
    open_alone(s);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    client = secure_make(pair[0], false, &key);
    plain = connect_plainly(s);
    for (uint64_t begin_ns = os_now_ns(); secure_shake(client) != PTO_OK;) {
        ssize_t n = recv(pair[1], bytes + size, sizeof(bytes) - size, MSG_DONTWAIT);

        assert_true(os_now_ns() - begin_ns < LATE_NS);
        if (n > 0)
            assert_int_equal(send(plain, bytes + size, (size_t)n, MSG_NOSIGNAL), n);
        size += n > 0 ? (size_t)n : 0;
        n = recv(plain, answer, sizeof(answer), MSG_DONTWAIT);
        if (n > 0)
            assert_int_equal(send(pair[1], answer, (size_t)n, MSG_NOSIGNAL), n);
        answered += n > 0 ? (size_t)n : 0;
        usleep(200);
    }
    forge_hello(client, &good);
    usleep(1000);
    size += (size_t)recv(pair[1], bytes + size, sizeof(bytes) - size, MSG_DONTWAIT);
    close(plain);
    plain = connect_plainly(s);
    assert_int_equal(send(plain, bytes, size, MSG_NOSIGNAL), size);
    /* the gate answers the handshake, and closes the connection without letting it in */
    for (uint64_t begin_ns = os_now_ns(); recv(plain, answer, sizeof(answer), 0) > 0;)
        assert_true(os_now_ns() - begin_ns < LATE_NS);
    assert_int_not_equal(state_of(s, 1), LANE_UP);
    assert_int_equal(next_of(s), 1);
    assert_true(answered > 0);
    close(plain);
    close(pair[1]);
    secure_free(client);
    side_close(s);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_once_although_connections_break),
        cmocka_unit_test(who_has_gone_is_noticed_without_waiting),
        cmocka_unit_test(a_record_that_comes_twice_counts_once),
        cmocka_unit_test(an_old_epoch_is_refused),
        cmocka_unit_test(each_greeting_has_a_larger_epoch),
        cmocka_unit_test(a_peer_that_sends_nonsense_is_given_up),
        cmocka_unit_test(strangers_are_refused_before_they_are_heard),
        cmocka_unit_test(more_ranks_than_guests_come_at_once),
        cmocka_unit_test(idle_strangers_keep_no_rank_out),
        cmocka_unit_test(a_handshake_that_stalls_is_ended),
        cmocka_unit_test(a_recorded_connection_opens_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
