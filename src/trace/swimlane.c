/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes chip_swimlane_records.json in the format of simpler: executions by core and, with each
 * higher level, more about scheduling. A cycle is a nanosecond of the machine's monotonic clock.
 *
 * In simpler, schedulers are threads separate from the cores; here, worker threads run the kernels
 * themselves. So each worker is written as a scheduler, and the last one stands for the kernels
 * that run on several lanes at once. What a worker does between two kernels is not recorded. If the
 * second kernel was ready when the first returned, the gap is split equally between completing and
 * dispatching; otherwise completing takes no time, and dispatching begins when the task became
 * ready.
 *
 * A gang gets all its cores in one step. Like simpler, this file distinguishes two ways: dispatched
 * ahead of time (early_dispatch) if all its predecessors allow that, or by stopping the other cores
 * (drain).
 */
#include <inttypes.h>
#include <stdlib.h>

#include "trace/snapshot.h"

enum { LEVEL_CORES = 1, LEVEL_DISPATCHES, LEVEL_PHASES, LEVEL_SUBMITS };

/* Per-task state derived from its executions; times in cycles. */
struct lane_task {
    /*
     * Time when the task became ready: the later of its submit and the end of its last predecessor.
     * UINT64_MAX: the dispatch of its gang has been written.
     */
    uint64_t ready;
    uint64_t end;
    uint32_t left; /* number of its executions whose completion was not written yet */
    bool has_late; /* some predecessor of the task does not allow early dispatch */
    bool has_early;
};

struct swimlane {
    const struct trace_slices *slices;
    const struct chip_record *record;
    FILE *out;
    bool has_item;               /* a comma must precede the next item */
    struct lane_task *task;      /* one element for each task, by submission index */
    struct trace_slice **sorted; /* executions sorted by worker, then begin */
    const struct chip_task **by_id;
    uint64_t task_count_recorded;
    /* value of the field `loop_iter` in the file, for the worker whose phases are being written */
    uint32_t loop;
};

static void write_metadata(struct swimlane *w, uint32_t level);
static void write_cores(struct swimlane *w);
static void write_dispatches(struct swimlane *w);
static int write_phases(struct swimlane *w);
static void write_submits(struct swimlane *w);

static bool is_host_built(const struct swimlane *w)
{
    return w->slices->snapshot->run_mode == PTO_MODE_HOST;
}

int trace_write_swimlane(const struct trace_slices *slices, FILE *out)
{
    struct swimlane w = { .slices = slices, .record = &slices->snapshot->record, .out = out };
    uint32_t level = slices->snapshot->diagnostics.swimlane;
    int status = PTO_OK;

    level = level < LEVEL_SUBMITS ? level : LEVEL_SUBMITS;
    fprintf(out, "{\n  \"chip_swimlane_level\": %u,\n", level);
    write_metadata(&w, level);
    write_cores(&w);
    if (level >= LEVEL_DISPATCHES)
        write_dispatches(&w);
    if (level >= LEVEL_PHASES)
        status = write_phases(&w);
    if (level >= LEVEL_SUBMITS)
        write_submits(&w);
    fputs("\n}\n", out);
    return status;
}

static uint64_t ns_of(const struct swimlane *w, uint64_t cycles)
{
    return trace_slices_ns(w->slices, cycles);
}

static void swimlane_begin_item(struct swimlane *w)
{
    fputs(w->has_item ? ",\n    " : "\n    ", w->out);
    w->has_item = true;
}

/* ---- metadata ---- */

/*
 * Writes a clock anchor. Host and device share one clock here, so both timestamps are equal and
 * exact.
 */
static void write_anchor(struct swimlane *w, const char *position, uint64_t ns, const char *end)
{
    fprintf(w->out,
            "\n        {\"position\": \"%s\", \"sample_idx\": 0, \"host_before_ns\": %" PRIu64
            ", \"raw_device_timestamp\": %" PRIu64 ", \"device_cycles\": %" PRIu64
            ", \"host_after_ns\": %" PRIu64
            ", \"rtt_ns\": 0, \"uncertainty_ns\": 0, \"error\": null}%s",
            position, ns, ns, ns, ns, end);
}

/*
 * Whether the task was submitted during the run; the tasks of a launched graph were submitted
 * before it.
 */
static bool is_submitted(const struct chip_task *task)
{
    return task != NULL && (task->flags & CHIP_TASK_IS_LAUNCHED) == 0;
}

static uint64_t count_recorded(const struct swimlane *w)
{
    uint64_t count = 0;

    for (uint64_t i = 0; w->slices->task != NULL && i < w->record->tasks; i++)
        count += is_submitted(w->slices->task[i]);
    return count;
}

/* Writes the metadata of a run whose graph the host builds before the chip begins. */
static void write_host(struct swimlane *w)
{
    uint64_t count = count_recorded(w);
    bool is_whole = w->record->task_records_lost == 0;

    fprintf(w->out,
            ",\n    \"orchestrator_source\": \"host\",\n    \"orchestrator_clock_domain\": "
            "\"host_monotonic_ns\",\n    \"device_clock_domain\": \"device_syscnt_cycles\",\n"
            "    \"host_timestamp_resolution_ns\": 1,\n    \"host_timestamp_quantization_ns\": 0,\n"
            "    \"host_orchestration_origin_ns\": %" PRIu64
            ",\n    \"timeline_relation\": \"host_orchestration_precedes_device\",\n"
            "    \"host_capture\": {\"status\": \"%s\", \"expected_records\": %" PRIu64
            ", \"recorded_records\": %" PRIu64 ", \"pool_records\": %" PRIu64
            ", \"dropped_records\": %" PRIu64 ", \"error\": %s},\n",
            w->record->begin_ns, is_whole ? "complete" : "partial",
            count + w->record->task_records_lost, count, count, w->record->task_records_lost,
            is_whole ? "null" : "\"pool_overflow\"");
    fputs("    \"clock_anchors\": {\n      \"schema_version\": 1,\n      \"provider\": \"pto\",\n"
          "      \"device_timestamp_unit\": \"syscnt_cycles\",\n"
          "      \"raw_device_timestamp_unit\": \"syscnt_cycles\",\n"
          "      \"samples_per_position\": 1,\n      \"samples\": [",
          w->out);
    write_anchor(w, "pre_host_orchestration", w->record->begin_ns, ",");
    write_anchor(w, "post_device_execution", w->record->end_ns, "\n      ]\n    }");
}

/* Writes for each core the worker that ran its last kernel; -1: it ran none. */
static void write_threads(struct swimlane *w)
{
    int16_t thread[PTO_CORES_MAX];

    for (uint32_t i = 0; i < w->record->core_count && i < PTO_CORES_MAX; i++)
        thread[i] = -1;
    for (uint64_t i = 0; i < w->slices->count; i++)
        if (w->slices->slice[i].core < PTO_CORES_MAX)
            thread[w->slices->slice[i].core] = w->slices->slice[i].ring;
    fputs(",\n    \"core_to_thread\": [", w->out);
    for (uint32_t i = 0; i < w->record->core_count && i < PTO_CORES_MAX; i++)
        fprintf(w->out, "%s%d", i != 0 ? ", " : "", thread[i]);
    fputc(']', w->out);
}

static void write_metadata(struct swimlane *w, uint32_t level)
{
    fprintf(w->out,
            "  \"metadata\": {\n    \"clock_freq_hz\": 1000000000,\n    \"num_cores\": %u,\n"
            "    \"core_types\": [",
            w->record->core_count);
    for (uint32_t i = 0; i < w->record->core_count; i++)
        fprintf(w->out, "%s\"%s\"", i != 0 ? ", " : "", i < w->record->aic_count ? "aic" : "aiv");
    fputc(']', w->out);
    if (is_host_built(w) && level >= LEVEL_SUBMITS)
        write_host(w);
    if (level >= LEVEL_PHASES)
        write_threads(w);
    fputs("\n  },\n", w->out);
}

/* ---- executions ---- */

static bool is_execution(const struct trace_slice *s)
{
    return s->core != TRACE_CORE_NONE && s->core < PTO_CORES_MAX && s->has_end;
}

static void write_cores(struct swimlane *w)
{
    /*
     * number of executions of each core so far; readers use it to match the two lists of the file
     */
    uint32_t number[PTO_CORES_MAX] = { 0 };

    fputs("  \"aicore_tasks\": [", w->out);
    w->has_item = false;
    for (uint64_t i = 0; i < w->slices->count; i++) {
        const struct trace_slice *s = &w->slices->slice[i];

        if (!is_execution(s))
            continue;
        swimlane_begin_item(w);
        fprintf(w->out, "[%u, %" PRIu64 ", %u, %" PRIu64 ", %" PRIu64 ", 0]", s->core,
                trace_slices_id(w->slices, s->seq - 1), number[s->core]++, ns_of(w, s->begin),
                ns_of(w, s->end));
    }
    fputs("\n  ]", w->out);
}

static void write_dispatches(struct swimlane *w)
{
    uint32_t number[PTO_CORES_MAX] = { 0 };

    fputs(",\n  \"aicpu_tasks\": [", w->out);
    w->has_item = false;
    for (uint64_t i = 0; i < w->slices->count; i++) {
        const struct trace_slice *s = &w->slices->slice[i];

        if (!is_execution(s))
            continue;
        swimlane_begin_item(w);
        fprintf(w->out, "[%u, %u, %" PRIu64 ", %" PRIu64 "]", s->core, number[s->core]++,
                ns_of(w, s->begin), ns_of(w, s->end));
    }
    fputs("\n  ]", w->out);
}

/* ---- schedulers ---- */

static int by_worker(const void *a, const void *b)
{
    const struct trace_slice *x = *(struct trace_slice *const *)a;
    const struct trace_slice *y = *(struct trace_slice *const *)b;

    if (x->ring != y->ring)
        return x->ring < y->ring ? -1 : 1;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static int by_id(const void *a, const void *b)
{
    const struct chip_task *x = *(const struct chip_task *const *)a;
    const struct chip_task *y = *(const struct chip_task *const *)b;

    return x->id.raw < y->id.raw ? -1 : x->id.raw > y->id.raw;
}

/* Updates the time at which `after` became ready, because `after` waits for `before`. */
static void swimlane_follow(struct swimlane *w, uint32_t before, uint32_t after)
{
    struct lane_task *t = &w->task[after];
    const struct chip_task *recorded = w->slices->task[before];

    if (w->task[before].end > t->ready)
        t->ready = w->task[before].end;
    if (recorded != NULL && (recorded->flags & CHIP_TASK_IS_EARLY) != 0)
        t->has_early = true;
    else
        t->has_late = true;
}

static void follow_explicit(struct swimlane *w, const struct chip_task *task)
{
    const struct chip_dep *dep = trace_task_deps(task);

    for (uint32_t i = 0; i < task->dep_count; i++) {
        const struct chip_task key = { .id = dep[i].task };
        const struct chip_task *at = &key;
        const struct chip_task **found =
            bsearch(&at, w->by_id, w->task_count_recorded, sizeof(w->by_id[0]), by_id);

        if (found != NULL)
            swimlane_follow(w, (*found)->index, task->index);
    }
}

/* Computes when each task became ready, from its submit and its predecessors. */
static int find_ready(struct swimlane *w)
{
    uint64_t tasks = w->record->tasks;

    w->task = calloc(tasks + 1, sizeof(w->task[0]));
    w->sorted = calloc(w->slices->count + 1, sizeof(w->sorted[0]));
    w->by_id = calloc(tasks + 1, sizeof(w->by_id[0]));
    if (w->task == NULL || w->sorted == NULL || w->by_id == NULL)
        return PTO_ENOMEM;
    for (uint64_t i = 0; i < w->slices->count; i++) {
        struct trace_slice *s = &w->slices->slice[i];
        struct lane_task *t = &w->task[s->seq - 1];

        w->sorted[i] = s;
        t->left += is_execution(s);
        t->end = s->has_end && s->end > t->end ? s->end : t->end;
    }
    qsort(w->sorted, w->slices->count, sizeof(w->sorted[0]), by_worker);
    if (w->slices->task == NULL)
        return PTO_OK;
    for (uint64_t i = 0; i < tasks; i++)
        if (w->slices->task[i] != NULL) {
            w->by_id[w->task_count_recorded++] = w->slices->task[i];
            w->task[i].ready = w->slices->task[i]->end;
        }
    qsort(w->by_id, w->task_count_recorded, sizeof(w->by_id[0]), by_id);
    for (uint64_t i = 0; i < w->record->edge_count; i++)
        if (w->record->edge[i].before < tasks && w->record->edge[i].after < tasks)
            swimlane_follow(w, w->record->edge[i].before, w->record->edge[i].after);
    for (uint64_t i = 0; i < w->task_count_recorded; i++)
        follow_explicit(w, w->by_id[i]);
    return PTO_OK;
}

/*
 * Writes the fields that dispatch, completion and other phases of a worker have in common; the
 * caller adds further fields and the closing brace.
 */
static void begin_phase(struct swimlane *w, const char *kind, uint64_t begin, uint64_t end,
                        uint32_t tasks)
{
    fputs(w->has_item ? ",\n      " : "\n      ", w->out);
    w->has_item = true;
    fprintf(w->out,
            "{\"kind\": \"%s\", \"start_cycles\": %" PRIu64 ", \"end_cycles\": %" PRIu64
            ", \"loop_iter\": %u, \"tasks_processed\": %u",
            kind, ns_of(w, begin), ns_of(w, end), w->loop, tasks);
}

static void write_phase(struct swimlane *w, const char *kind, uint64_t begin, uint64_t end,
                        uint32_t tasks)
{
    begin_phase(w, kind, begin, end, tasks);
    fputc('}', w->out);
}

/* Writes the completion phase of an execution; `until` is when the worker went on to other work. */
static void write_completion(struct swimlane *w, const struct trace_slice *s, uint64_t until)
{
    if (s == NULL)
        return;
    until = until > s->end ? until : s->end;
    write_phase(w, "complete", s->end, until, 1);
    if (--w->task[s->seq - 1].left == 0)
        write_phase(w, "release", until, until, 1);
}

/* Writes the dispatch of a gang once, with the first of its blocks, because all begin together. */
static void write_gang(struct swimlane *w, const struct trace_slice *s)
{
    static const char *const drain[] = { "drain", "drain_prepare", "drain_publish" };
    const struct chip_task *recorded = trace_slices_task(w->slices, s);
    struct lane_task *t = &w->task[s->seq - 1];
    uint64_t begin = t->ready < s->begin ? t->ready : s->begin;

    if (recorded == NULL || (recorded->flags & CHIP_TASK_IS_GANG) == 0 || t->ready == UINT64_MAX)
        return;
    if (t->has_early && !t->has_late)
        write_phase(w, "early_dispatch", begin, s->begin, recorded->block_count);
    else
        for (uint32_t i = 0; i < sizeof(drain) / sizeof(drain[0]); i++)
            write_phase(w, drain[i], begin, s->begin, recorded->block_count);
    t->ready = UINT64_MAX; /* marks the gang as written */
}

/* Writes the phase of a dummy, or of a task that its predicate skipped. */
static void write_nothing(struct swimlane *w, const struct trace_slice *s)
{
    if (s->nothing == TRACE_STOPPED)
        return;
    begin_phase(w, s->nothing == TRACE_DUMMY ? "dummy_task" : "predicated_skip", s->begin, s->begin,
                1);
    fprintf(w->out, ", \"task_id\": %" PRIu64 "}", trace_slices_id(w->slices, s->seq - 1));
}

/*
 * Writes what a worker thread did: its executions, sorted by begin, and the time between them.
 * `is_team`: the executions are those of several cores, and may overlap.
 */
static void write_worker(struct swimlane *w, struct trace_slice **s, uint64_t count, bool is_team)
{
    /* the previous execution, whose completion phase has not been written yet */
    const struct trace_slice *last = NULL;

    w->has_item = false;
    w->loop = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t ready = w->task[s[i]->seq - 1].ready, from = s[i]->begin;

        w->loop++;
        if (!is_execution(s[i])) {
            if (s[i]->core == TRACE_CORE_NONE)
                write_nothing(w, s[i]);
            continue;
        }
        write_gang(w, s[i]);
        if (last != NULL && !is_team && last->end <= from && ready <= last->end)
            from = last->end + (from - last->end) / 2;
        else if (!is_team && ready < from)
            from = last != NULL && last->end > ready && last->end <= from ? last->end : ready;
        write_completion(w, last, !is_team && last != NULL && ready <= last->end ? from : 0);
        begin_phase(w, "dispatch", from, s[i]->begin, 1);
        fputs(", \"pop_hit\": 1, \"pop_miss\": 0}", w->out);
        last = s[i];
    }
    write_completion(w, last, 0);
}

static int write_phases(struct swimlane *w)
{
    uint64_t first = 0;
    int status = find_ready(w);

    fputs(",\n  \"aicpu_scheduler_phases\": [\n", w->out);
    for (uint32_t ring = 0; status >= 0 && ring < w->record->ring_count; ring++) {
        uint64_t end = first;

        while (end < w->slices->count && w->sorted[end]->ring == ring)
            end++;
        fputs(ring != 0 ? ",\n    [" : "    [", w->out);
        write_worker(w, w->sorted + first, end - first, ring + 1 == w->record->ring_count);
        fputs("]", w->out);
        first = end;
    }
    fputs("\n  ]", w->out);
    free(w->task);
    free(w->sorted);
    free(w->by_id);
    return status;
}

/* ---- submits ---- */

static void write_submits(struct swimlane *w)
{
    const char *unit = is_host_built(w) ? "host_ns" : "cycles";
    uint64_t count = 0;

    fprintf(w->out, ",\n  \"%s_orchestrator_phases\": [[", is_host_built(w) ? "host" : "aicpu");
    w->has_item = false;
    for (uint64_t i = 0; w->slices->task != NULL && i < w->record->tasks; i++) {
        const struct chip_task *task = w->slices->task[i];

        if (!is_submitted(task))
            continue;
        swimlane_begin_item(w);
        fprintf(w->out,
                "{\"submit_idx\": %" PRIu64 ", \"task_id\": %" PRIu64 ", \"start_%s\": %" PRIu64
                ", \"end_%s\": %" PRIu64 "}",
                count++, task->id.raw, unit, ns_of(w, task->begin), unit, ns_of(w, task->end));
    }
    fputs("]]", w->out);
    if (is_host_built(w))
        fputs(",\n  \"host_device_uploads\": []", w->out);
}
