/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of a level-3 worker. launch calls the orchestration before it returns; the run keeps the
 * worker, and the worker keeps the run until it has ended and is settled.
 */
#include "py_worker.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLICE_NS = 50000000 }; /* slice of a wait; signals are checked between slices */

static struct ext_worker_run *worker_run_of(PyObject *self)
{
    return (struct ext_worker_run *)self;
}

static void nap(void)
{
    const struct timespec time = { .tv_nsec = 100000 };

    (void)nanosleep(&time, NULL);
}

bool ext_timeout(struct ext_state *state, PyObject *seconds, uint64_t *ns_out)
{
    double value;

    *ns_out = UINT64_MAX;
    if (seconds == NULL || seconds == Py_None)
        return true;
    value = PyFloat_AsDouble(seconds);
    if (value == -1 && PyErr_Occurred())
        return false;
    if (!(value >= 0)) {
        (void)ext_raise_text(state, PTO_EINVAL, "a time-out is a number of seconds, 0 or more");
        return false;
    }
    if (value < 1e9)
        *ns_out = (uint64_t)(value * 1e9);
    return true;
}

/* ---- the end of a run ---- */

static void unlist(struct ext_worker_run *run)
{
    struct ext_worker_run **at = &run->worker->runs;

    if (!run->is_listed)
        return;
    run->is_listed = false;
    while (*at != run)
        at = &(*at)->next;
    *at = run->next;
    Py_DECREF(run);
}

/* Returns whether the run has ended, and if so frees what it holds. The caller has a reference. */
static bool worker_run_settle(struct ext_worker_run *run)
{
    struct pto_worker_run *handle = run->run;

    if (handle == NULL)
        return true;
    if (run->users != 0 || pto_worker_run_poll(handle) == PTO_RUN_PENDING)
        return false;
    run->run = NULL;
    run->status = pto_worker_run_finish(handle, run->report);
    ext_stage_end(run, run->status >= 0);
    ext_worker_free_late(run->worker);
    unlist(run);
    return true;
}

void ext_worker_sweep(struct ext_worker *worker)
{
    struct ext_worker_run *run = worker->runs;

    while (run != NULL) {
        struct ext_worker_run *next = run->next;

        Py_INCREF((PyObject *)run);
        (void)worker_run_settle(run);
        Py_DECREF(run);
        run = next;
    }
}

/* Waits for a run. 1: ended; 0: not yet; -1 with an exception. */
static int wait_run(struct ext_worker_run *run, uint64_t timeout_ns)
{
    uint64_t now = ext_now_ns();
    uint64_t end = timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;

    while (!worker_run_settle(run)) {
        uint64_t left = end > now ? end - now : 0;
        int status;

        if (left == 0)
            return 0;
        if (pto_worker_run_poll(run->run) !=
            /*
             * the run has ended, but another thread still uses its handle; wait until it does not
             */
            PTO_RUN_PENDING) {
            Py_BEGIN_ALLOW_THREADS
            nap();
            Py_END_ALLOW_THREADS
            now = ext_now_ns();
            continue;
        }
        run->users++;
        Py_BEGIN_ALLOW_THREADS
        status = pto_worker_run_wait(run->run, left < SLICE_NS ? left : SLICE_NS);
        Py_END_ALLOW_THREADS
        run->users--;
        if (PyErr_CheckSignals() < 0)
            return -1;
        if (status == PTO_EFORKED) {
            (void)ext_raise(run->state, status, NULL);
            return -1;
        }
        now = ext_now_ns();
    }
    return 1;
}

/* ---- the error of a run ---- */

static PyObject *path_of(const struct pto_worker_report *report)
{
    static const char *const kinds[] = { "chip", "sub", "worker" };
    PyObject *path = PyTuple_New((Py_ssize_t)report->path_count);

    for (uint64_t i = 0; path != NULL && i < report->path_count; i++) {
        const struct pto_error_place *p = &report->path[i];
        PyObject *place = Py_BuildValue(
            "{s:I,s:i,s:i,s:i,s:i,s:s,s:s}", "level", p->level, "child", (int)p->child, "status",
            (int)p->status, "kernel", (int)p->kernel, "argument", (int)p->argument, "kind",
            p->kind >= 0 && p->kind < 3 ? kinds[p->kind] : "", "callable", p->callable);

        if (place == NULL || PyTuple_SetItem(path, (Py_ssize_t)i, place) < 0)
            Py_CLEAR(path);
    }
    return path;
}

static PyObject *raise_error(struct ext_worker_run *run)
{
    PyObject *error = ext_exception(run->state, run->status, &run->report->error);

    if (error == NULL)
        return NULL;
    if (ext_set(error, "path", path_of(run->report)) == 0 &&
        ext_set(
            error, "child",
            run->report->child < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(run->report->child)) == 0)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_DECREF(error);
    return NULL;
}

/* ---- launching ---- */

struct building {
    struct ext_worker *worker;
    struct ext_worker_run *run;
    PyTypeObject *level_type;
    PyObject *function;
    PyObject *args; /* arguments after the level */
    PyObject *keywords;
    PyThreadState *thread;
    PyObject *type, *value, *traceback; /* exception of the orchestration */
};

static PyObject *call_with_level(struct building *b, PyObject *level)
{
    Py_ssize_t count = PyTuple_Size(b->args);
    PyObject *all = PyTuple_New(count + 1);
    PyObject *value;

    if (all == NULL)
        return NULL;
    (void)PyTuple_SetItem(all, 0, Py_NewRef(level));
    for (Py_ssize_t i = 0; i < count; i++)
        (void)PyTuple_SetItem(all, i + 1, Py_NewRef(PyTuple_GetItem(b->args, i)));
    value = PyObject_Call(b->function, all, b->keywords == Py_None ? NULL : b->keywords);
    Py_DECREF(all);
    return value;
}

static void fail_level(struct pto_level *level, PyObject *exception)
{
    PyObject *text = exception == NULL ? NULL : PyObject_Str(exception);
    const char *words = text == NULL ? NULL : PyUnicode_AsUTF8AndSize(text, NULL);

    (void)pto_level_fail(level, PTO_EORCH,
                         words != NULL && words[0] != '\0' ? words : "the orchestration raised");
    PyErr_Clear();
    Py_XDECREF(text);
}

static void orchestrate(struct pto_level *level, void *context)
{
    struct building *b = context;
    struct ext_level *self;

    PyEval_RestoreThread(b->thread);
    self = (struct ext_level *)PyType_GenericAlloc(b->level_type, 0);
    if (self != NULL) {
        self->state = b->worker->state;
        self->level = level;
        self->worker = (struct ext_worker *)Py_NewRef((PyObject *)b->worker);
        self->run = worker_run_of(Py_NewRef((PyObject *)b->run));
        b->run->value = call_with_level(b, (PyObject *)self);
    }
    if (self == NULL || b->run->value == NULL) {
        PyErr_Fetch(&b->type, &b->value, &b->traceback);
        PyErr_NormalizeException(&b->type, &b->value, &b->traceback);
        if (b->traceback != NULL)
            (void)PyException_SetTraceback(b->value, b->traceback);
        fail_level(level, b->value);
    }
    if (self != NULL) {
        self->level = NULL;
        Py_CLEAR(self->run);
        Py_DECREF(self);
    }
    b->thread = PyEval_SaveThread();
}

PyObject *ext_worker_launch(struct ext_worker *worker, PyTypeObject *level_type, PyObject *function,
                            PyObject *args, PyObject *keywords, bool waits)
{
    struct ext_state *state = worker->state;
    struct building b = { .worker = worker,
                          .level_type = level_type,
                          .function = function,
                          .args = args,
                          .keywords = keywords };
    struct ext_worker_run *run;
    int status;

    if (ext_worker_handle(worker) == NULL)
        return NULL;
    ext_worker_sweep(worker);
    run = worker_run_of(PyType_GenericAlloc(state->worker_run_type, 0));
    if (run == NULL)
        return NULL;
    run->state = state;
    run->worker = (struct ext_worker *)Py_NewRef((PyObject *)worker);
    run->report = malloc(sizeof(*run->report));
    if (run->report == NULL) {
        Py_DECREF(run);
        return PyErr_NoMemory();
    }
    pto_worker_report_init(run->report);
    b.run = run;
    b.thread = PyEval_SaveThread();
    status = pto_worker_launch(worker->worker, orchestrate, &b, &run->run);
    PyEval_RestoreThread(b.thread);
    if (status < 0) {
        Py_XDECREF(b.type);
        Py_XDECREF(b.value);
        Py_XDECREF(b.traceback);
        Py_DECREF(run);
        return status == PTO_EBUSY ? ext_raise_text(state, status,
                                                    "an orchestration of this worker is on this "
                                                    "thread: submit to it instead")
                                   : ext_raise(state, status, NULL);
    }
    run->is_listed = true;
    run->next = worker->runs;
    worker->runs = worker_run_of(Py_NewRef((PyObject *)run));
    if (b.value == NULL)
        return (PyObject *)run;
    /* after an exception, tasks that the orchestration has submitted do not start */
    (void)pto_worker_run_cancel(run->run);
    if (waits && wait_run(run, UINT64_MAX) < 0)
        PyErr_Clear(); /* ignore a second Ctrl-C, because the first exception is raised below */
    Py_DECREF(run);    /* the worker still has a reference to the run */
    PyErr_Restore(b.type, b.value, b.traceback);
    return NULL;
}

/* ---- methods of runs ---- */

static bool worker_run_parse_timeout(PyObject *self, PyObject *args, PyObject *keywords,
                                     const char *format, uint64_t *ns_out)
{
    static char *names[] = { "timeout", NULL };
    PyObject *timeout = Py_None;

    return PyArg_ParseTupleAndKeywords(args, keywords, format, names, &timeout) &&
           ext_timeout(worker_run_of(self)->state, timeout, ns_out);
}

static PyObject *worker_run_wait(PyObject *self, PyObject *args, PyObject *keywords)
{
    uint64_t ns;
    int status = worker_run_parse_timeout(self, args, keywords, "|O:wait", &ns)
                     ? wait_run(worker_run_of(self), ns)
                     : -1;

    return status < 0 ? NULL : PyBool_FromLong(status);
}

static PyObject *make_report(struct ext_worker_run *run)
{
    const struct pto_worker_report *r = run->report;
    const uint64_t number[] = { r->tasks, r->done, r->failed, r->skipped, r->ns };
    PyObject *report = PyStructSequence_New(run->state->worker_report_type);

    for (Py_ssize_t i = 0; report != NULL && i < 5; i++)
        PyStructSequence_SetItem(report, i, PyLong_FromUnsignedLongLong(number[i]));
    if (report != NULL)
        PyStructSequence_SetItem(report, 5, Py_NewRef(run->value != NULL ? run->value : Py_None));
    return report;
}

static PyObject *worker_run_result(PyObject *self, PyObject *args, PyObject *keywords)
{
    struct ext_worker_run *run = worker_run_of(self);
    uint64_t ns;
    int status =
        worker_run_parse_timeout(self, args, keywords, "|O:result", &ns) ? wait_run(run, ns) : -1;

    if (status < 0)
        return NULL;
    if (status == 0)
        return ext_raise_text(run->state, PTO_ETIMEOUT, "the run has not ended yet and continues");
    return run->status < 0 ? raise_error(run) : make_report(run);
}

static PyObject *worker_run_cancel(PyObject *self, PyObject *ignored)
{
    struct ext_worker_run *run = worker_run_of(self);

    (void)ignored;
    if (!worker_run_settle(run))
        (void)pto_worker_run_cancel(run->run);
    Py_RETURN_NONE;
}

static PyObject *worker_run_fileno(PyObject *self, PyObject *ignored)
{
    struct ext_worker_run *run = worker_run_of(self);
    int descriptor = run->run == NULL ? PTO_EINVAL : pto_worker_run_fd(run->run);

    (void)ignored;
    return run->run == NULL ? ext_raise_text(run->state, PTO_EINVAL,
                                             "the run is over, and has no descriptor any more")
           : descriptor < 0 ? ext_raise(run->state, descriptor, NULL)
                            : PyLong_FromLong(descriptor);
}

static PyObject *worker_run_get_done(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(worker_run_settle(worker_run_of(self)));
}

static PyObject *worker_run_repr(PyObject *self)
{
    struct ext_worker_run *run = worker_run_of(self);

    return worker_run_settle(run)
               ? PyUnicode_FromFormat("<pto.WorkerRun: %s>", pto_strerror(run->status))
               : PyUnicode_FromString("<pto.WorkerRun: not over>");
}

static void worker_run_free(PyObject *self)
{
    struct ext_worker_run *run = worker_run_of(self);
    PyTypeObject *type = Py_TYPE(self);

    /* frees the stages of a launch that failed; a settled run has none */
    ext_stage_end(run, false);
    free(run->report);
    Py_XDECREF(run->value);
    Py_XDECREF((PyObject *)run->worker);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef worker_run_methods[] = {
    { "wait", EXT_WITH_KEYWORDS(worker_run_wait), METH_VARARGS | METH_KEYWORDS,
      "wait($self, timeout=None)\n--\n\nWaits until the run has ended, for at most `timeout` "
      "seconds, and returns whether it has.\nCtrl-C ends the wait, not the run." },
    { "result", EXT_WITH_KEYWORDS(worker_run_result), METH_VARARGS | METH_KEYWORDS,
      "result($self, timeout=None)\n--\n\nWaits for the run and returns its pto.WorkerReport, or "
      "raises its error.\npto.Timeout: it has not ended in time, and continues." },
    { "cancel", worker_run_cancel, METH_NOARGS,
      "cancel($self)\n--\n\nCancels the run: no further task starts, and running ones complete." },
    { "fileno", worker_run_fileno, METH_NOARGS,
      "fileno($self)\n--\n\nA descriptor that becomes readable when the run ends." },
    { NULL, NULL, 0, NULL }
};

static PyGetSetDef worker_run_fields[] = {
    { "done", worker_run_get_done, NULL, "whether it has ended", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot worker_run_slots[] = {
    { Py_tp_doc, "A submitted run of a level-3 worker. It can be awaited." },
    { Py_tp_dealloc, worker_run_free },
    { Py_tp_repr, worker_run_repr },
    { Py_tp_methods, worker_run_methods },
    { Py_tp_getset, worker_run_fields },
    { Py_am_await, ext_await_run },
    { 0, NULL },
};

static PyType_Spec worker_run_spec = {
    .name = "pto.WorkerRun",
    .basicsize = sizeof(struct ext_worker_run),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = worker_run_slots,
};

static PyStructSequence_Field report_fields[] = {
    { "tasks", "that were submitted" },
    { "done", "that ran and succeeded" },
    { "failed", "that ran and failed" },
    { "skipped", "that never ran" },
    { "ns", "from the beginning of the run to its end" },
    { "value", "return value of the orchestration" },
    { NULL, NULL },
};

static PyStructSequence_Desc report_desc = {
    .name = "pto.WorkerReport",
    .doc = "The report of a run of a level-3 worker.",
    .fields = report_fields,
    .n_in_sequence = 6,
};

int ext_worker_run_init(PyObject *module, struct ext_state *state)
{
    state->worker_report_type = PyStructSequence_NewType(&report_desc);
    if (state->worker_report_type == NULL ||
        PyModule_AddType(module, state->worker_report_type) < 0)
        return -1;
    return ext_add_type(module, &worker_run_spec, &state->worker_run_type);
}
