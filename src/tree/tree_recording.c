/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the worker's own part of a recording, with the code that writes the recordings of chips:
 * children take the place of cores, callables that of kernels, and ns that of cycles.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "orch/record.h"
#include "pto/recording.h"
#include "trace/snapshot.h"
#include "tree/tree.h"
#include "tree/tree_trace.h"
#include "tree/tree_traced.h"

/* The worker's records in the form in which a chip delivers its records. */
struct worker_record {
    const struct tree_trace *trace;
    struct trace_ring ring;
    const struct trace_ring *rings[1];
    uint64_t *submit_ns; /* time of the submit, by task */
    uint64_t *number;    /* number of the task in its run, by task */
    char **name;         /* name, by callable */
    uint8_t lane_kind[TREE_CHILDREN_MAX];
    uint64_t begin_ns, end_ns;
    int status;
};

void tree_recording_name(const char *prefix, char *name)
{
    size_t length = strlen(prefix);

    if (length < 2)
        snprintf(name, TRACED_GROUP_NAME, "worker");
    else
        snprintf(name, TRACED_GROUP_NAME, "%.*s", (int)length - 2, prefix);
}

/* ---- submits ---- */

/* Reserves memory for the record of a submit. NULL: out of memory, and the record is lost. */
static char *recording_take(void *context, uint64_t bytes)
{
    struct tree_trace *trace = context;
    uint64_t room = 2 * trace->record_room + bytes + 4096;
    char *grown;

    if (trace->record_room - trace->record_bytes < bytes) {
        grown = realloc(trace->records, room);
        if (grown == NULL) {
            trace->records_lost++;
            return NULL;
        }
        trace->records = grown;
        trace->record_room = room;
    }
    trace->record_bytes += bytes;
    return trace->records + trace->record_bytes - bytes;
}

void tree_recording_submit(struct tree *t, const struct slot *s, const struct traced_task *task,
                           const struct pto_args *args, const struct pto_outputs *out)
{
    const struct pto_task_view view = { .index = (uint64_t)(task - t->trace->task),
                                        .task = slot_id(s),
                                        .kernels = { -1, (int32_t)task->name, -1 },
                                        .args = args,
                                        .site = s->site };

    record_task(
        &(struct record_sink){ recording_take, t->trace },
        &(struct orch_submitted){
            .view = &view, .out = out, .is_manual = t->graph.is_manual, .end = task->submit_ns });
}

/* ---- the part of the file ---- */

static void fill_kinds(const struct tree *t, struct worker_record *w)
{
    static const uint8_t kind[] = { [PTO_CHILD_CHIP] = PTO_RECORDING_LANE_CHIP,
                                    [PTO_CHILD_SUB] = PTO_RECORDING_LANE_SUB,
                                    [PTO_CHILD_WORKER] = PTO_RECORDING_LANE_WORKER };

    for (uint32_t i = 0; i < t->child_count; i++)
        w->lane_kind[i] = kind[t->child[i].kind];
}

/* Records the times of a task: when it became ready, began and ended. */
static void fill_task(struct worker_record *w, uint32_t index)
{
    const struct traced_task *task = &w->trace->task[index];
    bool has_run = task->begin_ns != 0 && task->child >= 0;

    w->submit_ns[index] = task->submit_ns;
    w->number[index] = task->seq;
    if (task->ready_ns != 0)
        w->ring.record[w->ring.count++] = (struct trace_record){ .time = task->ready_ns,
                                                                 .seq = index + 1,
                                                                 .value = task->ready_by,
                                                                 .core = TRACE_CORE_NONE,
                                                                 .kind = TRACE_READY };
    w->ring.record[w->ring.count++] =
        (struct trace_record){ .time = has_run ? task->begin_ns : task->submit_ns,
                               .end = task->end_ns,
                               .seq = index + 1,
                               .value = task->name,
                               .core = has_run ? (uint16_t)task->child : TRACE_CORE_NONE,
                               .kind = has_run ? TRACE_BEGIN : TRACE_RUN,
                               .nothing = TRACE_STOPPED };
}

static void fill_runs(struct worker_record *w)
{
    const struct tree_trace *trace = w->trace;

    w->begin_ns = UINT64_MAX;
    for (uint64_t i = 0; i < trace->run_count; i++) {
        const struct traced_run *run = &trace->run[i];

        w->begin_ns = run->begin_ns < w->begin_ns ? run->begin_ns : w->begin_ns;
        w->end_ns = run->end_ns > w->end_ns ? run->end_ns : w->end_ns;
        w->status = w->status < 0 ? w->status : run->status;
    }
    if (w->begin_ns > w->end_ns) /* memory ran out before the first run was recorded */
        w->begin_ns = w->end_ns = trace->base_ns;
}

/*
 * Makes the worker's records. Returns PTO_OK or PTO_ENOMEM; the caller frees the arrays in any
 * case.
 */
static int make_worker_record(const struct tree *t, struct worker_record *w)
{
    const struct tree_trace *trace = t->trace;
    uint64_t room = 1;

    while (room < 2 * trace->task_count)
        room *= 2;
    *w = (struct worker_record){ .trace = trace };
    w->ring.record = calloc(room, sizeof(*w->ring.record));
    w->ring.mask = (uint32_t)(room - 1);
    w->rings[0] = &w->ring;
    w->submit_ns = calloc(trace->task_count, sizeof(*w->submit_ns));
    w->number = calloc(trace->task_count, sizeof(*w->number));
    w->name = calloc(trace->callable_count, sizeof(*w->name));
    if (w->ring.record == NULL || w->submit_ns == NULL || w->number == NULL || w->name == NULL)
        return PTO_ENOMEM;
    fill_kinds(t, w);
    fill_runs(w);
    for (uint64_t i = 0; i < trace->callable_count; i++)
        w->name[i] = trace->callable[i].name;
    for (uint64_t i = 0; i < trace->task_count; i++)
        fill_task(w, (uint32_t)i);
    return PTO_OK;
}

static int put_worker_record(const struct tree *t, const struct worker_record *w, FILE *out)
{
    const struct tree_trace *trace = t->trace;
    char name[TRACED_GROUP_NAME], above[TRACED_GROUP_NAME];
    struct trace_snapshot snapshot = {
        .record = { .ring = w->rings,
                    .ring_count = 1,
                    .task_records = trace->records,
                    .task_bytes = trace->record_bytes,
                    .task_records_lost = trace->records_lost + trace->lost,
                    .core_count = t->child_count,
                    .begin_cycles = w->begin_ns,
                    .end_cycles = w->end_ns,
                    .begin_ns = w->begin_ns,
                    .end_ns = w->end_ns,
                    .tasks = trace->task_count,
                    .stamp = w->submit_ns,
                    .stamp_count = trace->task_count,
                    .has_ready = true,
                    .is_virtual = t->params.is_virtual },
        .platform = t->platform,
        .kernel_name = w->name,
        .kernel_count = (uint32_t)trace->callable_count,
        .mode = trace->chips,
        .status = w->status,
        .run_mode = PTO_MODE_STREAM, /* tasks run while the orchestration submits */
        .deps = t->params.deps,
        .group_name = name,
        .parent_name = trace->is_nested ? above : NULL,
        .parent_task = trace->above_task,
        .lane_kind = w->lane_kind,
        .task_number = w->number
    };
    struct trace_slices slices;
    int status = trace_slices_make(&snapshot, &slices);

    tree_recording_name(trace->name, name);
    tree_recording_name(trace->above_name, above);
    if (status < 0)
        return status;
    status = trace_write_recording(&slices, out);
    trace_slices_free(&slices);
    return status;
}

int tree_recording_put(const struct tree *t, FILE *out)
{
    struct worker_record w;
    int status;

    if (t->trace->task_count == 0)
        return PTO_OK;
    status = make_worker_record(t, &w);
    if (status >= 0)
        status = put_worker_record(t, &w, out);
    free(w.ring.record);
    free(w.submit_ns);
    free(w.number);
    free(w.name);
    return status;
}
