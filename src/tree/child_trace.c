/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timelines of a chip that is a child: what its last run recorded, as events for the document that the
 * worker writes, appended to a file without a name that the worker has open. How many bytes of it are whole
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
#include "tree/tree.h"

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

static void open_file(struct child_tracer *tracer, const struct tree_line *line,
                      const struct tree_hello *hello)
{
    uint32_t file = a32_load_relaxed(&line->trace_file); /* it came with the task */
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/fd/%u", hello->parent, file);
    if (tracer->file < 0 && file != 0)
        tracer->file = open(path, O_WRONLY | O_CLOEXEC);
}

void child_trace(struct child_tracer *tracer, struct pto_device *handle, struct tree_shared *shared,
                 const struct tree_hello *hello)
{
    struct tree_line *line = &shared->line[hello->child];
    struct trace_place place = { .pid = TREE_TRACE_PID + hello->child,
                                 .track = TREE_TRACE_CORES,
                                 .flow = (uint64_t)(hello->child + 1) << 32,
                                 .base_ns = a64_load_relaxed(&shared->tracing.base_ns) };
    uint64_t at =
        a64_load_relaxed(&line->trace_bytes); /* here and below: its own, or with a task */
    struct trace_snapshot snapshot;
    struct trace_slices slices;
    char *text = NULL;
    size_t size = 0;
    FILE *out;
    int status;
    struct device *device = device_get(handle, &status);

    if (at == 0)
        tracer->flow = 0;
    open_file(tracer, line, hello);
    if (device == NULL || tracer->file < 0 || timeline_take(device, &snapshot, &slices, NULL) < 0)
        return;
    out = open_memstream(&text, &size);
    if (out != NULL) {
        place.flow += tracer->flow;
        tracer->flow += snapshot.record.edge_count;
        trace_put_perfetto(&slices, &place, out);
        if (fclose(out) == 0 && put_at(tracer->file, text, size, at))
            a64_store_relaxed(&line->trace_bytes, at + size);
        free(text);
    }
    trace_slices_free(&slices);
}

void child_trace_close(struct child_tracer *tracer)
{
    if (tracer->file >= 0)
        close(tracer->file);
    tracer->file = -1;
}
