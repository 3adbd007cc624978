/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts objects to tensors without a copy: pto.Tensor, or objects with DLPack's C functions, the
 * buffer protocol or __dlpack__. For other objects it raises an exception with a sentence.
 */
#include "py_ext.h"

#include <stdio.h>
#include <string.h>

/* Description of an object's memory, from any of these protocols. */
struct form {
    void *data;
    int dtype;
    int ndim;
    Py_ssize_t itemsize;
    const int64_t *shape;
    const int64_t *strides; /* in units of `unit` bytes; NULL: row-major */
    Py_ssize_t unit;
};

/* Error texts about data types; the message adds the types. */
static const char unknown_type[] = "the runtime has no such data type; convert it, or give `dtype` "
                                   "to use its bits";
static const char other_size[] = "whose elements are not as large";

static int take_refuse(struct ext_state *state, PyObject *object, const char *why)
{
    PyObject *name = PyObject_GetAttr((PyObject *)Py_TYPE(object), state->names.type_name);
    const char *text = name == NULL ? NULL : PyUnicode_AsUTF8AndSize(name, NULL);

    if (text != NULL)
        (void)ext_raise_text(state, PTO_EINVAL, "%.100s cannot be a tensor: %s", text, why);
    Py_XDECREF(name);
    return -1;
}

/*
 * Formats the name of an object's element type as the object calls it; for a buffer without a name,
 * the letter of its format.
 */
static void name_type(PyObject *object, char *text, size_t size)
{
    PyObject *type = PyObject_GetAttrString(object, "dtype"), *words;
    const char *found = NULL;

    if (type == NULL) {
        PyErr_Clear();
        type = PyObject_GetAttrString(object, "format"); /* attribute of a memoryview */
    }
    if (type == NULL) {
        PyErr_Clear();
        type = PyObject_GetAttrString(object, "typecode"); /* attribute of an array.array */
    }
    words = type == NULL ? NULL : PyObject_Str(type);
    found = words == NULL ? NULL : PyUnicode_AsUTF8AndSize(words, NULL);
    PyErr_Clear();
    snprintf(text, size, "%.60s", found != NULL ? found : "of no known type");
    Py_XDECREF(words);
    Py_XDECREF(type);
}

/* Raises an error of choose_dtype, with the types of both sides. */
static int refuse_form(struct ext_state *state, PyObject *object, const char *why, int asked)
{
    char type[64], text[300];

    if (why != unknown_type && why != other_size)
        return take_refuse(state, object, why);
    name_type(object, type, sizeof(type));
    if (why == unknown_type)
        snprintf(text, sizeof(text), "its elements are %s, and %s", type, why);
    else
        snprintf(text, sizeof(text), "its elements are %s, and %s was asked for, %s", type,
                 pto_dtype_text((uint32_t)asked), why);
    return take_refuse(state, object, text);
}

/* Converts a form to a tensor. Returns NULL, or why it cannot be a tensor. */
static const char *take_describe(const struct form *form, struct pto_tensor *out)
{
    /* a single element, without dimensions, becomes a tensor with one dimension */
    int ndims = form->ndim == 0 ? 1 : form->ndim;
    uint64_t expected = 1;
    bool is_empty = false;

    if (form->ndim > PTO_MAX_DIMS)
        return "it has more than 5 dimensions; reshape it";
    for (int d = 0; d < form->ndim; d++)
        is_empty = is_empty || form->shape[d] == 0; /* strides of an empty tensor are not checked */
    memset(out, 0, sizeof(*out));
    out->addr = (uint64_t)(uintptr_t)form->data;
    out->owner = pto_task_id_invalid();
    out->dtype = (uint8_t)form->dtype;
    out->ndims = (uint32_t)ndims;
    for (int d = ndims; d-- > 0;) {
        int64_t size = form->ndim == 0 ? 1 : form->shape[d];
        int64_t stride = (int64_t)expected;

        if (size < 0 || size > UINT32_MAX)
            return "a dimension has more than 4294967295 elements; divide it";
        if (form->strides != NULL && form->ndim != 0 && size > 1 && !is_empty) {
            if (form->strides[d] % (form->itemsize / form->unit) != 0)
                return "a stride is no multiple of its elements; copy it";
            stride = form->strides[d] / (form->itemsize / form->unit);
        }
        if (stride < 0)
            return "a stride is negative, and elements may only follow each other upwards; copy it";
        if (stride == 0 && size > 1)
            return "a stride is 0: it is one element that is shown many times; copy it";
        if (stride > UINT32_MAX)
            return "a stride is more than 4294967295 elements; copy it";
        out->shapes[d] = (uint32_t)size;
        out->strides[d] = stride > 0 ? (uint32_t)stride : 1;
        expected = expected * (uint64_t)(size != 0 ? size : 1);
    }
    pto_tensor_update(out);
    out->size = out->extent * pto_dtype_size(out->dtype);
    return NULL;
}

/*
 * Selects the data type that the caller asks for, if its elements have the size of the object's
 * elements. Returns NULL, or why it cannot be used.
 */
static const char *choose_dtype(struct form *form, int asked)
{
    if (asked >= 0 && pto_dtype_size((uint32_t)asked) != (uint32_t)form->itemsize)
        return other_size;
    if (asked >= 0)
        form->dtype = asked;
    return form->dtype < 0 ? unknown_type : NULL;
}

static const char *take_dlpack(const struct dlpack_tensor *from, int asked, struct pto_tensor *out)
{
    /* DLPack's codes of devices whose memory is host memory that a chip can access */
    enum { CUDA_HOST = 3, ROCM_HOST = 11 };
    struct form form = {
        .data = (char *)from->data + from->byte_offset,
        .dtype = ext_dtype_from_dlpack(from->dtype),
        .ndim = from->ndim,
        .itemsize = ((Py_ssize_t)from->dtype.bits * from->dtype.lanes + 7) / 8,
        .shape = from->shape,
        .strides = from->strides,
    };
    const char *why;

    form.unit = form.itemsize;
    if (from->device.type != DLPACK_CPU && from->device.type != CUDA_HOST &&
        from->device.type != ROCM_HOST)
        return "it is not in the memory of this machine; copy it there first";
    if (from->dtype.bits * from->dtype.lanes % 8 != 0)
        return "several of its elements share a byte; unpack it";
    why = choose_dtype(&form, asked);
    return why != NULL ? why : take_describe(&form, out);
}

static int take_versioned(struct ext_state *state, PyObject *object, struct dlpack_versioned *from,
                          int dtype, struct ext_tensor *out)
{
    const char *why;

    if (from->version.major != DLPACK_MAJOR)
        why = "its library speaks another version of DLPack";
    else
        why = take_dlpack(&from->tensor, dtype, &out->tensor);
    out->hold.kind = EXT_HOLD_VERSIONED;
    out->hold.versioned = from;
    out->is_readonly = why == NULL && (from->flags & DLPACK_READ_ONLY) != 0;
    if (why == NULL)
        return 0;
    ext_hold_release(&out->hold);
    return refuse_form(state, object, why, dtype);
}

static int take_capsule(struct ext_state *state, PyObject *object, PyObject *capsule, int dtype,
                        struct ext_tensor *out)
{
    const char *why;

    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        struct dlpack_versioned *versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");

        if (PyCapsule_SetName(capsule, "used_dltensor_versioned") < 0)
            return -1;
        return take_versioned(state, object, versioned, dtype, out);
    }
    out->hold.managed = PyCapsule_GetPointer(capsule, "dltensor");
    if (out->hold.managed == NULL || PyCapsule_SetName(capsule, "used_dltensor") < 0)
        return -1;
    out->hold.kind = EXT_HOLD_MANAGED;
    out->is_readonly = false;
    why = take_dlpack(&out->hold.managed->tensor, dtype, &out->tensor);
    if (why == NULL)
        return 0;
    ext_hold_release(&out->hold);
    return refuse_form(state, object, why, dtype);
}

/*
 * Returns the cached facts about a type: a capsule with its functions; True: __dlpack__ accepts a
 * version; False: it does not.
 */
static PyObject *exchange_of(struct ext_state *state, PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    PyObject *known = PyDict_GetItemWithError(state->exchange, (PyObject *)type);
    PyObject *found;

    if (known != NULL || PyErr_Occurred())
        return known;
    found = PyObject_GetAttr((PyObject *)type, state->names.exchange_api);
    if (found == NULL || !PyCapsule_IsValid(found, "dlpack_exchange_api")) {
        PyErr_Clear();
        Py_XDECREF(found);
        found = Py_NewRef(Py_True);
        ext_torch_learn(state, object);
    }
    if (PyDict_Size(state->exchange) >= 64)
        /* limit the size of the cache, which also keeps temporary classes alive */
        PyDict_Clear(state->exchange);
    if (PyDict_SetItem(state->exchange, (PyObject *)type, found) < 0) {
        Py_DECREF(found);
        return NULL;
    }
    Py_DECREF(found); /* the dict holds a reference */
    return found;
}

static const struct dlpack_exchange *functions_of(PyObject *capsule)
{
    const struct dlpack_exchange *functions = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");

    while (functions != NULL && functions->version.major > DLPACK_MAJOR)
        functions = functions->previous;
    return functions != NULL && functions->version.major == DLPACK_MAJOR &&
                   functions->from_object != NULL
               ? functions
               : NULL;
}

static int take_buffer(struct ext_state *state, PyObject *object, int dtype, struct ext_tensor *out)
{
    Py_buffer *view = &out->hold.buffer;
    int64_t shape[PTO_MAX_DIMS], strides[PTO_MAX_DIMS];
    struct form form = { .shape = shape, .strides = strides, .unit = 1 };
    const char *why = NULL;

    if (PyObject_GetBuffer(object, view, PyBUF_RECORDS_RO) < 0)
        return -1;
    out->hold.kind = EXT_HOLD_BUFFER;
    out->is_readonly = view->readonly;
    form.data = view->buf;
    form.ndim = view->ndim;
    form.itemsize = view->itemsize;
    form.dtype = ext_dtype_from_format(view->format, view->itemsize);
    if (view->ndim > PTO_MAX_DIMS)
        why = "it has more than 5 dimensions; reshape it";
    else if (view->itemsize == 0)
        why = "its elements have no bytes";
    for (int d = 0; why == NULL && d < view->ndim; d++) {
        shape[d] = view->shape[d];
        strides[d] = view->strides[d];
    }
    if (why == NULL)
        why = choose_dtype(&form, dtype);
    if (why == NULL)
        why = take_describe(&form, &out->tensor);
    if (why == NULL)
        return 0;
    ext_hold_release(&out->hold);
    return refuse_form(state, object, why, dtype);
}

/* Calls __dlpack__ with the newest version that the type supports. */
static PyObject *call_dlpack(struct ext_state *state, PyObject *object, PyObject *method,
                             PyObject *exchange)
{
    PyObject *none, *capsule;

    if (exchange != Py_True)
        return PyObject_CallNoArgs(method);
    none = PyTuple_New(0);
    capsule = none == NULL ? NULL : PyObject_Call(method, none, state->max_version);
    Py_XDECREF(none);
    if (capsule != NULL || !PyErr_ExceptionMatches(PyExc_TypeError))
        return capsule;
    PyErr_Clear(); /* predates versions */
    if (PyDict_SetItem(state->exchange, (PyObject *)Py_TYPE(object), Py_False) < 0)
        return NULL;
    return PyObject_CallNoArgs(method);
}

/*
 * Converts an object by numpy, if an older library cannot export it by DLPack, for example bools of
 * torch 1.
 */
static int take_by_numpy(struct ext_state *state, PyObject *object, int dtype,
                         struct ext_tensor *out)
{
    PyObject *type, *value, *traceback, *array;
    int status = -1;

    PyErr_Fetch(&type, &value, &traceback);
    array = PyObject_CallMethod(object, "numpy", NULL);
    if (array != NULL && PyObject_CheckBuffer(array))
        status = take_buffer(state, array, dtype, out);
    Py_XDECREF(array);
    if (status < 0) { /* restore the exception of the first attempt */
        PyErr_Clear();
        PyErr_Restore(type, value, traceback);
    } else {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
    }
    return status;
}

/* Converts an object by calling its method __dlpack__. */
static int take_by_method(struct ext_state *state, PyObject *object, PyObject *exchange, int dtype,
                          struct ext_tensor *out)
{
    PyObject *method = PyObject_GetAttr(object, state->names.dlpack);
    PyObject *capsule;
    int status;

    if (method == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        return take_refuse(state, object,
                           "it has neither DLPack (__dlpack__) nor the buffer protocol");
    }
    if (method == NULL)
        return -1;
    capsule = call_dlpack(state, object, method, exchange);
    Py_DECREF(method);
    if (capsule == NULL)
        return PyErr_ExceptionMatches(PyExc_RuntimeError) ? take_by_numpy(state, object, dtype, out)
                                                          : -1;
    status = take_capsule(state, object, capsule, dtype, out);
    Py_DECREF(capsule);
    return status;
}

int ext_tensor_take(struct ext_state *state, PyObject *object, int dtype, struct ext_tensor *out)
{
    PyObject *exchange;

    out->hold.kind = EXT_HOLD_NOTHING;
    if (Py_IS_TYPE(object, state->tensor_type) ||
        PyType_IsSubtype(Py_TYPE(object), state->tensor_type)) {
        memcpy(&out->tensor, ((struct ext_tensor_object *)object)->bytes, sizeof(out->tensor));
        if (dtype >= 0 && pto_dtype_size((uint32_t)dtype) != pto_dtype_size(out->tensor.dtype))
            return refuse_form(state, object, other_size, dtype);
        if (dtype >= 0)
            out->tensor.dtype = (uint8_t)dtype;
        out->hold.kind = EXT_HOLD_OBJECT;
        out->hold.object = Py_NewRef(object);
        out->is_readonly = ((struct ext_tensor_object *)object)->is_readonly;
        return 0;
    }
    exchange = exchange_of(state, object);
    if (exchange == NULL)
        return -1;
    if (PyCapsule_CheckExact(exchange)) {
        const struct dlpack_exchange *functions = functions_of(exchange);
        struct dlpack_versioned *versioned;

        if (functions != NULL)
            return functions->from_object(object, &versioned) != 0
                       ? -1
                       : take_versioned(state, object, versioned, dtype, out);
        PyErr_Clear();
    }
    if (PyObject_CheckBuffer(object))
        return take_buffer(state, object, dtype, out);
    return take_by_method(state, object, exchange, dtype, out);
}

int ext_tensor_borrow(struct ext_state *state, PyObject *object, struct ext_tensor *out)
{
    if ((PyObject *)Py_TYPE(object) == state->torch.type && ext_torch_take(state, object, out))
        return 0;
    return ext_tensor_take(state, object, -1, out);
}

void ext_hold_release(struct ext_hold *hold)
{
    switch (hold->kind) {
    case EXT_HOLD_OBJECT:
        Py_CLEAR(hold->object);
        break;
    case EXT_HOLD_BUFFER:
        PyBuffer_Release(&hold->buffer);
        break;
    case EXT_HOLD_MANAGED:
        if (hold->managed->deleter != NULL)
            hold->managed->deleter(hold->managed);
        break;
    case EXT_HOLD_VERSIONED:
        if (hold->versioned->deleter != NULL)
            hold->versioned->deleter(hold->versioned);
        break;
    case EXT_HOLD_NOTHING:
        break;
    }
    hold->kind = EXT_HOLD_NOTHING;
}
