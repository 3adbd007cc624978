/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is recorded of runs and the timeline of it (tree_trace.c), and what other processes can see of a worker (tree_show.c).
 */
#ifndef PTO_TREE_TRACE_H
#define PTO_TREE_TRACE_H

#include <stdio.h>

#include "pto/trace.h"
#include "tree/tree_wire.h"

struct slot;
struct tree;
struct tree_callable;
struct tree_child;
struct tree_run;
struct tree_task;

/* tree_trace.c: of a run, and of a task, that has ended; under the lock, if `is_traced`. */
struct tree_trace;
void tree_trace_run(struct tree *t, const struct tree_run *run);
void tree_trace_task(struct tree *t, const struct slot *s, const struct tree_task *k);
void tree_trace_close(struct tree *t);
/* Begins a recording; of a nested worker it is part of that of the one above. PTO_EBUSY, PTO_ENOMEM. */
int tree_trace_begin(struct tree *t, enum pto_trace chips, const struct tree_tracing *above,
                     uint32_t child);
void tree_trace_end(struct tree *t);
/* What is shared of it is as it was, whatever children wrote there; of one, `bytes` were whole. */
void tree_trace_restore(struct tree *t, uint32_t child, uint64_t bytes);
/* Writes the events, each behind a comma, the first behind `before`. Nothing runs. */
void tree_trace_put(const struct tree *t, const char *before, FILE *out);

/* tree_show.c: what others may know. */
void tree_show(struct tree *t);
void tree_show_child(struct tree *t, struct tree_child *c);
void tree_show_name(struct tree *t, const struct tree_callable *k);

#endif
