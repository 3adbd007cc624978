/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gate: the listening socket of a rank, which processes without the key can also reach. A guest
 * is a connection that is not trusted yet: before a deadline it has to complete the TLS handshake,
 * which proves that it has the key, and to send a greeting of a fixed size. At most GATE_GUESTS
 * guests wait at a time; a further one replaces the oldest, so that idle strangers cannot keep a
 * rank from connecting. Only one thread uses a gate.
 */
#ifndef PTO_GATE_H
#define PTO_GATE_H

#include "net/net_address.h"
#include "net/secure.h"

enum { GATE_GUESTS = 64, GATE_GREETING_MAX = 512 };
#define GATE_DEADLINE_NS 5000000000ull

struct gate {
    int listener; /* -1: closed */
    int poller;   /* epoll descriptor of the owner, where the gate's descriptors are registered */
    /* epoll data of the listening socket; that of guest i is tag + 1 + i */
    uint64_t tag;
    struct job_key key;
    size_t greeting_bytes;
    uint64_t deadline_ns; /* time that a guest has for handshake and greeting */
    uint64_t refused;     /* number of guests that were closed without being admitted */
    struct gate_guest {
        struct secure *secure; /* connection of the guest; NULL: the entry is free */
        uint64_t since_ns;
        bool is_known; /* the handshake is complete */
        size_t got;    /* number of bytes of the greeting received so far */
        uint8_t greeting[GATE_GREETING_MAX];
    } guest[GATE_GUESTS];
};

/*
 * Opens a gate and takes ownership of the listening socket `listener`. PTO_ESYSTEM: the call failed
 * and has closed the socket.
 */
int gate_open(struct gate *gate, int listener, int poller, uint64_t tag, const struct job_key *key,
              size_t greeting_bytes);
void gate_close(struct gate *gate);
/* Whether an epoll event with this data is one of the gate's. */
bool gate_is_own(const struct gate *gate, uint64_t data);
/*
 * Handles an epoll event. Returns the connection of a guest that was admitted, with its greeting;
 * the caller owns it. NULL: the event admits no guest.
 */
struct secure *gate_handle(struct gate *gate, uint64_t data, uint8_t *greeting_out);
/* Closes guests that have exceeded their time. */
void gate_expire(struct gate *gate, uint64_t now_ns);

#endif
