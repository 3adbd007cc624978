/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The submit of a usual task (graph/submit.h), for callers whose arguments have another layout.
 * They convert only the fields that are read, because converting all costs as much as a small task.
 */
#ifndef PTO_SUBMISSION_H
#define PTO_SUBMISSION_H

#include "graph/submit.h"
#include "orch/orch.h"

/* Gives the task to the submitter's worker if it is ready. */
static inline int orch_hand_over(struct orch *o, struct submitted s)
{
    return s.end == SUBMIT_READY ? sched_hand_over(o->submitter, s.slot) : PTO_OK;
}

/* Whether the handle's run is streamed and has no observers, recorders or limits. */
static inline bool orch_is_plainly_streamed(const struct pto_orch *handle)
{
    return handle->ops->submit == orch_submit_streamed;
}

/*
 * Submits a task with one kernel that runs once, in a run for which orch_is_plainly_streamed is
 * true. The caller has just checked orch_has_news. Of `args` only the fields of this form are read:
 * counts, tensors, tags and scalars; there are no outputs. Returns what graph_submit_as returns;
 * the caller must push a ready task. SUBMIT_STOPPED: the caller must use the submit function of the
 * table.
 */
__attribute__((always_inline)) static inline struct submitted orch_submit_as(
    struct orch *o, const struct pto_kernels *kernels, const struct pto_args *args,
    const struct pto_site *site, struct pto_outputs *out, enum task_form form)
{
    struct submitted s;

    if (!orch_is_builder(o) || o->quota <= 0)
        return submit_stopped;
    s = graph_submit_as(o->graph, kernels, args, site, out, form);
    if (s.end != SUBMIT_STOPPED)
        o->quota--;
    return s;
}

#endif
