/* SPDX-License-Identifier: Apache-2.0 */
/* Level-3 workers for Python: declarations shared by the files that wrap them. */
#ifndef PTO_PY_WORKER_H
#define PTO_PY_WORKER_H

#include "py_ext.h"

#include <pto/worker.h>

/*
 * A worker. Blocks of its memory, runs and outputs hold references; when closed, they keep its
 * memory.
 */
struct ext_worker {
    PyObject_HEAD struct ext_state *state;
    struct pto_worker *worker; /* NULL: closed */
    struct pto_worker_memory *kept;
    uint64_t addr; /* address of the worker's memory */
    uint64_t bytes;
    int process;                 /* process that opened it */
    struct ext_worker_run *runs; /* unsettled runs; the list owns each reference */
    struct ext_block *blocks;    /* allocated blocks; borrowed references */
    uint64_t *late;              /* addresses that could not be freed yet because tasks used them */
    size_t late_count, late_room;
    PyObject *edge; /* function that is called for each edge, or NULL */
};

/* A block of the worker's memory, held by tensors. */
struct ext_block {
    PyObject_HEAD struct ext_worker *worker;
    uint64_t addr; /* 0: freed */
    struct ext_block *next, **before;
};

/* A registration: the callable's number, and the directions of its arguments. */
struct ext_registered {
    PyObject_HEAD struct ext_worker *worker;
    uint64_t number; /* 0: unregistered */
    PyObject *name;
    enum pto_child_kind kind;
    struct ext_signature signature;
    /* one per argument */
    enum pto_direction direction[PTO_TASK_TENSORS_MAX + PTO_TASK_SCALARS_MAX];
};

/* Memory of the program and its copy in the worker's memory. */
struct ext_stage {
    uint64_t addr;
    uint64_t bytes;
    char *memory;
    struct ext_stage *next;
};

/* A tensor in program memory that a task writes; copied back when the run has succeeded. */
struct ext_written {
    struct pto_tensor tensor; /* the caller's tensor */
    const struct ext_stage *stage;
    struct ext_hold hold;
    struct ext_written *next;
};

struct ext_worker_run {
    PyObject_HEAD struct ext_state *state;
    struct ext_worker *worker;
    struct pto_worker_run *run; /* NULL: ended */
    int status;
    uint32_t users; /* number of threads that use the handle of the run at present */
    bool is_listed;
    struct ext_worker_run *next;
    struct ext_stage *stages;
    struct ext_written *written;
    PyObject *value; /* return value of the orchestration */
    struct pto_worker_report *report;
};

/* The object that an orchestration gets. */
struct ext_level {
    PyObject_HEAD struct ext_state *state;
    struct pto_level *level; /* NULL: the orchestration has returned */
    struct ext_worker *worker;
    struct ext_worker_run *run;
};

/* ---- py_worker.c ---- */

/* Returns the handle; raises an exception if the worker is closed. */
struct pto_worker *ext_worker_handle(struct ext_worker *worker);
/* py_virtual.c: methods of a worker. */
PyObject *ext_worker_set_costs(PyObject *self, PyObject *args, PyObject *keywords);
PyObject *ext_worker_virtual_report(PyObject *self, PyObject *ignored);
void ext_worker_free_late(struct ext_worker *worker);
/* Makes a tensor in new memory: shared, or with `chip` that of one chip. */
PyObject *ext_worker_empty(struct ext_worker *worker, PyObject *shape, PyObject *dtype, int chip);
/* Converts children (an int, an iterable of ints, or None: 0) to bits. False with an exception. */
bool ext_worker_children(struct ext_state *state, PyObject *object, uint64_t *children_out);
/*
 * Reads a sequence of numbers of chips or devices. Returns their count; negative with an exception.
 */
int ext_worker_numbers(struct ext_state *state, PyObject *list, uint32_t number[PTO_CHILDREN_MAX]);

/* ---- py_worker_run.c ---- */

int ext_worker_run_init(PyObject *module, struct ext_state *state);
/*
 * Launches a run. If the orchestration raises an exception and `waits` is true, waits for the end
 * of the run before it raises the exception.
 */
PyObject *ext_worker_launch(struct ext_worker *worker, PyTypeObject *level_type, PyObject *function,
                            PyObject *args, PyObject *keywords, bool waits);
/* Settles all runs of the worker that have ended. */
void ext_worker_sweep(struct ext_worker *worker);
/* Converts seconds; None becomes UINT64_MAX. False with an exception. */
bool ext_timeout(struct ext_state *state, PyObject *seconds, uint64_t *ns_out);

/* ---- py_level.c ---- */

int ext_level_init(PyObject *module, struct ext_state *state);
/*
 * Returns a record of the calling line of Python, which lives as long as the process. NULL: none.
 */
const struct pto_site *ext_site_here(void);
/*
 * Copies data that tasks have written to the caller's tensors, if `succeeded`, and frees all
 * stages.
 */
void ext_stage_end(struct ext_worker_run *run, bool succeeded);

/* ---- py_child.c, py_talk.c, py_comm.c ---- */

int ext_child_init(PyObject *module);
int ext_talk_init(PyObject *module);
int ext_comm_init(PyObject *module);

#endif
