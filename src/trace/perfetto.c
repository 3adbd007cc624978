/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the timeline of a recorded run in the trace event format that ui.perfetto.dev and
 * chrome://tracing read.
 *
 * Track: one for each core that ran a kernel; one each for dummies, for tasks skipped by their
 * predicate, and for tasks that never ran. Slice: one execution, named after its kernel. Flow: one
 * edge that the engine created, from the start of the predecessor's first slice to that of the
 * successor's.
 */
#include <inttypes.h>

#include "trace/snapshot.h"

struct perfetto {
    const struct trace_slices *slices;
    const struct chip_record *record;
    FILE *out;
    bool has_event; /* a comma must precede the next event */
    /* track numbers and times of this timeline in a document of several */
    struct trace_place place;
};

static void write_document(struct perfetto *t);
static uint64_t write_events(struct perfetto *t);
static void write_depths(struct perfetto *t);
static void perfetto_write_task(struct perfetto *t, const struct chip_task *task);

int trace_write_perfetto(const struct trace_slices *slices, FILE *out)
{
    const struct chip_record *record = &slices->snapshot->record;
    struct perfetto t = { .slices = slices, .record = record, .out = out, .place.pid = 1 };

    write_document(&t);
    return PTO_OK;
}

void trace_put_perfetto(const struct trace_slices *slices, const struct trace_place *place,
                        FILE *out)
{
    struct perfetto t = { .slices = slices,
                          .record = &slices->snapshot->record,
                          .out = out,
                          .has_event = true,
                          .place = *place };

    (void)write_events(&t);
}

static double perfetto_micros(const struct perfetto *t, uint64_t cycles)
{
    if (t->place.base_ns == 0)
        return trace_slices_us(t->slices, cycles);
    return (double)(int64_t)(trace_slices_ns(t->slices, cycles) - t->place.base_ns) / 1000;
}

static uint32_t track(const struct trace_slice *s)
{
    return s->core == TRACE_CORE_NONE ? 1u + s->nothing : s->core + 1 + TRACE_NOTHINGS;
}

/* Writes the process and track fields of an event. */
static void put_track(const struct perfetto *t, uint32_t track_of)
{
    fprintf(t->out, ",\"pid\":%u,\"tid\":%u", t->place.pid, t->place.track + track_of);
}

static void begin_event(struct perfetto *t)
{
    fputs(t->has_event ? ",\n" : "\n", t->out);
    t->has_event = true;
}

static void name_tracks(struct perfetto *t)
{
    static const char *const nothing[TRACE_NOTHINGS] = {
        [TRACE_DUMMY] = "dummies", [TRACE_SKIPPED] = "skipped", [TRACE_STOPPED] = "never ran"
    };
    bool is_used[PTO_CORES_MAX + 1 + TRACE_NOTHINGS] = { false };

    /* in a document with several timelines, the caller writes the names of processes */
    if (t->place.base_ns == 0) {
        begin_event(t);
        fputs("{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":", t->out);
        trace_put_string(t->out, t->slices->snapshot->platform);
        fputs("}}", t->out);
    }
    for (uint64_t i = 0; i < t->slices->count; i++)
        is_used[track(&t->slices->slice[i])] = true;
    for (uint32_t k = 1; k < PTO_CORES_MAX + 1 + TRACE_NOTHINGS; k++) {
        const char *type;
        uint32_t index;

        if (!is_used[k])
            continue;
        begin_event(t);
        fputs("{\"ph\":\"M\"", t->out);
        put_track(t, k);
        fputs(",\"name\":\"thread_name\",\"args\":{", t->out);
        if (k <= TRACE_NOTHINGS) {
            fprintf(t->out, "\"name\":\"%s\"}}", nothing[k - 1]);
            continue;
        }
        type = trace_slices_core(t->slices, k - 1 - TRACE_NOTHINGS, &index);
        fprintf(t->out, "\"name\":\"%s %u\"}}", type, index);
    }
}

static void write_slice(struct perfetto *t, const struct trace_slice *s)
{
    static const char *const notes[TRACE_NOTHINGS] = {
        [TRACE_DUMMY] = "",
        [TRACE_SKIPPED] = ",\"note\":\"its predicate did not hold\"",
        [TRACE_STOPPED] = ",\"note\":\"the run had ended\"",
    };
    uint64_t end = s->has_end ? s->end : t->record->end_cycles;

    begin_event(t);
    fputs("{\"ph\":\"X\",\"cat\":\"task\",\"name\":", t->out);
    trace_put_string(t->out, trace_slices_name(t->slices, s));
    put_track(t, track(s));
    fprintf(t->out,
            ",\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"task\":%u,"
            "\"block\":%u%s",
            perfetto_micros(t, s->begin), perfetto_micros(t, end) - perfetto_micros(t, s->begin),
            s->seq - 1, s->block,
            !s->has_end                  ? ",\"note\":\"had not returned\""
            : s->core == TRACE_CORE_NONE ? notes[s->nothing]
                                         : "");
    if (trace_slices_task(t->slices, s) != NULL)
        perfetto_write_task(t, trace_slices_task(t->slices, s));
    fputs("}}", t->out);
}

/* Writes where the task was submitted, and its arguments, for example "in float32[16,16]". */
static void perfetto_write_task(struct perfetto *t, const struct chip_task *task)
{
    const char *file = trace_task_file(task);
    const struct chip_argument *arg = trace_task_arguments(task);
    const uint64_t *scalar = trace_task_scalars(task);

    if (task->file_bytes != 0) {
        fputs(",\"file\":", t->out);
        trace_put_string(t->out, file);
        fprintf(t->out, ",\"line\":%u", task->line);
    }
    fputs(",\"arguments\":[", t->out);
    for (uint32_t i = 0; i < task->tensor_count; i++, arg++) {
        fprintf(t->out, "%s\"%s %s", i != 0 ? "," : "", pto_tag_name(arg->tag),
                pto_dtype_text(arg->dtype));
        trace_put_numbers(t->out, arg->shapes, arg->ndims, ",");
        fputs("\"", t->out);
    }
    fputs("],\"scalars\":[", t->out);
    for (uint32_t i = 0; i < task->scalar_count; i++)
        fprintf(t->out, "%s\"%#" PRIx64 "\"", i != 0 ? "," : "", scalar[i]);
    fputs("]", t->out);
}

/*
 * Writes the number of tasks by outcome. Tasks without a slice are allocations, or were not
 * reached.
 */
static void perfetto_write_counts(struct perfetto *t)
{
    uint64_t nothing[TRACE_NOTHINGS] = { 0 }, recorded = 0;

    for (uint64_t i = 0; i < t->slices->count; i++) {
        const struct trace_slice *s = &t->slices->slice[i];

        recorded += i == 0 || s->seq != s[-1].seq;
        if (s->core == TRACE_CORE_NONE)
            nothing[s->nothing]++;
    }
    fprintf(t->out,
            ",\"dummies\":%" PRIu64 ",\"skipped\":%" PRIu64 ",\"never_ran\":%" PRIu64
            ",\"tasks_without_slices\":%" PRIu64,
            nothing[TRACE_DUMMY], nothing[TRACE_SKIPPED], nothing[TRACE_STOPPED],
            t->record->tasks - recorded);
}

/* Writes one end of a flow: phase "s" is its start, "f" its end. */
static void write_flow(struct perfetto *t, const char *phase, uint64_t id,
                       const struct trace_slice *at)
{
    begin_event(t);
    fprintf(t->out, "{\"ph\":%s,\"cat\":\"edge\",\"name\":\"edge\",\"id\":%" PRIu64, phase,
            t->place.flow + id);
    put_track(t, track(at));
    fprintf(t->out, ",\"ts\":%.3f}", perfetto_micros(t, at->begin));
}

/*
 * Writes all events. Returns the number of edges that were omitted because one of their tasks has
 * no slice.
 */
static uint64_t write_events(struct perfetto *t)
{
    const struct chip_record *record = t->record;
    uint64_t missing = 0;

    name_tracks(t);
    for (uint64_t i = 0; i < t->slices->count; i++)
        write_slice(t, &t->slices->slice[i]);
    for (uint64_t i = 0; i < record->edge_count; i++) {
        const struct trace_slice *a = trace_slices_find(t->slices, record->edge[i].before);
        const struct trace_slice *b = trace_slices_find(t->slices, record->edge[i].after);

        /* no slice: its record was overwritten, or the task never ran */
        if (a == NULL || b == NULL) {
            missing++;
            continue;
        }
        write_flow(t, "\"s\"", i, a);
        write_flow(t, "\"f\",\"bp\":\"e\"", i, b);
    }
    write_depths(t);
    return missing;
}

static void write_document(struct perfetto *t)
{
    const struct chip_record *record = t->record;
    uint64_t missing;

    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", t->out);
    missing = write_events(t);
    fprintf(t->out,
            "\n],\"otherData\":{\"tasks\":%" PRIu64 ",\"edges\":%" PRIu64
            ",\"edges_are\":\"to tasks that had not ended when the later one was submitted\""
            ",\"times\":\"%s\",\"status\":%d,\"lost_records\":%" PRIu64
            ",\"edges_without_slices\":%" PRIu64,
            record->tasks, record->edge_count + record->edges_lost,
            t->slices->snapshot->mode >= PTO_TRACE_TIMES
                ? "measured for each task"
                : "each batch's time, divided equally among its tasks",
            t->slices->snapshot->status, t->slices->lost, missing + record->edges_lost);
    perfetto_write_counts(t);
    fputs("}}\n", t->out);
}

static void write_depths(struct perfetto *t)
{
    const struct trace_ring *ring = t->record->ring_count != 0 ? t->record->ring[0] : NULL;

    for (uint64_t k = ring != NULL ? trace_ring_first(ring) : 0; ring != NULL && k < ring->count;
         k++) {
        const struct trace_record *r = &ring->record[k & ring->mask];

        if (r->kind != TRACE_DEPTH)
            continue;
        begin_event(t);
        fprintf(t->out,
                "{\"ph\":\"C\",\"pid\":%u,\"name\":\"tasks\",\"ts\":%.3f,\"args\":{\"live\":%u,"
                "\"ready\":%u}}",
                t->place.pid, perfetto_micros(t, r->time), r->seq, r->value);
    }
}
