/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of a worker as callers see them (tree_run.c): a thread that waits drives. What takes too long (tree_time.c),
 * and how callables of a run run on chips (tree_options.c).
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
    struct tree_run *next; /* of the runs that have not ended */
    uint64_t live;         /* tasks */
    bool is_building;
    bool is_cancelled;
    struct a32 has_ended; /* written under the lock, and looked at without */
    int event;            /* descriptor; -1: nobody asked */
    bool is_abandoned;    /* nobody will finish it: it goes when it ends */
    void *staging;        /* and this allocation with it */
    uint64_t begin_ns;
    uint64_t built_ns;            /* when the orchestration returned */
    uint64_t number;              /* counts the runs of the worker */
    uint64_t deadline_ns;         /* UINT64_MAX: none */
    uint64_t task_timeout_ns;     /* of what is submitted next */
    uint32_t task_options;        /* the same; struct record_head */
    struct tree_options *options; /* that tasks of it have */
    uint32_t kept;                /* tasks of it that are kept, by slot and their `next` */
    uint32_t told_seq;            /* of the next submit when the program was told; 0: not yet */
    pthread_t builder;
    struct pto_worker_report report;
};

/* tree_run.c */
/*
 * Drives until `holds`, which is called under the lock and is so when it returns; the lock is held
 * before and after. PTO_OK or PTO_ETIMEOUT.
 */
int tree_await(struct tree *t, bool (*holds)(void *context), void *context, uint64_t deadline_ns);
void tree_run_ended(struct tree_run *run);
/* As pto_worker_launch; waits until the deadline for the turn of its orchestration. */
int tree_launch(struct pto_worker *worker, pto_level_fn orchestration, void *context,
                uint64_t deadline_ns, struct pto_worker_run **run_out);
/* Nobody waits for a run that was launched any more: when it has ended it goes, and the memory with it. */
void tree_run_abandon(struct pto_worker_run *run, void *staging);
/* When the worker closes: those that have not ended. */
void tree_forget_runs(struct tree *t);
int tree_background_start(struct tree *t);
void tree_background_stop(struct tree *t);

/* tree_time.c */
/* So much from now on; UINT64_MAX: never. */
uint64_t tree_time_after(uint64_t timeout_ns);
/* When the next task or run is late; those that are late now are ended. */
uint64_t tree_deadline(struct tree *t);
/* The status of a task that a killed child had, and why, if it was killed for it. */
int tree_tell_late(struct tree *t, struct tree_child *c, uint32_t number, char *text, size_t size);
/* The time-outs of the worker, or another one from the beginning; 0: none. */
void tree_run_begin_time(struct tree_run *run);
void tree_run_set_time(struct tree_run *run, uint64_t timeout_ns);

/* tree_options.c: frees what no task has any more. */
void tree_options_free(struct tree_run *run);

#endif
