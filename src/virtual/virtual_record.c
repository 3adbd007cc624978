/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of a run in virtual time: their memory, and the exact times of kernels on their
 * cores.
 */
#include <stdlib.h>
#include <string.h>

#include "chip/backend.h"
#include "virtual/virtual.h"

enum {
    SCOPES_MAX = 1 << 20,
    MARKS_MAX = 1 << 24, /* maximum number of tasks whose arguments are dumped */
    TIMES_MIN = 1024,
};

#define EDGES_MAX (1ull << 28)
#define TASK_BYTES_MAX (16ull << 30) /* reserved address space; pages are allocated on use */
#define DUMPED_MAX (4ull << 30)

static uint64_t virtual_record_bytes(const struct board_run *room)
{
    struct board_run from_zero = *room;

    from_zero.record = 0;
    return message_record(&from_zero).end;
}

static struct board_run plan_room(const struct pto_run_options *options)
{
    bool has_dumps = options->diagnostics.args != 0;

    return (struct board_run){ .record_max =
                                   options->trace != PTO_TRACE_OFF ? options->trace_records : 1,
                               .edge_max = EDGES_MAX,
                               .scope_max = options->diagnostics.has_scopes ? SCOPES_MAX : 0,
                               .mark_max = has_dumps ? MARKS_MAX : 0,
                               .task_bytes_max =
                                   options->trace == PTO_TRACE_ARGUMENTS ? TASK_BYTES_MAX : 0,
                               .dump_max = has_dumps ? DUMPED_MAX : 0 };
}

void virtual_record_close(struct virtual_chip *v)
{
    if (v->room.record != 0)
        os_release((void *)(uintptr_t)v->room.record, virtual_record_bytes(&v->room));
    v->room = (struct board_run){ .record = 0 };
}

/*
 * Keeps the times of a kernel that has ended. If memory is exhausted, the record keeps the times
 * that the scheduler saw.
 */
void virtual_record_note(struct virtual_chip *v, struct virtual_job *job)
{
    uint64_t max = job->time_max != 0 ? 2 * job->time_max : TIMES_MIN;
    uint64_t *more;

    if (!v->is_recorded)
        return;
    if (job->time_count == job->time_max) {
        more = realloc(job->times, 2 * max * sizeof(*more));
        if (more == NULL) {
            v->has_times = false;
            return;
        }
        job->times = more;
        job->time_max = max;
    }
    job->times[2 * job->time_count] = job->begin_ns;
    job->times[2 * job->time_count + 1] = job->end_ns;
    job->time_count++;
}

/*
 * Prepares the memory for records. Edges are recorded in every run, because the longest path is a
 * bound of its duration (virtual_costs.c).
 */
void virtual_record_begin(struct virtual_chip *v)
{
    struct board_run room = plan_room(v->request->options), old = v->room;
    void *memory;

    v->is_recorded = v->has_times = v->request->options->trace != PTO_TRACE_OFF;
    for (uint32_t i = 0; i < v->clock->core_count; i++)
        v->job[i].time_count = 0;
    old.record = 0;
    if (v->room.record != 0 && memcmp(&room, &old, sizeof(room)) == 0)
        return;
    virtual_record_close(v);
    memory = os_reserve(virtual_record_bytes(&room));
    if (memory == NULL || os_commit(memory, virtual_record_bytes(&room)) < 0) {
        os_release(memory, virtual_record_bytes(&room));
        v->is_recorded = false;
        return;
    }
    v->room = room;
    v->room.record = (uint64_t)(uintptr_t)memory;
}

/*
 * Replaces the scheduler's time stamps of kernels by the exact times on the cores. The scheduler
 * stamps a kernel when it rings the doorbell and when it sees the answer; the kernel begins and
 * ends in between. Each core runs one kernel at a time, and the ring has the latest records, so
 * records and times of a core are matched from their ends.
 */
static void set_times(struct virtual_chip *v, struct trace_ring *ring)
{
    uint64_t held = ring->count < ring->mask + 1ull ? ring->count : ring->mask + 1ull;
    uint64_t begun[BOARD_CORES] = { 0 }, ended[BOARD_CORES] = { 0 };

    for (uint64_t i = 1; v->has_times && i <= held; i++) {
        struct trace_record *r = &ring->record[(ring->count - i) & ring->mask];
        const struct virtual_job *job;
        uint64_t *count;

        if (r->core >= v->clock->core_count || (r->kind != TRACE_BEGIN && r->kind != TRACE_END))
            continue;
        job = &v->job[r->core];
        count = r->kind == TRACE_BEGIN ? &begun[r->core] : &ended[r->core];
        if (++*count <= job->time_count)
            r->time = job->times[2 * (job->time_count - *count) + (r->kind == TRACE_END)];
    }
}

void virtual_record_end(struct virtual_chip *v)
{
    const struct board_record *head = (const void *)(uintptr_t)v->room.record;
    const struct message_record at = message_record(&v->room);

    if (!v->is_recorded)
        return;
    v->ring[0] = (struct trace_ring){ .record = (struct trace_record *)(uintptr_t)at.record,
                                      .count = head->count,
                                      .mask = (uint32_t)v->room.record_max - 1,
                                      .has_each_time = true };
    v->ring[1] = (struct trace_ring){ .record = v->ring[0].record, .mask = v->ring[0].mask };
    v->ring_list[0] = &v->ring[0];
    v->ring_list[1] = &v->ring[1];
    set_times(v, &v->ring[0]);
}

int virtual_record(struct chip *chip, struct chip_record *out)
{
    struct virtual_chip *v = virtual_of(chip);
    const struct board_record *head = (const void *)(uintptr_t)v->room.record;
    const struct message_record at = message_record(&v->room);

    if (!v->is_recorded)
        return PTO_EINVAL;
    *out = (struct chip_record){ .ring = v->ring_list,
                                 .ring_count = 2,
                                 .edge = (const struct chip_edge *)(uintptr_t)at.edge,
                                 .edge_count = head->edge_count,
                                 .edges_lost = head->edges_lost,
                                 .task_records = (const void *)(uintptr_t)at.task_records,
                                 .task_bytes = head->task_bytes,
                                 .task_records_lost = head->task_records_lost,
                                 .dumped = (const void *)(uintptr_t)at.dumped,
                                 .dumped_bytes = head->dumped_bytes,
                                 .dumped_lost = head->dumped_lost,
                                 .scope = (const struct chip_scope *)(uintptr_t)at.scope,
                                 .scope_count = head->scope_count,
                                 .scopes_lost = head->scopes_lost,
                                 .core_count = v->clock->core_count,
                                 .aic_count = v->base.properties.aic_count,
                                 .begin_cycles = head->begin_cycles,
                                 .end_cycles = head->end_cycles,
                                 .begin_ns = head->begin_cycles,
                                 .end_ns = head->end_cycles,
                                 .tasks = v->report.tasks,
                                 .has_ready = true,
                                 .is_virtual = true,
                                 .origin = v->origin,
                                 .origin_count = v->count_max };
    return PTO_OK;
}
