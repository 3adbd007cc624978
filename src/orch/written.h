/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which bytes an orchestration wrote itself while a graph was built: a hash table of
 * words of eight bytes. Pure; for the thread that leads the run.
 */
#ifndef PTO_WRITTEN_H
#define PTO_WRITTEN_H

#include "port/pool.h"

struct written_word {
    uint64_t number; /* address / 8 */
    uint64_t bytes;  /* a bit for each one; 0: the entry is free */
};

struct written {
    struct written_word *word;
    uint64_t capacity; /* a power of two, or 0 */
    uint64_t count;
    struct pool pool;
};

/* Nothing is written. */
void written_start(struct written *w);
/* Up to eight bytes. False: memory has run out. */
bool written_add(struct written *w, uint64_t addr, uint32_t bytes);
/* Those of up to eight bytes that were written: all bits of a byte, the first is the lowest. */
uint64_t written_mask(const struct written *w, uint64_t addr, uint32_t bytes);

#endif
