/* SPDX-License-Identifier: Apache-2.0 */
/* Workers of level 3 for Python: what the files of the extension that wrap them share. */
#ifndef PTO_PY_WORKER_H
#define PTO_PY_WORKER_H

#include "py_ext.h"

#include <pto/worker.h>

/* An open worker. Blocks of its memory, runs and outputs keep it; closed, it keeps their memory. */
struct ext_worker {
    PyObject_HEAD struct ext_state *state;
    struct pto_worker *worker; /* NULL: closed */
    struct pto_worker_memory *kept;
    uint64_t addr; /* of its memory */
    uint64_t bytes;
    int process;                 /* that opened it */
    struct ext_worker_run *runs; /* not settled; each reference is the list's */
    struct ext_block *blocks;    /* allocated; without references */
    uint64_t *late;              /* addresses to be freed when the tasks that use them are over */
    size_t late_count, late_room;
    PyObject *edge; /* an observer, or NULL */
};

/* Memory of a worker, for tensors to hold. */
struct ext_block {
    PyObject_HEAD struct ext_worker *worker;
    uint64_t addr; /* 0: freed */
    struct ext_block *next, **before;
};

/* What was registered: the callable's number, and what its arguments are. */
struct ext_registered {
    PyObject_HEAD struct ext_worker *worker;
    uint64_t number; /* 0: unregistered */
    PyObject *name;
    enum pto_child_kind kind;
    struct ext_signature signature;
    enum pto_direction direction[PTO_TASK_TENSORS_MAX + PTO_TASK_SCALARS_MAX]; /* its entries */
};

/* Ordinary memory of the program, and its copy in the worker's. */
struct ext_stage {
    uint64_t addr;
    uint64_t bytes;
    char *memory;
    struct ext_stage *next;
};

/* A tensor in ordinary memory that a task writes: copied back when the run has succeeded. */
struct ext_written {
    struct pto_tensor tensor; /* the caller's */
    const struct ext_stage *stage;
    struct ext_hold hold;
    struct ext_written *next;
};

struct ext_worker_run {
    PyObject_HEAD struct ext_state *state;
    struct ext_worker *worker;
    struct pto_worker_run *run; /* NULL: it is over */
    int status;
    uint32_t users; /* threads inside a call with its handle */
    bool is_listed;
    struct ext_worker_run *next;
    struct ext_stage *stages;
    struct ext_written *written;
    PyObject *value; /* what the orchestration returned */
    struct pto_worker_report *report;
};

/* What an orchestration gets. */
struct ext_level {
    PyObject_HEAD struct ext_state *state;
    struct pto_level *level; /* NULL: it has returned */
    struct ext_worker *worker;
    struct ext_worker_run *run;
};

/* ---- py_worker.c ---- */

/* Raises if it is closed. */
struct pto_worker *ext_worker_handle(struct ext_worker *worker);
void ext_worker_free_late(struct ext_worker *worker);
/* A tensor of new memory: shared, or with `chip` of one chip. */
PyObject *ext_worker_empty(struct ext_worker *worker, PyObject *shape, PyObject *dtype, int chip);
/* Numbers of children as bits; an int, an iterable of ints, or None: 0. False: raised. */
bool ext_worker_children(struct ext_state *state, PyObject *object, uint64_t *children_out);
/* A sequence of numbers of chips or devices. Returns how many; negative: raised. */
int ext_worker_numbers(struct ext_state *state, PyObject *list, uint32_t number[PTO_CHILDREN_MAX]);

/* ---- py_worker_run.c ---- */

int ext_worker_run_init(PyObject *module, struct ext_state *state);
/* `waits`: for the end of the run, if the orchestration raises something. */
PyObject *ext_worker_launch(struct ext_worker *worker, PyTypeObject *level_type, PyObject *function,
                            PyObject *args, PyObject *keywords, bool waits);
/* Settles all that have ended. */
void ext_worker_sweep(struct ext_worker *worker);
/* Seconds, or None: UINT64_MAX. False: raised. */
bool ext_timeout(struct ext_state *state, PyObject *seconds, uint64_t *ns_out);

/* ---- py_level.c ---- */

int ext_level_init(PyObject *module, struct ext_state *state);
/* For whoever submits from Python: a record of the line that calls, which lives as long as the process. NULL: none. */
const struct pto_site *ext_site_here(void);
/* Copies what tasks have written to the caller's tensors, if `succeeded`, and frees all stages. */
void ext_stage_end(struct ext_worker_run *run, bool succeeded);

/* ---- py_child.c, py_talk.c, py_comm.c ---- */

int ext_child_init(PyObject *module);
int ext_talk_init(PyObject *module);
int ext_comm_init(PyObject *module);

#endif
