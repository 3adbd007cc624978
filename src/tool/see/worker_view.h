/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Analyses a level-3 worker: which child was busy and why the others were not, the critical path
 * through the worker's tasks, and what limited the worker. Each child is analysed by its own tasks,
 * because a task can run only on the children that its submit names. The results point into the
 * recording, which must outlive them.
 */
#ifndef PTO_SEE_WORKER_VIEW_H
#define PTO_SEE_WORKER_VIEW_H

#include "tool/see/verdict.h"

struct see_child {
    uint32_t lane; /* index of the child's lane in the recording */
    uint32_t tasks;
    /*
     * time of the child in each state; time between tasks counts as what the next task waited for
     */
    uint64_t ns[SEE_IDLE_REASONS];
    uint64_t waited_ns; /* the longest time for which the child waited for data */
    /* task whose end ended that longest wait; PTO_RECORDING_NONE: there was none */
    uint32_t waited_for;
};

struct see_worker {
    const struct see_recording *r;
    struct see_work work;
    struct see_path path;
    struct see_kernel_table callables;
    struct see_child *child;
    uint32_t child_count;
    uint64_t chain_ns; /* length of the longest path through the graph of tasks */
    /* lower bound of the makespan: the longest of the chain and of each child's work */
    uint64_t bound_ns;
    struct see_verdict verdict;
};

/* Returns the index of the first group that is a worker; PTO_RECORDING_NONE: there is none. */
uint32_t see_worker_group(const struct see_recording *r);
/*
 * Analyses a worker. Returns PTO_OK, PTO_ENOMEM, or PTO_EINVAL if no child ran a task; then `error`
 * has a sentence, and *out is unchanged.
 */
int see_worker_make(const struct see_recording *r, uint32_t group, struct see_worker **out,
                    struct pto_error *error);
/* Accepts NULL. */
void see_worker_free(struct see_worker *w);
/* Formats the name of a child, such as "chip 0", "SUB worker 2"; returns `text`. */
char *see_child_name(const struct see_recording *r, uint32_t lane, char text[32]);

#endif
