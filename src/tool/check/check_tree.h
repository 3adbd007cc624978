/* SPDX-License-Identifier: Apache-2.0 */
/* Random graphs on a worker of level 3: what runs in which all is well and those with failures share. */
#ifndef PTO_CHECK_TREE_H
#define PTO_CHECK_TREE_H

#include "tool/check/check_trial.h"
#include "pto/worker.h"

enum { CHECK_TREE_KINDS = 2 };

struct check_tree {
    struct check_runner_params params;
    struct pto_worker *worker;
    uint64_t call[CHECK_TREE_KINDS]; /* by enum pto_child_kind */
    uint64_t hold[CHECK_TREE_KINDS];
    uint64_t submits;      /* so far */
    uint64_t first;        /* the position of the current run's first task */
    struct check_run *run; /* that is being built; NULL: none */
    void *shared;
};

/* The tasks of one run of the worker. */
struct check_part {
    struct check_tree *tree;
    struct check_run *run;
    uint32_t first;
    uint32_t count;
};

/* check_tree.c */
/* Moves what children use to memory that they have. Returns the run as they see it; NULL: no memory. */
struct check_run *check_tree_share(struct check_tree *tree, struct check_run *run);
void check_tree_unshare(struct check_tree *tree, struct check_run *run);
/* Submits a part, its context, until the run has an error. */
void check_tree_orchestrate(struct pto_level *level, void *context);

/* check_failed.c: runs of the graph in which some tasks fail. */
void check_tree_fail(struct check_tree *tree, const struct check_graph *g,
                     struct check_findings *findings);

#endif
