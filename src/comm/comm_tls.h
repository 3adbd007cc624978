/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of several hosts. Those of one host share memory, as in comm_shm.h. For each rank of another
 * host there are mirrors of its head and of the blocks of common domains: what the rank stores in
 * them comes as records (comm/tls_wire.h), and the thread of the mesh stores it here. Windows have
 * no mirrors: they are written and read by records.
 *
 * Each process has its own mirrors of heads. A mirror of a block exists once on a host, in the
 * memory of one member of the domain there, its holder, to which the rank sends; the other members
 * of that host map it. So what a rank stores crosses the network once for each host. The holder is
 * the member of the host with the number RANK modulo COUNT, so that the ranks of a host share that
 * work. Its thread also wakes the others. If the holder is lost, what its mirrors lack is lost for
 * the other members of its host (judge_arrival).
 *
 * A member tells that it leaves a domain to each process directly, so this must not overtake what
 * it sent to holders: tls_close_domain waits before until they have it.
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
    char (*host)[TLS_HOST_BYTES]; /* names of hosts, by rank */
    bool *is_remote;              /* by rank */
    uint32_t *local, local_count; /* ranks of this host, this one included */
    pthread_mutex_t block_lock;   /* protects the blocks, and what records store in them */
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
void tls_send_begin_call(struct tls *t, struct tls_call *call);
/* Closes a call; then calls `done`, unless it is NULL. call_lock is held. */
void tls_send_close_call(struct tls *t, struct tls_call *call);
/* Waits until all ranks of other hosts have what was sent to them. `domain`: only its members. */
int tls_send_drain(struct domain *domain, uint64_t deadline_ns);
/* Called when a rank is lost: ends the calls that wait for its answers, with PTO_EPEER. */
void tls_send_lose(struct tls *t, uint32_t rank);

/* tls_mirrors.c: mirrors of blocks; functions of struct shared_remote. */
int tls_mirrors_make(struct shared *s, struct shared_domain *sd);
int tls_mirrors_map(struct shared *s, struct shared_domain *sd, struct pto_error *error);
void tls_mirrors_free(struct shared *s, struct shared_domain *sd, bool is_free);
/* Waits until holders on other hosts have what this rank has sent them. */
void tls_mirrors_settle(struct shared_domain *sd, uint64_t deadline_ns);

/* tls_apply.c: handles a record; called by the thread of the mesh. Negative: it is invalid. */
int tls_apply_record(void *context, uint32_t peer, uint8_t kind, const uint8_t *payload,
                     size_t bytes);

/*
 * comm_tls.c: returns the block of a rank at an offset; NULL: there is none. Called with
 * block_lock.
 */
struct tls_block *comm_tls_block(struct tls *t, uint32_t rank, uint64_t offset);
/* comm_tls.c: adds a block, which records may use from then on. False: out of memory. */
bool comm_tls_enlist(struct tls *t, uint32_t rank, uint64_t offset, uint64_t bytes, char *at);
/* comm_tls.c: removes the block at an address, if there is one; from then on no record uses it. */
void comm_tls_delist(struct tls *t, const char *at);

#endif
