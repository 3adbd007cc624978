/* SPDX-License-Identifier: Apache-2.0 */
/* pto.Callable: an orchestration with its kernels, loaded from a file or from bytes. */
#include "py_ext.h"

static PyObject *make_callable(PyTypeObject *type, struct ext_state *state,
                               struct pto_callable *callable)
{
    struct ext_callable *self = (struct ext_callable *)PyType_GenericAlloc(type, 0);
    struct pto_callable_info info;

    if (self == NULL) {
        (void)pto_callable_destroy(callable);
        return NULL;
    }
    pto_callable_info_init(&info);
    self->state = state;
    self->callable = callable;
    if (pto_callable_info(callable, &info) >= 0) {
        self->signature = info.signature;
        self->signature_count = info.signature_count;
        self->mode = info.mode;
    }
    return (PyObject *)self;
}

static PyObject *module_load(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "source", "symbol", NULL };
    struct ext_state *state = PyModule_GetState(module);
    struct pto_callable *callable = NULL;
    struct pto_load_options options;
    struct pto_error error;
    const char *symbol = NULL;
    PyObject *source, *path = NULL;
    Py_buffer view;
    int status;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$z:load", names, &source, &symbol))
        return NULL;
    pto_error_init(&error);
    pto_load_options_init(&options);
    options.symbol = symbol;
    if (PyObject_CheckBuffer(source)) {
        if (PyObject_GetBuffer(source, &view, PyBUF_SIMPLE) < 0)
            return NULL;
        Py_BEGIN_ALLOW_THREADS status =
            pto_callable_load_memory(view.buf, (size_t)view.len, &options, &callable, &error);
        Py_END_ALLOW_THREADS PyBuffer_Release(&view);
    } else {
        if (!PyUnicode_FSConverter(source, &path))
            return NULL;
        Py_BEGIN_ALLOW_THREADS status =
            pto_callable_load(PyBytes_AsString(path), symbol, &callable, &error);
        Py_END_ALLOW_THREADS Py_DECREF(path);
    }
    return status < 0 ? ext_raise(state, status, &error)
                      : make_callable(state->callable_type, state, callable);
}

static void callable_free(PyObject *self)
{
    struct ext_callable *callable = (struct ext_callable *)self;
    PyTypeObject *type = Py_TYPE(self);

    (void)pto_callable_destroy(callable->callable);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *get_name(PyObject *self, void *ignored)
{
    struct pto_callable_info info;

    (void)ignored;
    pto_callable_info_init(&info);
    (void)pto_callable_info(((struct ext_callable *)self)->callable, &info);
    return info.name == NULL
               ? Py_NewRef(Py_None)
               : PyUnicode_DecodeUTF8(info.name, (Py_ssize_t)strlen(info.name), "replace");
}

static PyObject *get_signature(PyObject *self, void *ignored)
{
    struct ext_callable *callable = (struct ext_callable *)self;
    PyObject *tuple = PyTuple_New((Py_ssize_t)callable->signature_count);

    (void)ignored;
    for (uint32_t i = 0; tuple != NULL && i < callable->signature_count; i++) {
        PyObject *name = PyUnicode_FromString(pto_direction_name(callable->signature[i]));

        if (name == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, name) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyGetSetDef callable_fields[] = {
    { "name", get_name, NULL, "what messages call it", NULL },
    { "signature", get_signature, NULL,
      "directions of its arguments: 'in', 'out', 'inout' or 'scalar'; (): not known", NULL },
    { NULL, NULL, NULL, NULL, NULL }
};

static PyType_Slot callable_slots[] = {
    { Py_tp_doc, "An orchestration with its kernels: made by pto.load and pto.compile." },
    { Py_tp_dealloc, callable_free },
    { Py_tp_getset, callable_fields },
    { 0, NULL },
};

static PyType_Spec callable_spec = {
    .name = "pto.Callable",
    .basicsize = sizeof(struct ext_callable),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = callable_slots,
};

static PyMethodDef functions[] = {
    { "load", (PyCFunction)(void (*)(void))module_load, METH_VARARGS | METH_KEYWORDS,
      "load(source, *, symbol=None)\n--\n\nLoads a callable from a path (an artefact, a chip "
      "callable of the "
      "reference's\nlayout, or a shared object) or from the bytes of one of the first two." },
    { NULL, NULL, 0, NULL }
};

int ext_callable_init(PyObject *module, struct ext_state *state)
{
    return ext_add_type(module, &callable_spec, &state->callable_type) < 0
               ? -1
               : PyModule_AddFunctions(module, functions);
}
