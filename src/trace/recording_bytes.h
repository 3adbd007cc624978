/* SPDX-License-Identifier: Apache-2.0 */
/* A growing buffer from which a file is written, with integers encoded as LEB128 varints. */
#ifndef PTO_TRACE_RECORDING_BYTES_H
#define PTO_TRACE_RECORDING_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct recording_bytes {
    uint8_t *at;
    uint64_t used;
    uint64_t max;
    bool has_failed; /* memory is exhausted: later writes are discarded */
};

/* Makes room for `bytes` more bytes. Returns false if memory is exhausted. */
static inline bool bytes_reserve(struct recording_bytes *b, uint64_t bytes)
{
    uint64_t max = 2 * b->max + bytes + 256;
    uint8_t *at;

    if (b->max - b->used >= bytes)
        return true;
    at = b->has_failed ? NULL : realloc(b->at, max);
    if (at == NULL) {
        b->has_failed = true;
        return false;
    }
    b->at = at;
    b->max = max;
    return true;
}

static inline void bytes_put(struct recording_bytes *b, const void *from, uint64_t bytes)
{
    if (bytes == 0 || !bytes_reserve(b, bytes))
        return;
    memcpy(b->at + b->used, from, bytes);
    b->used += bytes;
}

static inline void bytes_put_number(struct recording_bytes *b, uint64_t number)
{
    if (!bytes_reserve(b, 10))
        return;
    for (; number >= 0x80; number >>= 7)
        b->at[b->used++] = (uint8_t)(number | 0x80);
    b->at[b->used++] = (uint8_t)number;
}

/* Maps signed to unsigned numbers so that small absolute values stay small. */
static inline uint64_t bytes_zigzag(int64_t number)
{
    return (uint64_t)number << 1 ^ (uint64_t)(number >> 63);
}

static inline void bytes_put_signed(struct recording_bytes *b, int64_t number)
{
    bytes_put_number(b, bytes_zigzag(number));
}

/* Writes the difference between `number` and *last, then sets *last to `number`. */
static inline void bytes_put_next(struct recording_bytes *b, uint64_t number, uint64_t *last)
{
    bytes_put_signed(b, (int64_t)(number - *last));
    *last = number;
}

static inline void bytes_free(struct recording_bytes *b)
{
    free(b->at);
    *b = (struct recording_bytes){ 0 };
}

#endif
