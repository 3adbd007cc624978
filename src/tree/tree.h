/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker of level 3 or above, in its own process. Each subject has a header:
 *
 *     tree_child.h      children                 tree_domain.h   domains over chips
 *     tree_task.h       tasks and their graph    tree_region.h   regions and queues
 *     tree_callable.h   callables                tree_run.h      runs, and their time
 *     tree_memory.h     allocations, copies      tree_trace.h    timelines, and what observers see
 *     tree_nested.h     children that are workers
 *     tree_clock.h      virtual time
 *
 * worker.c opens and closes it. child_serve.c is the child's side.
 *
 * `lock` protects everything here except where noted. No thread waits for a child while it holds
 * the lock: tree_await releases it. A thread that waits drives: it reads the records of the
 * children and gives them ready tasks (tree_drive); if no thread waits, the worker's background
 * thread drives. The graph is used under the lock, so it behaves as with one thread
 * (graph->is_shared is false).
 */
#ifndef PTO_TREE_H
#define PTO_TREE_H

#include <pthread.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/lock.h"
#include "tree/tree_callable.h"
#include "tree/tree_child.h"
#include "tree/tree_clock.h"
#include "tree/tree_memory.h"
#include "tree/tree_nested.h"

enum { TREE_DOMAINS = 256 };

/*
 * A worker. The handle struct pto_worker refers to one. The handle struct pto_level, which an
 * orchestration gets, refers to the run that the orchestration builds.
 */
struct tree {
    pthread_mutex_t lock;
    uint32_t *own_process;
    uint32_t child_count;
    uint32_t chip_count;
    struct pto_worker_params params; /* the platform's name is copied to `platform` */
    char platform[TREE_PLATFORM];

    int memory; /* descriptor of the file that is the shared memory */
    char *base;
    uint64_t bytes;
    struct arena *arena;
    /*
     * pto_worker_close_keeping has given the arena to its caller: closing the worker does not free
     * it
     */
    bool keeps_memory;
    struct tree_shared *shared;
    struct spin_policy spin_policy;
    struct tree_allocation *allocation; /* allocations of the worker, sorted by address */
    uint32_t allocation_count, allocation_room;
    /* the latest allocations that were freed, which tasks may still name */
    struct tree_allocation freed[TREE_FREED];
    uint32_t freed_count;
    /* domains of the worker by index; NULL: the index is free */
    struct tree_domain *domain[TREE_DOMAINS];
    uint32_t domain_generation[TREE_DOMAINS];
    uint32_t domain_count;
    /* domains over cards that were closed, but that some child still uses */
    struct tree_domain *leaving;
    struct tree_region *regions; /* list of open regions */
    void *staging;               /* spare memory for copies outside of runs; NULL: none yet */
    char *heap;
    uint64_t heap_bytes;

    struct tree_child child[TREE_CHILDREN_MAX];
    /*
     * ready tasks that several children could run: a list for each set of children; the last list
     * has the tasks for all sets that have no list
     */
    struct tree_list flexible[TREE_LISTS];
    uint32_t flexible_count; /* tasks in all lists of `flexible` */
    /* tasks in flight that can be taken back, because another child could run them */
    uint32_t open_count;
    /*
     * tasks that have ended, but are still counted as unfinished predecessors of their successors
     */
    struct tree_queue over;
    bool is_settling;
    uint32_t ready_count; /* ready tasks that wait in queues or in lists for a child */
    uint64_t order;
    uint64_t key; /* number (`key`) of the latest request to a child; the answer repeats it */
    struct tree_request *requests;
    struct tree_callable callable[TREE_CALLABLES + 1]; /* the last entry is the copy task */

    struct graph graph;
    struct pool_budget budget, heap_budget;
    struct graph_kernel kernel; /* the graph's only kernel, for all callables */
    /*
     * the graph ran out of memory: submits are refused until the graph is empty and was restarted
     */
    bool is_graph_broken;
    /* states of tasks, indexed by the number of the slot */
    struct tree_task *task;
    uint32_t task_room;
    struct tree_run *building;
    uint32_t kept_count; /* number of tasks and joins in state TASK_KEPT */
    /* state of the task that is submitted next, if it comes after a failed one (tree_failed.c) */
    struct tree_task next;
    /* number of submits: after every few of them, the children's answers are read */
    uint32_t submits;

    struct tree_clock clock;
    struct tree_trace *trace; /* NULL: nothing was recorded */
    bool is_traced;           /* a recording is active */
    /*
     * index in the recording, plus 1, of the ended task whose successors are being released; 0:
     * none
     */
    uint32_t settling;

    struct tree_run *runs; /* list of runs that have not ended */
    uint32_t run_count;    /* number of runs that have not been finished by their callers */
    uint64_t run_number;   /* number of the latest run, counted from 1 */
    uint32_t timed_runs;   /* number of runs that have a deadline */

    uint32_t waiting; /* number of threads in tree_await */
    bool is_parked;   /* the background thread sleeps on `work` */
    /* incremented by each change that a thread in tree_await may wait for */
    struct a32 changes;
    bool has_background;
    struct a32 work; /* futex on which the background thread sleeps */
    struct a32 is_closing;
    pthread_t background;
    struct watcher watcher;
    /* program that the children run, with its arguments; NULL: pto-child */
    const char **program;
    const char **sub_program; /* program that SUB workers and nested workers run; NULL: `program` */
    /* level of this worker: 3, or one more than the highest level of its nested workers */
    uint32_t level;
    uint32_t sub_count; /* SUB workers are numbered after the chips */
    /* for a nested worker, its part of the root's memory; map NULL: this worker is the root */
    struct tree_outer outer;
};

/* worker.c: returns the device number of a chip. */
uint32_t tree_device_of(const struct pto_worker_params *params, uint32_t chip);

/*
 * worker.c: returns the worker of a handle. NULL with a status: the handle is invalid, or it was
 * inherited by a fork.
 */
struct tree *worker_get(const struct pto_worker *worker, int *status_out);

/* Returns the start of the shared memory, which all processes of the tree have mapped. */
static inline char *tree_map(const struct tree *t)
{
    return t->outer.map != NULL ? t->outer.map : t->base;
}
/* Returns the number of workers above this one; 0: this worker is the root. */
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
