/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listening socket that strangers can reach. A guest is a connection that is not trusted yet: it
 * has to complete the handshake, which proves that it has the key, and send a greeting of a fixed
 * size, before a deadline. At most GATE_GUESTS wait at a time; when more come, the oldest one is
 * closed, so that idle strangers keep no rank out. One thread uses a gate.
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
    /* epoll data of the listener; a guest, which has not greeted yet, has its number + 1 more */
    uint64_t tag;
    struct job_key key;
    size_t greeting_bytes;
    uint64_t deadline_ns; /* how long a guest may take */
    uint64_t refused;     /* number of connections that were not let in */
    struct gate_guest {
        struct secure *secure; /* NULL: the place is free */
        uint64_t since_ns;
        bool is_known; /* the handshake is complete */
        size_t got;    /* bytes of the greeting */
        uint8_t greeting[GATE_GREETING_MAX];
    } guest[GATE_GUESTS];
};

/* Opens a gate with a listener, which it owns. PTO_ESYSTEM, and the listener is closed. */
int gate_open(struct gate *gate, int listener, int poller, uint64_t tag, const struct job_key *key,
              size_t greeting_bytes);
void gate_close(struct gate *gate);
/* Whether the data of an event belongs to the gate. */
bool gate_is_own(const struct gate *gate, uint64_t data);
/*
 * Handles an event. Returns a guest that was let in, with its greeting; the caller owns it. NULL:
 * none now.
 */
struct secure *gate_handle(struct gate *gate, uint64_t data, uint8_t *greeting_out);
/* Closes guests that took too long. */
void gate_expire(struct gate *gate, uint64_t now_ns);

#endif
