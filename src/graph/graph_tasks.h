/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph for a client that schedules its tasks itself: a submit returns the task's
 * slot, and the client completes that slot when the task has ended. src/sched/ does not
 * use these functions: there, several threads complete tasks at the same time.
 *
 * One thread at a time may be in the graph: the client holds a lock around every call, so nothing
 * here is an atomic read-modify-write.
 *
 *     graph_submit_task   the task waits, or is ready
 *     graph_complete      the task has ended: its successors are counted down
 *     graph_free_task     its memory and its slot can be used again
 *
 * The client may keep the slot for any time between the last two. A later submit that depends on
 * such a task gets no edge to it, but `ended_fn` of struct graph_params is called.
 */
#ifndef PTO_GRAPH_TASKS_H
#define PTO_GRAPH_TASKS_H

#include "graph/graph.h"

struct graph_task {
    struct slot *slot; /* NULL: the submit was refused before it had a slot */
    bool is_ready;
};

/*
 * Submits one task. If it is refused after it got a slot, other tasks may already wait for it: then
 * *task_out is that slot, now of an empty task, which the client has to complete like any other.
 * After PTO_ENOMEM there is no slot, and the graph must be restarted.
 */
int graph_submit_task(struct graph *g, const struct pto_kernels *kernels,
                      const struct pto_args *args, const struct pto_site *site,
                      struct pto_outputs *out, struct graph_task *task_out);

/*
 * Called by the client when a task has ended, or a join was ready. Calls `each` for every slot that
 * waits for it, the latest first; is_ready: this was the slot's last predecessor. `each` must not
 * submit or complete anything.
 */
void graph_complete(struct slot *s, void (*each)(void *context, struct slot *next, bool is_ready),
                    void *context);
/*
 * Frees the slot of a completed task, and the outputs of other tasks that only this task still
 * retained.
 */
void graph_free_task(struct graph *g, struct slot *s);

/* Whether `after` waits for `before`, directly or through joins. */
bool graph_waits_for(const struct slot *before, const struct slot *after);

/* Returns the slot whose `number` is this one. */
static inline struct slot *graph_slot_numbered(const struct graph *g, uint32_t number)
{
    return graph_slot(g, g->info[number].line);
}

#endif
