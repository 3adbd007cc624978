/* SPDX-License-Identifier: Apache-2.0 */
/* What a run records, and the file that shows it. */
#ifndef PTO_API_TRACE_H
#define PTO_API_TRACE_H

#include "pto/device.h"
#include "pto/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* The flight recorder. What it costs is in bench/README.md. */
enum pto_trace {
    PTO_TRACE_OFF,
    PTO_TRACE_ORDER, /* order and ids of all tasks, a time stamp for every 16 of them */
    PTO_TRACE_TIMES  /* each task with the times of its begin and end */
};

/*
 * Writes the timeline of the last run that was recorded, whether it succeeded or
 * not, for ui.perfetto.dev: simulated cores as tracks, a slice an execution, a
 * flow a dependency, live and ready tasks as counters. Records that were lost
 * are counted in it. The file is written whole or not at all. PTO_EINVAL:
 * nothing was recorded. `error` may be NULL.
 */
int pto_trace_write(struct pto_device *device, const char *path, struct pto_error *error);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
