/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker of level 3 or above, as its own process sees it. Each subject has a header:
 *
 *     tree_child.h      children                 tree_domain.h   domains over chips
 *     tree_task.h       tasks and their graph    tree_region.h   regions and queues
 *     tree_callable.h   callables                tree_run.h      runs, and their time
 *     tree_memory.h     allocations, copies      tree_trace.h    timelines, and what others see
 *     tree_nested.h     children that are workers
 *
 * worker.c opens and closes it. child_serve.c is the other side: what a child does.
 *
 * `lock` protects everything here but what says otherwise. Nothing in it waits for a child: a thread that
 * has to wait leaves it (tree_await). A thread that waits takes what the children have sent and hands out
 * what is ready (tree_drive); if none waits, a thread of the worker does.
 * The graph is used under the lock, so for it there is one thread (graph->is_shared is false).
 */
#ifndef PTO_TREE_H
#define PTO_TREE_H

#include <pthread.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/lock.h"
#include "tree/tree_callable.h"
#include "tree/tree_child.h"
#include "tree/tree_memory.h"
#include "tree/tree_nested.h"

enum { TREE_DOMAINS = 256 };

/* The public handles: a level is a run that is being built. */
struct tree {
    pthread_mutex_t lock;
    uint32_t *own_process;
    uint32_t child_count;
    uint32_t chip_count;
    struct pto_worker_params params; /* platform is ours */
    char platform[TREE_PLATFORM];

    int memory; /* the file */
    char *base;
    uint64_t bytes;
    struct arena *arena;
    bool keeps_memory; /* at its end: somebody else frees the arena */
    struct tree_shared *shared;
    struct spin_policy spin_policy;
    struct tree_allocation *allocation; /* by address */
    uint32_t allocation_count, allocation_room;
    struct tree_allocation freed[TREE_FREED]; /* the last ones */
    uint32_t freed_count;
    struct tree_domain *domain[TREE_DOMAINS]; /* NULL: free */
    uint32_t domain_generation[TREE_DOMAINS];
    uint32_t domain_count;
    struct tree_domain *leaving; /* over cards, and over; some child has not left it yet */
    struct tree_region *regions; /* that are open */
    void *staging; /* memory for copies outside of runs that none has; NULL: not yet */
    char *heap;
    uint64_t heap_bytes;

    struct tree_child child[TREE_CHILDREN_MAX];
    struct tree_list flexible[TREE_LISTS]; /* the last one: children are those of each task */
    uint32_t flexible_count;               /* in all of them */
    uint32_t open_count;                   /* tasks in flight that can be taken back */
    struct tree_queue over;                /* that have ended, and are not completed yet */
    bool is_settling;
    uint32_t ready_count; /* in all queues but `over` */
    uint64_t order;
    uint64_t key; /* of requests */
    struct tree_request *requests;
    struct tree_callable callable[TREE_CALLABLES + 1]; /* the last one is the copy */

    struct graph graph;
    struct pool_budget budget, heap_budget;
    struct graph_kernel kernel; /* stands for all callables */
    bool is_graph_broken;       /* it ran out of memory: nothing more until it is empty */
    struct tree_task *task;     /* by slot */
    uint32_t task_room;
    struct tree_run *building;
    uint32_t kept_count; /* tasks, and joins, of state TASK_KEPT */
    struct tree_task
        next;         /* what is known of a task before it is submitted: the line of failures */
    uint32_t submits; /* counts some, to look for answers between them */

    struct tree_trace *trace; /* NULL: nothing was recorded */
    bool is_traced;           /* what happens now is */

    struct tree_run *runs; /* that have not ended */
    uint32_t run_count;    /* that are not finished */
    uint64_t run_number;   /* of the last one */
    uint32_t timed_runs;   /* with a deadline */

    uint32_t waiting;   /* threads in tree_await */
    bool is_parked;     /* the background thread, on `work` */
    struct a32 changes; /* counts what threads other than the one that drives may wait for */
    bool has_background;
    struct a32 work; /* it sleeps on it */
    struct a32 is_closing;
    pthread_t background;
    struct watcher watcher;
    const char **program;     /* of the children; NULL: pto-child */
    const char **sub_program; /* of SUB workers and nested ones; NULL: program */
    uint32_t level;           /* 3, or one more than the highest of the nested ones */
    uint32_t sub_count;       /* behind the chips */
    struct tree_outer outer;  /* map NULL: it is the root */
};

/* worker.c: the number of the device that a chip is. */
uint32_t tree_device_of(const struct pto_worker_params *params, uint32_t chip);

/* worker.c: NULL with a status: no such worker, or it is the parent's. */
struct tree *worker_get(const struct pto_worker *worker, int *status_out);

/* Where the memory begins that all processes have mapped. */
static inline char *tree_map(const struct tree *t)
{
    return t->outer.map != NULL ? t->outer.map : t->base;
}
/* How many nested workers are above; 0: it is the root. */
static inline uint32_t tree_depth(const struct tree *t)
{
    return t->outer.map != NULL ? t->outer.nested->depth : 0;
}

static inline struct tree_task *tree_task_of(struct tree *t, const struct slot *s)
{
    return &t->task[s->number];
}

static inline struct slot *tree_slot(struct tree *t, uint32_t number)
{
    return graph_slot_numbered(&t->graph, number);
}

#endif
