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

/* What the pools of one device share. One thread at a time. */
enum { POOL_COUNT_MAX = 40 };

struct pool_budget {
    struct pool *pool[POOL_COUNT_MAX]; /* all that share it */
    uint32_t pool_count;
    uint64_t max;
    uint64_t used;
    uint64_t refused; /* bytes of the last request that was not met */
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
