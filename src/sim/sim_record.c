/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder of the simulated chip: a ring for each worker and one for threads
 * without a place, and the edges that were wired. What a run recorded stays until the
 * next one that is recorded.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

static void add_edge(void *context, uint32_t before, uint32_t after);
static void add_task(void *context, const struct pto_task_view *view);
static void add_launched(struct sim *m, const struct image *image);

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
    m->record.told_bytes = m->record.told_lost = 0;
    for (uint32_t i = 0; i <= workers; i++) {
        struct trace_ring *ring = &m->ring[i];

        if (prepare_ring(ring, options->trace_records) < 0)
            return PTO_ENOMEM;
        ring->has_each_time = options->trace >= PTO_TRACE_TIMES || i == workers;
        m->record.ring[i] = ring;
        if (i < workers)
            m->sched.worker[i]->trace = ring;
    }
    m->trace = &m->ring[workers];
    run->wired_fn = add_edge;
    run->wired_context = m;
    if (options->trace == PTO_TRACE_ARGUMENTS) {
        run->told_fn = add_task;
        run->told_context = m;
        if (m->image != NULL)
            add_launched(m, m->image);
    }
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
    uint64_t lost = m->trace != NULL ? m->record.edges_lost + m->record.told_lost : 0;

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

/* Room behind what is told already; NULL: it is lost. */
static char *tell(struct sim_record *record, uint64_t bytes)
{
    if (record->told_max - record->told_bytes < bytes) {
        uint64_t max = 2 * record->told_max + bytes + 65536;
        char *told = realloc(record->told, max);

        if (told == NULL) {
            record->told_lost++;
            return NULL;
        }
        record->told = told;
        record->told_max = max;
    }
    record->told_bytes += bytes;
    return record->told + (record->told_bytes - bytes);
}

/* Returns where its arguments go, and behind them its scalars. */
static struct chip_argument *tell_task(struct sim_record *record, struct chip_task task,
                                       const struct pto_site *site)
{
    size_t length = site != NULL && site->file != NULL ? strlen(site->file) : 0;
    char *at;

    task.line = site != NULL ? (uint32_t)site->line : 0;
    task.file_bytes = length != 0 && length < 4096 ? (uint16_t)(length / 8 * 8 + 8) : 0;
    at = tell(record, sizeof(task) + task.file_bytes +
                          task.tensor_count * sizeof(struct chip_argument) +
                          task.scalar_count * sizeof(uint64_t));
    if (at == NULL)
        return NULL;
    memcpy(at, &task, sizeof(task));
    memset(at + sizeof(task), 0, task.file_bytes);
    if (task.file_bytes != 0)
        memcpy(at + sizeof(task), site->file, length);
    return (struct chip_argument *)(void *)(at + sizeof(task) + task.file_bytes);
}

/* A description of an output has these fields where a tensor has them. */
static struct chip_argument tell_argument(const void *from, uint32_t tag)
{
    const struct pto_tensor *t = from;
    struct chip_argument to = { .tag = (uint8_t)tag,
                                .dtype = t->dtype,
                                .ndims = (uint8_t)t->ndims };

    memcpy(to.shapes, t->shapes, sizeof(to.shapes));
    return to;
}

/* Called by the submitter. */
static void add_task(void *context, const struct pto_task_view *view)
{
    const struct pto_args *args = view->args;
    struct chip_argument *at =
        tell_task(&((struct sim *)context)->record,
                  (struct chip_task){ .index = (uint32_t)view->index,
                                      .tensor_count = (uint8_t)args->tensor_count,
                                      .scalar_count = (uint8_t)args->scalar_count },
                  view->site);

    for (uint32_t i = 0; at != NULL && i < args->tensor_count; i++)
        *at++ = tell_argument(args->tensor[i], args->tag[i]);
    for (uint32_t i = 0; at != NULL && i < args->scalar_count; i++) {
        bool is_passed = (args->passed >> i & 1) != 0;
        uint64_t value = is_passed ? view->entry->scalar[args->passed_from[i]] : args->scalar[i];

        memcpy((char *)at + i * sizeof(value), &value, sizeof(value));
    }
}

/* The tasks of a graph that is launched, whose scalars are not known yet. */
static void add_launched(struct sim *m, const struct image *image)
{
    for (uint32_t i = 0; i < image->task_count; i++) {
        const struct slot *s =
            (const void *)(image->slots + (uint64_t)image->task[i] * SLOT_LINE_BYTES);
        const struct pto_tensor *tensor =
            (const void *)(image->slots + (uint64_t)s->payload * SLOT_LINE_BYTES);
        struct chip_argument *at = tell_task(
            &m->record, (struct chip_task){ .index = s->seq - 1, .tensor_count = s->tensor_count },
            s->site);

        for (uint32_t k = 0; at != NULL && k < s->tensor_count; k++)
            *at++ = tell_argument(&tensor[k], tensor[k].tag);
    }
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
                                 .told = record->told,
                                 .told_bytes = record->told_bytes,
                                 .told_lost = record->told_lost,
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
    free(m->record.told);
}
