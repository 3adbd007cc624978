/* SPDX-License-Identifier: Apache-2.0 */
/* Mirrors of blocks, which the members of a domain on a host share: src/comm/comm_tls.h. */
#include "comm/comm_tls.h"

enum { MIRROR_BYTES = SHARED_CONTROL_BYTES + SHARED_SCRATCH_BYTES };
#define SETTLE_NS 100000000ull /* how long a close without a deadline waits for holders */

/* The members of a domain on this host, by rank of the domain. */
struct hosts {
    uint32_t count;
    uint32_t local[COMM_RANKS_MAX];
    uint32_t held[COMM_RANKS_MAX]; /* by number in `local`: how many mirrors the member holds */
};

/* All members of a host get equal results, because they agree on who is elsewhere. */
static void hosts_find(const struct tls *t, const struct domain *domain, struct hosts *h)
{
    memset(h, 0, sizeof(*h));
    for (uint32_t i = 0; i < domain->rank_count; i++)
        if (!t->is_remote[domain->ranks[i]])
            h->local[h->count++] = i;
    for (uint32_t i = 0; i < domain->rank_count; i++)
        if (t->is_remote[domain->ranks[i]])
            h->held[i % h->count]++;
}

int tls_mirrors_make(struct shared *s, struct shared_domain *sd)
{
    struct shared_peer *own = &sd->peer[sd->base.rank];
    struct hosts h;

    hosts_find(comm_tls_of(s), &sd->base, &h);
    own->host_first = h.local[0];
    own->host_count = h.count;
    while (h.local[own->host_index] != sd->base.rank)
        own->host_index++;
    own->mirrors_bytes = (uint64_t)h.held[own->host_index] * MIRROR_BYTES;
    if (own->mirrors_bytes == 0)
        return PTO_OK;
    /* unlike a block it is not listed, so that no record writes to it as to a window */
    return comm_shm_alloc(s, own->mirrors_bytes, &own->mirrors_offset, &own->mirrors);
}

/* Finds the member on the host of `rank` that receives what this rank sends. False: none does. */
static bool find_receiver(const struct tls *t, struct shared_domain *sd, uint32_t rank)
{
    struct shared_peer *peer = &sd->peer[rank];

    for (uint32_t i = 0; i < sd->base.rank_count && peer->host_count != 0; i++)
        if (t->is_remote[sd->base.ranks[i]] && sd->peer[i].host_first == peer->host_first &&
            sd->peer[i].host_index == sd->base.rank % peer->host_count) {
            peer->receiver = i;
            return true;
        }
    return false;
}

/* Maps the mirrors that other members of this host hold. */
static bool map_held(struct shared *s, struct shared_domain *sd, const struct hosts *h)
{
    for (uint32_t k = 0; k < h->count; k++) {
        struct shared_peer *holder = &sd->peer[h->local[k]];

        if (h->local[k] == sd->base.rank || h->held[k] == 0)
            continue;
        holder->mirrors_bytes = (uint64_t)h->held[k] * MIRROR_BYTES;
        holder->mirrors = comm_shm_map(s, sd->base.ranks[h->local[k]], holder->mirrors_offset,
                                       holder->mirrors_bytes);
        if (holder->mirrors == NULL)
            return false;
    }
    return true;
}

int tls_mirrors_map(struct shared *s, struct shared_domain *sd, struct pto_error *error)
{
    struct tls *t = comm_tls_of(s);
    struct hosts h;

    hosts_find(t, &sd->base, &h);
    if (!map_held(s, sd, &h))
        return error_setf(error, PTO_ENOMEM, "mirrors of ranks on other hosts cannot be mapped");
    memset(h.held, 0, sizeof(h.held)); /* from here on: how many were handed out */
    for (uint32_t i = 0; i < sd->base.rank_count; i++) {
        struct shared_peer *peer = &sd->peer[i];
        uint32_t number = i % h.count;
        char *at;

        if (!t->is_remote[sd->base.ranks[i]])
            continue;
        peer->holder = h.local[number];
        at = sd->peer[peer->holder].mirrors + (uint64_t)h.held[number]++ * MIRROR_BYTES;
        peer->control = (struct shared_control *)(void *)at;
        if (!find_receiver(t, sd, i))
            return comm_error_set(error, PTO_EINVAL, sd->base.ranks[i],
                                  "rank %u on %s disagrees with its host about the domain",
                                  sd->base.ranks[i], t->host[sd->base.ranks[i]]);
        if (peer->holder == sd->base.rank &&
            !comm_tls_enlist(t, sd->base.ranks[i], peer->offset, MIRROR_BYTES, at))
            return PTO_ENOMEM;
    }
    return PTO_OK;
}

void tls_mirrors_free(struct shared *s, struct shared_domain *sd, bool is_free)
{
    struct tls *t = comm_tls_of(s);
    struct shared_peer *own = &sd->peer[sd->base.rank];

    for (uint32_t i = 0; i < sd->base.rank_count; i++) {
        struct shared_peer *peer = &sd->peer[i];

        if (t->is_remote[sd->base.ranks[i]] && peer->control != NULL &&
            peer->holder == sd->base.rank)
            comm_tls_delist(t, (const char *)peer->control);
        else if (peer != own && peer->mirrors != NULL)
            comm_shm_unmap(s, sd->base.ranks[i], peer->mirrors, peer->mirrors_bytes);
    }
    if (own->mirrors != NULL)
        comm_shm_free(s, own->mirrors_offset, own->mirrors_bytes, own->mirrors, is_free);
}

void tls_mirrors_settle(struct shared_domain *sd, uint64_t deadline_ns)
{
    struct shared *s = shared_of(sd->base.comm);
    struct tls *t = comm_tls_of(s);

    if (deadline_ns == 0)
        deadline_ns = os_now_ns() + SETTLE_NS;
    for (uint32_t i = 0; i < sd->base.rank_count; i++)
        if (t->is_remote[sd->base.ranks[i]] && sd->peer[i].receiver == i &&
            sd->peer[i].host_count > 1)
            /* a rank that is lost or late is noticed by the close */
            (void)lane_drain(mesh_lane(&t->mesh, sd->base.ranks[i]), deadline_ns);
}
