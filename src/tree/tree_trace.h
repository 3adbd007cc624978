/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of runs and their timeline (tree_trace.c), and what other processes can see of a worker
 * (tree_show.c).
 */
#ifndef PTO_TREE_TRACE_H
#define PTO_TREE_TRACE_H

#include <stdio.h>

#include "pto/trace.h"
#include "tree/tree_wire.h"

struct slot;
struct traced_task;
struct tree;
struct tree_callable;
struct tree_child;
struct tree_run;
struct tree_task;

/* tree_trace.c: records what happened; called with the lock, if `is_traced`. */
struct tree_trace;
/* Records that a task was submitted with these arguments, and sets its `traced`. */
void tree_trace_submit(struct tree *t, const struct slot *s, struct tree_task *k,
                       const struct pto_args *args, const struct pto_outputs *out);
/*
 * Records that a task became ready because of its submit or because of the task `settling` of the
 * tree.
 */
void tree_trace_ready(struct tree *t, const struct tree_task *k);
/* Record that a task or a run has ended. */
void tree_trace_task(struct tree *t, const struct tree_task *k);
void tree_trace_run(struct tree *t, const struct tree_run *run);
void tree_trace_close(struct tree *t);

/* Names the task that runs a nested worker. It belongs to the recording of the worker above. */
struct tree_above {
    const struct tree_tracing *tracing;
    uint32_t child; /* number of this worker among the children of the worker above */
    uint32_t task;  /* number of the task of the worker above that this worker runs */
};

/*
 * Begins a recording. If this worker is nested, its recording is a part of the recording of the
 * worker above. PTO_EBUSY, PTO_ENOMEM.
 */
int tree_trace_begin(struct tree *t, enum pto_trace chips, const struct tree_above *above);
void tree_trace_end(struct tree *t);
/*
 * Restores the fields of a recording in shared memory, which a child may have overwritten. `bytes`
 * is the number of complete bytes in the child's file.
 */
void tree_trace_restore(struct tree *t, uint32_t child, uint64_t bytes);
/*
 * Writes the events of the recording, each after a comma, the first after `before`. Called while
 * nothing runs.
 */
void tree_trace_put(const struct tree *t, const char *before, FILE *out);
/*
 * Writes the parts of the recording: the worker's own, then one for each task that a chip ran.
 * Called while nothing runs. PTO_OK or PTO_ENOMEM.
 */
int tree_trace_put_parts(const struct tree *t, FILE *out);

/* tree_recording.c: records the arguments of a submit, as a chip does. */
void tree_recording_submit(struct tree *t, const struct slot *s, const struct traced_task *task,
                           const struct pto_args *args, const struct pto_outputs *out);
/* tree_recording.c: writes the worker's own part. PTO_OK or PTO_ENOMEM. */
int tree_recording_put(const struct tree *t, FILE *out);
/*
 * Makes the name that a worker has in recordings from the prefix of its process names: "worker 1: "
 * gives "worker 1". `name` has TRACED_GROUP_NAME bytes.
 */
void tree_recording_name(const char *prefix, char *name);

/* tree_show.c: publishes what other processes may read. */
void tree_show(struct tree *t);
void tree_show_child(struct tree *t, struct tree_child *c);
void tree_show_name(struct tree *t, const struct tree_callable *k);

#endif
