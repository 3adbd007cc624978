/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending on a lane, and the records that a lane keeps until they are acknowledged: src/net/lane.h.
 */
#include "net/lane.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/os.h"
#include "net/packer.h"

enum { HELLO_MAGIC = 0x4c6f7470, HELLO_VERSION = 1 };

struct lane_record {
    struct lane_record *next;
    uint64_t number;
    size_t bytes; /* header and payload */
    uint8_t byte[];
};

/* ---- bytes ---- */

void lane_pack_header(const struct lane_header *header, uint8_t bytes[LANE_HEADER_BYTES])
{
    struct packer p = { bytes };

    pack_number(&p, header->kind, 1);
    pack_number(&p, header->flags, 1);
    pack_number(&p, 0, 2);
    pack_number(&p, header->bytes, 4);
    pack_number(&p, header->number, 8);
    pack_number(&p, header->ack, 8);
}

bool lane_unpack_header(const uint8_t bytes[LANE_HEADER_BYTES], struct lane_header *out)
{
    struct unpacker u = { bytes, LANE_HEADER_BYTES, false };
    uint64_t zero;

    out->kind = (uint8_t)unpack_number(&u, 1);
    out->flags = (uint8_t)unpack_number(&u, 1);
    zero = unpack_number(&u, 2);
    out->bytes = (uint32_t)unpack_number(&u, 4);
    out->number = unpack_number(&u, 8);
    out->ack = unpack_number(&u, 8);
    /* mutation: trusted-size */
    if (zero != 0 || out->flags > LANE_WANTS_ACK || out->bytes > LANE_PAYLOAD_MAX)
        return false;
    return out->kind == LANE_BEAT ? out->number == 0 && out->bytes == 0 : out->number != 0;
}

void lane_pack_hello(const struct lane_hello *hello, uint8_t bytes[LANE_HELLO_BYTES])
{
    struct packer p = { bytes };

    pack_number(&p, HELLO_MAGIC, 4);
    pack_number(&p, HELLO_VERSION, 4);
    pack_bytes(&p, hello->job, LANE_JOB_BYTES);
    pack_number(&p, hello->from, 4);
    pack_number(&p, hello->to, 4);
    pack_number(&p, hello->epoch, 8);
    pack_number(&p, hello->received, 8);
    pack_number(&p, hello->lease_ns, 8);
    pack_number(&p, 0, 8);
    assert(p.at == bytes + LANE_HELLO_BYTES);
}

bool lane_unpack_hello(const uint8_t bytes[LANE_HELLO_BYTES], struct lane_hello *out)
{
    struct unpacker u = { bytes, LANE_HELLO_BYTES, false };
    bool is_hello = unpack_number(&u, 4) == HELLO_MAGIC;

    is_hello = unpack_number(&u, 4) == HELLO_VERSION && is_hello;
    unpack_bytes(&u, out->job, LANE_JOB_BYTES);
    out->from = (uint32_t)unpack_number(&u, 4);
    out->to = (uint32_t)unpack_number(&u, 4);
    out->epoch = unpack_number(&u, 8);
    out->received = unpack_number(&u, 8);
    out->lease_ns = unpack_number(&u, 8);
    return is_hello && unpack_number(&u, 8) == 0 && out->epoch != 0;
}

/* ---- life ---- */

int lane_init(struct lane *lane, uint32_t peer, int poller, uint64_t tag)
{
    memset(lane, 0, sizeof(*lane));
    lane->peer = peer;
    lane->poller = poller;
    lane->tag = tag;
    lane->socket = -1;
    pthread_mutex_init(&lane->lock, NULL);
    os_cond_init(&lane->room);
    lane->record = malloc(LANE_HEADER_BYTES + LANE_PAYLOAD_MAX);
    return lane->record != NULL ? PTO_OK : PTO_ENOMEM;
}

void lane_fini(struct lane *lane)
{
    secure_free(lane->secure);
    if (lane->socket >= 0)
        close(lane->socket);
    while (lane->first != NULL) {
        struct lane_record *r = lane->first;

        lane->first = r->next;
        free(r);
    }
    free(lane->record);
    pthread_cond_destroy(&lane->room);
    pthread_mutex_destroy(&lane->lock);
}

/* ---- records that are kept until they are acknowledged ---- */

bool lane_forget(struct lane *lane, uint64_t number)
{
    assert_held(&lane->lock);
    if (number > (lane->next != NULL ? lane->next->number - 1 : lane->sent))
        return false;
    if (number <= lane->acked)
        return true;
    lane->acked = number;
    while (lane->first != NULL && lane->first->number <= number) {
        struct lane_record *r = lane->first;

        lane->first = r->next;
        lane->kept_bytes -= r->bytes;
        free(r);
    }
    if (lane->first == NULL)
        lane->last = NULL;
    pthread_cond_broadcast(&lane->room);
    return true;
}

void lane_rewind(struct lane *lane)
{
    assert_held(&lane->lock);
    lane->next = lane->first;
    lane->next_at = 0;
    lane->beat_left = 0;
    lane->is_mid_record = lane->is_blocked = lane->wants_beat = false;
}

void lane_watch(struct lane *lane)
{
    bool wants_write = lane->is_blocked;
    struct epoll_event event = { .data.u64 = lane->tag };

    if (lane->state == LANE_CONNECTING)
        event.events = EPOLLOUT;
    else if (lane->state == LANE_SHAKING)
        event.events = secure_wants_write(lane->secure) ? EPOLLOUT : EPOLLIN;
    else
        event.events = EPOLLIN | (wants_write ? EPOLLOUT : 0u);
    (void)epoll_ctl(lane->poller, EPOLL_CTL_MOD,
                    lane->secure != NULL ? secure_socket(lane->secure) : lane->socket, &event);
}

/* ---- sending ---- */

/*
 * Writes a part of the current beat or record. Returns the number of bytes written, 0 if the socket
 * is full, or PTO_EPEER.
 */
static ssize_t lane_write_some(struct lane *lane)
{
    ssize_t wrote;

    if (lane->beat_left > 0) {
        wrote = secure_send(lane->secure, lane->beat + LANE_HEADER_BYTES - lane->beat_left,
                            lane->beat_left);
        if (wrote > 0)
            lane->beat_left -= (uint32_t)wrote;
        return wrote;
    }
    lane->is_mid_record = true;
    wrote = secure_send(lane->secure, lane->next->byte + lane->next_at,
                        lane->next->bytes - lane->next_at);
    if (wrote <= 0)
        return wrote;
    lane->next_at += (size_t)wrote;
    if (lane->next_at == lane->next->bytes) {
        lane->next = lane->next->next;
        lane->next_at = 0;
        lane->is_mid_record = false;
    }
    return wrote;
}

static bool lane_needs_beat(const struct lane *lane)
{
    return lane->beat_left == 0 && !lane->is_mid_record &&
           (lane->wants_beat || (lane->asks && lane->next == NULL));
}

void lane_pump(struct lane *lane)
{
    bool was_blocked = lane->is_blocked, has_written = false;
    ssize_t wrote = 1;

    assert_held(&lane->lock);
    if (lane->state != LANE_UP)
        return;
    while (wrote > 0) {
        if (lane_needs_beat(lane)) {
            /*
             * the beat that requests an acknowledgement follows all records, so that it covers them
             */
            bool asks = lane->asks && lane->next == NULL;
            struct lane_header beat = { LANE_BEAT, asks ? LANE_WANTS_ACK : 0, 0, 0,
                                        lane->received };

            lane_pack_header(&beat, lane->beat);
            lane->beat_left = LANE_HEADER_BYTES;
            lane->wants_beat = false;
            lane->asks = lane->asks && !asks;
        }
        if (lane->beat_left == 0 && lane->next == NULL)
            break;
        wrote = lane_write_some(lane);
        has_written = has_written || wrote > 0;
    }
    if (has_written)
        lane->wrote_ns = os_now_ns();
    if (wrote < 0) /* the shutdown wakes the mesh's thread, which then closes the connection */
        (void)shutdown(secure_socket(lane->secure), SHUT_RDWR);
    lane->is_blocked = wrote == 0;
    if (lane->is_blocked != was_blocked)
        lane_watch(lane);
}

/* Waits until the lane may keep another record. */
static int lane_await_room(struct lane *lane, uint64_t deadline_ns)
{
    assert_held(&lane->lock);
    if (deadline_ns == 0 && lane->kept_bytes >= LANE_KEPT_LIMIT)
        return PTO_ENOMEM;
    while (lane->state != LANE_LOST && deadline_ns != 0 && lane->kept_bytes >= LANE_KEPT_MAX)
        if (!os_cond_wait(&lane->room, &lane->lock, deadline_ns))
            return PTO_ETIMEOUT;
    return lane->state == LANE_LOST ? PTO_EPEER : PTO_OK;
}

int lane_send(struct lane *lane, const struct lane_letter *letter)
{
    size_t bytes = LANE_HEADER_BYTES + letter->head_bytes + letter->data_bytes;
    struct lane_record *r = malloc(sizeof(*r) + bytes);
    struct lane_header header = { letter->kind, letter->flags,
                                  (uint32_t)(letter->head_bytes + letter->data_bytes), 0, 0 };
    int status;

    assert(letter->data_bytes <= LANE_DATA_MAX && header.bytes <= LANE_PAYLOAD_MAX);
    if (r == NULL)
        return PTO_ENOMEM;
    r->next = NULL;
    r->bytes = bytes;
    memcpy(r->byte + LANE_HEADER_BYTES, letter->head, letter->head_bytes);
    if (letter->data_bytes > 0)
        memcpy(r->byte + LANE_HEADER_BYTES + letter->head_bytes, letter->data, letter->data_bytes);
    pthread_mutex_lock(&lane->lock);
    status = lane_await_room(lane, letter->deadline_ns);
    if (status >= 0) {
        header.number = r->number = ++lane->sent;
        header.ack = lane->received;
        lane_pack_header(&header, r->byte);
        if (lane->last != NULL)
            lane->last->next = r;
        else
            lane->first = r;
        lane->last = r;
        if (lane->next == NULL)
            lane->next = r;
        lane->kept_bytes += bytes;
        lane_pump(lane);
    }
    pthread_mutex_unlock(&lane->lock);
    if (status < 0)
        free(r);
    return status;
}

int lane_drain(struct lane *lane, uint64_t deadline_ns)
{
    uint64_t number;
    int status = PTO_OK;

    pthread_mutex_lock(&lane->lock);
    number = lane->sent;
    lane->asks = lane->acked < number;
    lane_pump(lane);
    while (status >= 0 && lane->acked < number) {
        if (lane->state == LANE_LOST)
            status = PTO_EPEER;
        else if (!os_cond_wait(&lane->room, &lane->lock, deadline_ns))
            status = PTO_ETIMEOUT;
    }
    pthread_mutex_unlock(&lane->lock);
    return status;
}
