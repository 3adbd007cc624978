/* SPDX-License-Identifier: Apache-2.0 */
/* pto.Report: how a run went. */
#include "py_ext.h"

#include <stddef.h>
#include <string.h>

struct report {
    PyObject_HEAD struct pto_run_report report;
};

PyObject *ext_report_new(struct ext_state *state)
{
    struct report *self = PyObject_New(struct report, state->report_type);

    if (self != NULL)
        pto_run_report_init(&self->report);
    return (PyObject *)self;
}

struct pto_run_report *ext_report_of(PyObject *report)
{
    return &((struct report *)report)->report;
}

static void report_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_Free(self);
    Py_DECREF(type);
}

/* The closure is where the number is. */
static PyObject *get_u64(PyObject *self, void *offset)
{
    uint64_t value;

    memcpy(&value, (char *)&((struct report *)self)->report + (size_t)offset, sizeof(value));
    return PyLong_FromUnsignedLongLong(value);
}

static PyObject *get_workers(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromUnsignedLong(((struct report *)self)->report.workers);
}

static PyObject *get_warning(PyObject *self, void *ignored)
{
    const char *warning = ((struct report *)self)->report.warning;

    (void)ignored;
    return warning == NULL ? Py_NewRef(Py_None) : PyUnicode_FromString(warning);
}

static PyObject *get_core_tasks(PyObject *self, void *ignored)
{
    const struct pto_run_report *report = &((struct report *)self)->report;
    PyObject *tuple = PyTuple_New((Py_ssize_t)report->core_count);

    (void)ignored;
    for (uint32_t i = 0; tuple != NULL && i < report->core_count; i++) {
        PyObject *count = PyLong_FromUnsignedLong(report->core_tasks[i]);

        if (count == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, count) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *get_timing(PyObject *self, void *ignored)
{
    const struct pto_run_report *report = &((struct report *)self)->report;
    PyObject *dict = PyDict_New();

    (void)ignored;
    for (int i = 0; dict != NULL && i < PTO_TIMING_SLOTS; i++) {
        const struct pto_timing *timing = &report->timing[i];
        PyObject *slot, *pair;

        if (timing->end_ns == 0)
            continue;
        slot = PyLong_FromLong(i);
        pair = Py_BuildValue("(KK)", (unsigned long long)timing->begin_ns,
                             (unsigned long long)timing->end_ns);
        if (slot == NULL || pair == NULL || PyDict_SetItem(dict, slot, pair) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(slot);
        Py_XDECREF(pair);
    }
    return dict;
}

static PyObject *report_repr(PyObject *self)
{
    const struct pto_run_report *report = &((struct report *)self)->report;

    return PyUnicode_FromFormat("pto.Report(tasks=%llu, executions=%llu, edges=%llu, ns=%llu)",
                                (unsigned long long)report->tasks,
                                (unsigned long long)report->executions,
                                (unsigned long long)report->edges, (unsigned long long)report->ns);
}

static PyObject *report_html(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return ext_call_package("pto._html", "report", self);
}

static PyMethodDef report_methods[] = { { "_repr_html_", report_html, METH_NOARGS, NULL },
                                        { NULL, NULL, 0, NULL } };

#define NUMBER(name, text)                                                        \
    {                                                                             \
#name, get_u64, NULL, text, (void *)offsetof(struct pto_run_report, name) \
    }

static PyGetSetDef report_fields[] = {
    NUMBER(tasks, "tasks submitted, allocations included"),
    NUMBER(executions, "kernels run"),
    NUMBER(edges, "dependencies wired"),
    NUMBER(ns, "from the first submit to the last completion"),
    NUMBER(stolen, "kernels run by workers other than the submitter"),
    NUMBER(takeovers, "kernels that outlived a time slice and went on beside the workers"),
    NUMBER(sleeps, "of workers, during the run"),
    NUMBER(wakes, "of workers, during the run"),
    NUMBER(monitor_ticks, "how often the clock was looked at"),
    NUMBER(dummies, "tasks without a kernel; allocations are none"),
    NUMBER(skipped, "tasks whose predicate did not hold"),
    NUMBER(stopped, "tasks that never ran: the run had failed, or was cancelled"),
    NUMBER(records_lost, "by the recorder: older ones that gave way, and edges"),
    { "workers", get_workers, NULL, "threads that ran tasks", NULL },
    { "warning", get_warning, NULL, "what was ignored; None: nothing", NULL },
    { "core_tasks", get_core_tasks, NULL, "executions by simulated core: AICs, then AIVs", NULL },
    { "timing", get_timing, NULL,
      "{slot: (begin_ns, end_ns)} of the timing slots that tasks were put into", NULL },
    { NULL, NULL, NULL, NULL, NULL }
};

static PyType_Slot report_slots[] = {
    { Py_tp_doc, "How a run went." },  { Py_tp_dealloc, report_free },
    { Py_tp_repr, report_repr },       { Py_tp_getset, report_fields },
    { Py_tp_methods, report_methods }, { 0, NULL },
};

static PyType_Spec report_spec = {
    .name = "pto.Report",
    .basicsize = sizeof(struct report),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = report_slots,
};

int ext_report_init(PyObject *module, struct ext_state *state)
{
    return ext_add_type(module, &report_spec, &state->report_type);
}
