/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks: communicators, windows, signals, collectives. The runtime checks its handles, so they are plain numbers here. */
#include "py_worker.h"

#include <pto/collective.h>
#include <pto/comm.h>

#define COMM(number) ((struct pto_comm *)(uintptr_t)(number))
#define DOMAIN(number) ((struct pto_domain *)(uintptr_t)(number))

static struct ext_state *state_of(PyObject *module)
{
    return PyModule_GetState(module);
}

static PyObject *finish(PyObject *module, int status, const struct pto_error *error)
{
    return status < 0 ? ext_raise(state_of(module), status, error) : Py_NewRef(Py_None);
}

/* (handle, rank, rank_count) */
static PyObject *comm_open(PyObject *module, PyObject *args)
{
    struct pto_comm_params params;
    struct pto_comm_info info;
    struct pto_comm *comm = NULL;
    struct pto_error error;
    PyObject *device;
    unsigned long long timeout;
    int status;

    pto_comm_params_init(&params);
    pto_comm_info_init(&info);
    pto_error_init(&error);
    if (!PyArg_ParseTuple(args, "ziIzzKO", &params.backend, &params.rank, &params.rank_count,
                          &params.path, &params.token, &timeout, &device))
        return NULL;
    params.timeout_ns = timeout;
    params.error = &error;
    if (device != Py_None) {
        if (!Py_IS_TYPE(device, state_of(module)->device_type)) {
            PyErr_SetString(PyExc_TypeError, "device is a pto.Device");
            return NULL;
        }
        params.device = ((struct ext_device *)device)->device;
    }
    Py_BEGIN_ALLOW_THREADS
    status = pto_comm_open(&params, &comm);
    Py_END_ALLOW_THREADS
    if (status >= 0)
        status = pto_comm_info(comm, &info);
    return status < 0 ? ext_raise(state_of(module), status, &error)
                      : Py_BuildValue("(KII)", (unsigned long long)(uintptr_t)comm, info.rank,
                                      info.rank_count);
}

static PyObject *comm_close(PyObject *module, PyObject *number)
{
    unsigned long long comm = PyLong_AsUnsignedLongLong(number);
    int status;

    if (PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = pto_comm_close(COMM(comm));
    Py_END_ALLOW_THREADS
    return finish(module, status, NULL);
}

static PyObject *comm_abort(PyObject *module, PyObject *args)
{
    unsigned long long comm;
    int status;

    if (!PyArg_ParseTuple(args, "Ki", &comm, &status))
        return NULL;
    return finish(module, pto_comm_abort(COMM(comm), status), NULL);
}

/* (handle, rank, rank_count, context) */
static PyObject *comm_domain_open(PyObject *module, PyObject *args)
{
    struct pto_domain_params params;
    struct pto_domain *domain = NULL;
    struct pto_domain_info info;
    struct pto_error error;
    unsigned long long comm, id, bytes, timeout;
    uint32_t ranks[1024];
    PyObject *list;
    int status;

    pto_domain_params_init(&params);
    pto_domain_info_init(&info);
    pto_error_init(&error);
    if (!PyArg_ParseTuple(args, "KKOKK", &comm, &id, &list, &bytes, &timeout))
        return NULL;
    params.id = id;
    params.window_bytes = bytes;
    params.timeout_ns = timeout;
    params.error = &error;
    if (list != Py_None) {
        Py_ssize_t count = PySequence_Size(list);

        if (count < 0 || count > (Py_ssize_t)(sizeof(ranks) / sizeof(ranks[0])))
            return count < 0 ? NULL
                             : ext_raise_text(state_of(module), PTO_EINVAL, "too many ranks");
        for (Py_ssize_t i = 0; i < count; i++) {
            PyObject *item = PySequence_GetItem(list, i);

            ranks[i] = item == NULL ? 0 : (uint32_t)PyLong_AsUnsignedLong(item);
            Py_XDECREF(item);
            if (PyErr_Occurred())
                return NULL;
        }
        params.ranks = ranks;
        params.rank_count = (uint32_t)count;
    }
    Py_BEGIN_ALLOW_THREADS
    status = pto_domain_open(COMM(comm), &params, &domain);
    Py_END_ALLOW_THREADS
    if (status >= 0)
        status = pto_domain_info(domain, &info);
    return status < 0 ? ext_raise(state_of(module), status, &error)
                      : Py_BuildValue("(KIIK)", (unsigned long long)(uintptr_t)domain, info.rank,
                                      info.rank_count, (unsigned long long)info.context);
}

static PyObject *comm_domain_close(PyObject *module, PyObject *args)
{
    unsigned long long domain, timeout;
    struct pto_error error;
    int status;

    pto_error_init(&error);
    if (!PyArg_ParseTuple(args, "KK", &domain, &timeout))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = pto_domain_close(DOMAIN(domain), timeout, &error);
    Py_END_ALLOW_THREADS
    return finish(module, status, &error);
}

/* A tensor in a rank's window; `owner` keeps the domain. */
static PyObject *comm_tensor(PyObject *module, PyObject *args)
{
    struct ext_state *state = state_of(module);
    unsigned long long domain, offset;
    uint32_t shapes[PTO_MAX_DIMS];
    PyObject *owner, *shape, *dtype;
    struct pto_tensor tensor;
    unsigned int rank;
    int code, ndims, status;

    if (!PyArg_ParseTuple(args, "OKIKOO", &owner, &domain, &rank, &offset, &shape, &dtype) ||
        (code = ext_dtype_code(state, dtype)) < 0 || (ndims = ext_shape(state, shape, shapes)) < 0)
        return NULL;
    status = pto_domain_tensor(DOMAIN(domain), rank, offset, shapes, (uint32_t)ndims,
                               (enum pto_dtype)code, &tensor);
    return status < 0 ? ext_raise(state, status, NULL)
                      : ext_tensor_new(state, &tensor, owner, false);
}

static PyObject *comm_barrier(PyObject *module, PyObject *args)
{
    unsigned long long domain, timeout;
    struct pto_error error;
    int status;

    pto_error_init(&error);
    if (!PyArg_ParseTuple(args, "KK", &domain, &timeout))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = pto_comm_barrier(DOMAIN(domain), timeout, &error);
    Py_END_ALLOW_THREADS
    return finish(module, status, &error);
}

static PyObject *comm_signal(PyObject *module, PyObject *args)
{
    unsigned long long domain, offset;
    unsigned int rank;
    int adds, value;

    if (!PyArg_ParseTuple(args, "KIKpi", &domain, &rank, &offset, &adds, &value))
        return NULL;
    return finish(module,
                  pto_comm_signal(DOMAIN(domain), rank,
                                  (struct pto_signal_at){
                                      offset, adds ? PTO_SIGNAL_ADD : PTO_SIGNAL_SET, value }),
                  NULL);
}

static PyObject *comm_wait(PyObject *module, PyObject *args)
{
    unsigned long long domain, offset, timeout;
    struct pto_error error;
    int how, value, status;

    pto_error_init(&error);
    if (!PyArg_ParseTuple(args, "KKiiK", &domain, &offset, &how, &value, &timeout))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status =
        pto_comm_wait(DOMAIN(domain), (struct pto_wait_for){ offset, (enum pto_compare)how, value },
                      timeout, &error);
    Py_END_ALLOW_THREADS
    return finish(module, status, &error);
}

static PyObject *comm_put(PyObject *module, PyObject *args)
{
    unsigned long long domain, offset;
    unsigned int rank;
    Py_buffer from;
    int status;

    if (!PyArg_ParseTuple(args, "KIKy*", &domain, &rank, &offset, &from))
        return NULL;
    status = pto_comm_put(DOMAIN(domain), rank, offset, from.buf, (uint64_t)from.len);
    if (status >= 0)
        status = pto_comm_quiet(DOMAIN(domain));
    PyBuffer_Release(&from);
    return finish(module, status, NULL);
}

enum { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, ALL_TO_ALL };

/* Elements of one rank's part: `to` has `parts` of them, or `from` has. */
static PyObject *collect(PyObject *module, struct pto_domain *domain, int which,
                         const struct pto_tensor *from, const struct pto_tensor *to,
                         struct pto_collective *how)
{
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
        return ext_raise(state_of(module), status, NULL);
    ranks = info.rank_count;
    expected = which == REDUCE_SCATTER ? small * ranks : small;
    if (which == ALL_TO_ALL)
        small /= ranks;
    if ((which == ALL_GATHER ? pto_tensor_numel(to) != small * ranks
                             : pto_tensor_numel(from) != expected) ||
        (which == ALL_TO_ALL && small * ranks != pto_tensor_numel(to)) ||
        from->dtype != to->dtype || !from->is_contiguous || !to->is_contiguous)
        return ext_raise_text(state_of(module), PTO_EINVAL,
                              "tensors of a collective are contiguous, of one data type, and their "
                              "numbers of elements fit its %llu ranks",
                              (unsigned long long)ranks);
    how->dtype = (enum pto_dtype)to->dtype;
    how->error = &error;
    Py_BEGIN_ALLOW_THREADS
    switch (which) {
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
    }
    Py_END_ALLOW_THREADS
    return finish(module, status, &error);
}

static PyObject *comm_collective(PyObject *module, PyObject *args)
{
    struct ext_state *state = state_of(module);
    struct pto_collective how;
    PyObject *from_object, *to_object, *result = NULL;
    unsigned long long domain, timeout;
    struct ext_tensor from, to;
    int which, reduce;

    pto_collective_init(&how);
    if (!PyArg_ParseTuple(args, "KiOOiIK", &domain, &which, &from_object, &to_object, &reduce,
                          &how.root, &timeout) ||
        ext_tensor_take(state, from_object, -1, &from) < 0)
        return NULL;
    how.reduce = (enum pto_reduce)reduce;
    how.timeout_ns = timeout;
    if (ext_tensor_take(state, to_object, -1, &to) == 0) {
        if (to.is_readonly)
            (void)ext_raise_text(state, PTO_EINVAL, "the result of a collective is read-only");
        else
            result = collect(module, DOMAIN(domain), which, &from.tensor, &to.tensor, &how);
        ext_hold_release(&to.hold);
    }
    ext_hold_release(&from.hold);
    return result;
}

static PyMethodDef functions[] = {
    { "_comm_open", comm_open, METH_VARARGS, NULL },
    { "_comm_close", comm_close, METH_O, NULL },
    { "_comm_abort", comm_abort, METH_VARARGS, NULL },
    { "_comm_domain_open", comm_domain_open, METH_VARARGS, NULL },
    { "_comm_domain_close", comm_domain_close, METH_VARARGS, NULL },
    { "_comm_tensor", comm_tensor, METH_VARARGS, NULL },
    { "_comm_barrier", comm_barrier, METH_VARARGS, NULL },
    { "_comm_signal", comm_signal, METH_VARARGS, NULL },
    { "_comm_wait", comm_wait, METH_VARARGS, NULL },
    { "_comm_put", comm_put, METH_VARARGS, NULL },
    { "_comm_collective", comm_collective, METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL },
};

int ext_comm_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
