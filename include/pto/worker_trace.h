/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timeline of a worker of level 3: one file for all its processes, whose clock is one.
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
 * Records every task of the runs that begin from here on; `chips` is what runs on chips record of their
 * kernels. Forgets what was recorded before. PTO_EBUSY: runs are going on, or it is being written.
 */
int pto_worker_trace_begin(struct pto_worker *worker, enum pto_trace chips);

/*
 * Ends the recording and writes it for ui.perfetto.dev: a process for the orchestrations, with a
 * slice for each and a span for each run, and one for each child, with a slice for each task: callable,
 * place of the submit, status. A flow leads from each submit to its slice. Below the
 * tasks of a chip are the cores that ran its kernels; nested workers have processes like the
 * root's. PTO_EBUSY: runs are going on. PTO_EINVAL: nothing
 * was recorded. `error` may be NULL.
 */
int pto_worker_trace_write(struct pto_worker *worker, const char *path, struct pto_error *error);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
