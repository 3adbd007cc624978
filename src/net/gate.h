/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listening socket that strangers can reach. A guest is a connection that is not trusted yet: it
 * has to complete the handshake, which proves that it has the key, and send a greeting of a fixed
 * size, before a deadline. At most GATE_GUESTS wait at a time. When more come, the oldest one that
 * has sent nothing is closed, so that idle strangers keep no rank out: a rank sends before it is
 * accepted. If all have sent something, the next one waits in the queue of the operating system
 * until a place is free, or until a guest has sent nothing for GATE_PATIENCE_NS. One thread uses a
 * gate.
 */
#ifndef PTO_GATE_H
#define PTO_GATE_H

#include "net/net_address.h"
#include "net/secure.h"

enum { GATE_GUESTS = 64, GATE_GREETING_MAX = 512 };
#define GATE_DEADLINE_NS 5000000000ull
#define GATE_PATIENCE_NS 1000000000ull

struct gate {
    int listener; /* -1: closed */
    int poller;   /* epoll descriptor of the owner, where the gate's descriptors are registered */
    /* epoll data of the listening socket; that of guest i is tag + 1 + i */
    uint64_t tag;
    struct job_key key;
    size_t greeting_bytes;
    uint64_t deadline_ns; /* time limit for a guest's handshake and greeting */
    uint64_t patience_ns; /* how long a guest may send nothing while others wait */
    uint64_t refused;     /* number of connections that were closed without being admitted */
    struct gate_guest {
        struct secure *secure; /* NULL: the entry is free */
        uint64_t since_ns, heard_ns;
        bool has_sent; /* bytes have come */
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
/*
 * Closes guests that have exceeded their time, and lets waiting connections take their entries.
 * Called at intervals.
 */
void gate_expire(struct gate *gate, uint64_t now_ns);

#endif
