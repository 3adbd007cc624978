/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stretch of address space of which the front is in use. It never moves, so
 * what lies in it may be named by pointer or by offset. The machine's port
 * puts memory behind more of it on demand (port_pool_grow).
 */
#ifndef PTO_POOL_H
#define PTO_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pool {
    char *base;
    uint64_t used;
    uint64_t limit; /* bytes with memory behind them */
    uint64_t max;   /* bytes of address space */
    void *owner;    /* whose budget pays; for port_pool_grow */
};

/* Raises `limit` to at least used + bytes. False: the budget is exhausted; nothing has changed. */
bool port_pool_grow(struct pool *pool, uint64_t bytes);

/* NULL when the budget is exhausted. Contents are what the pool last held there. */
static inline void *pool_take(struct pool *pool, uint64_t bytes)
{
    if (pool->limit - pool->used < bytes && !port_pool_grow(pool, bytes))
        return NULL;
    pool->used += bytes;
    return pool->base + (pool->used - bytes);
}

#endif
