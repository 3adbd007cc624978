/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Domains, regions and queues of a level-3 worker. The runtime validates handles, so they are plain
 * numbers here; pto/_worker.py wraps them in classes.
 */
#include "py_worker.h"

#include <pto/worker_domain.h>
#include <pto/worker_region.h>

static struct ext_state *state_of(PyObject *module)
{
    return PyModule_GetState(module);
}

static PyObject *talk_finish(PyObject *module, int status, const struct pto_error *error)
{
    return status < 0 ? ext_raise(state_of(module), status, error) : Py_NewRef(Py_None);
}

/*
 * Finds the worker, and the level if the call is made in an orchestration (else *level_out is
 * NULL). Returns false with an exception.
 */
static bool find_place(PyObject *module, PyObject *worker, PyObject *level,
                       struct pto_worker **worker_out, struct pto_level **level_out)
{
    struct ext_state *state = state_of(module);

    *level_out = NULL;
    if (!Py_IS_TYPE(worker, state->worker_type)) {
        PyErr_SetString(PyExc_TypeError, "not a worker");
        return false;
    }
    if (level != Py_None) {
        if (!PyType_IsSubtype(Py_TYPE(level), state->level_type) ||
            (*level_out = ((struct ext_level *)level)->level) == NULL) {
            (void)ext_raise_text(state, PTO_EINVAL, "the orchestration has returned");
            return false;
        }
    }
    *worker_out = ext_worker_handle((struct ext_worker *)worker);
    return *worker_out != NULL;
}

/* ---- domains ---- */

static PyObject *talk_domain_open(PyObject *module, PyObject *args)
{
    struct pto_worker_domain_params params;
    uint32_t chips[PTO_CHILDREN_MAX];
    PyObject *worker, *level, *list;
    struct pto_worker *handle;
    struct pto_level *place;
    struct pto_error error;
    unsigned long long bytes;
    uint64_t domain = 0;
    int retained, status;

    pto_worker_domain_params_init(&params);
    pto_error_init(&error);
    if (!PyArg_ParseTuple(args, "OOsOO&p", &worker, &level, &params.name, &list, ext_take_u64,
                          &bytes, &retained) ||
        !find_place(module, worker, level, &handle, &place))
        return NULL;
    params.window_bytes = bytes;
    params.is_retained = retained != 0;
    params.error = &error;
    if (list != Py_None) {
        int count = ext_worker_numbers(state_of(module), list, chips);

        if (count < 0)
            return NULL;
        params.chips = chips;
        params.chip_count = (uint32_t)count;
    }
    Py_BEGIN_ALLOW_THREADS
    status = place != NULL ? pto_level_domain_open(place, &params, &domain)
                           : pto_worker_domain_open(handle, &params, &domain);
    Py_END_ALLOW_THREADS
    return status < 0 ? ext_raise(state_of(module), status, &error)
                      : PyLong_FromUnsignedLongLong(domain);
}

static PyObject *domain_release(PyObject *module, PyObject *args)
{
    PyObject *worker, *level;
    struct pto_worker *handle;
    struct pto_level *place;
    unsigned long long domain;

    if (!PyArg_ParseTuple(args, "OOO&", &worker, &level, ext_take_u64, &domain) ||
        !find_place(module, worker, level, &handle, &place))
        return NULL;
    return talk_finish(module,
                       place != NULL ? pto_level_domain_release(place, domain)
                                     : pto_worker_domain_release(handle, domain),
                       NULL);
}

/* Returns the tuple (chip, context, address of the window, size of the window). */
static PyObject *domain_member(PyObject *module, PyObject *args)
{
    struct pto_worker_member member;
    PyObject *worker, *level;
    struct pto_worker *handle;
    struct pto_level *place;
    unsigned long long domain;
    unsigned int rank;
    int status;

    pto_worker_member_init(&member);
    if (!PyArg_ParseTuple(args, "OOO&O&", &worker, &level, ext_take_u64, &domain, ext_take_u32,
                          &rank) ||
        !find_place(module, worker, level, &handle, &place))
        return NULL;
    status = place != NULL ? pto_level_domain_member(place, domain, rank, &member)
                           : pto_worker_domain_member(handle, domain, rank, &member);
    if (status < 0)
        return ext_raise_text(state_of(module), status,
                              "the domain was released, or has no rank %u", rank);
    return Py_BuildValue("(INNK)", member.chip, ext_address_new(state_of(module), member.context),
                         ext_address_new(state_of(module), member.window),
                         (unsigned long long)member.window_bytes);
}

/* Sets the strides of a tensor, in elements. */
static int set_strides(struct ext_state *state, struct pto_tensor *tensor, PyObject *object)
{
    uint32_t strides[PTO_MAX_DIMS];
    int count = ext_shape(state, object, strides);

    if (count < 0)
        return -1;
    if ((uint32_t)count != tensor->ndims) {
        (void)ext_raise_text(state, PTO_EINVAL, "there are %d strides for %u dimensions", count,
                             tensor->ndims);
        return -1;
    }
    for (uint32_t d = 0; d < tensor->ndims; d++) {
        if (strides[d] == 0 && tensor->shapes[d] > 1) {
            (void)ext_raise_text(state, PTO_EINVAL, "the stride of dimension %u is 0", d);
            return -1;
        }
        tensor->strides[d] = strides[d] != 0 ? strides[d] : 1;
    }
    pto_tensor_update(tensor);
    tensor->size = pto_tensor_end(tensor);
    return 0;
}

/* Places a tensor in the memory of another one. */
static int put_into(struct ext_state *state, struct pto_tensor *tensor, PyObject *object)
{
    uint64_t item = pto_dtype_size(tensor->dtype);
    struct pto_tensor base;
    uint64_t offset;

    memcpy(&base, ((struct ext_tensor_object *)object)->bytes, sizeof(base));
    offset = tensor->addr - base.addr;
    if (tensor->addr < base.addr || offset % item != 0) {
        (void)ext_raise_text(state, PTO_EINVAL,
                             "the tensor begins before its memory, or between two elements");
        return -1;
    }
    tensor->addr = base.addr;
    tensor->size = base.size;
    tensor->owner = base.owner;
    tensor->start = offset / item;
    pto_tensor_update(tensor);
    return 0;
}

/*
 * Makes a tensor at the given address and size. `owner` keeps the memory alive; if it is a tensor
 * of a worker or a device, the result is a view of it.
 */
static PyObject *tensor_at(PyObject *module, PyObject *args)
{
    struct ext_state *state = state_of(module);
    PyObject *owner, *shape, *dtype, *strides = Py_None;
    unsigned long long addr, room;
    uint32_t shapes[PTO_MAX_DIMS];
    struct pto_tensor tensor;
    int code, ndims;

    if (!PyArg_ParseTuple(args, "OO&O&OO|O", &owner, ext_take_u64, &addr, ext_take_u64, &room,
                          &shape, &dtype, &strides) ||
        (code = ext_dtype_code(state, dtype)) < 0 || (ndims = ext_shape(state, shape, shapes)) < 0)
        return NULL;
    tensor = (pto_tensor_external)((void *)(uintptr_t)addr, shapes, (uint32_t)ndims,
                                   (enum pto_dtype)code);
    if (tensor.ndims != 0 && strides != Py_None && set_strides(state, &tensor, strides) < 0)
        return NULL;
    if (tensor.ndims == 0 || tensor.size > room)
        return ext_raise_text(state, PTO_EINVAL, "the tensor has %llu bytes; there are %llu",
                              (unsigned long long)tensor.size, room);
    if (Py_IS_TYPE(owner, state->tensor_type) && put_into(state, &tensor, owner) < 0)
        return NULL;
    return ext_tensor_new(state, &tensor, owner, false);
}

static PyObject *domain_info(PyObject *module, PyObject *args)
{
    struct pto_worker_domain_info info;
    PyObject *worker;
    struct pto_worker *handle;
    struct pto_level *place;
    unsigned long long domain;
    int status;

    pto_worker_domain_info_init(&info);
    if (!PyArg_ParseTuple(args, "OO&", &worker, ext_take_u64, &domain) ||
        !find_place(module, worker, Py_None, &handle, &place))
        return NULL;
    status = pto_worker_domain_info(handle, domain, &info);
    if (status < 0)
        return ext_raise_text(state_of(module), status, "the domain was released");
    return Py_BuildValue("{s:I,s:K,s:I,s:N}", "rank_count", info.rank_count, "window_bytes",
                         (unsigned long long)info.window_bytes, "users", info.users, "is_lost",
                         PyBool_FromLong(info.is_lost));
}

/* ---- regions and queues ---- */

/* Returns the scalars of a region, or of a queue, which begin with those of its region. */
static PyObject *scalars_of(PyObject *module, int status, const uint64_t *scalar, int count)
{
    PyObject *tuple = status < 0 ? ext_raise(state_of(module), status, NULL) : PyTuple_New(count);

    for (int i = 0; tuple != NULL && i < count; i++) {
        PyObject *value = i < PTO_REGION_SCALARS && (PTO_REGION_ADDRESSES >> i & 1) != 0
                              ? ext_address_new(state_of(module), scalar[i])
                              : PyLong_FromUnsignedLongLong(scalar[i]);

        if (value == NULL || PyTuple_SetItem(tuple, i, value) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

/* Opens a region. Returns the tuple (handle, scalars). */
static PyObject *region_open(PyObject *module, PyObject *args)
{
    struct pto_worker_region_params params;
    struct pto_worker_region *region = NULL;
    unsigned long long payload, counters;
    uint64_t scalar[PTO_REGION_SCALARS];
    struct pto_worker *handle;
    struct pto_level *place;
    struct pto_error error;
    PyObject *worker;
    int status;

    pto_worker_region_params_init(&params);
    pto_error_init(&error);
    if (!PyArg_ParseTuple(args, "OO&O&O&", &worker, ext_take_u32, &params.chip, ext_take_u64,
                          &payload, ext_take_u64, &counters) ||
        !find_place(module, worker, Py_None, &handle, &place))
        return NULL;
    params.payload_bytes = payload;
    params.counter_bytes = counters;
    params.error = &error;
    status = pto_worker_region_open(handle, &params, &region);
    if (status < 0)
        return ext_raise(state_of(module), status, &error);
    status = pto_worker_region_scalars(region, scalar);
    return Py_BuildValue("(KN)", (unsigned long long)(uintptr_t)region,
                         scalars_of(module, status, scalar, PTO_REGION_SCALARS));
}

static PyObject *queue_open(PyObject *module, PyObject *args)
{
    struct pto_worker_queue_params params;
    struct pto_worker_queue *queue = NULL;
    unsigned long long depth, input, output;
    uint64_t scalar[PTO_QUEUE_SCALARS];
    struct pto_worker *handle;
    struct pto_level *place;
    struct pto_error error;
    PyObject *worker;
    int status;

    pto_worker_queue_params_init(&params);
    pto_error_init(&error);
    if (!PyArg_ParseTuple(args, "OO&O&O&O&", &worker, ext_take_u32, &params.chip, ext_take_u64,
                          &depth, ext_take_u64, &input, ext_take_u64, &output) ||
        !find_place(module, worker, Py_None, &handle, &place))
        return NULL;
    params.depth = depth;
    params.input_bytes = input;
    params.output_bytes = output;
    params.error = &error;
    status = pto_worker_queue_open(handle, &params, &queue);
    if (status < 0)
        return ext_raise(state_of(module), status, &error);
    status = pto_worker_queue_scalars(queue, scalar);
    return Py_BuildValue("(KN)", (unsigned long long)(uintptr_t)queue,
                         scalars_of(module, status, scalar, PTO_QUEUE_SCALARS));
}

/* Converts the first argument of the following functions, a number, to the handle of a region. */
#define REGION(number) ((struct pto_worker_region *)(uintptr_t)(number))
#define QUEUE(number) ((struct pto_worker_queue *)(uintptr_t)(number))

static PyObject *region_close(PyObject *module, PyObject *number)
{
    unsigned long long region = PyLong_AsUnsignedLongLong(number);

    return PyErr_Occurred() ? NULL
                            : talk_finish(module, pto_worker_region_close(REGION(region)), NULL);
}

static PyObject *region_write(PyObject *module, PyObject *args)
{
    unsigned long long region, offset;
    Py_buffer from;
    int status;

    if (!PyArg_ParseTuple(args, "O&O&y*", ext_take_u64, &region, ext_take_u64, &offset, &from))
        return NULL;
    status = pto_worker_region_write(REGION(region), offset, from.buf, (uint64_t)from.len);
    PyBuffer_Release(&from);
    return talk_finish(module, status, NULL);
}

static PyObject *region_read(PyObject *module, PyObject *args)
{
    unsigned long long region, offset;
    Py_ssize_t bytes;
    PyObject *made;
    int status;

    if (!PyArg_ParseTuple(args, "O&O&O&", ext_take_u64, &region, ext_take_u64, &offset,
                          ext_take_size, &bytes))
        return NULL;
    made = PyBytes_FromStringAndSize(NULL, bytes);
    if (made == NULL)
        return NULL;
    status =
        pto_worker_region_read(REGION(region), offset, PyBytes_AsString(made), (uint64_t)bytes);
    if (status >= 0)
        return made;
    Py_DECREF(made);
    return ext_raise(state_of(module), status, NULL);
}

static PyObject *region_notify(PyObject *module, PyObject *args)
{
    unsigned long long region, offset;
    int adds, value;

    if (!PyArg_ParseTuple(args, "O&O&pi", ext_take_u64, &region, ext_take_u64, &offset, &adds,
                          &value))
        return NULL;
    return talk_finish(
        module,
        pto_worker_region_notify(
            REGION(region),
            (struct pto_signal_at){ offset, adds ? PTO_SIGNAL_ADD : PTO_SIGNAL_SET, value }),
        NULL);
}

static PyObject *region_counter(PyObject *module, PyObject *args)
{
    unsigned long long region, offset;
    int32_t value = 0;
    int status;

    if (!PyArg_ParseTuple(args, "O&O&", ext_take_u64, &region, ext_take_u64, &offset))
        return NULL;
    status = pto_worker_region_counter(REGION(region), offset, &value);
    return status < 0 ? ext_raise(state_of(module), status, NULL) : PyLong_FromLong(value);
}

/*
 * Whether to wait for another slice: time is left, and no signal handler has raised an exception.
 */
static bool goes_on(int status, uint64_t *left_ns, uint64_t slice_ns)
{
    *left_ns -= slice_ns;
    return status == PTO_ETIMEOUT && *left_ns != 0 && PyErr_CheckSignals() == 0;
}

enum { SLICE_NS = 50000000 };

static PyObject *region_wait(PyObject *module, PyObject *args)
{
    unsigned long long region, offset, timeout;
    struct pto_error error;
    uint64_t left, slice;
    int how, value, status;

    if (!PyArg_ParseTuple(args, "O&O&iiO&", ext_take_u64, &region, ext_take_u64, &offset, &how,
                          &value, ext_take_u64, &timeout))
        return NULL;
    left = timeout;
    do {
        slice = left < SLICE_NS ? left : SLICE_NS;
        pto_error_init(&error);
        Py_BEGIN_ALLOW_THREADS
        status = pto_worker_region_wait(
            REGION(region), (struct pto_wait_for){ offset, (enum pto_compare)how, value }, slice,
            &error);
        Py_END_ALLOW_THREADS
    } while (goes_on(status, &left, slice));
    return PyErr_Occurred() ? NULL : talk_finish(module, status, &error);
}

static PyObject *queue_close(PyObject *module, PyObject *number)
{
    unsigned long long queue = PyLong_AsUnsignedLongLong(number);

    return PyErr_Occurred() ? NULL
                            : talk_finish(module, pto_worker_queue_close(QUEUE(queue)), NULL);
}

static PyObject *queue_abort(PyObject *module, PyObject *number)
{
    unsigned long long queue = PyLong_AsUnsignedLongLong(number);

    return PyErr_Occurred() ? NULL
                            : talk_finish(module, pto_worker_queue_abort(QUEUE(queue)), NULL);
}

static PyObject *queue_send(PyObject *module, PyObject *args)
{
    unsigned long long queue, timeout;
    struct pto_error error;
    uint64_t left, slice;
    Py_buffer from;
    int kind, status;

    if (!PyArg_ParseTuple(args, "O&iy*O&", ext_take_u64, &queue, &kind, &from, ext_take_u64,
                          &timeout))
        return NULL;
    left = timeout;
    do {
        slice = left < SLICE_NS ? left : SLICE_NS;
        pto_error_init(&error);
        Py_BEGIN_ALLOW_THREADS
        status = pto_worker_queue_send(QUEUE(queue), (enum pto_message_kind)kind, from.buf,
                                       (uint64_t)from.len, slice, &error);
        Py_END_ALLOW_THREADS
    } while (goes_on(status, &left, slice));
    PyBuffer_Release(&from);
    return PyErr_Occurred() ? NULL : talk_finish(module, status, &error);
}

/* Receives a message from a queue. Returns the tuple (kind, bytes, number). */
static PyObject *queue_receive(PyObject *module, PyObject *args)
{
    unsigned long long queue, timeout;
    struct pto_worker_message message;
    struct pto_error error;
    uint64_t left, slice;
    Py_ssize_t room;
    PyObject *bytes, *result;
    int status;

    if (!PyArg_ParseTuple(args, "O&O&O&", ext_take_u64, &queue, ext_take_size, &room, ext_take_u64,
                          &timeout))
        return NULL;
    bytes = PyBytes_FromStringAndSize(NULL, room);
    if (bytes == NULL)
        return NULL;
    left = timeout;
    do {
        slice = left < SLICE_NS ? left : SLICE_NS;
        pto_error_init(&error);
        pto_worker_message_init(&message);
        message.to = PyBytes_AsString(bytes);
        message.room = (uint64_t)room;
        Py_BEGIN_ALLOW_THREADS
        status = pto_worker_queue_receive(QUEUE(queue), &message, slice, &error);
        Py_END_ALLOW_THREADS
    } while (goes_on(status, &left, slice));
    if (PyErr_Occurred() || status < 0)
        result = PyErr_Occurred() ? NULL : ext_raise(state_of(module), status, &error);
    else
        result = Py_BuildValue(
            "(iNK)", (int)message.kind,
            PyBytes_FromStringAndSize(PyBytes_AsString(bytes), (Py_ssize_t)message.bytes),
            (unsigned long long)message.number);
    Py_DECREF(bytes);
    return result;
}

static PyMethodDef functions[] = {
    { "_domain_open", talk_domain_open, METH_VARARGS, NULL },
    { "_domain_release", domain_release, METH_VARARGS, NULL },
    { "_domain_member", domain_member, METH_VARARGS, NULL },
    { "_domain_info", domain_info, METH_VARARGS, NULL },
    { "_tensor_at", tensor_at, METH_VARARGS, NULL },
    { "_region_open", region_open, METH_VARARGS, NULL },
    { "_region_close", region_close, METH_O, NULL },
    { "_region_write", region_write, METH_VARARGS, NULL },
    { "_region_read", region_read, METH_VARARGS, NULL },
    { "_region_notify", region_notify, METH_VARARGS, NULL },
    { "_region_counter", region_counter, METH_VARARGS, NULL },
    { "_region_wait", region_wait, METH_VARARGS, NULL },
    { "_queue_open", queue_open, METH_VARARGS, NULL },
    { "_queue_close", queue_close, METH_O, NULL },
    { "_queue_abort", queue_abort, METH_O, NULL },
    { "_queue_send", queue_send, METH_VARARGS, NULL },
    { "_queue_receive", queue_receive, METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL },
};

int ext_talk_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
