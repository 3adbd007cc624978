/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tool chain. A build runs on its own thread, so that the caller's thread can deliver events to
 * Python and check for signals: Ctrl-C ends the compilers.
 */
#include "py_ext.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pto/build.h>

enum { SLICE_NS = 50000000 };

struct event {
    struct event *next;
    enum pto_build_event_kind kind;
    uint32_t done;
    uint32_t total;
    /* path of the source; NULL: no source. The texts of a request follow the struct in memory */
    char *source;
    char *text;
};

struct build {
    struct pto_build_params params;
    struct pto_source *sources;
    const char **words; /* include folders and flags of all sources */
    enum pto_direction signature[PTO_ENTRY_TENSORS_MAX + PTO_ENTRY_SCALARS_MAX];
    bool is_object; /* build one object instead of an artefact */
    /* Protected by the lock: */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct event *events;
    struct event **events_end;
    bool is_stopped;
    bool is_over;
    /* Results: */
    int status;
    void *bytes;
    size_t size;
    struct pto_error error;
    PyObject *output; /* list of compiler outputs */
};

/* ---- functions of the thread that builds ---- */

static void note_event(void *context, const struct pto_build_event *from)
{
    struct build *build = context;
    size_t source = from->source == NULL ? 0 : strlen(from->source) + 1;
    size_t text = from->text == NULL ? 0 : strlen(from->text) + 1;
    struct event *event = malloc(sizeof(*event) + source + text);

    if (event == NULL)
        return; /* a notice */
    *event = (struct event){ NULL, from->kind, from->done, from->total, NULL, NULL };
    if (source != 0)
        event->source = memcpy((char *)(event + 1), from->source, source);
    if (text != 0)
        event->text = memcpy((char *)(event + 1) + source, from->text, text);
    pthread_mutex_lock(&build->lock);
    *build->events_end = event;
    build->events_end = &event->next;
    pthread_cond_signal(&build->changed);
    pthread_mutex_unlock(&build->lock);
}

static bool is_stopped(void *context)
{
    struct build *build = context;
    bool answer;

    pthread_mutex_lock(&build->lock);
    answer = build->is_stopped;
    pthread_mutex_unlock(&build->lock);
    return answer;
}

static void *build_main(void *arg)
{
    struct build *build = arg;
    int status = build->is_object
                     ? pto_compile(&build->params, build->sources, &build->bytes, &build->size,
                                   &build->error)
                     : pto_build(&build->params, &build->bytes, &build->size, &build->error);

    pthread_mutex_lock(&build->lock);
    build->status = status;
    build->is_over = true;
    pthread_cond_signal(&build->changed);
    pthread_mutex_unlock(&build->lock);
    return NULL;
}

/* ---- functions of the caller's thread ---- */

static struct event *await_events(struct build *build, bool *is_over_out)
{
    struct timespec until;
    struct event *events;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += SLICE_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&build->lock);
    if (!build->is_over && build->events == NULL)
        (void)pthread_cond_timedwait(&build->changed, &build->lock, &until);
    events = build->events;
    build->events = NULL;
    build->events_end = &build->events;
    *is_over_out = build->is_over;
    pthread_mutex_unlock(&build->lock);
    return events;
}

static int build_report_event(struct build *build, const struct event *event, PyObject *function)
{
    static const char *const kinds[] = { "compiler", "compiling", "compiled", "reused",
                                         "output",   "warning",   "note",     "command" };
    PyObject *text = ext_text(event->text), *result = NULL;
    int status = text == NULL ? -1 : 0;

    if (status == 0 && event->kind == PTO_BUILD_OUTPUT)
        status = PyList_Append(build->output, text);
    if (status == 0 && function != Py_None) {
        PyObject *source = ext_text(event->source);

        result = source == NULL ? NULL
                                : PyObject_CallFunction(function, "sNOII", kinds[event->kind],
                                                        source, text, event->done, event->total);
        status = result == NULL ? -1 : 0;
    }
    Py_XDECREF(result);
    Py_XDECREF(text);
    return status;
}

static void stop(struct build *build)
{
    pthread_mutex_lock(&build->lock);
    build->is_stopped = true;
    pthread_mutex_unlock(&build->lock);
}

/* Runs the build to its end. -1: Python raised an exception, and the build was cancelled. */
static int run_to_end(struct build *build, PyObject *function)
{
    PyObject *type = NULL, *value = NULL, *traceback = NULL;
    bool is_over = false;
    pthread_t thread;

    if (pthread_create(&thread, NULL, build_main, build) != 0) {
        (void)PyErr_NoMemory();
        return -1;
    }
    while (!is_over) {
        struct event *events;

        Py_BEGIN_ALLOW_THREADS
        events = await_events(build, &is_over);
        Py_END_ALLOW_THREADS
        while (events != NULL) {
            struct event *next = events->next;

            if (type == NULL && build_report_event(build, events, function) < 0)
                PyErr_Fetch(&type, &value, &traceback);
            free(events);
            events = next;
        }
        if (type == NULL && PyErr_CheckSignals() < 0)
            PyErr_Fetch(&type, &value, &traceback);
        if (type != NULL)
            stop(build);
    }
    (void)pthread_join(thread, NULL);
    if (type == NULL)
        return 0;
    PyErr_Restore(type, value, traceback);
    return -1;
}

/*
 * Copies the texts of a tuple to *word and advances it. Returns the number of texts, or -1 with an
 * exception.
 */
static Py_ssize_t take_words(PyObject *tuple, const char ***word)
{
    Py_ssize_t count = PyTuple_Size(tuple);

    for (Py_ssize_t i = 0; i < count; i++) {
        *(*word)++ = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(tuple, i), NULL);
        if ((*word)[-1] == NULL)
            return -1;
    }
    return count;
}

static int take_sources(struct build *build, PyObject *sources)
{
    Py_ssize_t count = PyTuple_Size(sources);
    const char **word = build->words;

    for (Py_ssize_t i = 0; i < count; i++) {
        struct pto_source *source = &build->sources[i];
        PyObject *folders, *flags;
        int kind, core;

        memset(source, 0, sizeof(*source));
        if (!PyArg_ParseTuple(PyTuple_GetItem(sources, i), "siO&izO!O!", &source->path, &kind,
                              ext_take_u32, &source->func_id, &core, &source->name, &PyTuple_Type,
                              &folders, &PyTuple_Type, &flags))
            return -1;
        source->kind = (enum pto_source_kind)kind;
        source->core = (enum pto_core_type)core;
        source->include_dirs = word;
        source->include_dir_count = (uint32_t)take_words(folders, &word);
        source->flags = word;
        source->flag_count = (uint32_t)take_words(flags, &word);
        if (PyErr_Occurred())
            return -1;
    }
    build->params.sources = build->sources;
    build->params.source_count = (uint32_t)count;
    return 0;
}

/* Allocates room for all words of the sources. */
static int make_room(struct build *build, PyObject *sources)
{
    Py_ssize_t count = PyTuple_Size(sources), words = 0;

    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *source = PyTuple_GetItem(sources, i);

        for (Py_ssize_t j = 5; PyTuple_Check(source) && j < PyTuple_Size(source); j++)
            words += PyTuple_Check(PyTuple_GetItem(source, j))
                         ? PyTuple_Size(PyTuple_GetItem(source, j))
                         : 0;
    }
    build->sources = malloc(((size_t)count + 1) * sizeof(*build->sources));
    build->words = malloc(((size_t)words + 1) * sizeof(*build->words));
    if (build->sources != NULL && build->words != NULL)
        return 0;
    (void)PyErr_NoMemory();
    return -1;
}

static int build_take_signature(struct ext_state *state, struct build *build, PyObject *signature)
{
    static const char *const names[] = {
#define X(name, text) text,
        PTO_DIRECTION_MAP(X)
#undef X
            NULL
    };
    Py_ssize_t count = signature == Py_None ? 0 : PyTuple_Size(signature);

    if (count > (Py_ssize_t)(sizeof(build->signature) / sizeof(build->signature[0]))) {
        (void)ext_raise_text(state, PTO_EINVAL, "a signature has at most %d tensors and %d scalars",
                             PTO_ENTRY_TENSORS_MAX, PTO_ENTRY_SCALARS_MAX);
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        int direction =
            ext_choice(state, "each entry of a signature", PyTuple_GetItem(signature, i), names);

        if (direction < 0)
            return -1;
        build->signature[i] = (enum pto_direction)direction;
    }
    build->params.signature = count == 0 ? NULL : build->signature;
    build->params.signature_count = (uint32_t)count;
    return count < 0 ? -1 : 0;
}

/* Makes tracebacks show the output: as a note, or before Python 3.11 as a part of the message. */
static int show_output(PyObject *exception, PyObject *output)
{
    PyObject *made, *args;
    int status;

    if (PyUnicode_GetLength(output) == 0)
        return 0;
    if (PyObject_HasAttrString(exception, "add_note")) {
        made = PyObject_CallMethod(exception, "add_note", "O", output);
        Py_XDECREF(made);
        return made == NULL ? -1 : 0;
    }
    made = PyUnicode_FromFormat("%S\n%U", exception, output);
    args = made == NULL ? NULL : PyTuple_Pack(1, made);
    status = args == NULL ? -1 : PyObject_SetAttrString(exception, "args", args);
    Py_XDECREF(args);
    Py_XDECREF(made);
    return status;
}

/* Returns the artefact, or raises the error with the output of the compilers. */
static PyObject *result_of(struct ext_state *state, struct build *build)
{
    PyObject *exception, *output, *empty;

    if (build->status >= 0)
        return PyBytes_FromStringAndSize(build->bytes, (Py_ssize_t)build->size);
    exception = ext_exception(state, build->status, &build->error);
    empty = exception == NULL ? NULL : PyUnicode_FromString("");
    output = empty == NULL ? NULL : PyUnicode_Join(empty, build->output);
    if (output != NULL && PyObject_SetAttrString(exception, "output", output) == 0 &&
        show_output(exception, output) == 0)
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_XDECREF(output);
    Py_XDECREF(empty);
    Py_XDECREF(exception);
    return NULL;
}

static PyObject *module_build(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "sources",   "name",      "platform",    "mode",      "entry",
                             "config",    "signature", "isa",         "isa_pin",   "store",
                             "jobs",      "forced",    "explained",   "arguments", "event",
                             "is_object", "accesses",  "isa_overlay", NULL };
    struct ext_state *state = PyModule_GetState(module);
    struct build build = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
    struct pto_build_params *p = &build.params;
    PyObject *sources, *signature = Py_None, *mode = Py_None, *event = Py_None, *result = NULL;
    int forced = 0, explained = 0, is_object = 0, accesses = 0, chosen = PTO_MODE_STREAM;
    const char *platform = NULL;

    pto_build_params_init(p);
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O!|zzOzzOzzzO&ppzOppz:_build", names,
                                     &PyTuple_Type, &sources, &p->name, &platform, &mode, &p->entry,
                                     &p->config, &signature, &p->isa, &p->isa_pin, &p->store,
                                     ext_take_u32, &p->jobs, &forced, &explained, &p->arguments,
                                     &event, &is_object, &accesses, &p->isa_overlay) ||
        (mode != Py_None && (chosen = ext_mode(state, mode)) < 0))
        return NULL;
    if (platform != NULL)
        p->platform = platform;
    p->mode = (enum pto_mode)chosen;
    p->is_forced = forced != 0;
    p->has_accesses = accesses != 0;
    p->is_explained = explained != 0;
    p->event = note_event;
    p->stop = is_stopped;
    p->context = &build;
    build.is_object = is_object != 0;
    build.events_end = &build.events;
    pto_error_init(&build.error);
    build.output = PyList_New(0);
    if (build.output != NULL && make_room(&build, sources) == 0 &&
        take_sources(&build, sources) == 0 && build_take_signature(state, &build, signature) == 0 &&
        run_to_end(&build, event) == 0)
        result = result_of(state, &build);
    free(build.bytes);
    free(build.sources);
    free(build.words);
    Py_XDECREF(build.output);
    return result;
}

static PyObject *module_write_file(PyObject *module, PyObject *args)
{
    struct pto_error error;
    Py_buffer bytes;
    PyObject *path;
    int status;

    pto_error_init(&error);
    if (!PyArg_ParseTuple(args, "O&y*:write_file", PyUnicode_FSConverter, &path, &bytes))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = pto_file_write(PyBytes_AsString(path), bytes.buf, (size_t)bytes.len, &error);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&bytes);
    Py_DECREF(path);
    return status < 0 ? ext_raise(PyModule_GetState(module), status, &error) : Py_NewRef(Py_None);
}

static PyMethodDef functions[] = {
    { "_build", EXT_WITH_KEYWORDS(module_build), METH_VARARGS | METH_KEYWORDS, NULL },
    { "write_file", module_write_file, METH_VARARGS,
      "write_file(path, bytes, /)\n--\n\nWrites a file, such as an artefact, atomically. A link of "
      "another user is\nnot followed." },
    { NULL, NULL, 0, NULL },
};

int ext_build_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
