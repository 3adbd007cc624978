/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane carries numbered records to and from one peer. Each record is delivered once and in order,
 * although the connection that carries them may be lost and replaced by another one.
 *
 * Records are numbered from 1. The sender keeps each until the peer has acknowledged it. When a
 * connection is made, each side first reports how many records it has received; the other side
 * sends the rest again. Each connection has a larger epoch than those before it, so that an old one
 * cannot replace a newer one.
 *
 * Any thread may send: it writes to the socket as much as the socket takes, and the thread of the
 * mesh (net/mesh.h) writes the rest. Only that thread receives, and makes and closes connections.
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
    LANE_DATA_MAX = 64 << 10, /* maximum size of a record's data, in bytes */
    /* maximum size of a payload: a head of up to 256 bytes, then the data */
    LANE_PAYLOAD_MAX = LANE_DATA_MAX + 256,
    /* a sender with a deadline waits while this many bytes are kept */
    LANE_KEPT_MAX = 4 << 20,
    /* a sender without a deadline fails when this many bytes are kept */
    LANE_KEPT_LIMIT = 256 << 20,
    LANE_ACK_BYTES = 256 << 10, /* a receiver acknowledges after this many bytes */
};

/* kind of a record without number and payload: a sign of life, or an acknowledgement */
enum { LANE_BEAT = 0 };
enum { LANE_WANTS_ACK = 1 }; /* flag of a record: the receiver acknowledges at once */

struct lane_header {
    uint8_t kind; /* LANE_BEAT, or a kind that the lane's user defines */
    uint8_t flags;
    uint32_t bytes;  /* size of the payload that follows */
    uint64_t number; /* number of the record; 0: a beat */
    uint64_t ack;    /* number of the last record that the sender of this one has received */
};

/* The first message that each side of a new connection sends. */
struct lane_hello {
    uint8_t job[LANE_JOB_BYTES];
    uint32_t from, to; /* ranks of sender and receiver */
    uint64_t epoch;
    uint64_t received; /* number of the last record that the sender has received */
    uint64_t lease_ns; /* after this silence the sender of the hello closes the connection */
};

void lane_pack_header(const struct lane_header *header, uint8_t bytes[LANE_HEADER_BYTES]);
/*
 * Returns false if the bytes are no valid header. A valid header has at most LANE_PAYLOAD_MAX bytes
 * of payload.
 */
bool lane_unpack_header(const uint8_t bytes[LANE_HEADER_BYTES], struct lane_header *out);
void lane_pack_hello(const struct lane_hello *hello, uint8_t bytes[LANE_HELLO_BYTES]);
bool lane_unpack_hello(const uint8_t bytes[LANE_HELLO_BYTES], struct lane_hello *out);

struct lane_record; /* a record that is kept for sending; defined in lane.c */

enum lane_state {
    LANE_DOWN, /* there is no connection */
    /* a socket is connecting; is_probe: only to test whether the peer still listens */
    LANE_CONNECTING,
    LANE_SHAKING,  /* TLS handshake */
    LANE_GREETING, /* this side has sent its hello, and waits for the peer's */
    LANE_UP,
    LANE_LOST, /* the peer was given up, for good */
};

enum lane_loss {
    LANE_ENDED = 1, /* the peer's address refuses connections: its process has ended */
    LANE_SILENT,    /* the peer was silent for grace_ns */
    LANE_INVALID,   /* the peer has sent invalid data */
};

struct lane {
    pthread_mutex_t lock;
    /* signalled when records were acknowledged, and when the peer was given up */
    pthread_cond_t room;

    /* The following fields are protected by the lock. */
    enum lane_state state;
    struct secure *secure;            /* NULL: none */
    struct lane_record *first, *last; /* records that are not acknowledged, oldest first */
    struct lane_record *next;         /* next record to write; NULL: all were written */
    size_t next_at;                   /* number of bytes of `next` that were written */
    uint64_t sent;                    /* number of the newest record of this side */
    uint64_t acked;
    uint64_t kept_bytes;
    uint64_t received; /* number of the last record that was delivered to this side */
    uint64_t heard_ns; /* time at which something was last received */
    uint64_t wrote_ns; /* time at which something was last written */
    bool wants_beat;   /* a beat has to be sent, as an acknowledgement or as a sign of life */
    /* a beat that requests an acknowledgement has to be sent after all records */
    bool asks;
    bool is_blocked;    /* the socket accepts no more bytes now */
    uint32_t beat_left; /* number of bytes of `beat` that are still to be written */
    bool is_mid_record; /* a part of `next` was written, so a beat has to wait for its end */
    uint8_t beat[LANE_HEADER_BYTES];
    enum lane_loss loss;
    uint64_t silent_ns; /* how long the peer had been silent when it was given up */

    /* used only by the mesh's thread */
    uint32_t peer;
    struct net_address address; /* address at which the peer listens */
    int poller;
    uint64_t tag; /* epoll data of the lane's socket */
    bool is_connector, is_probe;
    int socket; /* socket that is connecting; -1: none */
    uint64_t epoch;
    /* time of the next attempt to connect, and time at which an attempt is given up */
    uint64_t retry_ns, limit_ns;
    uint32_t attempts; /* attempts to connect */
    /* number of successive attempts that the peer's host has refused */
    uint32_t refused;
    uint64_t beat_ns; /* interval at which beats are sent as signs of life */
    /* number of bytes received of the hello or record that is being read */
    size_t got;
    struct lane_header header;
    uint64_t since_ack; /* number of bytes received since the last acknowledgement was sent */
    uint64_t doubles;   /* number of records that were received a second time, and dropped */
    uint32_t connections;
    uint8_t greeting[LANE_HELLO_BYTES];
    uint8_t *record; /* the record that is being received: header and payload */
};

/* Initialises a lane without a connection. Returns PTO_OK or PTO_ENOMEM. */
int lane_init(struct lane *lane, uint32_t peer, int poller, uint64_t tag);
void lane_fini(struct lane *lane);

/* A record to send. Its payload is `head`, followed by `data`. */
struct lane_letter {
    uint8_t kind, flags;
    const void *head;
    size_t head_bytes; /* at most 256 */
    const void *data;
    size_t data_bytes; /* at most LANE_DATA_MAX */
    /* time at which to stop waiting for room; 0: keep the record without waiting */
    uint64_t deadline_ns;
};
/*
 * Sends a record; it is kept until the peer has acknowledged it. PTO_EPEER: the peer was given up.
 * PTO_ETIMEOUT: there was no room before the deadline. PTO_ENOMEM: no memory, or LANE_KEPT_LIMIT is
 * reached.
 */
int lane_send(struct lane *lane, const struct lane_letter *letter);
/*
 * Waits until the peer has acknowledged all records that were sent before. PTO_EPEER: the peer was
 * given up. PTO_ETIMEOUT.
 */
int lane_drain(struct lane *lane, uint64_t deadline_ns);

/* The following is defined in lane.c for lane_link.c and mesh.c. Callers hold the lock. */
/* Writes as much as the socket accepts. If the connection is lost, shuts the socket down. */
void lane_pump(struct lane *lane);
/*
 * Frees the records up to a number, which the peer has received. False: records up to this number
 * were not sent yet, so the peer's report is invalid.
 */
bool lane_forget(struct lane *lane, uint64_t number);
/*
 * Called when a connection was lost: the next one sends all records again that were not
 * acknowledged.
 */
void lane_rewind(struct lane *lane);
/* Sets the events for which epoll watches the lane's socket, by the state of the lane. */
void lane_watch(struct lane *lane);

/*
 * What lanes need from the mesh that they belong to. The functions below are defined in lane_link.c
 * and called by the mesh's thread.
 */
struct lane_link {
    const uint8_t *job;
    uint32_t rank; /* rank of this side */
    const struct job_key *key;
    uint64_t lease_ns, grace_ns;
    void *context;
    /*
     * Called for each received record. A negative status: the record is invalid, and the peer is
     * given up.
     */
    int (*deliver)(void *context, uint32_t peer, uint8_t kind, const uint8_t *payload,
                   size_t bytes);
    /* Called when a peer was given up. */
    void (*lose)(void *context, uint32_t peer);
};
/* Handles an epoll event of the lane's socket. */
void lane_handle(struct lane *lane, const struct lane_link *link);
/*
 * Replaces the lane's connection by one that the peer has made and greeted on. Takes ownership of
 * the connection, and closes it if it is not valid.
 */
void lane_accept(struct lane *lane, const struct lane_link *link, struct secure *secure,
                 const struct lane_hello *hello);
/*
 * Handles what is due at this time: connects, sends beats, closes silent connections, and gives up
 * the peer.
 */
void lane_tick(struct lane *lane, const struct lane_link *link, uint64_t now_ns);

#endif
