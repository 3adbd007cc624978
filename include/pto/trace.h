/* SPDX-License-Identifier: Apache-2.0 */
/* The flight recorder: what a run records about its tasks, and the timeline made from it. */
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

/*
 * The formats of a recorded run: X(name, ending). The ending of a path selects a format; the first
 * one is for paths with other endings.
 */
#define PTO_TRACE_FORMAT_MAP(X) \
    X(perfetto, ".json")        \
    X(recording, ".ptrec")      \
    X(track_event, ".pftrace")

/* How much a run records. bench/README.md has the costs. */
enum pto_trace {
    PTO_TRACE_OFF,
    PTO_TRACE_ORDER, /* order and ids of all tasks, with a time for every 16th */
    PTO_TRACE_TIMES, /* when each task began and ended */
    /* as PTO_TRACE_TIMES, and also source line, arguments, shapes and scalars of each task */
    PTO_TRACE_ARGUMENTS
};

/*
 * The five diagnostics of simpler, in its file formats and under its file names, for its viewers
 * and other tools that read them. docs/compat/diagnostics.md describes their content. A selected
 * diagnostic is recorded as with PTO_TRACE_ARGUMENTS and written when the run has ended, successful
 * or not, before the next run begins. If a file cannot be written, an otherwise successful run
 * fails with PTO_ESYSTEM.
 */
struct pto_diagnostics {
    /* folder for the files, required if any is selected; copied; created if absent */
    const char *folder;
    /*
     * chip_swimlane_records.json. 0: not written; 1: begin and end of each kernel; 2: also when its
     * task was given to a core and taken back; 3: also the activity of the schedulers; 4: also each
     * submit.
     */
    uint8_t swimlane;
    /*
     * args_dump/: arguments of tasks, and the bytes of tensors before and after each task. 0: not
     * written; 1: the arguments that the orchestration marked (pto_dump); 2: all arguments; 3: all
     * arguments, but bytes of marked ones only.
     */
    uint8_t args;
    /* pmu.csv: group of counters, 1, 2 or 4 to 8 (another number: 2). 0: not written */
    uint8_t pmu;
    bool has_deps;   /* deps.json: tasks, tensors, and all edges with their reasons */
    bool has_scopes; /* scope_stats/scope_stats.jsonl: how full the rings were; PTO_MODE_STREAM */
    bool has_names;  /* name_map.json: names of kernels, which the other files lack */
    uint8_t reserved[2]; /* must be 0 */
};

/*
 * Writes the timeline of the last recorded run, successful or not, as a file for ui.perfetto.dev.
 * It has a track for each simulated core with a slice for each invocation; tracks for dummies, for
 * tasks that their predicate skipped and for tasks that never ran; a flow for each dependency that
 * was wired (see `edges` of struct pto_run_report); counters of live and ready tasks; and the
 * number of lost records. A path that ends in .pftrace gets the same content in Perfetto's binary
 * format; one that ends in .ptrec gets a recording, the compact file of pto/recording.h. The file
 * is written completely or not at all. PTO_EINVAL: nothing was recorded. `error` may be NULL.
 */
int pto_trace_write(struct pto_device *device, const char *path, struct pto_error *error);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
