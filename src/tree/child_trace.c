/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timelines of children: the last run of a chip, or the tasks of a nested worker's children, as
 * events and as parts of a recording, since the worker's caller chooses the format later. They are
 * appended to a nameless file that the worker has open, as chunks. The number of complete bytes is
 * published after each append, so a child that is killed in the middle leaves a readable file.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/timeline.h"
#include "tree/child.h"
#include "tree/tree_nested.h"
#include "tree/tree_trace.h"
#include "tree/tree_traced.h"

static bool put_at(int file, const char *bytes, size_t size, uint64_t at)
{
    while (size > 0) {
        ssize_t put = pwrite(file, bytes, size, (off_t)at);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        bytes += put;
        size -= (size_t)put;
        at += (uint64_t)put;
    }
    return true;
}

static void trace_open_file(struct child_tracer *tracer, const struct tree_line *line,
                            const struct tree_hello *hello)
{
    uint32_t file =
        /* relaxed: the worker set it before it sent the task */
        a32_load_relaxed(&line->trace_file);
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/fd/%u", hello->link.parent, file);
    if (tracer->file < 0 && file != 0)
        tracer->file = open(path, O_WRONLY | O_CLOEXEC);
}

/* Writes the bytes of a chunk. */
typedef void (*put_fn)(const void *context, FILE *out);

struct trace_source {
    const void *context;
    /*
     * functions that write the content of a chunk, by enum trace_chunk_kind; NULL: there is no such
     * chunk
     */
    put_fn put[TRACE_CHUNK_PARTS + 1];
};

/* Appends a chunk to the file that the worker has for this child. */
static void trace_append(struct child_tracer *tracer, struct tree_line *line,
                         const struct tree_hello *hello, const struct trace_source *source,
                         enum trace_chunk_kind kind)
{
    /* relaxed: written by this child, or by the worker before it sent the task */
    uint64_t at = a64_load_relaxed(&line->trace_bytes);
    struct trace_chunk chunk = { .kind = kind };
    char *text = NULL;
    size_t size = 0;
    FILE *out;

    trace_open_file(tracer, line, hello);
    out = tracer->file >= 0 ? open_memstream(&text, &size) : NULL;
    if (out == NULL)
        return;
    fwrite(&chunk, sizeof(chunk), 1, out);
    source->put[kind](source->context, out);
    if (fclose(out) == 0 && size >= sizeof(chunk)) {
        chunk.bytes = size - sizeof(chunk);
        memcpy(text, &chunk, sizeof(chunk));
        if (put_at(tracer->file, text, size, at))
            /* relaxed: the answer to the task publishes the number */
            a64_store_relaxed(&line->trace_bytes, at + size);
    }
    free(text);
}

static void trace_append_all(struct child_tracer *tracer, struct tree_line *line,
                             const struct tree_hello *hello, const struct trace_source *source)
{
    trace_append(tracer, line, hello, source, TRACE_CHUNK_EVENTS);
    trace_append(tracer, line, hello, source, TRACE_CHUNK_PARTS);
}

struct kernels {
    const struct trace_slices *slices;
    struct trace_place place;
};

static void put_kernels(const void *context, FILE *out)
{
    const struct kernels *k = context;

    trace_put_perfetto(k->slices, &k->place, out);
}

static void put_part(const void *context, FILE *out)
{
    const struct kernels *k = context;

    /* ignored: if memory runs out, the timeline lacks this recording */
    (void)trace_write_recording(k->slices, out);
}

/* ---- a chip ---- */

void child_trace(struct child_tracer *tracer, struct pto_device *handle, struct tree_shared *shared,
                 const struct tree_hello *hello, uint32_t task)
{
    struct tree_line *line = &shared->line[hello->child];
    /* relaxed: see struct tree_tracing */
    uint32_t pid = a32_load_relaxed(&shared->tracing.pid) + 1 + hello->child;
    struct trace_snapshot snapshot;
    struct trace_slices slices;
    struct kernels k = { &slices,
                         { .pid = pid,
                           .track = TREE_TRACE_CORES,
                           .base_ns = a64_load_relaxed(&shared->tracing.base_ns) } };
    const struct trace_source source = {
        &k, { [TRACE_CHUNK_EVENTS] = put_kernels, [TRACE_CHUNK_PARTS] = put_part }
    };
    char prefix[TREE_TRACE_NAME], above[TRACED_GROUP_NAME], name[TRACED_GROUP_NAME];
    int status;
    struct device *device = device_get(handle, &status);

    /* relaxed: written by this child, or by the worker before it sent the task */
    if (a64_load_relaxed(&line->trace_bytes) == 0)
        tracer->flow = 0;
    if (device == NULL || timeline_take(device, &snapshot, &slices, NULL) < 0)
        return;
    snprintf(prefix, sizeof(prefix), "%.*s", TREE_TRACE_NAME - 1, shared->tracing.name);
    snprintf(name, sizeof(name), "%schip %u", prefix, hello->child);
    tree_recording_name(prefix, above);
    snapshot.group_name = name;
    snapshot.parent_name = above;
    snapshot.parent_task = task;
    snapshot.chip = hello->child;
    k.place.flow = ((uint64_t)pid << 32) + tracer->flow;
    tracer->flow += snapshot.record.edge_count;
    trace_append_all(tracer, line, hello, &source);
    trace_slices_free(&slices);
}

/* ---- a nested worker ---- */

void child_trace_below(struct pto_worker *worker, const struct tree_shared *shared,
                       const struct tree_hello *hello, uint32_t task)
{
    tree_nested_trace_begin(worker, &(struct tree_above){ &shared->tracing, hello->child, task });
}

static void put_below(const void *context, FILE *out)
{
    tree_nested_trace_put((struct pto_worker *)(uintptr_t)context, out);
}

static void put_parts_below(const void *context, FILE *out)
{
    tree_nested_trace_put_parts((struct pto_worker *)(uintptr_t)context, out);
}

void child_trace_nested(struct child_tracer *tracer, struct pto_worker *worker,
                        struct tree_shared *shared, const struct tree_hello *hello)
{
    const struct trace_source source = {
        worker, { [TRACE_CHUNK_EVENTS] = put_below, [TRACE_CHUNK_PARTS] = put_parts_below }
    };

    if (tree_nested_trace_end(worker))
        trace_append_all(tracer, &shared->line[hello->child], hello, &source);
}

void child_trace_close(struct child_tracer *tracer)
{
    if (tracer->file >= 0)
        close(tracer->file);
    tracer->file = -1;
}
