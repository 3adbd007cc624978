/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The submit of a usual task (graph/submit.h) for a caller whose arguments are not laid out as
 * ours: to translate all of them costs as much as a small task.
 */
#ifndef PTO_SUBMISSION_H
#define PTO_SUBMISSION_H

#include "graph/submit.h"
#include "orch/orch.h"

/* The task gets its turn if it is ready. */
static inline int orch_hand_over(struct orch *o, struct submitted s)
{
    return s.end == SUBMIT_READY ? sched_hand_over(o->submitter, s.slot) : PTO_OK;
}

/* Whether the handle is that of a run whose tasks start at once and whose submits nobody watches. */
static inline bool orch_is_plainly_streamed(const struct pto_orch *handle)
{
    return handle->ops->submit == orch_submit_streamed;
}

/*
 * A kernel on one lane that runs once, for runs that are plainly streamed; whoever calls has just
 * asked orch_has_news. Of `args` only what the form has is looked at: counts, tensors, tags and
 * scalars; there are no outputs. Returns what graph_submit_as does. SUBMIT_STOPPED: it is not as
 * simple as that, and the submit of the table is to be called. A ready task goes into the deque.
 */
__attribute__((always_inline)) static inline struct submitted orch_submit_as(
    struct orch *o, const struct pto_kernels *kernels, const struct pto_args *args,
    const struct pto_site *site, struct pto_outputs *out, enum form form)
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
