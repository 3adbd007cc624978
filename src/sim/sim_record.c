/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder of the simulated chip: a ring for each worker and one for threads
 * without a place, and the edges that were wired. What a run recorded stays until the
 * next one that is recorded.
 */
#include <stdlib.h>
#include <string.h>

#include "orch/telling.h"
#include "sim/sim.h"

static void record_add_edge(void *context, uint32_t before, uint32_t after);
static void add_task(void *context, const struct orch_told *told);
static void add_scope(void *context, const struct orch_scope *scope);
static char *take_told(void *context, uint64_t bytes);

/* ---- its memory ---- */

static void *record_take(struct sim *m, uint64_t bytes)
{
    return m->arena != NULL ? arena_take(m->arena, bytes) : malloc(bytes);
}

static void give(struct sim *m, void *memory)
{
    if (m->arena == NULL)
        free(memory);
    else if (memory != NULL)
        arena_give(m->arena, memory);
}

bool sim_record_grow(struct sim *m, void *list, uint64_t used, uint64_t bytes)
{
    void *old, *memory = record_take(m, bytes);

    if (memory == NULL)
        return false;
    memcpy(&old, list, sizeof(old));
    if (used != 0)
        memcpy(memory, old, used);
    memcpy(list, &memory, sizeof(memory)); /* whoever looks in between finds one or the other */
    give(m, old);
    return true;
}

int sim_record_open(struct sim *m)
{
    size_t bytes = (sizeof(*m->record) + 127) / 128 * 128;

    m->record = m->arena != NULL ? (void *)arena_take(m->arena, bytes) : aligned_alloc(128, bytes);
    if (m->record == NULL)
        return PTO_ENOMEM;
    memset(m->record, 0, bytes);
    return PTO_OK;
}

void sim_record_close(struct sim *m)
{
    if (m->record == NULL)
        return;
    for (uint32_t i = 0; i <= SCHED_WORKERS_MAX; i++)
        give(m, m->record->ring[i].record);
    give(m, m->record->edge);
    give(m, m->record->told);
    give(m, m->record->scope);
    give(m, m->record->dumped);
    give(m, m->record);
}

/* ---- around a run ---- */

static int prepare_ring(struct sim *m, struct trace_ring *ring, uint32_t records)
{
    if (ring->record == NULL || ring->mask + 1 != records) {
        give(m, ring->record);
        *ring = (struct trace_ring){ 0 };
        ring->record = record_take(m, records * sizeof(struct trace_record));
        if (ring->record == NULL)
            return PTO_ENOMEM;
        ring->mask = records - 1;
    }
    ring->count = 0;
    ring->since = 0;
    ring->live = ring->ready = UINT32_MAX; /* unlike any */
    return PTO_OK;
}

int sim_record_begin(struct sim *m, const struct pto_run_options *options, struct orch_run *run)
{
    struct sim_record *record = m->record;
    uint32_t workers = m->sched.worker_count;

    m->trace = NULL;
    for (uint32_t i = 0; i < workers; i++)
        m->sched.worker[i]->trace = NULL;
    if (options->trace == PTO_TRACE_OFF)
        return PTO_OK;
    record->is_whole = false;
    record->number = 0; /* until it is in order */
    record->ring_count = workers + 1;
    record->edge_count = record->edges_lost = 0;
    record->told_bytes = record->told_lost = 0;
    record->scope_count = record->scopes_lost = 0;
    for (uint32_t i = 0; i <= workers; i++) {
        struct trace_ring *ring = &record->ring[i];

        if (prepare_ring(m, ring, options->trace_records) < 0)
            return PTO_ENOMEM;
        ring->has_each_time = options->trace >= PTO_TRACE_TIMES || i == workers;
        record->ring_list[i] = ring;
        if (i < workers)
            m->sched.worker[i]->trace = ring;
    }
    m->trace = &record->ring[workers];
    run->wired_fn = record_add_edge;
    run->wired_context = m;
    run->recorder.context = m;
    if (options->trace == PTO_TRACE_ARGUMENTS) {
        run->recorder.tell = add_task;
        if (m->image != NULL)
            telling_launched(&(struct telling_tape){ take_told, m }, m->image);
    }
    if (options->diagnostics.has_scopes)
        run->recorder.scope = add_scope;
    sim_dump_begin(m, options->diagnostics.args, run);
    record->begin_ns = os_now_ns();
    record->begin_cycles = port_cycles();
    record->number = m->number;
    return PTO_OK;
}

void sim_record_end(struct sim *m)
{
    if (m->trace == NULL)
        return;
    m->record->end_ns = os_now_ns();
    m->record->end_cycles = port_cycles();
    m->record->tasks = m->graph.seq - 1;
    m->record->is_whole = true;
}

uint64_t sim_record_lost(const struct sim *m)
{
    const struct sim_record *record = m->record;
    uint64_t lost;

    if (m->trace == NULL)
        return 0;
    lost = record->edges_lost + record->told_lost + record->scopes_lost + record->dumped_lost;
    for (uint32_t i = 0; i < record->ring_count; i++)
        if (record->ring[i].count > record->ring[i].mask + 1ull)
            lost += record->ring[i].count - record->ring[i].mask - 1;
    return lost;
}

/* Called by the submitter. */
static void record_add_edge(void *context, uint32_t before, uint32_t after)
{
    struct sim *m = context;
    struct sim_record *record = m->record;

    if (record->edge_count == record->edge_max) {
        uint64_t max = record->edge_max != 0 ? 2 * record->edge_max : 4096;
        uint64_t used = record->edge_count * sizeof(struct chip_edge);

        if (!sim_record_grow(m, &record->edge, used, max * sizeof(struct chip_edge))) {
            record->edges_lost++;
            return;
        }
        record->edge_max = max;
    }
    record->edge[record->edge_count++] = (struct chip_edge){ before, after };
}

/* Called by the submitter. */
static void add_scope(void *context, const struct orch_scope *scope)
{
    struct sim *m = context;
    struct sim_record *record = m->record;

    if (record->scope_count == record->scope_max) {
        uint64_t max = 2 * record->scope_max + 1024;

        if (!sim_record_grow(m, &record->scope, record->scope_count * sizeof(record->scope[0]),
                             max * sizeof(record->scope[0]))) {
            record->scopes_lost++;
            return;
        }
        record->scope_max = max;
    }
    record->scope[record->scope_count++] = telling_scope(scope);
}

/* Room behind what is told already; NULL: it is lost. */
static char *take_told(void *context, uint64_t bytes)
{
    struct sim *m = context;
    struct sim_record *record = m->record;

    if (record->told_max - record->told_bytes < bytes) {
        uint64_t max = 2 * record->told_max + bytes + 65536;

        if (!sim_record_grow(m, &record->told, record->told_bytes, max)) {
            record->told_lost++;
            return NULL;
        }
        record->told_max = max;
    }
    record->told_bytes += bytes;
    return record->told + (record->told_bytes - bytes);
}

/* Called by the submitter. */
static void add_task(void *context, const struct orch_told *told)
{
    telling_task(&(struct telling_tape){ take_told, context }, told);
}

int sim_record(struct chip *chip, struct chip_record *out)
{
    const struct sim *m = sim_of(chip);
    const struct sim_record *record = m->record;

    if (!record->is_whole)
        return PTO_EINVAL;
    *out = (struct chip_record){ .ring = record->ring_list,
                                 .ring_count = record->ring_count,
                                 .edge = record->edge,
                                 .edge_count = record->edge_count,
                                 .edges_lost = record->edges_lost,
                                 .told = record->told,
                                 .told_bytes = record->told_bytes,
                                 .told_lost = record->told_lost,
                                 .dumped = record->dumped,
                                 .dumped_bytes = record->dumped_bytes,
                                 .dumped_lost = record->dumped_lost,
                                 .scope = record->scope,
                                 .scope_count = record->scope_count,
                                 .scopes_lost = record->scopes_lost,
                                 .core_count =
                                     m->seats.count[PTO_CORE_AIC] + m->seats.count[PTO_CORE_AIV],
                                 .aic_count = m->sched.aic_count,
                                 .begin_cycles = record->begin_cycles,
                                 .end_cycles = record->end_cycles,
                                 .begin_ns = record->begin_ns,
                                 .end_ns = record->end_ns,
                                 .tasks = record->tasks };
    return PTO_OK;
}
