/* SPDX-License-Identifier: Apache-2.0 */
/* Level-3 workers: opening and closing, memory, and registration. pto/_worker.py builds on it. */
#include "py_worker.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pto/worker_trace.h>

static struct ext_worker *worker_of(PyObject *self)
{
    return (struct ext_worker *)self;
}

struct pto_worker *ext_worker_handle(struct ext_worker *worker)
{
    if (worker->worker == NULL)
        (void)ext_raise_text(worker->state, PTO_EINVAL, "the worker is closed");
    return worker->worker;
}

bool ext_worker_children(struct ext_state *state, PyObject *object, uint64_t *children_out)
{
    PyObject *iterator, *item;
    uint64_t bits = 0;

    *children_out = 0;
    if (object == NULL || object == Py_None)
        return true;
    if (PyLong_Check(object)) {
        long number = PyLong_AsLong(object);

        if (number < 0 || number >= PTO_CHILDREN_MAX) {
            PyErr_Clear();
            (void)ext_raise_text(state, PTO_EINVAL, "children have numbers from 0 to %d",
                                 PTO_CHILDREN_MAX - 1);
            return false;
        }
        *children_out = 1ull << number;
        return true;
    }
    iterator = PyObject_GetIter(object);
    while (iterator != NULL && (item = PyIter_Next(iterator)) != NULL) {
        uint64_t one;
        bool is_number = PyLong_Check(item) && ext_worker_children(state, item, &one);

        Py_DECREF(item);
        if (!is_number) {
            if (!PyErr_Occurred())
                (void)ext_raise_text(state, PTO_EINVAL,
                                     "children must be a number of a child, or several numbers");
            break;
        }
        bits |= one;
    }
    Py_XDECREF(iterator);
    *children_out = bits;
    return !PyErr_Occurred();
}

int ext_worker_numbers(struct ext_state *state, PyObject *list, uint32_t number[PTO_CHILDREN_MAX])
{
    Py_ssize_t count = PySequence_Size(list);

    if (count > PTO_CHILDREN_MAX)
        (void)ext_raise_text(state, PTO_EINVAL, "%zd chips are too many: there can be %d", count,
                             PTO_CHILDREN_MAX);
    for (Py_ssize_t i = 0; i < count && !PyErr_Occurred(); i++) {
        PyObject *item = PySequence_GetItem(list, i);

        if (item != NULL)
            (void)ext_take_u32(item, &number[i]);
        Py_XDECREF(item);
    }
    return PyErr_Occurred() ? -1 : (int)count;
}

/* ---- open and close ---- */

/*
 * Returns the strings of a sequence as a program's arguments; the sequence keeps them alive. NULL
 * with an exception.
 */
static const char **program_of(PyObject *list)
{
    Py_ssize_t count = PySequence_Size(list);
    const char **program = count < 1 ? NULL : calloc((size_t)count + 1, sizeof(*program));

    for (Py_ssize_t i = 0; program != NULL && i < count; i++) {
        PyObject *item = PySequence_GetItem(list, i);

        program[i] = item == NULL ? NULL : PyBytes_AsString(item);
        Py_XDECREF(item);
        if (program[i] == NULL) {
            free(program);
            return NULL;
        }
    }
    if (program == NULL && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "a program has a path");
    return program;
}

/* Nested workers of a worker, in separate memory. */
struct nested {
    struct pto_worker_params params[PTO_CHILDREN_MAX];
    const struct pto_worker_params *list[PTO_CHILDREN_MAX];
};

static void free_nested(const struct pto_worker_params *params)
{
    struct nested *nested = params->nested != NULL ? (struct nested *)(uintptr_t)params->nested[0]
                                                   : NULL; /* first member */

    for (uint64_t i = 0; i < params->nested_count; i++)
        free_nested(params->nested[i]);
    free(nested);
}

/*
 * Reads nested workers from tuples: platform, chips, subs, clusters, threads of each chip, bytes,
 * and nested workers as tuples. The tuples keep the texts; free_nested frees the rest, also after a
 * failure.
 */
static int take_nested(struct ext_state *state, PyObject *tuples, struct pto_worker_params *params)
{
    Py_ssize_t count = PyTuple_Check(tuples) ? PyTuple_Size(tuples) : -1;
    struct nested *nested;

    if (count < 0 || count > PTO_CHILDREN_MAX) {
        (void)ext_raise_text(state, PTO_EINVAL, "there can be %d nested workers", PTO_CHILDREN_MAX);
        return -1;
    }
    nested = count != 0 ? calloc(1, sizeof(*nested)) : NULL;
    if (count != 0 && nested == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        struct pto_worker_params *p = &nested->params[i];
        unsigned long long bytes;
        const char *platform;
        PyObject *below;

        pto_worker_params_init(p);
        nested->list[i] = p;
        params->nested = nested->list;
        params->nested_count = (uint64_t)i + 1;
        if (!PyArg_ParseTuple(PyTuple_GetItem(tuples, i), "zO&O&O&O&O&O", &platform, ext_take_u32,
                              &p->chip_count, ext_take_u32, &p->sub_count, ext_take_u32,
                              &p->clusters, ext_take_u32, &p->chip_workers, ext_take_u64, &bytes,
                              &below) ||
            take_nested(state, below, p) < 0)
            return -1;
        if (platform != NULL)
            p->platform = platform;
        p->memory_max = bytes;
    }
    return 0;
}

static PyObject *worker_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "platform",      "chips",       "subs",       "clusters",
                             "chip_workers",  "memory_max",  "startup_ns", "task_ns",
                             "run_ns",        "control_ns",  "guards",     "deps",
                             "child_program", "sub_program", "devices",    "nested",
                             "edge",          "is_virtual",  "nan_check",  NULL };
    struct ext_state *state = ext_state_of(type);
    struct pto_worker_params params;
    struct pto_error error;
    struct ext_worker *self;
    const char **child_program = NULL, **sub_program = NULL;
    PyObject *child = Py_None, *sub = Py_None, *devices = Py_None, *below = Py_None,
             *edge = Py_None;
    uint32_t device[PTO_CHILDREN_MAX];
    const char *platform = NULL;
    int guards = 0, deps = 0, count = 0, is_virtual = 0, has_nan_check = 0, status;

    pto_worker_params_init(&params);
    if (state == NULL ||
        !PyArg_ParseTupleAndKeywords(
            args, keywords, "|$zO&O&O&O&O&O&O&O&O&piOOOOOpp:_Worker", names, &platform,
            ext_take_u32, &params.chip_count, ext_take_u32, &params.sub_count, ext_take_u32,
            &params.clusters, ext_take_u32, &params.chip_workers, ext_take_u64, &params.memory_max,
            ext_take_u64, &params.startup_timeout_ns, ext_take_u64, &params.task_timeout_ns,
            ext_take_u64, &params.run_timeout_ns, ext_take_u64, &params.control_timeout_ns, &guards,
            &deps, &child, &sub, &devices, &below, &edge, &is_virtual, &has_nan_check) ||
        (below != Py_None && take_nested(state, below, &params) < 0) ||
        (devices != Py_None && (count = ext_worker_numbers(state, devices, device)) < 0) ||
        (child != Py_None && (child_program = program_of(child)) == NULL) ||
        (sub != Py_None && (sub_program = program_of(sub)) == NULL) ||
        (self = worker_of(PyType_GenericAlloc(type, 0))) == NULL) {
        free_nested(&params);
        free(child_program);
        free(sub_program);
        return NULL;
    }
    self->state = state;
    self->process = getpid();
    if (platform != NULL)
        params.platform = platform;
    params.has_guards = guards != 0;
    params.is_virtual = is_virtual != 0;
    params.has_nan_check = has_nan_check != 0;
    params.deps = (enum pto_deps)deps;
    params.child_program = child_program;
    params.sub_program = sub_program;
    if (devices != Py_None) {
        params.devices = device;
        params.chip_count = (uint32_t)count;
    }
    if (edge != Py_None) {
        self->edge = Py_NewRef(edge);
        ext_observe_edges(edge, &params.edge, &params.edge_context);
    }
    params.error = &error;
    pto_error_init(&error);
    Py_BEGIN_ALLOW_THREADS
    status = pto_worker_open(&params, &self->worker);
    Py_END_ALLOW_THREADS
    free_nested(&params);
    free(child_program);
    free(sub_program);
    if (status >= 0)
        status = pto_worker_range(self->worker, &self->addr, &self->bytes);
    if (status >= 0)
        return (PyObject *)self;
    Py_DECREF(self);
    return ext_raise(state, status, &error);
}

/* Closes the worker but keeps its memory. PTO_EBUSY: it has runs, or another thread closes it. */
static int close_worker(struct ext_worker *self)
{
    struct pto_worker *worker = self->worker;
    struct pto_worker_memory *kept = NULL;
    int status;

    if (worker == NULL)
        return PTO_OK;
    ext_worker_sweep(self);
    if (self->runs != NULL)
        return PTO_EBUSY;
    self->worker = NULL;
    Py_BEGIN_ALLOW_THREADS
    status = pto_worker_close_keeping(worker, &kept);
    Py_END_ALLOW_THREADS
    if (status < 0)
        self->worker = worker;
    else
        self->kept = kept;
    return status;
}

static PyObject *worker_close(PyObject *self, PyObject *ignored)
{
    int status = close_worker(worker_of(self));

    (void)ignored;
    return status < 0 ? ext_raise(worker_of(self)->state, status, NULL) : Py_NewRef(Py_None);
}

static void worker_free(PyObject *self)
{
    struct ext_worker *worker = worker_of(self);
    PyTypeObject *type = Py_TYPE(self);

    /* Without references the worker has no runs. A forked process leaves it alone. */
    if (worker->worker != NULL && worker->process == getpid())
        (void)close_worker(worker);
    if (worker->worker == NULL)
        pto_worker_memory_free(worker->kept);
    free(worker->late);
    Py_XDECREF(worker->edge);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* ---- children ---- */

static PyObject *worker_child(PyObject *self, PyObject *number)
{
    static const char *const kinds[] = { "chip", "sub", "worker" };
    struct ext_worker *worker = worker_of(self);
    struct pto_child_info info;
    uint32_t child;
    int status;

    pto_child_info_init(&info);
    if (!ext_take_u32(number, &child) || ext_worker_handle(worker) == NULL)
        return NULL;
    status = pto_worker_child(worker->worker, child, &info);
    if (status < 0)
        return ext_raise(worker->state, status, NULL);
    return Py_BuildValue("{s:s,s:N,s:i,s:I,s:I,s:K,s:I}", "kind", kinds[info.kind], "alive",
                         PyBool_FromLong(info.state == PTO_CHILD_READY), "pid", (int)info.pid,
                         "generation", info.generation, "in_flight", info.in_flight, "tasks",
                         (unsigned long long)info.tasks, "device", info.device);
}

static PyObject *worker_reopen(PyObject *self, PyObject *number)
{
    struct ext_worker *worker = worker_of(self);
    struct pto_error error;
    uint32_t child;
    int status;

    pto_error_init(&error);
    if (!ext_take_u32(number, &child) || ext_worker_handle(worker) == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    status = pto_worker_reopen(worker->worker, child, &error);
    Py_END_ALLOW_THREADS
    return status < 0 ? ext_raise(worker->state, status, &error) : Py_NewRef(Py_None);
}

/* ---- registering ---- */

static bool worker_take_signature(struct ext_state *state, PyObject *names,
                                  struct ext_registered *made)
{
    Py_ssize_t count = PySequence_Size(names);

    if (count < 0 || count > (Py_ssize_t)(sizeof(made->direction) / sizeof(made->direction[0]))) {
        if (count >= 0)
            (void)ext_raise_text(state, PTO_EINVAL, "a signature of %zd arguments is too long",
                                 count);
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(names, i);
        const char *text = item == NULL ? NULL : PyUnicode_AsUTF8AndSize(item, NULL);
        uint32_t direction = 0;

        Py_XDECREF(item); /* the sequence still has a reference to the item */
        if (text == NULL)
            return false;
        while (direction < PTO_DIR_COUNT && strcmp(pto_direction_name(direction), text) != 0)
            direction++;
        if (direction == PTO_DIR_COUNT) {
            (void)ext_raise_text(state, PTO_EINVAL,
                                 "'%.40s' is not a direction; choose in, out, inout or scalar",
                                 text);
            return false;
        }
        made->direction[i] = (enum pto_direction)direction;
    }
    made->signature.direction = made->direction;
    made->signature.count = (uint32_t)count;
    return true;
}

static PyObject *worker_register(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "kind",     "bytes",     "path",  "name",      "symbol",
                             "children", "signature", "below", "arguments", NULL };
    struct ext_worker *worker = worker_of(self);
    struct ext_state *state = worker->state;
    struct pto_worker_callable params;
    struct ext_registered *made;
    struct pto_error error;
    PyObject *children = Py_None, *signature = NULL;
    Py_buffer bytes = { .buf = NULL };
    const char *arguments = NULL;
    uint32_t below = 0;
    int kind = 0, status;

    pto_worker_callable_init(&params);
    pto_error_init(&error);
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$iz*yszOOO&z:register", names, &kind, &bytes,
                                     &params.path, &params.name, &params.symbol, &children,
                                     &signature, ext_take_u32, &below, &arguments))
        return NULL;
    params.is_below = below;
    params.kind = (enum pto_child_kind)kind;
    params.bytes = bytes.buf;
    params.byte_count = (size_t)bytes.len;
    params.error = &error;
    made = (struct ext_registered *)PyType_GenericAlloc(state->registered_type, 0);
    if (made == NULL || ext_worker_handle(worker) == NULL ||
        !ext_worker_children(state, children, &params.children) ||
        (signature != NULL && !worker_take_signature(state, signature, made)))
        goto fail;
    made->name = PyUnicode_FromString(params.name != NULL ? params.name : "callable");
    made->kind = params.kind;
    made->signature.name = made->name == NULL ? NULL : PyUnicode_AsUTF8AndSize(made->name, NULL);
    made->signature.expected = ext_expected_parse(arguments, made->signature.count);
    if (made->signature.name == NULL)
        goto fail;
    Py_BEGIN_ALLOW_THREADS
    status = pto_worker_register(worker->worker, &params, &made->number);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        (void)ext_raise(state, status, &error);
        goto fail;
    }
    made->worker = worker_of(Py_NewRef(self));
    PyBuffer_Release(&bytes);
    return (PyObject *)made;

fail:
    Py_XDECREF((PyObject *)made);
    PyBuffer_Release(&bytes);
    return NULL;
}

static PyObject *worker_unregister(PyObject *self, PyObject *given)
{
    struct ext_worker *worker = worker_of(self);
    struct ext_registered *registered = (struct ext_registered *)given;
    uint64_t number;
    int status;

    if (!Py_IS_TYPE(given, worker->state->registered_type) || registered->worker != worker ||
        registered->number == 0)
        return ext_raise_text(worker->state, PTO_EINVAL, "it is not registered with this worker");
    if (ext_worker_handle(worker) == NULL)
        return NULL;
    number = registered->number;
    registered->number = 0;
    Py_BEGIN_ALLOW_THREADS
    status = pto_worker_unregister(worker->worker, number);
    Py_END_ALLOW_THREADS
    if (status >= 0)
        Py_RETURN_NONE;
    registered->number = number;
    return status == PTO_EBUSY ? ext_raise_text(worker->state, status, "unfinished tasks use it")
                               : ext_raise(worker->state, status, NULL);
}

static void registered_free(PyObject *self)
{
    struct ext_registered *registered = (struct ext_registered *)self;
    PyTypeObject *type = Py_TYPE(self);

    free(registered->signature.expected);
    Py_XDECREF((PyObject *)registered->worker);
    Py_XDECREF(registered->name);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *registered_repr(PyObject *self)
{
    static const char *const kinds[] = { "chips", "SUB workers", "workers" };
    struct ext_registered *registered = (struct ext_registered *)self;

    return PyUnicode_FromFormat("<pto.Registered: %U, for %s%s>", registered->name,
                                kinds[registered->kind],
                                registered->number == 0 ? ", unregistered" : "");
}

static PyObject *get_registered_name(PyObject *self, void *ignored)
{
    (void)ignored;
    return Py_NewRef(((struct ext_registered *)self)->name);
}

static PyObject *get_registered_kind(PyObject *self, void *ignored)
{
    static const char *const kinds[] = { "chip", "sub", "worker" };

    (void)ignored;
    return PyUnicode_FromString(kinds[((struct ext_registered *)self)->kind]);
}

static PyObject *get_registered_number(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromUnsignedLongLong(((struct ext_registered *)self)->number);
}

static PyObject *get_registered_signature(PyObject *self, void *ignored)
{
    struct ext_registered *registered = (struct ext_registered *)self;
    PyObject *tuple = PyTuple_New((Py_ssize_t)registered->signature.count);

    (void)ignored;
    for (uint32_t i = 0; tuple != NULL && i < registered->signature.count; i++) {
        PyObject *name = PyUnicode_FromString(pto_direction_name(registered->direction[i]));

        if (name == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, name) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyGetSetDef registered_fields[] = {
    { "name", get_registered_name, NULL, "its name in messages", NULL },
    { "kind", get_registered_kind, NULL, "'chip', 'sub' or 'worker': the children that have it",
      NULL },
    { "number", get_registered_number, NULL, "its number in the runtime; 0: unregistered", NULL },
    { "signature", get_registered_signature, NULL,
      "directions of its arguments; (): unknown, so tensors are read and written", NULL },
    { NULL, NULL, NULL, NULL, NULL }
};

static PyType_Slot registered_slots[] = {
    { Py_tp_doc, "A callable registered with children of a worker, made by Worker.register." },
    { Py_tp_dealloc, registered_free },
    { Py_tp_repr, registered_repr },
    { Py_tp_getset, registered_fields },
    { 0, NULL },
};

static PyType_Spec registered_spec = {
    .name = "pto.Registered",
    .basicsize = sizeof(struct ext_registered),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = registered_slots,
};

/* ---- memory ---- */

/*
 * Frees memory of the worker. If tasks still use it, free it later (see `late`). Raises no
 * exception.
 */
static void free_block(struct ext_worker *worker, uint64_t addr)
{
    int status = pto_worker_free(worker->worker, (void *)(uintptr_t)addr, NULL);

    if (status != PTO_EBUSY)
        return;
    if (worker->late_count == worker->late_room) {
        size_t room = worker->late_room != 0 ? 2 * worker->late_room : 16;
        uint64_t *grown = realloc(worker->late, room * sizeof(*grown));

        if (grown == NULL)
            return; /* memory ran out, so the address is freed only when the worker is closed */
        worker->late = grown;
        worker->late_room = room;
    }
    worker->late[worker->late_count++] = addr;
}

void ext_worker_free_late(struct ext_worker *worker)
{
    size_t count = worker->late_count;

    if (worker->worker == NULL)
        return;
    worker->late_count = 0; /* free_block adds addresses that are still in use to the list again */
    for (size_t i = 0; i < count; i++)
        free_block(worker, worker->late[i]);
}

static void block_free(PyObject *self)
{
    struct ext_block *block = (struct ext_block *)self;
    PyTypeObject *type = Py_TYPE(self);

    if (block->before != NULL) {
        *block->before = block->next;
        if (block->next != NULL)
            block->next->before = block->before;
    }
    if (block->addr != 0 && block->worker->worker != NULL && block->worker->process == getpid())
        free_block(block->worker, block->addr);
    Py_XDECREF((PyObject *)block->worker);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyType_Slot block_slots[] = {
    { Py_tp_doc, "Memory of a worker." },
    { Py_tp_dealloc, block_free },
    { 0, NULL },
};

static PyType_Spec block_spec = {
    .name = "pto._Block",
    .basicsize = sizeof(struct ext_block),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = block_slots,
};

PyObject *ext_worker_empty(struct ext_worker *worker, PyObject *shape, PyObject *dtype, int chip)
{
    struct ext_state *state = worker->state;
    int code = ext_dtype_code(state, dtype);
    uint32_t shapes[PTO_MAX_DIMS];
    int ndims = code < 0 ? -1 : ext_shape(state, shape, shapes);
    struct ext_block *block;
    struct pto_tensor tensor;
    PyObject *made;
    void *memory = NULL;
    int status;

    if (ndims < 0 || ext_worker_handle(worker) == NULL)
        return NULL;
    ext_worker_free_late(worker);
    tensor = (pto_tensor_external)(NULL, shapes, (uint32_t)ndims, (enum pto_dtype)code);
    if (tensor.ndims == 0)
        return ext_raise_text(state, PTO_EINVAL, "a tensor has 1 to %d dimensions", PTO_MAX_DIMS);
    if (tensor.size == 0)
        return ext_tensor_new(state, &tensor, NULL, false);
    block = (struct ext_block *)PyType_GenericAlloc(state->block_type, 0);
    if (block == NULL)
        return NULL;
    block->worker = worker_of(Py_NewRef((PyObject *)worker));
    status = chip < 0 ? pto_worker_alloc(worker->worker, tensor.size, &memory)
                      : pto_worker_alloc_on(worker->worker, (uint32_t)chip, tensor.size, &memory);
    if (status < 0) {
        Py_DECREF(block);
        if (status == PTO_ENOMEM)
            return ext_raise_text(state, status,
                                  "the worker has no %llu bytes left; raise memory_max",
                                  (unsigned long long)tensor.size);
        return status == PTO_EINVAL ? ext_raise_text(state, status, "child %d is no chip", chip)
                                    : ext_raise(state, status, NULL);
    }
    block->addr = (uint64_t)(uintptr_t)memory;
    block->next = worker->blocks;
    block->before = &worker->blocks;
    if (block->next != NULL)
        block->next->before = &block->next;
    worker->blocks = block;
    tensor = (pto_tensor_external)(memory, shapes, (uint32_t)ndims, (enum pto_dtype)code);
    made = ext_tensor_new(state, &tensor, (PyObject *)block, false);
    Py_DECREF(block);
    return made;
}

static PyObject *worker_empty(PyObject *self, PyObject *args)
{
    PyObject *shape, *dtype;
    int chip = -1;

    if (!PyArg_ParseTuple(args, "OO|i:empty", &shape, &dtype, &chip))
        return NULL;
    return ext_worker_empty(worker_of(self), shape, dtype, chip);
}

static PyObject *worker_free_tensor(PyObject *self, PyObject *object)
{
    struct ext_worker *worker = worker_of(self);
    struct ext_block *block = worker->blocks;
    struct ext_tensor taken;
    struct pto_error error;
    int status;

    pto_error_init(&error);
    if (ext_worker_handle(worker) == NULL || ext_tensor_take(worker->state, object, -1, &taken) < 0)
        return NULL;
    ext_hold_release(&taken.hold);
    while (block != NULL && block->addr != taken.tensor.addr)
        block = block->next;
    status = pto_worker_free(worker->worker, (void *)(uintptr_t)taken.tensor.addr, &error);
    if (block != NULL && status != PTO_EBUSY)
        block->addr = 0;
    return status < 0 ? ext_raise(worker->state, status, &error) : Py_NewRef(Py_None);
}

static bool is_inside(const struct ext_worker *worker, const struct pto_tensor *tensor)
{
    return tensor->addr - worker->addr < worker->bytes;
}

static PyObject *copy_tensors(struct ext_worker *worker, const struct ext_tensor *to,
                              const struct ext_tensor *from, uint64_t timeout_ns)
{
    struct ext_state *state = worker->state;
    uint64_t bytes = pto_tensor_bytes(&from->tensor);
    void *target = pto_tensor_data(&to->tensor);
    const void *source = pto_tensor_data(&from->tensor);
    struct pto_error error;
    int status;

    if (to->is_readonly)
        return ext_raise_text(state, PTO_EINVAL, "the target of the copy is read-only");
    if (bytes != pto_tensor_bytes(&to->tensor) || !to->tensor.is_contiguous ||
        !from->tensor.is_contiguous)
        return ext_raise_text(state, PTO_EINVAL,
                              "a copy is between contiguous tensors of as many "
                              "bytes; in an orchestration views can be copied");
    if (!is_inside(worker, &to->tensor) && !is_inside(worker, &from->tensor))
        return ext_raise_text(state, PTO_EMEMORY, "neither tensor is memory of this worker");
    if (bytes == 0)
        Py_RETURN_NONE;
    pto_error_init(&error);
    Py_BEGIN_ALLOW_THREADS
    if (is_inside(worker, &to->tensor))
        status = pto_worker_copy_to(worker->worker, target, source, bytes, timeout_ns, &error);
    else
        status = pto_worker_copy_from(worker->worker, target, source, bytes, timeout_ns, &error);
    Py_END_ALLOW_THREADS
    return status < 0 ? ext_raise(state, status, &error) : Py_NewRef(Py_None);
}

static PyObject *worker_copy(PyObject *self, PyObject *args)
{
    struct ext_worker *worker = worker_of(self);
    PyObject *to_object, *from_object, *result = NULL;
    struct ext_tensor to, from;
    unsigned long long timeout_ns = 0;

    if (!PyArg_ParseTuple(args, "OO|O&:copy", &to_object, &from_object, ext_take_u64,
                          &timeout_ns) ||
        ext_worker_handle(worker) == NULL || ext_tensor_take(worker->state, to_object, -1, &to) < 0)
        return NULL;
    if (ext_tensor_take(worker->state, from_object, -1, &from) == 0) {
        result = copy_tensors(worker, &to, &from, timeout_ns);
        ext_hold_release(&from.hold);
    }
    ext_hold_release(&to.hold);
    return result;
}

/* ---- runs ---- */

static PyObject *worker_launch(PyObject *self, PyObject *const *objects, Py_ssize_t count)
{
    struct ext_worker *worker = worker_of(self);

    if (count != 5 || !PyType_Check(objects[0]) || !PyTuple_Check(objects[2]) ||
        !PyType_IsSubtype((PyTypeObject *)objects[0], worker->state->level_type))
        return ext_raise_text(
            worker->state, PTO_EINVAL,
            "launch gets a class of levels, a function, a tuple, a dict and a bool");
    return ext_worker_launch(worker, (PyTypeObject *)objects[0], objects[1], objects[2], objects[3],
                             objects[4] == Py_True);
}

static PyObject *worker_runs(PyObject *self, PyObject *ignored)
{
    PyObject *list = PyList_New(0);

    (void)ignored;
    ext_worker_sweep(worker_of(self));
    for (struct ext_worker_run *run = worker_of(self)->runs; list != NULL && run != NULL;
         run = run->next)
        if (PyList_Append(list, (PyObject *)run) < 0)
            Py_CLEAR(list);
    return list;
}

static PyObject *worker_trace_begin(PyObject *self, PyObject *level)
{
    struct ext_worker *worker = worker_of(self);
    long chips = PyLong_AsLong(level);
    int status;

    if (PyErr_Occurred() || ext_worker_handle(worker) == NULL)
        return NULL;
    ext_worker_sweep(worker);
    status = pto_worker_trace_begin(worker->worker, (enum pto_trace)chips);
    return status < 0 ? ext_raise(worker->state, status, NULL) : Py_NewRef(Py_None);
}

static PyObject *worker_trace_write(PyObject *self, PyObject *given)
{
    struct ext_worker *worker = worker_of(self);
    struct pto_error error;
    PyObject *path;
    int status;

    pto_error_init(&error);
    if (ext_worker_handle(worker) == NULL || !PyUnicode_FSConverter(given, &path))
        return NULL;
    ext_worker_sweep(worker);
    Py_BEGIN_ALLOW_THREADS
    status = pto_worker_trace_write(worker->worker, PyBytes_AsString(path), &error);
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    return status < 0 ? ext_raise(worker->state, status, &error) : Py_NewRef(Py_None);
}

static PyObject *worker_get_closed(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(worker_of(self)->worker == NULL);
}

static PyObject *get_process(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromLong(worker_of(self)->process);
}

static PyGetSetDef worker_fields[] = {
    { "is_closed", worker_get_closed, NULL, "it was closed", NULL },
    { "process", get_process, NULL, "the process that opened it", NULL },
    { NULL, NULL, NULL, NULL, NULL }
};

static PyMethodDef worker_methods[] = {
    { "close", worker_close, METH_NOARGS, NULL },
    { "child", worker_child, METH_O, NULL },
    { "reopen", worker_reopen, METH_O, NULL },
    { "register", EXT_WITH_KEYWORDS(worker_register), METH_VARARGS | METH_KEYWORDS, NULL },
    { "unregister", worker_unregister, METH_O, NULL },
    { "empty", worker_empty, METH_VARARGS, NULL },
    { "free", worker_free_tensor, METH_O, NULL },
    { "copy", worker_copy, METH_VARARGS, NULL },
    { "launch", EXT_WITH_KEYWORDS(worker_launch), METH_FASTCALL, NULL },
    { "runs", worker_runs, METH_NOARGS, NULL },
    { "trace_begin", worker_trace_begin, METH_O, NULL },
    { "trace_write", worker_trace_write, METH_O, NULL },
    { "set_costs", EXT_WITH_KEYWORDS(ext_worker_set_costs), METH_VARARGS | METH_KEYWORDS, NULL },
    { "virtual_report", ext_worker_virtual_report, METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL }
};

static PyType_Slot worker_slots[] = {
    { Py_tp_doc, "A worker of level 3 as C has it; use pto.Worker." },
    { Py_tp_new, worker_new },
    { Py_tp_dealloc, worker_free },
    { Py_tp_getset, worker_fields },
    { Py_tp_methods, worker_methods },
    { 0, NULL },
};

static PyType_Spec worker_spec = {
    .name = "pto._Worker",
    .basicsize = sizeof(struct ext_worker),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = worker_slots,
};

int ext_worker_init(PyObject *module, struct ext_state *state)
{
    return ext_add_type(module, &worker_spec, &state->worker_type) < 0 ||
                   ext_add_type(module, &block_spec, &state->block_type) < 0 ||
                   ext_add_type(module, &registered_spec, &state->registered_type) < 0 ||
                   ext_worker_run_init(module, state) < 0 || ext_level_init(module, state) < 0 ||
                   ext_child_init(module) < 0 || ext_talk_init(module) < 0 ||
                   ext_comm_init(module) < 0
               ? -1
               : 0;
}
