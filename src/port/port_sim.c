/* SPDX-License-Identifier: Apache-2.0 */
/* The port of the simulator: pools are address space that gets memory in steps. */
#include "port/port_sim.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/os.h"
#include "pto/status.h"

enum { STEP_MIN = 256 << 10, STEP_MAX = 64 << 20 };

static bool try_grow(struct pool *pool, uint64_t bytes);
static void take_back_unused(struct memory *memory);

static uint64_t round_to_page(uint64_t bytes)
{
    uint64_t page = os_page_bytes();

    return (bytes + page - 1) / page * page;
}

int pool_reserve(struct pool *pool, uint64_t bytes, struct memory *memory)
{
    if (memory->pool_count == MEMORY_POOLS_MAX)
        return PTO_ENOMEM;
    *pool = (struct pool){ .base = os_reserve(bytes), .max = bytes, .owner = memory };
    if (pool->base != NULL)
        memory->pool[memory->pool_count++] = pool;
    return pool->base != NULL ? PTO_OK : PTO_ENOMEM;
}

void pool_release(struct pool *pool)
{
    struct memory *memory = pool->owner;

    if (pool->base == NULL)
        return;
    memory->used -= pool->limit;
    os_release(pool->base, pool->max);
    *pool = (struct pool){ 0 };
}

void pool_trim(struct pool *pool, uint64_t keep)
{
    struct memory *memory = pool->owner;

    if (pool->limit <= keep || os_decommit(pool->base + keep, pool->limit - keep) < 0)
        return; /* what the kernel does not take stays in the budget */
    memory->used -= pool->limit - keep;
    pool->limit = keep;
}

bool port_pool_grow(struct pool *pool, uint64_t bytes)
{
    struct memory *memory = pool->owner;

    if (bytes <= pool->max && bytes <= memory->max) {
        if (try_grow(pool, bytes))
            return true;
        take_back_unused(memory);
        if (try_grow(pool, bytes))
            return true;
    }
    memory->refused = bytes;
    return false;
}

/* In growing steps, but near the end of the budget by no more than is needed. */
static bool try_grow(struct pool *pool, uint64_t bytes)
{
    struct memory *memory = pool->owner;
    uint64_t need = round_to_page(pool->used + bytes - pool->limit);
    uint64_t left = memory->max - memory->used;
    uint64_t step = pool->limit < STEP_MIN   ? STEP_MIN
                    : pool->limit < STEP_MAX ? pool->limit
                                             : STEP_MAX;

    if (left > pool->max - pool->limit)
        left = pool->max - pool->limit;
    if (step < need || step > left)
        step = need;
    if (step > left || os_commit(pool->base + pool->limit, step) < 0)
        return false;
    pool->limit += step;
    memory->used += step;
    return true;
}

/* What other pools hold in reserve, from steps that were too large or from an earlier run. */
static void take_back_unused(struct memory *memory)
{
    for (uint32_t i = 0; i < memory->pool_count; i++)
        pool_trim(memory->pool[i], round_to_page(memory->pool[i]->used));
}

void port_relax(void)
{
    os_yield();
}

_Noreturn void port_panic(const char *what, const char *file, int line)
{
    fprintf(stderr, "pto: the engine's state is broken: %s does not hold (%s:%d)\n", what, file,
            line);
    abort();
}
