/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line: one side's end of a connection between two processes, with a stream in each direction and
 * the wakers on which the two sides sleep. The user of a line serialises its calls with a lock, or
 * uses one thread.
 */
#ifndef PTO_LINE_H
#define PTO_LINE_H

#include "base/waker.h"
#include "link/channel.h"

/* The parts of a line, in memory that both sides have mapped. */
struct line_ends {
    struct stream *out, *in;
    struct waker *own; /* waker on which this side sleeps; `other` is that of the other side */
    struct waker *other;
};

struct line {
    struct channel out, in;
    struct waker *own, *other;
    struct a64 read; /* copy of in.position for line_has_news, which loads it without the lock */
};

/* Opens a line whose streams the parent has initialised. */
void line_open(struct line *l, const struct line_ends *ends, uint32_t generation, uint32_t kinds);
/*
 * Clears the streams and wakers before a new process is started as the other side, because the
 * previous process may have written anything there.
 */
void line_reset(const struct line_ends *ends);

/*
 * Sends a record, which then begins at position out.last, and wakes the other side if it sleeps.
 * False: there is no room.
 */
bool line_send(struct line *l, const struct record_head *head, const struct record_part *parts,
               uint32_t count);
enum channel_result line_receive(struct line *l, struct record *out);

/* Whether line_receive would return a record or an error. Only a hint; called without the lock. */
static inline bool line_has_news(const struct line *l)
{
    /*
     * Compares with this process's copy of its own position, because the other process can write
     * both positions in the shared memory.
     */
    /* relaxed: a hint may be stale */
    return a64_load_acquire(&l->in.stream->tail) != a64_load_relaxed(&l->read);
}

/* Discards everything that the other side has sent, and ignores what it sends from now on. */
void line_discard(struct line *l);

#endif
