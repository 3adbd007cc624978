/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timeline of a worker of level 3: one file for all its processes, on one clock.
 *
 *     pto_worker_trace_begin(worker, PTO_TRACE_TIMES);
 *     pto_worker_run(worker, orchestrate, context, &report);
 *     pto_worker_trace_write(worker, "timeline.json", &error);
 */
#ifndef PTO_API_WORKER_TRACE_H
#define PTO_API_WORKER_TRACE_H

#include "pto/trace.h"
#include "pto/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/*
 * Starts recording every task of the runs that begin from here on; `chips` sets how much is
 * recorded of kernels on chips. Discards earlier records. PTO_EBUSY: runs are in progress, or the
 * timeline is being written.
 */
int pto_worker_trace_begin(struct pto_worker *worker, enum pto_trace chips);

/*
 * Ends the recording and writes it as a timeline for ui.perfetto.dev. The timeline has a process
 * for the orchestrations, with a slice for each orchestration and a span for each run, and a
 * process for each child, with a slice for each task: callable, source line of the submit, status.
 * A flow leads from each submit to its slice. Below the tasks of a chip are the cores that ran its
 * kernels; a nested worker has processes like the outermost one. A path that ends in .ptrec gets a
 * recording (pto/recording.h) instead: a group for the worker with the tasks of all children, and a
 * group for each chip with the kernels of its tasks. PTO_EBUSY: runs are in progress. PTO_EINVAL:
 * nothing was recorded; for .ptrec, no task was submitted. PTO_ENOSUP: the path ends in .pftrace, a
 * format of one chip. `error` may be NULL.
 */
int pto_worker_trace_write(struct pto_worker *worker, const char *path, struct pto_error *error);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
