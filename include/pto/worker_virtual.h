/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual time of a worker that was opened with `is_virtual`: one clock for the worker, its chips
 * (pto/virtual.h) and its SUB workers. Virtual time passes while the program waits for a run. The
 * worker itself, copies, and orchestrations of level 3 take no virtual time.
 */
#ifndef PTO_API_WORKER_VIRTUAL_H
#define PTO_API_WORKER_VIRTUAL_H

#include "pto/virtual.h"
#include "pto/worker.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/*
 * Sets the durations of kernels and SUB functions for the runs that follow. A cost names a kernel
 * of a chip, or a callable for SUB workers; a SUB function without a cost takes the CPU time of its
 * call, which differs from run to run. With is_planned_only, SUB functions are not called either,
 * and take kernel_ns without a cost. Everything is copied. PTO_ENOSUP: the worker has no virtual
 * time. PTO_EINVAL: a formula is invalid. PTO_EBUSY: runs are active. `error` may be NULL.
 */
int pto_worker_virtual_set(struct pto_worker *worker, const struct pto_virtual_options *options,
                           struct pto_error *error);

/* Virtual times of the last run of a worker, or of the last runs that overlapped. */
struct pto_worker_virtual_report {
    size_t size;
    uint64_t makespan_ns;
    uint64_t path_ns; /* duration of the longest chain of tasks that waited for each other */
    /* number of calls of SUB functions whose duration was their CPU time, for lack of a cost */
    uint64_t measured;
    uint32_t child_count;
    uint32_t reserved;
    uint64_t busy_ns[PTO_CHILDREN_MAX]; /* sum of the durations of each child's tasks */
};

/* Initialises the struct for a call that fills it in. */
static inline void pto_worker_virtual_report_init(struct pto_worker_virtual_report *report)
{
    if (report == NULL)
        return;
    memset(report, 0, sizeof(*report));
    report->size = sizeof(*report);
}

/*
 * Fills in the report on the last run of a worker. PTO_ENOSUP: the worker has no virtual time.
 * PTO_EBUSY: runs are active.
 */
int pto_worker_virtual_report(struct pto_worker *worker, struct pto_worker_virtual_report *report);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
