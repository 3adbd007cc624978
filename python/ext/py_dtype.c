/* SPDX-License-Identifier: Apache-2.0 */
/* pto.dtype: one object for each row of dtype.h, and its names in other libraries. */
#include "py_ext.h"

#include <stdio.h>
#include <string.h>

struct dtype {
    PyObject_HEAD uint32_t code;
};

/*
 * Names of a type elsewhere: DLPack's code, the buffer protocol's format, names of numpy, torch and
 * ml_dtypes.
 */
static const struct {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
    const char *format;
    const char *alias;
} others[PTO_DTYPE_COUNT] = {
    [PTO_FLOAT32] = { DLPACK_FLOAT, 32, 1, "f", "float" },
    [PTO_FLOAT16] = { DLPACK_FLOAT, 16, 1, "e", "half" },
    [PTO_INT32] = { DLPACK_INT, 32, 1, "i", "int" },
    [PTO_INT16] = { DLPACK_INT, 16, 1, "h", "short" },
    [PTO_INT8] = { DLPACK_INT, 8, 1, "b", NULL },
    [PTO_UINT8] = { DLPACK_UINT, 8, 1, "B", NULL },
    [PTO_BFLOAT16] = { DLPACK_BFLOAT, 16, 1, NULL, "bf16" },
    [PTO_INT64] = { DLPACK_INT, 64, 1, "q", "long" },
    [PTO_UINT64] = { DLPACK_UINT, 64, 1, "Q", NULL },
    [PTO_UINT16] = { DLPACK_UINT, 16, 1, "H", NULL },
    [PTO_UINT32] = { DLPACK_UINT, 32, 1, "I", NULL },
    [PTO_BOOL] = { DLPACK_BOOL, 8, 1, "?", "bool_" },
    [PTO_FP8E4M3FN] = { DLPACK_FLOAT8_E4M3FN, 8, 1, NULL, "float8_e4m3fn" },
    [PTO_FP8E8M0] = { DLPACK_FLOAT8_E8M0FNU, 8, 1, NULL, "float8_e8m0fnu" },
    /* An element takes a whole byte in the runtime, as in torch's float4_e2m1fn_x2. */
    [PTO_FP4E2M1] = { DLPACK_FLOAT4_E2M1FN, 4, 2, NULL, "float4_e2m1fn_x2" },
};

bool ext_dtype_to_dlpack(uint32_t dtype, struct dlpack_type *type_out)
{
    if (dtype >= PTO_DTYPE_COUNT || others[dtype].bits == 0)
        return false;
    *type_out = (struct dlpack_type){ others[dtype].code, others[dtype].bits, others[dtype].lanes };
    return true;
}

int ext_dtype_from_dlpack(struct dlpack_type type)
{
    for (int i = 0; i < PTO_DTYPE_COUNT; i++)
        if (others[i].code == type.code && others[i].bits == type.bits &&
            others[i].lanes == type.lanes)
            return i;
    return -1;
}

const char *ext_dtype_format(uint32_t dtype)
{
    return dtype < PTO_DTYPE_COUNT ? others[dtype].format : NULL;
}

/* Several format letters can mean one type, for example those of long and long long. */
int ext_dtype_from_format(const char *format, Py_ssize_t itemsize)
{
    enum pto_dtype_kind kind;

    if (format == NULL)
        format = "B";
    if (*format == '@' || *format == '=' || *format == '<')
        format++;
    if (format[0] == '\0' || format[1] != '\0')
        return -1;
    if (strchr("fe", *format) != NULL)
        kind = PTO_KIND_FLOAT;
    else if (strchr("bhilqn", *format) != NULL)
        kind = PTO_KIND_SIGNED;
    else if (strchr("BHILQNcP", *format) != NULL)
        kind = PTO_KIND_UNSIGNED;
    else if (*format == '?')
        kind = PTO_KIND_BOOL;
    else
        return -1;
    for (int i = 0; i < PTO_DTYPE_COUNT; i++)
        if (others[i].format != NULL && pto_dtype_info((uint32_t)i)->kind == kind &&
            pto_dtype_size((uint32_t)i) == itemsize)
            return i;
    return -1;
}

static int code_by_name(const char *name)
{
    if (strncmp(name, "torch.", 6) == 0)
        name += 6;
    for (int i = 0; i < PTO_DTYPE_COUNT; i++)
        if (strcmp(name, pto_dtype_text((uint32_t)i)) == 0 ||
            strcmp(name, pto_dtype_name((uint32_t)i)) == 0 ||
            (others[i].alias != NULL && strcmp(name, others[i].alias) == 0))
            return i;
    return -1;
}

static int dtype_refuse(struct ext_state *state, PyObject *object)
{
    char names[256] = "";
    PyObject *shown = PyObject_Repr(object);
    const char *text = shown == NULL ? NULL : PyUnicode_AsUTF8AndSize(shown, NULL);

    for (uint32_t i = 0, at = 0; i < PTO_DTYPE_COUNT; i++)
        at += (uint32_t)snprintf(names + at, sizeof(names) - at, "%s%s", i == 0 ? "" : ", ",
                                 pto_dtype_text(i));
    if (text != NULL)
        (void)ext_raise_text(state, PTO_EINVAL, "%.100s is no data type of the runtime; it has %s",
                             text, names);
    Py_XDECREF(shown);
    return -1;
}

/*
 * Returns the name of another library's type: numpy's `name`, the class name, or its printed form.
 */
static PyObject *dtype_text_of(struct ext_state *state, PyObject *object)
{
    PyObject *text;

    if (PyUnicode_Check(object))
        return Py_NewRef(object);
    text =
        PyObject_GetAttr(object, PyType_Check(object) ? state->names.type_name : state->names.name);
    if (text != NULL && PyUnicode_Check(text))
        return text;
    Py_XDECREF(text);
    PyErr_Clear();
    return PyObject_Str(object);
}

int ext_dtype_code(struct ext_state *state, PyObject *object)
{
    PyObject *text;
    const char *name;
    int code;

    if (Py_IS_TYPE(object, state->dtype_type))
        return (int)((struct dtype *)object)->code;
    if (PyLong_Check(object) && !PyBool_Check(object)) {
        long value = PyLong_AsLong(object);

        PyErr_Clear();
        return value >= 0 && value < PTO_DTYPE_COUNT ? (int)value : dtype_refuse(state, object);
    }
    if (object == (PyObject *)&PyBool_Type)
        return PTO_BOOL;
    if (object == (PyObject *)&PyFloat_Type || object == (PyObject *)&PyLong_Type)
        return dtype_refuse(state, object);
    text = dtype_text_of(state, object);
    name = text == NULL ? NULL : PyUnicode_AsUTF8AndSize(text, NULL);
    code = name == NULL ? -1 : code_by_name(name);
    Py_XDECREF(text);
    return code >= 0 || PyErr_Occurred() ? code : dtype_refuse(state, object);
}

/* ---- the type ---- */

static PyObject *dtype_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "dtype", NULL };
    struct ext_state *state = ext_state_of(type);
    PyObject *object;
    int code;

    if (state == NULL || !PyArg_ParseTupleAndKeywords(args, keywords, "O:dtype", names, &object))
        return NULL;
    code = ext_dtype_code(state, object);
    return code < 0 ? NULL : Py_NewRef(state->dtype[code]);
}

static void dtype_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_Free(self);
    Py_DECREF(type);
}

static uint32_t dtype_code_of(PyObject *self)
{
    return ((struct dtype *)self)->code;
}

static PyObject *dtype_repr(PyObject *self)
{
    return PyUnicode_FromFormat("pto.%s", pto_dtype_text(dtype_code_of(self)));
}

static PyObject *dtype_index(PyObject *self)
{
    return PyLong_FromUnsignedLong(dtype_code_of(self));
}

static PyObject *dtype_get_name(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyUnicode_FromString(pto_dtype_text(dtype_code_of(self)));
}

static PyObject *get_code(PyObject *self, void *ignored)
{
    (void)ignored;
    return dtype_index(self);
}

static PyObject *get_itemsize(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromUnsignedLong(pto_dtype_size(dtype_code_of(self)));
}

static PyObject *get_kind(PyObject *self, void *ignored)
{
    static const char *const kinds[] = { "float", "signed", "unsigned", "bool" };

    (void)ignored;
    return PyUnicode_FromString(kinds[pto_dtype_info(dtype_code_of(self))->kind]);
}

static PyObject *get_tolerance(PyObject *self, void *ignored)
{
    const struct pto_dtype_info *info = pto_dtype_info(dtype_code_of(self));

    (void)ignored;
    return Py_BuildValue("(ddd)", info->tolerance.rtol, info->tolerance.atol, info->tolerance.ulp);
}

static PyObject *dtype_reduce(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return Py_BuildValue("O(s)", (PyObject *)Py_TYPE(self), pto_dtype_text(dtype_code_of(self)));
}

static PyGetSetDef dtype_fields[] = {
    { "name", dtype_get_name, NULL, "its name, such as 'float32'", NULL },
    { "code", get_code, NULL, "its number in the C interface", NULL },
    { "itemsize", get_itemsize, NULL, "bytes of an element", NULL },
    { "kind", get_kind, NULL, "'float', 'signed', 'unsigned' or 'bool'", NULL },
    { "tolerance", get_tolerance, NULL, "(rtol, atol, ulp): default tolerance of results", NULL },
    { NULL, NULL, NULL, NULL, NULL }
};

static PyMethodDef dtype_methods[] = { { "__reduce__", dtype_reduce, METH_NOARGS, NULL },
                                       { NULL, NULL, 0, NULL } };

static PyType_Slot dtype_slots[] = {
    { Py_tp_doc, "dtype(dtype)\n--\n\nA data type. There is one object for each: pto.float32, "
                 "pto.bfloat16\nand so on. Functions also accept its name, its code, and dtypes of "
                 "numpy\nand torch." },
    { Py_tp_new, dtype_new },
    { Py_tp_dealloc, dtype_free },
    { Py_tp_repr, dtype_repr },
    { Py_nb_index, dtype_index },
    { Py_nb_int, dtype_index },
    { Py_tp_getset, dtype_fields },
    { Py_tp_methods, dtype_methods },
    { 0, NULL },
};

static PyType_Spec dtype_spec = {
    .name = "pto.dtype",
    .basicsize = sizeof(struct dtype),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = dtype_slots,
};

int ext_dtype_init(PyObject *module, struct ext_state *state)
{
    if (ext_add_type(module, &dtype_spec, &state->dtype_type) < 0)
        return -1;
    for (uint32_t i = 0; i < PTO_DTYPE_COUNT; i++) {
        struct dtype *dtype = PyObject_New(struct dtype, state->dtype_type);

        if (dtype == NULL)
            return -1;
        dtype->code = i;
        state->dtype[i] = (PyObject *)dtype;
        if (PyModule_AddObjectRef(module, pto_dtype_text(i), state->dtype[i]) < 0)
            return -1;
    }
    return 0;
}
