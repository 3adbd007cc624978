/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which cores of a chip are free, and where a team can sit. Cluster i has AIC i and AIV 2i
 * and 2i + 1. One thread at a time, or under its owner's lock.
 */
#ifndef PTO_SEATS_H
#define PTO_SEATS_H

#include "pto/platform.h"
#include "wire/slot.h"

enum { SEATS_MAX = 1024 }; /* of a type */
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

/* All of them are free. */
static inline void seats_init(struct seats *s, uint32_t clusters)
{
    s->count[PTO_CORE_AIC] = clusters;
    s->count[PTO_CORE_AIV] = 2 * clusters;
    for (uint32_t type = 0; type < PTO_CORE_TYPES; type++)
        for (uint32_t i = 0; i < s->count[type]; i++)
            seats_free(s, type, i);
}

/* The first free core of a type from `from` on; the count if there is none. */
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

/* Whether every core that a block with these lanes needs of a cluster is free. */
static inline bool seats_has_cluster(const struct seats *s, uint32_t lanes, uint32_t cluster)
{
    return ((lanes & SLOT_LANE_AIC) == 0 || seats_is_free(s, PTO_CORE_AIC, cluster)) &&
           ((lanes & SLOT_LANE_AIV0) == 0 || seats_is_free(s, PTO_CORE_AIV, 2 * cluster)) &&
           ((lanes & SLOT_LANE_AIV1) == 0 || seats_is_free(s, PTO_CORE_AIV, 2 * cluster + 1));
}

/*
 * Where a block can sit from `from` on: a cluster if it has several lanes, else
 * a core. For the second lane of a block the first one has shown where.
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

/* The core of a lane whose block sits there. */
static inline uint32_t seats_core(uint32_t lanes, uint32_t lane, uint32_t seat)
{
    return (lanes & (lanes - 1)) != 0 && lane != LANE_AIC ? 2 * seat + (lane - LANE_AIV0) : seat;
}

/* How many blocks with these lanes could sit down now. */
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
