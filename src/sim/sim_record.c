/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder of the simulated chip: a ring for each worker and one for threads
 * without a place, and the edges that were wired. What a run recorded stays until the
 * next one that is recorded.
 */
#include <stdlib.h>

#include "sim/sim.h"

static void add_edge(void *context, uint32_t before, uint32_t after);

static int prepare_ring(struct trace_ring *ring, uint32_t records)
{
    if (ring->record == NULL || ring->mask + 1 != records) {
        free(ring->record);
        *ring = (struct trace_ring){ 0 };
        ring->record = malloc(records * sizeof(struct trace_record));
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
    uint32_t workers = m->sched.worker_count;

    m->trace = NULL;
    for (uint32_t i = 0; i < workers; i++)
        m->sched.worker[i]->trace = NULL;
    if (options->trace == PTO_TRACE_OFF)
        return PTO_OK;
    m->record.is_whole = false;
    m->record.edge_count = m->record.edges_lost = 0;
    for (uint32_t i = 0; i <= workers; i++) {
        struct trace_ring *ring = &m->ring[i];

        if (prepare_ring(ring, options->trace_records) < 0)
            return PTO_ENOMEM;
        ring->has_each_time = options->trace == PTO_TRACE_TIMES || i == workers;
        m->record.ring[i] = ring;
        if (i < workers)
            m->sched.worker[i]->trace = ring;
    }
    m->trace = &m->ring[workers];
    run->wired_fn = add_edge;
    run->wired_context = m;
    m->record.begin_ns = os_now_ns();
    m->record.begin_cycles = port_cycles();
    return PTO_OK;
}

void sim_record_end(struct sim *m)
{
    if (m->trace == NULL)
        return;
    m->record.end_ns = os_now_ns();
    m->record.end_cycles = port_cycles();
    m->record.tasks = m->graph.seq - 1;
    m->record.is_whole = true;
}

uint64_t sim_record_lost(const struct sim *m)
{
    uint64_t lost = m->trace != NULL ? m->record.edges_lost : 0;

    for (uint32_t i = 0; m->trace != NULL && i <= m->sched.worker_count; i++)
        if (m->ring[i].count > m->ring[i].mask + 1ull)
            lost += m->ring[i].count - m->ring[i].mask - 1;
    return lost;
}

/* Called by the submitter. */
static void add_edge(void *context, uint32_t before, uint32_t after)
{
    struct sim_record *record = &((struct sim *)context)->record;

    if (record->edge_count == record->edge_max) {
        uint64_t max = record->edge_max != 0 ? 2 * record->edge_max : 4096;
        struct chip_edge *edge = realloc(record->edge, max * sizeof(*edge));

        if (edge == NULL) {
            record->edges_lost++;
            return;
        }
        record->edge = edge;
        record->edge_max = max;
    }
    record->edge[record->edge_count++] = (struct chip_edge){ before, after };
}

int sim_record(struct chip *chip, struct chip_record *out)
{
    const struct sim *m = sim_of(chip);
    const struct sim_record *record = &m->record;

    if (!record->is_whole)
        return PTO_EINVAL;
    *out = (struct chip_record){ .ring = record->ring,
                                 .ring_count = m->sched.worker_count + 1,
                                 .edge = record->edge,
                                 .edge_count = record->edge_count,
                                 .edges_lost = record->edges_lost,
                                 .aic_count = m->sched.aic_count,
                                 .begin_cycles = record->begin_cycles,
                                 .end_cycles = record->end_cycles,
                                 .begin_ns = record->begin_ns,
                                 .end_ns = record->end_ns,
                                 .tasks = record->tasks };
    return PTO_OK;
}

void sim_record_free(struct sim *m)
{
    for (uint32_t i = 0; i <= m->sched.worker_count; i++)
        free(m->ring[i].record);
    free(m->record.edge);
}
