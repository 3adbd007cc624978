/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs. A run that the caller waits for executes on the caller's thread. A submitted one is a
 * pto.Run; it keeps its tensors, its callable and its device, and the device keeps it until it has
 * ended.
 */
#include "py_ext.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

enum { SLICE_NS = 50000000 }; /* slice of a wait; signals are checked between slices */

/* ---- launches: common to runs that the caller waits for and submitted runs ---- */

int ext_launch_begin(struct ext_launch *launch, struct ext_device *device, PyObject *target,
                     struct ext_args *args)
{
    launch->device = device;
    launch->target = target;
    launch->args = args;
    launch->run = NULL;
    ext_args_init(args);
    pto_error_init(&launch->error);
    pto_run_options_init(&launch->options);
    launch->options.error = &launch->error;
    if (device->first != NULL)
        ext_run_sweep(device);
    if (device->is_closed) {
        (void)ext_raise_text(device->state, PTO_EINVAL, "the device is closed");
        return -1;
    }
    return 0;
}

/*
 * Converts arguments and options of a launch, and prepares its run. Returns 0, or -1 with an
 * exception.
 */
int ext_launch_prepare(struct ext_launch *launch, PyObject *const *objects, Py_ssize_t count,
                       PyObject *names)
{
    struct ext_state *state = launch->device->state;
    struct ext_args *args = launch->args;
    struct pto_entry entry;
    struct ext_callable *callable;
    struct ext_graph *graph = NULL;
    int status;

    if (Py_IS_TYPE(launch->target, state->graph_type)) {
        graph = (struct ext_graph *)launch->target;
        callable = graph->callable;
    } else {
        callable = (struct ext_callable *)launch->target;
        launch->options.mode = callable->mode;
    }
    if (ext_args_take(state, args, objects, count, &callable->signature) < 0 ||
        ext_options_take(state, names, objects + count, &launch->options) < 0)
        return -1;
    if (graph != NULL && ext_graph_check(graph, args) < 0)
        return -1;
    entry =
        (struct pto_entry){ args->tensor_count, args->scalar_count, args->tensor, args->scalar };
    if (graph != NULL)
        status = graph->graph == NULL
                     ? PTO_EINVAL
                     : pto_graph_prepare(graph->graph, &entry, &launch->options, &launch->run);
    else if (callable->is_registered)
        status = pto_run_prepare(launch->device->device, callable->callable, &entry,
                                 &launch->options, &launch->run);
    else { /* release the interpreter's lock, because the first run of a callable loads its code */
        Py_BEGIN_ALLOW_THREADS
        status = pto_run_prepare(launch->device->device, callable->callable, &entry,
                                 &launch->options, &launch->run);
        Py_END_ALLOW_THREADS
        callable->is_registered = status >= 0;
    }
    if (status < 0)
        (void)ext_raise(state, status, &launch->error);
    return status < 0 ? -1 : 0;
}

/* Returns the callable of a pto.Callable or a pto.Graph. */
static struct ext_callable *run_callable_of(const struct ext_state *state, PyObject *target)
{
    return Py_IS_TYPE(target, state->graph_type) ? ((struct ext_graph *)target)->callable
                                                 : (struct ext_callable *)target;
}

/* Returns how long a cancelled run waits for its kernels, in milliseconds. */
static uint64_t cancel_wait_ms(uint64_t stall_timeout_ns)
{
    const char *set = getenv("SIMPLER_SCHEDULER_TIMEOUT_MS");
    uint64_t ms = set != NULL ? strtoull(set, NULL, 10) : 0;

    return stall_timeout_ns != 0 ? stall_timeout_ns / 1000000 : ms != 0 ? ms : 10000;
}

/* Lists the names of the first kernels. */
static void list_kernels(const struct pto_callable *callable, char *text, size_t size)
{
    struct pto_kernel_info kernel;
    size_t used = 0;

    text[0] = '\0';
    pto_kernel_info_init(&kernel);
    for (uint32_t i = 0; i < 4 && pto_callable_kernel(callable, i, &kernel) >= 0; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%.30s", i == 0 ? "" : ", ",
                                 kernel.name != NULL ? kernel.name : "unnamed");
    if (pto_callable_kernel(callable, 4, &kernel) >= 0)
        snprintf(text + used, size - used, ", ...");
}

void ext_run_describe(const struct ext_state *state, PyObject *target, uint64_t stall_timeout_ns,
                      char text[EXT_WAITING_TEXT])
{
    const struct pto_callable *callable = run_callable_of(state, target)->callable;
    uint64_t ms = cancel_wait_ms(stall_timeout_ns);
    struct pto_callable_info info;
    char names[160];

    pto_callable_info_init(&info);
    (void)pto_callable_info(callable, &info);
    list_kernels(callable, names, sizeof(names));
    snprintf(text, EXT_WAITING_TEXT,
             "the run of '%.60s' is cancelled; it waits at most %llu.%llu s for its running "
             "kernels (%s); after that it gives them up, and the device is lost",
             info.name != NULL ? info.name : "a callable", (unsigned long long)ms / 1000,
             (unsigned long long)ms % 1000 / 100, names);
}

static void cancel_launch(void *context)
{
    (void)pto_run_cancel(((struct ext_launch *)context)->run);
}

static void describe_launch(void *context, char text[EXT_WAITING_TEXT])
{
    const struct ext_launch *launch = context;

    ext_run_describe(launch->device->state, launch->target, launch->options.stall_timeout_ns, text);
}

/* Adds to KeyboardInterrupt that the device is lost, if the run lost it. */
static void explain_interrupt(struct ext_device *device)
{
    struct pto_device_info info;

    pto_device_info_init(&info);
    if (!PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) ||
        pto_device_info(device->device, &info) < 0 || !info.is_lost)
        return;
    PyErr_Clear();
    PyErr_SetString(PyExc_KeyboardInterrupt,
                    "the run was cancelled, but a kernel never returned: the device is lost; "
                    "close it and open another one");
}

static PyObject *execute(struct ext_launch *launch)
{
    struct ext_device *device = launch->device;
    PyObject *report = ext_report_new(device->state);
    int status;

    if (report == NULL) {
        (void)pto_run_finish(launch->run, NULL);
        return NULL;
    }
    launch->next = device->launches;
    launch->before = &device->launches;
    if (launch->next != NULL)
        launch->next->before = &launch->next;
    device->launches = launch;
    Py_INCREF((PyObject *)device);
    Py_BEGIN_ALLOW_THREADS
    {
        const struct ext_waiting call = { cancel_launch, describe_launch, launch };
        bool is_watched = ext_interrupt_begin(&call);

        status = pto_run_execute(launch->run);
        if (is_watched)
            ext_interrupt_end();
    }
    Py_END_ALLOW_THREADS
    *launch->before = launch->next;
    if (launch->next != NULL)
        launch->next->before = launch->before;
    (void)pto_run_finish(launch->run, ext_report_of(report));
    if (status == PTO_EFORKED || (status < 0 && PyErr_CheckSignals() == 0))
        (void)ext_raise(device->state, status, &ext_report_of(report)->error);
    else if (status < 0)
        explain_interrupt(device);
    if (status < 0)
        Py_CLEAR(report);
    Py_DECREF((PyObject *)device);
    return report;
}

PyObject *ext_launch_run(struct ext_device *device, PyObject *target, PyObject *const *objects,
                         Py_ssize_t count, PyObject *names)
{
    struct ext_launch launch;
    struct ext_args args;
    PyObject *report = NULL;

    if (ext_launch_begin(&launch, device, target, &args) == 0) {
        args.is_brief = true;
        if (ext_launch_prepare(&launch, objects, count, names) == 0)
            report = execute(&launch);
    }
    ext_args_release(&args);
    return report;
}

/* ---- pto.Run ---- */

/* Removes the run from its device's queue, which has a reference. */
static void leave_queue(struct ext_run *run)
{
    struct ext_device *device = run->device;
    struct ext_run **at = &device->first;

    if (!run->is_queued)
        return;
    run->is_queued = false;
    while (*at != run)
        at = &(*at)->next;
    *at = run->next;
    if (device->last == &run->next)
        device->last = at;
    Py_DECREF((PyObject *)run);
}

/*
 * Keeps the exception of a failed run. If memory runs out, the exception is made later, without
 * fields.
 */
static void keep_failure(struct ext_run *run)
{
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    run->failure = ext_exception(run->state, run->status, &ext_report_of(run->report)->error);
    PyErr_Restore(type, value, traceback);
}

/* Frees what a run holds, once it has ended and no thread uses its handle. */
static bool run_settle(struct ext_run *run)
{
    struct pto_run *handle = run->run;
    int status;

    if (handle == NULL)
        return true;
    status = run->users != 0 ? PTO_RUN_PENDING : pto_run_poll(handle);
    if (status == PTO_RUN_PENDING)
        return false;
    run->run = NULL;
    run->status = pto_run_finish(handle, ext_report_of(run->report));
    if (run->status < 0)
        keep_failure(run);
    ext_args_release(run->args);
    free(run->args);
    run->args = NULL;
    Py_CLEAR(run->target);
    Py_CLEAR(run->options);
    leave_queue(run);
    return true;
}

void ext_run_sweep(struct ext_device *device)
{
    while (device->first != NULL) {
        struct ext_run *run = device->first;
        bool is_over;

        Py_INCREF((PyObject *)run);
        is_over = run_settle(run);
        Py_DECREF((PyObject *)run);
        if (!is_over)
            return;
    }
}

/* Returns the values of keywords as a tuple. */
static PyObject *keep_values(PyObject *const *values, PyObject *names)
{
    Py_ssize_t count = names == NULL ? 0 : PyTuple_Size(names);
    PyObject *tuple = PyTuple_New(count);

    for (Py_ssize_t i = 0; tuple != NULL && i < count; i++)
        (void)PyTuple_SetItem(tuple, i, Py_NewRef(values[i]));
    return tuple;
}

PyObject *ext_run_submit(struct ext_device *device, PyObject *target, PyObject *const *objects,
                         Py_ssize_t count, PyObject *names)
{
    struct ext_state *state = device->state;
    struct ext_args *args = aligned_alloc(64, (sizeof(*args) + 63) / 64 * 64);
    struct ext_run *run = (struct ext_run *)PyType_GenericAlloc(state->run_type, 0);
    struct ext_launch launch;
    int status;

    if (run == NULL || args == NULL) {
        free(args);
        Py_XDECREF((PyObject *)run);
        return PyErr_NoMemory();
    }
    run->descriptor = -1;
    run->state = state;
    run->device = (struct ext_device *)Py_NewRef((PyObject *)device);
    run->target = Py_NewRef(target);
    run->args = args;
    ext_args_init(args);
    run->report = ext_report_new(state);
    run->options = keep_values(objects + count, names);
    ext_run_sweep(device);
    if (run->report == NULL || run->options == NULL ||
        ext_launch_begin(&launch, device, target, args) < 0 ||
        ext_launch_prepare(&launch, objects, count, names) < 0) {
        Py_DECREF((PyObject *)run);
        return NULL;
    }
    run->run = launch.run;
    run->stall_timeout_ns = launch.options.stall_timeout_ns;
    status = pto_run_launch(run->run);
    if (status < 0) {
        Py_DECREF((PyObject *)run);
        return ext_raise(state, status, NULL);
    }
    run->is_queued = true;
    *device->last = run;
    device->last = &run->next;
    /* the list of the device has the first reference, the caller gets a second one */
    return Py_NewRef((PyObject *)run);
}

/*
 * Waits once, for at most `ns`. If the run has ended while other threads still wait for it, the
 * last of them calls run_settle.
 */
static int look(struct ext_run *run, uint64_t ns)
{
    bool is_over = pto_run_poll(run->run) == PTO_RUN_ENDED;
    int status = PTO_OK;

    if (!is_over)
        run->users++;
    Py_BEGIN_ALLOW_THREADS
    if (is_over)
        (void)nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
    else
        status = pto_run_wait(run->run, ns < SLICE_NS ? ns : SLICE_NS);
    Py_END_ALLOW_THREADS
    if (!is_over)
        run->users--;
    return status == PTO_EFORKED ? status : PTO_OK;
}

/*
 * Waits, and returns whether the run has ended; -1: a signal raised an exception, or the wait
 * failed.
 */
int ext_run_wait(struct ext_run *run, uint64_t timeout_ns)
{
    uint64_t now = ext_now_ns(),
             end = timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;

    for (; !run_settle(run); now = ext_now_ns()) {
        if (now >= end)
            return 0;
        if (look(run, end - now) < 0) {
            (void)ext_raise(run->state, PTO_EFORKED, NULL);
            return -1;
        }
        if (PyErr_CheckSignals() < 0)
            return -1;
    }
    return 1;
}

static struct ext_run *run_of(PyObject *self)
{
    return (struct ext_run *)self;
}

static int run_parse_timeout(struct ext_run *run, PyObject *args, PyObject *keywords,
                             const char *format, uint64_t *ns_out)
{
    static char *names[] = { "timeout", NULL };
    PyObject *timeout = Py_None;

    *ns_out = UINT64_MAX;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, format, names, &timeout))
        return -1;
    if (timeout == Py_None)
        return 0;
    if (ext_seconds(run->state, "timeout", timeout, ns_out) < 0)
        return -1;
    if (*ns_out == 1)
        *ns_out = 0; /* only poll */
    return 0;
}

static PyObject *run_wait(PyObject *self, PyObject *args, PyObject *keywords)
{
    uint64_t ns;
    int status = run_parse_timeout(run_of(self), args, keywords, "|O:wait", &ns);

    if (status == 0)
        status = ext_run_wait(run_of(self), ns);
    return status < 0 ? NULL : PyBool_FromLong(status);
}

static PyObject *run_result(PyObject *self, PyObject *args, PyObject *keywords)
{
    struct ext_run *run = run_of(self);
    uint64_t ns;
    int status = run_parse_timeout(run, args, keywords, "|O:result", &ns);

    if (status == 0)
        status = ext_run_wait(run, ns);
    if (status < 0)
        return NULL;
    if (status == 0)
        return ext_raise_text(run->state, PTO_ETIMEOUT, "the run has not ended yet and continues");
    if (run->status >= 0)
        return Py_NewRef(run->report);
    if (run->failure == NULL)
        return ext_raise(run->state, run->status, NULL);
    PyErr_SetObject((PyObject *)Py_TYPE(run->failure), run->failure);
    return NULL;
}

static PyObject *run_cancel(PyObject *self, PyObject *ignored)
{
    struct ext_run *run = run_of(self);
    int status = run_settle(run) ? PTO_OK : pto_run_cancel(run->run);

    (void)ignored;
    if (status < 0)
        return ext_raise(run->state, status, NULL);
    Py_RETURN_NONE;
}

/* Returns a duplicate of the run's descriptor, which is closed together with the run. */
static PyObject *run_fileno(PyObject *self, PyObject *ignored)
{
    struct ext_run *run = run_of(self);

    (void)ignored;
    if (run->descriptor < 0) {
        int descriptor = run->run == NULL ? PTO_OK : pto_run_fd(run->run);

        if (descriptor < 0)
            return ext_raise(run->state, descriptor, NULL);
        run->descriptor = run->run == NULL ? eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)
                                           : fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
        if (run->descriptor < 0)
            return PyErr_SetFromErrno(PyExc_OSError);
    }
    return PyLong_FromLong(run->descriptor);
}

static PyObject *run_get_done(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(run_settle(run_of(self)));
}

static PyObject *run_repr(PyObject *self)
{
    struct ext_run *run = run_of(self);

    return run_settle(run) ? PyUnicode_FromFormat("<pto.Run: %s>", pto_strerror(run->status))
                           : PyUnicode_FromString("<pto.Run: not over>");
}

static int run_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct ext_run *run = run_of(self);

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(run->device);
    Py_VISIT(run->target);
    Py_VISIT(run->report);
    Py_VISIT(run->failure);
    Py_VISIT(run->options);
    for (uint32_t i = 0; run->args != NULL && i < run->args->tensor_count; i++)
        if (run->args->hold[i].kind == EXT_HOLD_OBJECT)
            Py_VISIT(run->args->hold[i].object);
    return 0;
}

/*
 * Breaks reference cycles: a traceback may refer to the run. Memory used by kernels is kept until
 * the run has ended.
 */
static int run_clear(PyObject *self)
{
    Py_CLEAR(run_of(self)->failure);
    return 0;
}

/* Frees a run that has no references any more: the run has ended, or it was never launched. */
static void run_free(PyObject *self)
{
    struct ext_run *run = run_of(self);
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    if (run->run != NULL)
        (void)pto_run_finish(run->run, NULL);
    if (run->args != NULL)
        ext_args_release(run->args);
    free(run->args);
    if (run->descriptor >= 0)
        (void)close(run->descriptor);
    Py_CLEAR(run->report);
    Py_CLEAR(run->failure);
    Py_CLEAR(run->target);
    Py_CLEAR(run->options);
    Py_CLEAR(run->device);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyGetSetDef run_fields[] = { { "done", run_get_done, NULL, "whether it has ended", NULL },
                                    { NULL, NULL, NULL, NULL, NULL } };

static PyMethodDef run_methods[] = {
    { "wait", EXT_WITH_KEYWORDS(run_wait), METH_VARARGS | METH_KEYWORDS,
      "wait($self, timeout=None)\n--\n\nWaits until it has ended, for at most `timeout` seconds, "
      "and returns whether\nit has, without raising its error. Ctrl-C ends the wait, not the "
      "run." },
    { "result", EXT_WITH_KEYWORDS(run_result), METH_VARARGS | METH_KEYWORDS,
      "result($self, timeout=None)\n--\n\nWaits until it has ended, and returns its pto.Report or "
      "raises its\n"
      "error. pto.Timeout: it has not ended within `timeout` seconds, and continues." },
    { "cancel", run_cancel, METH_NOARGS,
      "cancel($self)\n--\n\nCancels it: no further kernel starts, and it waits for running ones." },
    { "fileno", run_fileno, METH_NOARGS,
      "fileno($self)\n--\n\nA descriptor that becomes readable at its end, for select and the "
      "like." },
    { NULL, NULL, 0, NULL }
};

static PyType_Slot run_slots[] = {
    { Py_tp_doc, "A submitted run, made by Device.submit and Graph.submit. `await run` returns its "
                 "result in\nasyncio. It keeps its tensors, its callable and its device alive; a "
                 "dropped run continues." },
    { Py_tp_dealloc, run_free },
    { Py_tp_traverse, run_traverse },
    { Py_tp_clear, run_clear },
    { Py_tp_repr, run_repr },
    { Py_tp_getset, run_fields },
    { Py_tp_methods, run_methods },
    { Py_am_await, ext_await_run },
    { 0, NULL },
};

static PyType_Spec run_spec = {
    .name = "pto.Run",
    .basicsize = sizeof(struct ext_run),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = run_slots,
};

int ext_run_init(PyObject *module, struct ext_state *state)
{
    return ext_add_type(module, &run_spec, &state->run_type);
}
