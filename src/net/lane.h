/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane: records to and from one peer, each delivered once and in order, although the connection
 * below it may break and be made again.
 *
 * Records are numbered from 1. The sender keeps each until the peer has acknowledged it. When a
 * connection is made, both sides first say how many records they have received; the rest is sent
 * again. A connection has an epoch that grows, so that an old one cannot replace a newer one.
 *
 * Any thread sends: it writes to the connection itself as far as there is room, and the thread of
 * the mesh (net/mesh.h) writes the rest. Only that thread receives, and only it makes and breaks
 * connections.
 */
#ifndef PTO_LANE_H
#define PTO_LANE_H

#include <pthread.h>

#include "net/net_address.h"
#include "net/secure.h"

enum {
    LANE_HEADER_BYTES = 24,
    LANE_HELLO_BYTES = 64,
    LANE_JOB_BYTES = 16,
    LANE_DATA_MAX = 64 << 10,               /* data of a record */
    LANE_PAYLOAD_MAX = LANE_DATA_MAX + 256, /* data, and what describes it */
    LANE_KEPT_MAX = 4 << 20,                /* bytes that are kept before senders wait */
    LANE_KEPT_LIMIT = 256 << 20,            /* bytes that are kept of senders that do not wait */
    LANE_ACK_BYTES = 256 << 10,             /* bytes after which a receiver acknowledges */
};

enum { LANE_BEAT = 0 };      /* kind of a record without number and payload */
enum { LANE_WANTS_ACK = 1 }; /* flag of a record: the receiver acknowledges at once */

struct lane_header {
    uint8_t kind; /* LANE_BEAT, or a kind of the owner */
    uint8_t flags;
    uint32_t bytes;  /* size of the payload that follows */
    uint64_t number; /* 0 for a beat */
    uint64_t ack;    /* number of the last record that the sender of this one has received */
};

/* What both sides of a new connection send first. */
struct lane_hello {
    uint8_t job[LANE_JOB_BYTES];
    uint32_t from, to; /* ranks */
    uint64_t epoch;
    uint64_t received; /* number of the last record that the sender has received */
    uint64_t lease_ns; /* silence after which the sender breaks the connection */
};

void lane_pack_header(const struct lane_header *header, uint8_t bytes[LANE_HEADER_BYTES]);
/* False: the bytes are no header. The payload of a header is at most LANE_PAYLOAD_MAX. */
bool lane_unpack_header(const uint8_t bytes[LANE_HEADER_BYTES], struct lane_header *out);
void lane_pack_hello(const struct lane_hello *hello, uint8_t bytes[LANE_HELLO_BYTES]);
bool lane_unpack_hello(const uint8_t bytes[LANE_HELLO_BYTES], struct lane_hello *out);

struct lane_record; /* a record that is kept: lane.c */

enum lane_state {
    LANE_DOWN,       /* there is no connection */
    LANE_CONNECTING, /* the socket is being connected; `is_probe`: only to see whether it can be */
    LANE_SHAKING,    /* TLS handshake */
    LANE_GREETING,   /* this side has greeted, and waits for the peer's greeting */
    LANE_UP,
    LANE_LOST, /* the peer was given up */
};

enum lane_loss {
    LANE_ENDED = 1, /* nothing listens at the peer's address any more */
    LANE_SILENT,    /* nothing was heard for the time of grace */
    LANE_INVALID,   /* the peer sent what no peer sends */
};

struct lane {
    pthread_mutex_t lock;
    pthread_cond_t room; /* records were acknowledged, or the peer was given up */

    /* under the lock */
    enum lane_state state;
    struct secure *secure;            /* NULL: none */
    struct lane_record *first, *last; /* kept records, oldest first */
    struct lane_record *next;         /* next record to send; NULL: all are sent */
    size_t next_at;                   /* bytes of it that were sent */
    uint64_t sent;                    /* number of the newest record */
    uint64_t acked;
    uint64_t kept_bytes;
    uint64_t received;  /* number of the last record that was delivered */
    uint64_t heard_ns;  /* when something was received last */
    uint64_t wrote_ns;  /* when something was sent last */
    bool wants_beat;    /* a beat is to be sent, for its acknowledgement or as a sign of life */
    bool asks;          /* the next beat after all records asks for an acknowledgement */
    bool is_blocked;    /* the socket is full */
    uint32_t beat_left; /* bytes of a beat that are still to be sent */
    bool is_mid_record; /* `next` has begun, so no beat may come in between */
    uint8_t beat[LANE_HEADER_BYTES];
    enum lane_loss loss;
    uint64_t silent_ns; /* how long the peer was silent when it was given up */

    /* of the mesh's thread */
    uint32_t peer;
    struct net_address address; /* where the peer listens */
    int poller;
    uint64_t tag; /* data of the socket in the poller */
    bool is_connector, is_probe;
    int socket; /* while connecting; -1: none */
    uint64_t epoch;
    uint64_t retry_ns, limit_ns; /* when to connect again, and when to give up an attempt */
    uint32_t attempts;           /* attempts to connect */
    uint32_t refused;            /* attempts in sequence that the peer's machine refused */
    uint64_t beat_ns;            /* interval between signs of life */
    size_t got;                  /* bytes of the greeting or the record that are here */
    struct lane_header header;
    uint64_t since_ack; /* bytes received since the last acknowledgement */
    uint64_t doubles;   /* records that came a second time */
    uint32_t connections;
    uint8_t greeting[LANE_HELLO_BYTES];
    uint8_t *record; /* room for a header and a payload */
};

/* PTO_ENOMEM. */
int lane_init(struct lane *lane, uint32_t peer, int poller, uint64_t tag);
void lane_fini(struct lane *lane);

/* A record to send. Its payload is `head`, followed by `data`. */
struct lane_letter {
    uint8_t kind, flags;
    const void *head;
    size_t head_bytes; /* at most 256 */
    const void *data;
    size_t data_bytes; /* at most LANE_DATA_MAX */
    /* when to give up waiting for room; 0: the record is kept without waiting */
    uint64_t deadline_ns;
};
/* Returns PTO_OK; PTO_EPEER: the peer was given up; PTO_ETIMEOUT: no room; or PTO_ENOMEM. */
int lane_send(struct lane *lane, const struct lane_letter *letter);
/* Waits until the peer has received all records that were sent before. The same statuses. */
int lane_drain(struct lane *lane, uint64_t deadline_ns);

/* lane.c, for lane_link.c and mesh.c; the lock is held. */
/* Writes as much as the socket takes. A connection that broke is shut down. */
void lane_pump(struct lane *lane);
/* Forgets records up to a number. False: the peer never received them. */
bool lane_forget(struct lane *lane, uint64_t number);
/* Prepares to send again what was not acknowledged, after the connection was lost. */
void lane_rewind(struct lane *lane);
/* Sets which events of the socket are reported. */
void lane_watch(struct lane *lane);

/* lane_link.c: what the mesh does with a lane in its thread. */
struct lane_link {
    const uint8_t *job;
    uint32_t rank; /* of this side */
    const struct job_key *key;
    uint64_t lease_ns, grace_ns;
    void *context;
    /* Handles a record; negative: it is invalid. */
    int (*deliver)(void *context, uint32_t peer, uint8_t kind, const uint8_t *payload,
                   size_t bytes);
    /* The peer was given up. */
    void (*lose)(void *context, uint32_t peer);
};
/* Handles an event of the lane's socket. */
void lane_handle(struct lane *lane, const struct lane_link *link);
/* Takes over a connection that the peer has made, with its greeting; owns the connection. */
void lane_accept(struct lane *lane, const struct lane_link *link, struct secure *secure,
                 const struct lane_hello *hello);
/* Does what time demands: connects, sends signs of life, breaks silent connections, gives up. */
void lane_tick(struct lane *lane, const struct lane_link *link, uint64_t now_ns);

#endif
