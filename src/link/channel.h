/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of records from one process to another, in memory that both have mapped. The users of
 * the stream define the kinds of records.
 *
 *     record   head (64 bytes) | body, padded to a multiple of 64 bytes
 *
 * Records are contiguous and never wrap: if a record does not fit before the end of the memory, a
 * record of kind RECORD_PAD fills the rest. Positions count all bytes ever written and are masked
 * on use. Data from the other process is not trusted: a record is copied first, then every field of
 * it is validated; an invalid record ends the stream.
 *
 * A stream may have claims: the reader claims a record with a compare-and-swap of a word in the
 * record's head. Until then the writer can take the record back; the reader skips such a record.
 *
 * Ordering
 *   R41 channel_write (tail) -> A41 channel_read    a record is complete before it is visible
 *   R42 channel_read (head)  -> A42 channel_write   a record is read before its room is reused
 *   channel_read, channel_take_back: compare-and-swap of one word, so that exactly one of the two
 *       gets the record
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
    CHANNEL_BYTES = 64 << 10, /* size of a stream in bytes, a power of two */
    CHANNEL_UNIT = 64,
    /* largest body in bytes: the tensors and scalars of a task */
    RECORD_BODY_MAX = 32 * 128 + 16 * 8,
    RECORD_BYTES_MAX =
        CHANNEL_UNIT + (RECORD_BODY_MAX + CHANNEL_UNIT - 1) / CHANNEL_UNIT * CHANNEL_UNIT,
};

enum { RECORD_PAD }; /* the kind of record that exists in every stream */

struct record_head {
    uint32_t bytes; /* size of the record with its head, a multiple of CHANNEL_UNIT */
    uint32_t kind;
    uint64_t number; /* number of the record in its stream, from 1 on, pads included */
    /*
     * Incarnation of the child at one end of the stream; records of earlier incarnations are
     * invalid.
     */
    uint32_t generation;
    int32_t status;
    uint64_t key;
    uint64_t value;
    uint32_t body_bytes;
    uint8_t tensor_count;
    uint8_t scalar_count;
    /* bit k: scalar k of the task is an address in a domain or a region */
    uint16_t addresses;
    union {
        uint64_t timeout_ns; /* time-out of a task, in records that send a task */
        /* when the task began, in records that report its end; 0: not recorded */
        uint64_t begin_ns;
        /* size of the whole message, whose records follow each other (payload.h) */
        uint64_t message_bytes;
    };
    struct a32 claim; /* enum record_claim; meaningful in the stream, not in a copy */
    /*
     * For a task on a chip: position of its options in the shared memory, in units; 0: default
     * options.
     */
    uint32_t options;
};

enum record_claim { CLAIM_OPEN, CLAIM_READER, CLAIM_WRITER };

static_assert(sizeof(struct record_head) == CHANNEL_UNIT,
              "the tensors after the head must be aligned");

/* A record that was copied out of a stream. */
struct record {
    alignas(CHANNEL_UNIT) struct record_head head;
    alignas(CHANNEL_UNIT) unsigned char body[RECORD_BYTES_MAX - CHANNEL_UNIT];
};

/* A stream, in memory that both sides have mapped. */
struct stream {
    alignas(CHANNEL_UNIT) struct a64 tail; /* written by the writer only */
    alignas(CHANNEL_UNIT) struct a64 head; /* written by the reader only */
    alignas(CHANNEL_UNIT) unsigned char bytes[CHANNEL_BYTES];
};

/* One side of a stream, in the memory of its own process. */
struct channel {
    struct stream *stream;
    uint64_t position; /* number of bytes that this side has written or read so far */
    uint64_t other;    /* position of the other side, when this side last loaded it */
    uint64_t number;   /* number of the latest record */
    uint64_t last;     /* for a writer: position at which the latest record in the stream begins */
    uint32_t generation;
    /*
     * a bit for each kind of record that is accepted, RECORD_PAD included; a record of another kind
     * breaks the stream
     */
    uint32_t kinds;
    bool is_broken;  /* for a writer: the reader has published an impossible position */
    bool has_claims; /* for a reader: it must claim each record before it uses it */
    bool
        /*
         * for a reader: before the latest record, it has skipped one that the writer had taken back
         */
        has_passed;
};

/* Initialises one side of an empty stream. */
void channel_init(struct channel *c, struct stream *stream, uint32_t generation, uint32_t kinds);

/* Whether a record with a body of so many bytes fits now. */
bool channel_has_room(struct channel *c, uint32_t body_bytes);
/*
 * Appends a record: kind, key, value, status and counts come from `head`; the body consists of up
 * to two parts. False: there is no room. The caller wakes the reader.
 */
struct record_part {
    const void *bytes;
    uint32_t size;
};
bool channel_write(struct channel *c, const struct record_head *head,
                   const struct record_part *parts, uint32_t count);

/*
 * Takes back the record that begins at `position`: `last` had this value after the record was
 * written. False: the reader has claimed it.
 */
bool channel_take_back(struct channel *c, uint64_t position);

enum channel_result {
    CHANNEL_EMPTY,
    CHANNEL_RECORD,
    CHANNEL_BROKEN, /* the stream has invalid data, and nothing more can be read */
};

/* Whether there is no record to read. */
static inline bool channel_is_empty(const struct channel *c)
{
    /* relaxed: only a hint; A41 in channel_read follows */
    return a64_load_relaxed(&c->stream->tail) == c->position;
}

/* Reads the next record. */
enum channel_result channel_read(struct channel *c, struct record *out);

#endif
