/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which order a worker takes its ready tasks when the run has a seed. Every
 * order is legal. They are those in which a program goes wrong that relies on more
 * than its dependencies: what was submitted first comes last, a kernel's tasks wait
 * for all others, some tasks are held back for as long as there is anything else.
 *
 * The seed says which of these, and the rest; consecutive seeds go through all of
 * them. With one worker equal seeds give equal orders.
 */
#ifndef PTO_ORDER_H
#define PTO_ORDER_H

#include "sched/sched.h"

enum order_way {
    ORDER_OLDEST,
    ORDER_KERNELS, /* all tasks of a kernel before those of the next one */
    ORDER_DELAYS,  /* oldest first; but one task in eight is held back */
    ORDER_NEWEST,
    ORDER_RANKS, /* each task has a random rank */
    ORDER_RANDOM,
    ORDER_WAYS
};

/* The worker's order from now on; a seed of 0 is the usual one. */
void order_start(struct worker *w, uint64_t seed);
/* Takes a task out of the deque, which is not empty. The worker has a seed. */
struct slot *order_pop(struct worker *w);
/* How many tasks are alive before some are run. The seed is not 0. */
uint32_t order_live_max(uint64_t seed);

#endif
