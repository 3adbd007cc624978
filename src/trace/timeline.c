/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timeline of the last recorded run, in the trace event format that
 * ui.perfetto.dev and chrome://tracing read.
 *
 *     track   one for each core that ran something; dummies have one of their own
 *     slice   one execution, named after its kernel
 *     flow    one edge that was wired, from the end of a slice to the begin of another
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sized.h"
#include "host/host.h"

/* One execution, put together from its records. */
struct slice {
    uint32_t seq; /* of the task, from 1 */
    uint32_t block;
    uint32_t core;
    uint32_t kernel;
    uint64_t begin; /* cycles */
    uint64_t end;
    bool has_end;
};

struct timeline {
    const struct device *device;
    const struct trace_store *store;
    struct slice *slice; /* by task, block and core */
    uint64_t slice_count;
    uint64_t lost; /* records that gave way to later ones */
    double ns_per_cycle;
    FILE *out;
    bool has_event; /* a comma is needed */
};

static int read_rings(struct timeline *t);
static void read_ring(struct timeline *t, const struct trace_ring *ring);
static void read_ends(struct timeline *t, const struct trace_ring *ring);
static void read_record(struct timeline *t, const struct trace_record *r, uint64_t next_time,
                        uint32_t position, uint32_t batch);
static int compare_slices(const void *a, const void *b);
static void write_events(struct timeline *t);
static void write_depths(struct timeline *t);
static void write_string(FILE *out, const char *text);

int pto_trace_write(struct pto_device *handle, const char *path, struct pto_error *error)
{
    int status;
    struct device *device = device_get(handle, &status);
    struct timeline t = { .device = device };
    struct stat about;
    char *temporary;
    bool is_plain;
    bool is_written;

    if (!sized_is_valid(error))
        return PTO_EINVAL;
    if (device == NULL || path == NULL)
        return error_tell(error, device == NULL ? status : PTO_EINVAL,
                          "no such device, or no path");
    pthread_mutex_lock(&device->lock);
    if (device->is_running || device->trace.mode == PTO_TRACE_OFF) {
        status = device->is_running ? PTO_EBUSY : PTO_EINVAL;
        pthread_mutex_unlock(&device->lock);
        return error_tell(error, status, "%s",
                          status == PTO_EBUSY ? "a run is going on; write the timeline after it"
                                              : "no run was recorded; set `trace` of its options");
    }
    t.store = &device->trace;
    temporary = malloc(strlen(path) + 8);
    if (temporary == NULL || read_rings(&t) < 0) {
        status = PTO_ENOMEM;
        goto unlock;
    }
    is_plain = stat(path, &about) != 0 || S_ISREG(about.st_mode);
    sprintf(temporary, is_plain ? "%s.part" : "%s", path); /* a device or a pipe is written to */
    t.out = fopen(temporary, "w");
    if (t.out == NULL) {
        status = error_tell(error, PTO_ESYSTEM, "%s: %s", temporary, strerror(errno));
        goto unlock;
    }
    write_events(&t);
    is_written = ferror(t.out) == 0;
    is_written = fclose(t.out) == 0 && is_written;
    if (!is_written || (is_plain && rename(temporary, path) != 0)) {
        status = error_tell(error, PTO_ESYSTEM, "%s: %s", path, strerror(errno));
        if (is_plain)
            unlink(temporary);
    }

unlock:
    free(t.slice);
    free(temporary);
    pthread_mutex_unlock(&device->lock);
    if (status == PTO_ENOMEM)
        return error_tell(error, status, "no memory for the timeline of %" PRIu64 " tasks",
                          device->trace.tasks);
    return status;
}

/* ---- from records to slices ---- */

static uint64_t first_kept(const struct trace_ring *ring)
{
    return ring->count > ring->mask + 1ull ? ring->count - (ring->mask + 1ull) : 0;
}

/* Ring i: the workers', then the one of invocations without a worker. NULL past the end. */
static const struct trace_ring *ring_at(const struct timeline *t, uint32_t i)
{
    const struct chip *chip = t->device->chip;

    if (i < chip->sched->worker_count)
        return chip->sched->worker[i]->trace;
    return i == chip->sched->worker_count ? chip->trace : NULL;
}

static int read_rings(struct timeline *t)
{
    const struct trace_store *store = t->store;
    uint64_t records = 0;

    for (uint32_t i = 0; ring_at(t, i) != NULL; i++)
        records += ring_at(t, i)->count - first_kept(ring_at(t, i));
    t->slice = calloc(records + 1, sizeof(*t->slice));
    if (t->slice == NULL)
        return PTO_ENOMEM;
    t->ns_per_cycle = store->end_cycles > store->begin_cycles
                          ? (double)(store->end_ns - store->begin_ns) /
                                (double)(store->end_cycles - store->begin_cycles)
                          : 1.0;
    for (uint32_t i = 0; ring_at(t, i) != NULL; i++)
        read_ring(t, ring_at(t, i));
    qsort(t->slice, t->slice_count, sizeof(*t->slice), compare_slices);
    for (uint32_t i = 0; ring_at(t, i) != NULL; i++)
        read_ends(t, ring_at(t, i));
    return PTO_OK;
}

static void read_ring(struct timeline *t, const struct trace_ring *ring)
{
    uint64_t first = first_kept(ring);
    uint64_t run_first;

    t->lost += first;
    for (uint64_t k = first; k < ring->count; k = run_first) { /* records with one stamp */
        uint64_t time = ring->record[k & ring->mask].time;
        uint64_t next = t->store->end_cycles;

        for (run_first = k; run_first < ring->count; run_first++) {
            next = ring->record[run_first & ring->mask].time;
            if (next != time)
                break;
        }
        if (run_first == ring->count)
            next = t->store->end_cycles;
        for (uint64_t j = k; j < run_first; j++)
            read_record(t, &ring->record[j & ring->mask], next, (uint32_t)(j - k),
                        (uint32_t)(run_first - k));
    }
}

/* `position` of `batch` records that share a stamp: they get equal shares of the time up to the next one. */
static void read_record(struct timeline *t, const struct trace_record *r, uint64_t next_time,
                        uint32_t position, uint32_t batch)
{
    uint64_t share = next_time > r->time ? (next_time - r->time) / batch : 0;
    struct slice *s = &t->slice[t->slice_count];

    if ((r->kind != TRACE_BEGIN && r->kind != TRACE_RUN) || r->seq == 0 || r->seq > t->store->tasks)
        return;
    t->slice_count++;
    *s = (struct slice){ .seq = r->seq, .block = r->block, .core = r->core, .kernel = r->value };
    s->begin = r->time + (r->kind == TRACE_RUN ? position * share : 0);
    if (r->kind == TRACE_RUN) {
        s->end = r->core == TRACE_CORE_NONE ? s->begin : s->begin + share;
        s->has_end = true;
    }
}

/* An end may be in another ring than its begin: a thread may have lost its place between. */
static void read_ends(struct timeline *t, const struct trace_ring *ring)
{
    for (uint64_t k = first_kept(ring); k < ring->count; k++) {
        const struct trace_record *r = &ring->record[k & ring->mask];
        struct slice key = { .seq = r->seq, .block = r->block, .core = r->core };
        struct slice *s;

        if (r->kind != TRACE_END)
            continue;
        s = bsearch(&key, t->slice, t->slice_count, sizeof(key), compare_slices);
        if (s != NULL) {
            s->end = r->time;
            s->begin = s->begin < s->end ? s->begin : s->end; /* it may be an estimate */
            s->has_end = true;
        }
    }
}

static int compare_slices(const void *a, const void *b)
{
    const struct slice *x = a, *y = b;

    if (x->seq != y->seq)
        return x->seq < y->seq ? -1 : 1;
    if (x->block != y->block)
        return x->block < y->block ? -1 : 1;
    return x->core < y->core ? -1 : x->core > y->core;
}

/* The first execution of a task by submission index; NULL: none was recorded. */
static const struct slice *find_slice(const struct timeline *t, uint32_t index)
{
    uint64_t low = 0, high = t->slice_count;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (t->slice[middle].seq < index + 1)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->slice_count && t->slice[low].seq == index + 1 ? &t->slice[low] : NULL;
}

/* ---- from slices to events ---- */

static double micros(const struct timeline *t, uint64_t cycles)
{
    return cycles <= t->store->begin_cycles
               ? 0.0
               : (double)(cycles - t->store->begin_cycles) * t->ns_per_cycle / 1000.0;
}

static uint32_t track(const struct slice *s)
{
    return s->core == TRACE_CORE_NONE ? 1 : s->core + 2;
}

static void begin_event(struct timeline *t)
{
    fputs(t->has_event ? ",\n" : "\n", t->out);
    t->has_event = true;
}

static void name_tracks(struct timeline *t)
{
    uint32_t aic_count = t->device->chip->sched->aic_count;
    bool is_used[PTO_CORES_MAX + 2] = { false };

    begin_event(t);
    fprintf(t->out, "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":");
    write_string(t->out, t->device->row->platform.name);
    fputs("}}", t->out);
    for (uint64_t i = 0; i < t->slice_count; i++)
        is_used[track(&t->slice[i])] = true;
    for (uint32_t k = 1; k < PTO_CORES_MAX + 2; k++) {
        if (!is_used[k])
            continue;
        begin_event(t);
        fprintf(t->out, "{\"ph\":\"M\",\"pid\":1,\"tid\":%u,\"name\":\"thread_name\",\"args\":{",
                k);
        if (k == 1)
            fputs("\"name\":\"dummies\"}}", t->out);
        else if (k - 2 < aic_count)
            fprintf(t->out, "\"name\":\"AIC %u\"}}", k - 2);
        else
            fprintf(t->out, "\"name\":\"AIV %u\"}}", k - 2 - aic_count);
    }
}

static void write_slice(struct timeline *t, const struct slice *s)
{
    uint64_t end = s->has_end ? s->end : t->store->end_cycles;
    const char *name = s->core == TRACE_CORE_NONE           ? "dummy"
                       : s->kernel < t->store->kernel_count ? t->store->kernel_name[s->kernel]
                                                            : "kernel";

    begin_event(t);
    fputs("{\"ph\":\"X\",\"cat\":\"task\",\"name\":", t->out);
    write_string(t->out, name);
    fprintf(t->out,
            ",\"pid\":1,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"task\":%u,"
            "\"block\":%u%s}}",
            track(s), micros(t, s->begin), micros(t, end) - micros(t, s->begin), s->seq - 1,
            s->block, s->has_end ? "" : ",\"note\":\"had not returned\"");
}

static void write_events(struct timeline *t)
{
    const struct trace_store *store = t->store;
    uint64_t missing = 0;

    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", t->out);
    name_tracks(t);
    for (uint64_t i = 0; i < t->slice_count; i++)
        write_slice(t, &t->slice[i]);
    for (uint64_t i = 0; i < store->edge_count; i++) {
        const struct slice *a = find_slice(t, store->edge[i].before);
        const struct slice *b = find_slice(t, store->edge[i].after);

        if (a == NULL || b == NULL) { /* lost, or never run */
            missing++;
            continue;
        }
        begin_event(t);
        fprintf(t->out,
                "{\"ph\":\"s\",\"cat\":\"edge\",\"name\":\"edge\",\"id\":%" PRIu64
                ",\"pid\":1,\"tid\":%u,\"ts\":%.3f},\n",
                i, track(a), micros(t, a->begin));
        fprintf(t->out,
                "{\"ph\":\"f\",\"bp\":\"e\",\"cat\":\"edge\",\"name\":\"edge\",\"id\":%" PRIu64
                ",\"pid\":1,\"tid\":%u,\"ts\":%.3f}",
                i, track(b), micros(t, b->begin));
    }
    write_depths(t);
    fprintf(t->out,
            "\n],\"otherData\":{\"tasks\":%" PRIu64 ",\"edges\":%" PRIu64
            ",\"times\":\"%s\",\"status\":%d,\"lost_records\":%" PRIu64
            ",\"edges_without_slices\":%" PRIu64 "}}\n",
            store->tasks, store->edge_count + store->edges_lost,
            store->mode == PTO_TRACE_TIMES ? "of each task" : "of batches, shared out",
            store->status, t->lost, missing + store->edges_lost);
}

static void write_depths(struct timeline *t)
{
    const struct trace_ring *ring = t->device->chip->submitter->trace;
    uint64_t first;

    if (ring == NULL)
        return;
    first = first_kept(ring);
    for (uint64_t k = first; k < ring->count; k++) {
        const struct trace_record *r = &ring->record[k & ring->mask];

        if (r->kind != TRACE_DEPTH)
            continue;
        begin_event(t);
        fprintf(t->out,
                "{\"ph\":\"C\",\"pid\":1,\"name\":\"tasks\",\"ts\":%.3f,\"args\":{\"live\":%u,"
                "\"ready\":%u}}",
                micros(t, r->time), r->seq, r->value);
    }
}

static void write_string(FILE *out, const char *text)
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
