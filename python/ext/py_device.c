/* SPDX-License-Identifier: Apache-2.0 */
/* pto.Device: an open platform, on which callables run. */
#include "py_ext.h"

struct device {
    PyObject_HEAD struct ext_state *state;
    struct pto_device *device; /* NULL: closed */
};

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "platform", "clusters", "workers", "memory_max", "isolated", NULL };
    struct ext_state *state = ext_state_of(type);
    struct pto_device_params params;
    struct pto_error error;
    struct device *self;
    const char *platform = NULL;
    int isolated = 0, status;

    pto_device_params_init(&params);
    if (state == NULL || !PyArg_ParseTupleAndKeywords(args, keywords, "|z$IIKp:Device", names,
                                                      &platform, &params.clusters, &params.workers,
                                                      &params.memory_max, &isolated))
        return NULL;
    self = (struct device *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    self->state = state;
    if (platform != NULL)
        params.platform = platform;
    params.is_isolated = isolated != 0;
    params.error = &error;
    pto_error_init(&error);
    Py_BEGIN_ALLOW_THREADS status = pto_device_open(&params, &self->device);
    Py_END_ALLOW_THREADS if (status >= 0) return (PyObject *)self;
    Py_DECREF(self);
    return ext_raise(state, status, &error);
}

static void device_free(PyObject *self)
{
    struct device *device = (struct device *)self;
    PyTypeObject *type = Py_TYPE(self);

    if (device->device != NULL) {
        Py_BEGIN_ALLOW_THREADS(void) pto_device_close(device->device);
        Py_END_ALLOW_THREADS
    }
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *device_close(PyObject *self, PyObject *ignored)
{
    struct device *device = (struct device *)self;
    struct pto_device *handle = device->device;
    int status;

    (void)ignored;
    if (handle == NULL)
        Py_RETURN_NONE;
    device->device = NULL;
    Py_BEGIN_ALLOW_THREADS status = pto_device_close(handle);
    Py_END_ALLOW_THREADS if (status < 0)
    {
        device->device = handle;
        return ext_raise(device->state, status, NULL);
    }
    Py_RETURN_NONE;
}

static PyObject *device_enter(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return Py_NewRef(self);
}

static PyObject *device_exit(PyObject *self, PyObject *args)
{
    (void)args;
    return device_close(self, NULL);
}

static PyObject *device_run(PyObject *self, PyObject *const *objects, Py_ssize_t count)
{
    struct device *device = (struct device *)self;
    struct ext_callable *callable;
    struct pto_run_report report;
    struct pto_entry entry;
    struct ext_args args;
    PyObject *result;
    int status;

    if (count < 1 || !Py_IS_TYPE(objects[0], device->state->callable_type))
        return ext_raise_text(device->state, PTO_EINVAL,
                              "the first argument of run is a pto.Callable");
    callable = (struct ext_callable *)objects[0];
    ext_args_init(&args);
    if (ext_args_take(device->state, &args, objects + 1, count - 1, callable->signature,
                      callable->signature_count) < 0) {
        ext_args_release(&args);
        return NULL;
    }
    entry = (struct pto_entry){ args.tensor_count, args.scalar_count, args.tensor, args.scalar };
    pto_run_report_init(&report);
    Py_BEGIN_ALLOW_THREADS status =
        pto_run(device->device, callable->callable, &entry, NULL, &report);
    Py_END_ALLOW_THREADS ext_args_release(&args);
    result = status < 0 ? ext_raise(device->state, status, &report.error)
                        : ext_report_new(device->state, &report);
    return result;
}

static PyMethodDef device_methods[] = {
    { "close", device_close, METH_NOARGS,
      "close($self)\n--\n\nEnds its threads and frees its memory." },
    { "run", (PyCFunction)(void (*)(void))device_run, METH_FASTCALL,
      "run($self, callable, *args)\n--\n\nRuns a callable to its end and returns a pto.Report." },
    { "__enter__", device_enter, METH_NOARGS, NULL },
    { "__exit__", device_exit, METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL }
};

static PyType_Slot device_slots[] = {
    { Py_tp_doc,
      "Device(platform=None, *, clusters=0, workers=0, memory_max=0, isolated=False)\n--\n\n"
      "An open platform, with its threads and its memory. pto.platforms() lists them." },
    { Py_tp_new, device_new },
    { Py_tp_dealloc, device_free },
    { Py_tp_methods, device_methods },
    { 0, NULL },
};

static PyType_Spec device_spec = {
    .name = "pto.Device",
    .basicsize = sizeof(struct device),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = device_slots,
};

int ext_device_init(PyObject *module, struct ext_state *state)
{
    return ext_add_type(module, &device_spec, &state->device_type);
}
