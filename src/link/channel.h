/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of records from one process to another, in memory that both have mapped. Which kinds of records
 * there are is up to those who use it.
 *
 *     record   head (64 bytes) | body, padded to a multiple of 64 bytes
 *
 * Records lie one behind the other and never wrap: what is left at the end of the stream is
 * filled with a record of kind RECORD_PAD. Positions count bytes forever and are masked on
 * use. What the other side has written is not trusted: a record is copied first, then
 * every field of it is checked; one that cannot be right ends the stream.
 *
 * A stream may have claims: the reader takes a record by a word in its head, and until then the
 * writer can take it back, after which the reader passes over it.
 *
 * Ordering
 *   R41 channel_write (tail) -> A41 channel_read    a record is whole before it is seen
 *   R42 channel_read (head)  -> A42 channel_write   a record is read before its room is used again
 *   channel_read, channel_take_back: one word, so that one of the two has the record
 */
#ifndef PTO_CHANNEL_H
#define PTO_CHANNEL_H

#include <assert.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"

enum {
    CHANNEL_BYTES = 64 << 10, /* a power of two */
    CHANNEL_UNIT = 64,
    RECORD_BODY_MAX = 32 * 128 + 16 * 8, /* the tensors and scalars of a task */
    RECORD_BYTES_MAX =
        CHANNEL_UNIT + (RECORD_BODY_MAX + CHANNEL_UNIT - 1) / CHANNEL_UNIT * CHANNEL_UNIT,
};

enum { RECORD_PAD }; /* the kind that every stream has */

struct record_head {
    uint32_t bytes; /* of the record, a multiple of CHANNEL_UNIT */
    uint32_t kind;
    uint64_t number;     /* counts the records of the stream from 1 on, pads included */
    uint32_t generation; /* which process of this child it is for or of */
    int32_t status;
    uint64_t key;
    uint64_t value;
    uint32_t body_bytes;
    uint8_t tensor_count;
    uint8_t scalar_count;
    uint16_t addresses; /* bit k: scalar k of a task is an address in a domain or a region */
    union {
        uint64_t timeout_ns;    /* of a task */
        uint64_t begin_ns;      /* of one that has ended; 0: not recorded */
        uint64_t message_bytes; /* of all records with this key (message.h) */
    };
    struct a32 claim; /* enum record_claim, in the stream; nobody looks at it in a copy */
    uint32_t options; /* of a task on a chip: where in the memory, in units; 0: the default */
};

enum record_claim { CLAIM_OPEN, CLAIM_READER, CLAIM_WRITER };

static_assert(sizeof(struct record_head) == CHANNEL_UNIT, "tensors behind it are aligned");

/* A copy of a record. */
struct record {
    alignas(CHANNEL_UNIT) struct record_head head;
    alignas(CHANNEL_UNIT) unsigned char body[RECORD_BYTES_MAX - CHANNEL_UNIT];
};

/* In memory that both sides have mapped. */
struct stream {
    alignas(CHANNEL_UNIT) struct a64 tail; /* written by the writer only */
    alignas(CHANNEL_UNIT) struct a64 head; /* written by the reader only */
    alignas(CHANNEL_UNIT) unsigned char bytes[CHANNEL_BYTES];
};

/* One side of a stream, in its own memory. */
struct channel {
    struct stream *stream;
    uint64_t position; /* this side's own */
    uint64_t other;    /* the other one's, as it was seen last */
    uint64_t number;   /* of the last record */
    uint64_t last;     /* where that is, of a writer */
    uint32_t generation;
    uint32_t kinds;  /* RECORD_PAD included: a record of another kind breaks the stream */
    bool is_broken;  /* of a writer: what the reader says that it has read cannot be */
    bool has_claims; /* of a reader */
    bool
        has_passed; /* the same: over a record that the writer took back, since it read another one */
};

/* The stream is empty and new. */
void channel_init(struct channel *c, struct stream *stream, uint32_t generation, uint32_t kinds);

/* Whether a record with such a body would fit now. */
bool channel_has_room(struct channel *c, uint32_t body_bytes);
/*
 * Appends a record: kind, key, value, status and counts are taken from `head`; the body is in
 * up to two parts. False: there is no room. The caller wakes the reader.
 */
struct record_part {
    const void *bytes;
    uint32_t size;
};
bool channel_write(struct channel *c, const struct record_head *head,
                   const struct record_part *parts, uint32_t count);

/* Whether the record at this position, which was `last` once, is the writer's again: nobody has read it. */
bool channel_take_back(struct channel *c, uint64_t position);

enum channel_result {
    CHANNEL_EMPTY,
    CHANNEL_RECORD,
    CHANNEL_BROKEN, /* what is there is no record: nothing more can be read */
};

/* Whether there is something to be read. */
static inline bool channel_is_empty(const struct channel *c)
{
    return a64_load_relaxed(&c->stream->tail) == c->position; /* a look; A41 follows */
}

/* Takes the next record. */
enum channel_result channel_read(struct channel *c, struct record *out);

#endif
