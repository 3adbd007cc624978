/* SPDX-License-Identifier: Apache-2.0 */
/* The port of the engine to a real chip: memory that the engine uses. */
#include "cann/device/scheduler.h"

#include <string.h>

#include "aicpu.h"

enum { GROW_MIN = 64 << 10 };

struct share {
    struct machine *machine;
    char *next;
    uint64_t unit;
    uint64_t total;
};

static void count_share(struct pool *pool, uint64_t share, void *context)
{
    struct share *s = context;

    if (pool != &s->machine->graph.heap_pool)
        s->total += share;
}

static void give_share(struct pool *pool, uint64_t share, void *context)
{
    struct share *s = context;

    if (pool == &s->machine->graph.heap_pool)
        return;
    *pool = (struct pool){ .base = s->next, .max = share * s->unit, .owner = &s->machine->budget };
    s->next += share * s->unit;
}

static void ascend_each_pool(struct machine *m, void (*each)(struct pool *, uint64_t, void *),
                             struct share *share)
{
    graph_each_pool(&m->graph, each, share);
    ledger_each_pool(&m->ledger, each, share);
    orch_each_pool(&m->orch, each, share);
}

static_assert(sizeof(struct pto_local_context) == sizeof(((struct board_job *)0)->local) &&
                  sizeof(struct pto_global_context) == sizeof(((struct board_job *)0)->global) &&
                  sizeof(((struct board_job *)0)->args) == PTO_ARG_COUNT * sizeof(int64_t),
              "a kernel finds them there");
static_assert(sizeof(struct pto_completion[PTO_COMPLETIONS_MAX]) % BOARD_LINE == 0,
              "cores share no line");

/* Initialises the state of a core, and the fields of its job line that jobs do not change. */
static void set_unit(struct machine *m, uint32_t at, struct pto_completion *condition)
{
    struct unit *u = &m->unit[at];
    struct board_job *job = &m->board->job[at];
    struct pto_local_context *local = scheduler_local_of(job);
    struct pto_global_context *global = (struct pto_global_context *)(void *)job->global;

    u->job = job;
    u->condition = condition;
    u->watch.next = at + 1 < m->core_count ? &m->unit[at + 1].watch : NULL;
    u->at = (uint8_t)at;
    u->type = at < m->clusters ? PTO_CORE_AIC : PTO_CORE_AIV;
    u->index = (uint16_t)(u->type == PTO_CORE_AIC ? at : at - m->clusters);
    memset(job, 0, sizeof(*job));
    job->args[PTO_ARG_LOCAL] = (int64_t)(uintptr_t)local;
    job->args[PTO_ARG_GLOBAL] = (int64_t)(uintptr_t)global;
    local->completion_count_addr = (uint64_t)(uintptr_t)&job->condition_count;
    local->completion_error_addr = (uint64_t)(uintptr_t)&job->condition_error;
    local->completion_entries_addr = (uint64_t)(uintptr_t)condition;
    local->completion_capacity = PTO_COMPLETIONS_MAX;
    global->sub_block_id = u->type == PTO_CORE_AIV ? u->index % 2 : 0;
}

int port_set_memory(struct machine *m, const struct board_open *open)
{
    enum { PAGE = 4096 };
    struct pto_completion(*condition)[PTO_COMPLETIONS_MAX] = (void *)(uintptr_t)open->engine;
    struct share share = { .machine = m };
    uint64_t own = (sizeof(*condition) * m->core_count + PAGE - 1) / PAGE * PAGE;

    /* the host has written the initial job lines */
    aicpu_fetch(m->board->job, m->core_count * sizeof(m->board->job[0]));
    for (uint32_t i = 0; i < m->core_count; i++)
        set_unit(m, i, condition[i]);
    aicpu_publish(m->board->job, m->core_count * sizeof(m->board->job[0]));
    ascend_each_pool(m, count_share, &share);
    share.next = (char *)(uintptr_t)open->engine + own;
    share.unit =
        open->engine_bytes > own ? (open->engine_bytes - own) / share.total / PAGE * PAGE : 0;
    if (share.unit == 0)
        return PTO_ENOMEM;
    ascend_each_pool(m, give_share, &share);
    m->graph.heap_pool = (struct pool){ .base = (char *)(uintptr_t)open->heap,
                                        /*
                                         * the whole pool may be used, because its memory need not
                                         * be zeroed
                                         */
                                        .limit = open->heap_bytes,
                                        .max = open->heap_bytes,
                                        .owner = &m->budget };
    m->budget.max = open->memory_max;
    return PTO_OK;
}

/* Initialises a pool, whose memory exists already. */
bool port_pool_grow(struct pool *pool, uint64_t bytes)
{
    struct pool_budget *budget = pool->owner;
    uint64_t need = pool->used + bytes;
    uint64_t limit = 2 * pool->limit > GROW_MIN ? 2 * pool->limit : GROW_MIN;

    if (bytes > pool->max || need > pool->max) {
        budget->refused = bytes;
        return false;
    }
    limit = limit < need ? need : limit;
    limit = limit > pool->max ? pool->max : limit;
    memset(pool->base + pool->limit, 0, limit - pool->limit);
    budget->used += limit - pool->limit;
    pool->limit = limit;
    return true;
}
