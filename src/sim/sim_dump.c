/* SPDX-License-Identifier: Apache-2.0 */
/* Dumps of tasks' arguments before and after their kernels: memory for the dumps, and its lock. */
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

/* maximum bytes of all dumps of a run; later dumps are dropped and counted as lost */
#define DUMP_BYTES_MAX (2ull << 30)

static void mark_task(void *context, uint32_t index, const struct pto_args *args);
static bool watch_task(void *context, const struct slot *s, enum trace_kind kind);
static struct dump_mark *mark_of(void *context, uint64_t index);
static char *take_room(void *context, uint64_t bytes);
static void give_room(void *context, uint64_t bytes);

void sim_dump_begin(struct sim *m, uint32_t level, struct orch_run *run)
{
    struct sim_dump *d = &m->dump;

    d->dumps = (struct dumps){ level, mark_of, take_room, give_room, m };
    m->record->dumped_bytes = m->record->dumped_lost = 0;
    if (d->mark != NULL)
        memset(d->mark, 0, d->mark_max * sizeof(d->mark[0]));
    for (uint32_t i = 0; i <= m->sched.worker_count; i++) {
        m->record->ring[i].watch_fn = level != 0 ? watch_task : NULL;
        m->record->ring[i].watch_context = m;
    }
    if (level != 0)
        run->recorder.mark = mark_task;
}

void sim_dump_free(struct sim *m)
{
    free(m->dump.mark);
}

/* Returns what to dump of the task with this submission number; NULL: out of memory. */
static struct dump_mark *mark_of(void *context, uint64_t index)
{
    struct sim *m = context;
    struct sim_dump *d = &m->dump;

    if (index >= d->mark_max) {
        uint64_t max = 2 * index + 1024;
        struct dump_mark *mark = realloc(d->mark, max * sizeof(*mark));

        if (mark == NULL) {
            m->record->dumped_lost++;
            return NULL;
        }
        memset(mark + d->mark_max, 0, (max - d->mark_max) * sizeof(*mark));
        d->mark = mark;
        d->mark_max = max;
    }
    return &d->mark[index];
}

/* Reserves bytes for a dump after the earlier ones; NULL: the dump is lost. */
static char *take_room(void *context, uint64_t bytes)
{
    struct sim *m = context;
    struct sim_record *record = m->record;

    if (bytes > DUMP_BYTES_MAX - record->dumped_bytes) {
        record->dumped_lost++;
        return NULL;
    }
    if (record->dumped_max - record->dumped_bytes < bytes) {
        uint64_t max = 2 * record->dumped_max + bytes + 65536;

        if (!sim_record_grow(m, &record->dumped, record->dumped_bytes, max)) {
            record->dumped_lost++;
            return NULL;
        }
        record->dumped_max = max;
    }
    record->dumped_bytes += bytes;
    return record->dumped + (record->dumped_bytes - bytes);
}

static void give_room(void *context, uint64_t bytes)
{
    struct sim *m = context;

    m->record->dumped_bytes -= bytes;
}

/* Called by the submitter, before it submits the task. */
static void mark_task(void *context, uint32_t index, const struct pto_args *args)
{
    struct sim *m = context;

    pthread_mutex_lock(&m->dump.lock);
    dumps_submit(&m->dump.dumps, index, args);
    pthread_mutex_unlock(&m->dump.lock);
}

/*
 * Called by the thread that invokes the kernel. The task stays unchanged until the kernel has
 * returned.
 */
static bool watch_task(void *context, const struct slot *s, enum trace_kind kind)
{
    struct sim *m = context;
    const struct pto_tensor *tensor =
        m->image != NULL ? (const void *)graph_slot(&m->graph, s->payload) : s->tensor;

    pthread_mutex_lock(&m->dump.lock);
    dumps_watch(&m->dump.dumps, s, tensor, kind);
    pthread_mutex_unlock(&m->dump.lock);
    return true;
}
