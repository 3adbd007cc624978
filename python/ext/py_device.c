/* SPDX-License-Identifier: Apache-2.0 */
/* pto.Device: an open platform, on which callables run. */
#include "py_ext.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Time after cancelling a run when the user is told why it has not ended. */
enum { EXPLAIN_NS = 500000000 };

static int end_runs(struct ext_device *device);

static struct ext_device *device_of(PyObject *self)
{
    return (struct ext_device *)self;
}

/* ---- opening and closing ---- */

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "platform", "clusters", "workers", "memory_max",
                             "isolated", "card",     "virtual", NULL };
    struct ext_state *state = ext_state_of(type);
    struct pto_device_params params;
    struct pto_error error;
    struct ext_device *self;
    const char *platform = NULL;
    unsigned long long memory_max = 0;
    int isolated = 0, is_virtual = 0, status;

    pto_device_params_init(&params);
    if (state == NULL || !PyArg_ParseTupleAndKeywords(
                             args, keywords, "|z$O&O&O&pO&p:Device", names, &platform, ext_take_u32,
                             &params.clusters, ext_take_u32, &params.workers, ext_take_u64,
                             &memory_max, &isolated, ext_take_u32, &params.card, &is_virtual))
        return NULL;
    self = (struct ext_device *)PyType_GenericAlloc(type, 0);
    if (self == NULL)
        return NULL;
    self->state = state;
    self->last = &self->first;
    if (platform != NULL)
        params.platform = platform;
    params.memory_max = memory_max;
    params.is_isolated = isolated != 0;
    params.is_virtual = is_virtual != 0;
    params.error = &error;
    pto_error_init(&error);
    Py_BEGIN_ALLOW_THREADS
    status = pto_device_open(&params, &self->device);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        self->is_closed = true;
        Py_DECREF((PyObject *)self);
        return ext_raise(state, status, &error);
    }
    self->is_remote = params.is_isolated || !pto_platform_find(params.platform)->is_simulated;
    self->next = state->devices;
    self->before = &state->devices;
    if (self->next != NULL)
        self->next->before = &self->next;
    state->devices = self;
    return (PyObject *)self;
}

void ext_device_forget(struct ext_device *device)
{
    struct pto_device *handle = device->device;

    if (!device->is_closed || device->memory_count != 0 || handle == NULL)
        return;
    device->device = NULL;
    Py_BEGIN_ALLOW_THREADS(void)
    pto_device_close(handle);
    Py_END_ALLOW_THREADS
}

/*
 * Ends runs and graphs, and closes the device unless tensors are in its memory. -1: a signal raised
 * an exception.
 */
static int close_device(struct ext_device *device)
{
    if (device->is_closed)
        return 0;
    device->is_closed = true;
    *device->before = device->next;
    if (device->next != NULL)
        device->next->before = device->before;
    /* continue if an exception interrupts the wait, because the device must be closed */
    while (end_runs(device) < 0)
        PyErr_Clear();
    while (device->graphs != NULL && ext_graph_close(device->graphs) != PTO_EBUSY) {
    }
    ext_device_forget(device);
    return 0;
}

/* Cancels all runs and waits for each. */
static int end_runs(struct ext_device *device)
{
    for (struct ext_launch *launch = device->launches; launch != NULL; launch = launch->next)
        (void)pto_run_cancel(launch->run);
    for (struct ext_run *run = device->first; run != NULL; run = run->next)
        if (run->run != NULL)
            (void)pto_run_cancel(run->run);
    while (device->first != NULL) {
        struct ext_run *run = (struct ext_run *)Py_NewRef((PyObject *)device->first);
        int status = ext_run_wait(run, EXPLAIN_NS);

        if (status == 0 && run->target != NULL) {
            char text[EXT_WAITING_TEXT];

            ext_run_describe(device->state, run->target, run->stall_timeout_ns, text);
            ext_interrupt_print(text);
            status = ext_run_wait(run, UINT64_MAX);
        }
        Py_DECREF((PyObject *)run);
        if (status < 0)
            return -1;
    }
    while (device->launches != NULL) { /* waits for threads that are about to return */
        Py_BEGIN_ALLOW_THREADS(void)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        Py_END_ALLOW_THREADS
    }
    return 0;
}

static PyObject *device_close(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    if (close_device(device_of(self)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *device_enter(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return Py_NewRef(self);
}

static int device_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    for (struct ext_run *run = device_of(self)->first; run != NULL; run = run->next)
        Py_VISIT(run);
    return 0;
}

static void device_finalize(PyObject *self)
{
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    (void)close_device(device_of(self));
    PyErr_Restore(type, value, traceback);
}

static void device_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    /*
     * runs, graphs and running threads hold references to the device, so there are none when it is
     * freed
     */
    device_finalize(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* ---- running ---- */

/* A callable and arguments, made by an object other than pto.Callable that was passed to a run. */
struct made {
    PyObject *arguments; /* arguments to use; NULL: those of the call */
    PyObject *bind;      /* for a graph: a function that makes the arguments of each launch */
};

/*
 * Finds the callable, and possibly the arguments, for the first argument of a run or a graph.
 * `vary` is the option of a graph; NULL for a run.
 */
static PyObject *resolve(struct ext_device *device, PyObject *const *objects, Py_ssize_t count,
                         PyObject *vary, struct made *made_out)
{
    struct ext_state *state = device->state;
    PyObject *method, *list, *made, *callable;

    *made_out = (struct made){ NULL, NULL };
    if (count < 1)
        return ext_raise_text(state, PTO_EINVAL, "the callable is missing");
    if (Py_IS_TYPE(objects[0], state->callable_type))
        return Py_NewRef(objects[0]);
    method =
        PyObject_GetAttrString(objects[0], vary == NULL ? "__pto_callable__" : "__pto_graph__");
    if (method == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
        return ext_raise_text(state, PTO_EINVAL,
                              "run needs a pto.Callable or a Python orchestration; pto.load and "
                              "pto.compile make the first, @pto.orchestration the second");
    }
    list = method == NULL ? NULL : PyTuple_New(count - 1);
    for (Py_ssize_t i = 1; list != NULL && i < count; i++)
        (void)PyTuple_SetItem(list, i - 1, Py_NewRef(objects[i]));
    made = list == NULL ? NULL
                        : PyObject_CallFunctionObjArgs(method, (PyObject *)device, list, vary,
                                                       /*
                                                        * the NULL ends the list of arguments here
                                                        * if there is no `vary`
                                                        */
                                                       NULL);
    Py_XDECREF(list);
    Py_XDECREF(method);
    if (made == NULL)
        return NULL;
    if (!PyTuple_Check(made) || PyTuple_Size(made) != (vary == NULL ? 2 : 3) ||
        !PyTuple_Check(PyTuple_GetItem(made, 1)) ||
        !Py_IS_TYPE(PyTuple_GetItem(made, 0), state->callable_type)) {
        Py_DECREF(made);
        PyErr_SetString(PyExc_TypeError,
                        "__pto_callable__ returns (pto.Callable, (argument, ...)), and "
                        "__pto_graph__ also a function that makes the arguments of a launch");
        return NULL;
    }
    callable = Py_NewRef(PyTuple_GetItem(made, 0));
    made_out->arguments = Py_NewRef(PyTuple_GetItem(made, 1));
    made_out->bind = vary == NULL ? NULL : Py_NewRef(PyTuple_GetItem(made, 2));
    Py_DECREF(made);
    return callable;
}

PyObject *ext_use_made(ext_use_fn use, struct ext_device *device, PyObject *target,
                       PyObject *arguments, PyObject *const *keywords, PyObject *names)
{
    Py_ssize_t count = PyTuple_Size(arguments), extra = names == NULL ? 0 : PyTuple_Size(names);
    PyObject **objects = malloc(((size_t)(count + extra) + 1) * sizeof(*objects));
    PyObject *result;

    if (objects == NULL)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++)
        objects[i] = PyTuple_GetItem(arguments, i);
    for (Py_ssize_t i = 0; i < extra; i++)
        objects[count + i] = keywords[i];
    result = use(device, target, objects, count, names);
    free(objects);
    return result;
}

static PyObject *with_callable(ext_use_fn use, PyObject *vary, PyObject *self,
                               PyObject *const *objects, Py_ssize_t count, PyObject *names)
{
    struct ext_device *device = device_of(self);
    PyObject *callable, *result;
    struct made made;

    callable = resolve(device, objects, count, vary, &made);
    if (callable == NULL)
        return NULL;
    result = made.arguments == NULL
                 ? use(device, callable, objects + 1, count - 1, names)
                 : ext_use_made(use, device, callable, made.arguments, objects + count, names);
    if (result != NULL && made.bind != NULL)
        ((struct ext_graph *)result)->bind = Py_NewRef(made.bind);
    Py_DECREF(callable);
    Py_XDECREF(made.arguments);
    Py_XDECREF(made.bind);
    return result;
}

static PyObject *device_run(PyObject *self, PyObject *const *objects, Py_ssize_t count,
                            PyObject *names)
{
    return with_callable(ext_launch_run, NULL, self, objects, count, names);
}

static PyObject *device_submit(PyObject *self, PyObject *const *objects, Py_ssize_t count,
                               PyObject *names)
{
    return with_callable(ext_run_submit, NULL, self, objects, count, names);
}

static PyObject *device_graph(PyObject *self, PyObject *const *objects, Py_ssize_t count,
                              PyObject *names)
{
    PyObject *vary = Py_None;

    for (Py_ssize_t i = 0; names != NULL && i < PyTuple_Size(names); i++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, i), "vary") == 0)
            vary = objects[count + i];
    return with_callable(ext_graph_build, vary, self, objects, count, names);
}

struct pto_device *ext_device_handle(struct ext_device *device)
{
    if (!device->is_closed)
        return device->device;
    (void)ext_raise_text(device->state, PTO_EINVAL, "the device is closed");
    return NULL;
}

static struct ext_callable *device_callable_of(struct ext_device *device, PyObject *object)
{
    if (Py_IS_TYPE(object, device->state->callable_type))
        return (struct ext_callable *)object;
    (void)ext_raise_text(device->state, PTO_EINVAL, "register needs a pto.Callable");
    return NULL;
}

static PyObject *device_register(PyObject *self, PyObject *object)
{
    struct ext_device *device = device_of(self);
    struct pto_device *handle = ext_device_handle(device);
    struct ext_callable *callable = handle == NULL ? NULL : device_callable_of(device, object);
    struct pto_error error;
    int status;

    if (callable == NULL)
        return NULL;
    pto_error_init(&error);
    Py_BEGIN_ALLOW_THREADS
    status = pto_register(handle, callable->callable, &error);
    Py_END_ALLOW_THREADS
    if (status < 0)
        return ext_raise(device->state, status, &error);
    Py_RETURN_NONE;
}

static PyObject *device_unregister(PyObject *self, PyObject *object)
{
    struct ext_device *device = device_of(self);
    struct pto_device *handle = ext_device_handle(device);
    struct ext_callable *callable = handle == NULL ? NULL : device_callable_of(device, object);
    int status;

    if (callable == NULL)
        return NULL;
    ext_run_sweep(device);
    callable->is_registered = false;
    status = pto_unregister(handle, callable->callable);
    if (status < 0)
        return ext_raise(device->state, status, NULL);
    Py_RETURN_NONE;
}

/* ---- memory ---- */

static PyObject *device_empty(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "shape", "dtype", NULL };
    struct ext_device *device = device_of(self);
    PyObject *shape, *dtype = Py_None;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O:empty", names, &shape, &dtype) ||
        ext_device_handle(device) == NULL)
        return NULL;
    return ext_memory_new(device, shape,
                          dtype != Py_None ? dtype : device->state->dtype[PTO_FLOAT32]);
}

static PyObject *device_check_memory(PyObject *self, PyObject *ignored)
{
    struct ext_device *device = device_of(self);
    struct pto_device *handle = ext_device_handle(device);
    struct pto_error error;
    int status;

    (void)ignored;
    if (handle == NULL)
        return NULL;
    pto_error_init(&error);
    status = pto_mem_check(handle, &error);
    if (status < 0)
        return ext_raise(device->state, status, &error);
    Py_RETURN_NONE;
}

static PyObject *device_write(PyObject *self, PyObject *args)
{
    struct ext_device *device = device_of(self);
    struct pto_device *handle = ext_device_handle(device);
    unsigned long long address;
    Py_buffer from;
    int status;

    if (handle == NULL || !PyArg_ParseTuple(args, "O&y*:write", ext_take_u64, &address, &from))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = pto_mem_write(handle, address, from.buf, (uint64_t)from.len);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&from);
    if (status < 0)
        return ext_raise_memory(device->state, handle, status);
    Py_RETURN_NONE;
}

static PyObject *device_read(PyObject *self, PyObject *args)
{
    struct ext_device *device = device_of(self);
    struct pto_device *handle = ext_device_handle(device);
    unsigned long long address;
    Py_ssize_t bytes;
    PyObject *result;
    int status;

    if (handle == NULL ||
        !PyArg_ParseTuple(args, "O&O&:read", ext_take_u64, &address, ext_take_size, &bytes))
        return NULL;
    result = PyBytes_FromStringAndSize(NULL, bytes);
    if (result == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = pto_mem_read(handle, address, PyBytes_AsString(result), (uint64_t)bytes);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        Py_DECREF(result);
        return ext_raise_memory(device->state, handle, status);
    }
    return result;
}

/* ---- properties ---- */

static PyObject *device_get_info(PyObject *self, void *ignored)
{
    struct ext_device *device = device_of(self);
    struct pto_device *handle = ext_device_handle(device);
    struct pto_device_info info;
    int status;

    (void)ignored;
    if (handle == NULL)
        return NULL;
    pto_device_info_init(&info);
    status = pto_device_info(handle, &info);
    if (status < 0)
        return ext_raise(device->state, status, NULL);
    return Py_BuildValue("{s:s,s:I,s:I,s:I,s:I,s:N,s:N,s:N}", "platform", info.platform, "clusters",
                         info.clusters, "aic_count", info.aic_count, "aiv_count", info.aiv_count,
                         "workers", info.workers, "is_isolated", PyBool_FromLong(info.is_isolated),
                         "is_lost", PyBool_FromLong(info.is_lost), "is_virtual",
                         PyBool_FromLong(info.is_virtual));
}

static PyObject *device_get_closed(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(device_of(self)->is_closed);
}

static PyObject *device_last_failure(PyObject *self, PyObject *ignored)
{
    struct ext_device *device = device_of(self);
    struct pto_device *handle = ext_device_handle(device);
    int length = handle == NULL ? -1 : pto_device_last_failure(handle, NULL, 0);
    PyObject *result;
    char *text;

    (void)ignored;
    if (handle == NULL)
        return NULL;
    if (length < 0)
        return ext_raise(device->state, length, NULL);
    text = malloc((size_t)length + 1);
    if (text == NULL)
        return PyErr_NoMemory();
    text[0] = '\0';
    (void)pto_device_last_failure(handle, text, (size_t)length + 1);
    result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    free(text);
    return result;
}

static PyObject *device_write_trace(PyObject *self, PyObject *object)
{
    struct ext_device *device = device_of(self);
    struct pto_device *handle = ext_device_handle(device);
    struct pto_error error;
    PyObject *path;
    int status;

    if (handle == NULL || !PyUnicode_FSConverter(object, &path))
        return NULL;
    pto_error_init(&error);
    Py_BEGIN_ALLOW_THREADS
    status = pto_trace_write(handle, PyBytes_AsString(path), &error);
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    if (status < 0)
        return ext_raise(device->state, status, &error);
    Py_RETURN_NONE;
}

/* Calls the package's function that runs the callable and reads the recording. */
static PyObject *device_profile(PyObject *self, PyObject *args, PyObject *keywords)
{
    PyObject *module = PyImport_ImportModule("pto._profile");
    PyObject *function = module == NULL ? NULL : PyObject_GetAttrString(module, "profile");
    PyObject *first = function == NULL ? NULL : Py_BuildValue("(O)", self);
    PyObject *all = first == NULL ? NULL : PySequence_Concat(first, args);
    PyObject *result = all == NULL ? NULL : PyObject_Call(function, all, keywords);

    Py_XDECREF(all);
    Py_XDECREF(first);
    Py_XDECREF(function);
    Py_XDECREF(module);
    return result;
}

static PyObject *device_repr(PyObject *self)
{
    struct ext_device *device = device_of(self);
    struct pto_device_info info;

    pto_device_info_init(&info);
    if (device->is_closed || pto_device_info(device->device, &info) < 0)
        return PyUnicode_FromString("<pto.Device: closed>");
    return PyUnicode_FromFormat("<pto.Device: %s, %u clusters, %u workers%s%s>", info.platform,
                                info.clusters, info.workers,
                                info.is_isolated  ? ", isolated"
                                : info.is_virtual ? ", virtual"
                                                  : "",
                                info.is_lost ? ", lost" : "");
}

/*
 * Called when the interpreter ends: waits for runs, because they must not use its memory
 * afterwards.
 */
static PyObject *module_shut_down(PyObject *module, PyObject *ignored)
{
    struct ext_state *state = PyModule_GetState(module);

    (void)ignored;
    ext_log_end();
    while (state->devices != NULL) {
        struct ext_device *device = (struct ext_device *)Py_NewRef((PyObject *)state->devices);

        (void)close_device(device);
        Py_DECREF((PyObject *)device);
    }
    Py_RETURN_NONE;
}

static PyGetSetDef device_fields[] = {
    { "info", device_get_info, NULL,
      "its properties: a dict with platform, clusters, workers and so on", NULL },
    { "closed", device_get_closed, NULL, "whether it is closed for runs", NULL },
    { NULL, NULL, NULL, NULL, NULL }
};

#define OPTIONS "Options:\n" PTO_RUN_OPTION_MAP(EXT_OPTION_DOC)

static PyMethodDef device_methods[] = {
    { "run", EXT_WITH_KEYWORDS(device_run), METH_FASTCALL | METH_KEYWORDS,
      "run($self, callable, *args, **options)\n--\n\nRuns a callable to its end and returns a "
      "pto.Report, or raises an error.\n\nThe arguments are tensors in the signature's order, and "
      "scalars: ints, floats, numbers\nof ctypes and numpy. Ctrl-C cancels the run.\n\n" OPTIONS },
    { "submit", EXT_WITH_KEYWORDS(device_submit), METH_FASTCALL | METH_KEYWORDS,
      "submit($self, callable, *args, **options)\n--\n\nStarts a run without waiting and returns a "
      "pto.Run, which keeps the tensors alive. The\nruns of a device execute one after the "
      "other." },
    { "graph", EXT_WITH_KEYWORDS(device_graph), METH_FASTCALL | METH_KEYWORDS,
      "graph($self, callable, *args, vary=(), **options)\n--\n\nBuilds a pto.Graph from a callable "
      "and arguments of the "
      "shapes that launches will have.\n`vary` has the indices of scalars that launches may "
      "change." },
    { "empty", EXT_WITH_KEYWORDS(device_empty), METH_VARARGS | METH_KEYWORDS,
      "empty($self, shape, dtype=None)\n--\n\nA tensor in new memory of the device, float32 by "
      "default, which lives as long as the\ntensor and its views." },
    { "register", device_register, METH_O,
      "register($self, callable)\n--\n\nLoads a callable's code ahead of its first run." },
    { "unregister", device_unregister, METH_O,
      "unregister($self, callable)\n--\n\nUnloads a callable's code." },
    { "check_memory", device_check_memory, METH_NOARGS,
      "check_memory($self)\n--\n\nRaises an error if something wrote outside of an allocation." },
    { "write", device_write, METH_VARARGS,
      "write($self, address, bytes, /)\n--\n\nCopies bytes to an address in its memory." },
    { "read", device_read, METH_VARARGS,
      "read($self, address, count, /)\n--\n\nCopies bytes from an address in its memory." },
    { "last_failure", device_last_failure, METH_NOARGS,
      "last_failure($self)\n--\n\nExplains the last failed run, line by line; '': none has "
      "failed." },
    { "write_trace", device_write_trace, METH_O,
      "write_trace($self, path)\n--\n\nWrites the timeline of the last recorded run, for "
      "ui.perfetto.dev;\nas a recording, if the path ends in .ptrec." },
    { "profile", EXT_WITH_KEYWORDS(device_profile), METH_VARARGS | METH_KEYWORDS,
      "profile($self, callable, /, *args, **options)\n--\n\nRuns a callable as run does, and "
      "returns a Profile: why it took as long as it did." },
    { "set_costs", EXT_WITH_KEYWORDS(ext_device_set_costs), METH_VARARGS | METH_KEYWORDS,
      "set_costs($self, costs=None, *, compute=True, scheduling=True, durations=None)\n--\n\nSets "
      "what takes how long in virtual time: a dict of kernels, and for each a number of ns\nor a "
      "formula; for other kernels the medians of a recording or a swimlane file. Without\ncompute "
      "no kernel is called. Scheduling takes no time if it is False; a dict has the ns\nof steps: "
      "read, write, line, pickup, submit." },
    { "virtual_report", ext_device_virtual_report, METH_NOARGS,
      "virtual_report($self)\n--\n\nWhat the last run took in virtual time, and which bounds no "
      "schedule can beat." },
    { "close", device_close, METH_NOARGS,
      "close($self)\n--\n\nCancels its runs, and frees graphs, threads and memory. Memory of "
      "tensors lives as long\nas they do." },
    { "__enter__", device_enter, METH_NOARGS, NULL },
    { "__exit__", device_close, METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL }
};

static PyType_Slot device_slots[] = {
    { Py_tp_doc,
      "Device(platform=None, *, clusters=0, workers=0, memory_max=0, isolated=False, "
      "card=0, virtual=False)\n--\n\nAn open platform, with its threads and its memory. "
      "pto.platforms() lists the "
      "platforms. 0\nselects the default of the platform, or one worker per CPU. An isolated "
      "device runs in a\nseparate process: a kernel that ends its process ends the device and "
      "nothing else. `card`\nis the number of the card of a real platform. A virtual\n"
      "device computes what a run takes on a whole chip.\n\n    with "
      "pto.Device() as device:\n        device.run(callable, x, y)" },
    { Py_tp_new, device_new },
    { Py_tp_dealloc, device_free },
    { Py_tp_finalize, device_finalize },
    { Py_tp_traverse, device_traverse },
    { Py_tp_repr, device_repr },
    { Py_tp_getset, device_fields },
    { Py_tp_methods, device_methods },
    { 0, NULL },
};

static PyType_Spec device_spec = {
    .name = "pto.Device",
    .basicsize = sizeof(struct ext_device),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = device_slots,
};

static PyMethodDef functions[] = { { "_shut_down", module_shut_down, METH_NOARGS, NULL },
                                   { NULL, NULL, 0, NULL } };

/* Closes open devices when the interpreter ends. */
static int register_end(PyObject *module)
{
    PyObject *exit = PyImport_ImportModule("atexit");
    PyObject *end = exit == NULL ? NULL : PyObject_GetAttrString(module, "_shut_down");
    PyObject *result = end == NULL ? NULL : PyObject_CallMethod(exit, "register", "O", end);
    int status = result == NULL ? -1 : 0;

    Py_XDECREF(result);
    Py_XDECREF(end);
    Py_XDECREF(exit);
    return status;
}

int ext_device_init(PyObject *module, struct ext_state *state)
{
    if (ext_add_type(module, &device_spec, &state->device_type) < 0 ||
        PyModule_AddFunctions(module, functions) < 0)
        return -1;
    return register_end(module);
}
