/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How ranks of several hosts find each other. Rank 0 listens at the address that all ranks were
 * given. The others connect to it, with the encrypted connections of net/secure.h:
 *
 *     rank n -> 0    hello: its rank, the address of its gate, the name of its abstract socket
 *     0 -> rank n    answer, then the roster: addresses and hosts of all ranks
 *     rank n -> m    for each m < n: by the abstract socket, with descriptors, if that can be
 *                    reached and both have the same host name; else a lane to m's gate
 *     rank n -> 0    hello again: it has reached all others
 *     0 -> rank n    answer: all ranks have reached all others
 *
 * Two ranks count as ranks of one host if one can connect to the abstract socket of the other. Boot
 * ids, process ids or folders do not show that, because containers and network namespaces share
 * them.
 */
#ifndef PTO_TLS_MEET_H
#define PTO_TLS_MEET_H

#include "comm/meet.h"
#include "net/mesh.h"

enum {
    TLS_HOST_BYTES = 64,
    TLS_HELLO_BYTES = 340,
    TLS_ANSWER_BYTES = 432,
    TLS_ENTRY_BYTES = 160,
    TLS_VERSION = 2,
};

/* How a rank introduces itself to rank 0. */
struct tls_hello {
    uint32_t version;
    uint32_t rank, rank_count;
    uint32_t head_bytes; /* size of a rank's head; equal on all ranks */
    uint32_t has_fence;
    uint32_t is_virtual; /* the rank's device has virtual time */
    uint32_t has_ucx;    /* the rank has the backend ucx, not tls */
    char token[MEET_TOKEN_BYTES];
    /* numeric address of the rank's gate, without port; "": the address at which rank 0 listens */
    char address[NET_TEXT_BYTES];
    uint32_t port;
    char host[TLS_HOST_BYTES];
    uint8_t name[MEET_NAME_BYTES]; /* name of the rank's abstract socket */
};

struct tls_answer {
    int32_t status;
    int32_t rank; /* number of the rank that caused the error; -1: none */
    uint32_t has_fence;
    uint8_t job[LANE_JOB_BYTES];
    char text[PTO_ERROR_TEXT_MAX < 384 ? PTO_ERROR_TEXT_MAX : 384];
};

/* What all ranks get to know about one rank. */
struct tls_entry {
    char address[NET_TEXT_BYTES];
    uint32_t port;
    char host[TLS_HOST_BYTES];
    uint8_t name[MEET_NAME_BYTES];
};

/* Each unpack function returns false if the bytes are not a valid message. */
void tls_meet_pack_hello(const struct tls_hello *hello, uint8_t bytes[TLS_HELLO_BYTES]);
bool tls_meet_unpack_hello(const uint8_t bytes[TLS_HELLO_BYTES], struct tls_hello *out);
void tls_meet_pack_answer(const struct tls_answer *answer, uint8_t bytes[TLS_ANSWER_BYTES]);
bool tls_meet_unpack_answer(const uint8_t bytes[TLS_ANSWER_BYTES], struct tls_answer *out);
void tls_meet_pack_entry(const struct tls_entry *entry, uint8_t bytes[TLS_ENTRY_BYTES]);
bool tls_meet_unpack_entry(const uint8_t bytes[TLS_ENTRY_BYTES], struct tls_entry *out);

/* A meeting in progress, on one rank. */
struct tls_meeting {
    const struct comm_request *comm;
    struct job_key key;
    bool has_key;
    struct tls_hello own;
    uint32_t head_bytes;
    /* socket that listens for this rank's gate; -1: the mesh has taken it over */
    int gate;
    /* on rank 0: socket that listens for the meeting; on other ranks: -1 */
    int listener;
    int socket;              /* listening abstract socket of this rank */
    struct net_address root; /* address of rank 0, as this rank sees it */
    /*
     * on rank 0: connection to each rank, by rank; on other ranks: [0] is the connection to rank 0
     */
    struct secure **connection;
    struct tls_entry *entry; /* roster: what is known about each rank, by rank */
    bool has_fence;
    uint8_t job[LANE_JOB_BYTES];
    struct pto_error *error;
};

/*
 * Initialises a meeting and opens the sockets of this rank. tls_meet_close must be called even
 * after a failure.
 */
int tls_meet_open(struct tls_meeting *m, const struct comm_request *comm, uint32_t head_bytes,
                  struct pto_error *error);
void tls_meet_close(struct tls_meeting *m);
/*
 * Exchanges the hellos of all ranks: on return the roster is complete. If this fails on one rank,
 * all ranks that have connected get its error.
 */
int tls_meet_gather(struct tls_meeting *m);
/*
 * Reports to rank 0 that this rank has reached all others, and waits until all ranks have reported
 * that.
 */
int tls_meet_conclude(struct tls_meeting *m);
/* Makes the meeting fail on all ranks, with an error of this rank. */
void tls_meet_fail(struct tls_meeting *m, int status, const struct pto_error *why);
/*
 * Whether another rank has made the meeting fail: if so, sets the error and returns its status.
 * Does not wait.
 */
int tls_meet_check(struct tls_meeting *m);

/* tls_meet_host.c: these functions for rank 0. */
int tls_meet_listen(struct tls_meeting *m);
int tls_meet_host_gather(struct tls_meeting *m);
int tls_meet_host_conclude(struct tls_meeting *m);
void tls_meet_host_fail(struct tls_meeting *m, int status, const struct pto_error *why);
int tls_meet_host_check(struct tls_meeting *m);

/* Send or receive all bytes. PTO_OK, PTO_EPEER, or PTO_ETIMEOUT at the deadline. */
int tls_meet_put(struct secure *secure, const void *bytes, size_t size, uint64_t deadline_ns);
int tls_meet_take(struct secure *secure, void *bytes, size_t size, uint64_t deadline_ns);

/*
 * tls_local.c: exchanges descriptors with ranks of this host, and adds a lane for each rank of
 * another host. Returns when all ranks were reached. `memory` and `process` are this rank's
 * descriptors, for ranks of this host; theirs are stored in the arrays, which keep -1 for ranks of
 * other hosts.
 */
struct tls_neighbours {
    int memory, process;
    int *memories, *processes;
    struct mesh *mesh;
};
int tls_local_find(struct tls_meeting *m, const struct tls_neighbours *n);

#endif
