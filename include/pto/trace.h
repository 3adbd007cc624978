/* SPDX-License-Identifier: Apache-2.0 */
/* The flight recorder: what a run records of its tasks, and the timeline made from it. */
#ifndef PTO_API_TRACE_H
#define PTO_API_TRACE_H

#include "pto/device.h"
#include "pto/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* How much is recorded. bench/README.md has the costs. */
enum pto_trace {
    PTO_TRACE_OFF,
    PTO_TRACE_ORDER,    /* order and ids of all tasks, with a time for every 16th */
    PTO_TRACE_TIMES,    /* when each task began and ended */
    PTO_TRACE_ARGUMENTS /* the same, and of each task its submit line, arguments, shapes and scalars */
};

/*
 * Writes the timeline of the last recorded run, successful or not, for
 * ui.perfetto.dev: a track for each simulated core, a slice for each execution, tracks
 * for dummies, for tasks that their predicate skipped and for those that never ran, a
 * flow for each dependency that was wired (see `edges` of struct pto_run_report),
 * counters of live and ready tasks, and how many records were lost. The file is
 * written completely or not at all. PTO_EINVAL: nothing was recorded. `error` may be
 * NULL.
 */
int pto_trace_write(struct pto_device *device, const char *path, struct pto_error *error);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
