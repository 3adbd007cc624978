/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments of runs: tensors and scalars as they come from Python, and pto.In, pto.Out and pto.InOut. */
#include "py_ext.h"

#include <stdlib.h>
#include <string.h>

struct argument {
    PyObject_HEAD enum pto_direction direction;
    PyObject *value;
};

/* ---- pto.In and the like ---- */

static PyObject *make_argument(PyObject *module, PyObject *value, enum pto_direction direction)
{
    struct ext_state *state = PyModule_GetState(module);
    struct argument *self = (struct argument *)PyType_GenericAlloc(state->argument_type, 0);

    if (self == NULL)
        return NULL;
    self->direction = direction;
    self->value = Py_NewRef(value);
    return (PyObject *)self;
}

static PyObject *module_in(PyObject *module, PyObject *value)
{
    return make_argument(module, value, PTO_DIR_IN);
}

static PyObject *module_out(PyObject *module, PyObject *value)
{
    return make_argument(module, value, PTO_DIR_OUT);
}

static PyObject *module_inout(PyObject *module, PyObject *value)
{
    return make_argument(module, value, PTO_DIR_INOUT);
}

static PyObject *module_no_dep(PyObject *module, PyObject *value)
{
    return make_argument(module, value, (enum pto_direction)EXT_NO_DEP);
}

static PyMethodDef functions[] = {
    { "After", module_no_dep, METH_O,
      "After(tensor)\n--\n\nAn argument of a task that orders it after the tensor's creator only, "
      "whatever it does with it." },
    { "In", module_in, METH_O,
      "In(tensor)\n--\n\nAn argument that is only read, whatever the signature says." },
    { "Out", module_out, METH_O,
      "Out(tensor)\n--\n\nAn argument that is written, whatever the signature says." },
    { "InOut", module_inout, METH_O,
      "InOut(tensor)\n--\n\nAn argument that is read and written, whatever the signature says." },
    { NULL, NULL, 0, NULL }
};

static int argument_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct argument *)self)->value);
    return 0;
}

static int argument_clear(PyObject *self)
{
    Py_CLEAR(((struct argument *)self)->value);
    return 0;
}

static void argument_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    (void)argument_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyObject *argument_repr(PyObject *self)
{
    struct argument *argument = (struct argument *)self;
    static const char *const names[] = { "", "In", "Out", "InOut", "After" };

    return PyUnicode_FromFormat("pto.%s(%R)", names[argument->direction], argument->value);
}

static PyObject *get_value(PyObject *self, void *ignored)
{
    (void)ignored;
    return Py_NewRef(((struct argument *)self)->value);
}

static PyObject *get_direction(PyObject *self, void *ignored)
{
    enum pto_direction direction = ((struct argument *)self)->direction;

    (void)ignored;
    return PyUnicode_FromString(direction == (enum pto_direction)EXT_NO_DEP
                                    ? pto_tag_name(PTO_TAG_NO_DEP)
                                    : pto_direction_name(direction));
}

static PyGetSetDef argument_fields[] = { { "value", get_value, NULL, "what was given", NULL },
                                         { "direction", get_direction, NULL,
                                           "'in', 'out', 'inout' or 'nodep'", NULL },
                                         { NULL, NULL, NULL, NULL, NULL } };

static PyType_Slot argument_slots[] = {
    { Py_tp_doc, "A tensor with a direction: made by pto.In, pto.Out, pto.InOut and pto.After." },
    { Py_tp_dealloc, argument_free },
    { Py_tp_traverse, argument_traverse },
    { Py_tp_clear, argument_clear },
    { Py_tp_repr, argument_repr },
    { Py_tp_getset, argument_fields },
    { 0, NULL },
};

static PyType_Spec argument_spec = {
    .name = "pto.Argument",
    .basicsize = sizeof(struct argument),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = argument_slots,
};

int ext_args_init_types(PyObject *module, struct ext_state *state)
{
    return ext_add_type(module, &argument_spec, &state->argument_type) < 0
               ? -1
               : PyModule_AddFunctions(module, functions);
}

/* ---- a list of arguments ---- */

void ext_args_init(struct ext_args *args)
{
    args->tensor = args->tensors;
    args->hold = args->holds;
    args->tensor_count = args->scalar_count = 0;
    args->tensor_room = EXT_ARGS_ROOM;
    args->is_brief = false;
}

void ext_args_release(struct ext_args *args)
{
    for (uint32_t i = 0; i < args->tensor_count; i++)
        ext_hold_release(&args->hold[i]);
    args->tensor_count = args->scalar_count = 0;
    if (args->tensor != args->tensors) {
        free(args->tensor);
        free(args->hold);
        ext_args_init(args);
    }
}

/* Room for as many as there can be, once there are more than a few. */
static int grow(struct ext_args *args)
{
    struct pto_tensor *tensor =
        aligned_alloc(_Alignof(struct pto_tensor), PTO_ENTRY_TENSORS_MAX * sizeof(*tensor));
    struct ext_hold *hold = malloc(PTO_ENTRY_TENSORS_MAX * sizeof(*hold));

    if (tensor == NULL || hold == NULL) {
        free(tensor);
        free(hold);
        PyErr_NoMemory();
        return -1;
    }
    memcpy(tensor, args->tensor, args->tensor_count * sizeof(*tensor));
    memcpy(hold, args->hold, args->tensor_count * sizeof(*hold));
    args->tensor = tensor;
    args->hold = hold;
    args->tensor_room = PTO_ENTRY_TENSORS_MAX;
    return 0;
}

static int add_scalar(struct ext_state *state, struct ext_args *args, uint64_t bits)
{
    if (args->scalar_count == PTO_ENTRY_SCALARS_MAX) {
        (void)ext_raise_text(state, PTO_EINVAL, "there may be at most %d scalars",
                             PTO_ENTRY_SCALARS_MAX);
        return -1;
    }
    args->scalar[args->scalar_count++] = bits;
    return 0;
}

/* An int has 64 bits, with a sign or without. */
static int add_int(struct ext_state *state, struct ext_args *args, PyObject *number, Py_ssize_t at)
{
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    uint64_t bits = (uint64_t)value;

    if (overflow > 0) {
        bits = PyLong_AsUnsignedLongLong(number);
        if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError))
            PyErr_Clear();
        else
            overflow = 0;
    }
    if (PyErr_Occurred())
        return -1;
    if (overflow != 0) {
        (void)ext_raise_text(state, PTO_EINVAL, "argument %zd does not fit 64 bits", at);
        return -1;
    }
    return add_scalar(state, args, bits);
}

/* Numbers of ctypes and numpy: buffers of one element without a dimension. Returns 1: it is none. */
static int add_bits(struct ext_state *state, struct ext_args *args, PyObject *object)
{
    uint64_t bits = 0;
    Py_buffer view;
    int status = 1;

    if (PyObject_GetBuffer(object, &view, PyBUF_RECORDS_RO) < 0) {
        PyErr_Clear();
        return 1;
    }
    if (view.ndim == 0 && view.len <= (Py_ssize_t)sizeof(bits) &&
        !PyObject_HasAttr(object, state->names.dlpack)) {
        memcpy(&bits, view.buf, (size_t)view.len);
        status = add_scalar(state, args, bits);
    }
    PyBuffer_Release(&view);
    return status;
}

static int add_tensor(struct ext_state *state, struct ext_args *args, PyObject *object,
                      Py_ssize_t at, enum pto_direction direction)
{
    struct ext_tensor taken;

    if (args->tensor_count == PTO_ENTRY_TENSORS_MAX) {
        (void)ext_raise_text(state, PTO_EINVAL, "there may be at most %d tensors",
                             PTO_ENTRY_TENSORS_MAX);
        return -1;
    }
    if (args->tensor_count == args->tensor_room && grow(args) < 0)
        return -1;
    if ((args->is_brief ? ext_tensor_take_briefly(state, object, &taken)
                        : ext_tensor_take(state, object, -1, &taken)) < 0)
        return -1;
    if (taken.is_readonly && direction != PTO_DIR_IN) {
        ext_hold_release(&taken.hold);
        (void)ext_raise_text(
            state, PTO_EINVAL,
            direction == PTO_DIR_SCALAR
                ? "argument %zd is read-only, and the callable does not say that it only reads "
                  "it; if so, pass pto.In(...)"
                : "argument %zd is read-only, and the callable writes it; pass a copy",
            at);
        return -1;
    }
    args->tensor[args->tensor_count] = taken.tensor;
    args->hold[args->tensor_count] = taken.hold;
    args->hold[args->tensor_count++].direction = direction;
    return 0;
}

static int take_one(struct ext_state *state, struct ext_args *args, PyObject *object, Py_ssize_t at,
                    enum pto_direction direction)
{
    if (Py_IS_TYPE(object, state->argument_type)) {
        direction = ((struct argument *)object)->direction;
        object = ((struct argument *)object)->value;
    }
    if (PyLong_Check(object))
        return add_int(state, args, object, at);
    if (PyFloat_Check(object))
        return add_scalar(state, args, pto_float_bits((float)PyFloat_AsDouble(object)));
    if (Py_IS_TYPE(object, state->tensor_type) || (PyObject *)Py_TYPE(object) == state->torch.type)
        return add_tensor(state, args, object, at, direction);
    if (PyObject_CheckBuffer(object)) {
        int status = add_bits(state, args, object);

        if (status != 1)
            return status;
    }
    if (direction == PTO_DIR_SCALAR && PyIndex_Check(object) &&
        !PyObject_HasAttr(object, state->names.dlpack)) {
        PyObject *number = PyNumber_Index(object);
        int status = number == NULL ? -1 : add_int(state, args, number, at);

        Py_XDECREF(number);
        return status;
    }
    return add_tensor(state, args, object, at, direction);
}

int ext_args_take(struct ext_state *state, struct ext_args *args, PyObject *const *objects,
                  Py_ssize_t count, const enum pto_direction *signature, uint32_t signature_count)
{
    uint32_t tensors = 0;

    args->scalar = args->scalars;
    for (Py_ssize_t i = 0; i < count; i++) {
        uint32_t before = args->tensor_count;
        enum pto_direction direction = PTO_DIR_SCALAR; /* not known */

        while (tensors < signature_count && signature[tensors] == PTO_DIR_SCALAR)
            tensors++;
        if (tensors < signature_count)
            direction = signature[tensors];
        if (take_one(state, args, objects[i], i, direction) < 0)
            return -1;
        tensors += args->tensor_count - before;
    }
    return 0;
}
