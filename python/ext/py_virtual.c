/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual time of devices and workers: sets costs, and returns the report of the last run. */
#include "py_worker.h"

#include <stdlib.h>

#include <pto/worker_virtual.h>

/*
 * Returns the formula of a cost: for a number of ns, formats it into `room`; for a formula, returns
 * the text of the object.
 */
static const char *formula_of(PyObject *value, char room[32])
{
    if (PyUnicode_Check(value))
        return PyUnicode_AsUTF8AndSize(value, NULL);
    if (PyFloat_Check(value) || PyLong_Check(value)) {
        double ns = PyFloat_AsDouble(value);

        if (ns == -1.0 && PyErr_Occurred())
            return NULL;
        PyOS_snprintf(room, 32, "%.3f", ns);
        return room;
    }
    PyErr_SetString(PyExc_TypeError, "a cost is a number of ns, or a formula");
    return NULL;
}

/* Costs of kernels, and the objects that own their texts. */
struct costs {
    struct pto_virtual_cost *cost;
    uint32_t count;
    char (*room)[32]; /* texts of costs that were given as numbers */
    /* list that pto._profile.durations has returned, which owns texts; NULL: none */
    PyObject *rows;
};

static bool take_costs(PyObject *dict, struct costs *c)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;

    while (PyDict_Next(dict, &at, &key, &value)) {
        struct pto_virtual_cost *cost = &c->cost[c->count];

        cost->kernel = PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;
        if (cost->kernel == NULL) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "a cost is given by the name of a kernel");
            return false;
        }
        cost->formula = formula_of(value, c->room[c->count++]);
        if (cost->formula == NULL)
            return false;
    }
    return true;
}

/* Adds the costs from a file, except for kernels that are in the dict. */
static bool take_rows(PyObject *dict, struct costs *c)
{
    for (Py_ssize_t i = 0; i < PyList_Size(c->rows); i++) {
        PyObject *row = PyList_GetItem(c->rows, i); /* borrowed */
        struct pto_virtual_cost *cost = &c->cost[c->count];
        unsigned long long shapes;
        int is_given;

        if (!PyArg_ParseTuple(row, "sKss", &cost->kernel, &shapes, &cost->formula, &cost->origin))
            return false;
        cost->shapes = shapes;
        is_given = dict != Py_None ? PyDict_Contains(dict, PyTuple_GetItem(row, 0)) : 0;
        if (is_given < 0)
            return false;
        c->count += is_given == 0;
    }
    return true;
}

static PyObject *read_rows(PyObject *path)
{
    PyObject *module = PyImport_ImportModule("pto._profile");
    PyObject *function = module == NULL ? NULL : PyObject_GetAttrString(module, "durations");
    PyObject *rows = function == NULL ? NULL : PyObject_CallFunctionObjArgs(function, path, NULL);

    Py_XDECREF(function);
    Py_XDECREF(module);
    return rows;
}

/* The device or the worker whose options are set; the other one is NULL. */
struct target {
    struct pto_device *device;
    struct pto_worker *worker;
};

/*
 * Sets the options. If the status is negative and no exception was raised, `error` has a sentence.
 */
static int set_options(const struct target *target, PyObject *dict, PyObject *path,
                       struct pto_virtual_options *options, struct pto_error *error)
{
    struct costs c = { .rows = path != Py_None ? read_rows(path) : NULL };
    size_t count = (dict != Py_None ? (size_t)PyDict_Size(dict) : 0) + 1;
    int status = PTO_EINVAL;

    if (path != Py_None && c.rows == NULL)
        return status;
    count += c.rows != NULL ? (size_t)PyList_Size(c.rows) : 0;
    c.cost = calloc(count, sizeof(*c.cost));
    c.room = calloc(count, sizeof(*c.room));
    if (c.cost == NULL || c.room == NULL)
        status = PTO_ENOMEM;
    else if ((dict == Py_None || take_costs(dict, &c)) && (c.rows == NULL || take_rows(dict, &c)))
        status = PTO_OK;
    options->cost = c.cost;
    options->cost_count = c.count;
    if (status >= 0 && target->device != NULL) {
        status = pto_virtual_set(target->device, options, error);
    } else if (status >= 0) {
        Py_BEGIN_ALLOW_THREADS
        status = pto_worker_virtual_set(target->worker, options, error);
        Py_END_ALLOW_THREADS
    }
    free(c.cost);
    free(c.room);
    Py_XDECREF(c.rows);
    return status;
}

#define STEP_NAME(name, field, ns) " " #name

/* Returns the cost of the step with this name; NULL, with an exception: there is none. */
static uint64_t *find_step(struct pto_virtual_options *options, PyObject *name)
{
#define X(step, field, ns)                                                           \
    if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, #step) == 0) \
        return &options->field;
    PTO_VIRTUAL_SCHEDULING_MAP(X)
#undef X
    PyErr_Format(PyExc_ValueError,
                 "scheduling has %R; its steps are" PTO_VIRTUAL_SCHEDULING_MAP(STEP_NAME), name);
    return NULL;
}

/* Reads the cost of scheduling: a bool, or a dict of steps and their times in ns. */
static bool take_scheduling(PyObject *object, struct pto_virtual_options *options)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;

    if (PyBool_Check(object)) {
#define X(step, field, ns) options->field = object == Py_True ? options->field : 0;
        PTO_VIRTUAL_SCHEDULING_MAP(X)
#undef X
        return true;
    }
    if (!PyDict_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "scheduling is a bool, or a dict of steps and their ns");
        return false;
    }
    while (PyDict_Next(object, &at, &key, &value)) {
        uint64_t *step = find_step(options, key);

        if (step == NULL)
            return false;
        *step = PyLong_AsUnsignedLongLong(value);
        if (PyErr_Occurred())
            return false;
    }
    return true;
}

static PyObject *set_costs(struct ext_state *state, const struct target *target, PyObject *args,
                           PyObject *keywords)
{
    static char *names[] = { "costs", "compute", "scheduling", "durations", NULL };
    struct pto_virtual_options options;
    PyObject *costs = Py_None, *scheduling = Py_True, *durations = Py_None;
    struct pto_error error;
    int compute = 1, status;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|O$pOO:set_costs", names, &costs, &compute,
                                     &scheduling, &durations))
        return NULL;
    if (costs != Py_None && !PyDict_Check(costs)) {
        PyErr_SetString(PyExc_TypeError, "costs are a dict of kernels and formulas");
        return NULL;
    }
    pto_virtual_options_init(&options);
    options.is_planned_only = compute == 0;
    if (!take_scheduling(scheduling, &options))
        return NULL;
    pto_error_init(&error);
    status = set_options(target, costs, durations, &options, &error);
    if (status < 0)
        return PyErr_Occurred() ? NULL : ext_raise(state, status, &error);
    Py_RETURN_NONE;
}

PyObject *ext_device_set_costs(PyObject *self, PyObject *args, PyObject *keywords)
{
    struct ext_device *device = (struct ext_device *)self;
    struct target target = { .device = ext_device_handle(device) };

    return target.device != NULL ? set_costs(device->state, &target, args, keywords) : NULL;
}

PyObject *ext_worker_set_costs(PyObject *self, PyObject *args, PyObject *keywords)
{
    struct ext_worker *worker = (struct ext_worker *)self;
    struct target target = { .worker = ext_worker_handle(worker) };

    return target.worker != NULL ? set_costs(worker->state, &target, args, keywords) : NULL;
}

PyObject *ext_worker_virtual_report(PyObject *self, PyObject *ignored)
{
    struct ext_worker *worker = (struct ext_worker *)self;
    struct pto_worker *handle = ext_worker_handle(worker);
    struct pto_worker_virtual_report report;
    PyObject *busy;
    int status;

    (void)ignored;
    if (handle == NULL)
        return NULL;
    pto_worker_virtual_report_init(&report);
    status = pto_worker_virtual_report(handle, &report);
    if (status < 0)
        return ext_raise(worker->state, status, NULL);
    busy = PyList_New(0);
    for (uint32_t i = 0; busy != NULL && i < report.child_count; i++) {
        PyObject *ns = PyLong_FromUnsignedLongLong(report.busy_ns[i]);

        if (ns == NULL || PyList_Append(busy, ns) < 0)
            Py_CLEAR(busy);
        Py_XDECREF(ns);
    }
    if (busy == NULL)
        return NULL;
    return Py_BuildValue("{s:K,s:K,s:K,s:N}", "makespan_ns", (unsigned long long)report.makespan_ns,
                         "path_ns", (unsigned long long)report.path_ns, "measured",
                         (unsigned long long)report.measured, "busy_ns", busy);
}

static PyObject *kernels_of(struct pto_device *handle, uint32_t count)
{
    struct pto_virtual_kernel kernel;
    PyObject *list = PyList_New(0);

    pto_virtual_kernel_init(&kernel);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        PyObject *item;

        if (pto_virtual_kernel(handle, i, &kernel) < 0 || kernel.count == 0)
            continue;
        item = Py_BuildValue("{s:s,s:K,s:K,s:K,s:K,s:s}", "name", kernel.name, "count",
                             (unsigned long long)kernel.count, "total_ns",
                             (unsigned long long)kernel.total_ns, "min_ns",
                             (unsigned long long)kernel.min_ns, "max_ns",
                             (unsigned long long)kernel.max_ns, "origin", kernel.origin);
        if (item == NULL || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

PyObject *ext_device_virtual_report(PyObject *self, PyObject *ignored)
{
    struct ext_device *device = (struct ext_device *)self;
    struct pto_device *handle = ext_device_handle(device);
    struct pto_virtual_report report;
    PyObject *kernels;
    int status;

    (void)ignored;
    if (handle == NULL)
        return NULL;
    pto_virtual_report_init(&report);
    status = pto_virtual_report(handle, &report);
    if (status < 0)
        return ext_raise(device->state, status, NULL);
    kernels = kernels_of(handle, report.kernel_count);
    if (kernels == NULL)
        return NULL;
    return Py_BuildValue("{s:K,s:K,s:K,s:{s:K,s:K},s:K,s:N}", "makespan_ns",
                         (unsigned long long)report.makespan_ns, "bound_ns",
                         (unsigned long long)report.bound_ns, "path_ns",
                         (unsigned long long)report.path_ns, "work_ns", "aic",
                         (unsigned long long)report.work_ns[PTO_CORE_AIC], "aiv",
                         (unsigned long long)report.work_ns[PTO_CORE_AIV], "late",
                         (unsigned long long)report.late, "kernels", kernels);
}
