/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects for each task of a recorded run when it was submitted, became ready and ended, and
 * groups similar tasks under one key.
 */
#include "trace/recording_data.h"

#include <stdlib.h>
#include <string.h>

#include "trace/recording_hash.h"

static void recording_read_ring(struct recording *r, const struct trace_ring *ring);
static void recording_add_stamps(struct recording *r);
static void recording_add_slices(struct recording *r);
static void recording_add_task(struct recording *r);
static int recording_find_keys(struct recording *r);

int recording_make(const struct trace_slices *slices, struct recording *out)
{
    const struct chip_record *record = &slices->snapshot->record;
    struct recording r = { .slices = slices };
    int status = PTO_OK;

    if (record->tasks >= PTO_RECORDING_NONE)
        return PTO_ENOMEM;
    r.task = calloc(record->tasks + 1, sizeof(*r.task));
    if (r.task == NULL)
        return PTO_ENOMEM;
    for (uint64_t i = 0; i < record->tasks; i++)
        r.task[i] = (struct recording_task){ PTO_RECORDING_NO_TIME,
                                             PTO_RECORDING_NO_TIME,
                                             PTO_RECORDING_NO_TIME,
                                             PTO_RECORDING_NONE,
                                             0,
                                             0 };
    for (uint32_t i = 0; i < record->ring_count; i++)
        recording_read_ring(&r, record->ring[i]);
    recording_add_stamps(&r);
    recording_add_task(&r);
    recording_add_slices(&r);
    status = recording_find_keys(&r);
    if (status >= 0)
        status = recording_find_edges(&r);
    if (status < 0) {
        recording_free(&r);
        return status;
    }
    *out = r;
    return PTO_OK;
}

void recording_free(struct recording *r)
{
    free(r->task);
    free(r->key);
    free(r->edge);
    *r = (struct recording){ 0 };
}

static void recording_read_ring(struct recording *r, const struct trace_ring *ring)
{
    uint64_t tasks = r->slices->snapshot->record.tasks;

    for (uint64_t k = trace_ring_first(ring); k < ring->count; k++) {
        const struct trace_record *from = &ring->record[k & ring->mask];
        struct recording_task *task;

        if (from->seq == 0 || from->seq > tasks)
            continue;
        task = &r->task[from->seq - 1];
        if (from->kind == TRACE_READY) {
            task->ready_ns = trace_slices_ns(r->slices, from->time);
            if (from->value != 0 && from->value < from->seq)
                task->ready_by = from->value - 1;
        } else if (from->kind == TRACE_DONE) {
            task->end_ns = trace_slices_ns(r->slices, from->time);
        } else if (from->kind == TRACE_DEFER) {
            task->flags |= PTO_RECORDING_DEFERRED;
        }
    }
}

/*
 * Sets when each submit returned. Keeps the recorded end only for deferred tasks: the end of any
 * other task is that of its last slice.
 */
static void recording_add_stamps(struct recording *r)
{
    const struct chip_record *record = &r->slices->snapshot->record;

    for (uint64_t i = 0; i < record->tasks; i++) {
        if (i < record->stamp_count && record->stamp[i] != 0)
            r->task[i].submit_ns = trace_slices_ns(r->slices, record->stamp[i]);
        if ((r->task[i].flags & PTO_RECORDING_DEFERRED) == 0)
            r->task[i].end_ns = PTO_RECORDING_NO_TIME;
    }
}

/*
 * Adds what the recorder stored together with each task's arguments: flags and the time of the
 * submit.
 */
static void recording_add_task(struct recording *r)
{
    static const struct {
        uint32_t task_flag, flag;
    } flags[] = { { CHIP_TASK_IS_MANUAL, PTO_RECORDING_MANUAL },
                  { CHIP_TASK_IS_GANG, PTO_RECORDING_GANG },
                  { CHIP_TASK_IS_LAUNCHED, PTO_RECORDING_LAUNCHED } };

    for (uint64_t i = 0; r->slices->task != NULL && i < r->slices->snapshot->record.tasks; i++) {
        const struct chip_task *recorded = r->slices->task[i];
        uint32_t lanes = 0;

        if (recorded == NULL)
            continue;
        for (size_t k = 0; k < sizeof(flags) / sizeof(flags[0]); k++)
            if ((recorded->flags & flags[k].task_flag) != 0)
                r->task[i].flags |= flags[k].flag;
        for (uint32_t lane = 0; lane < 3; lane++)
            lanes += recorded->kernel[lane] >= 0;
        if (lanes > 1)
            r->task[i].flags |= PTO_RECORDING_TEAM;
        if (recorded->end != 0)
            r->task[i].submit_ns = trace_slices_ns(r->slices, recorded->end);
        else if ((recorded->flags & CHIP_TASK_IS_LAUNCHED) != 0)
            /* all tasks of a launched graph were submitted before the run began */
            r->task[i].submit_ns = r->slices->snapshot->record.begin_ns;
    }
}

/*
 * Derives the outcome of each task from its slices. A task without slices is an allocation, unless
 * records were lost or the run failed.
 */
static void recording_add_slices(struct recording *r)
{
    static const uint32_t nothing[TRACE_NOTHINGS] = { [TRACE_DUMMY] = PTO_RECORDING_DUMMY,
                                                      [TRACE_SKIPPED] = PTO_RECORDING_SKIPPED,
                                                      [TRACE_STOPPED] = PTO_RECORDING_NEVER };
    const struct trace_slices *slices = r->slices;
    bool is_whole = slices->lost == 0 && slices->snapshot->status >= 0;
    uint64_t next = 0;

    for (uint64_t i = 0; i < slices->snapshot->record.tasks; i++) {
        struct recording_task *task = &r->task[i];

        if (is_whole && (next == slices->count || slices->slice[next].seq != i + 1))
            task->flags |= PTO_RECORDING_ALLOC;
        for (; next < slices->count && slices->slice[next].seq == i + 1; next++) {
            const struct trace_slice *s = &slices->slice[next];

            if (s->core == TRACE_CORE_NONE && s->nothing < TRACE_NOTHINGS)
                task->flags |= nothing[s->nothing];
            if (!s->has_end)
                task->flags |= PTO_RECORDING_CUT;
        }
    }
}

/* ---- keys of similar tasks ---- */

static struct recording_key key_of_record(const struct chip_task *recorded)
{
    struct recording_key key = { .hash = HASH_BASIS, .blocks = recorded->block_count };
    const struct chip_argument *a = trace_task_arguments(recorded);

    for (uint32_t lane = 0; lane < 3; lane++)
        key.kernel[lane] =
            recorded->kernel[lane] >= 0 ? (uint32_t)recorded->kernel[lane] : PTO_RECORDING_NONE;
    for (uint32_t i = 0; i < recorded->tensor_count; i++, a++) {
        /* hash tag, type and number of dimensions, which are three consecutive bytes */
        key.hash = hash_bytes(key.hash, &a->tag, 3);
        key.hash = hash_bytes(key.hash, a->shapes, a->ndims * sizeof(a->shapes[0]));
        key.hash = hash_bytes(key.hash, a->strides, a->ndims * sizeof(a->strides[0]));
    }
    key.hash = hash_bytes(key.hash, trace_task_scalars(recorded),
                          recorded->scalar_count * sizeof(uint64_t));
    return key;
}

/* Derives the key from the slices of a task, because its arguments were not recorded. */
static struct recording_key key_of_slices(const struct recording *r, uint32_t index)
{
    const struct trace_slices *slices = r->slices;
    const struct trace_slice *end = slices->slice + slices->count;
    struct recording_key key = { .hash = HASH_BASIS,
                                 .kernel = { PTO_RECORDING_NONE, PTO_RECORDING_NONE,
                                             PTO_RECORDING_NONE },
                                 .blocks = 1 };

    for (const struct trace_slice *s = trace_slices_find(slices, index);
         s != NULL && s < end && s->seq == index + 1; s++) {
        bool is_aic = s->core < slices->snapshot->record.aic_count;
        bool is_second = !is_aic && s > slices->slice && s[-1].seq == s->seq &&
                         s[-1].block == s->block &&
                         s[-1].core >= slices->snapshot->record.aic_count;

        if (s->block >= key.blocks)
            key.blocks = s->block + 1;
        if (s->kernel < slices->snapshot->kernel_count)
            key.kernel[is_aic ? 0 : is_second ? 2 : 1] = s->kernel;
    }
    return key;
}

/* Returns the index of the key, which is added if it is new. HASH_NONE: out of memory. */
static uint32_t enter_key(struct recording *r, struct hash_table *t, uint32_t *max,
                          struct recording_key key)
{
    uint32_t index;

    key.hash = hash_bytes(key.hash, key.kernel, sizeof(key.kernel));
    key.hash = hash_bytes(key.hash, &key.blocks, sizeof(key.blocks));
    if (r->key_count == *max) {
        struct recording_key *grown = realloc(r->key, (2 * (size_t)*max + 64) * sizeof(*grown));

        if (grown == NULL)
            return HASH_NONE;
        r->key = grown;
        *max = 2 * *max + 64;
    }
    index = hash_enter(t, key.hash, r->key_count);
    if (index == r->key_count)
        r->key[r->key_count++] = key;
    return index;
}

static int recording_find_keys(struct recording *r)
{
    struct hash_table table = { 0 };
    int status = PTO_OK;
    uint32_t max = 0;

    for (uint32_t i = 0; status >= 0 && i < r->slices->snapshot->record.tasks; i++) {
        const struct chip_task *recorded = r->slices->task != NULL ? r->slices->task[i] : NULL;

        r->task[i].key = enter_key(
            r, &table, &max, recorded != NULL ? key_of_record(recorded) : key_of_slices(r, i));
        if (r->task[i].key == HASH_NONE)
            status = PTO_ENOMEM;
    }
    hash_free(&table);
    return status;
}
