/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool: a range of address space whose front is in use. It never moves, so objects in it may be
 * referenced by pointer or by offset. The machine's port commits more memory on demand
 * (port_pool_grow).
 */
#ifndef PTO_POOL_H
#define PTO_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pool {
    char *base;
    uint64_t used;
    uint64_t limit; /* bytes of committed memory */
    uint64_t max;   /* bytes of address space */
    void *owner;    /* the port's object that owns the budget; only port_pool_grow uses it */
};

/* The memory budget that the pools of one device share. One thread at a time uses it. */
enum { POOL_COUNT_MAX = 40 };

struct pool_budget {
    struct pool *pool[POOL_COUNT_MAX]; /* the pools that draw on this budget */
    uint32_t pool_count;
    uint64_t max;
    uint64_t used;
    uint64_t refused; /* size in bytes of the last request that failed */
};

/*
 * Raises `limit` to at least used + bytes. False: the budget is exhausted, and nothing has changed.
 */
bool port_pool_grow(struct pool *pool, uint64_t bytes);

/* Allocates from the pool; NULL: the budget is exhausted. The memory is not cleared. */
static inline void *pool_take(struct pool *pool, uint64_t bytes)
{
    if (pool->limit - pool->used < bytes && !port_pool_grow(pool, bytes))
        return NULL;
    pool->used += bytes;
    return pool->base + (pool->used - bytes);
}

#endif
