/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives that move data without reducing it, through the scratch of the rank that has the
 * data, at most half a scratch per round. While some ranks still read the data of a round, others
 * may already write that of the next.
 */
#include "comm/collective.h"

static uint64_t collective_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

int collective_all_gather(struct collective *c, const char *from, char *to)
{
    uint64_t bytes = c->count * c->element_bytes, n;
    int status;

    if (c->status < 0 || bytes == 0)
        return collective_agree(c);
    c->is_inline = bytes <= COLLECTIVE_INLINE;
    for (uint64_t at = 0; at < bytes; at += n) {
        n = collective_least(bytes - at, COLLECTIVE_HALF);
        memcpy(collective_next(c), from + at, n);
        collective_send(c, 0, n);
        status = collective_round(c);
        if (status < 0)
            return status;
        for (uint32_t i = 1; i < c->rank_count; i++) {
            /* each rank starts with a different peer, to spread the load */
            uint32_t rank = (c->rank + i) % c->rank_count;

            memcpy(to + rank * bytes + at, collective_read(c, rank), n);
        }
    }
    if (to + c->rank * bytes != from)
        memcpy(to + c->rank * bytes, from, bytes);
    return PTO_OK;
}

int collective_broadcast(struct collective *c, char *buffer)
{
    uint64_t bytes = c->count * c->element_bytes, n;
    int status;

    if (c->status < 0 || bytes == 0)
        return collective_agree(c);
    c->is_inline = bytes <= COLLECTIVE_INLINE;
    for (uint64_t at = 0; at < bytes; at += n) {
        n = collective_least(bytes - at, COLLECTIVE_HALF);
        if (c->rank == c->how.root) {
            memcpy(collective_next(c), buffer + at, n);
            collective_send(c, 0, n);
        }
        status = collective_round(c);
        if (status < 0)
            return status;
        if (c->rank != c->how.root)
            memcpy(buffer + at, collective_read(c, c->how.root), n);
    }
    return PTO_OK;
}

int collective_all_to_all(struct collective *c, const char *from, char *to)
{
    uint64_t bytes = c->count * c->element_bytes, n;
    uint64_t slot = collective_slot(c, bytes);
    int status;

    if (c->status < 0 || bytes == 0)
        return collective_agree(c);
    for (uint64_t at = 0; at < bytes; at += n) {
        n = collective_least(bytes - at, slot);
        for (uint32_t i = 0; i < c->rank_count; i++)
            if (i != c->rank)
                memcpy(collective_next(c) + i * slot, from + i * bytes + at, n);
        collective_send_slots(c, slot, n);
        status = collective_round(c);
        if (status < 0)
            return status;
        for (uint32_t i = 1; i < c->rank_count; i++) {
            uint32_t rank = (c->rank + i) % c->rank_count;

            memcpy(to + rank * bytes + at, collective_read(c, rank) + c->rank * slot, n);
        }
    }
    if (to != from)
        memcpy(to + c->rank * bytes, from + c->rank * bytes, bytes);
    return PTO_OK;
}
