/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fast path for contiguous tensors of torch before version 2.10, which has no C functions of
 * DLPack, and whose __dlpack__, a Python function, takes longer than the rest of the conversion. It
 * calls the C functions of the tensor's methods directly. It is used only for calls that wait for
 * their end: holding the object keeps its memory alive during the call, but a program may give the
 * object other memory later. Other tensors take the general path.
 */
#include "py_ext.h"

#include <string.h>

static bool learn_property(struct ext_property *p, PyObject *type, const char *name)
{
    p->object = PyObject_GetAttrString(type, name);
    p->get = p->object == NULL ? NULL
                               : (descrgetfunc)PyType_GetSlot(Py_TYPE(p->object), Py_tp_descr_get);
    return p->get != NULL;
}

/* Returns the C function of a method if the method has these flags, else NULL. */
static PyCFunction learn_method(PyObject *object, const char *name, int flags)
{
    PyObject *bound = PyObject_GetAttrString(object, name);
    PyCFunction function =
        bound != NULL && PyCFunction_Check(bound) && PyCFunction_GetFlags(bound) == flags
            ? PyCFunction_GetFunction(bound)
            : NULL;

    Py_XDECREF(bound);
    return function;
}

static bool is_called(PyObject *type, const char *attribute, const char *text)
{
    PyObject *name = PyObject_GetAttrString(type, attribute);
    bool is_equal =
        name != NULL && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, text) == 0;

    Py_XDECREF(name);
    return is_equal;
}

void ext_torch_learn(struct ext_state *state, PyObject *object)
{
    struct ext_torch *torch = &state->torch;
    PyObject *type = (PyObject *)Py_TYPE(object);

    if (torch->type != NULL || !is_called(type, "__name__", "Tensor") ||
        !is_called(type, "__module__", "torch")) {
        PyErr_Clear();
        return;
    }
    torch->type = Py_NewRef(type);
    torch->none = PyTuple_New(0);
    torch->data_ptr = learn_method(object, "data_ptr", METH_NOARGS);
    torch->is_contiguous = (PyCFunctionWithKeywords)(void (*)(void))learn_method(
        object, "is_contiguous", METH_VARARGS | METH_KEYWORDS);
    torch->is_known = learn_property(&torch->shape, type, "shape") &&
                      learn_property(&torch->dtype, type, "dtype") &&
                      learn_property(&torch->is_cpu, type, "is_cpu") &&
                      learn_property(&torch->requires_grad, type, "requires_grad") &&
                      torch->none != NULL && torch->data_ptr != NULL &&
                      torch->is_contiguous != NULL;
    PyErr_Clear();
}

static PyObject *get(const struct ext_property *p, PyObject *object)
{
    return p->get(p->object, object, (PyObject *)Py_TYPE(object));
}

/* Whether an object is the given value (True or False); steals the reference. */
static bool is_exactly(PyObject *found, PyObject *value)
{
    /* the reference can be dropped before the comparison, because True and False are never freed */
    Py_XDECREF(found);
    return found == value;
}

static int torch_code_of(struct ext_state *state, PyObject *object)
{
    struct ext_torch *torch = &state->torch;
    PyObject *dtype = get(&torch->dtype, object);

    if (dtype == NULL)
        return -1;
    /* comparing addresses is enough, because there is one object for each dtype */
    if (dtype == torch->last) {
        Py_DECREF(dtype);
        return torch->last_code;
    }
    torch->last_code = ext_dtype_code(state, dtype);
    Py_XDECREF(torch->last);
    torch->last = dtype;
    return torch->last_code;
}

/*
 * Sets row-major shapes and strides. A single element, without dimensions, becomes a tensor with
 * one dimension.
 */
static bool fill_shapes(PyObject *shape, struct pto_tensor *out)
{
    Py_ssize_t count = PyTuple_Check(shape) ? PyTuple_Size(shape) : -1;
    uint64_t stride = 1;

    if (count < 0 || count > PTO_MAX_DIMS)
        return false;
    out->ndims = count == 0 ? 1 : (uint32_t)count;
    out->shapes[0] = 1;
    for (uint32_t d = out->ndims; d-- > 0;) {
        long long size = count == 0 ? 1 : PyLong_AsLongLong(PyTuple_GetItem(shape, d));

        if (size < 0 || size > UINT32_MAX || stride > UINT32_MAX)
            return false;
        out->shapes[d] = (uint32_t)size;
        out->strides[d] = (uint32_t)stride;
        stride *= size != 0 ? (uint64_t)size : 1;
    }
    return true;
}

bool ext_torch_take(struct ext_state *state, PyObject *object, struct ext_tensor *out)
{
    const struct ext_torch *torch = &state->torch;
    PyObject *address = NULL, *shape = NULL;
    bool is_taken = false;
    int code = -1;

    if (!torch->is_known || !is_exactly(get(&torch->is_cpu, object), Py_True) ||
        !is_exactly(get(&torch->requires_grad, object), Py_False) ||
        !is_exactly(torch->is_contiguous(object, torch->none, NULL), Py_True) ||
        (code = torch_code_of(state, object)) < 0)
        goto done;
    address = torch->data_ptr(object, NULL);
    shape = address == NULL ? NULL : get(&torch->shape, object);
    if (shape == NULL)
        goto done;
    memset(&out->tensor, 0, sizeof(out->tensor));
    out->tensor.addr = PyLong_AsUnsignedLongLong(address);
    out->tensor.owner = pto_task_id_invalid();
    out->tensor.dtype = (uint8_t)code;
    is_taken = fill_shapes(shape, &out->tensor) && !PyErr_Occurred();
    if (is_taken) {
        pto_tensor_update(&out->tensor);
        out->tensor.size = out->tensor.extent * pto_dtype_size(out->tensor.dtype);
        out->hold.kind = EXT_HOLD_OBJECT;
        out->hold.object = Py_NewRef(object);
        out->is_readonly = false;
    }

done:
    if (!is_taken)
        PyErr_Clear();
    Py_XDECREF(shape);
    Py_XDECREF(address);
    return is_taken;
}
