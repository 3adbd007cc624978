/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of several hosts. Those of one host share memory, as in comm_shm.h. For each rank of another
 * host there are mirrors of its head and of the blocks of common domains, which this process
 * alone uses: what the rank stores in them comes as records (comm/tls_wire.h), and the thread of
 * the mesh stores it here. Windows have no mirrors: they are written and read by records.
 */
#ifndef PTO_COMM_TLS_H
#define PTO_COMM_TLS_H

#include "comm/comm_shm.h"
#include "comm/tls_meet.h"
#include "comm/tls_wire.h"
#include "net/mesh.h"

/* A block of this rank, whose window ranks of other hosts may use; or a mirror of another's. */
struct tls_block {
    struct tls_block *next;
    uint32_t rank; /* whose block it is */
    uint64_t offset, bytes;
    char *at;
};

/* A get or a fetch_add that waits for answers, on the stack of its caller. */
struct tls_call {
    struct tls_call *next;
    uint64_t number;
    uint32_t rank;
    char *to; /* NULL: the answer has no data */
    uint64_t bytes, got;
    uint32_t before;
    int status;
    uint32_t answers; /* number of answers */
};

struct tls {
    struct shm shm;
    struct mesh mesh;
    char (*host)[TLS_HOST_BYTES]; /* names of hosts, by rank */
    bool *is_remote;              /* by rank */
    pthread_mutex_t block_lock;   /* protects the blocks, and what records store in them */
    struct tls_block *blocks;
    pthread_mutex_t call_lock; /* protects the calls */
    pthread_cond_t answered;
    struct tls_call *calls;
    uint64_t calls_made;
};

static inline struct tls *comm_tls_of(struct shared *shared)
{
    return (struct tls *)(void *)shared;
}

/* tls_send.c: what this rank tells ranks of other hosts; and operations on their windows. */
extern const struct shared_remote tls_send_remote;
int tls_send_put(struct domain *domain, uint32_t rank, uint64_t offset, const void *from,
                 uint64_t bytes);
int tls_send_get(struct domain *domain, uint32_t rank, uint64_t offset, void *to, uint64_t bytes);
int tls_send_signal(struct domain *domain, uint32_t rank, const struct pto_signal_at *signal,
                    int32_t *before_out);
/* Waits until all ranks of other hosts have what was sent to them. `domain`: only its members. */
int tls_send_drain(struct domain *domain, uint64_t deadline_ns);
/* Ends the calls that wait for a rank. */
void tls_send_lose(struct tls *t, uint32_t rank);

/* tls_apply.c: handles a record; called by the thread of the mesh. Negative: it is invalid. */
int tls_apply_record(void *context, uint32_t peer, uint8_t kind, const uint8_t *payload,
                     size_t bytes);

/* comm_tls.c: the block of a rank at an offset; NULL: there is none. block_lock is held. */
struct tls_block *comm_tls_block(struct tls *t, uint32_t rank, uint64_t offset);

#endif
