/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records which cores of a chip are free, and finds cores for teams. Cluster i has AIC i and AIVs
 * 2i and 2i + 1. Used by one thread at a time, or under its owner's lock.
 */
#ifndef PTO_SEATS_H
#define PTO_SEATS_H

#include "pto/platform.h"
#include "wire/slot.h"

enum { SEATS_MAX = 1024 }; /* maximum number of cores of one type */
struct seats {
    uint32_t count[PTO_CORE_TYPES];
    uint64_t free[PTO_CORE_TYPES][SEATS_MAX / 64];
};

static inline void seats_take(struct seats *s, uint32_t type, uint32_t index)
{
    s->free[type][index / 64] &= ~(1ull << index % 64);
}

static inline void seats_free(struct seats *s, uint32_t type, uint32_t index)
{
    s->free[type][index / 64] |= 1ull << index % 64;
}

static inline bool seats_is_free(const struct seats *s, uint32_t type, uint32_t index)
{
    return (s->free[type][index / 64] >> index % 64 & 1) != 0;
}

/* Marks all cores free. */
static inline void seats_init(struct seats *s, uint32_t clusters)
{
    s->count[PTO_CORE_AIC] = clusters;
    s->count[PTO_CORE_AIV] = 2 * clusters;
    for (uint32_t type = 0; type < PTO_CORE_TYPES; type++)
        for (uint32_t i = 0; i < s->count[type]; i++)
            seats_free(s, type, i);
}

/* Index of the first free core of a type, starting at `from`; the number of cores: none is free. */
static inline uint32_t seats_next(const struct seats *s, uint32_t type, uint32_t from)
{
    uint32_t count = s->count[type];

    for (uint32_t i = from; i < count; i = (i / 64 + 1) * 64) {
        uint64_t word = s->free[type][i / 64] >> i % 64;

        if (word != 0)
            return i + (uint32_t)__builtin_ctzll(word);
    }
    return count;
}

/* Whether all cores of the cluster that a block with these lanes would use are free. */
static inline bool seats_has_cluster(const struct seats *s, uint32_t lanes, uint32_t cluster)
{
    return ((lanes & SLOT_LANE_AIC) == 0 || seats_is_free(s, PTO_CORE_AIC, cluster)) &&
           ((lanes & SLOT_LANE_AIV0) == 0 || seats_is_free(s, PTO_CORE_AIV, 2 * cluster)) &&
           ((lanes & SLOT_LANE_AIV1) == 0 || seats_is_free(s, PTO_CORE_AIV, 2 * cluster + 1));
}

/*
 * First position from `from` on where this lane of a block fits: the index of a cluster if the
 * block has several lanes, else that of a core. Later lanes of a block use the position of its
 * first lane.
 */
static inline uint32_t seats_find(const struct seats *s, uint32_t lanes, uint32_t lane,
                                  uint32_t from)
{
    if ((lanes & (lanes - 1)) == 0)
        return seats_next(s, lane == LANE_AIC ? PTO_CORE_AIC : PTO_CORE_AIV, from);
    if ((lanes & ((1u << lane) - 1)) == 0)
        while (!seats_has_cluster(s, lanes, from))
            from++;
    return from;
}

/* Index of the core on which a lane of the block at this position runs. */
static inline uint32_t seats_core(uint32_t lanes, uint32_t lane, uint32_t seat)
{
    return (lanes & (lanes - 1)) != 0 && lane != LANE_AIC ? 2 * seat + (lane - LANE_AIV0) : seat;
}

/* Number of blocks with these lanes that the free cores can run at the same time. */
static inline uint32_t seats_count(const struct seats *s, uint32_t lanes)
{
    uint32_t type = lanes == SLOT_LANE_AIC ? PTO_CORE_AIC : PTO_CORE_AIV;
    uint32_t count = 0;

    if ((lanes & (lanes - 1)) == 0) {
        for (uint32_t i = 0; i < s->count[type]; i += 64)
            count += (uint32_t)__builtin_popcountll(s->free[type][i / 64]);
        return count;
    }
    for (uint32_t i = 0; i < s->count[PTO_CORE_AIC]; i++)
        count += seats_has_cluster(s, lanes, i);
    return count;
}

#endif
