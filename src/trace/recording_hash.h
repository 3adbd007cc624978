/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table that maps 64-bit keys to values below 2^32 - 1. The keys are hashes of the actual
 * keys, and two actual keys with one hash are treated as equal.
 */
#ifndef PTO_TRACE_RECORDING_DATA_HASH_H
#define PTO_TRACE_RECORDING_DATA_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "pto/status.h"

struct hash_place {
    uint64_t key;
    uint32_t value; /* value of the key plus 1; 0: the entry is free */
};

struct hash_table {
    struct hash_place *place;
    uint64_t count;
    uint64_t mask;
};

#define HASH_NONE UINT32_MAX
#define HASH_BASIS 0xcbf29ce484222325ull

static inline uint64_t hash_add(uint64_t hash, uint64_t number)
{
    hash = (hash ^ number) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 29;
}

static inline uint64_t hash_bytes(uint64_t hash, const void *from, size_t bytes)
{
    const uint8_t *at = from;

    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * 0x100000001b3ull;
    return hash;
}

static inline struct hash_place *hash_find(const struct hash_table *t, uint64_t key)
{
    uint64_t at = (key ^ key >> 32) & t->mask;

    while (t->place[at].value != 0 && t->place[at].key != key)
        at = (at + 1) & t->mask;
    return &t->place[at];
}

static inline int hash_grow(struct hash_table *t)
{
    struct hash_table grown = { .count = t->count,
                                .mask = t->place == NULL ? 1023 : 2 * t->mask + 1 };

    grown.place = calloc(grown.mask + 1, sizeof(*grown.place));
    if (grown.place == NULL)
        return PTO_ENOMEM;
    for (uint64_t i = 0; t->place != NULL && i <= t->mask; i++)
        if (t->place[i].value != 0)
            *hash_find(&grown, t->place[i].key) = t->place[i];
    free(t->place);
    *t = grown;
    return PTO_OK;
}

/*
 * Returns the value of the key, which is inserted with `value` if it is new; HASH_NONE: out of
 * memory.
 */
static inline uint32_t hash_enter(struct hash_table *t, uint64_t key, uint32_t value)
{
    struct hash_place *place;

    if ((t->place == NULL || 2 * t->count > t->mask) && hash_grow(t) < 0)
        return HASH_NONE;
    place = hash_find(t, key);
    if (place->value == 0) {
        *place = (struct hash_place){ key, value + 1 };
        t->count++;
    }
    return place->value - 1;
}

/* Returns the value of the key; HASH_NONE: it is not in the table. */
static inline uint32_t hash_value(const struct hash_table *t, uint64_t key)
{
    return t->place != NULL ? hash_find(t, key)->value - 1 : HASH_NONE;
}

static inline void hash_free(struct hash_table *t)
{
    free(t->place);
    *t = (struct hash_table){ 0 };
}

#endif
