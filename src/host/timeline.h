/* SPDX-License-Identifier: Apache-2.0 */
/* Access to the record of a device's last recorded run, and the writing of files from it. */
#ifndef PTO_TIMELINE_H
#define PTO_TIMELINE_H

#include "host/host.h"
#include "trace/snapshot.h"

/*
 * Takes a snapshot of the record of the last recorded run. No run may start as long as the snapshot
 * is used. The slices point to the snapshot; the caller frees them.
 */
int timeline_take(struct device *device, struct trace_snapshot *snapshot,
                  struct trace_slices *slices_out, struct pto_error *error);
/*
 * Writes a file, completely or not at all. `put` writes the content; a negative result of it is a
 * failure.
 */
int timeline_put(const char *path, int (*put)(const void *context, FILE *out), const void *context,
                 struct pto_error *error);
/* Writes a file with an exporter, completely or not at all. PTO_ESYSTEM, PTO_ENOMEM. */
int timeline_export(const struct trace_slices *slices, trace_exporter_fn write, const char *path,
                    struct pto_error *error);

#endif
