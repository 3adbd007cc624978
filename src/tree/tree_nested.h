/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children that are workers (tree_nested.c), and what the process of such a child asks of its worker.
 */
#ifndef PTO_TREE_NESTED_H
#define PTO_TREE_NESTED_H

#include <stdio.h>

#include "pto/worker.h"
#include "tree/tree_wire.h"

struct tree;
struct tree_child;

/* Where a nested worker is, as its process was told. */
struct tree_outer {
    int memory; /* the file, which is the tree's then */
    char *map;  /* all of it */
    uint64_t map_bytes;
    int life[TREE_NESTED_MAX]; /* ends of pipes, for its children: nested->depth */
    int32_t root;
    const struct wire_nested *nested;
};

/* The level of such a worker; PTO_EINVAL: there are too many levels, or nothing says what one is. */
int tree_level_of(const struct pto_worker_params *params, struct pto_error *error);
/* What the nested workers are, and a part of the memory for each. */
int tree_nested_open(struct tree *t, const struct pto_worker_params *params,
                     struct pto_error *error);
/* All of the old processes of a nested worker have gone: its memory is as a new one expects it. */
int tree_nested_clear(const struct tree *t, const struct tree_child *c);
void tree_nested_close(struct tree *t);
/* Has the nested worker start its dead children; the lock is held. */
int tree_reopen_below(struct tree *t, uint32_t child, struct pto_error *error);

/* ---- in the process of a nested worker ---- */

/* As pto_worker_open. The handle is the caller's. */
int tree_open_nested(const struct tree_outer *outer, const struct pto_worker_params *params,
                     struct pto_worker **worker_out);
/* The tensors of a call are memory of the worker while it runs. */
int tree_nested_lend(struct pto_worker *worker, const struct pto_tensor *tensor, uint32_t count);
void tree_nested_take_back(struct pto_worker *worker);
/* What was registered above for its children, under the same number. */
int tree_nested_load(struct pto_worker *worker, uint32_t index, const struct wire_load *load,
                     struct pto_error *error);
void tree_nested_unload(struct pto_worker *worker, uint32_t index);
/* Starts what is dead below it. PTO_EBUSY: nothing is. */
int tree_nested_reopen(struct pto_worker *worker, struct pto_error *error);
/* Before a task, if it is recorded; after it: false: it was not. */
void tree_nested_trace_begin(struct pto_worker *worker, const struct tree_tracing *above,
                             uint32_t child);
bool tree_nested_trace_end(struct pto_worker *worker);
/* The events of the last task. */
void tree_nested_trace_put(struct pto_worker *worker, FILE *out);

#endif
