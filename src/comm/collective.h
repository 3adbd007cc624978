/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives of ranks that share memory: rounds.
 *
 * Ranks exchange data in rounds, which are numbered while the domain is open. In a round every rank
 * publishes data, waits until all have published, and reads what it needs. A rank has two places
 * for its data, for even and for odd rounds. Each place is a line (a note: the number and a few
 * bytes of data), a line that describes the call, and a half of the rank's scratch:
 *
 *     write into the place of round n    after it has waited for round n - 1
 *     publish n, wait for n of all       R35, A35
 *     read others' places of round n     before it publishes n + 1
 *
 * After a rank has waited for round n + 1, all have read its data of round n, so it may overwrite
 * that place without a second wait. A rank that fails to wait sets `torn` and takes part in no more
 * rounds; its published data stays.
 *
 * Ranks on other hosts get a copy of the place by messages, which the ranks of a host share. For
 * them a call names the parts of its place that they will read, with collective_send and
 * collective_send_slots, before each round. So the order of a reduction is the same for every
 * placement: operands are moved, never combined on the way.
 *
 * The first round of a call describes the call. Ranks continue only if all descriptions are equal.
 *
 * Ordering
 *   R35 number of a note -> A35 (shared_arrive)   what was written into the place; and that the
 *                                               places of the round before have been read
 */
#ifndef PTO_COLLECTIVE_H
#define PTO_COLLECTIVE_H

#include "comm/comm_shared.h"
#include "pto/collective.h"

enum {
    COLLECTIVE_HALF = SHARED_SCRATCH_BYTES / 2,
    COLLECTIVE_INLINE = sizeof(((struct shared_note *)0)->bytes),
};

enum collective_kind {
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_BROADCAST,
    COLLECTIVE_ALL_TO_ALL,
    COLLECTIVE_DISPATCH,
    COLLECTIVE_COMBINE,
};

/* A collective call in progress on this rank. */
struct collective {
    struct domain *domain;
    enum collective_kind kind;
    uint32_t rank, rank_count;
    struct pto_collective how;
    uint64_t count;         /* number of elements, as given by the caller */
    uint32_t element_bytes; /* size of an element; 0: unknown type */
    /* another parameter that must be equal on all ranks; only its low 24 bits are compared */
    uint32_t extra;
    /* negative: this rank refuses the call, and reports that to the others in the first round */
    int status;
    bool is_begun;        /* the first round of the call is over */
    bool is_inline;       /* the data of each rank fits its note, so the scratch is not used */
    uint64_t deadline_ns; /* deadline of all rounds together; 0: the clock was not read yet */
    /*
     * Data for the note, which is written together with the round's number. If it were written to
     * the note earlier, a peer that polls the note would fetch the cache line in between, and it
     * would have to be fetched back.
     */
    bool is_word;              /* the data fits `word` of the note */
    struct shared_sends sends; /* data of the next round for ranks on other hosts */
    union {
        uint32_t word;
        uint8_t bytes[COLLECTIVE_INLINE];
    } own;
};

/*
 * Begins a call and checks its parameters. Negative: the call ends here, and the other ranks are
 * not notified. `given` may be NULL.
 */
int collective_open(struct collective *c, struct pto_domain *handle, enum collective_kind kind,
                    uint64_t count, const struct pto_collective *given);
/*
 * Refuses the call on this rank. The rank still takes part in the first round, so the call fails on
 * all ranks. Returns the status.
 */
int collective_refuse(struct collective *c, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Refuses a buffer that is not aligned, or NULL although it has bytes. */
void collective_check(struct collective *c, const void *at, uint64_t bytes, const char *name);

/*
 * Publishes the data that this rank has written, and waits for the data of all others. The first
 * round also compares the calls. Returns PTO_OK; otherwise the call has failed, and its error is
 * set.
 */
int collective_round(struct collective *c);

/*
 * Ends the call on this rank after the first round. The other ranks get PTO_EPEER. Returns the
 * status.
 */
int collective_give_up(struct collective *c, int status, const char *why);
/*
 * Takes part in one round without data: for a call that moves no data, or that this rank refuses.
 */
int collective_agree(struct collective *c);

/* Adds bytes of this rank's place to what the next round sends to all ranks on other hosts. */
static inline void collective_send(struct collective *c, uint64_t at, uint64_t bytes)
{
    c->sends.all_at = (uint32_t)at;
    c->sends.all_bytes = (uint32_t)bytes;
}

/* Makes the next round send to each rank on another host the first bytes of that rank's slot. */
static inline void collective_send_slots(struct collective *c, uint64_t slot, uint64_t bytes)
{
    c->sends.each_stride = (uint32_t)slot;
    c->sends.each_bytes = (uint32_t)bytes;
}

static inline struct shared_control *collective_control(const struct collective *c, uint32_t rank)
{
    return shared_domain_of(c->domain)->peer[rank].control;
}

/*
 * Returns where a rank publishes its data of round `number`. collective_next returns where this
 * rank writes the data of its next round.
 */
static inline char *collective_place(const struct collective *c, uint32_t rank, uint32_t number)
{
    struct shared_note *note = &collective_control(c, rank)->note[number % 2];

    if (c->is_inline)
        return c->is_word ? (char *)&note->word : (char *)note->bytes;
    return shared_scratch(shared_domain_of(c->domain), rank) +
           (size_t)(number % 2) * COLLECTIVE_HALF;
}

static inline char *collective_next(struct collective *c)
{
    if (c->is_inline)
        return (char *)c->own.bytes;
    return collective_place(c, c->rank, shared_domain_of(c->domain)->number + 1);
}

/* Returns the data that a rank published in the last completed round. */
static inline const char *collective_read(const struct collective *c, uint32_t rank)
{
    return collective_place(c, rank, shared_domain_of(c->domain)->number);
}

/*
 * Returns the size of each rank's slot if each rank has `bytes` of data; a multiple of the size of
 * any element type. Also sets is_inline.
 */
static inline uint64_t collective_slot(struct collective *c, uint64_t bytes)
{
    c->is_inline = bytes <= COLLECTIVE_INLINE / c->rank_count;
    return c->is_inline ? bytes : COLLECTIVE_HALF / c->rank_count / SHARED_LINE * SHARED_LINE;
}

/* Parts of a range of elements, one for each rank: part k begins k strides after `from`. */
struct collective_parts {
    const char *from;
    uint64_t stride; /* distance in bytes between the begins of two parts */
    uint64_t each;   /* number of elements of a part */
    uint64_t total;  /* number of elements of all parts; the last parts may be shorter, or empty */
};

static inline uint64_t collective_part(const struct collective_parts *p, uint32_t k)
{
    uint64_t before = k * p->each;

    return before >= p->total ? 0 : p->total - before < p->each ? p->total - before : p->each;
}

/* The collectives for at least two ranks. `from` and `to` are buffers of the caller. */
int collective_all_reduce(struct collective *c, const char *from, char *to);
int collective_reduce_scatter(struct collective *c, const char *from, char *to);
int collective_all_to_all(struct collective *c, const char *from, char *to);
int collective_all_gather(struct collective *c, const char *from, char *to);
int collective_broadcast(struct collective *c, char *buffer);

#endif
