/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks for Python: declarations shared by py_comm.c and py_collective.c. */
#ifndef PTO_PY_COMM_H
#define PTO_PY_COMM_H

#include "py_worker.h"

#include <pto/collective.h>
#include <pto/comm.h>

#define EXT_COMM(number) ((struct pto_comm *)(uintptr_t)(number))
#define EXT_DOMAIN(number) ((struct pto_domain *)(uintptr_t)(number))

/*
 * Returns None for a successful status, or raises its error. If a signal handler has raised an
 * exception, that exception is raised instead.
 */
PyObject *ext_comm_finish(PyObject *module, int status, const struct pto_error *error);
/* Aborts a communicator. */
void ext_comm_abort(void *comm);

/*
 * Runs a statement that waits for other ranks without the interpreter's lock; Ctrl-C aborts the
 * communicator.
 */
#define EXT_TOGETHER(comm, statement)                                      \
    do {                                                                   \
        const struct ext_waiting ext_call = { .cancel = ext_comm_abort,    \
                                              .context = EXT_COMM(comm) }; \
        bool ext_is_watched;                                               \
                                                                           \
        Py_BEGIN_ALLOW_THREADS                                             \
        ext_is_watched = ext_interrupt_begin(&ext_call);                   \
        statement;                                                         \
        if (ext_is_watched)                                                \
            ext_interrupt_end();                                           \
        Py_END_ALLOW_THREADS                                               \
    } while (0)

int ext_collective_init(PyObject *module);

#endif
