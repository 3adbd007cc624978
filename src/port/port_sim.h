/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools on a host: address space is reserved once, memory is put behind it as
 * it is needed and counted against a budget. One thread at a time.
 */
#ifndef PTO_PORT_SIM_H
#define PTO_PORT_SIM_H

#include "port/port.h"

/* What the pools of one device share. */
enum { MEMORY_POOLS_MAX = 32 };

struct memory {
    struct pool *pool[MEMORY_POOLS_MAX]; /* all that share the budget */
    uint32_t pool_count;
    uint64_t max;
    uint64_t used;
    uint64_t refused; /* bytes of the last request that was not met */
};

int pool_reserve(struct pool *pool, uint64_t bytes, struct memory *memory);
/* Accepts a pool that was never reserved, if it is zero. */
void pool_release(struct pool *pool);
/* Gives memory beyond `keep` bytes back; the pool must not be in use. */
void pool_trim(struct pool *pool, uint64_t keep);

#endif
