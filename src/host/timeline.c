/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the timeline of the last recorded run to a file, completely or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sized.h"
#include "host/timeline.h"

static trace_exporter_fn exporter_for(const char *path);

int pto_trace_write(struct pto_device *handle, const char *path, struct pto_error *error)
{
    int status;
    struct device *device = device_get(handle, &status);

    if (!sized_is_valid(error))
        return PTO_EINVAL;
    if (device == NULL || path == NULL)
        return error_setf(error, device == NULL ? status : PTO_EINVAL,
                          "no such device, or no path");
    pthread_mutex_lock(&device->lock);
    status = device->running != 0
                 ? error_setf(error, PTO_EBUSY, "a run is in progress; write the timeline after it")
                 : timeline_write(device, path, error);
    pthread_mutex_unlock(&device->lock);
    return status;
}

int timeline_write(struct device *device, const char *path, struct pto_error *error)
{
    struct trace_snapshot snapshot;
    struct trace_slices slices;
    int status = timeline_take(device, &snapshot, &slices, error);

    if (status >= 0) {
        status = timeline_export(&slices, exporter_for(path), path, error);
        trace_slices_free(&slices);
    }
    return status;
}

static int take_snapshot(struct device *device, struct trace_snapshot *out, struct pto_error *error)
{
    int status;

    if (device->trace.mode == PTO_TRACE_OFF)
        return error_setf(error, PTO_EINVAL, "no run was recorded; set `trace` of its options");
    *out = (struct trace_snapshot){ .platform = device->platform->name,
                                    .title = device->trace.title,
                                    .kernel_name = device->trace.kernel_name,
                                    .kernel_count = device->trace.kernel_count,
                                    .mode = device->trace.mode,
                                    .status = device->trace.status,
                                    .run_mode = device->trace.run_mode,
                                    .deps = device->trace.deps,
                                    .rings = device->trace.rings,
                                    .diagnostics = device->trace.diagnostics };
    status = chip_record(device->chip, &out->record);
    return status < 0 ? error_setf(error, status, "the recording cannot be fetched: %s",
                                   pto_strerror(status))
                      : PTO_OK;
}

int timeline_take(struct device *device, struct trace_snapshot *snapshot,
                  struct trace_slices *slices_out, struct pto_error *error)
{
    int status = take_snapshot(device, snapshot, error);

    if (status >= 0 && trace_slices_make(snapshot, slices_out) < 0)
        status = error_setf(error, PTO_ENOMEM, "no memory for the timeline of %llu tasks",
                            (unsigned long long)snapshot->record.tasks);
    return status;
}

static trace_exporter_fn exporter_for(const char *path)
{
    static const struct {
        const char *ending;
        trace_exporter_fn write;
    } exporter[] = {
#define X(name, ending) { ending, trace_write_##name },
        PTO_TRACE_FORMAT_MAP(X)
#undef X
    };
    size_t length = strlen(path);

    for (size_t i = 0; i < sizeof(exporter) / sizeof(exporter[0]); i++) {
        size_t end = strlen(exporter[i].ending);

        if (length >= end && strcmp(path + length - end, exporter[i].ending) == 0)
            return exporter[i].write;
    }
    return exporter[0].write;
}

int timeline_put(const char *path, int (*put)(const void *context, FILE *out), const void *context,
                 struct pto_error *error)
{
    struct file_part part;
    bool is_written;
    FILE *out = NULL;
    int file; /* a duplicate of the descriptor, because fclose closes the one of its stream */

    if (file_part_open(path, 0666, &part) < 0)
        return error_setf(error, PTO_ESYSTEM, "%s: %s", path, strerror(errno));
    file = fcntl(part.file, F_DUPFD_CLOEXEC, 0);
    if (file >= 0 && (out = fdopen(file, "w")) == NULL)
        close(file);
    is_written = out != NULL && put(context, out) >= 0 && ferror(out) == 0;
    is_written = out != NULL && fclose(out) == 0 && is_written;
    return file_part_close(&part, is_written) == PTO_OK
               ? PTO_OK
               : error_setf(error, PTO_ESYSTEM, "%s: %s", path, strerror(errno));
}

struct export
{
    const struct trace_slices *slices;
    trace_exporter_fn write;
};

static int put_export(const void *context, FILE *out)
{
    const struct export *e = context;

    return e->write(e->slices, out);
}

int timeline_export(const struct trace_slices *slices, trace_exporter_fn write, const char *path,
                    struct pto_error *error)
{
    const struct export e = { slices, write };

    return timeline_put(path, put_export, &e, error);
}
