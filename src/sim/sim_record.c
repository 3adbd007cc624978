/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder of the simulated chip: a ring of trace records for each worker, one for threads
 * without a place, and the edges that the engine created. The record of a run stays until the next
 * recorded run.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "orch/record.h"
#include "sim/sim.h"

enum { CPU_NS = 200000 }; /* minimum interval between two reads of a thread's CPU time */

static void record_add_edge(void *context, uint32_t before, uint32_t after);
static void add_task(void *context, const struct orch_submitted *submit);
static void add_element(void *context, const struct orch_element *element);
static void add_launched(void *context, const struct built_graph *graph);
static bool grow_stamps(void *context, uint32_t index);
static void add_scope(void *context, const struct orch_scope *scope);
static char *take_task_record(void *context, uint64_t bytes);

/* ---- memory of the record ---- */

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
    /* a reader that copies the record at the same time sees the old or the new array */
    memcpy(list, &memory, sizeof(memory));
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
    m->record->open_ns = os_now_ns();
    m->record->open_cycles = port_cycles();
    return PTO_OK;
}

void sim_record_close(struct sim *m)
{
    if (m->record == NULL)
        return;
    for (uint32_t i = 0; i <= SCHED_WORKERS_MAX; i++)
        give(m, m->record->ring[i].record);
    give(m, m->record->edge);
    give(m, m->record->task_records);
    give(m, m->record->stamps.at);
    give(m, m->record->scope);
    give(m, m->record->dumped);
    give(m, m->record);
}

/* ---- begin and end of a recorded run ---- */

uint64_t sim_record_cpu(uint32_t *thread_out)
{
    struct timespec now;

    *thread_out = (uint32_t)((uintptr_t)__builtin_thread_pointer() >> 6);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

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
    ring->last = ring->cpu_at = 0;
    /*
     * an impossible number of tasks, so that the first real number differs from it and is recorded
     */
    ring->live = ring->ready = UINT32_MAX;
    return PTO_OK;
}

/*
 * Returns CPU_NS in cycles. CPU_NS is the minimum interval between two reads of a thread's CPU
 * time, because each read is a system call.
 */
static uint64_t cpu_cycles(const struct sim_record *record)
{
    uint64_t ns = os_now_ns() - record->open_ns, cycles = port_cycles() - record->open_cycles;

    return ns > CPU_NS && cycles != 0 ? (uint64_t)((double)cycles / (double)ns * CPU_NS) : CPU_NS;
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
    record->number = 0; /* mark the record as incomplete until it is prepared */
    record->ring_count = workers + 1;
    record->edge_count = record->edges_lost = 0;
    record->task_bytes = record->task_records_lost = 0;
    record->scope_count = record->scopes_lost = 0;
    if (record->stamps.count != 0)
        memset(record->stamps.at, 0, record->stamps.count * sizeof(record->stamps.at[0]));
    record->stamps.count = record->stamps_lost = 0;
    for (uint32_t i = 0; i <= workers; i++) {
        struct trace_ring *ring = &record->ring[i];

        if (prepare_ring(m, ring, options->trace_records) < 0)
            return PTO_ENOMEM;
        ring->has_each_time = options->trace >= PTO_TRACE_TIMES || i == workers;
        ring->cpu_fn = ring->has_each_time && i < workers ? sim_record_cpu : NULL;
        ring->cpu_cycles = cpu_cycles(record);
        record->ring_list[i] = ring;
        if (i < workers)
            m->sched.worker[i]->trace = ring;
    }
    m->trace = &record->ring[workers];
    run->wired_fn = record_add_edge;
    run->wired_context = m;
    run->recorder.context = m;
    if (options->trace == PTO_TRACE_TIMES) {
        run->recorder.stamps = &record->stamps;
        run->recorder.stamps_grow = grow_stamps;
    }
    if (options->trace == PTO_TRACE_ARGUMENTS) {
        run->recorder.submitted = add_task;
        run->recorder.element = add_element;
        run->recorder.launched = add_launched;
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
    lost = record->edges_lost + record->task_records_lost + record->scopes_lost +
           record->dumped_lost + record->stamps_lost;
    for (uint32_t i = 0; i < record->ring_count; i++)
        if (record->ring[i].count > record->ring[i].mask + 1ull)
            lost += record->ring[i].count - record->ring[i].mask - 1;
    return lost;
}

/* Called by the submitter when the engine creates an edge. */
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

/* Called by the submitter if there is no room for the time of a submit. */
static bool grow_stamps(void *context, uint32_t index)
{
    struct sim *m = context;
    struct orch_stamps *stamps = &m->record->stamps;
    uint64_t max = 2ull * index + 4096;

    if (!sim_record_grow(m, &stamps->at, stamps->count * sizeof(stamps->at[0]),
                         max * sizeof(stamps->at[0]))) {
        m->record->stamps_lost++;
        return false;
    }
    memset(stamps->at + stamps->count, 0, (max - stamps->count) * sizeof(stamps->at[0]));
    stamps->max = max;
    return true;
}

/* Called by the submitter at the begin and the end of a scope. */
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
    record->scope[record->scope_count++] = record_scope(scope);
}

/* Reserves bytes for a record of a submission. NULL: the record is lost, and counted as such. */
static char *take_task_record(void *context, uint64_t bytes)
{
    struct sim *m = context;
    struct sim_record *record = m->record;

    if (record->task_bytes_max - record->task_bytes < bytes) {
        uint64_t max = 2 * record->task_bytes_max + bytes + 65536;

        if (!sim_record_grow(m, &record->task_records, record->task_bytes, max)) {
            record->task_records_lost++;
            return NULL;
        }
        record->task_bytes_max = max;
    }
    record->task_bytes += bytes;
    return record->task_records + (record->task_bytes - bytes);
}

struct record_sink sim_record_sink(struct sim *m)
{
    return (struct record_sink){ take_task_record, m };
}

/* Called by the submitter for each submission. */
static void add_task(void *context, const struct orch_submitted *submit)
{
    const struct record_sink sink = sim_record_sink(context);

    record_task(&sink, submit);
}

/* Called by the submitter for each element that the orchestration itself uses. */
static void add_element(void *context, const struct orch_element *element)
{
    const struct record_sink sink = sim_record_sink(context);

    record_element(&sink, element);
}

/* Called by the thread that leads the run, before the tasks of a launched graph run. */
static void add_launched(void *context, const struct built_graph *graph)
{
    record_launched(&(struct record_sink){ take_task_record, context }, graph);
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
                                 .task_records = record->task_records,
                                 .task_bytes = record->task_bytes,
                                 .task_records_lost = record->task_records_lost,
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
                                 .tasks = record->tasks,
                                 .stamp = record->stamps.at,
                                 .stamp_count = record->stamps.count,
                                 .stamps_lost = record->stamps_lost,
                                 .has_ready = m->record->ring[0].has_each_time };
    return PTO_OK;
}
