/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks: communicators, windows, signals. The runtime validates handles, so they are plain numbers
 * here, and pto/comm.py wraps them in classes. py_collective.c has the collectives.
 *
 * Ctrl-C ends waits. A wait for a signal is divided into slices. In a collective call, Ctrl-C
 * aborts the communicator, because the other ranks cannot continue without this one: their calls
 * end as well. While a communicator is being opened there is nothing to abort: the opening
 * continues on its own thread, which closes the result.
 */
#include "py_comm.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLICE_NS = 50000000 }; /* slice of a wait; signals are checked between slices */

PyObject *ext_comm_finish(PyObject *module, int status, const struct pto_error *error)
{
    if (status >= 0)
        Py_RETURN_NONE;
    if (PyErr_CheckSignals() < 0)
        /* the call has failed because Ctrl-C made this process abort the communicator */
        return NULL;
    return ext_raise(PyModule_GetState(module), status, error);
}

void ext_comm_abort(void *comm)
{
    (void)pto_comm_abort(comm, PTO_ECANCELED);
}

/* ---- communicators ---- */

/* A communicator that is being opened. */
struct opening {
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct pto_comm_params params; /* this struct owns the texts of the parameters */
    struct pto_error error;
    struct pto_comm *comm;
    int status;
    bool is_done, is_abandoned; /* protected by the lock */
};

static void free_opening(struct opening *o)
{
    free((char *)o->params.backend);
    free((char *)o->params.path);
    free((char *)o->params.token);
    pthread_mutex_destroy(&o->lock);
    pthread_cond_destroy(&o->change);
    free(o);
}

static void *open_main(void *given)
{
    struct opening *o = given;
    bool is_ours;

    o->status = pto_comm_open(&o->params, &o->comm);
    pthread_mutex_lock(&o->lock);
    o->is_done = true;
    is_ours = o->is_abandoned;
    (void)pthread_cond_signal(&o->change);
    pthread_mutex_unlock(&o->lock);
    if (is_ours) {
        if (o->status >= 0)
            (void)pto_comm_close(o->comm);
        free_opening(o);
    }
    return NULL;
}

/* Waits for the thread. False: a signal raised an exception, and the thread owns `o`. */
static bool await_opening(struct opening *o)
{
    bool is_done = false, is_raised = false;

    while (!is_done && !is_raised) {
        Py_BEGIN_ALLOW_THREADS
        {
            struct timespec end;

            (void)clock_gettime(CLOCK_REALTIME, &end);
            end.tv_nsec += SLICE_NS;
            end.tv_sec += end.tv_nsec / 1000000000;
            end.tv_nsec %= 1000000000;
            pthread_mutex_lock(&o->lock);
            if (!o->is_done)
                (void)pthread_cond_timedwait(&o->change, &o->lock, &end);
            is_done = o->is_done;
            pthread_mutex_unlock(&o->lock);
        }
        Py_END_ALLOW_THREADS
        is_raised = !is_done && PyErr_CheckSignals() < 0;
    }
    if (!is_raised)
        return true;
    pthread_mutex_lock(&o->lock);
    o->is_abandoned = !o->is_done;
    is_done = o->is_done;
    pthread_mutex_unlock(&o->lock);
    if (is_done) { /* completed meanwhile */
        if (o->status >= 0)
            (void)pto_comm_close(o->comm);
        free_opening(o);
    }
    return false;
}

static char *copy_text(const char *text)
{
    return text == NULL ? NULL : strdup(text);
}

/* Returns the tuple (handle, rank, rank_count) of a communicator. */
static PyObject *comm_describe(PyObject *module, struct pto_comm *comm)
{
    struct pto_comm_info info;
    int status;

    pto_comm_info_init(&info);
    status = pto_comm_info(comm, &info);
    return status < 0 ? ext_raise(PyModule_GetState(module), status, NULL)
                      : Py_BuildValue("(KII)", (unsigned long long)(uintptr_t)comm, info.rank,
                                      info.rank_count);
}

static PyObject *comm_open(PyObject *module, PyObject *args)
{
    struct ext_state *state = PyModule_GetState(module);
    struct pto_comm_params params;
    PyObject *device, *result;
    unsigned long long timeout;
    struct opening *o;
    pthread_t thread;
    int has_canary;

    pto_comm_params_init(&params);
    if (!PyArg_ParseTuple(args, "ziO&zzO&Op", &params.backend, &params.rank, ext_take_u32,
                          &params.rank_count, &params.path, &params.token, ext_take_u64, &timeout,
                          &device, &has_canary))
        return NULL;
    params.timeout_ns = timeout;
    params.has_canary = has_canary != 0;
    if (device != Py_None && !PyType_IsSubtype(Py_TYPE(device), state->device_type)) {
        PyErr_SetString(PyExc_TypeError, "device is a pto.Device");
        return NULL;
    }
    o = calloc(1, sizeof(*o));
    if (o == NULL)
        return PyErr_NoMemory();
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->change, NULL);
    pto_error_init(&o->error);
    params.backend = copy_text(params.backend);
    params.path = copy_text(params.path);
    params.token = copy_text(params.token);
    params.error = &o->error;
    if (device != Py_None)
        params.device = ((struct ext_device *)device)->device;
    o->params = params;
    if (pthread_create(&thread, NULL, open_main, o) != 0) {
        free_opening(o);
        return ext_raise_text(state, PTO_ESYSTEM, "cannot start a thread to open a communicator");
    }
    (void)pthread_detach(thread);
    if (!await_opening(o)) {
        if (device != Py_None)
            Py_INCREF(device); /* keep the reference, because the thread now uses the device */
        return NULL;
    }
    result =
        o->status < 0 ? ext_raise(state, o->status, &o->error) : comm_describe(module, o->comm);
    free_opening(o);
    return result;
}

/*
 * Opens communicators for ranks that are threads of this process. Returns a list with a tuple for
 * each rank, as _comm_open returns it.
 */
static PyObject *comm_open_team(PyObject *module, PyObject *args)
{
    struct pto_comm_params params;
    unsigned long long timeout;
    struct pto_comm **comm;
    struct pto_error error;
    PyObject *list = NULL;
    unsigned int count;
    int status;

    pto_comm_params_init(&params);
    pto_error_init(&error);
    if (!PyArg_ParseTuple(args, "O&O&", ext_take_u32, &count, ext_take_u64, &timeout))
        return NULL;
    params.timeout_ns = timeout;
    params.error = &error;
    comm = calloc((size_t)count + 1, sizeof(struct pto_comm *));
    if (comm == NULL)
        return PyErr_NoMemory();
    status = pto_comm_open_team(&params, count, comm);
    if (status < 0)
        (void)ext_raise(PyModule_GetState(module), status, &error);
    else
        list = PyList_New(0);
    for (unsigned int i = 0; list != NULL && i < count; i++) {
        PyObject *one = comm_describe(module, comm[i]);

        if (one == NULL || PyList_Append(list, one) < 0)
            Py_CLEAR(list);
        Py_XDECREF(one);
    }
    for (unsigned int i = 0; status >= 0 && list == NULL && i < count; i++)
        (void)pto_comm_close(comm[i]);
    free(comm);
    return list;
}

static PyObject *comm_close(PyObject *module, PyObject *number)
{
    unsigned long long comm = PyLong_AsUnsignedLongLong(number);
    int status;

    if (PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = pto_comm_close(EXT_COMM(comm));
    Py_END_ALLOW_THREADS
    return ext_comm_finish(module, status, NULL);
}

static PyObject *comm_abort(PyObject *module, PyObject *args)
{
    unsigned long long comm;
    int status;

    if (!PyArg_ParseTuple(args, "O&i", ext_take_u64, &comm, &status))
        return NULL;
    return ext_comm_finish(module, pto_comm_abort(EXT_COMM(comm), status), NULL);
}

static PyObject *comm_info(PyObject *module, PyObject *number)
{
    unsigned long long comm = PyLong_AsUnsignedLongLong(number);
    struct pto_comm_info info;
    int status;

    if (PyErr_Occurred())
        return NULL;
    pto_comm_info_init(&info);
    status = pto_comm_info(EXT_COMM(comm), &info);
    if (status < 0)
        return ext_raise(PyModule_GetState(module), status, NULL);
    return Py_BuildValue("{s:s,s:I,s:I,s:I,s:N}", "backend", info.backend, "rank", info.rank,
                         "rank_count", info.rank_count, "lost_count", info.lost_count,
                         "has_addresses", PyBool_FromLong(info.has_addresses));
}

/* ---- domains ---- */

/* Opens a domain. Returns the tuple (handle, rank, rank_count, context, bytes of a window). */
static PyObject *comm_domain_open(PyObject *module, PyObject *args)
{
    struct pto_domain_params params;
    struct pto_domain *domain = NULL;
    struct pto_domain_info info;
    struct pto_error error;
    unsigned long long comm, id, bytes, parent, parent_offset, timeout;
    uint32_t *ranks = NULL;
    PyObject *list;
    int status;

    pto_domain_params_init(&params);
    pto_domain_info_init(&info);
    pto_error_init(&error);
    if (!PyArg_ParseTuple(args, "O&O&OO&O&O&O&", ext_take_u64, &comm, ext_take_u64, &id, &list,
                          ext_take_u64, &bytes, ext_take_u64, &parent, ext_take_u64, &parent_offset,
                          ext_take_u64, &timeout))
        return NULL;
    params.id = id;
    params.window_bytes = bytes;
    params.parent = EXT_DOMAIN(parent);
    params.parent_offset = parent_offset;
    params.timeout_ns = timeout;
    params.error = &error;
    if (list != Py_None) {
        Py_ssize_t count = PySequence_Size(list);

        ranks = count < 0 ? NULL : calloc((size_t)count + 1, sizeof(*ranks));
        for (Py_ssize_t i = 0; ranks != NULL && i < count; i++) {
            PyObject *item = PySequence_GetItem(list, i);
            bool is_rank = item != NULL && ext_take_u32(item, &ranks[i]);

            Py_XDECREF(item);
            if (!is_rank) {
                free(ranks);
                return NULL;
            }
        }
        if (ranks == NULL)
            return PyErr_Occurred() ? NULL : PyErr_NoMemory();
        params.ranks = ranks;
        params.rank_count = (uint32_t)count;
    }
    EXT_TOGETHER(comm, status = pto_domain_open(EXT_COMM(comm), &params, &domain));
    free(ranks);
    if (status >= 0)
        status = pto_domain_info(domain, &info);
    return status < 0 ? ext_comm_finish(module, status, &error)
                      : Py_BuildValue("(KIIKK)", (unsigned long long)(uintptr_t)domain, info.rank,
                                      info.rank_count, (unsigned long long)info.context,
                                      (unsigned long long)info.window_bytes);
}

/* Makes a collective call with a timeout. */
static PyObject *call_together(PyObject *module, PyObject *args,
                               int (*call)(struct pto_domain *domain, uint64_t timeout_ns,
                                           struct pto_error *error))
{
    unsigned long long comm, domain, timeout;
    struct pto_error error;
    int status;

    pto_error_init(&error);
    if (!PyArg_ParseTuple(args, "O&O&O&", ext_take_u64, &comm, ext_take_u64, &domain, ext_take_u64,
                          &timeout))
        return NULL;
    EXT_TOGETHER(comm, status = call(EXT_DOMAIN(domain), timeout, &error));
    return ext_comm_finish(module, status, &error);
}

static PyObject *domain_close(PyObject *module, PyObject *args)
{
    return call_together(module, args, pto_domain_close);
}

static PyObject *comm_barrier(PyObject *module, PyObject *args)
{
    return call_together(module, args, pto_comm_barrier);
}

static const char WINDOWS[] = "pto windows";

static void free_windows(PyObject *capsule)
{
    pto_windows_free(PyCapsule_GetPointer(capsule, WINDOWS));
}

/* Makes a tensor in a rank's window, which keeps the memory mapped even after a close. */
static PyObject *domain_tensor(PyObject *module, PyObject *args)
{
    struct ext_state *state = PyModule_GetState(module);
    unsigned long long domain, offset;
    uint32_t shapes[PTO_MAX_DIMS];
    PyObject *shape, *dtype, *owner, *made;
    struct pto_windows *windows = NULL;
    struct pto_tensor tensor;
    unsigned int rank;
    int code, ndims, status;

    if (!PyArg_ParseTuple(args, "O&O&O&OO", ext_take_u64, &domain, ext_take_u32, &rank,
                          ext_take_u64, &offset, &shape, &dtype) ||
        (code = ext_dtype_code(state, dtype)) < 0 || (ndims = ext_shape(state, shape, shapes)) < 0)
        return NULL;
    status = pto_domain_tensor(EXT_DOMAIN(domain), rank, offset, shapes, (uint32_t)ndims,
                               (enum pto_dtype)code, &tensor);
    if (status >= 0)
        status = pto_domain_keep(EXT_DOMAIN(domain), &windows);
    if (status < 0)
        return status == PTO_EINVAL
                   ? ext_raise_text(state, status,
                                    "the domain is closed, has no rank %u, or the tensor is not "
                                    "inside its window at a multiple of its element size",
                                    rank)
                   : ext_raise(state, status, NULL);
    owner = PyCapsule_New(windows, WINDOWS, free_windows);
    if (owner == NULL) {
        pto_windows_free(windows);
        return NULL;
    }
    made = ext_tensor_new(state, &tensor, owner, false);
    Py_DECREF(owner);
    return made;
}

/* ---- data ---- */

static PyObject *comm_put(PyObject *module, PyObject *args)
{
    unsigned long long domain, offset, at = 0;
    int how = -1, value = 0, status;
    unsigned int rank;
    Py_buffer from;

    if (!PyArg_ParseTuple(args, "O&O&O&y*|O&ii", ext_take_u64, &domain, ext_take_u32, &rank,
                          ext_take_u64, &offset, &from, ext_take_u64, &at, &how, &value))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    if (how >= 0) {
        status = pto_comm_put_signal(EXT_DOMAIN(domain), rank, offset, from.buf, (uint64_t)from.len,
                                     (struct pto_signal_at){ at, (enum pto_signal)how, value });
    } else {
        status = pto_comm_put(EXT_DOMAIN(domain), rank, offset, from.buf, (uint64_t)from.len);
        if (status >= 0)
            status = pto_comm_quiet(EXT_DOMAIN(domain));
    }
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&from);
    return ext_comm_finish(module, status, NULL);
}

static PyObject *comm_get(PyObject *module, PyObject *args)
{
    unsigned long long domain, offset;
    unsigned int rank;
    Py_buffer to;
    int status;

    if (!PyArg_ParseTuple(args, "O&O&O&w*", ext_take_u64, &domain, ext_take_u32, &rank,
                          ext_take_u64, &offset, &to))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = pto_comm_get(EXT_DOMAIN(domain), rank, offset, to.buf, (uint64_t)to.len);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&to);
    return ext_comm_finish(module, status, NULL);
}

static PyObject *comm_signal(PyObject *module, PyObject *args)
{
    unsigned long long domain, offset;
    int how, value;
    unsigned int rank;

    if (!PyArg_ParseTuple(args, "O&O&O&ii", ext_take_u64, &domain, ext_take_u32, &rank,
                          ext_take_u64, &offset, &how, &value))
        return NULL;
    return ext_comm_finish(
        module,
        pto_comm_signal(EXT_DOMAIN(domain), rank,
                        (struct pto_signal_at){ offset, (enum pto_signal)how, value }),
        NULL);
}

static PyObject *comm_fetch_add(PyObject *module, PyObject *args)
{
    unsigned long long domain, offset;
    int32_t before = 0;
    unsigned int rank;
    int value, status;

    if (!PyArg_ParseTuple(args, "O&O&O&i", ext_take_u64, &domain, ext_take_u32, &rank, ext_take_u64,
                          &offset, &value))
        return NULL;
    status = pto_comm_fetch_add(EXT_DOMAIN(domain), rank, offset, value, &before);
    return status < 0 ? ext_comm_finish(module, status, NULL) : PyLong_FromLong(before);
}

static PyObject *comm_wait(PyObject *module, PyObject *args)
{
    unsigned long long domain, offset, left;
    struct pto_error error;
    int how, value, status;
    uint64_t slice;

    if (!PyArg_ParseTuple(args, "O&O&iiO&", ext_take_u64, &domain, ext_take_u64, &offset, &how,
                          &value, ext_take_u64, &left))
        return NULL;
    do {
        slice = left < SLICE_NS ? left : SLICE_NS;
        left -= slice;
        pto_error_init(&error);
        Py_BEGIN_ALLOW_THREADS
        status = pto_comm_wait(EXT_DOMAIN(domain),
                               (struct pto_wait_for){ offset, (enum pto_compare)how, value }, slice,
                               &error);
        Py_END_ALLOW_THREADS
    } while (status == PTO_ETIMEOUT && left != 0 && PyErr_CheckSignals() == 0);
    return PyErr_Occurred() ? NULL : ext_comm_finish(module, status, &error);
}

static PyMethodDef functions[] = {
    { "_comm_open", comm_open, METH_VARARGS, NULL },
    { "_comm_open_team", comm_open_team, METH_VARARGS, NULL },
    { "_comm_close", comm_close, METH_O, NULL },
    { "_comm_abort", comm_abort, METH_VARARGS, NULL },
    { "_comm_info", comm_info, METH_O, NULL },
    { "_comm_domain_open", comm_domain_open, METH_VARARGS, NULL },
    { "_comm_domain_close", domain_close, METH_VARARGS, NULL },
    { "_comm_tensor", domain_tensor, METH_VARARGS, NULL },
    { "_comm_barrier", comm_barrier, METH_VARARGS, NULL },
    { "_comm_put", comm_put, METH_VARARGS, NULL },
    { "_comm_get", comm_get, METH_VARARGS, NULL },
    { "_comm_signal", comm_signal, METH_VARARGS, NULL },
    { "_comm_fetch_add", comm_fetch_add, METH_VARARGS, NULL },
    { "_comm_wait", comm_wait, METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL },
};

int ext_comm_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) < 0 ? -1 : ext_collective_init(module);
}
