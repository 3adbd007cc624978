/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the timeline of the last recorded run: whole or not at all. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sized.h"
#include "host/host.h"
#include "trace/snapshot.h"

static int take_snapshot(struct device *device, struct trace_snapshot *out,
                         struct pto_error *error);
static int write_file(const struct trace_slices *slices, const char *path, struct pto_error *error);

int pto_trace_write(struct pto_device *handle, const char *path, struct pto_error *error)
{
    int status;
    struct device *device = device_get(handle, &status);
    struct trace_snapshot snapshot;
    struct trace_slices slices;

    if (!sized_is_valid(error))
        return PTO_EINVAL;
    if (device == NULL || path == NULL)
        return error_tell(error, device == NULL ? status : PTO_EINVAL,
                          "no such device, or no path");
    pthread_mutex_lock(&device->lock);
    status = take_snapshot(device, &snapshot, error);
    if (status >= 0 && trace_slices_make(&snapshot, &slices) < 0)
        status = error_tell(error, PTO_ENOMEM, "no memory for the timeline of %" PRIu64 " tasks",
                            snapshot.record.tasks);
    else if (status >= 0) {
        status = write_file(&slices, path, error);
        trace_slices_free(&slices);
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

/* Under the device's lock. */
static int take_snapshot(struct device *device, struct trace_snapshot *out, struct pto_error *error)
{
    int status;

    if (device->is_running)
        return error_tell(error, PTO_EBUSY, "a run is going on; write the timeline after it");
    if (device->trace.mode == PTO_TRACE_OFF)
        return error_tell(error, PTO_EINVAL, "no run was recorded; set `trace` of its options");
    *out = (struct trace_snapshot){ .platform = device->platform->name,
                                    .kernel_name = device->trace.kernel_name,
                                    .kernel_count = device->trace.kernel_count,
                                    .mode = device->trace.mode,
                                    .status = device->trace.status };
    status = chip_record(device->chip, &out->record);
    return status < 0 ? error_tell(error, status, "what was recorded cannot be had: %s",
                                   pto_strerror(status))
                      : PTO_OK;
}

static int write_file(const struct trace_slices *slices, const char *path, struct pto_error *error)
{
    char *temporary = malloc(strlen(path) + 8);
    int status = PTO_OK;
    struct stat about;
    bool is_plain, is_written;
    FILE *out;

    if (temporary == NULL)
        return error_tell(error, PTO_ENOMEM, "no memory for a file name");
    is_plain = stat(path, &about) != 0 || S_ISREG(about.st_mode);
    sprintf(temporary, is_plain ? "%s.part" : "%s", path); /* a device or a pipe is written to */
    out = fopen(temporary, "w");
    if (out == NULL) {
        status = error_tell(error, PTO_ESYSTEM, "%s: %s", temporary, strerror(errno));
        goto free_name;
    }
    trace_write_perfetto(slices, out);
    is_written = ferror(out) == 0;
    is_written = fclose(out) == 0 && is_written;
    if (!is_written || (is_plain && rename(temporary, path) != 0)) {
        status = error_tell(error, PTO_ESYSTEM, "%s: %s", path, strerror(errno));
        if (is_plain)
            unlink(temporary);
    }

free_name:
    free(temporary);
    return status;
}
