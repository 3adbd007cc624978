/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that share memory: the common part of the backends shm and thread. They differ in the
 * source of the memory, which is a separate table below.
 *
 * Each rank has memory that the others can map. It begins with a head, which all of them have
 * mapped, followed by blocks, one for each domain:
 *
 *     head     state, waker, and a directory: which domains this rank has opened
 *     block    control | scratch | window
 *
 * A rank writes its own head and its own blocks. In a peer's memory it writes only windows,
 * scratch, the waker and `trouble`. So a rank that dies at any moment leaves no half-written
 * structure in another rank.
 *
 * Ordering
 *   R31 entry state    -> A31 entry state     a domain's entry is filled, its block zero
 *   R32 arrived        -> A32 arrived         what a rank did before a barrier
 *   R33 signal         -> A33 the waiter      what was put before the signal
 *   R34 rank's state   -> A34 rank's state    what a rank did before it closed, gave up or died
 *   R36 trouble        -> A36 trouble         that a rank has gone, for ranks that wait
 *   R49 clock_kind     -> A49 clock_kind      that the rank has joined the clock
 *   F31 in base/waker.h. If ranks can fence for each other (`fence` below), a signal needs none.
 */
#ifndef PTO_COMM_SHARED_H
#define PTO_COMM_SHARED_H

#include <stdalign.h>

#include "base/atomic.h"
#include "base/waker.h"
#include "comm/comm.h"
#include "link/shared_clock.h"

enum {
    SHARED_LINE = 64,
    SHARED_ENTRIES = 256,                  /* maximum number of domains that a rank has open */
    SHARED_CONTROL_BYTES = 8192,           /* part of a block: struct shared_control */
    SHARED_SCRATCH_BYTES = 2 * 512 * 1024, /* part of a block: for collectives */
    SHARED_MEMBER_WORDS = COMM_RANKS_MAX / 64,
};

enum entry_state {
    ENTRY_FREE,
    ENTRY_PUBLISHED, /* the rank is opening the domain, and its block exists */
    ENTRY_READY,     /* the rank has mapped the others' blocks as well */
    ENTRY_REFUSED,   /* the ranks disagree, or this rank gave up */
    ENTRY_LEAVING,   /* the rank is closing the domain, and no longer uses windows of peers */
};

/* A domain in the directory of a rank; written only by that rank. */
struct shared_entry {
    struct a32 state; /* enum entry_state */
    /*
     * in state ENTRY_REFUSED: the rank with which this rank disagrees; UINT32_MAX: this rank gave
     * up
     */
    struct a32 other;
    struct a64 serial; /* number that differs for each domain that this rank opens */
    struct a64 id;
    struct a64 digest; /* hash of the ranks, in order, and of other parameters that must be equal */
    struct a64 window_bytes;
    struct a64 offset;      /* offset of the rank's block in its memory */
    struct a64 other_bytes; /* ENTRY_REFUSED: the window size of the other rank */
    /*
     * For ranks of several hosts: the members on the rank's host. The first one, by its rank of the
     * domain; which one of them this rank is; and how many there are.
     */
    struct a32 host_first, host_index, host_count;
    struct a64 mirrors; /* offset of the mirrors that the rank holds in its memory (comm_tls.h) */
    /* one bit for each rank of the communicator that is a member */
    struct a64 member[SHARED_MEMBER_WORDS];
};

enum rank_state { RANK_OPEN, RANK_CLOSED, RANK_ABORTED };

struct shared_head {
    alignas(SHARED_LINE) struct a32 state; /* enum rank_state; written by the head's own rank */
    struct a32 status;                     /* status of the abort, in state RANK_ABORTED */
    struct a32 published;                  /* number of changes of the directory */
    struct a32 cpu;                        /* CPU of the rank's last wait, plus 1; 0: none yet */
    /* kind of clock (comm_shared_turns.c); 0: the rank has not joined yet */
    struct a32 clock_kind;
    /* incremented by each rank that leaves, and by each that notices a lost rank */
    alignas(SHARED_LINE) struct a32 trouble;
    struct a32 lost;    /* not 0: a rank has died or given up; polled by kernels */
    struct waker waker; /* waker of the threads of this rank that wait */
    alignas(SHARED_LINE) struct shared_entry entry[SHARED_ENTRIES];
    /* the clock of all ranks in virtual time is the one in the head of rank 0 */
    struct shared_clock clock;
};

/*
 * Data that a rank publishes in a round of a collective. The round's number and a word of data are
 * written by one store, so the cache line moves between CPUs once.
 */
struct shared_note {
    /* number of the round; the low half of an a64 that is stored at once */
    alignas(SHARED_LINE) struct a32 number;
    /* data of the round; the high half of the a64 that `number` begins */
    uint32_t word;
    uint8_t bytes[SHARED_LINE - 8]; /* data that does not fit `word` */
};

/*
 * Description of the call that a round begins. It is written only if it differs from the previous
 * one, so that peers can keep the cache line.
 */
struct shared_call {
    alignas(SHARED_LINE) int32_t status;
    uint64_t args[2];
};

/* Why a rank takes part in no more collectives. */
enum { TORN_FAILED = 1, TORN_DIFFERS };

struct shared_control {
    alignas(SHARED_LINE) struct a32 arrived; /* number of barriers that the rank has reached */
    /* the last barrier of this rank that failed because other ranks were missing */
    struct a32 given_up;
    struct shared_note note[2]; /* notes for even and odd rounds */
    struct shared_call call[2]; /* descriptions of the calls of even and odd rounds */
    /* TORN_...: why the rank takes part in no more collectives; 0: the rank takes part */
    alignas(SHARED_LINE) struct a32 torn;
    /* For windows to which hosts cannot store directly (comm_hccl.c). All ranks write these. */
    alignas(SHARED_LINE) struct a32 signals; /* number of signals of hosts to this rank's window */
    struct a32 adder; /* the rank that adds to a word of this window, plus 1; 0: none */
};

struct shared;

/* Where the shared memory comes from; differs between shm and thread. */
struct shared_memory {
    /* Returns zeroed memory of this rank that peers can map. PTO_ENOMEM. */
    int (*alloc)(struct shared *s, uint64_t bytes, uint64_t *offset_out, char **at_out);
    /*
     * `is_free`: no peer has the memory mapped, so it can be reused. `at` is NULL if it is not
     * mapped here any more.
     */
    void (*free)(struct shared *s, uint64_t offset, uint64_t bytes, char *at, bool is_free);
    /* Maps a block of a peer. NULL: it cannot be mapped. */
    char *(*map)(struct shared *s, uint32_t rank, uint64_t offset, uint64_t bytes);
    /* Unmaps what `map` returned. NULL: no unmapping is needed. */
    void (*unmap)(struct shared *s, uint32_t rank, char *at, uint64_t bytes);
    /*
     * Turns a mapping into a private copy; false: it is unchanged. If `copy` is NULL, kept blocks
     * remain memory of the backend, and `keep` determines for how long.
     */
    bool (*copy)(char *at, uint64_t bytes);
    void (*keep)(struct shared *s, struct pto_windows *windows);
    /* a fence on behalf of all ranks; NULL: there is none, so each signal needs a fence */
    void (*fence)(void);
};

/* Parts of this rank's scratch that a round of a collective sends to ranks on other hosts. */
struct shared_sends {
    /*
     * offset in the half of the scratch, and size, of what goes to all ranks, or only to rank
     * `only` unless that is UINT32_MAX
     */
    uint32_t all_at, all_bytes;
    uint32_t only;
    /* bytes for each rank separately, at the rank's number times the stride */
    uint32_t each_stride, each_bytes;
};

struct shared_domain;

/*
 * Ranks on other hosts (comm_tls.c), which share no memory with this one. For each of them this
 * process has a mirror of its head; and the members of a domain on a host share a mirror of the
 * control and the scratch of its block. These functions send what this rank has stored in its own
 * head or block to the ranks that need it. A thread there stores it in the mirror, in the same
 * order, and wakes the waiters.
 */
struct shared_remote {
    bool (*is_remote)(const struct shared *s, uint32_t rank);
    /* Makes the mirrors of a domain that this rank holds, before its entry is published. */
    int (*make_mirrors)(struct shared *s, struct shared_domain *sd);
    /* Finds the mirrors of all members on other hosts, after the blocks of this host were mapped. */
    int (*map_mirrors)(struct shared *s, struct shared_domain *sd, struct pto_error *error);
    /* Frees what the two have made, whether or not they succeeded. */
    void (*free_mirrors)(struct shared *s, struct shared_domain *sd, bool is_free);
    /* Sends the domain's entry of the directory to its members. */
    void (*send_entry)(struct shared *s, const struct shared_domain *sd);
    /* Sends `arrived`, `given_up` and `torn` of the block to the members. */
    void (*send_control)(struct shared *s, const struct shared_domain *sd);
    /* Sends the current round to the members: its note, its call unless NULL, and data. */
    void (*send_round)(struct shared *s, const struct shared_domain *sd,
                       const struct shared_sends *sends, bool has_call);
    void (*send_state)(struct shared *s); /* sends `state` and `status` of the head to all */
    void (*send_alarm)(struct shared *s, uint32_t rank); /* makes a rank check for lost ranks */
    /* Whether a rank is silent, but not given up; returns for how long in *ns_out. */
    bool (*is_silent)(const struct shared *s, uint32_t rank, uint64_t *ns_out);
    /* Describes how a rank was lost, for error messages. */
    void (*describe_loss)(const struct shared *s, uint32_t rank, char *text, size_t size);
};

/* First member of a backend's communicator. */
struct shared {
    struct comm base;
    const struct shared_memory *memory;
    const struct shared_remote *remote; /* NULL: all ranks share memory */
    bool has_fence;                     /* all ranks can use memory->fence */
    /* place on the clock of all ranks; its `clock` is NULL if the ranks are in real time */
    struct shared_clock_place time;
    struct shared_head *own;
    struct shared_head **head; /* heads of all ranks, by rank in the communicator */
    /* by rank: whether the rank's process was seen to have ended; private to this process */
    struct a32 *dead;
    struct a64 *seen; /* by rank and entry: serial of the last domain that this rank joined there */
    /* serial of the latest domain; like the directory, under the communicator's lock */
    uint64_t serial;
    uint32_t looks;             /* number of polls before a wait reads the clock */
    bool is_crowded;            /* there are more ranks than CPUs */
    uint32_t spin_ns, yield_ns; /* how long a wait spins and yields before it sleeps */
};

struct shared_domain {
    struct domain base;
    uint32_t entry; /* index of the domain in the directory of this rank */
    uint64_t offset, block_bytes;
    uint32_t barriers; /* number of barriers that this rank has reached */
    uint32_t number;   /* number of rounds of collectives that this rank has reached */
    /*
     * Private to this process, because kernels follow its pointers and peers can write shared
     * memory.
     */
    struct pto_comm_context context;
    struct pto_comm_wakers wakers;
    struct shared_peer {
        struct shared_control *control;
        uint32_t entry;
        uint64_t serial; /* serial of the peer's entry; 0: not joined */
        uint64_t offset;
        /* the rest is for ranks of several hosts: as in struct shared_entry */
        uint32_t host_first, host_index, host_count;
        uint64_t mirrors_offset;
        char *mirrors; /* mirrors that a rank of this host holds; NULL: none */
        uint64_t mirrors_bytes;
        /*
         * For a member on another host, by rank of the domain: the member on its host that receives
         * what this rank sends, and the one on this host that holds its mirror.
         */
        uint32_t receiver, holder;
    } * peer; /* peers by rank of the domain, including this rank */
};

/* Whether a rank, by its number in the communicator, is on another host. */
static inline bool shared_is_remote(const struct shared *s, uint32_t rank)
{
    return s->remote != NULL && s->remote->is_remote(s, rank);
}

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

/*
 * comm_shared.c: the caller has set `head` and `own`. PTO_ENOMEM; even then shared_fini must be
 * called.
 */
int shared_init(struct shared *s, uint32_t rank, uint32_t rank_count);
void shared_fini(struct shared *s);
/* Marks this rank as closed, and notifies the others. */
void shared_leave(struct shared *s);
/* Records that the process of a rank has ended. Any thread may call it. */
void shared_rank_died(struct shared *s, uint32_t rank);
/* Makes the threads of a rank check for lost ranks, whether they are asleep or not. */
void shared_raise_trouble(struct shared *s, uint32_t rank);
/* Makes the threads of this rank check for lost ranks. */
void shared_check_again(struct shared *s);
/* Called after a store that members of a domain may wait for. */
void shared_wake_members(struct shared *s, const struct domain *domain);
/* Makes the other members check for lost ranks, because this rank leaves the domain. */
void shared_alarm(struct shared *s, const struct domain *domain);
/* Sets an error: `what` cannot be done, and how the rank was lost. Returns PTO_EPEER. */
int shared_report_lost(struct shared *s, uint32_t rank, const char *what, struct pto_error *error);

/* The operations that shm and thread have in common; their declarations follow. */
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
 * Waits for any word in memory. PTO_ETIMEOUT does not set the error. `is_polled`: a kernel may
 * store to the word without waking this thread.
 */
int shared_wait_word(struct domain *domain, const struct a32 *word, const struct pto_wait_for *what,
                     bool is_polled, uint64_t timeout_ns, struct pto_error *error);

/*
 * Waits until a word in every member's control has reached a number. This rank has stored its own
 * before, with release (R32). `is_round`: ranks that take part in no more collectives are not
 * waited for.
 */
struct shared_arrival {
    size_t word; /* offset of the awaited word in struct shared_control */
    uint32_t number;
    bool is_round;
    const char *what; /* what is waited for, for errors: "barrier" */
    uint64_t timeout_ns;
    struct pto_error *error;
};
int shared_arrive(struct shared_domain *sd, const struct shared_arrival *arrival);
/* collective_round.c: formats a call, for example "all-reduce of 12 float32 (sum, auto)". */
void collective_describe(const struct shared_call *call, char *text, size_t size);

/* The following is defined in comm_shared_domain.c. */
int shared_open_domain(struct comm *comm, const struct domain_request *request,
                       struct domain **domain_out, struct pto_error *error);
int shared_close_domain(struct domain *domain, uint64_t deadline_ns, struct pto_error *error);
void shared_keep(struct domain *domain, struct pto_windows *windows);
/* Whether a member has closed the domain or is lost. */
bool shared_has_left(const struct shared_domain *sd, uint32_t rank);
/* Whether a member has closed the domain without waiting any longer for the others, or is lost. */
bool shared_has_gone(const struct shared_domain *sd, uint32_t rank);

/*
 * A wait until `holds` returns true, until the deadline, or until `judge`, which is called when a
 * rank is lost, returns a negative status. `holds` loads memory and is called often, even after it
 * has returned true.
 */
struct shared_wait {
    bool (*holds)(void *context);
    /* PTO_OK: continue to wait. NULL: lost ranks do not end the wait. */
    int (*judge)(void *context);
    int (*doubt)(void *context); /* like `judge`, called before each sleep; NULL: none */
    /* whether a missing rank last waited on this CPU; NULL: unknown */
    bool (*is_near)(void *context, uint32_t cpu);
    void *context;
    bool is_polled; /* a kernel may make the awaited store without waking this thread */
    uint64_t timeout_ns;
    const char *what; /* what cannot be done if a rank gives up, for the error */
    struct pto_error *error;
};
/*
 * Returns PTO_OK, PTO_ETIMEOUT, the status of `judge`, or PTO_EPEER if any rank, member or not,
 * gave up.
 */
int shared_await(struct shared *s, const struct shared_wait *wait);

/*
 * comm_shared_turns.c: virtual time. Joins the clock of all ranks if the device has virtual time,
 * after the heads were mapped.
 */
int shared_turns_join(struct shared *s, const struct comm_request *request,
                      struct pto_error *error);
/* Called when a rank has left or died: it no longer holds up other ranks. */
void shared_turns_leave(struct shared *s, uint32_t rank);
/* Waits for this rank's turn, before a call that others can notice. PTO_EBUSY: a run executes. */
int shared_turn(struct shared *s);
/* Announces, in this rank's turn, that it has stored something for which others may wait. */
void shared_turn_announce(struct shared *s);
/* shared_await in virtual time; `check` checks for lost ranks. */
int shared_turns_await(struct shared *s, const struct shared_wait *wait,
                       int (*check)(void *context), void *context);

/* Called after a store for which threads of the rank may wait. */
static inline void shared_wake(struct shared *s, uint32_t rank)
{
    if (s->time.clock != NULL)
        shared_turn_announce(s);
    if (s->has_fence)
        waker_wake_light(&s->head[rank]->waker);
    else
        waker_wake(&s->head[rank]->waker);
}

#endif
