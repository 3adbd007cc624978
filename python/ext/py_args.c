/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts arguments of runs: tensors and scalars from Python, and pto.In, pto.Out and pto.InOut.
 */
#include "py_ext.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct argument {
    PyObject_HEAD enum pto_direction direction;
    PyObject *value;
};

enum { EXT_LABEL = 64 }; /* length of an argument's name in messages */

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
      "After(tensor)\n--\n\nAn argument that orders its task after the creator of the tensor only, "
      "whether the task reads or writes it." },
    { "In", module_in, METH_O,
      "In(tensor)\n--\n\nAn argument that is only read, overriding the signature." },
    { "Out", module_out, METH_O,
      "Out(tensor)\n--\n\nAn argument that is written, overriding the signature." },
    { "InOut", module_inout, METH_O,
      "InOut(tensor)\n--\n\nAn argument that is read and written, overriding the signature." },
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

static PyGetSetDef argument_fields[] = { { "value", get_value, NULL, "the wrapped object", NULL },
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

/* ---- pto.Address ---- */

static PyObject *address_repr(PyObject *self)
{
    PyObject *digits = PyNumber_ToBase(self, 16);
    PyObject *text = digits == NULL ? NULL : PyUnicode_FromFormat("pto.Address(%U)", digits);

    Py_XDECREF(digits);
    return text;
}

static PyType_Slot address_slots[] = {
    { Py_tp_doc, "Address(value)\n--\n\nAn address in a region, a window or a context of a worker, "
                 "as an argument of a task on a chip:\na card replaces it by its own address. Any "
                 "other int is a plain number, whatever its value.\nMember.context and the scalars "
                 "of regions and queues are addresses already." },
    { Py_tp_base, &PyLong_Type },
    { Py_tp_repr, address_repr },
    { 0, NULL },
};

static PyType_Spec address_spec = {
    .name = "pto.Address",
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = address_slots,
};

PyObject *ext_address_new(const struct ext_state *state, uint64_t address)
{
    return PyObject_CallFunction((PyObject *)state->address_type, "K", (unsigned long long)address);
}

int ext_args_init_types(PyObject *module, struct ext_state *state)
{
    return ext_add_type(module, &argument_spec, &state->argument_type) < 0 ||
                   ext_add_type(module, &address_spec, &state->address_type) < 0
               ? -1
               : PyModule_AddFunctions(module, functions);
}

/* ---- a list of arguments ---- */

void ext_args_init(struct ext_args *args)
{
    args->tensor = args->tensors;
    args->hold = args->holds;
    args->tensor_count = args->scalar_count = args->addresses = 0;
    args->tensor_room = EXT_ARGS_ROOM;
    args->is_brief = false;
}

void ext_args_release(struct ext_args *args)
{
    for (uint32_t i = 0; i < args->tensor_count; i++)
        ext_hold_release(&args->hold[i]);
    args->tensor_count = args->scalar_count = args->addresses = 0;
    if (args->tensor != args->tensors) {
        free(args->tensor);
        free(args->hold);
        ext_args_init(args);
    }
}

/* Grows the arrays to their maximum, when a call has more than a few arguments. */
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

/* ---- what a callable expects ---- */

/* Returns a type by its name; EXT_TYPE_UNKNOWN: none. */
static int find_type(const char *name, size_t length)
{
    for (uint32_t i = 0; i < PTO_DTYPE_COUNT; i++) {
        const char *text = pto_dtype_text(i);

        if (strlen(text) == length && memcmp(text, name, length) == 0)
            return (int)i;
    }
    return length == 7 && memcmp(name, "float64", 7) == 0 ? EXT_TYPE_FLOAT64 : EXT_TYPE_UNKNOWN;
}

static const char *type_name(int type)
{
    return type == EXT_TYPE_FLOAT64 ? "float64" : pto_dtype_text((uint32_t)type);
}

struct ext_expected *ext_expected_parse(const char *arguments, uint32_t count)
{
    struct ext_expected *expected =
        arguments == NULL || count == 0 ? NULL : calloc(count, sizeof(*expected));
    const char *line = arguments;

    for (uint32_t i = 0; expected != NULL && i < count; i++) {
        size_t name = strcspn(line, " \n"), type = line[name] == ' ' ? name + 1 : name;
        size_t end = type + strcspn(line + type, " \n");

        snprintf(expected[i].name, sizeof(expected[i].name), "%.*s", (int)name, line);
        expected[i].type = find_type(line + type, end - type);
        line += strcspn(line, "\n");
        if (*line == '\n')
            line++;
        /* the text ends early, so it describes another argument list than the signature */
        else if (i + 1 < count) {
            free(expected);
            return NULL;
        }
    }
    return expected;
}

/*
 * State of converting one argument: its position, and the next entries of the signature for a
 * tensor and for a scalar.
 */
struct place {
    const struct ext_signature *signature;
    Py_ssize_t at;
    uint32_t tensor_entry; /* signature->count: none */
    uint32_t scalar_entry;
};

/* Returns the next entry of the signature for a tensor, or for a scalar. */
static uint32_t next_entry(const struct ext_signature *signature, uint32_t from, bool is_scalar)
{
    while (from < signature->count && (signature->direction[from] == PTO_DIR_SCALAR) != is_scalar)
        from++;
    return from;
}

/* Formats "argument 2", or "argument 2 (scale)". */
static const char *label(const struct place *place, uint32_t entry, char text[EXT_LABEL])
{
    const struct ext_expected *expected = place->signature->expected;
    const char *name =
        expected != NULL && entry < place->signature->count ? expected[entry].name : "";

    if (name[0] != '\0' && (name[0] < '0' || name[0] > '9'))
        snprintf(text, EXT_LABEL, "argument %zd (%s)", place->at, name);
    else
        snprintf(text, EXT_LABEL, "argument %zd", place->at);
    return text;
}

/* Returns the type that an entry requires; EXT_TYPE_UNKNOWN: any. */
static int expected_type(const struct place *place, uint32_t entry)
{
    return place->signature->expected != NULL && entry < place->signature->count
               ? place->signature->expected[entry].type
               : EXT_TYPE_UNKNOWN;
}

/*
 * Checks the number of arguments: a signature has the number of tensors and, if it has scalars, of
 * scalars.
 */
static int check_surplus(struct ext_state *state, const struct place *place, bool is_scalar)
{
    const struct ext_signature *signature = place->signature;
    uint32_t count = 0;

    if (signature->count == 0 || signature->is_open ||
        (is_scalar ? place->scalar_entry : place->tensor_entry) < signature->count)
        return 0;
    for (uint32_t i = 0; i < signature->count; i++)
        count += (signature->direction[i] == PTO_DIR_SCALAR) == is_scalar;
    if (is_scalar && count == 0)
        /* the signature has no scalars, so it lists tensors only, and any scalars are accepted */
        return 0;
    (void)ext_raise_text(
        state, PTO_EINVAL, "argument %zd is one too many: the signature of '%.60s' has %u %s%s",
        place->at, signature->name, count, is_scalar ? "scalar" : "tensor", count == 1 ? "" : "s");
    return -1;
}

/* ---- numbers ---- */

struct number {
    bool is_float;
    bool is_bits; /* a ctypes number, passed bit by bit */
    bool is_negative;
    double value;  /* value of a float */
    uint64_t bits; /* bits of an int or a ctypes number */
};

static int refuse_number(struct ext_state *state, const struct place *place, PyObject *object,
                         const char *why)
{
    PyObject *text = PyObject_Repr(object);
    const char *words = text == NULL ? NULL : PyUnicode_AsUTF8AndSize(text, NULL);
    char name[EXT_LABEL];

    if (words != NULL)
        (void)ext_raise_text(state, PTO_EINVAL, "%s is %.60s, %s",
                             label(place, place->scalar_entry, name), words, why);
    Py_XDECREF(text);
    return -1;
}

/* Reads an int of 64 bits, signed or unsigned. */
static int read_int(struct ext_state *state, const struct place *place, PyObject *object,
                    struct number *number)
{
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(object, &overflow);

    number->bits = (uint64_t)value;
    number->is_negative = value < 0;
    if (overflow > 0) {
        number->bits = PyLong_AsUnsignedLongLong(object);
        if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError))
            PyErr_Clear();
        else
            overflow = 0;
        number->is_negative = false;
    }
    if (PyErr_Occurred())
        return -1;
    return overflow == 0 ? 0 : refuse_number(state, place, object, "which does not fit 64 bits");
}

/*
 * Reads numbers of ctypes and numpy: buffers of one element without a dimension. Those of ctypes
 * are passed bit by bit; those of numpy have a type and are treated as Python's ints and floats.
 * Returns 1 for other objects.
 */
static int read_buffer(struct ext_state *state, PyObject *object, struct number *number)
{
    bool has_type = PyObject_HasAttrString(object, "dtype"), is_scalar, is_float, is_signed;
    PyObject *value;
    Py_buffer view;
    char format;

    if (PyObject_GetBuffer(object, &view, PyBUF_RECORDS_RO) < 0) {
        PyErr_Clear();
        return 1;
    }
    format =
        view.format == NULL || view.format[0] == '\0' ? 'B' : view.format[strlen(view.format) - 1];
    is_float = strchr("efdg", format) != NULL;
    is_signed = strchr("bhilqn", format) != NULL;
    is_scalar = view.ndim == 0 && !PyObject_HasAttr(object, state->names.dlpack) &&
                (view.len <= (Py_ssize_t)sizeof(number->bits) || (has_type && is_float)) &&
                strchr(view.format == NULL ? "" : view.format, 'Z') == NULL; /* complex numbers */
    if (is_scalar && view.len <= (Py_ssize_t)sizeof(number->bits))
        memcpy(&number->bits, view.buf, (size_t)view.len);
    if (is_scalar && has_type && is_signed && view.len < (Py_ssize_t)sizeof(number->bits) &&
        (number->bits >> (8 * view.len - 1)) != 0)
        number->bits |= UINT64_MAX << 8 * view.len;
    PyBuffer_Release(&view);
    if (!is_scalar)
        return 1;
    number->is_bits = !has_type;
    number->is_negative = has_type && is_signed && (int64_t)number->bits < 0;
    number->is_float = has_type && is_float;
    if (!number->is_float)
        return 0;
    value = PyNumber_Float(object);
    number->value = value == NULL ? 0 : PyFloat_AsDouble(value);
    Py_XDECREF(value);
    return value == NULL ? -1 : 0;
}

/* Reads a number. Returns 1 for other objects. */
static int read_number(struct ext_state *state, const struct place *place, PyObject *object,
                       bool may_be_index, struct number *number)
{
    PyObject *index;
    int status = 1;

    *number = (struct number){ .is_float = false };
    if (PyLong_Check(object))
        return read_int(state, place, object, number);
    if (PyFloat_Check(object)) {
        number->is_float = true;
        number->value = PyFloat_AsDouble(object);
        return 0;
    }
    if (PyObject_CheckBuffer(object))
        status = read_buffer(state, object, number);
    if (status != 1)
        return status;
    if (!may_be_index || !PyIndex_Check(object) || PyObject_HasAttr(object, state->names.dlpack))
        return 1;
    index = PyNumber_Index(object);
    status = index == NULL ? -1 : read_int(state, place, index, number);
    Py_XDECREF(index);
    return status;
}

/* Whether an int fits a type; narrower ints are sign-extended to 64 bits. */
static bool fits(const struct number *number, int type)
{
    uint32_t bits = 8 * pto_dtype_size((uint32_t)type);
    uint64_t above = number->is_negative ? ~number->bits : number->bits;

    if (type == PTO_BOOL)
        return number->bits <= 1;
    if (pto_dtype_info((uint32_t)type)->kind == PTO_KIND_SIGNED)
        return above >> (bits - 1) == 0;
    return !number->is_negative && (bits == 64 || above >> bits == 0);
}

/* Converts a number to the declared type: an int becomes a float, and no bits are reinterpreted. */
static int convert(struct ext_state *state, const struct place *place, PyObject *object, int type,
                   struct number *number)
{
    bool wants_float = type == EXT_TYPE_FLOAT64 ||
                       (type >= 0 && pto_dtype_info((uint32_t)type)->kind == PTO_KIND_FLOAT);
    char why[100];

    if (number->is_bits)
        return 0;
    if (wants_float && !number->is_float) {
        number->is_float = true;
        number->value = number->is_negative ? (double)(int64_t)number->bits : (double)number->bits;
    } else if (type >= 0 && !wants_float && (number->is_float || !fits(number, type))) {
        snprintf(why, sizeof(why),
                 number->is_float ? "and %s is expected" : "which does not fit %s",
                 type_name(type));
        return refuse_number(state, place, object, why);
    }
    if (number->is_float && type == EXT_TYPE_FLOAT64)
        memcpy(&number->bits, &number->value, sizeof(number->bits));
    else if (number->is_float)
        number->bits = pto_float_bits((float)number->value);
    return 0;
}

static int add_number(struct ext_state *state, struct ext_args *args, const struct place *place,
                      PyObject *object, struct number *number)
{
    if (check_surplus(state, place, true) < 0 ||
        convert(state, place, object, expected_type(place, place->scalar_entry), number) < 0)
        return -1;
    if (Py_IS_TYPE(object, state->address_type) && args->scalar_count < PTO_TASK_SCALARS_MAX)
        args->addresses |= 1u << args->scalar_count;
    return add_scalar(state, args, number->bits);
}

/* ---- tensors ---- */

/* Adds the name of the argument that cannot be a tensor to the current exception. */
static int blame(struct ext_state *state, const struct place *place)
{
    PyObject *type, *value, *traceback, *text;
    const char *words;
    char name[EXT_LABEL];

    if (!PyErr_ExceptionMatches(state->error_class[EXT_InvalidArgument]))
        return -1;
    PyErr_Fetch(&type, &value, &traceback);
    text = value == NULL ? NULL : PyObject_Str(value);
    words = text == NULL ? NULL : PyUnicode_AsUTF8AndSize(text, NULL);
    if (words != NULL) {
        (void)ext_raise_text(state, PTO_EINVAL, "%s: %.400s",
                             label(place, place->tensor_entry, name), words);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
    } else {
        PyErr_Restore(type, value, traceback);
    }
    Py_XDECREF(text);
    return -1;
}

/* Checks a tensor against the signature; -1 with an exception. */
static int check_tensor(struct ext_state *state, const struct place *place,
                        const struct ext_tensor *taken, enum pto_direction direction)
{
    int type = expected_type(place, place->tensor_entry);
    char name[EXT_LABEL];

    (void)label(place, place->tensor_entry, name);
    if (taken->is_readonly && direction != PTO_DIR_IN) {
        (void)ext_raise_text(state, PTO_EINVAL,
                             direction == PTO_DIR_SCALAR
                                 ? "%s is read-only, and the callable does not declare that it "
                                   "only reads it; if it does, pass pto.In(...)"
                                 : "%s is read-only, and the callable writes it; pass a copy",
                             name);
        return -1;
    }
    if (type < 0 || type == (int)taken->tensor.dtype)
        return 0;
    (void)ext_raise_text(
        state, PTO_EINVAL, "%s is a tensor of %s, and '%.60s' takes %s there; convert it", name,
        pto_dtype_text(taken->tensor.dtype), place->signature->name, type_name(type));
    return -1;
}

static int add_tensor(struct ext_state *state, struct ext_args *args, const struct place *place,
                      PyObject *object, enum pto_direction direction)
{
    struct ext_tensor taken;

    if (args->tensor_count == PTO_ENTRY_TENSORS_MAX) {
        (void)ext_raise_text(state, PTO_EINVAL, "there may be at most %d tensors",
                             PTO_ENTRY_TENSORS_MAX);
        return -1;
    }
    if (check_surplus(state, place, false) < 0 ||
        (args->tensor_count == args->tensor_room && grow(args) < 0))
        return -1;
    if ((args->is_brief ? ext_tensor_borrow(state, object, &taken)
                        : ext_tensor_take(state, object, -1, &taken)) < 0)
        return blame(state, place);
    if (check_tensor(state, place, &taken, direction) < 0) {
        ext_hold_release(&taken.hold);
        return -1;
    }
    args->tensor[args->tensor_count] = taken.tensor;
    args->hold[args->tensor_count] = taken.hold;
    args->hold[args->tensor_count++].direction = direction;
    return 0;
}

static int take_one(struct ext_state *state, struct ext_args *args, PyObject *object,
                    const struct place *place)
{
    enum pto_direction direction = place->tensor_entry < place->signature->count
                                       ? place->signature->direction[place->tensor_entry]
                                       : PTO_DIR_SCALAR; /* unknown */
    struct number number;
    int status = 1;

    if (Py_IS_TYPE(object, state->argument_type)) {
        direction = ((struct argument *)object)->direction;
        object = ((struct argument *)object)->value;
    }
    if (!Py_IS_TYPE(object, state->tensor_type) && (PyObject *)Py_TYPE(object) != state->torch.type)
        status = read_number(state, place, object, direction == PTO_DIR_SCALAR, &number);
    return status < 0    ? -1
           : status == 0 ? add_number(state, args, place, object, &number)
                         : add_tensor(state, args, place, object, direction);
}

int ext_args_add(struct ext_state *state, struct ext_args *args, PyObject *object,
                 const struct ext_signature *signature, struct ext_place *at)
{
    struct place place = { signature, at->argument, next_entry(signature, at->tensor, false),
                           next_entry(signature, at->scalar, true) };
    uint32_t tensors = args->tensor_count, scalars = args->scalar_count;

    if (take_one(state, args, object, &place) < 0)
        return -1;
    at->argument++;
    if (args->tensor_count != tensors)
        at->tensor = place.tensor_entry + 1;
    if (args->scalar_count != scalars)
        at->scalar = place.scalar_entry + 1;
    return 0;
}

int ext_args_skip_tensor(struct ext_state *state, const struct ext_signature *signature,
                         struct ext_place *at)
{
    struct place place = { signature, at->argument, next_entry(signature, at->tensor, false), 0 };

    if (check_surplus(state, &place, false) < 0)
        return -1;
    at->argument++;
    at->tensor = place.tensor_entry + 1;
    return 0;
}

int ext_args_take(struct ext_state *state, struct ext_args *args, PyObject *const *objects,
                  Py_ssize_t count, const struct ext_signature *signature)
{
    struct ext_place at = { 0, 0, 0 };

    args->scalar = args->scalars;
    for (Py_ssize_t i = 0; i < count; i++)
        if (ext_args_add(state, args, objects[i], signature, &at) < 0)
            return -1;
    return 0;
}
