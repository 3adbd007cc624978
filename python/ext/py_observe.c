/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Python functions that the runtime calls (observers of submits, and the log function), and the
 * list of level-3 workers. Calls come from any thread without the interpreter's lock. An exception
 * of an observer cannot reach the waiting caller, so it is reported as unraisable.
 */
#include "py_ext.h"

#include <pto/log.h>
#include <pto/watch.h>

/*
 * Calls a function and steals the arguments; NULL: the arguments could not be made, or the function
 * raised.
 */
static PyObject *call_stealing(PyObject *function, PyObject *args)
{
    PyObject *result = args == NULL ? NULL : PyObject_CallObject(function, args);

    Py_XDECREF(args);
    if (result == NULL)
        PyErr_WriteUnraisable(function);
    return result;
}

/* ---- observers of submits ---- */

static bool call_edge(void *context, uint64_t before, uint64_t after)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *result = call_stealing(
        context, Py_BuildValue("(KK)", (unsigned long long)before, (unsigned long long)after));
    bool is_kept = result != Py_False;

    Py_XDECREF(result);
    PyGILState_Release(lock);
    return is_kept;
}

static PyObject *make_number(const void *from, uint32_t at)
{
    return PyLong_FromUnsignedLong(((const uint32_t *)from)[at]);
}

static PyObject *make_scalar(const void *from, uint32_t at)
{
    return PyLong_FromUnsignedLongLong(((const struct pto_args *)from)->scalar[at]);
}

static PyObject *make_argument(uint32_t tag, const struct pto_tensor *t)
{
    return Py_BuildValue("{s:s,s:s,s:N,s:N,s:K}", "tag", pto_tag_name(tag), "dtype",
                         pto_dtype_info(t->dtype)->text, "shape",
                         ext_list_of(t->ndims, make_number, t->shapes), "strides",
                         ext_list_of(t->ndims, make_number, t->strides), "address",
                         (unsigned long long)(uintptr_t)pto_tensor_data(t));
}

static PyObject *make_tensor(const void *from, uint32_t at)
{
    const struct pto_args *args = from;
    uint32_t tag = args->tag[at];
    const struct pto_tensor_info *info = args->tensor[at];

    if (tag == PTO_TAG_OUTPUT)
        return Py_BuildValue("{s:s,s:s,s:N}", "tag", pto_tag_name(tag), "dtype",
                             pto_dtype_info(info->dtype)->text, "shape",
                             ext_list_of(info->ndims, make_number, info->shapes));
    return make_argument(tag, args->tensor[at]);
}

static PyObject *make_step_tensor(const void *from, uint32_t at)
{
    const struct pto_tensor *t = (const struct pto_tensor *)from + at;

    return make_argument(t->tag, t);
}

static PyObject *make_site(const struct pto_site *site)
{
    return site == NULL || site->file == NULL ? Py_NewRef(Py_None)
                                              : Py_BuildValue("(si)", site->file, site->line);
}

static void call_step(void *context, const struct pto_step *step)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *result = call_stealing(
        context,
        Py_BuildValue("({s:K,s:N,s:N,s:I,s:N,s:N})", "index", (unsigned long long)step->index,
                      "is_end", PyBool_FromLong(step->is_end), "is_deferred",
                      PyBool_FromLong(step->is_deferred), "kernel", step->kernel, "site",
                      make_site(step->site), "tensors",
                      ext_list_of(step->tensor_count, make_step_tensor, step->tensor)));

    Py_XDECREF(result);
    PyGILState_Release(lock);
}

static void call_task(void *context, const struct pto_task_view *view)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    PyObject *result = call_stealing(
        context,
        Py_BuildValue("({s:K,s:K,s:(iii),s:N,s:i,s:N,s:N})", "index",
                      (unsigned long long)view->index, "task", (unsigned long long)view->task.raw,
                      "kernels", view->kernels.aic, view->kernels.aiv0, view->kernels.aiv1, "site",
                      make_site(view->site), "blocks", view->args->block_count, "tensors",
                      ext_list_of(view->args->tensor_count, make_tensor, view->args), "scalars",
                      ext_list_of(view->args->scalar_count, make_scalar, view->args)));

    Py_XDECREF(result);
    PyGILState_Release(lock);
}

void ext_observe_edges(PyObject *function, pto_edge_fn *edge_out, void **context_out)
{
    *edge_out = call_edge;
    *context_out = function;
}

void ext_observe_tasks(PyObject *function, pto_task_fn *task_out, void **context_out)
{
    *task_out = call_task;
    *context_out = function;
}

void ext_observe_steps(PyObject *function, pto_step_fn *step_out, void **context_out)
{
    *step_out = call_step;
    *context_out = function;
}

/* ---- lines of log ---- */

/*
 * The log function of the process; the runtime supports one. Protected by the interpreter's lock.
 */
static PyObject *log_function;

static void call_log(void *context, int level, const char *function, const char *text)
{
    PyGILState_STATE lock;
    PyObject *called, *result;

    (void)context;
    if (!Py_IsInitialized())
        return;
    lock = PyGILState_Ensure();
    called = Py_XNewRef(log_function);
    if (called != NULL) {
        result = call_stealing(called, Py_BuildValue("(iss)", level, function, text));
        Py_XDECREF(result);
        Py_DECREF(called);
    }
    PyGILState_Release(lock);
}

static PyObject *set_log(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "function", "threshold", NULL };
    PyObject *function = Py_None, *before;
    struct pto_log log;
    int status;

    pto_log_init(&log);
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O$i:set_log", names, &function,
                                     &log.threshold))
        return NULL;
    if (function != Py_None && !PyCallable_Check(function))
        return ext_raise_text(PyModule_GetState(module), PTO_EINVAL,
                              "lines of log go to a function, or with None to the error output");
    if (function != Py_None)
        log.fn = call_log;
    before = log_function;
    log_function = function == Py_None ? NULL : Py_NewRef(function);
    Py_BEGIN_ALLOW_THREADS
    status = pto_log_set(&log);
    Py_END_ALLOW_THREADS
    Py_XDECREF(before);
    return status < 0 ? ext_raise(PyModule_GetState(module), status, NULL) : Py_NewRef(Py_None);
}

void ext_log_end(void)
{
    if (log_function == NULL)
        return;
    (void)pto_log_set(NULL);
    Py_CLEAR(log_function);
}

/* ---- workers of this user ---- */

static PyObject *make_child(const void *from, uint32_t at)
{
    static const char *const kinds[] = { "chip", "sub", "worker" };
    static const char *const states[] = { "starting", "idle", "running", "dead" };
    const struct pto_watch_child *child = (const struct pto_watch_child *)from + at;

    return Py_BuildValue("{s:s,s:s,s:i,s:I,s:K,s:K,s:s,s:I}", "kind", kinds[child->kind % 3],
                         "state", states[child->state % 4], "pid", (int)child->pid, "generation",
                         child->generation, "tasks", (unsigned long long)child->tasks, "running_ns",
                         (unsigned long long)child->running_ns, "callable", child->callable,
                         "device", child->device);
}

/* Needs no lock: pto_watch_workers calls it on this thread. */
static void add_worker(void *context, const struct pto_watch_worker *worker)
{
    PyObject **list = context;
    PyObject *row;

    if (*list == NULL)
        return;
    row = Py_BuildValue(
        "{s:i,s:I,s:s,s:z,s:N,s:N}", "pid", (int)worker->pid, "level", worker->level, "program",
        worker->program, "platform", worker->is_other_build ? NULL : worker->platform,
        "is_other_build", PyBool_FromLong(worker->is_other_build), "children",
        ext_list_of(worker->is_other_build ? 0 : worker->child_count, make_child, worker->child));
    if (row == NULL || PyList_Append(*list, row) < 0)
        Py_CLEAR(*list);
    Py_XDECREF(row);
}

static PyObject *workers(PyObject *module, PyObject *ignored)
{
    PyObject *list = PyList_New(0);
    int status = list == NULL ? PTO_OK : pto_watch_workers(add_worker, &list);

    (void)ignored;
    if (status >= 0 || list == NULL)
        return list;
    Py_DECREF(list);
    return ext_raise(PyModule_GetState(module), status, NULL);
}

static PyMethodDef functions[] = {
    { "set_log", EXT_WITH_KEYWORDS(set_log), METH_VARARGS | METH_KEYWORDS,
      "set_log(function=None, *, threshold=25)\n--\n\nSets the destination of log lines of "
      "orchestrations written for simpler, for the whole\nprocess: function(level, name, text), "
      "called from any thread. None: stderr. Lines below\nthe threshold are dropped: 10 debug, 20 "
      "info, 25 timing, 30 warnings, 40 errors." },
    { "workers", workers, METH_NOARGS,
      "workers()\n--\n\nWorkers of level 3 of this user on this machine, of any program, each as a "
      "dict with\nits `children`. The call has no side effects." },
    { NULL, NULL, 0, NULL },
};

int ext_observe_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
