/* SPDX-License-Identifier: Apache-2.0 */
/* pto.Report: the report of a run. */
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

/* Returns the number at the offset in the closure. */
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

static PyObject *get_notes(PyObject *self, void *ignored)
{
    const struct pto_run_report *report = &((struct report *)self)->report;
    uint64_t count = report->note_count;
    PyObject *notes = PyList_New(0);

    (void)ignored;
    for (uint32_t i = 0; notes != NULL && i < count && i < PTO_ARGUMENT_NOTES_MAX; i++) {
        const struct pto_argument_note *note = &report->note[i];
        PyObject *item =
            Py_BuildValue("(sIIiKK)",
                          note->kind == PTO_ARGUMENT_AFTER  ? "after"
                          : note->kind == PTO_ARGUMENT_IDLE ? "idle"
                                                            : "unchecked",
                          note->kernel, note->argument, (int)note->line,
                          (unsigned long long)note->tasks, (unsigned long long)note->first);

        if (item == NULL || PyList_Append(notes, item) < 0)
            Py_CLEAR(notes);
        Py_XDECREF(item);
    }
    return notes;
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
    NUMBER(takeovers, "kernels that exceeded a time slice and continued on other threads"),
    NUMBER(sleeps, "of workers, during the run"),
    NUMBER(wakes, "of workers, during the run"),
    NUMBER(monitor_ticks, "number of clock reads"),
    NUMBER(dummies, "tasks without a kernel, except allocations"),
    NUMBER(skipped, "tasks whose predicate did not hold"),
    NUMBER(stopped, "tasks that never ran: the run had failed, or was cancelled"),
    NUMBER(records_lost, "records that the recorder dropped: old ones, and edges"),
    { "workers", get_workers, NULL, "threads that ran tasks", NULL },
    { "warning", get_warning, NULL, "ignored options; None: none", NULL },
    { "core_tasks", get_core_tasks, NULL, "executions by simulated core: AICs, then AIVs", NULL },
    { "notes", get_notes, NULL,
      "what tasks did with arguments, if their kernels report accesses: (\"after\" or \"idle\", "
      "kernel, "
      "argument, line of the submit, tasks, first task)",
      NULL },
    { "timing", get_timing, NULL,
      "{slot: (begin_ns, end_ns)} of the timing slots that tasks were put into", NULL },
    { NULL, NULL, NULL, NULL, NULL }
};

static PyType_Slot report_slots[] = {
    { Py_tp_doc, "The report of a run." }, { Py_tp_dealloc, report_free },
    { Py_tp_repr, report_repr },           { Py_tp_getset, report_fields },
    { Py_tp_methods, report_methods },     { 0, NULL },
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
