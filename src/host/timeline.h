/* SPDX-License-Identifier: Apache-2.0 */
/* What is recorded of a device's last run, for whoever writes files of it. */
#ifndef PTO_TIMELINE_H
#define PTO_TIMELINE_H

#include "host/host.h"
#include "trace/snapshot.h"

/* While no run begins. The slices point to the snapshot; the caller frees them. */
int timeline_take(struct device *device, struct trace_snapshot *snapshot,
                  struct trace_slices *slices_out, struct pto_error *error);
/* Writes a file: whole or not at all. `put` returns a negative status if it gives up. */
int timeline_put(const char *path, int (*put)(const void *context, FILE *out), const void *context,
                 struct pto_error *error);
/* Whole or not at all. PTO_ESYSTEM, PTO_ENOMEM. */
int timeline_export(const struct trace_slices *slices, trace_exporter_fn write, const char *path,
                    struct pto_error *error);

#endif
