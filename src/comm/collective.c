/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives as callers see them: which buffers may be given, and one rank by itself. */
#include "comm/collective.h"

/* ---- buffers ---- */

struct buffer {
    const char *at;
    uint64_t bytes;
};

static bool collective_is_apart(struct buffer a, struct buffer b)
{
    return a.bytes == 0 || b.bytes == 0 || a.at + a.bytes <= b.at || b.at + b.bytes <= a.at;
}

/*
 * What is read and what is written: `place`, of the former, is the other position at which the
 * latter may begin; anything else that overlaps would be overwritten before it is read.
 */
static void check_buffers(struct collective *c, struct buffer from, struct buffer to,
                          const char *place)
{
    collective_check(c, from.at, from.bytes, "from");
    collective_check(c, to.at, to.bytes, "to");
    if (c->status >= 0 && to.at != place && !collective_is_apart(from, to))
        (void)collective_refuse(c, PTO_EINVAL,
                                "'from' and 'to' overlap, and not so that it can be done in place");
}

/* One rank: its elements are the result. */
static int collective_copy_own(const struct collective *c, const void *from, void *to)
{
    if (c->status >= 0 && c->count > 0 && from != to)
        memcpy(to, from, c->count * c->element_bytes);
    return c->status;
}

/* ---- calls ---- */

int pto_comm_all_reduce(struct pto_domain *domain, const void *from, void *to, uint64_t count,
                        const struct pto_collective *how)
{
    struct collective c;
    int status = collective_open(&c, domain, COLLECTIVE_ALL_REDUCE, count, how);
    uint64_t bytes = count * c.element_bytes;

    if (status < 0)
        return status;
    check_buffers(&c, (struct buffer){ from, bytes }, (struct buffer){ to, bytes }, from);
    return c.rank_count == 1 ? collective_copy_own(&c, from, to)
                             : collective_all_reduce(&c, from, to);
}

int pto_comm_reduce_scatter(struct pto_domain *domain, const void *from, void *to, uint64_t count,
                            const struct pto_collective *how)
{
    struct collective c;
    int status = collective_open(&c, domain, COLLECTIVE_REDUCE_SCATTER, count, how);
    uint64_t bytes = count * c.element_bytes;
    const char *place = from;

    if (status < 0)
        return status;
    if (to != from && from != NULL)
        place += c.rank * bytes;
    check_buffers(&c, (struct buffer){ from, c.rank_count * bytes }, (struct buffer){ to, bytes },
                  place);
    return c.rank_count == 1 ? collective_copy_own(&c, from, to)
                             : collective_reduce_scatter(&c, from, to);
}

int pto_comm_all_gather(struct pto_domain *domain, const void *from, void *to, uint64_t count,
                        const struct pto_collective *how)
{
    struct collective c;
    int status = collective_open(&c, domain, COLLECTIVE_ALL_GATHER, count, how);
    uint64_t bytes = count * c.element_bytes;
    const char *own = to;

    if (status < 0)
        return status;
    if (own != NULL)
        own += c.rank * bytes;
    check_buffers(&c, (struct buffer){ from, bytes }, (struct buffer){ to, c.rank_count * bytes },
                  own == from ? to : from);
    return c.rank_count == 1 ? collective_copy_own(&c, from, to)
                             : collective_all_gather(&c, from, to);
}

int pto_comm_broadcast(struct pto_domain *domain, void *buffer, uint64_t count,
                       const struct pto_collective *how)
{
    struct collective c;
    int status = collective_open(&c, domain, COLLECTIVE_BROADCAST, count, how);

    if (status < 0)
        return status;
    collective_check(&c, buffer, count * c.element_bytes, "buffer");
    return c.rank_count == 1 ? c.status : collective_broadcast(&c, buffer);
}

int pto_comm_all_to_all(struct pto_domain *domain, const void *from, void *to, uint64_t count,
                        const struct pto_collective *how)
{
    struct collective c;
    int status = collective_open(&c, domain, COLLECTIVE_ALL_TO_ALL, count, how);
    uint64_t bytes = count * c.element_bytes * c.rank_count;

    if (status < 0)
        return status;
    check_buffers(&c, (struct buffer){ from, bytes }, (struct buffer){ to, bytes }, from);
    return c.rank_count == 1 ? collective_copy_own(&c, from, to)
                             : collective_all_to_all(&c, from, to);
}
