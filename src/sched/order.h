/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order in which a worker takes its ready tasks when the run has a seed. Every order is legal,
 * but it makes programs fail that rely on more than their dependencies: the last submit runs first,
 * a kernel's tasks wait for those of all other kernels, or some tasks are held back while any other
 * is ready. The seed determines which order; consecutive seeds go through all of them. With one
 * worker, equal seeds give equal orders.
 */
#ifndef PTO_ORDER_H
#define PTO_ORDER_H

#include "sched/sched.h"

enum order_way {
    ORDER_OLDEST,
    ORDER_KERNELS, /* all tasks of a kernel before those of the next kernel */
    ORDER_DELAYS,  /* oldest first, but every eighth task, chosen by the seed, is held back */
    ORDER_NEWEST,
    ORDER_RANKS, /* each task has a random rank */
    ORDER_RANDOM,
    ORDER_WAYS
};

/* Sets the worker's order until the next call; seed 0 selects the usual order, newest first. */
void order_start(struct worker *w, uint64_t seed);
/* Takes a task out of the worker's deque, which must not be empty. The worker must have a seed. */
struct slot *order_pop(struct worker *w);
/* How many tasks may be live before the submitter stops to run some. The seed must not be 0. */
uint32_t order_live_max(uint64_t seed);

#endif
