/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How ranks of several hosts find each other. Rank 0 listens at the address that all ranks were
 * given; the others connect, and all talk through the secure connections of net/secure.h:
 *
 *     rank n -> 0    hello: who it is, the address of its gate, the name of its abstract socket
 *     0 -> rank n    answer, then what all ranks have said (the roster)
 *     rank n -> m    for each m < n: by the abstract socket, with descriptors, if that can be
 *                    reached and both have the same host name; else a lane to m's gate
 *     rank n -> 0    hello again: it has reached all ranks
 *     0 -> rank n    answer: all have
 *
 * Two ranks are on one host if one reaches the abstract socket of the other. Nothing else shows
 * that: containers and network namespaces share boot ids, process ids and folders.
 */
#ifndef PTO_TLS_MEET_H
#define PTO_TLS_MEET_H

#include "comm/meet.h"
#include "net/mesh.h"

enum {
    TLS_HOST_BYTES = 64,
    TLS_HELLO_BYTES = 336,
    TLS_ANSWER_BYTES = 432,
    TLS_ENTRY_BYTES = 160,
    TLS_VERSION = 1,
};

/* What a rank says of itself. */
struct tls_hello {
    uint32_t version;
    uint32_t rank, rank_count;
    uint32_t head_bytes; /* size of a rank's head; equal on all ranks */
    uint32_t has_fence;
    uint32_t is_virtual; /* its device has virtual time */
    char token[MEET_TOKEN_BYTES];
    char address[NET_TEXT_BYTES]; /* numeric address of its gate, without port; "": as rank 0's */
    uint32_t port;
    char host[TLS_HOST_BYTES];
    uint8_t name[MEET_NAME_BYTES]; /* of its abstract socket */
};

struct tls_answer {
    int32_t status;
    int32_t rank; /* rank that the error is about; -1: none */
    uint32_t has_fence;
    uint8_t job[LANE_JOB_BYTES];
    char text[PTO_ERROR_TEXT_MAX < 384 ? PTO_ERROR_TEXT_MAX : 384];
};

/* One rank of the roster. */
struct tls_entry {
    char address[NET_TEXT_BYTES];
    uint32_t port;
    char host[TLS_HOST_BYTES];
    uint8_t name[MEET_NAME_BYTES];
};

/* Each unpack function returns false if the bytes are no such message. */
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
    int gate;                   /* listener of this rank's gate; -1: given to the mesh */
    int listener;               /* of rank 0; else -1 */
    int socket;                 /* listening abstract socket of this rank */
    struct net_address root;    /* where rank 0 listens, as this rank sees it */
    struct secure **connection; /* of rank 0: to each rank; else only [0], to rank 0 */
    struct tls_entry *entry;    /* the roster, by rank */
    bool has_fence;
    uint8_t job[LANE_JOB_BYTES];
    struct pto_error *error;
};

/* Prepares a meeting. tls_meet_close must be called even after a failure. */
int tls_meet_open(struct tls_meeting *m, const struct comm_request *comm, uint32_t head_bytes,
                  struct pto_error *error);
void tls_meet_close(struct tls_meeting *m);
/* Gets the roster. On failure of any rank, all ranks that came get the error. */
int tls_meet_gather(struct tls_meeting *m);
/* Tells rank 0 that this rank has reached all ranks, and waits until all have. */
int tls_meet_conclude(struct tls_meeting *m);
/* Ends the meeting of all ranks with an error of this rank. */
void tls_meet_fail(struct tls_meeting *m, int status, const struct pto_error *why);
/* Whether the meeting was ended by another rank; sets the error then. Does not wait. */
int tls_meet_check(struct tls_meeting *m);

/* tls_meet_host.c: the side of rank 0. */
int tls_meet_listen(struct tls_meeting *m);
int tls_meet_host_gather(struct tls_meeting *m);
int tls_meet_host_conclude(struct tls_meeting *m);
void tls_meet_host_fail(struct tls_meeting *m, int status, const struct pto_error *why);
int tls_meet_host_check(struct tls_meeting *m);

/* Sends or receives all bytes until the deadline. PTO_OK, PTO_EPEER or PTO_ETIMEOUT. */
int tls_meet_put(struct secure *secure, const void *bytes, size_t size, uint64_t deadline_ns);
int tls_meet_take(struct secure *secure, void *bytes, size_t size, uint64_t deadline_ns);

/*
 * tls_local.c: finds the ranks of this host, and adds a lane for each other one. Returns when each
 * rank was reached. `memory` and `process` are offered to ranks of this host; their descriptors
 * are put into the arrays, where those of other ranks stay -1.
 */
struct tls_neighbours {
    int memory, process;
    int *memories, *processes;
    struct mesh *mesh;
};
int tls_local_find(struct tls_meeting *m, const struct tls_neighbours *n);

#endif
