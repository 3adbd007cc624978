/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives of ranks that share memory: rounds.
 *
 * Ranks exchange data in rounds, which are numbered for as long as the domain is
 * open. In a round every rank publishes something, waits until all have, and reads what it wants
 * of it. A rank has two places for what it publishes, each a line (a note: the number, and a few
 * bytes of data), another one that says what the call is, and a half of its scratch, for even and
 * for odd rounds:
 *
 *     write into the place of round n    after it has waited for round n - 1
 *     publish n, wait for n of all       R35, A35
 *     read others' places of round n     before it publishes n + 1
 *
 * So a rank that has waited for round n + 1 knows that all have read what it published in round n, and
 * may write there: no second wait, and nothing is ever taken back. A rank that fails to wait says
 * so (`torn`) and takes part in no more rounds; what it has published stays.
 *
 * The first round of a call says what the call is. Ranks go on only if it is the same for all.
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

/* A call under way. */
struct collective {
    struct domain *domain;
    enum collective_kind kind;
    uint32_t rank, rank_count;
    struct pto_collective how;
    uint64_t count;         /* elements, as the call has it */
    uint32_t element_bytes; /* 0: there is no such type */
    uint32_t extra;         /* what else has to be equal; of this and the root, 24 bits */
    int status;             /* negative: this rank was refused, and tells the others so */
    bool is_begun;          /* its first round is over */
    bool is_inline;         /* what is published fits the note */
    uint64_t deadline_ns;   /* of all rounds; 0: not looked at the clock yet */
    /*
     * Data that goes with the number, and is written when that is: a peer that looks at the line
     * meanwhile would take it away, and it would have to come back.
     */
    bool is_word; /* it fits the word of the note */
    union {
        uint32_t word;
        uint8_t bytes[COLLECTIVE_INLINE];
    } own;
};

/*
 * Begins a call, with `how` checked. Negative: the call ends here, and the others are not told.
 * `given` may be NULL.
 */
int collective_open(struct collective *c, struct pto_domain *handle, enum collective_kind kind,
                    uint64_t count, const struct pto_collective *given);
/* Refuses the call on this rank: it comes to the first round, and fails there. Returns the status. */
int collective_refuse(struct collective *c, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Refuses a buffer that is NULL, unless it has no bytes, or not aligned. */
void collective_check(struct collective *c, const void *at, uint64_t bytes, const char *name);

/*
 * Publishes what was written, and waits. In the first round, compares. PTO_OK, or the call has
 * failed, which the caller was told.
 */
int collective_round(struct collective *c);

/* This rank cannot go on after the first round: the others get PTO_EPEER. Returns the status. */
int collective_give_up(struct collective *c, int status, const char *why);
/* One round without data: nothing is to be done, or this rank was refused. */
int collective_agree(struct collective *c);

static inline struct shared_control *collective_control(const struct collective *c, uint32_t rank)
{
    return shared_domain_of(c->domain)->peer[rank].control;
}

/* The place of a rank in a round; `own` and `next`: where this rank writes before it publishes. */
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

/* What a rank has published in the round that was waited for. */
static inline const char *collective_read(const struct collective *c, uint32_t rank)
{
    return collective_place(c, rank, shared_domain_of(c->domain)->number);
}

/*
 * How large a slot for each rank is, where each is to get `bytes`, and whether all of them fit the
 * note. A whole number of elements of any type.
 */
static inline uint64_t collective_slot(struct collective *c, uint64_t bytes)
{
    c->is_inline = bytes <= COLLECTIVE_INLINE / c->rank_count;
    return c->is_inline ? bytes : COLLECTIVE_HALF / c->rank_count / SHARED_LINE * SHARED_LINE;
}

/* Parts of something, one for each rank: part k begins at k strides. */
struct collective_parts {
    const char *from;
    uint64_t stride; /* bytes */
    uint64_t each;   /* elements */
    uint64_t total;  /* elements; the last parts may be shorter, or empty */
};

static inline uint64_t collective_part(const struct collective_parts *p, uint32_t k)
{
    uint64_t before = k * p->each;

    return before >= p->total ? 0 : p->total - before < p->each ? p->total - before : p->each;
}

/* The calls, for at least two ranks; `from` and `to` are as the caller gave them. */
int collective_all_reduce(struct collective *c, const char *from, char *to);
int collective_reduce_scatter(struct collective *c, const char *from, char *to);
int collective_all_to_all(struct collective *c, const char *from, char *to);
int collective_all_gather(struct collective *c, const char *from, char *to);
int collective_broadcast(struct collective *c, char *buffer);

#endif
