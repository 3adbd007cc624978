/* SPDX-License-Identifier: Apache-2.0 */
/* The module pto._pto: its state and its types. */
#include "py_ext.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static int module_exec(PyObject *module);
static int module_traverse(PyObject *module, visitproc visit, void *arg);
static int module_clear(PyObject *module);
static void module_free(void *module);
static PyObject *module_strerror(PyObject *module, PyObject *status);
static PyObject *module_stuck_threads(PyObject *module, PyObject *ignored);
static PyObject *module_platforms(PyObject *module, PyObject *ignored);
static PyObject *module_exception(PyObject *module, PyObject *args);

static PyMethodDef module_methods[] = {
    { "strerror", module_strerror, METH_O,
      "strerror(status)\n--\n\nDescribes a status in a few words." },
    { "stuck_threads", module_stuck_threads, METH_NOARGS,
      "stuck_threads()\n--\n\nCounts the threads that are stuck in kernels of runs that were given "
      "up." },
    { "platforms", module_platforms, METH_NOARGS,
      "platforms()\n--\n\nLists the platforms, each as a dict; the first one is the default. "
      "`missing`\nis the reason why this version cannot open one, or None." },
    { "_exception", module_exception, METH_VARARGS,
      "_exception(status, text, /)\n--\n\nMakes the exception for a status with the caller's "
      "sentence, without raising it." },
    { NULL, NULL, 0, NULL }
};

static PyModuleDef_Slot module_slots[] = { { Py_mod_exec, (void *)module_exec }, { 0, NULL } };

static struct PyModuleDef module_def = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "pto._pto",
    .m_doc = "The runtime's C interface for Python; use the package pto.",
    .m_size = sizeof(struct ext_state),
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

__attribute__((visibility("default"))) PyObject *PyInit__pto(void);

PyObject *PyInit__pto(void)
{
    return PyModuleDef_Init(&module_def);
}

struct ext_state *ext_state_of(PyTypeObject *type)
{
    /* a class that is derived in Python has no module state, so look at its base classes */
    while (type != NULL) {
        struct ext_state *state = PyType_GetModuleState(type);

        if (state != NULL)
            return state;
        PyErr_Clear();
        type = PyType_GetSlot(type, Py_tp_base);
    }
    return NULL;
}

PyObject *ext_call_package(const char *module_name, const char *function, PyObject *argument)
{
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *result = module == NULL ? NULL : PyObject_CallMethod(module, function, "O", argument);

    Py_XDECREF(module);
    return result;
}

PyObject *ext_await_run(PyObject *run)
{
    return ext_call_package("pto._async", "wait_for", run);
}

uint64_t ext_now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

PyObject *ext_text(const char *text)
{
    return text == NULL ? Py_NewRef(Py_None)
                        : PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

PyObject *ext_list_of(uint32_t count, PyObject *(*make)(const void *from, uint32_t at),
                      const void *from)
{
    PyObject *list = PyList_New(0);

    for (uint32_t i = 0; list != NULL && i < count; i++) {
        PyObject *item = make(from, i);

        if (item == NULL || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

/* Constructor of types whose objects only this module can make: raises TypeError. */
static PyObject *refuse_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *name = PyObject_GetAttrString((PyObject *)type, "__name__");

    (void)args;
    (void)keywords;
    if (name != NULL)
        PyErr_Format(PyExc_TypeError, "cannot create '%U' instances", name);
    Py_XDECREF(name);
    return NULL;
}

PyObject *ext_make_type(PyObject *module, PyType_Spec *spec)
{
    enum { SLOTS = 24 };
    PyType_Slot slots[SLOTS + 2];
    PyType_Spec made = *spec;
    int count = 0;

    if ((spec->flags & Py_TPFLAGS_DISALLOW_INSTANTIATION) == 0)
        return PyType_FromModuleAndSpec(module, spec, NULL);
    for (; spec->slots[count].slot != 0; count++) {
        assert(count < SLOTS);
        slots[count] = spec->slots[count];
    }
    slots[count] = (PyType_Slot){ Py_tp_new, refuse_new };
    slots[count + 1] = (PyType_Slot){ 0, NULL };
    /* Python 3.9 ignores this flag, so it is removed, and refuse_new does the same */
    made.flags &= ~(unsigned)Py_TPFLAGS_DISALLOW_INSTANTIATION;
    made.slots = slots;
    return PyType_FromModuleAndSpec(module, &made, NULL);
}

int ext_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type_out)
{
    PyObject *type = ext_make_type(module, spec);

    if (type == NULL)
        return -1;
    *type_out = (PyTypeObject *)type;
    return PyModule_AddType(module, *type_out);
}

static int intern_names(struct ext_state *state)
{
#define X(variable, text)                                     \
    state->names.variable = PyUnicode_InternFromString(text); \
    if (state->names.variable == NULL)                        \
        return -1;
    EXT_NAME_MAP(X)
#undef X
    return 0;
}

static int module_exec(PyObject *module)
{
    struct ext_state *state = PyModule_GetState(module);

    if (intern_names(state) < 0 || ext_error_init(module, state) < 0 ||
        ext_dtype_init(module, state) < 0 || ext_tensor_init(module, state) < 0 ||
        ext_args_init_types(module, state) < 0 || ext_callable_init(module, state) < 0 ||
        ext_report_init(module, state) < 0 || ext_device_init(module, state) < 0 ||
        ext_memory_init(module, state) < 0 || ext_graph_init(module, state) < 0 ||
        ext_run_init(module, state) < 0 || ext_build_init(module) < 0 ||
        ext_store_init(module) < 0 || ext_observe_init(module) < 0 ||
        ext_worker_init(module, state) < 0)
        return -1;
    return PyModule_AddStringConstant(module, "__version__", pto_version());
}

/* Calls a function for every reference of the state. */
#define FOR_EACH_REFERENCE(state, DO)                  \
    do {                                               \
        DO((state)->error);                            \
        for (int i_ = 0; i_ < EXT_ERROR_CLASSES; i_++) \
            DO((state)->error_class[i_]);              \
        for (int i_ = 0; i_ < PTO_DTYPE_COUNT; i_++)   \
            DO((state)->dtype[i_]);                    \
        DO((state)->dtype_type);                       \
        DO((state)->tensor_type);                      \
        DO((state)->argument_type);                    \
        DO((state)->address_type);                     \
        DO((state)->callable_type);                    \
        DO((state)->device_type);                      \
        DO((state)->report_type);                      \
        DO((state)->run_type);                         \
        DO((state)->graph_type);                       \
        DO((state)->memory_type);                      \
        DO((state)->worker_type);                      \
        DO((state)->block_type);                       \
        DO((state)->registered_type);                  \
        DO((state)->worker_run_type);                  \
        DO((state)->worker_report_type);               \
        DO((state)->level_type);                       \
        DO((state)->task_type);                        \
        DO((state)->fresh_type);                       \
        DO((state)->exchange);                         \
        DO((state)->max_version);                      \
        DO((state)->torch.type);                       \
        DO((state)->torch.none);                       \
        DO((state)->torch.last);                       \
        DO((state)->torch.shape.object);               \
        DO((state)->torch.dtype.object);               \
        DO((state)->torch.is_cpu.object);              \
        DO((state)->torch.requires_grad.object);       \
    } while (0)

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct ext_state *state = PyModule_GetState(module);

    if (state != NULL)
        FOR_EACH_REFERENCE(state, Py_VISIT);
    return 0;
}

static int module_clear(PyObject *module)
{
    struct ext_state *state = PyModule_GetState(module);

    if (state == NULL)
        return 0;
    FOR_EACH_REFERENCE(state, Py_CLEAR);
#define X(variable, text) Py_CLEAR(state->names.variable);
    EXT_NAME_MAP(X)
#undef X
    return 0;
}

static void module_free(void *module)
{
    (void)module_clear(module);
}

static PyObject *module_strerror(PyObject *module, PyObject *status)
{
    long value = PyLong_AsLong(status);

    (void)module;
    if (value == -1 && PyErr_Occurred())
        return NULL;
    return PyUnicode_FromString(pto_strerror((int)value));
}

static PyObject *module_stuck_threads(PyObject *module, PyObject *ignored)
{
    (void)module;
    (void)ignored;
    return PyLong_FromUnsignedLong(pto_stuck_threads());
}

static PyObject *module_platforms(PyObject *module, PyObject *ignored)
{
    PyObject *list = PyList_New(0);
    const struct pto_platform *p;

    (void)module;
    (void)ignored;
    for (uint32_t i = 0; list != NULL && (p = pto_platform_at(i)) != NULL; i++) {
        PyObject *row = Py_BuildValue(
            "{s:s,s:s,s:s,s:N,s:z,s:I,s:I}", "name", p->name, "generation", p->generation,
            "backend", p->backend, "is_simulated", PyBool_FromLong(p->is_simulated), "missing",
            p->missing, "clusters", p->clusters, "clusters_max", p->clusters_max);

        if (row == NULL || PyList_Append(list, row) < 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *module_exception(PyObject *module, PyObject *args)
{
    struct pto_error error;
    const char *text;
    int status;

    if (!PyArg_ParseTuple(args, "is:_exception", &status, &text))
        return NULL;
    pto_error_init(&error);
    snprintf(error.text, sizeof(error.text), "%s", text);
    return ext_exception(PyModule_GetState(module), status, &error);
}
