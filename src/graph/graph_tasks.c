/* SPDX-License-Identifier: Apache-2.0 */
/* Submit, complete, free: the graph for clients that schedule their tasks themselves. */
#include "graph/graph_tasks.h"

#include "graph/submit.h"

int graph_submit_task(struct graph *g, const struct pto_kernels *kernels,
                      const struct pto_args *args, const struct pto_site *site,
                      struct pto_outputs *out, struct graph_task *task_out)
{
    uint32_t seq = g->seq;
    struct slot *ready = NULL;
    int status = graph_submit(g, kernels, args, site, out, &ready);

    *task_out = (struct graph_task){ NULL, false };
    if (status == PTO_ENOMEM || g->seq == seq)
        return status;
    task_out->slot = graph_slot_numbered(g, g->recent[seq % GRAPH_RECENT]);
    task_out->is_ready = ready == task_out->slot;
    /* refused after it got a slot: the client completes the slot like that of an empty task */
    if (status < 0) {
        g->live++;
        task_out->is_ready = arm_task(g, task_out->slot);
    }
    return status;
}

void graph_complete(struct slot *s, void (*each)(void *context, struct slot *next, bool is_ready),
                    void *context)
{
    struct edge *e = aptr_load_relaxed(&s->successors); /* accessed by one thread */

    /* a task completes only once, so its list of successors is not sealed yet */
    port_check(e != SLOT_SEALED);
    aptr_store_relaxed(&s->successors, SLOT_SEALED); /* accessed by one thread */
    while (e != NULL) {
        struct slot *next = e->self;
        uint32_t left = a32_load_relaxed(&next->pending) - 1; /* accessed by one thread */

        port_check(left != UINT32_MAX);
        e = e->next; /* read first: the edge lies in the slot of `next`, which `each` may reuse */
        a32_store_relaxed(&next->pending, left); /* accessed by one thread */
        each(context, next, left == 0);
    }
}

void graph_free_task(struct graph *g, struct slot *s)
{
    port_check(aptr_load_relaxed(&s->successors) == SLOT_SEALED); /* accessed by one thread */
    if ((s->flags & (SLOT_HAS_BUFFER | SLOT_HAS_RETAINED)) != 0)
        graph_release_task(g, s, true);
    graph_retire(g, s->number);
}

bool graph_waits_for(const struct slot *before, const struct slot *after)
{
    const struct edge *e = aptr_load_relaxed(&before->successors); /* accessed by one thread */

    if (e == SLOT_SEALED)
        return false;
    for (; e != NULL; e = e->next)
        if (e->self == after || (slot_is_join(e->self) && graph_waits_for(e->self, after)))
            return true;
    return false;
}
