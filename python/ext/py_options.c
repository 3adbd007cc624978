/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a run, as keywords: a table of names, each with the field that it sets. */
#include "py_ext.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct option {
    const char *name;
    size_t offset;
    int (*set)(struct ext_state *state, const struct option *option, PyObject *value,
               struct pto_run_options *options);
    const char *const *choices; /* choices of set_choice, terminated by NULL */
};

static void *field_of(struct pto_run_options *options, const struct option *option)
{
    return (char *)options + option->offset;
}

static int options_refuse(struct ext_state *state, const struct option *option, const char *what)
{
    if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_TypeError) ||
        PyErr_ExceptionMatches(PyExc_OverflowError) || PyErr_ExceptionMatches(PyExc_ValueError)) {
        PyErr_Clear();
        (void)ext_raise_text(state, PTO_EINVAL, "%s has to be %s", option->name, what);
    }
    return -1;
}

int ext_seconds(struct ext_state *state, const char *name, PyObject *value, uint64_t *ns_out)
{
    double seconds = PyFloat_AsDouble(value);

    if (PyErr_Occurred() || !(seconds >= 0)) {
        PyErr_Clear();
        (void)ext_raise_text(state, PTO_EINVAL, "%s has to be a time in seconds, not below 0",
                             name);
        return -1;
    }
    *ns_out = seconds < 1e9 ? (uint64_t)(seconds * 1e9) : UINT64_MAX / 2;
    if (*ns_out == 0)
        *ns_out = 1; /* round up, because 0 would mean the default */
    return 0;
}

static int set_seconds(struct ext_state *state, const struct option *option, PyObject *value,
                       struct pto_run_options *options)
{
    return ext_seconds(state, option->name, value, field_of(options, option));
}

static int set_bool(struct ext_state *state, const struct option *option, PyObject *value,
                    struct pto_run_options *options)
{
    int truth = PyObject_IsTrue(value);

    (void)state;
    if (truth < 0)
        return -1;
    *(bool *)field_of(options, option) = truth != 0;
    return 0;
}

/* ---- numbers ---- */

enum { EXT_BYTES_OVERHEAD = 64 }; /* allowance for the overhead of a bytes object */

/* Reads a number; raises ValueError, or TypeError for other objects. */
static bool take_number(PyObject *number, unsigned long long max, unsigned long long *value_out)
{
    PyObject *index = PyNumber_Index(number);

    if (index == NULL)
        return false;
    *value_out = PyLong_AsUnsignedLongLong(index);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError)) {
        PyErr_Clear();
        *value_out = max;
        /* the number is negative or has more than 64 bits: make the following check fail */
        max = 0;
    }
    if (!PyErr_Occurred() && *value_out > max)
        PyErr_Format(
            PyExc_ValueError,
            "%R is out of range: a count, a size, an offset or an address is a whole number "
            "from 0 to "
            "%llu",
            number, max == 0 ? *value_out : max);
    Py_DECREF(index);
    return !PyErr_Occurred();
}

int ext_take_u32(PyObject *number, void *u32_out)
{
    unsigned long long value;

    if (!take_number(number, UINT32_MAX, &value))
        return 0;
    *(uint32_t *)u32_out = (uint32_t)value;
    return 1;
}

int ext_take_u64(PyObject *number, void *u64_out)
{
    unsigned long long value;

    if (!take_number(number, UINT64_MAX, &value))
        return 0;
    *(uint64_t *)u64_out = value;
    return 1;
}

int ext_take_size(PyObject *number, void *py_ssize_out)
{
    unsigned long long value;

    if (!take_number(number, PY_SSIZE_T_MAX - EXT_BYTES_OVERHEAD, &value))
        return 0;
    *(Py_ssize_t *)py_ssize_out = (Py_ssize_t)value;
    return 1;
}

static int set_u32(struct ext_state *state, const struct option *option, PyObject *value,
                   struct pto_run_options *options)
{
    unsigned long number = PyLong_AsUnsignedLong(value);

    if (PyErr_Occurred() || number > UINT32_MAX)
        return options_refuse(state, option, "a number of at most 32 bits");
    *(uint32_t *)field_of(options, option) = (uint32_t)number;
    return 0;
}

static int set_u64(struct ext_state *state, const struct option *option, PyObject *value,
                   struct pto_run_options *options)
{
    unsigned long long number = PyLong_AsUnsignedLongLong(value);

    if (PyErr_Occurred())
        return options_refuse(state, option, "a number of at most 64 bits");
    *(uint64_t *)field_of(options, option) = number;
    return 0;
}

static const char *const modes[] = {
#define X(name, text) text,
    PTO_MODE_MAP(X)
#undef X
        NULL
};
static const char *const deps[] = {
#define X(name, text) text,
    PTO_DEPS_MAP(X)
#undef X
        NULL
};
static const char *const traces[] = { "off", "order", "times", "arguments", NULL };
static const char *const limits[] = { "none", "reference", NULL };

int ext_choice(struct ext_state *state, const char *name, PyObject *value,
               const char *const *choices)
{
    const char *text = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
    char list[128] = "";

    if (text == NULL && PyErr_Occurred())
        return -1;
    for (int i = 0; choices[i] != NULL; i++) {
        if (text != NULL && strcmp(text, choices[i]) == 0)
            return i;
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s'%s'", i == 0 ? "" : ", ",
                 choices[i]);
    }
    (void)ext_raise_text(state, PTO_EINVAL, "%s has to be one of %s", name, list);
    return -1;
}

int ext_mode(struct ext_state *state, PyObject *value)
{
    return ext_choice(state, "mode", value, modes);
}

int ext_deps(struct ext_state *state, PyObject *value)
{
    return ext_choice(state, "deps", value, deps);
}

/* Sets an enum, which has the size of an int in all options. */
static int set_choice(struct ext_state *state, const struct option *option, PyObject *value,
                      struct pto_run_options *options)
{
    int choice = ext_choice(state, option->name, value, option->choices);

    if (choice >= 0)
        *(int *)field_of(options, option) = choice;
    return choice < 0 ? -1 : 0;
}

static int set_trace(struct ext_state *state, const struct option *option, PyObject *value,
                     struct pto_run_options *options)
{
    if (PyBool_Check(value)) {
        options->trace = value == Py_True ? PTO_TRACE_TIMES : PTO_TRACE_OFF;
        return 0;
    }
    return set_choice(state, option, value, options);
}

/* Sets a text. It lives as long as its object, which the caller of the run or the pto.Run holds. */
static int set_text(struct ext_state *state, const struct option *option, PyObject *value,
                    struct pto_run_options *options)
{
    const char *text = PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;

    if (text == NULL)
        return options_refuse(state, option, "a str");
    *(const char **)field_of(options, option) = text;
    return 0;
}

static int set_edge(struct ext_state *state, const struct option *option, PyObject *value,
                    struct pto_run_options *options)
{
    if (!PyCallable_Check(value))
        return options_refuse(state, option, "a function of two positions");
    ext_observe_edges(value, &options->edge, &options->edge_context);
    return 0;
}

static int set_task(struct ext_state *state, const struct option *option, PyObject *value,
                    struct pto_run_options *options)
{
    if (!PyCallable_Check(value))
        return options_refuse(state, option, "a function of a dict");
    ext_observe_tasks(value, &options->task, &options->task_context);
    return 0;
}

static int set_step(struct ext_state *state, const struct option *option, PyObject *value,
                    struct pto_run_options *options)
{
    if (!PyCallable_Check(value))
        return options_refuse(state, option, "a function of a dict");
    ext_observe_steps(value, &options->step, &options->step_context);
    return 0;
}

static int set_vary(struct ext_state *state, const struct option *option, PyObject *value,
                    struct pto_run_options *options)
{
    PyObject *items = PySequence_Tuple(value);
    Py_ssize_t count = items == NULL ? -1 : PyTuple_Size(items);
    int status = items == NULL ? options_refuse(state, option, "a list of indices of scalars") : 0;

    for (Py_ssize_t i = 0; status == 0 && i < count; i++) {
        unsigned long index = PyLong_AsUnsignedLong(PyTuple_GetItem(items, i));

        if (PyErr_Occurred() || index >= PTO_ENTRY_SCALARS_MAX ||
            pto_run_options_vary(options, (uint32_t)index) < 0)
            status = options_refuse(state, option, "a list of indices of scalars, each below 128");
    }
    Py_XDECREF(items);
    return status;
}

/* Sets the size of all four rings, or of each. */
static int set_ring(struct ext_state *state, const struct option *option, PyObject *value,
                    struct pto_run_options *options)
{
    uint64_t *rings = field_of(options, option);
    PyObject *items = PyLong_Check(value) ? PyTuple_Pack(1, value) : PySequence_Tuple(value);
    Py_ssize_t count = items == NULL ? -1 : PyTuple_Size(items);
    int status =
        count == 1 || count == PTO_RINGS ? 0 : options_refuse(state, option, "one size, or four");

    for (int i = 0; status == 0 && i < PTO_RINGS; i++) {
        rings[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(items, count == 1 ? 0 : i));
        if (PyErr_Occurred())
            status = options_refuse(state, option, "one size, or four");
    }
    Py_XDECREF(items);
    return status;
}

static int set_diagnostics(struct ext_state *state, const struct option *option, PyObject *value,
                           struct pto_run_options *options);

#define AT(field) offsetof(struct pto_run_options, field)

/* Setters for each kind of PTO_RUN_OPTION_MAP. */
#define SET_MODE set_choice, modes
#define SET_DEPS set_choice, deps
#define SET_LIMITS set_choice, limits
#define SET_TRACE set_trace, traces
#define SET_RING set_ring, NULL
#define SET_U32 set_u32, NULL
#define SET_U64 set_u64, NULL
#define SET_SECONDS set_seconds, NULL
#define SET_BOOL set_bool, NULL
#define SET_TEXT set_text, NULL
#define SET_DIAGNOSTICS set_diagnostics, NULL
#define SET_SCALARS set_vary, NULL
#define SET_EDGE set_edge, NULL
#define SET_TASK set_task, NULL
#define SET_STEP set_step, NULL

static const struct option table[] = {
#define X(field, kind, name, level) { name, AT(field), SET_##kind },
    PTO_RUN_OPTION_MAP(X)
#undef X
};

static const struct option diagnostic_table[] = {
    { "folder", AT(diagnostics.folder), set_text, NULL },
    { "swimlane", AT(diagnostics.swimlane), NULL, NULL },
    { "args", AT(diagnostics.args), NULL, NULL },
    { "pmu", AT(diagnostics.pmu), NULL, NULL },
    { "deps", AT(diagnostics.has_deps), set_bool, NULL },
    { "scopes", AT(diagnostics.has_scopes), set_bool, NULL },
    { "names", AT(diagnostics.has_names), set_bool, NULL },
};

static int set_one(struct ext_state *state, const struct option *row, size_t rows, const char *what,
                   PyObject *key, PyObject *value, struct pto_run_options *options)
{
    const char *name = PyUnicode_Check(key) ? PyUnicode_AsUTF8AndSize(key, NULL) : NULL;

    for (size_t i = 0; name != NULL && i < rows; i++, row++) {
        if (strcmp(name, row->name) != 0)
            continue;
        if (row->set != NULL)
            return row->set(state, row, value, options);
        *(uint8_t *)field_of(options, row) = (uint8_t)PyLong_AsUnsignedLong(value);
        return PyErr_Occurred() ? options_refuse(state, row, "a small number") : 0;
    }
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "there is no %s %R", what, key);
    return -1;
}

static int set_diagnostics(struct ext_state *state, const struct option *option, PyObject *value,
                           struct pto_run_options *options)
{
    PyObject *key, *item;
    Py_ssize_t at = 0;

    if (!PyDict_Check(value))
        return options_refuse(state, option, "a dict with `folder` and what to write there");
    while (PyDict_Next(value, &at, &key, &item))
        if (set_one(state, diagnostic_table, sizeof(diagnostic_table) / sizeof(diagnostic_table[0]),
                    "diagnostic", key, item, options) < 0)
            return -1;
    return 0;
}

int ext_options_take(struct ext_state *state, PyObject *names, PyObject *const *values,
                     struct pto_run_options *options)
{
    Py_ssize_t count = names == NULL ? 0 : PyTuple_Size(names);

    for (Py_ssize_t i = 0; i < count; i++)
        if (values[i] != Py_None &&
            set_one(state, table, sizeof(table) / sizeof(table[0]), "option of a run",
                    PyTuple_GetItem(names, i), values[i], options) < 0)
            return -1;
    return 0;
}
