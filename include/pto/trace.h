/* SPDX-License-Identifier: Apache-2.0 */
/* The flight recorder: what a run records of its tasks, and the timeline made from it. */
#ifndef PTO_API_TRACE_H
#define PTO_API_TRACE_H

#include <stdbool.h>
#include <stdint.h>

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
 * The five diagnostics of simpler, in its file formats and under its file names, for its viewers
 * and whoever has tools for them. docs/compat/diagnostics.md says what is in them. Whatever is asked for is
 * recorded as PTO_TRACE_ARGUMENTS does, and written when the run has ended, well or not, before the
 * next one begins. If a file cannot be written, a run that went well fails with PTO_ESYSTEM.
 */
struct pto_diagnostics {
    const char *folder; /* where the files go, needed for any; copied, made if it is not there */
    /*
     * chip_swimlane_records.json. 1: when each kernel began and ended; 2: and when its task was
     * handed to a core and taken back; 3: and what the schedulers did; 4: and each submit. 0: none.
     */
    uint8_t swimlane;
    /*
     * args_dump/: arguments of tasks, and the bytes of tensors before and after. 1: those that the
     * orchestration marked (pto_dump); 2: all; 3: all, with bytes of marked ones only. 0: none.
     */
    uint8_t args;
    uint8_t pmu;   /* pmu.csv: which group of counters, 1, 2 or 4 to 8; 2 for any other. 0: none */
    bool has_deps; /* deps.json: tasks, tensors, and all edges with their reasons */
    bool has_scopes; /* scope_stats/scope_stats.jsonl: how full the rings were; PTO_MODE_STREAM */
    bool has_names;  /* name_map.json: names of kernels, which the other files lack */
    uint8_t reserved[2]; /* 0 */
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
