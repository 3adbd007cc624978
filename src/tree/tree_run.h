/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of a worker (tree_run.c). A thread that waits for a run drives the worker. Also their time
 * limits (tree_time.c), and options of their tasks on chips (tree_options.c).
 */
#ifndef PTO_TREE_RUN_H
#define PTO_TREE_RUN_H

#include <pthread.h>

#include "base/atomic.h"
#include "pto/worker.h"
#include "tree/tree_wire.h"

struct tree;
struct tree_child;
struct tree_options;

struct tree_run {
    struct tree *tree;
    struct tree_run *next; /* list of the runs that have not ended */
    uint64_t live;         /* number of the run's live tasks */
    bool is_building;
    bool is_waiting; /* the run's orchestration is blocked until other tasks end */
    bool is_cancelled;
    struct a32 has_ended; /* the run has ended; written under the lock, read without it */
    /* event descriptor that becomes readable at the end; -1: the caller did not request one */
    int event;
    bool is_abandoned;        /* the caller no longer waits for the run: it is freed when it ends */
    void *staging;            /* allocation that is freed together with an abandoned run */
    uint64_t begin_ns;        /* begin of the run in real time */
    uint64_t clock_begin_ns;  /* begin of the run by tree_clock_now, like built_ns */
    uint64_t built_ns;        /* time at which the orchestration returned */
    uint64_t number;          /* the run's number in the worker, counted from 1 */
    uint64_t deadline_ns;     /* deadline of the run; UINT64_MAX: none */
    uint64_t task_timeout_ns; /* time-out for the tasks that the orchestration submits next */
    /* options for the tasks that the orchestration submits next, as in struct record_head */
    uint32_t task_options;
    struct tree_options *options; /* list of all options that the run's tasks have */
    /*
     * slot of the first of the run's failed tasks that stay in the graph; the list is linked by
     * `next` of struct tree_task
     */
    uint32_t kept;
    /*
     * the graph's next sequence number when the end of the run was reported to the program; 0: not
     * reported yet
     */
    uint32_t reported_seq;
    pthread_t builder;
    struct pto_worker_report report;
};

/* The following is defined in tree_run.c. */
/*
 * Drives the worker until `holds`, which is called under the lock, returns true. Called and returns
 * with the lock. PTO_OK or PTO_ETIMEOUT.
 */
int tree_await(struct tree *t, bool (*holds)(void *context), void *context, uint64_t deadline_ns);
void tree_run_ended(struct tree_run *run);
/*
 * Like pto_worker_launch, but waits until the deadline for orchestrations of other threads to
 * return.
 */
int tree_launch(struct pto_worker *worker, pto_level_fn orchestration, void *context,
                uint64_t deadline_ns, struct pto_worker_run **run_out);
/* Gives up a launched run: when it ends, it is freed together with `staging`. */
void tree_run_abandon(struct pto_worker_run *run, void *staging);
/* Called when the worker closes: forgets the runs that have not ended. */
void tree_forget_runs(struct tree *t);
int tree_background_start(struct tree *t);
void tree_background_stop(struct tree *t);

/* The following is defined in tree_time.c. */
/* Returns the present time plus the duration; UINT64_MAX if the sum is too large. */
uint64_t tree_time_after(uint64_t timeout_ns);
/* Ends tasks and runs whose time limits have passed. Returns the time of the next limit. */
uint64_t tree_deadline(struct tree *t);
/*
 * Status and reason for a task whose child has died; PTO_ETIMEOUT, if the child was killed because
 * this task was late.
 */
int tree_describe_late(struct tree *t, struct tree_child *c, uint32_t number, char *text,
                       size_t size);
/*
 * Sets a run's time limits: first to the worker's defaults, later to what the orchestration sets;
 * 0: no limit.
 */
void tree_run_begin_time(struct tree_run *run);
void tree_run_set_time(struct tree_run *run, uint64_t timeout_ns);

/* tree_options.c: frees the run's options, which no task uses any more. */
void tree_options_free(struct tree_run *run);

#endif
