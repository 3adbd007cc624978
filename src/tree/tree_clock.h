/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual time of a worker (tree_clock.c): one clock for the worker and its children
 * (link/shared_clock.h). A child gets a task at a virtual time, at which its chip then begins the
 * run; it reports the task's end when no other process can still act at an earlier virtual time
 * (its turn). So the worker gets the ends of tasks in the order of virtual time, and no child acts
 * later than the worker, before it has given out what became ready.
 *
 * Virtual time passes only while the program waits for a run and no orchestration builds one. What
 * a program does between runs, and the worker itself, take no virtual time.
 */
#ifndef PTO_TREE_CLOCK_H
#define PTO_TREE_CLOCK_H

#include "link/shared_clock.h"
#include "pto/worker_virtual.h"

struct tree;
struct tree_task;

/* Members of the shared clock: the worker, then its children. */
enum { TREE_CLOCK_WORKER, TREE_CLOCK_CHILDREN };

/*
 * Costs, in the shared memory: a copy of the caller's options; its pointers are valid everywhere.
 */
struct wire_costs {
    struct pto_virtual_options options;
    struct pto_virtual_cost cost[];
};

struct tree_clock {
    struct shared_clock *shared; /* NULL: the worker is in real time */
    uint64_t now_ns;
    /* children without tasks whose time is still that of their last task, a bit for each */
    uint64_t ended;
    uint32_t waiting; /* number of threads that wait for something that takes virtual time */
    bool is_polled;   /* the program learns by polling or by a descriptor that a run has ended */
    bool is_open;     /* virtual time may pass now */
    /* version of the shared clock when the time limits of tasks and runs were last checked */
    uint32_t version;
    struct wire_costs *costs; /* costs that the caller has set; NULL: the defaults */
    uint64_t begin_ns;        /* time at which the first run of the report began */
    struct pto_worker_virtual_report report;
};

void tree_clock_open(struct tree *t);
/* Returns the present time, virtual or real. */
uint64_t tree_clock_now(const struct tree *t);
/* Called when a child gets a task, which begins now. */
void tree_clock_give(struct tree *t, uint32_t child);
/*
 * Called when a child has no task any more. Time does not pass before the next tree_clock_update.
 */
void tree_clock_ended(struct tree *t, uint32_t child);
/* Adds a task that has ended to the report on virtual time. */
void tree_clock_count(struct tree *t, uint32_t child, struct tree_task *k, bool is_measured);
/* Lets virtual time pass or stops it, after anything that decides this has changed. */
void tree_clock_update(struct tree *t);
/*
 * Whether virtual time has passed since the last call. Always true while virtual time may not pass.
 */
bool tree_clock_has_moved(struct tree *t);
/*
 * Sets the error for a program that opens a region or a queue in virtual time, which is not
 * supported.
 */
int tree_clock_refuse_region(struct pto_error *error);
/* Whether no other child has to act before this one; always true in real time. */
bool tree_clock_is_first(const struct tree *t, uint32_t child);
/* Called before an orchestration builds a run. */
void tree_clock_begin_run(struct tree *t);
/* Sends the costs to children that were started after they were set. */
int tree_clock_send_costs(struct tree *t, uint64_t children, struct pto_error *error);

#endif
