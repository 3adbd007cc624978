/* SPDX-License-Identifier: Apache-2.0 */
/* The port of the simulator: pools are address space that gets memory in steps. */
#include "port/port_sim.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/os.h"
#include "pto/pto.h"

enum { STEP_MIN = 256 << 10, STEP_MAX = 64 << 20 };

int pool_reserve(struct pool *pool, uint64_t bytes, struct memory *memory)
{
    *pool = (struct pool){ .base = os_reserve(bytes), .max = bytes, .owner = memory };
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

    if (pool->limit <= keep)
        return;
    os_decommit(pool->base + keep, pool->limit - keep);
    memory->used -= pool->limit - keep;
    pool->limit = keep;
}

bool port_pool_grow(struct pool *pool, uint64_t bytes)
{
    struct memory *memory = pool->owner;
    uint64_t step = pool->limit < STEP_MIN ? STEP_MIN : pool->limit;
    uint64_t need = pool->used + bytes - pool->limit;
    uint64_t page = os_page_bytes();

    if (step > STEP_MAX)
        step = STEP_MAX;
    if (step < need)
        step = (need + page - 1) / page * page;
    if (step > memory->max - memory->used)
        step =
            (need + page - 1) / page * page; /* near the end of the budget: no more than needed */
    if (bytes > pool->max || step > memory->max - memory->used || step > pool->max - pool->limit) {
        memory->refused = need;
        return false;
    }
    if (os_commit(pool->base + pool->limit, step) < 0) {
        memory->refused = need;
        return false;
    }
    pool->limit += step;
    memory->used += step;
    return true;
}

_Noreturn void port_panic(const char *what, const char *file, int line)
{
    fprintf(stderr, "pto: the engine's state is broken: %s does not hold (%s:%d)\n", what, file,
            line);
    abort();
}
