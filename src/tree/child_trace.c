/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timelines of children: what the last run of a chip recorded, or what the children of a nested worker did
 * for its last task, as events for the document that the worker writes, appended to a file without a name that the worker has open. How many bytes of it are whole
 * is told behind them, so a child that is killed in the middle leaves nothing that cannot be read.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/timeline.h"
#include "tree/child.h"
#include "tree/tree_nested.h"

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
    uint32_t file = a32_load_relaxed(&line->trace_file); /* it came with the task */
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/fd/%u", hello->link.parent, file);
    if (tracer->file < 0 && file != 0)
        tracer->file = open(path, O_WRONLY | O_CLOEXEC);
}

/* Who writes events, and of what. */
typedef void (*put_fn)(const void *context, FILE *out);

/* Appends what `put` writes to the file that the worker has for this child. */
static void trace_append(struct child_tracer *tracer, struct tree_line *line,
                         const struct tree_hello *hello, put_fn put, const void *context)
{
    uint64_t at = a64_load_relaxed(&line->trace_bytes); /* its own, or it came with the task */
    char *text = NULL;
    size_t size = 0;
    FILE *out;

    trace_open_file(tracer, line, hello);
    out = tracer->file >= 0 ? open_memstream(&text, &size) : NULL;
    if (out == NULL)
        return;
    put(context, out);
    if (fclose(out) == 0 && put_at(tracer->file, text, size, at))
        a64_store_relaxed(&line->trace_bytes, at + size); /* the worker is told behind it */
    free(text);
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

/* ---- a chip ---- */

void child_trace(struct child_tracer *tracer, struct pto_device *handle, struct tree_shared *shared,
                 const struct tree_hello *hello)
{
    struct tree_line *line = &shared->line[hello->child];
    uint32_t pid = a32_load_relaxed(&shared->tracing.pid) + 1 + hello->child; /* see tree_tracing */
    struct trace_snapshot snapshot;
    struct trace_slices slices;
    struct kernels k = { &slices,
                         { .pid = pid,
                           .track = TREE_TRACE_CORES,
                           .base_ns = a64_load_relaxed(&shared->tracing.base_ns) } };
    int status;
    struct device *device = device_get(handle, &status);

    if (a64_load_relaxed(&line->trace_bytes) == 0) /* its own, or it came with the task */
        tracer->flow = 0;
    if (device == NULL || timeline_take(device, &snapshot, &slices, NULL) < 0)
        return;
    k.place.flow = ((uint64_t)pid << 32) + tracer->flow;
    tracer->flow += snapshot.record.edge_count;
    trace_append(tracer, line, hello, put_kernels, &k);
    trace_slices_free(&slices);
}

/* ---- a nested worker ---- */

void child_trace_below(struct pto_worker *worker, const struct tree_shared *shared,
                       const struct tree_hello *hello)
{
    tree_nested_trace_begin(worker, &shared->tracing, hello->child);
}

static void put_below(const void *context, FILE *out)
{
    tree_nested_trace_put((struct pto_worker *)(uintptr_t)context, out);
}

void child_trace_nested(struct child_tracer *tracer, struct pto_worker *worker,
                        struct tree_shared *shared, const struct tree_hello *hello)
{
    if (tree_nested_trace_end(worker))
        trace_append(tracer, &shared->line[hello->child], hello, put_below, worker);
}

void child_trace_close(struct child_tracer *tracer)
{
    if (tracer->file >= 0)
        close(tracer->file);
    tracer->file = -1;
}
