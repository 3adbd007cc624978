/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions of collectives: checks of the buffers, and the case of a single rank. */
#include "comm/collective.h"

/*
 * By kind of collective: whether the call reads or writes `count` elements for each rank, or
 * `count` elements in total; and its implementation.
 */
static const struct form {
    bool reads_all, writes_all;
    int (*run)(struct collective *c, const char *from, char *to);
} forms[] = {
    [COLLECTIVE_ALL_REDUCE] = { false, false, collective_all_reduce },
    [COLLECTIVE_REDUCE_SCATTER] = { true, false, collective_reduce_scatter },
    [COLLECTIVE_ALL_GATHER] = { false, true, collective_all_gather },
    [COLLECTIVE_ALL_TO_ALL] = { true, true, collective_all_to_all },
};

/*
 * Checks buffers that overlap: the smaller one may be this rank's part of the larger one, or start
 * with it. Any other overlap would overwrite data before it is read.
 */
static void check_overlap(struct collective *c, const struct form *form, const char *from,
                          const char *to)
{
    uint64_t part = c->count * c->element_bytes;
    uint64_t read = form->reads_all ? part * c->rank_count : part;
    uint64_t written = form->writes_all ? part * c->rank_count : part;

    if (c->status < 0 || part == 0 || from == to || from + read <= to || to + written <= from ||
        (read > written && to == from + c->rank * part) ||
        (written > read && from == to + c->rank * part))
        return;
    (void)collective_refuse(c, PTO_EINVAL,
                            "'from' and 'to' overlap in a way that cannot be done in place");
}

static int run_collective(struct pto_domain *domain, enum collective_kind kind, const void *from,
                          void *to, uint64_t count, const struct pto_collective *how)
{
    const struct form *form = &forms[kind];
    struct collective c;
    int status = collective_open(&c, domain, kind, count, how);
    uint64_t part = count * c.element_bytes;

    if (status < 0)
        return status;
    collective_check(&c, from, form->reads_all ? part * c.rank_count : part, "from");
    collective_check(&c, to, form->writes_all ? part * c.rank_count : part, "to");
    check_overlap(&c, form, from, to);
    if (c.rank_count > 1)
        return form->run(&c, from, to);
    /* a single rank's result is a copy of its elements */
    if (c.status >= 0 && part > 0 && from != to)
        memcpy(to, from, part);
    return c.status;
}

int pto_comm_all_reduce(struct pto_domain *domain, const void *from, void *to, uint64_t count,
                        const struct pto_collective *how)
{
    return run_collective(domain, COLLECTIVE_ALL_REDUCE, from, to, count, how);
}

int pto_comm_reduce_scatter(struct pto_domain *domain, const void *from, void *to, uint64_t count,
                            const struct pto_collective *how)
{
    return run_collective(domain, COLLECTIVE_REDUCE_SCATTER, from, to, count, how);
}

int pto_comm_all_gather(struct pto_domain *domain, const void *from, void *to, uint64_t count,
                        const struct pto_collective *how)
{
    return run_collective(domain, COLLECTIVE_ALL_GATHER, from, to, count, how);
}

int pto_comm_all_to_all(struct pto_domain *domain, const void *from, void *to, uint64_t count,
                        const struct pto_collective *how)
{
    return run_collective(domain, COLLECTIVE_ALL_TO_ALL, from, to, count, how);
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
