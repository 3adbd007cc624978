/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backend "tls", for ranks on several hosts. Ranks of one host share memory, as in comm_shm.h.
 * For each rank of another host, this process has mirrors: private copies of the rank's head, and
 * of control and scratch of its blocks in common domains. What the rank stores in its own memory
 * arrives here as records (comm/tls_wire.h), and the thread of the mesh stores it in the mirrors.
 * Windows have no mirrors: records read and write them.
 */
#ifndef PTO_COMM_TLS_H
#define PTO_COMM_TLS_H

#include "comm/comm_shm.h"
#include "comm/tls_meet.h"
#include "comm/tls_wire.h"
#include "net/mesh.h"

/*
 * A block of this rank, whose window records of other hosts may access; or a mirror of another
 * rank's block.
 */
struct tls_block {
    struct tls_block *next;
    uint32_t rank; /* rank to which the block belongs */
    uint64_t offset, bytes;
    char *at;
};

struct tls;
struct tls_far;

/* A get or a fetch_add that waits for answers. Under call_lock while it is open. */
struct tls_call {
    struct tls_call *next;
    bool is_open; /* it is in the list of calls */
    /*
     * Called with the first answer, or if the rank is lost, when the call is not open any more; the
     * lock is held. NULL: a thread waits for the answers.
     */
    void (*done)(struct tls *t, struct tls_call *call);
    uint64_t number;
    uint32_t rank;
    char *to; /* buffer for the data of answers; NULL: they have none */
    uint64_t bytes, got;
    uint32_t before;
    int status;
    uint32_t answers; /* number of answers received so far */
};

struct tls {
    struct shm shm;
    struct mesh mesh;
    char (*host)[TLS_HOST_BYTES]; /* name of each rank's host, by rank */
    bool *is_remote;              /* by rank: whether it is on another host */
    /* protects the list of blocks, and their contents while records access them */
    pthread_mutex_t block_lock;
    struct tls_block *blocks;
    pthread_mutex_t call_lock; /* protects the list of calls, and their fields */
    pthread_cond_t answered;
    struct tls_call *calls;
    uint64_t calls_made;
    pthread_mutex_t far_lock; /* held while `far` is made */
    struct aptr far;          /* struct tls_far: comm/tls_far.h; NULL: not needed yet */
};

static inline struct tls *comm_tls_of(struct shared *shared)
{
    return (struct tls *)(void *)shared;
}

/*
 * tls_send.c: sends what this rank has stored to ranks of other hosts, and accesses their windows.
 */
extern const struct shared_remote tls_send_remote;
int tls_send_put(struct domain *domain, uint32_t rank, uint64_t offset, const void *from,
                 uint64_t bytes, uint64_t deadline_ns);
int tls_send_get(struct domain *domain, uint32_t rank, uint64_t offset, void *to, uint64_t bytes);
int tls_send_signal(struct domain *domain, uint32_t rank, const struct pto_signal_at *signal,
                    int32_t *before_out);
/* Sends one record: a signal, which is answered unless `call` is 0; or a question for data. */
int tls_send_word(struct domain *domain, uint32_t rank, const struct pto_signal_at *signal,
                  uint64_t call, uint64_t deadline_ns);
int tls_send_ask(struct domain *domain, uint32_t rank, uint64_t offset, uint32_t bytes,
                 uint64_t call, uint64_t deadline_ns);
/* Opens a call, which gets a number. */
void tls_call_begin(struct tls *t, struct tls_call *call);
/* Closes a call; then calls `done`, unless it is NULL. call_lock is held. */
void tls_call_close(struct tls *t, struct tls_call *call);
/* Waits until all ranks of other hosts have what was sent to them. `domain`: only its members. */
int tls_send_drain(struct domain *domain, uint64_t deadline_ns);
/* Called when a rank is lost: ends the calls that wait for its answers, with PTO_EPEER. */
void tls_send_lose(struct tls *t, uint32_t rank);

/*
 * tls_apply.c: handles a record; called by the thread of the mesh. A negative status: the record is
 * invalid.
 */
int tls_apply_record(void *context, uint32_t peer, uint8_t kind, const uint8_t *payload,
                     size_t bytes);

/*
 * comm_tls.c: returns the block of a rank at an offset; NULL: there is none. Called with
 * block_lock.
 */
struct tls_block *comm_tls_block(struct tls *t, uint32_t rank, uint64_t offset);

#endif
