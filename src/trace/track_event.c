/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the timeline as a binary trace of Perfetto (`.pftrace`): messages Trace, TracePacket and
 * TrackEvent, encoded here by their field numbers. Each lane is a packet sequence with an
 * incremental clock, with names that are written once, and with its track as the default.
 */
#include <string.h>

#include "trace/recording_bytes.h"
#include "trace/recording_data.h"

/* Field numbers of Perfetto's messages. */
enum {
    TRACE_PACKET = 1,
    PACKET_CLOCK_SNAPSHOT = 6,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_EVENT = 11,
    PACKET_INTERNED = 12,
    PACKET_FLAGS = 13,
    PACKET_CLOCK = 58,
    PACKET_DEFAULTS = 59,
    PACKET_TRACK = 60,
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_ID = 10,
    EVENT_TRACK = 11,
    EVENT_NAME = 23,
    EVENT_COUNTER = 30,
    EVENT_FLOW = 47,
    EVENT_FLOW_END = 48,
    TRACK_ID = 1,
    TRACK_NAME = 2,
    TRACK_PARENT = 5,
    TRACK_COUNTER = 8,
    INTERNED_NAME = 2,
    INTERNED_ANNOTATION = 3,
    NAME_ID = 1,
    NAME_TEXT = 2,
    ANNOTATION_NAME_ID = 1,
    ANNOTATION_NUMBER = 3,
    SNAPSHOT_CLOCK = 1,
    CLOCK_ID = 1,
    CLOCK_TIME = 2,
    CLOCK_IS_INCREMENTAL = 3
};

/* types of events, and the type of the counter field of a track */
enum { EVENT_BEGIN = 1, EVENT_END, EVENT_INSTANT, EVENT_IS_COUNTER };
enum { FLAG_CLEARED = 1, FLAG_NEEDS_STATE = 2 };
enum { CLOCK_BOOT = 6, CLOCK_LANE = 64 }; /* clock of the whole trace, and clock of one sequence */
enum { UUID_PROCESS = 1, UUID_LIVE, UUID_READY, UUID_LANES };
/* Ids of annotation names, which are written once. */
enum { ANNOTATION_TASK = 1, ANNOTATION_BLOCK };

struct track_events {
    const struct recording *r;
    const struct trace_slices *slices;
    const struct trace_snapshot *snapshot;
    FILE *out;
    const struct trace_slice **slice; /* sorted by lane, then begin */
    /* indexed by task: position in out_flow of the first flow that begins at the task */
    uint64_t *out_from;
    uint64_t *out_flow;
    uint64_t *in_from; /* indexed by task: its first incoming edge */
    /* indexed by task: its executions were recorded, and later records did not overwrite them */
    bool *has_slice;
    struct recording_bytes packet;
    struct recording_bytes event;
    struct recording_bytes inner;
    uint32_t sequence;
    uint64_t time_ns; /* timestamp of the sequence's latest packet */
    bool has_failed;
};

/* ---- messages ---- */

static void track_put_tag(struct recording_bytes *b, uint32_t field, uint32_t wire)
{
    bytes_put_number(b, field << 3 | wire);
}

static void track_put_number(struct recording_bytes *b, uint32_t field, uint64_t number)
{
    track_put_tag(b, field, 0);
    bytes_put_number(b, number);
}

static void track_put_fixed(struct recording_bytes *b, uint32_t field, uint64_t number)
{
    track_put_tag(b, field, 1);
    bytes_put(b, &number, sizeof(number));
}

static void track_put_text(struct recording_bytes *b, uint32_t field, const char *text)
{
    track_put_tag(b, field, 2);
    bytes_put_number(b, strlen(text));
    bytes_put(b, text, strlen(text));
}

/* Appends a message as a field of another message, and empties it. */
static void track_put_message(struct recording_bytes *b, uint32_t field,
                              struct recording_bytes *message)
{
    track_put_tag(b, field, 2);
    bytes_put_number(b, message->used);
    bytes_put(b, message->at, message->used);
    b->has_failed = b->has_failed || message->has_failed;
    message->used = 0;
}

/* Writes the packet to the file. */
static void track_end_packet(struct track_events *t, uint32_t flags)
{
    uint8_t head[11] = { TRACE_PACKET << 3 | 2 };
    uint64_t left;
    size_t count = 1;

    track_put_number(&t->packet, PACKET_SEQUENCE, t->sequence);
    track_put_number(&t->packet, PACKET_FLAGS, flags);
    for (left = t->packet.used; left >= 0x80; left >>= 7)
        head[count++] = (uint8_t)(left | 0x80);
    head[count++] = (uint8_t)left;
    fwrite(head, 1, count, t->out);
    fwrite(t->packet.at, 1, t->packet.used, t->out);
    t->has_failed = t->has_failed || t->packet.has_failed || t->event.has_failed;
    t->packet.used = 0;
}

/* Ends an event at `ns`, or at the latest timestamp of its sequence if that is later. */
static void track_end_event(struct track_events *t, uint64_t ns)
{
    uint64_t step = ns > t->time_ns ? ns - t->time_ns : 0;

    t->time_ns += step;
    track_put_number(&t->packet, PACKET_TIMESTAMP, step);
    track_put_message(&t->packet, PACKET_EVENT, &t->event);
    track_end_packet(t, FLAG_NEEDS_STATE);
}

static void track_write_track(struct track_events *t, uint64_t id, const char *name,
                              bool is_counter)
{
    track_put_number(&t->event, TRACK_ID, id);
    track_put_text(&t->event, TRACK_NAME, name);
    if (id != UUID_PROCESS)
        track_put_number(&t->event, TRACK_PARENT, UUID_PROCESS);
    if (is_counter)
        track_put_message(&t->event, TRACK_COUNTER, &t->inner);
    track_put_message(&t->packet, PACKET_TRACK, &t->event);
    /* every packet of a sequence with defaults needs this flag */
    track_end_packet(t, FLAG_NEEDS_STATE);
}

static void track_put_clock(struct track_events *t, uint32_t id, bool is_incremental)
{
    track_put_number(&t->inner, CLOCK_ID, id);
    track_put_number(&t->inner, CLOCK_TIME, t->snapshot->record.begin_ns);
    if (is_incremental)
        track_put_number(&t->inner, CLOCK_IS_INCREMENTAL, 1);
    track_put_message(&t->event, SNAPSHOT_CLOCK, &t->inner);
}

/* Begins a packet sequence whose events are on one track; its clock starts with the run. */
static void track_begin_sequence(struct track_events *t, uint64_t track)
{
    t->sequence++;
    t->time_ns = t->snapshot->record.begin_ns;
    track_put_clock(t, CLOCK_LANE, true);
    track_put_clock(t, CLOCK_BOOT, false);
    track_put_message(&t->packet, PACKET_CLOCK_SNAPSHOT, &t->event);
    track_put_number(&t->inner, EVENT_TRACK, track);
    track_put_message(&t->event, PACKET_EVENT, &t->inner);
    track_put_number(&t->event, PACKET_CLOCK, CLOCK_LANE);
    track_put_message(&t->packet, PACKET_DEFAULTS, &t->event);
    track_end_packet(t, FLAG_CLEARED);
}

static void track_put_name(struct track_events *t, uint32_t field, uint64_t id, const char *text)
{
    track_put_number(&t->inner, NAME_ID, id);
    track_put_text(&t->inner, NAME_TEXT, text);
    track_put_message(&t->event, field, &t->inner);
}

/* ---- lanes ---- */

static uint32_t track_lane_of(const struct track_events *t, const struct trace_slice *s)
{
    return s->core < t->snapshot->record.core_count ? s->core
                                                    : t->snapshot->record.core_count + s->nothing;
}

/* Returns the id of the interned name: kernels from 1 on, then "dummy", then "kernel". */
static uint32_t track_name_of(const struct track_events *t, const struct trace_slice *s)
{
    return s->core == TRACE_CORE_NONE && s->nothing == TRACE_DUMMY ? t->snapshot->kernel_count + 1
           : s->kernel < t->snapshot->kernel_count                 ? s->kernel + 1
                                                                   : t->snapshot->kernel_count + 2;
}

static void track_write_names(struct track_events *t)
{
    for (uint32_t i = 0; i < t->snapshot->kernel_count; i++)
        track_put_name(t, INTERNED_NAME, i + 1, t->snapshot->kernel_name[i]);
    track_put_name(t, INTERNED_NAME, t->snapshot->kernel_count + 1, "dummy");
    track_put_name(t, INTERNED_NAME, t->snapshot->kernel_count + 2, "kernel");
    track_put_name(t, INTERNED_ANNOTATION, ANNOTATION_TASK, "task");
    track_put_name(t, INTERNED_ANNOTATION, ANNOTATION_BLOCK, "block");
    track_put_message(&t->packet, PACKET_INTERNED, &t->event);
    track_end_packet(t, FLAG_NEEDS_STATE);
}

static void track_put_annotation(struct track_events *t, uint32_t name, uint64_t number)
{
    track_put_number(&t->inner, ANNOTATION_NAME_ID, name);
    track_put_number(&t->inner, ANNOTATION_NUMBER, number);
    track_put_message(&t->event, EVENT_ANNOTATION, &t->inner);
}

/*
 * Whether a flow is written for the edge: the edge is the first one between its two tasks, and both
 * tasks have slices.
 */
static bool track_has_flow(const struct track_events *t, uint64_t index)
{
    const struct recording_edge *e = &t->r->edge[index];

    return (index == 0 || e[-1].from != e->from || e[-1].to != e->to) && t->has_slice[e->from] &&
           t->has_slice[e->to];
}

/*
 * Writes the task's flows, each from the first slice of one task to that of another; a flow's id is
 * the index of the first edge of the two + 1.
 */
static void track_put_flows(struct track_events *t, uint32_t task)
{
    const struct recording *r = t->r;

    for (uint64_t i = t->out_from[task]; i < t->out_from[task + 1]; i++)
        track_put_fixed(&t->event, EVENT_FLOW, t->out_flow[i] + 1);
    for (uint64_t i = t->in_from[task]; i < r->edge_count && r->edge[i].to == task; i++)
        if (track_has_flow(t, i))
            track_put_fixed(&t->event, EVENT_FLOW_END, i + 1);
}

static void track_write_slice(struct track_events *t, const struct trace_slice *s)
{
    bool is_first = s == t->slices->slice || s[-1].seq != s->seq;
    uint64_t end = s->has_end ? s->end : t->snapshot->record.end_cycles;

    track_put_number(&t->event, EVENT_TYPE, EVENT_BEGIN);
    track_put_number(&t->event, EVENT_NAME_ID, track_name_of(t, s));
    track_put_annotation(t, ANNOTATION_TASK, s->seq - 1);
    if (s->block != 0)
        track_put_annotation(t, ANNOTATION_BLOCK, s->block);
    if (is_first)
        track_put_flows(t, s->seq - 1);
    track_end_event(t, trace_slices_ns(t->slices, s->begin));
    track_put_number(&t->event, EVENT_TYPE, EVENT_END);
    track_end_event(t, trace_slices_ns(t->slices, end));
}

static void track_name_lane(const struct track_events *t, uint32_t lane, char name[32])
{
    static const char *const nothing[TRACE_NOTHINGS] = {
        [TRACE_DUMMY] = "dummies", [TRACE_SKIPPED] = "skipped", [TRACE_STOPPED] = "never ran"
    };
    const struct chip_record *record = &t->snapshot->record;
    const char *type;
    uint32_t index;

    if (lane >= record->core_count) {
        snprintf(name, 32, "%s", nothing[lane - record->core_count]);
        return;
    }
    type = trace_slices_core(t->slices, lane, &index);
    snprintf(name, 32, "%s %u", type, index);
}

static void track_write_lanes(struct track_events *t)
{
    char name[32];

    for (uint64_t i = 0; i < t->slices->count; i++) {
        uint32_t lane = track_lane_of(t, t->slice[i]);

        if (i == 0 || track_lane_of(t, t->slice[i - 1]) != lane) {
            track_name_lane(t, lane, name);
            track_begin_sequence(t, UUID_LANES + lane);
            track_write_track(t, UUID_LANES + lane, name, false);
            track_write_names(t);
        }
        track_write_slice(t, t->slice[i]);
    }
}

/* ---- counters and lost records ---- */

static void track_write_counter(struct track_events *t, uint64_t ns, uint64_t track, uint64_t value)
{
    track_put_number(&t->event, EVENT_TYPE, EVENT_IS_COUNTER);
    track_put_number(&t->event, EVENT_TRACK, track);
    track_put_number(&t->event, EVENT_COUNTER, value);
    track_end_event(t, ns);
}

static void track_write_process(struct track_events *t)
{
    const struct chip_record *record = &t->snapshot->record;
    const struct trace_ring *ring = record->ring_count != 0 ? record->ring[0] : NULL;
    char text[64];

    track_begin_sequence(t, UUID_PROCESS);
    track_write_track(t, UUID_PROCESS, t->snapshot->platform, false);
    track_write_track(t, UUID_LIVE, "live tasks", true);
    track_write_track(t, UUID_READY, "ready tasks", true);
    if (t->slices->lost + t->r->edges_lost != 0) {
        snprintf(text, sizeof(text), "%llu records were lost",
                 (unsigned long long)(t->slices->lost + t->r->edges_lost));
        track_put_number(&t->event, EVENT_TYPE, EVENT_INSTANT);
        track_put_text(&t->event, EVENT_NAME, text);
        track_end_event(t, record->begin_ns);
    }
    for (uint64_t k = ring != NULL ? trace_ring_first(ring) : 0; ring != NULL && k < ring->count;
         k++) {
        const struct trace_record *r = &ring->record[k & ring->mask];

        if (r->kind != TRACE_DEPTH)
            continue;
        track_write_counter(t, trace_slices_ns(t->slices, r->time), UUID_LIVE, r->seq);
        track_write_counter(t, trace_slices_ns(t->slices, r->time), UUID_READY, r->value);
    }
}

/* ---- the whole trace ---- */

static int track_by_lane_and_begin(const void *a, const void *b)
{
    const struct trace_slice *x = *(const struct trace_slice *const *)a;
    const struct trace_slice *y = *(const struct trace_slice *const *)b;
    uint32_t lane_x =
        x->core == TRACE_CORE_NONE ? UINT32_MAX - TRACE_NOTHINGS + x->nothing : x->core;
    uint32_t lane_y =
        y->core == TRACE_CORE_NONE ? UINT32_MAX - TRACE_NOTHINGS + y->nothing : y->core;

    if (lane_x != lane_y)
        return lane_x < lane_y ? -1 : 1;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static void track_find_flows(struct track_events *t)
{
    const struct recording *r = t->r;
    uint64_t tasks = t->snapshot->record.tasks, next = 0;

    for (uint64_t i = 0; i < t->slices->count; i++)
        t->has_slice[t->slices->slice[i].seq - 1] = true;
    for (uint64_t i = 0; i < r->edge_count; i++)
        if (track_has_flow(t, i))
            t->out_from[r->edge[i].from + 2]++;
    for (uint64_t i = 0; i < tasks; i++)
        t->out_from[i + 2] += t->out_from[i + 1];
    /*
     * this loop moves out_from[i + 1] from the first flow of task i to the first flow of task i + 1
     */
    for (uint64_t i = 0; i < r->edge_count; i++)
        if (track_has_flow(t, i))
            t->out_flow[t->out_from[r->edge[i].from + 1]++] = i;
    for (uint64_t i = 0; i < tasks; i++) {
        while (next < r->edge_count && r->edge[next].to < i)
            next++;
        t->in_from[i] = next;
    }
}

int trace_write_track_event(const struct trace_slices *slices, FILE *out)
{
    struct recording r;
    struct track_events t = { .r = &r, .slices = slices, .snapshot = slices->snapshot, .out = out };
    uint64_t tasks = slices->snapshot->record.tasks;
    int status = recording_make(slices, &r);

    if (status < 0)
        return status;
    t.slice = calloc(slices->count + 1, sizeof(*t.slice));
    t.out_from = calloc(tasks + 2, sizeof(*t.out_from));
    t.out_flow = calloc(r.edge_count + 1, sizeof(*t.out_flow));
    t.in_from = calloc(tasks + 1, sizeof(*t.in_from));
    t.has_slice = calloc(tasks + 1, sizeof(*t.has_slice));
    status = t.slice != NULL && t.out_from != NULL && t.out_flow != NULL && t.in_from != NULL &&
                     t.has_slice != NULL
                 ? PTO_OK
                 : PTO_ENOMEM;
    if (status >= 0) {
        for (uint64_t i = 0; i < slices->count; i++)
            t.slice[i] = &slices->slice[i];
        if (slices->count > 1)
            qsort(t.slice, slices->count, sizeof(*t.slice), track_by_lane_and_begin);
        track_find_flows(&t);
        track_write_process(&t);
        track_write_lanes(&t);
        status = t.has_failed ? PTO_ENOMEM : PTO_OK;
    }
    free(t.slice);
    free(t.out_from);
    free(t.out_flow);
    free(t.in_from);
    free(t.has_slice);
    bytes_free(&t.packet);
    bytes_free(&t.event);
    bytes_free(&t.inner);
    recording_free(&r);
    return status;
}
