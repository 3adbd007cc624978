/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes that an orchestration itself wrote while a graph was built: a hash table of eight-byte
 * words. Pure; used by the thread that leads the run.
 */
#ifndef PTO_WRITE_SET_H
#define PTO_WRITE_SET_H

#include "port/pool.h"

struct write_set_word {
    uint64_t number; /* address / 8 */
    uint64_t bytes;  /* bit for each byte of the word; 0: the entry is free */
};

struct write_set {
    struct write_set_word *word;
    uint64_t capacity; /* a power of two, or 0 */
    uint64_t count;
    struct pool pool;
};

/* Empties the set. */
void write_set_start(struct write_set *w);
/* Adds up to eight bytes. False: out of memory. */
bool write_set_add(struct write_set *w, uint64_t addr, uint32_t bytes);
/*
 * Returns a mask of up to eight bytes: all bits of a byte are 1 if it is in the set. The first byte
 * is the lowest.
 */
uint64_t write_set_mask(const struct write_set *w, uint64_t addr, uint32_t bytes);

#endif
