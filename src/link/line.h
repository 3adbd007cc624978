/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both directions between two processes, as one of them sees it: a stream in each direction, and the wakers on
 * which the two sides sleep. Whoever uses a line has a lock for it, or one thread.
 */
#ifndef PTO_LINE_H
#define PTO_LINE_H

#include "base/waker.h"
#include "link/channel.h"

/* Where its parts are, in memory that both sides have mapped. */
struct line_ends {
    struct stream *out, *in;
    struct waker *own; /* this side sleeps on it */
    struct waker *other;
};

struct line {
    struct channel out, in;
    struct waker *own, *other;
    struct a64 read; /* as in.position, for looks without the lock */
};

/* The streams are new; the parent has made them so. */
void line_open(struct line *l, const struct line_ends *ends, uint32_t generation, uint32_t kinds);
/* Before the process of the other side starts: the one before it may have written anything there. */
void line_reset(const struct line_ends *ends);

/* Sends a record and wakes the other side, if it sleeps. False: there is no room. It is at out.last. */
bool line_send(struct line *l, const struct record_head *head, const struct record_part *parts,
               uint32_t count);
enum channel_result line_receive(struct line *l, struct record *out);

/* Without the lock, a look: whether line_receive would have something. */
static inline bool line_has_news(const struct line *l)
{
    /* By what this process has read: the other one can write its own position, and this one's. */
    return a64_load_acquire(&l->in.stream->tail) != a64_load_relaxed(&l->read); /* a look */
}

/* Nothing of what the other side has sent, or sends from now on, is received. */
void line_discard(struct line *l);

#endif
