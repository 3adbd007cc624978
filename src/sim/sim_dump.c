/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arguments of tasks as they are before the first invocation and after the last one. A task's
 * marks are there before its submit, so whoever runs it finds them. The lock orders the dump of
 * a task's inputs before its other invocations, which may write them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/peek.h"
#include "sim/sim.h"

/* For all dumps of a run: what is more is lost, and counted. */
#define DUMP_BYTES_MAX (2ull << 30)

enum { LEVEL_MARKED = 1, LEVEL_ALL, LEVEL_ALL_BYTES_OF_MARKED };

static void mark_task(void *context, uint32_t index, const struct pto_args *args);
static bool watch_task(void *context, const struct slot *s, enum trace_kind kind);

void sim_dump_begin(struct sim *m, uint32_t level, struct orch_run *run)
{
    struct sim_dump *d = &m->dump;

    d->level = level;
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

/* Of a task; NULL: there is no memory. Under the lock. */
static struct sim_mark *mark_of(struct sim *m, uint64_t index)
{
    struct sim_dump *d = &m->dump;

    if (index >= d->mark_max) {
        uint64_t max = 2 * index + 1024;
        struct sim_mark *mark = realloc(d->mark, max * sizeof(*mark));

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

/* By the submitter, before it submits the task. */
static void mark_task(void *context, uint32_t index, const struct pto_args *args)
{
    struct sim *m = context;
    struct sim_dump *d = &m->dump;
    struct sim_mark *mark;

    pthread_mutex_lock(&d->lock);
    mark = mark_of(m, index);
    if (mark != NULL && args->is_marked) {
        mark->is_wanted = true;
        mark->tensors = args->marked_tensors;
    }
    pthread_mutex_unlock(&d->lock);
}

/* ---- what a tensor has in it ---- */

/* Room behind what is dumped already; NULL: it is lost. */
static char *take_room(struct sim *m, uint64_t bytes)
{
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

/* Bytes from an address that the orchestration named. Returns how many there are. */
static uint64_t copy_bytes(char *to, uint64_t from, uint64_t bytes)
{
    uint64_t done = 0, bits;

    while (done < bytes) {
        uint32_t step = bytes - done >= 8 ? 8 : 1;

        if (!peek_load(from + done, step, &bits))
            break;
        memcpy(to + done, &bits, step); /* little-endian, as all that this runs on */
        done += step;
    }
    return done;
}

/* The elements one after the other, rows without gaps at once. Returns the bytes that could be read. */
static uint64_t gather(char *to, const struct pto_tensor *t, uint32_t elem_bytes)
{
    uint32_t index[PTO_MAX_DIMS] = { 0 };
    uint32_t last = t->ndims - 1;
    bool is_dense = t->strides[last] == 1;
    uint64_t run = is_dense ? t->shapes[last] : 1; /* elements at once */
    uint64_t bytes = pto_tensor_numel(t) * elem_bytes, done = 0;

    while (done < bytes) {
        uint64_t at = t->start, got;
        uint32_t d = is_dense ? last : last + 1;

        for (uint32_t k = 0; k <= last; k++)
            at += (uint64_t)index[k] * t->strides[k];
        got = copy_bytes(to + done, t->addr + at * elem_bytes, run * elem_bytes);
        done += got;
        if (got < run * elem_bytes)
            break;
        while (d > 0 && ++index[d - 1] == t->shapes[d - 1])
            index[--d] = 0;
    }
    return done;
}

static void dump_tensor(struct sim *m, uint32_t index, uint32_t argument, bool is_after,
                        const struct pto_tensor *t)
{
    uint32_t elem_bytes = t != NULL ? (uint32_t)pto_dtype_size(t->dtype) : 0;
    uint64_t bytes = elem_bytes != 0 ? pto_tensor_numel(t) * elem_bytes : 0;
    struct chip_dump head = {
        .index = index, .argument = (uint16_t)argument, .is_after = is_after, .bytes = bytes
    };
    char *at = take_room(m, sizeof(head) + (bytes + 7) / 8 * 8);

    if (at == NULL) { /* that it was there can still be told */
        if (bytes != 0)
            dump_tensor(m, index, argument, is_after, NULL);
        return;
    }
    if (bytes != 0) {
        head.bytes = gather(at + sizeof(head), t, elem_bytes);
        head.is_truncated = head.bytes < bytes;
        m->record->dumped_bytes -= (bytes + 7) / 8 * 8 - (head.bytes + 7) / 8 * 8;
    }
    memcpy(at, &head, sizeof(head));
}

/* ---- of a task ---- */

static bool is_at_stage(uint32_t tag, bool is_after)
{
    uint32_t use = pto_tag_use(tag);

    return is_after ? (use & PTO_WRITES) != 0 : (use & PTO_READS) != 0 || use == 0;
}

static void dump_task(struct sim *m, const struct slot *s, const struct sim_mark *mark,
                      bool is_after)
{
    const struct sim_dump *d = &m->dump;
    const struct pto_tensor *tensor =
        m->image != NULL ? (const void *)graph_slot(&m->graph, s->payload) : s->tensor;
    uint32_t marked = mark->tensors;

    if (!is_after)
        dump_tensor(m, s->seq - 1, CHIP_DUMP_SCALARS, false, NULL);
    for (uint32_t i = 0; i < s->tensor_count; i++) {
        bool is_marked = (marked >> i & 1) != 0;

        if (!is_at_stage(tensor[i].tag, is_after) || (d->level == LEVEL_MARKED && !is_marked))
            continue;
        dump_tensor(m, s->seq - 1, i, is_after,
                    d->level == LEVEL_ALL || is_marked ? &tensor[i] : NULL);
    }
}

/* By the thread that invokes the kernel: the task stays as it is until that has returned. */
static bool watch_task(void *context, const struct slot *s, enum trace_kind kind)
{
    struct sim *m = context;
    struct sim_dump *d = &m->dump;
    struct sim_mark *mark;

    pthread_mutex_lock(&d->lock);
    mark = mark_of(m, s->seq - 1);
    if (mark != NULL && (d->level != LEVEL_MARKED || mark->is_wanted)) {
        if (kind == TRACE_BEGIN && !mark->is_begun) {
            mark->is_begun = true;
            dump_task(m, s, mark, false);
        }
        if (kind == TRACE_END && ++mark->ended == s->block_count * slot_lane_count(s->lanes))
            dump_task(m, s, mark, true);
    }
    pthread_mutex_unlock(&d->lock);
    return true;
}
