/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children that are workers (tree_nested.c), and what the process of such a child calls in its
 * worker.
 */
#ifndef PTO_TREE_NESTED_H
#define PTO_TREE_NESTED_H

#include <stdio.h>

#include "pto/worker.h"
#include "tree/tree_wire.h"

struct tree_above;

struct tree;
struct tree_child;

/* Position of a nested worker in the tree of workers, as its process received it. */
struct tree_outer {
    int memory; /* descriptor of the file that is the shared memory; the struct tree closes it */
    char *map;  /* start of all of the shared memory, of which the worker has a part */
    uint64_t map_bytes;
    /*
     * Ends of the life pipes of this worker and of those above it, nested->depth of them. All
     * descendants inherit them: a pipe closes when the last descendant of its worker has ended.
     */
    int life[TREE_NESTED_MAX];
    int32_t root;
    const struct wire_nested *nested;
};

/*
 * Returns the level of a worker with these parameters. PTO_EINVAL: there are too many levels, or
 * the parameters of a nested worker are missing.
 */
int tree_level_of(const struct pto_worker_params *params, struct pto_error *error);
/* Describes the workers nested in this one, and reserves a part of the shared memory for each. */
int tree_nested_open(struct tree *t, const struct pto_worker_params *params,
                     struct pto_error *error);
/*
 * Called when all processes of a nested worker that died have ended: clears its part of the memory
 * for a new process.
 */
int tree_nested_clear(const struct tree *t, const struct tree_child *c);
void tree_nested_close(struct tree *t);
/*
 * Makes a nested worker, a child of this worker, start its own dead children again. Called with the
 * lock.
 */
int tree_reopen_below(struct tree *t, uint32_t child, struct pto_error *error);

/* ---- in the process of a nested worker ---- */

/* Like pto_worker_open, for the worker of this process. The caller owns the handle. */
int tree_open_nested(const struct tree_outer *outer, const struct pto_worker_params *params,
                     struct pto_worker **worker_out);
/* Registers the tensors of a call as memory of this worker until the function returns. */
int tree_nested_register_memory(struct pto_worker *worker, const struct pto_tensor *tensor,
                                uint32_t count);
void tree_nested_unregister_memory(struct pto_worker *worker);
/*
 * Registers a callable that the worker above has registered for this worker's children, under the
 * same number.
 */
int tree_nested_load(struct pto_worker *worker, uint32_t index, const struct wire_load *load,
                     struct pto_error *error);
void tree_nested_unload(struct pto_worker *worker, uint32_t index);
/* Starts dead children of this worker and of workers nested in it. PTO_EBUSY: none is dead. */
int tree_nested_reopen(struct pto_worker *worker, struct pto_error *error);
/*
 * Called before and after a task that the worker above records. False: the task was not recorded
 * here.
 */
void tree_nested_trace_begin(struct pto_worker *worker, const struct tree_above *above);
bool tree_nested_trace_end(struct pto_worker *worker);
/* Write what this worker has recorded of its last task: events, and parts of a recording. */
void tree_nested_trace_put(struct pto_worker *worker, FILE *out);
void tree_nested_trace_put_parts(struct pto_worker *worker, FILE *out);

#endif
