/* SPDX-License-Identifier: Apache-2.0 */
#include "link/line.h"

void line_open(struct line *l, const struct line_ends *ends, uint32_t generation, uint32_t kinds)
{
    channel_init(&l->out, ends->out, generation, kinds);
    channel_init(&l->in, ends->in, generation, kinds);
    l->own = ends->own;
    l->other = ends->other;
    a64_store_relaxed(&l->read, 0); /* relaxed: the process of the other side has not started */
}

void line_reset(const struct line_ends *ends)
{
    struct stream *streams[2] = { ends->out, ends->in };

    for (uint32_t i = 0; i < 2; i++) { /* relaxed: the process of the other side has not started */
        a64_store_relaxed(&streams[i]->head, 0);
        /* relaxed: the process of the other side has not started */
        a64_store_relaxed(&streams[i]->tail, 0);
    }
}

bool line_send(struct line *l, const struct record_head *head, const struct record_part *parts,
               uint32_t count)
{
    if (!channel_write(&l->out, head, parts, count))
        return false;
    waker_wake(l->other);
    return true;
}

enum channel_result line_receive(struct line *l, struct record *out)
{
    enum channel_result result = channel_read(&l->in, out);

    /* relaxed: only a hint for line_has_news, which takes no lock */
    a64_store_relaxed(&l->read, l->in.position);
    return result;
}

void line_discard(struct line *l)
{
    uint64_t tail = a64_load_acquire(&l->in.stream->tail);

    a64_store_release(&l->in.stream->head, tail);
    /* relaxed: only a hint for line_has_news, which takes no lock */
    a64_store_relaxed(&l->read, tail);
}
