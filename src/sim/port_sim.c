/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools of the simulator: address space is reserved once, and memory is mapped into it in
 * steps.
 */
#include "sim/port_sim.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/os.h"
#include "base/peek.h"
#include "pto/pto.h"

enum { STEP_MIN = 256 << 10, STEP_MAX = 64 << 20 };

static bool try_grow(struct pool *pool, uint64_t bytes);
static void take_back_unused(struct pool_budget *budget);

static uint64_t round_to_page(uint64_t bytes)
{
    uint64_t page = os_page_bytes();

    return (bytes + page - 1) / page * page;
}

int sim_pool_reserve(struct pool *pool, uint64_t bytes, struct pool_budget *budget)
{
    if (budget->pool_count == POOL_COUNT_MAX)
        return PTO_ENOMEM;
    *pool = (struct pool){ .base = os_reserve(bytes), .max = bytes, .owner = budget };
    if (pool->base != NULL)
        budget->pool[budget->pool_count++] = pool;
    return pool->base != NULL ? PTO_OK : PTO_ENOMEM;
}

void sim_pool_release(struct pool *pool)
{
    struct pool_budget *budget = pool->owner;

    if (pool->base == NULL)
        return;
    budget->used -= pool->limit;
    os_release(pool->base, pool->max);
    *pool = (struct pool){ 0 };
}

void sim_pool_trim(struct pool *pool, uint64_t keep)
{
    struct pool_budget *budget = pool->owner;

    if (pool->limit <= keep || os_decommit(pool->base + keep, pool->limit - keep) < 0)
        return; /* the kernel did not unmap the pages, so they still count for the budget */
    budget->used -= pool->limit - keep;
    pool->limit = keep;
}

bool port_pool_grow(struct pool *pool, uint64_t bytes)
{
    struct pool_budget *budget = pool->owner;

    if (bytes <= pool->max && bytes <= budget->max) {
        if (try_grow(pool, bytes))
            return true;
        take_back_unused(budget);
        if (try_grow(pool, bytes))
            return true;
    }
    budget->refused = bytes;
    return false;
}

/*
 * Grows a pool by at least `bytes`. Each step is larger than the step before, except near the end
 * of the budget.
 */
static bool try_grow(struct pool *pool, uint64_t bytes)
{
    struct pool_budget *budget = pool->owner;
    uint64_t need = round_to_page(pool->used + bytes - pool->limit);
    uint64_t left = budget->max - budget->used;
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
    budget->used += step;
    return true;
}

/*
 * Unmaps unused memory of other pools, left over from earlier runs or from steps that were too
 * large.
 */
static void take_back_unused(struct pool_budget *budget)
{
    for (uint32_t i = 0; i < budget->pool_count; i++)
        sim_pool_trim(budget->pool[i], round_to_page(budget->pool[i]->used));
}

uint64_t port_now_ns(void)
{
    return os_now_ns();
}

void port_relax(void)
{
    os_yield();
}

bool port_can_read(uint64_t addr, uint32_t bytes)
{
    uint64_t bits;

    return peek_load(addr, bytes, &bits);
}

bool port_write(uint64_t addr, uint32_t bytes, uint64_t bits)
{
    return peek_store(addr, bytes, bits);
}

_Noreturn void port_panic(const char *what, const char *file, int line)
{
    fprintf(stderr, "pto: the engine's state is broken: %s does not hold (%s:%d)\n", what, file,
            line);
    abort();
}
