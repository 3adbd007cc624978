/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of ranks: converts tensors to buffers and counts. */
#include "py_comm.h"

#include <stdlib.h>

enum { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, ALL_TO_ALL };

/*
 * Runs a collective. One of the two buffers, `to` or `from`, consists of `parts` parts, one for
 * each rank; the other one is one part.
 */
static PyObject *collect(PyObject *module, unsigned long long comm, struct pto_domain *domain,
                         int which, const struct pto_tensor *from, const struct pto_tensor *to,
                         struct pto_collective *how)
{
    struct ext_state *state = PyModule_GetState(module);
    uint64_t small = which == ALL_GATHER ? pto_tensor_numel(from) : pto_tensor_numel(to);
    void *target = pto_tensor_data(to);
    const void *source = pto_tensor_data(from);
    struct pto_error error;
    struct pto_domain_info info;
    uint64_t ranks, expected;
    int status;

    pto_error_init(&error);
    pto_domain_info_init(&info);
    status = pto_domain_info(domain, &info);
    if (status < 0)
        return ext_raise(state, status, NULL);
    ranks = info.rank_count;
    expected = which == REDUCE_SCATTER ? small * ranks : small;
    if (which == ALL_TO_ALL)
        small /= ranks;
    if ((which == ALL_GATHER ? pto_tensor_numel(to) != small * ranks
                             : pto_tensor_numel(from) != expected) ||
        (which == ALL_TO_ALL && small * ranks != pto_tensor_numel(to)) ||
        from->dtype != to->dtype || !from->is_contiguous || !to->is_contiguous)
        return ext_raise_text(state, PTO_EINVAL,
                              "tensors of a collective are contiguous, of one data type, and their "
                              "numbers of elements fit its %llu ranks",
                              (unsigned long long)ranks);
    how->dtype = (enum pto_dtype)to->dtype;
    how->error = &error;
    EXT_TOGETHER(
        comm, switch (which) {
            case ALL_REDUCE:
                status = pto_comm_all_reduce(domain, source, target, small, how);
                break;
            case REDUCE_SCATTER:
                status = pto_comm_reduce_scatter(domain, source, target, small, how);
                break;
            case ALL_GATHER:
                status = pto_comm_all_gather(domain, source, target, small, how);
                break;
            case BROADCAST:
                status = pto_comm_broadcast(domain, target, small, how);
                break;
            default:
                status = pto_comm_all_to_all(domain, source, target, small, how);
        });
    return ext_comm_finish(module, status, &error);
}

static PyObject *comm_collective(PyObject *module, PyObject *args)
{
    struct ext_state *state = PyModule_GetState(module);
    struct pto_collective how;
    PyObject *from_object, *to_object, *result = NULL;
    unsigned long long comm, domain, timeout;
    struct ext_tensor from, to;
    int which, reduce, algorithm;

    pto_collective_init(&how);
    if (!PyArg_ParseTuple(args, "O&O&iOOiiO&O&", ext_take_u64, &comm, ext_take_u64, &domain, &which,
                          &from_object, &to_object, &reduce, &algorithm, ext_take_u32, &how.root,
                          ext_take_u64, &timeout) ||
        ext_tensor_take(state, from_object, -1, &from) < 0)
        return NULL;
    how.reduce = (enum pto_reduce)reduce;
    how.algorithm = (enum pto_algorithm)algorithm;
    how.timeout_ns = timeout;
    if (ext_tensor_take(state, to_object, -1, &to) == 0) {
        if (to.is_readonly)
            (void)ext_raise_text(state, PTO_EINVAL, "the result of a collective is read-only");
        else
            result =
                collect(module, comm, EXT_DOMAIN(domain), which, &from.tensor, &to.tensor, &how);
        ext_hold_release(&to.hold);
    }
    ext_hold_release(&from.hold);
    return result;
}

/* ---- dispatch and combine of experts ---- */

/* Tensors of a dispatch and a combine: tokens, rows, experts, and weights or None. */
enum { TOKENS, ROWS, EXPERTS, WEIGHTS, PARTS };

struct exchange {
    struct ext_tensor part[PARTS];
    int count; /* number of converted tensors */
    struct pto_routing routing;
    struct pto_error error;
};

static bool is_matrix(const struct pto_tensor *t, uint32_t rows, uint32_t columns, uint32_t dtype)
{
    return t->ndims == 2 && t->is_contiguous && t->shapes[0] == rows && t->shapes[1] == columns &&
           t->dtype == dtype;
}

/*
 * Converts tensors and makes their routing. 0, or -1 with an exception; to be released in any case.
 */
static int take_exchange(struct ext_state *state, PyObject *const objects[PARTS],
                         uint32_t expert_count, int written, struct exchange *e)
{
    const struct pto_tensor *tokens = &e->part[TOKENS].tensor, *rows = &e->part[ROWS].tensor,
                            *experts = &e->part[EXPERTS].tensor;

    pto_routing_init(&e->routing);
    pto_error_init(&e->error);
    for (e->count = 0; e->count < PARTS && objects[e->count] != Py_None; e->count++)
        if (ext_tensor_take(state, objects[e->count], -1, &e->part[e->count]) < 0)
            return -1;
    if (tokens->ndims != 2 || rows->ndims != 2 || experts->ndims != 2 ||
        !is_matrix(tokens, tokens->shapes[0], tokens->shapes[1], tokens->dtype) ||
        !is_matrix(rows, rows->shapes[0], tokens->shapes[1], tokens->dtype) ||
        !is_matrix(experts, tokens->shapes[0], experts->shapes[1], PTO_INT32) ||
        (e->count == PARTS && !is_matrix(&e->part[WEIGHTS].tensor, tokens->shapes[0],
                                         experts->shapes[1], PTO_FLOAT32)) ||
        e->part[written].is_readonly) {
        (void)ext_raise_text(
            state, PTO_EINVAL,
            "tokens and rows are contiguous matrices of one data type and width, experts one of "
            "int32 and weights one of float32 with a row for each token; %s can be written",
            written == ROWS ? "rows" : "tokens");
        return -1;
    }
    e->routing.token_count = tokens->shapes[0];
    e->routing.top_k = experts->shapes[1];
    e->routing.expert_count = expert_count;
    e->routing.width = tokens->shapes[1];
    e->routing.dtype = (enum pto_dtype)tokens->dtype;
    e->routing.row_capacity = rows->shapes[0];
    e->routing.experts = pto_tensor_data(experts);
    e->routing.error = &e->error;
    return 0;
}

static void release_exchange(struct exchange *e)
{
    while (e->count > 0)
        ext_hold_release(&e->part[--e->count].hold);
}

/* Returns the number of rows of each expert of this rank. */
static PyObject *list_counts(const uint32_t *counts, uint32_t count)
{
    PyObject *list = PyList_New(0);

    for (uint32_t i = 0; list != NULL && i < count; i++) {
        PyObject *number = PyLong_FromUnsignedLong(counts[i]);

        if (number == NULL || PyList_Append(list, number) < 0)
            Py_CLEAR(list);
        Py_XDECREF(number);
    }
    return list;
}

static PyObject *comm_dispatch(PyObject *module, PyObject *args)
{
    struct ext_state *state = PyModule_GetState(module);
    PyObject *objects[PARTS] = { NULL, NULL, NULL, Py_None };
    PyObject *counts = NULL, *failure;
    unsigned long long comm, domain, timeout;
    struct pto_domain_info info;
    struct exchange e;
    unsigned int expert_count;
    uint32_t *rows = NULL, own;
    int status;

    pto_domain_info_init(&info);
    if (!PyArg_ParseTuple(args, "O&O&OOOO&O&", ext_take_u64, &comm, ext_take_u64, &domain,
                          &objects[TOKENS], &objects[ROWS], &objects[EXPERTS], ext_take_u32,
                          &expert_count, ext_take_u64, &timeout))
        return NULL;
    status = pto_domain_info(EXT_DOMAIN(domain), &info);
    if (status < 0)
        return ext_raise(state, status, NULL);
    own = pto_expert_first(expert_count, info.rank_count, info.rank + 1) -
          pto_expert_first(expert_count, info.rank_count, info.rank);
    if (take_exchange(state, objects, expert_count, ROWS, &e) == 0 &&
        (rows = calloc((size_t)own + 1, sizeof(*rows))) != NULL) {
        e.routing.timeout_ns = timeout;
        EXT_TOGETHER(comm, status = pto_comm_dispatch(EXT_DOMAIN(domain), &e.routing,
                                                      pto_tensor_data(&e.part[TOKENS].tensor),
                                                      pto_tensor_data(&e.part[ROWS].tensor), rows));
        counts = list_counts(rows, own);
        if (counts != NULL && status < 0 && PyErr_CheckSignals() == 0 &&
            (failure = ext_exception(state, status, &e.error)) != NULL) {
            if (PyObject_SetAttrString(failure, "row_counts", counts) == 0)
                PyErr_SetObject((PyObject *)Py_TYPE(failure), failure);
            Py_DECREF(failure);
        }
        if (status < 0)
            Py_CLEAR(counts);
    } else if (!PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    free(rows);
    release_exchange(&e);
    return counts;
}

static PyObject *comm_combine(PyObject *module, PyObject *args)
{
    struct ext_state *state = PyModule_GetState(module);
    PyObject *objects[PARTS], *result = NULL;
    unsigned long long comm, domain, timeout;
    struct exchange e;
    unsigned int expert_count;
    int status;

    if (!PyArg_ParseTuple(args, "O&O&OOOOO&O&", ext_take_u64, &comm, ext_take_u64, &domain,
                          &objects[TOKENS], &objects[ROWS], &objects[EXPERTS], &objects[WEIGHTS],
                          ext_take_u32, &expert_count, ext_take_u64, &timeout))
        return NULL;
    if (take_exchange(state, objects, expert_count, TOKENS, &e) == 0) {
        e.routing.timeout_ns = timeout;
        EXT_TOGETHER(comm,
                     status = pto_comm_combine(
                         EXT_DOMAIN(domain), &e.routing, pto_tensor_data(&e.part[ROWS].tensor),
                         e.count == PARTS ? pto_tensor_data(&e.part[WEIGHTS].tensor) : NULL,
                         pto_tensor_data(&e.part[TOKENS].tensor)));
        result = ext_comm_finish(module, status, &e.error);
    }
    release_exchange(&e);
    return result;
}

static PyMethodDef functions[] = {
    { "_comm_collective", comm_collective, METH_VARARGS, NULL },
    { "_comm_dispatch", comm_dispatch, METH_VARARGS, NULL },
    { "_comm_combine", comm_combine, METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL },
};

int ext_collective_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
