/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the diagnostics that a run's options requested: one file for each row of
 * TRACE_DIAGNOSTIC_MAP.
 */
#include "host/diagnostics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "host/timeline.h"

struct row {
    const char *path; /* path of the file within the diagnostics folder */
    bool (*is_asked)(const struct trace_snapshot *s);
    trace_exporter_fn write;
};

#define X(name, path, asked)                                \
    static bool asks_##name(const struct trace_snapshot *s) \
    {                                                       \
        return asked;                                       \
    }
TRACE_DIAGNOSTIC_MAP(X)
#undef X

static const struct row rows[] = {
#define X(name, path, asked) { path, asks_##name, trace_write_##name },
    TRACE_DIAGNOSTIC_MAP(X)
#undef X
};

bool diagnostics_any(const struct pto_diagnostics *asked)
{
    return asked->swimlane != 0 || asked->args != 0 || asked->pmu != 0 || asked->has_deps ||
           asked->has_scopes || asked->has_names;
}

int diagnostics_prepare(struct pto_run_options *options, char **folder_out)
{
    *folder_out = NULL;
    if (!diagnostics_any(&options->diagnostics))
        return PTO_OK;
    options->trace = PTO_TRACE_ARGUMENTS;
    *folder_out = strdup(options->diagnostics.folder);
    options->diagnostics.folder = *folder_out;
    return *folder_out != NULL ? PTO_OK : PTO_ENOMEM;
}

/* Creates the folders that contain `path`, as far as they do not exist. */
static int make_folders(char *path, struct pto_error *error)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        int result;

        *slash = '\0';
        result = mkdir(path, 0777) != 0 && errno != EEXIST
                     ? error_setf(error, PTO_ESYSTEM, "%s: %s", path, strerror(errno))
                     : PTO_OK;
        *slash = '/';
        if (result < 0)
            return result;
    }
    return PTO_OK;
}

int diagnostics_write(struct device *device, const char *folder, struct pto_error *error)
{
    struct trace_snapshot snapshot;
    struct trace_slices slices;
    char path[PATH_MAX];
    int status = timeline_take(device, &snapshot, &slices, error);

    if (status < 0)
        return status;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && status >= 0; i++) {
        if (!rows[i].is_asked(&snapshot))
            continue;
        if (snprintf(path, sizeof(path), "%s/%s", folder, rows[i].path) >= (int)sizeof(path))
            status =
                error_setf(error, PTO_ESYSTEM, "%.200s...: %s", folder, strerror(ENAMETOOLONG));
        else
            status = make_folders(path, error);
        if (status >= 0)
            status = timeline_export(&slices, rows[i].write, path, error);
    }
    trace_slices_free(&slices);
    return status;
}
