/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs random graphs on a level-3 worker. Shared by the checks without failing tasks (check_tree.c)
 * and with failing tasks (check_failed.c).
 */
#ifndef PTO_CHECK_TREE_H
#define PTO_CHECK_TREE_H

#include "tool/check/check_trial.h"
#include "pto/worker.h"

enum { CHECK_TREE_KINDS = 2 };

struct check_tree {
    struct check_runner_params params;
    struct pto_worker *worker;
    uint64_t call[CHECK_TREE_KINDS]; /* callables, indexed by enum pto_child_kind */
    uint64_t hold[CHECK_TREE_KINDS];
    uint64_t submits;      /* number of tasks that were submitted to the worker so far */
    uint64_t first;        /* value of `submits` before the first task of the current graph */
    struct check_run *run; /* run whose graph is being built; NULL: none */
    void *shared;
};

/* The tasks of one run of the worker: `count` tasks of the graph, beginning with task `first`. */
struct check_part {
    struct check_tree *tree;
    struct check_run *run;
    uint32_t first;
    uint32_t count;
};

/* check_tree.c */
/*
 * check_tree.c: copies data for children to shared memory. Returns the copy of the run, which
 * children use; NULL: out of memory.
 */
struct check_run *check_tree_share(struct check_tree *tree, struct check_run *run);
void check_tree_unshare(struct check_tree *tree, struct check_run *run);
/*
 * Orchestration of a run of the level-3 worker. Submits the tasks of the struct check_part that
 * `context` points to, until the run has an error.
 */
void check_tree_orchestrate(struct pto_level *level, void *context);

/* check_failed.c: runs a graph in which some tasks fail. */
void check_tree_fail(struct check_tree *tree, const struct check_graph *g,
                     struct check_findings *findings);

#endif
