/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The submit of a bare task (graph/submit.h) for a caller whose arguments are not laid out as
 * ours: a task that has none to speak of costs more to translate than to submit.
 */
#ifndef PTO_SUBMISSION_H
#define PTO_SUBMISSION_H

#include "graph/submit.h"
#include "orch/orch.h"

/* The task gets its turn if it is ready. */
static inline int orch_hand_over(struct orch *o, struct slot *ready)
{
    return ready != NULL ? sched_push_line(o->submitter, graph_slot_line(o->graph, ready)) : PTO_OK;
}

/* Whether the handle is that of a run whose tasks start at once and whose submits nobody watches. */
static inline bool orch_is_plainly_streamed(const struct pto_orch *handle)
{
    return handle->ops->submit == orch_submit_streamed;
}

/*
 * A kernel that runs once, with one scalar or none; for runs that are plainly streamed. False: it
 * is not as simple as that. Nothing has happened then, and the submit of the table is to be called.
 */
__attribute__((always_inline)) static inline bool orch_submit_bare(
    struct orch *o, const struct pto_kernels *kernels, uint32_t scalar_count, uint64_t scalar,
    const struct pto_site *site, struct pto_task_id *task)
{
    struct pto_args args; /* what a bare task has of it; the compiler keeps it in registers */
    struct pto_outputs out;
    struct slot *ready;

    if (!orch_is_builder(o) || !has_one_lane(kernels) || o->quota <= 0 || orch_has_news(o))
        return false;
    args.scalar_count = scalar_count;
    args.scalar[0] = scalar;
    ready = graph_submit_as(o->graph, kernels, &args, site, &out, FORM_BARE);
    if (ready == SUBMIT_STOPPED)
        return false;
    o->quota--;
    *task = out.task;
    (void)orch_hand_over(o, ready);
    return true;
}

#endif
