/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph for a client that schedules its tasks itself: a submit returns the task's
 * slot, and the client completes that slot when the task has ended. src/sched/ does not
 * use these functions: there, several threads complete tasks at the same time.
 *
 * One thread at a time may be in the graph: the client holds a lock around every call.
 * So nothing here is an atomic read-modify-write.
 *
 *     graph_submit_task   the task waits, or is ready
 *     graph_complete      it has ended: its successors are counted down
 *     graph_free_task     its memory and its slot can be used again
 *
 * Between the last two the slot may stay for as long as the client likes. A submit that
 * comes after such a task gets no edge to it, but `ended_fn` of struct graph_params is called.
 */
#ifndef PTO_GRAPH_TASKS_H
#define PTO_GRAPH_TASKS_H

#include "graph/graph.h"

struct graph_task {
    struct slot *slot; /* NULL: the submit was refused before it had one */
    bool is_ready;
};

/*
 * Submits one task. If a submit is refused when it has a slot already, on which others may
 * wait, then *task_out is that slot: a task that stands for nothing, which the client has to
 * complete like any other. After PTO_ENOMEM there is none: the graph has to be started again.
 */
int graph_submit_task(struct graph *g, const struct pto_kernels *kernels,
                      const struct pto_args *args, const struct pto_site *site,
                      struct pto_outputs *out, struct graph_task *task_out);

/*
 * A task, or a join, that was ready has ended. Calls `each` for every slot that waits for it,
 * the latest first, with whether it was the last one that that slot waited for. `each` may
 * submit nothing and complete nothing.
 */
void graph_complete(struct slot *s, void (*each)(void *context, struct slot *next, bool is_ready),
                    void *context);
/* Gives back the slot of a completed task, and the outputs that only this task kept alive. */
void graph_free_task(struct graph *g, struct slot *s);

/* Whether `after` waits for `before`, directly or through joins. */
bool graph_waits_for(const struct slot *before, const struct slot *after);

/* The slot with this number, which is `number` of struct slot. */
static inline struct slot *graph_slot_numbered(const struct graph *g, uint32_t number)
{
    return graph_slot(g, g->info[number].line);
}

#endif
