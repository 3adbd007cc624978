/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and answers of any length over a line: a sequence of records of one kind with one key, of which each says
 * how many bytes there are in all. A line has one request at a time, and an answer of the same kind and key.
 *
 * Bytes are put at the end and taken from the beginning. Structs travel as they are: both sides are of one build. A
 * reader grows with what has come, not with what the first record announces.
 */
#ifndef PTO_PAYLOAD_H
#define PTO_PAYLOAD_H

#include "link/line.h"

#define PAYLOAD_BYTES_MAX (1ull << 32)

/* Pieces are aligned to 8. */
struct payload {
    char *at;
    size_t size;
    size_t capacity;
    size_t next;   /* to be taken */
    bool is_short; /* there was no memory, or not as much as was to be taken */
};

void payload_clear(struct payload *p);
void payload_free(struct payload *p);
void payload_put(struct payload *p, const void *from, size_t bytes);
void payload_put_text(struct payload *p, const char *text); /* accepts NULL */
/* NULL: there are not so many. */
const void *payload_take(struct payload *p, size_t bytes);
/* The same into a struct; zero if there are not so many. */
void payload_take_to(struct payload *p, void *to, size_t bytes);
const char *payload_take_text(struct payload *p); /* NULL: none */

/* How a side waits until a record can be read, or, for_room, one of any size be written. Negative: not any more. */
struct payload_wait {
    int (*await)(void *context, struct line *l, bool for_room);
    void *context;
};
/* What is waited for. Also when the other side has broken the stream: the next call finds that out. */
bool payload_is_due(struct line *l, bool for_room);
/* As long as it takes; the context is not used. */
int payload_await(void *policy, struct line *l, bool for_room);

/* Kind, key, status and value are those of `head`; `p` may be NULL. What `await` returns, or PTO_EFORMAT. */
int payload_send(struct line *l, struct record_head head, const struct payload *p,
                 const struct payload_wait *wait);
/* The same; PTO_EFORMAT: that is no such sequence. PTO_ENOMEM. */
int payload_receive(struct line *l, struct record_head *head, struct payload *p,
                    const struct payload_wait *wait);

#endif
