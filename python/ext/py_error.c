/* SPDX-License-Identifier: Apache-2.0 */
/* Exceptions: a class for each kind of failure, with the runtime's error as text and fields. */
#include "py_ext.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char error_doc[] =
    "The error of a call or a run that failed. `str()` is its sentence, with names of "
    "Python.\nDerived classes are for errors that a program can handle; docs/user/python.md lists "
    "them.\n\nstatus    the number, such as -204\nname      its name, such as 'ETIMEOUT'\ntext     "
    " the sentence\ntask      raw id of the task; None: none\nkernel    its kernel; None: "
    "none\nargument  index of the argument; None: none\nsite      (file, line) of the submit; "
    "None: unknown\nrank      of the communicator; None: none\nlevel     of the machine; 2: one "
    "chip\npath      places from the level-3 worker down to the error; () at level 2";

/* Class of each status; any other status is pto.Error itself. */
static const struct {
    int status;
    enum ext_error_class class;
} classes[] = {
    { PTO_EINVAL, EXT_InvalidArgument },
    { PTO_EARGS, EXT_InvalidArgument },
    { PTO_ESYNC_START, EXT_InvalidArgument },
    { PTO_EGRAPH, EXT_GraphMismatch },
    { PTO_ETIMEOUT, EXT_Timeout },
    { PTO_ETENSOR_WAIT, EXT_Timeout },
    { PTO_ESTALL, EXT_Stalled },
    { PTO_ENOMEM, EXT_OutOfMemory },
    { PTO_EHEAP, EXT_OutOfMemory },
    { PTO_ESCOPE_DEADLOCK, EXT_LimitReached },
    { PTO_EWINDOW, EXT_LimitReached },
    { PTO_EDEP_POOL, EXT_LimitReached },
    { PTO_EREGIONS, EXT_LimitReached },
    { PTO_EREADY, EXT_LimitReached },
    { PTO_EWAIT_OVERFLOW, EXT_LimitReached },
    { PTO_ECANCELED, EXT_Canceled },
    { PTO_EPEER, EXT_PeerGone },
    { PTO_ELOST, EXT_DeviceLost },
    { PTO_EBUILD, EXT_BuildError },
    { PTO_ELOAD, EXT_LoadError },
    { PTO_EFORMAT, EXT_LoadError },
    { PTO_ESTALE, EXT_Stale },
    { PTO_ESIGNATURE, EXT_Untrusted },
    { PTO_ECRASH, EXT_Crash },
    { PTO_EKERNEL, EXT_KernelFailed },
    { PTO_EORCH, EXT_OrchestrationFailed },
    { PTO_EOVERRUN, EXT_Overrun },
    { PTO_EUNWRITTEN, EXT_Unwritten },
    { PTO_EACCESS, EXT_UndeclaredAccess },
    { PTO_ENAN, EXT_NotFinite },
    { PTO_EMEMORY, EXT_MemoryMisuse },
    { PTO_EBUSY, EXT_Busy },
    { PTO_EAGAIN, EXT_Busy },
    { PTO_EFORKED, EXT_Forked },
    { PTO_ESYSTEM, EXT_SystemFailure },
    { PTO_ENOSUP, EXT_Unsupported },
};

/* Phrases in the runtime's sentences about C, and their Python forms. Longer ones come first. */
struct word {
    const char *in_c;
    const char *in_python;
};

static const struct word words[] = {
    { "declared to vary with pto_run_options_vary", "named in vary" },
    { "declare it with pto_run_options_vary", "name it in vary" },
    { "pto_run_options_vary", "vary" },
    { "call pto_worker_trace_begin before the runs",
      "have the runs inside of `with Worker.trace`" },
    { "restart it with pto_worker_reopen", "restart it with Worker.reopen" },
    { "pto_worker_reopen", "Worker.reopen" },
    { "pto_worker_alloc", "Worker.empty" },
    { "pto_level_copy", "Level.copy" },
    { "without is_isolated", "without isolated=True" },
    { "without is_virtual", "without virtual=True" },
    { "with is_virtual", "with virtual=True" },
    { "`has_guards`", "guards=True" },
    { "`has_nan_check`", "nan_check=True" },
    { "PTO_TRACE_ARGUMENTS", "trace='arguments'" },
    { NULL, NULL },
};

/* Further phrases, for errors about a line of Python. */
static const struct word orchestration_words[] = {
    { "(pto_tensor_info_fill, pto_set_data)", "(fill= of o.new and o.alloc)" },
    { "(pto_tensor_info_fill)", "(fill= of o.new and o.alloc)" },
    { "NO_DEP (PTO_AFTER)", "pto.After" },
    { "submit it with pto_submit_aic", "set core='aic' in its pto.Kernel" },
    { "submit it with pto_submit_aiv", "set core='aiv' in its pto.Kernel" },
    { "; initialise arguments with pto_args_init", "" },
    { "use pto_cluster_count or pto_aiv_count, or do without sync_start",
      "Device.info has its clusters; use fewer blocks, or do without gang=True" },
    { "pto_alloc_tensors takes", "o.alloc takes" },
    { "an AUTO scope cannot be opened inside a MANUAL one; make the inner one MANUAL too",
      "o.scope() cannot be opened inside of o.scope(manual=True); make the inner one manual, too" },
    { "PTO_MODE_HOST", "mode='host'" },
    { NULL, NULL },
};

/* Replaces phrases in a text of at most `size` bytes. */
static void replace_words(char *text, size_t size, const struct word *list)
{
    for (const struct word *word = list; word->in_c != NULL; word++) {
        size_t before = strlen(word->in_c), after = strlen(word->in_python);
        char *at = strstr(text, word->in_c);

        while (at != NULL && strlen(text) + after - before < size) {
            memmove(at + after, at + before, strlen(at + before) + 1);
            memcpy(at, word->in_python, after);
            at = strstr(at + after, word->in_c);
        }
    }
}

/*
 * Whether the submit is in a Python file: the name of its file does not end like that of a C file.
 */
static bool is_python(const struct pto_site *site)
{
    const char *dot = site->file == NULL ? NULL : strrchr(site->file, '.');

    return site->file != NULL && (dot == NULL || (dot[1] != 'c' && dot[1] != 'h' && dot[1] != 'C'));
}

static int add_class(PyObject *module, const char *name, const char *doc, PyObject *bases,
                     PyObject *fields, PyObject **class_out)
{
    char full[64];

    snprintf(full, sizeof(full), "pto.%s", name);
    *class_out = PyErr_NewExceptionWithDoc(full, doc, bases, fields);
    return *class_out == NULL ? -1 : PyModule_AddObjectRef(module, name, *class_out);
}

/* Makes the bases: pto.Error or a class derived from it, and one of Python's. */
static PyObject *make_bases(const struct ext_state *state, int parent, PyObject *base)
{
    PyObject *first = parent == EXT_Error ? state->error : state->error_class[parent];

    return base != NULL ? PyTuple_Pack(2, first, base) : PyTuple_Pack(1, first);
}

int ext_error_init(PyObject *module, struct ext_state *state)
{
    const struct {
        const char *name;
        int parent; /* value of enum ext_error_class, of an earlier row of this table */
        PyObject *base;
        const char *doc;
    } row[] = {
#define X(name, parent, base, text) { #name, EXT_##parent, base, text },
        EXT_ERROR_MAP(X)
#undef X
    };
    PyObject *fields =
        Py_BuildValue("{s:i,s:s,s:s,s:O,s:O,s:O,s:O,s:O,s:i,s:()}", "status", 0, "name", "", "text",
                      "", "task", Py_None, "kernel", Py_None, "argument", Py_None, "site", Py_None,
                      "rank", Py_None, "level", 2, "path");
    int status =
        fields == NULL ? -1 : add_class(module, "Error", error_doc, NULL, fields, &state->error);

    Py_XDECREF(fields);
    for (int i = 0; status == 0 && i < EXT_ERROR_CLASSES; i++) {
        PyObject *bases = make_bases(state, row[i].parent, row[i].base);

        status = bases == NULL ? -1
                               : add_class(module, row[i].name, row[i].doc, bases, NULL,
                                           &state->error_class[i]);
        Py_XDECREF(bases);
    }
    return status;
}

static const char *status_name(int status)
{
    switch (status) {
#define X(name, value, text) \
    case PTO_##name:         \
        return #name;
        PTO_STATUS_MAP(X)
#undef X
    default:
        return "";
    }
}

static PyObject *class_of(const struct ext_state *state, int status)
{
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        if (classes[i].status == status)
            return state->error_class[classes[i].class];
    return state->error;
}

int ext_set(PyObject *object, const char *name, PyObject *value)
{
    int status = value == NULL ? -1 : PyObject_SetAttrString(object, name, value);

    Py_XDECREF(value);
    return status;
}

static PyObject *number_or_none(int32_t value)
{
    return value < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(value);
}

static int set_fields(PyObject *exception, const struct pto_error *error)
{
    PyObject *task = pto_task_id_is_valid(error->task)
                         ? PyLong_FromUnsignedLongLong(error->task.raw)
                         : Py_NewRef(Py_None);
    PyObject *site = error->site.file != NULL
                         ? Py_BuildValue("(si)", error->site.file, (int)error->site.line)
                         : Py_NewRef(Py_None);

    if (ext_set(exception, "task", task) < 0) {
        Py_XDECREF(site);
        return -1;
    }
    return ext_set(exception, "site", site) < 0 ||
                   ext_set(exception, "kernel", number_or_none(error->kernel)) < 0 ||
                   ext_set(exception, "argument", number_or_none(error->argument)) < 0 ||
                   ext_set(exception, "rank", number_or_none(error->rank)) < 0 ||
                   ext_set(exception, "level", PyLong_FromUnsignedLong(error->level)) < 0
               ? -1
               : 0;
}

PyObject *ext_exception(struct ext_state *state, int status, const struct pto_error *error)
{
    char words_of[PTO_ERROR_TEXT_MAX + 128];
    PyObject *text, *exception;

    snprintf(words_of, sizeof(words_of), "%s",
             error != NULL && error->text[0] != '\0' ? error->text : pto_strerror(status));
    replace_words(words_of, sizeof(words_of), words);
    if (error != NULL && is_python(&error->site))
        replace_words(words_of, sizeof(words_of), orchestration_words);
    text = ext_text(words_of);
    exception =
        text == NULL ? NULL : PyObject_CallFunctionObjArgs(class_of(state, status), text, NULL);

    if (exception != NULL &&
        (PyObject_SetAttrString(exception, "text", text) < 0 ||
         ext_set(exception, "status", PyLong_FromLong(status)) < 0 ||
         ext_set(exception, "name", PyUnicode_FromString(status_name(status))) < 0 ||
         (error != NULL && set_fields(exception, error) < 0)))
        Py_CLEAR(exception);
    Py_XDECREF(text);
    return exception;
}

PyObject *ext_raise(struct ext_state *state, int status, const struct pto_error *error)
{
    PyObject *exception = ext_exception(state, status, error);

    if (exception != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
        Py_DECREF(exception);
    }
    return NULL;
}

PyObject *ext_raise_memory(struct ext_state *state, struct pto_device *device, int status)
{
    struct pto_error error;

    pto_error_init(&error);
    (void)pto_mem_explain(device, &error);
    return ext_raise(state, status, error.status == status ? &error : NULL);
}

PyObject *ext_raise_text(struct ext_state *state, int status, const char *format, ...)
{
    struct pto_error error;
    va_list args;

    pto_error_init(&error);
    va_start(args, format);
    vsnprintf(error.text, sizeof(error.text), format, args);
    va_end(args);
    return ext_raise(state, status, &error);
}
