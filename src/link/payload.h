/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends requests and answers of any length over a line. Each is a message: a sequence of records of
 * one kind with one key, each of which states the total size. A line has one request at a time; the
 * answer has the request's kind and key.
 *
 * Data is appended at the end and taken from the beginning. Structs are sent as they are in memory,
 * because both processes are of one build. A reader's buffer grows with the received data, not with
 * the announced size.
 */
#ifndef PTO_PAYLOAD_H
#define PTO_PAYLOAD_H

#include "link/line.h"

#define PAYLOAD_BYTES_MAX (1ull << 32)

/* A message that is being built or read. Its pieces are aligned to 8 bytes. */
struct payload {
    char *at;
    size_t size;
    size_t capacity;
    size_t next; /* position of the next byte that payload_take returns */
    /* out of memory, or payload_take was asked for more bytes than the message has */
    bool is_short;
};

void payload_clear(struct payload *p);
void payload_free(struct payload *p);
void payload_put(struct payload *p, const void *from, size_t bytes);
/* appends a text; NULL arrives as NULL */
void payload_put_text(struct payload *p, const char *text);
/* Returns the next bytes of the message; NULL if there are fewer. */
const void *payload_take(struct payload *p, size_t bytes);
/* Like payload_take, into a struct, which is zeroed if there are fewer bytes. */
void payload_take_to(struct payload *p, void *to, size_t bytes);
/* Returns the next text; NULL: the sender put NULL, or the message is damaged. */
const char *payload_take_text(struct payload *p);

/*
 * How a process waits: `await` returns when a record can be read or, with for_room, when a record
 * of any size can be written. A negative result ends the wait.
 */
struct payload_wait {
    int (*await)(void *context, struct line *l, bool for_room);
    void *context;
};
/*
 * Whether the condition of a payload_wait holds. Also true when the other side has broken the
 * stream, which the next call then reports.
 */
bool payload_is_due(struct line *l, bool for_room);
/* An `await` of a payload_wait without time-out; it ignores `policy`. */
int payload_await(void *policy, struct line *l, bool for_room);

/*
 * Sends a message with the kind, key, status and value of `head`; `p` may be NULL. Returns the
 * status of `await`, or PTO_EFORMAT.
 */
int payload_send(struct line *l, struct record_head head, const struct payload *p,
                 const struct payload_wait *wait);
/*
 * Receives a message. Returns the status of `await`, PTO_EFORMAT if the records do not form a
 * message, or PTO_ENOMEM.
 */
int payload_receive(struct line *l, struct record_head *head, struct payload *p,
                    const struct payload_wait *wait);

#endif
