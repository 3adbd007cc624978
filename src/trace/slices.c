/* SPDX-License-Identifier: Apache-2.0 */
/* Builds executions (slices) from the trace records of a run. */
#include <stdlib.h>
#include <string.h>

#include "trace/snapshot.h"

static void slices_read_ring(struct trace_slices *t, uint32_t index);
static void read_ends(struct trace_slices *t, const struct trace_ring *ring);
static struct trace_slice *slices_read_record(struct trace_slices *t, const struct trace_record *r,
                                              uint64_t next_time, uint32_t position,
                                              uint32_t batch);
static int compare_slices(const void *a, const void *b);
static int find_tasks(struct trace_slices *t);

uint64_t trace_ring_first(const struct trace_ring *ring)
{
    return ring->count > ring->mask + 1ull ? ring->count - (ring->mask + 1ull) : 0;
}

int trace_slices_make(const struct trace_snapshot *snapshot, struct trace_slices *out)
{
    const struct chip_record *record = &snapshot->record;
    struct trace_slices s = { .snapshot = snapshot, .ns_per_cycle = 1.0 };
    uint64_t records = 0;

    for (uint32_t i = 0; i < record->ring_count; i++)
        records += record->ring[i]->count - trace_ring_first(record->ring[i]);
    s.slice = calloc(records + 1, sizeof(*s.slice));
    if (s.slice == NULL)
        return PTO_ENOMEM;
    if (find_tasks(&s) < 0) {
        trace_slices_free(&s);
        return PTO_ENOMEM;
    }
    for (uint32_t i = 0; i < record->ring_count; i++)
        slices_read_ring(&s, i);
    qsort(s.slice, s.count, sizeof(*s.slice), compare_slices);
    for (uint32_t i = 0; i < record->ring_count; i++)
        read_ends(&s, record->ring[i]);
    if (record->end_cycles > record->begin_cycles)
        s.ns_per_cycle = (double)(record->end_ns - record->begin_ns) /
                         (double)(record->end_cycles - record->begin_cycles);
    trace_slices_read_cpu(&s);
    *out = s;
    return PTO_OK;
}

void trace_slices_free(struct trace_slices *s)
{
    free(s->slice);
    free(s->task);
    free(s->element);
    free(s->touched);
}

struct pto_tensor trace_argument_tensor(const struct chip_argument *a)
{
    struct pto_tensor t = { .addr = a->addr,
                            .size = a->size,
                            .owner = a->owner,
                            .start = a->start,
                            .extent = a->extent,
                            .version = a->version,
                            .ndims = a->ndims,
                            .dtype = a->dtype,
                            .is_contiguous = (a->flags & CHIP_ARGUMENT_IS_CONTIGUOUS) != 0 };

    memcpy(t.shapes, a->shapes, sizeof(t.shapes));
    memcpy(t.strides, a->strides, sizeof(t.strides));
    return t;
}

static bool is_argument_sound(const struct chip_argument *a)
{
    if (a->ndims - 1u >= PTO_MAX_DIMS || a->dtype >= PTO_DTYPE_COUNT || a->tag >= PTO_TAG_COUNT)
        return false;
    for (uint32_t k = 0; k < a->ndims; k++)
        if (a->strides[k] == 0)
            return false;
    return true;
}

static bool are_tensors_sound(const struct chip_task *task)
{
    const struct chip_argument *a = trace_task_arguments(task);
    const struct chip_argument *operand = trace_task_operand(task);

    for (uint32_t i = 0; i < task->tensor_count; i++)
        if (!is_argument_sound(&a[i]))
            return false;
    return operand == NULL || is_argument_sound(operand);
}

static int slices_add_record(const struct chip_task ***list, uint64_t *count,
                             const struct chip_task *record)
{
    uint64_t n = *count;

    if ((n & (n + 1)) == 0) { /* the array grows when it has 0, 1, 3, 7, ... records */
        const struct chip_task **grown = realloc(*list, (2 * n + 1) * sizeof(*grown));

        if (grown == NULL)
            return PTO_ENOMEM;
        *list = grown;
    }
    (*list)[(*count)++] = record;
    return PTO_OK;
}

/*
 * Finds the records of tasks. Stops at the first one that is inconsistent, because the data may
 * come from another process.
 */
static int find_tasks(struct trace_slices *t)
{
    const struct chip_record *record = &t->snapshot->record;
    const char *recorded = record->task_records;

    if (record->task_bytes == 0 || record->tasks == 0)
        return PTO_OK;
    t->task = calloc(record->tasks, sizeof(t->task[0]));
    if (t->task == NULL)
        return PTO_ENOMEM;
    for (uint64_t at = 0; record->task_bytes - at >= sizeof(struct chip_task);) {
        const struct chip_task *task = (const void *)(recorded + at);
        uint64_t bytes =
            sizeof(*task) + task->file_bytes + task->tensor_count * sizeof(struct chip_argument) +
            task->scalar_count * sizeof(uint64_t) + task->dep_count * sizeof(struct chip_dep) +
            ((task->flags & CHIP_TASK_HAS_OPERAND) != 0 ? sizeof(struct chip_argument) : 0);

        bool is_element = (task->flags & (CHIP_TASK_IS_GET | CHIP_TASK_IS_SET)) != 0;

        if (bytes > record->task_bytes - at || task->index >= record->tasks + is_element ||
            (is_element && task->tensor_count != 1) || task->file_bytes % 8 != 0 ||
            (task->file_bytes != 0 && trace_task_file(task)[task->file_bytes - 1] != '\0') ||
            !are_tensors_sound(task))
            break;
        at += bytes;
        if (!is_element && (task->flags & CHIP_TASK_IS_TOUCHED) == 0)
            t->task[task->index] = task;
        else if (slices_add_record(is_element ? &t->element : &t->touched,
                                   is_element ? &t->element_count : &t->touched_count, task) < 0)
            return PTO_ENOMEM;
    }
    return PTO_OK;
}

const struct chip_task *trace_slices_task(const struct trace_slices *s,
                                          const struct trace_slice *slice)
{
    return s->task != NULL ? s->task[slice->seq - 1] : NULL;
}

double trace_slices_us(const struct trace_slices *s, uint64_t cycles)
{
    uint64_t begin = s->snapshot->record.begin_cycles;

    return cycles <= begin ? 0.0 : (double)(cycles - begin) * s->ns_per_cycle / 1000.0;
}

uint64_t trace_slices_ns(const struct trace_slices *s, uint64_t cycles)
{
    const struct chip_record *record = &s->snapshot->record;

    /*
     * begin and end of the run are exact, so a time outside of the run is set to the nearer of them
     */
    if (cycles >= record->end_cycles)
        return record->end_ns;
    return cycles <= record->begin_cycles
               ? record->begin_ns
               : record->begin_ns +
                     (uint64_t)((double)(cycles - record->begin_cycles) * s->ns_per_cycle);
}

uint64_t trace_slices_id(const struct trace_slices *s, uint32_t index)
{
    return s->task != NULL && s->task[index] != NULL ? s->task[index]->id.raw : index;
}

void trace_put_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            fprintf(out, "\\u%04x", (unsigned char)*text);
        else
            fputc(*text, out);
    }
    fputc('"', out);
}

void trace_put_numbers(FILE *out, const uint32_t *number, uint32_t count, const char *between)
{
    fputc('[', out);
    for (uint32_t i = 0; i < count; i++)
        fprintf(out, "%s%u", i != 0 ? between : "", number[i]);
    fputc(']', out);
}

const char *trace_slices_core(const struct trace_slices *s, uint32_t core, uint32_t *index_out)
{
    uint32_t aic_count = s->snapshot->record.aic_count;

    *index_out = core < aic_count ? core : core - aic_count;
    return core < aic_count ? "AIC" : "AIV";
}

const char *trace_slices_name(const struct trace_slices *s, const struct trace_slice *slice)
{
    if (slice->core == TRACE_CORE_NONE && slice->nothing == TRACE_DUMMY)
        return "dummy";
    return slice->kernel < s->snapshot->kernel_count ? s->snapshot->kernel_name[slice->kernel]
                                                     : "kernel";
}

static void slices_read_ring(struct trace_slices *t, uint32_t index)
{
    const struct trace_ring *ring = t->snapshot->record.ring[index];
    uint64_t first = trace_ring_first(ring);
    uint64_t run_first;

    t->lost += first;
    /* in each pass, handles consecutive records with one time stamp */
    for (uint64_t k = first; k < ring->count; k = run_first) {
        uint64_t time = ring->record[k & ring->mask].time;
        uint64_t next = t->snapshot->record.end_cycles;

        for (run_first = k; run_first < ring->count; run_first++) {
            next = ring->record[run_first & ring->mask].time;
            if (next != time)
                break;
        }
        if (run_first == ring->count)
            next = t->snapshot->record.end_cycles;
        for (uint64_t j = k; j < run_first; j++) {
            struct trace_slice *s =
                slices_read_record(t, &ring->record[j & ring->mask], next, (uint32_t)(j - k),
                                   (uint32_t)(run_first - k));

            if (s != NULL)
                s->ring = (uint8_t)index;
        }
    }
}

/*
 * Makes the execution whose begin is this record. `batch` consecutive records have one stamp and
 * share the time up to the next stamp equally; this record is number `position` of them. NULL: the
 * record begins no execution.
 */
static struct trace_slice *slices_read_record(struct trace_slices *t, const struct trace_record *r,
                                              uint64_t next_time, uint32_t position, uint32_t batch)
{
    uint64_t share = next_time > r->time ? (next_time - r->time) / batch : 0;
    struct trace_slice *s = &t->slice[t->count];

    if ((r->kind != TRACE_BEGIN && r->kind != TRACE_RUN) || r->seq == 0 ||
        r->seq > t->snapshot->record.tasks)
        return NULL;
    t->count++;
    *s = (struct trace_slice){
        .seq = r->seq, .block = r->block, .core = r->core, .kernel = r->value, .nothing = r->nothing
    };
    s->begin = r->time + (r->kind == TRACE_RUN ? position * share : 0);
    if (r->kind == TRACE_RUN) {
        s->end = r->core == TRACE_CORE_NONE ? s->begin : s->begin + share;
        s->has_end = true;
    } else if (r->end != 0) {
        s->end = r->end > s->begin ? r->end : s->begin;
        s->has_end = true;
    }
    return s;
}

/*
 * Sets the ends of executions. The record of an end may be in another thread's ring buffer than
 * that of the begin, because the worker may have migrated to another thread in between.
 */
static void read_ends(struct trace_slices *t, const struct trace_ring *ring)
{
    for (uint64_t k = trace_ring_first(ring); k < ring->count; k++) {
        const struct trace_record *r = &ring->record[k & ring->mask];
        struct trace_slice key = { .seq = r->seq, .block = r->block, .core = r->core };
        struct trace_slice *s;

        if (r->kind != TRACE_END)
            continue;
        s = bsearch(&key, t->slice, t->count, sizeof(key), compare_slices);
        if (s != NULL) {
            s->end = r->time;
            /* the recorded begin may be an estimate that is later than the end */
            s->begin = s->begin < s->end ? s->begin : s->end;
            s->has_end = true;
        }
    }
}

static int compare_slices(const void *a, const void *b)
{
    const struct trace_slice *x = a, *y = b;

    if (x->seq != y->seq)
        return x->seq < y->seq ? -1 : 1;
    if (x->block != y->block)
        return x->block < y->block ? -1 : 1;
    return x->core < y->core ? -1 : x->core > y->core;
}

const struct trace_slice *trace_slices_find(const struct trace_slices *t, uint32_t index)
{
    uint64_t low = 0, high = t->count;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (t->slice[middle].seq < index + 1)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->count && t->slice[low].seq == index + 1 ? &t->slice[low] : NULL;
}
