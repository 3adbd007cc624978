/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the record of a run, which the recorder of an isolated chip keeps in the device's memory.
 * That is a file which this process also has open, so the record is available even if the chip was
 * killed during a run. It may be damaged; it is copied before it is checked.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/isolated.h"
#include "sim/sim_record.h"

/* Reads device memory; false: the address is not in the device's memory, or cannot be read. */
static bool read_memory(const struct isolated *iso, uint64_t addr, void *to, uint64_t bytes)
{
    uint64_t at = addr - (uint64_t)(uintptr_t)iso->range;

    if (at > iso->range_bytes || bytes > iso->range_bytes - at)
        return false;
    while (bytes != 0) {
        ssize_t count = pread(iso->memory, to, bytes, (off_t)at);

        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        to = (char *)to + count;
        at += (uint64_t)count;
        bytes -= (uint64_t)count;
    }
    return true;
}

/* Copies memory from an address of the chip's process. */
static int copy_memory(const struct isolated *iso, const void *theirs, uint64_t bytes,
                       void **copy_out)
{
    void *copy;

    if (bytes > iso->range_bytes)
        return PTO_EFORMAT;
    copy = malloc(bytes + 1);
    if (copy == NULL)
        return PTO_ENOMEM;
    if (!read_memory(iso, (uint64_t)(uintptr_t)theirs, copy, bytes)) {
        free(copy);
        return PTO_EFORMAT;
    }
    *copy_out = copy;
    return PTO_OK;
}

static int copy_ring(const struct isolated *iso, const struct trace_ring *theirs,
                     struct trace_ring *own)
{
    uint64_t kept = theirs->count <= theirs->mask ? theirs->count : theirs->mask + 1ull;
    void *records = NULL;
    int status = (theirs->mask & (theirs->mask + 1ull)) == 0
                     ? copy_memory(iso, theirs->record, kept * sizeof(*theirs->record), &records)
                     : PTO_EFORMAT;

    if (status < 0)
        return status;
    *own = (struct trace_ring){ .record = records,
                                .count = theirs->count,
                                .mask = theirs->mask,
                                .has_each_time = theirs->has_each_time };
    return PTO_OK;
}

static void free_record(struct sim_record *own)
{
    if (own == NULL)
        return;
    for (uint32_t i = 0; i <= SCHED_WORKERS_MAX; i++)
        free(own->ring[i].record);
    free(own->edge);
    free(own->task_records);
    free(own->scope);
    free(own->stamps.at);
    free(own->dumped);
    free(own);
}

void sim_isolated_forget_record(struct isolated *iso)
{
    free_record(iso->recorded);
    iso->recorded = NULL;
}

/*
 * Copies `count` elements to a new array, and stores its address in *list_out; if `count` is 0, it
 * stays NULL.
 */
static int copy_list(const struct isolated *iso, const void *theirs, uint64_t count, size_t bytes,
                     void *list_out)
{
    void *list = NULL;
    int status = count <= PAYLOAD_BYTES_MAX ? PTO_OK : PTO_EFORMAT;

    if (status >= 0 && count != 0)
        status = copy_memory(iso, theirs, count * bytes, &list);
    memcpy(list_out, &list, sizeof(list));
    return status;
}

/* Copies everything that the record points to. */
static int copy_parts(const struct isolated *iso, const struct sim_record *theirs,
                      struct sim_record *own)
{
    int status = theirs->ring_count <= SCHED_WORKERS_MAX + 1 ? PTO_OK : PTO_EFORMAT;

    for (uint32_t i = 0; status >= 0 && i < theirs->ring_count; i++) {
        status = copy_ring(iso, &theirs->ring[i], &own->ring[i]);
        own->ring_list[i] = &own->ring[i];
        own->ring_count = i + 1;
    }
    if (status >= 0)
        status = copy_list(iso, theirs->edge, theirs->edge_count, sizeof(*own->edge), &own->edge);
    if (status >= 0)
        status = copy_list(iso, theirs->task_records, theirs->task_bytes, 1, &own->task_records);
    if (status >= 0)
        status =
            copy_list(iso, theirs->scope, theirs->scope_count, sizeof(*own->scope), &own->scope);
    if (status >= 0)
        status = copy_list(iso, theirs->dumped, theirs->dumped_bytes, 1, &own->dumped);
    if (status >= 0)
        status = copy_list(iso, theirs->stamps.at, theirs->stamps.count, sizeof(*own->stamps.at),
                           &own->stamps.at);
    own->stamps.count = theirs->stamps.count;
    own->edge_count = theirs->edge_count;
    own->task_bytes = theirs->task_bytes;
    own->scope_count = theirs->scope_count;
    own->dumped_bytes = theirs->dumped_bytes;
    return status;
}

/* Counts the recorded tasks, for a process that ended before it stored their number. */
static uint64_t count_tasks(const struct sim_record *own)
{
    uint64_t tasks = 0;

    for (uint64_t i = 0; i < own->edge_count; i++)
        tasks = own->edge[i].after >= tasks ? own->edge[i].after + 1ull : tasks;
    for (uint32_t i = 0; i < own->ring_count; i++) {
        const struct trace_ring *ring = &own->ring[i];

        for (uint64_t k = 0; k < ring->count && k <= ring->mask; k++)
            if (ring->record[k].kind == TRACE_BEGIN || ring->record[k].kind == TRACE_RUN)
                tasks = ring->record[k].seq > tasks ? ring->record[k].seq : tasks;
    }
    return tasks;
}

/* Fills in what is missing in the record of a run because the process ended during the run. */
static void complete(struct isolated *iso, struct sim_record *own)
{
    own->tasks = count_tasks(own);
    pthread_mutex_lock(&iso->end_lock);
    own->end_ns = iso->end_ns;
    own->end_cycles = iso->end_cycles;
    pthread_mutex_unlock(&iso->end_lock);
}

static struct sim_record *make_record(void)
{
    size_t bytes = (sizeof(struct sim_record) + 127) / 128 * 128;
    struct sim_record *record = aligned_alloc(128, bytes);

    if (record != NULL)
        memset(record, 0, bytes);
    return record;
}

/* Copies the record to `iso->recorded`, which stays unchanged if that fails. */
static int copy_record(struct isolated *iso)
{
    struct sim_record *theirs = make_record(), *own = make_record();
    int status = theirs != NULL && own != NULL ? PTO_OK : PTO_ENOMEM;

    if (status >= 0 && !read_memory(iso, iso->record_addr, theirs, sizeof(*theirs)))
        status = PTO_ESYSTEM;
    if (status >= 0 && (iso->traced == 0 || theirs->number != iso->traced ||
                        (!theirs->is_whole && !isolated_is_gone(iso))))
        status = isolated_is_gone(iso) ? PTO_EPEER : PTO_EINVAL;
    if (status >= 0)
        status = copy_parts(iso, theirs, own);
    if (status >= 0) {
        own->edges_lost = theirs->edges_lost;
        own->task_records_lost = theirs->task_records_lost;
        own->scopes_lost = theirs->scopes_lost;
        own->stamps_lost = theirs->stamps_lost;
        own->dumped_lost = theirs->dumped_lost;
        own->begin_cycles = theirs->begin_cycles;
        own->begin_ns = theirs->begin_ns;
        own->end_cycles = theirs->end_cycles;
        own->end_ns = theirs->end_ns;
        own->tasks = theirs->tasks;
        if (!theirs->is_whole)
            complete(iso, own);
        iso->recorded = own;
        own = NULL;
    }
    free_record(own);
    free(theirs);
    return status;
}

int sim_isolated_record(struct chip *chip, struct chip_record *out)
{
    struct isolated *iso = isolated_of(chip);
    const struct sim_record *own;
    int status;

    sim_isolated_forget_record(iso);
    status = copy_record(iso);
    if (status < 0)
        return status;
    own = iso->recorded;
    *out = (struct chip_record){ .ring = own->ring_list,
                                 .ring_count = own->ring_count,
                                 .edge = own->edge,
                                 .edge_count = own->edge_count,
                                 .edges_lost = own->edges_lost,
                                 .task_records = own->task_records,
                                 .task_bytes = own->task_bytes,
                                 .task_records_lost = own->task_records_lost,
                                 .dumped = own->dumped,
                                 .dumped_bytes = own->dumped_bytes,
                                 .dumped_lost = own->dumped_lost,
                                 .scope = own->scope,
                                 .scope_count = own->scope_count,
                                 .scopes_lost = own->scopes_lost,
                                 .core_count = iso->base.properties.aic_count +
                                               iso->base.properties.aiv_count,
                                 .aic_count = iso->base.properties.aic_count,
                                 .begin_cycles = own->begin_cycles,
                                 .end_cycles = own->end_cycles,
                                 .begin_ns = own->begin_ns,
                                 .end_ns = own->end_ns,
                                 .tasks = own->tasks,
                                 .stamp = own->stamps.at,
                                 .stamp_count = own->stamps.count,
                                 .stamps_lost = own->stamps_lost,
                                 .has_ready = own->ring_count != 0 && own->ring[0].has_each_time };
    return PTO_OK;
}
