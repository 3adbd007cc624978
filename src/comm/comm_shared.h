/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that share memory: all that the backends shm and thread have in common. They
 * differ in where the memory comes from, which is a table of its own below.
 *
 * Each rank has memory that the others can map. It begins with a head, which all of
 * them have mapped, followed by blocks, one for each domain:
 *
 *     head     state, waker, and a directory: which domains this rank has opened
 *     block    control | scratch | window
 *
 * A rank writes its own head and its own blocks. In a peer's memory it writes only windows,
 * scratch, the waker and `trouble`. So a rank that dies at any moment leaves no structure of
 * another half-changed.
 *
 * Ordering
 *   R31 entry state    -> A31 entry state     a domain's entry is filled, its block zero
 *   R32 arrived        -> A32 arrived         what a rank did before a barrier
 *   R33 signal         -> A33 the waiter      what was put before the signal
 *   R34 rank's state   -> A34 rank's state    what a rank did before it closed, gave up or died
 *   R36 trouble        -> A36 trouble         that it has gone, for those who wait
 *   F31 in base/waker.h. If ranks can fence for each other (`fence` below), a signal needs none.
 */
#ifndef PTO_COMM_SHARED_H
#define PTO_COMM_SHARED_H

#include <stdalign.h>

#include "base/atomic.h"
#include "base/waker.h"
#include "comm/comm.h"

enum {
    SHARED_LINE = 64,
    SHARED_ENTRIES = 256,                  /* domains of a rank that are open at a time */
    SHARED_CONTROL_BYTES = 8192,           /* of a block: struct shared_control */
    SHARED_SCRATCH_BYTES = 2 * 512 * 1024, /* of a block: for collectives */
    SHARED_MEMBER_WORDS = COMM_RANKS_MAX / 64,
};

enum entry_state {
    ENTRY_FREE,
    ENTRY_PUBLISHED, /* this rank is opening it */
    ENTRY_READY,     /* and has mapped the others' blocks */
    ENTRY_REFUSED,   /* it has found that ranks do not agree; or it gave up */
    ENTRY_LEAVING,   /* it is closing it, and uses no peer's window any more */
};

/* A domain that a rank has opened. Written by that rank only. */
struct shared_entry {
    struct a32 state; /* enum entry_state */
    struct a32
        other; /* ENTRY_REFUSED: the rank that it does not agree with; UINT32_MAX: it gave up */
    struct a64 serial; /* of this rank: another one for each domain */
    struct a64 id;
    struct a64 digest; /* of the ranks, in order, and of what else has to be equal */
    struct a64 window_bytes;
    struct a64 offset;                      /* of its block */
    struct a64 other_bytes;                 /* ENTRY_REFUSED */
    struct a64 member[SHARED_MEMBER_WORDS]; /* a bit for each rank of the communicator */
};

enum rank_state { RANK_OPEN, RANK_CLOSED, RANK_ABORTED };

struct shared_head {
    alignas(SHARED_LINE) struct a32 state;   /* enum rank_state; written by its rank */
    struct a32 status;                       /* RANK_ABORTED: why */
    struct a32 published;                    /* counts changes of the directory */
    struct a32 cpu;                          /* where it waited last, plus 1; 0: nowhere yet */
    alignas(SHARED_LINE) struct a32 trouble; /* counted up by anyone who goes, or sees one gone */
    struct a32 lost;                         /* not 0: a rank has died or given up; for kernels */
    struct waker waker;                      /* of the rank's threads */
    alignas(SHARED_LINE) struct shared_entry entry[SHARED_ENTRIES];
};

/*
 * What a rank publishes in a round of a collective. The number and a word of data are one
 * store, and so one way of a line from CPU to CPU.
 */
struct shared_note {
    alignas(SHARED_LINE) struct a32 number; /* of the round; low half of an a64 */
    uint32_t word;                          /* its high half */
    uint8_t bytes[SHARED_LINE - 8];         /* of more data than a word */
};

/* Which call a round begins: written only if it is another one than before, so that it stays shared. */
struct shared_call {
    alignas(SHARED_LINE) int32_t status;
    uint64_t args[2];
};

/* Why a rank takes part in no more collectives. */
enum { TORN_FAILED = 1, TORN_DIFFERS };

struct shared_control {
    alignas(SHARED_LINE) struct a32 arrived; /* barriers that the rank has come to */
    struct a32 given_up;                     /* the last of them that failed, other ranks missing */
    struct shared_note note[2];              /* of even and odd rounds */
    struct shared_call call[2];              /* the same */
    alignas(SHARED_LINE) struct a32 torn;    /* TORN_...; 0: it takes part in collectives */
    /* Of windows that hosts cannot store to (comm_hccl.c). Written by all ranks. */
    alignas(SHARED_LINE) struct a32 signals; /* counts those of hosts to this rank's window */
    struct a32 adder; /* the rank that is adding to a word of it, plus 1; 0: none */
};

struct shared;

/* Where memory comes from. */
struct shared_memory {
    /* Zeroed memory of this rank that peers can map. PTO_ENOMEM. */
    int (*alloc)(struct shared *s, uint64_t bytes, uint64_t *offset_out, char **at_out);
    /* `is_free`: no peer has it mapped. An address of NULL: it is not mapped here any more. */
    void (*free)(struct shared *s, uint64_t offset, uint64_t bytes, char *at, bool is_free);
    char *(*map)(struct shared *s, uint32_t rank, uint64_t offset, uint64_t bytes); /* NULL */
    void (*unmap)(char *at, uint64_t bytes); /* NULL: there is nothing to do */
    /*
     * What is mapped becomes a private copy; false: it stays as it is. NULL: blocks stay with
     * their backend while windows are kept, and `keep` says until when.
     */
    bool (*copy)(char *at, uint64_t bytes);
    void (*keep)(struct shared *s, struct pto_windows *windows);
    void (*fence)(void); /* on every rank; NULL: there is none, so signals need one */
};

/* First member of the struct of a backend. */
struct shared {
    struct comm base;
    const struct shared_memory *memory;
    bool has_fence; /* all ranks can use memory->fence */
    struct shared_head *own;
    struct shared_head **head;  /* by rank */
    struct a32 *dead;           /* by rank: its process has ended; of this process only */
    struct a64 *seen;           /* serials by rank and entry: domains that were joined */
    uint64_t serial;            /* this and the directory: under the communicator's lock */
    uint32_t looks;             /* before a wait looks at the clock */
    bool is_crowded;            /* there are more ranks than CPUs */
    uint32_t spin_ns, yield_ns; /* before it sleeps */
};

struct shared_domain {
    struct domain base;
    uint32_t entry; /* of the own directory */
    uint64_t offset, block_bytes;
    uint32_t barriers; /* that this rank has come to */
    uint32_t number;   /* rounds of collectives that this rank has come to */
    /* Not in memory that peers can write: kernels follow what is in them. */
    struct pto_comm_context context;
    struct pto_comm_wakers wakers;
    struct shared_peer {
        struct shared_control *control;
        uint32_t entry;
        uint64_t serial; /* 0: not joined */
        uint64_t offset;
    } * peer; /* by rank of the domain, the own one included */
};

static inline struct shared *shared_of(struct comm *comm)
{
    return (struct shared *)(void *)comm;
}

static inline struct shared_domain *shared_domain_of(struct domain *domain)
{
    return (struct shared_domain *)(void *)domain;
}

static inline char *shared_scratch(const struct shared_domain *sd, uint32_t rank)
{
    return (char *)sd->peer[rank].control + SHARED_CONTROL_BYTES;
}

/* comm_shared.c: `head` and `own` are filled in by the caller. PTO_ENOMEM; shared_fini is to be called then, too. */
int shared_init(struct shared *s, uint32_t rank, uint32_t rank_count);
void shared_fini(struct shared *s);
/* This rank goes, and notifies the others. */
void shared_leave(struct shared *s);
/* A rank has died; any thread. */
void shared_rank_died(struct shared *s, uint32_t rank);
/* After a store that members of a domain may wait for. */
void shared_wake_members(struct shared *s, const struct domain *domain);
/* This rank leaves a domain: members that wait for it look. */
void shared_alarm(struct shared *s, const struct domain *domain);
/* PTO_EPEER with a sentence: what cannot be done, and why the rank is lost. */
int shared_tell_lost(struct shared *s, uint32_t rank, const char *what, struct pto_error *error);

/* What of a backend's table is the same in all; the functions follow. */
#define SHARED_OPS                                                                       \
    .abort = shared_abort, .is_lost = shared_is_lost, .open_domain = shared_open_domain, \
    .close_domain = shared_close_domain, .keep = shared_keep, .signal = shared_signal,   \
    .wait = shared_wait, .barrier = shared_barrier
void shared_abort(struct comm *comm, int status);
bool shared_is_lost(struct comm *comm, uint32_t rank);
int shared_signal(struct domain *domain, uint32_t rank, const struct pto_signal_at *signal,
                  int32_t *before_out);
int shared_wait(struct domain *domain, const struct pto_wait_for *word, uint64_t timeout_ns,
                struct pto_error *error);
int shared_barrier(struct domain *domain, uint64_t timeout_ns, struct pto_error *error);

/*
 * Waits for a word, wherever it is: PTO_ETIMEOUT without a sentence. `is_polled`: it may be stored
 * to without a wake.
 */
int shared_wait_word(struct domain *domain, const struct a32 *word, const struct pto_wait_for *what,
                     bool is_polled, uint64_t timeout_ns, struct pto_error *error);

/*
 * Waits until a word of every rank's control has come to a number, this rank's having been
 * stored with release: R32. `is_round`: not for a rank that has given up collectives.
 */
struct shared_arrival {
    size_t word; /* where it is in struct shared_control */
    uint32_t number;
    bool is_round;
    const char *what; /* "barrier" */
    uint64_t timeout_ns;
    struct pto_error *error;
};
int shared_arrive(struct shared_domain *sd, const struct shared_arrival *arrival);
/* collective_round.c: "all-reduce of 12 float32 (sum, auto)". */
void collective_describe(const struct shared_call *call, char *text, size_t size);

/* comm_shared_domain.c */
int shared_open_domain(struct comm *comm, const struct domain_request *request,
                       struct domain **domain_out, struct pto_error *error);
int shared_close_domain(struct domain *domain, uint64_t deadline_ns, struct pto_error *error);
void shared_keep(struct domain *domain, struct pto_windows *windows);
/* Whether a member can still do something in the domain. */
bool shared_has_left(const struct shared_domain *sd, uint32_t rank);

/*
 * Waiting until `holds`, which loads memory and is called often, also after it was true; until the deadline;
 * or until `judge`, which is called when a rank has gone, returns a status.
 */
struct shared_wait {
    bool (*holds)(void *context);
    int (*judge)(void *context); /* PTO_OK: go on waiting; NULL: who has gone is not missed */
    int (*doubt)(void *context); /* the same, called before each sleep; NULL: none */
    bool (*is_near)(void *context,
                    uint32_t cpu); /* one who is missing waited on it; NULL: unknown */
    void *context;
    bool is_polled; /* what is waited for may be stored without a wake */
    uint64_t timeout_ns;
    const char *what; /* for the sentence when a rank gives up: what cannot be done */
    struct pto_error *error;
};
/* PTO_OK, PTO_ETIMEOUT, what `judge` says, or PTO_EPEER because a rank, of the domain or not, gave up. */
int shared_await(struct shared *s, const struct shared_wait *wait);

/* After a store that threads of the rank may wait for. */
static inline void shared_wake(struct shared *s, uint32_t rank)
{
    if (s->has_fence)
        waker_wake_light(&s->head[rank]->waker);
    else
        waker_wake(&s->head[rank]->waker);
}

#endif
