/* SPDX-License-Identifier: Apache-2.0 */
/* pto.Graph: built once, launched many times with different tensors and scalars. */
#include "py_ext.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ext_graph *graph_of(PyObject *self)
{
    return (struct ext_graph *)self;
}

/*
 * Keeps the tensors of the build for messages of later launches. If memory runs out, these messages
 * are shorter.
 */
static void keep_built(struct ext_graph *graph, const struct ext_args *args)
{
    size_t bytes = args->tensor_count * sizeof(*graph->built);

    graph->built = bytes == 0 ? NULL : aligned_alloc(_Alignof(struct pto_tensor), bytes);
    if (graph->built == NULL)
        return;
    memcpy(graph->built, args->tensor, bytes);
    graph->built_count = args->tensor_count;
}

static void describe_tensor(const struct pto_tensor *t, char *text, size_t size)
{
    int used = snprintf(text, size, "%s[", pto_dtype_text(t->dtype));

    for (uint32_t d = 0; d < t->ndims && (size_t)used < size; d++)
        used += snprintf(text + used, size - (size_t)used, "%s%u", d == 0 ? "" : ",", t->shapes[d]);
    if ((size_t)used < size)
        snprintf(text + used, size - (size_t)used, "]");
}

int ext_graph_check(const struct ext_graph *graph, const struct ext_args *args)
{
    for (uint32_t i = 0; i < args->tensor_count && i < graph->built_count; i++) {
        const struct pto_tensor *now = &args->tensor[i], *built = &graph->built[i];
        char is[100], was[100];

        if (now->dtype == built->dtype && now->ndims == built->ndims &&
            memcmp(now->shapes, built->shapes, now->ndims * sizeof(now->shapes[0])) == 0)
            continue;
        describe_tensor(now, is, sizeof(is));
        describe_tensor(built, was, sizeof(was));
        (void)ext_raise_text(graph->state, PTO_EGRAPH,
                             "tensor %u of the launch is %s, and the graph was built with %s; "
                             "convert it, or build a graph for each",
                             i, is, was);
        return -1;
    }
    return 0;
}

PyObject *ext_graph_build(struct ext_device *device, PyObject *callable, PyObject *const *objects,
                          Py_ssize_t count, PyObject *names)
{
    struct ext_state *state = device->state;
    struct ext_callable *c = (struct ext_callable *)callable;
    struct ext_launch launch;
    struct ext_args args;
    struct pto_entry entry;
    struct ext_graph *self = (struct ext_graph *)PyType_GenericAlloc(state->graph_type, 0);
    int status = -1;

    if (self == NULL)
        return NULL;
    self->state = state;
    self->report = ext_report_new(state);
    if (ext_launch_begin(&launch, device, callable, &args) == 0 && self->report != NULL &&
        ext_args_take(state, &args, objects, count, &c->signature) == 0 &&
        ext_options_take(state, names, objects + count, &launch.options) == 0) {
        entry =
            (struct pto_entry){ args.tensor_count, args.scalar_count, args.tensor, args.scalar };
        Py_BEGIN_ALLOW_THREADS
        status = pto_graph_build(device->device, c->callable, &entry, &launch.options,
                                 ext_report_of(self->report), &self->graph);
        Py_END_ALLOW_THREADS
        if (status < 0)
            (void)ext_raise(state, status, &ext_report_of(self->report)->error);
    }
    if (status < 0) {
        ext_args_release(&args);
        Py_DECREF((PyObject *)self);
        return NULL;
    }
    keep_built(self, &args);
    ext_args_release(&args);
    self->device = (struct ext_device *)Py_NewRef((PyObject *)device);
    self->callable = (struct ext_callable *)Py_NewRef((PyObject *)callable);
    self->next = device->graphs;
    self->before = &device->graphs;
    if (self->next != NULL)
        self->next->before = &self->next;
    device->graphs = self;
    return (PyObject *)self;
}

int ext_graph_close(struct ext_graph *graph)
{
    int status = graph->graph == NULL ? PTO_OK : pto_graph_destroy(graph->graph);

    if (status == PTO_EBUSY || graph->graph == NULL)
        return status;
    graph->graph = NULL;
    *graph->before = graph->next;
    if (graph->next != NULL)
        graph->next->before = graph->before;
    return status;
}

/*
 * Launches a graph. A Python orchestration converts the arguments of its function to those of the
 * callable.
 */
static PyObject *launch(ext_use_fn use, PyObject *self, PyObject *const *objects, Py_ssize_t count,
                        PyObject *names)
{
    struct ext_graph *graph = graph_of(self);
    PyObject *list, *made, *result = NULL;

    if (graph->bind == NULL)
        return use(graph->device, self, objects, count, names);
    list = PyTuple_New(count);
    for (Py_ssize_t i = 0; list != NULL && i < count; i++)
        (void)PyTuple_SetItem(list, i, Py_NewRef(objects[i]));
    made = list == NULL ? NULL : PyObject_CallObject(graph->bind, list);
    Py_XDECREF(list);
    if (made != NULL && !PyTuple_Check(made))
        PyErr_SetString(PyExc_TypeError, "the arguments of a launch are a tuple");
    else if (made != NULL)
        result = ext_use_made(use, graph->device, self, made, objects + count, names);
    Py_XDECREF(made);
    return result;
}

static PyObject *graph_run(PyObject *self, PyObject *const *objects, Py_ssize_t count,
                           PyObject *names)
{
    return launch(ext_launch_run, self, objects, count, names);
}

static PyObject *graph_submit(PyObject *self, PyObject *const *objects, Py_ssize_t count,
                              PyObject *names)
{
    return launch(ext_run_submit, self, objects, count, names);
}

static PyObject *graph_close(PyObject *self, PyObject *ignored)
{
    int status = ext_graph_close(graph_of(self));

    (void)ignored;
    if (status < 0 && status != PTO_EFORKED)
        return ext_raise(graph_of(self)->state, status, NULL);
    Py_RETURN_NONE;
}

static PyObject *graph_enter(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return Py_NewRef(self);
}

static PyObject *get_report(PyObject *self, void *ignored)
{
    (void)ignored;
    return Py_NewRef(graph_of(self)->report);
}

static PyObject *get_callable(PyObject *self, void *ignored)
{
    (void)ignored;
    return Py_NewRef((PyObject *)graph_of(self)->callable);
}

static int graph_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(graph_of(self)->device);
    Py_VISIT(graph_of(self)->callable);
    Py_VISIT(graph_of(self)->bind);
    return 0;
}

/* Breaks reference cycles, because an orchestration may refer to the graph that it built. */
static int graph_clear(PyObject *self)
{
    Py_CLEAR(graph_of(self)->bind);
    return 0;
}

static void graph_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    (void)ext_graph_close(graph_of(self));
    free(graph_of(self)->built);
    Py_CLEAR(graph_of(self)->report);
    Py_CLEAR(graph_of(self)->bind);
    Py_CLEAR(graph_of(self)->callable);
    Py_CLEAR(graph_of(self)->device);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyObject *graph_repr(PyObject *self)
{
    struct ext_graph *graph = graph_of(self);
    struct pto_callable_info info;

    pto_callable_info_init(&info);
    (void)pto_callable_info(graph->callable->callable, &info);
    return PyUnicode_FromFormat("<pto.Graph: %s, %llu tasks%s>",
                                info.name != NULL ? info.name : "of a callable",
                                (unsigned long long)ext_report_of(graph->report)->tasks,
                                graph->graph == NULL ? ", closed" : "");
}

static PyObject *graph_html(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return ext_call_package("pto._html", "graph", self);
}

static PyGetSetDef graph_fields[] = {
    { "report", get_report, NULL, "report of the build: tasks, edges, time", NULL },
    { "callable", get_callable, NULL, "the callable that it was built from", NULL },
    { NULL, NULL, NULL, NULL, NULL }
};

static PyMethodDef graph_methods[] = {
    { "run", EXT_WITH_KEYWORDS(graph_run), METH_FASTCALL | METH_KEYWORDS,
      "run($self, *args, **options)\n--\n\nLaunches it with these tensors and scalars, waits, and "
      "returns a pto.Report.\nShapes, overlaps and scalars that do not vary must be those of the "
      "build." },
    { "submit", EXT_WITH_KEYWORDS(graph_submit), METH_FASTCALL | METH_KEYWORDS,
      "submit($self, *args, **options)\n--\n\nLaunches it without waiting, and returns a pto.Run. "
      "One launch at a time." },
    { "close", graph_close, METH_NOARGS,
      "close($self)\n--\n\nFrees it; closing its device does, too." },
    { "_repr_html_", graph_html, METH_NOARGS, NULL },
    { "__enter__", graph_enter, METH_NOARGS, NULL },
    { "__exit__", graph_close, METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL }
};

static PyType_Slot graph_slots[] = {
    { Py_tp_doc, "A graph that is built once and launched many times: made by Device.graph." },
    { Py_tp_dealloc, graph_free },
    { Py_tp_traverse, graph_traverse },
    { Py_tp_clear, graph_clear },
    { Py_tp_repr, graph_repr },
    { Py_tp_getset, graph_fields },
    { Py_tp_methods, graph_methods },
    { 0, NULL },
};

static PyType_Spec graph_spec = {
    .name = "pto.Graph",
    .basicsize = sizeof(struct ext_graph),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = graph_slots,
};

int ext_graph_init(PyObject *module, struct ext_state *state)
{
    return ext_add_type(module, &graph_spec, &state->graph_type);
}
