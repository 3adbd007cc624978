/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of a lane, as the mesh's thread makes, watches, closes and replaces them.
 *
 * The side with the larger rank connects. While there is no connection, the other side only probes
 * whether the peer's address still accepts connections. If an address refuses several attempts, its
 * process has ended; so this is noticed before grace_ns have passed.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/os.h"
#include "net/lane.h"

enum { REFUSED_MAX = 3 };
#define RETRY_NS 50000000ull          /* interval between two attempts to connect */
#define PROBE_NS 200000000ull         /* interval between two probes of the peer's address */
#define RETRY_REFUSED_NS 60000000ull  /* interval after an attempt that was refused */
#define ATTEMPT_NS 300000000ull       /* time limit of most attempts to connect */
#define LONG_ATTEMPT_NS 1200000000ull /* time limit of every fourth attempt, for slow networks */
/* time limit of the TLS handshake, and of the hello after it */
#define HANDSHAKE_NS 2000000000ull

/* Closes the lane's socket, with or without TLS. Called with the lock. */
static void lane_close_socket(struct lane *lane)
{
    secure_free(lane->secure);
    lane->secure = NULL;
    if (lane->socket >= 0)
        close(lane->socket);
    lane->socket = -1;
}

static void lane_give_up(struct lane *lane, const struct lane_link *link, enum lane_loss loss)
{
    uint64_t now = os_now_ns();

    pthread_mutex_lock(&lane->lock);
    lane_close_socket(lane);
    lane->state = LANE_LOST;
    lane->loss = loss;
    lane->silent_ns = now - lane->heard_ns;
    pthread_cond_broadcast(&lane->room);
    pthread_mutex_unlock(&lane->lock);
    link->lose(link->context, lane->peer);
}

/*
 * Closes the connection, or gives up the attempt to make one; the next attempt begins after
 * retry_ns.
 */
static void lane_break(struct lane *lane, uint64_t retry_ns)
{
    pthread_mutex_lock(&lane->lock);
    lane_close_socket(lane);
    lane->state = LANE_DOWN;
    lane_rewind(lane);
    pthread_mutex_unlock(&lane->lock);
    lane->got = 0;
    lane->retry_ns = os_now_ns() + retry_ns;
}

/* ---- making a connection ---- */

/* Sets the lane's state, the events of its socket, and the time limit of the new state. */
static void lane_enter(struct lane *lane, enum lane_state state, uint64_t time_ns)
{
    pthread_mutex_lock(&lane->lock);
    lane->state = state;
    lane->is_blocked = false;
    lane_watch(lane);
    pthread_mutex_unlock(&lane->lock);
    lane->limit_ns = os_now_ns() + time_ns;
}

/*
 * Handles a failed attempt to connect. Several refused attempts in sequence show that the peer's
 * process has ended.
 */
static void lane_count_refused(struct lane *lane, const struct lane_link *link, int number)
{
    bool is_refused = number == ECONNREFUSED;

    lane->refused = is_refused ? lane->refused + 1 : 0;
    lane_break(lane, is_refused ? RETRY_REFUSED_NS : lane->is_probe ? PROBE_NS : RETRY_NS);
    if (lane->refused >= REFUSED_MAX)
        lane_give_up(lane, link, LANE_ENDED);
}

static void lane_connect(struct lane *lane, const struct lane_link *link)
{
    struct epoll_event event = { .events = EPOLLOUT, .data.u64 = lane->tag };
    int socket = net_connect(&lane->address);

    lane->is_probe = !lane->is_connector;
    if (socket < 0) {
        lane_count_refused(lane, link, errno);
        return;
    }
    lane->socket = socket;
    if (epoll_ctl(lane->poller, EPOLL_CTL_ADD, socket, &event) != 0) {
        lane_break(lane, RETRY_NS);
        return;
    }
    lane_enter(lane, LANE_CONNECTING, ++lane->attempts % 4 == 0 ? LONG_ATTEMPT_NS : ATTEMPT_NS);
}

static void lane_end_connect(struct lane *lane, const struct lane_link *link)
{
    int number = net_connect_result(lane->socket);

    if (number != 0) {
        lane_count_refused(lane, link, number);
        return;
    }
    lane->refused = 0;
    if (lane->is_probe) {
        lane_break(lane, PROBE_NS);
        return;
    }
    lane->secure = secure_make(lane->socket, false, link->key);
    lane->socket = -1;
    if (lane->secure == NULL)
        lane_break(lane, RETRY_NS);
    else
        lane_enter(lane, LANE_SHAKING, HANDSHAKE_NS);
}

static bool lane_send_hello(const struct lane *lane, const struct lane_link *link,
                            struct secure *secure, uint64_t epoch)
{
    struct lane_hello hello = { .from = link->rank,
                                .to = lane->peer,
                                .epoch = epoch,
                                .received = lane->received,
                                .lease_ns = link->lease_ns };
    uint8_t bytes[LANE_HELLO_BYTES];

    memcpy(hello.job, link->job, LANE_JOB_BYTES);
    lane_pack_hello(&hello, bytes);
    /* a new socket has room for the whole hello */
    return secure_send(secure, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes);
}

static void lane_end_handshake(struct lane *lane, const struct lane_link *link)
{
    int status = secure_shake(lane->secure);

    /*
     * The epoch grows with each greeting that is sent: the peer may have accepted the last one
     * although its answer did not arrive, and then refuses that epoch.
     */
    if (status == PTO_EAGAIN)
        lane_watch(lane);
    else if (status < 0 || !lane_send_hello(lane, link, lane->secure, ++lane->epoch))
        lane_break(lane, RETRY_NS);
    else {
        lane->got = 0;
        lane_enter(lane, LANE_GREETING, HANDSHAKE_NS);
    }
}

/*
 * Starts to use a connection: frees the records that the peer reports as received, and sends the
 * others. False: the report is invalid.
 */
static bool lane_begin(struct lane *lane, const struct lane_link *link,
                       const struct lane_hello *hello)
{
    uint64_t lease_ns = hello->lease_ns < link->lease_ns ? hello->lease_ns : link->lease_ns;
    bool is_good;

    lane->epoch = hello->epoch;
    lane->got = 0;
    lane->since_ack = 0;
    lane->refused = 0;
    lane->connections++;
    lane->beat_ns = lease_ns / 4;
    pthread_mutex_lock(&lane->lock);
    /*
     * lets lane_forget accept any record up to the newest: all may have arrived before the
     * connection was lost
     */
    lane->next = NULL;
    is_good = hello->received >= lane->acked && lane_forget(lane, hello->received);
    lane_rewind(lane);
    lane->state = LANE_UP;
    lane->heard_ns = lane->wrote_ns = os_now_ns();
    lane_watch(lane);
    lane_pump(lane);
    pthread_mutex_unlock(&lane->lock);
    return is_good;
}

static bool lane_is_for(const struct lane *lane, const struct lane_link *link,
                        const struct lane_hello *hello)
{
    return hello->from == lane->peer && hello->to == link->rank &&
           memcmp(hello->job, link->job, LANE_JOB_BYTES) == 0;
}

void lane_accept(struct lane *lane, const struct lane_link *link, struct secure *secure,
                 const struct lane_hello *hello)
{
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = lane->tag };

    /* mutation: old-epoch */
    if (lane->state == LANE_LOST || lane->is_connector || !lane_is_for(lane, link, hello) ||
        hello->epoch <= lane->epoch ||
        epoll_ctl(lane->poller, EPOLL_CTL_ADD, secure_socket(secure), &event) != 0) {
        secure_free(secure);
        return;
    }
    lane_break(lane, 0);
    lane->secure = secure;
    if (!lane_send_hello(lane, link, secure, hello->epoch))
        lane_break(lane, RETRY_NS);
    else if (!lane_begin(lane, link, hello))
        lane_give_up(lane, link, LANE_INVALID);
    else
        /* GnuTLS may have read data after the greeting already, for which epoll reports no event */
        lane_handle(lane, link);
}

/* ---- receiving ---- */

/* Receives until `at` has `size` bytes. PTO_EAGAIN: some of them have not arrived. */
static int lane_fill(struct lane *lane, uint8_t *at, size_t size)
{
    while (lane->got < size) {
        ssize_t got;

        pthread_mutex_lock(&lane->lock);
        got = secure_receive(lane->secure, at + lane->got, size - lane->got);
        pthread_mutex_unlock(&lane->lock);
        if (got <= 0)
            return got < 0 ? PTO_EPEER : PTO_EAGAIN;
        lane->got += (size_t)got;
    }
    return PTO_OK;
}

static void lane_end_greeting(struct lane *lane, const struct lane_link *link)
{
    struct lane_hello hello;
    int status = lane_fill(lane, lane->greeting, LANE_HELLO_BYTES);

    if (status == PTO_EAGAIN)
        return;
    if (status < 0 || !lane_unpack_hello(lane->greeting, &hello) ||
        !lane_is_for(lane, link, &hello) || hello.epoch != lane->epoch) {
        lane_break(lane, RETRY_NS);
        return;
    }
    if (!lane_begin(lane, link, &hello))
        lane_give_up(lane, link, LANE_INVALID);
}

/* Handles a record that has arrived completely. A negative status: the record is invalid. */
static int lane_take(struct lane *lane, const struct lane_link *link)
{
    const struct lane_header *h = &lane->header;
    bool is_new = h->number == lane->received + 1, is_good;
    int status = PTO_OK;

    pthread_mutex_lock(&lane->lock);
    is_good = lane_forget(lane, h->ack);
    lane->heard_ns = os_now_ns();
    pthread_mutex_unlock(&lane->lock);
    if (!is_good || h->number > lane->received + 1)
        return PTO_EINVAL;
    /* mutation: count-twice */
    if (h->number != 0 && !is_new)
        lane->doubles++;
    else if (h->number != 0)
        status = link->deliver(link->context, lane->peer, h->kind, lane->record + LANE_HEADER_BYTES,
                               h->bytes);
    pthread_mutex_lock(&lane->lock);
    if (is_new)
        lane->received = h->number;
    lane->since_ack += h->bytes;
    if ((h->flags & LANE_WANTS_ACK) != 0 || lane->since_ack >= LANE_ACK_BYTES) {
        lane->since_ack = 0;
        lane->wants_beat = true;
        lane_pump(lane);
    }
    pthread_mutex_unlock(&lane->lock);
    return status;
}

/* Receives one record and handles it. PTO_EAGAIN: it has not arrived completely. */
static int lane_receive(struct lane *lane, const struct lane_link *link)
{
    int status = PTO_OK;

    if (lane->got < LANE_HEADER_BYTES) {
        status = lane_fill(lane, lane->record, LANE_HEADER_BYTES);
        if (status >= 0 && !lane_unpack_header(lane->record, &lane->header))
            status = PTO_EINVAL;
    }
    if (status < 0)
        return status;
    status = lane_fill(lane, lane->record, LANE_HEADER_BYTES + lane->header.bytes);
    if (status < 0)
        return status;
    lane->got = 0;
    return lane_take(lane, link);
}

void lane_handle(struct lane *lane, const struct lane_link *link)
{
    enum { RECORDS_A_TURN = 256 }; /* number of records after which other lanes get their turn */
    int status = PTO_OK;

    if (lane->state == LANE_CONNECTING)
        lane_end_connect(lane, link);
    if (lane->state == LANE_SHAKING)
        lane_end_handshake(lane, link);
    if (lane->state == LANE_GREETING)
        lane_end_greeting(lane, link);
    if (lane->state != LANE_UP)
        return;
    pthread_mutex_lock(&lane->lock);
    lane_pump(lane);
    pthread_mutex_unlock(&lane->lock);
    for (uint32_t i = 0; status >= 0 && (i < RECORDS_A_TURN || secure_has_more(lane->secure)); i++)
        status = lane_receive(lane, link);
    if (status == PTO_EPEER)
        lane_break(lane, 0);
    else if (status < 0 && status != PTO_EAGAIN)
        lane_give_up(lane, link, LANE_INVALID);
}

/* ---- time ---- */

static void lane_tick_up(struct lane *lane, const struct lane_link *link, uint64_t now_ns)
{
    if (now_ns - lane->heard_ns > link->lease_ns) {
        lane_break(lane, 0);
        return;
    }
    pthread_mutex_lock(&lane->lock);
    if (now_ns - lane->wrote_ns > lane->beat_ns) {
        lane->wants_beat = true;
        lane_pump(lane);
    }
    pthread_mutex_unlock(&lane->lock);
}

void lane_tick(struct lane *lane, const struct lane_link *link, uint64_t now_ns)
{
    if (lane->state == LANE_LOST)
        return;
    if (now_ns < lane->heard_ns)
        now_ns = lane->heard_ns;
    if (lane->state == LANE_UP)
        lane_tick_up(lane, link, now_ns);
    else if (lane->state != LANE_DOWN && now_ns >= lane->limit_ns)
        lane_break(lane, RETRY_NS);
    if (lane->state != LANE_UP && now_ns - lane->heard_ns > link->grace_ns)
        lane_give_up(lane, link, LANE_SILENT);
    else if (lane->state == LANE_DOWN && now_ns >= lane->retry_ns)
        lane_connect(lane, link);
}
