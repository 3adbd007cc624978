/* SPDX-License-Identifier: Apache-2.0 */
/* New connections to a listening socket, until they are trusted: src/net/gate.h. */
#include "net/gate.h"

#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/os.h"

int gate_open(struct gate *gate, int listener, int poller, uint64_t tag, const struct job_key *key,
              size_t greeting_bytes)
{
    /* an edge, because connections may stay in the queue until there is a place */
    struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u64 = tag };

    memset(gate, 0, sizeof(*gate));
    gate->listener = listener;
    gate->poller = poller;
    gate->tag = tag;
    gate->key = *key;
    gate->greeting_bytes = greeting_bytes;
    gate->deadline_ns = GATE_DEADLINE_NS;
    gate->patience_ns = GATE_PATIENCE_NS;
    if (epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event) == 0)
        return PTO_OK;
    gate_close(gate);
    return PTO_ESYSTEM;
}

/*
 * Closes the connection of a guest that is not admitted. Closing its socket also removes it from
 * the poller.
 */
static void gate_refuse(struct gate *gate, struct gate_guest *guest)
{
    secure_free(guest->secure);
    guest->secure = NULL;
    gate->refused++;
}

void gate_close(struct gate *gate)
{
    for (uint32_t i = 0; i < GATE_GUESTS; i++)
        if (gate->guest[i].secure != NULL)
            gate_refuse(gate, &gate->guest[i]);
    if (gate->listener >= 0)
        close(gate->listener);
    gate->listener = -1;
    explicit_bzero(&gate->key, sizeof(gate->key));
}

bool gate_is_own(const struct gate *gate, uint64_t data)
{
    return data >= gate->tag && data <= gate->tag + GATE_GUESTS;
}

/* Whether bytes of a guest wait to be read. */
static bool gate_has_bytes(struct gate_guest *guest)
{
    char byte;
    bool has_bytes = recv(secure_socket(guest->secure), &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;

    guest->has_sent = guest->has_sent || has_bytes;
    return has_bytes;
}

/*
 * Finds a place for a new guest: a free one, or that of a guest that has sent nothing, or nothing
 * for a while; the one that was heard longest ago. NULL: there is none now.
 */
static struct gate_guest *gate_find_place(struct gate *gate)
{
    const uint64_t now_ns = os_now_ns();
    struct gate_guest *found = NULL;

    for (uint32_t i = 0; i < GATE_GUESTS; i++) {
        struct gate_guest *guest = &gate->guest[i];

        if (guest->secure == NULL)
            return guest;
        /* mutation: crowded-gate */
        if (gate_has_bytes(guest) ||
            (guest->has_sent && now_ns - guest->heard_ns < gate->patience_ns))
            continue;
        if (found == NULL || guest->heard_ns < found->heard_ns)
            found = guest;
    }
    if (found != NULL)
        gate_refuse(gate, found);
    return found;
}

/* Whether a connection waits to be accepted. */
static bool gate_has_queue(const struct gate *gate)
{
    return gate->listener >= 0 &&
           poll(&(struct pollfd){ .fd = gate->listener, .events = POLLIN }, 1, 0) == 1;
}

static void gate_accept_all(struct gate *gate)
{
    struct gate_guest *guest;
    int socket;

    while (gate_has_queue(gate) && (guest = gate_find_place(gate)) != NULL &&
           (socket = net_accept(gate->listener)) >= 0) {
        uint64_t data = gate->tag + 1 + (uint64_t)(guest - gate->guest);
        struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET, .data.u64 = data };

        guest->secure = secure_make(socket, true, &gate->key);
        guest->since_ns = guest->heard_ns = os_now_ns();
        guest->has_sent = guest->is_known = false;
        guest->got = 0;
        if (guest->secure != NULL && epoll_ctl(gate->poller, EPOLL_CTL_ADD, socket, &event) != 0)
            gate_refuse(gate, guest);
    }
}

/*
 * Continues the handshake of a guest, then reads its greeting. PTO_OK: the greeting is complete.
 * PTO_EAGAIN: the guest has to send more. Otherwise the guest is refused.
 */
static int gate_advance(struct gate *gate, struct gate_guest *guest)
{
    ssize_t got;

    if (gate_has_bytes(guest))
        guest->heard_ns = os_now_ns();
    if (!guest->is_known) {
        int status = secure_shake(guest->secure);

        if (status < 0)
            return status;
        guest->is_known = true;
    }
    while (guest->got < gate->greeting_bytes) {
        got = secure_receive(guest->secure, guest->greeting + guest->got,
                             gate->greeting_bytes - guest->got);
        if (got <= 0)
            return got < 0 ? PTO_EPEER : PTO_EAGAIN;
        guest->got += (size_t)got;
    }
    return PTO_OK;
}

struct secure *gate_handle(struct gate *gate, uint64_t data, uint8_t *greeting_out)
{
    struct gate_guest *guest;
    struct secure *secure;
    int status;

    if (data == gate->tag) {
        gate_accept_all(gate);
        return NULL;
    }
    guest = &gate->guest[data - gate->tag - 1];
    if (guest->secure == NULL)
        return NULL; /* epoll reported an event of a guest that was closed in the meantime */
    status = gate_advance(gate, guest);
    if (status == PTO_EAGAIN)
        return NULL;
    if (status < 0) {
        gate_refuse(gate, guest);
        gate_accept_all(gate);
        return NULL;
    }
    secure = guest->secure;
    guest->secure = NULL;
    (void)epoll_ctl(gate->poller, EPOLL_CTL_DEL, secure_socket(secure), NULL);
    memcpy(greeting_out, guest->greeting, gate->greeting_bytes);
    gate_accept_all(gate); /* there is a place now */
    return secure;
}

void gate_expire(struct gate *gate, uint64_t now_ns)
{
    for (uint32_t i = 0; i < GATE_GUESTS; i++)
        /* mutation: patient-gate */
        if (gate->guest[i].secure != NULL && now_ns - gate->guest[i].since_ns > gate->deadline_ns)
            gate_refuse(gate, &gate->guest[i]);
    gate_accept_all(gate);
}
