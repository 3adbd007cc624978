/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Submits of a level-3 orchestration. Tensors in the worker's memory are passed as they are. Other
 * memory of the program is staged: copied when a task of the run first uses it, and copied back
 * when the run has succeeded and is settled.
 */
#include "py_worker.h"

#include <pto/level.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An output that the runtime allocates: pto.New. */
struct fresh {
    PyObject_HEAD unsigned char
        info[sizeof(struct pto_tensor_info)]; /* Python aligns objects to 16 bytes */
};

struct task {
    PyObject_HEAD struct pto_task_id id;
    PyObject *outputs; /* a tuple; NULL: none */
};

static struct ext_level *level_of(PyObject *self)
{
    return (struct ext_level *)self;
}

/* ---- places of submits ---- */

enum { SITES = 1 << 13 };

/*
 * Table of source lines, protected by the interpreter's lock. Entries are never freed, because
 * reports and timelines refer to them.
 */
static struct site {
    struct pto_site site;
    PyObject *file;
} * sites[SITES];
static uint32_t site_count;

const struct pto_site *ext_site_here(void)
{
    PyFrameObject *frame = PyEval_GetFrame();
    PyObject *code = frame == NULL ? NULL : (PyObject *)PyFrame_GetCode(frame);
    PyObject *file = code == NULL ? NULL : PyObject_GetAttrString(code, "co_filename");
    int32_t line = frame == NULL ? 0 : PyFrame_GetLineNumber(frame);
    uint64_t at = ((uint64_t)(uintptr_t)file >> 4) * 31 + (uint64_t)line * 2654435761u;
    const char *text;
    struct site *made;

    Py_XDECREF(code);
    if (file == NULL) {
        PyErr_Clear();
        return NULL;
    }
    for (; sites[at % SITES] != NULL; at++)
        if (sites[at % SITES]->file == file && sites[at % SITES]->site.line == line) {
            Py_DECREF(file);
            return &sites[at % SITES]->site;
        }
    text = site_count < SITES / 2 ? PyUnicode_AsUTF8AndSize(file, NULL) : NULL;
    made = text == NULL ? NULL : malloc(sizeof(*made));
    if (made == NULL) {
        PyErr_Clear();
        Py_DECREF(file);
        return NULL;
    }
    made->site = (struct pto_site){ strdup(text), line };
    made->file = file; /* keep the reference, so that no other file object gets this address */
    sites[at % SITES] = made;
    site_count++;
    return &made->site;
}

/* ---- staging ---- */

/* Copies the elements of a tensor between its own memory and the stage. */
static void copy_back(const struct pto_tensor *t, const struct ext_stage *stage)
{
    uint64_t size = pto_dtype_size(t->dtype);
    uint64_t shift = (uint64_t)(uintptr_t)stage->memory - stage->addr;
    uint32_t last = t->ndims - 1;
    uint64_t row = t->strides[last] == 1 ? t->shapes[last] : 1; /* contiguous elements */
    /* number of dimensions over which `index` counts */
    uint32_t inner = t->strides[last] == 1 ? last : t->ndims;
    uint32_t index[PTO_MAX_DIMS] = { 0 };
    char *to = pto_tensor_data(t);

    if (pto_tensor_numel(t) == 0)
        return;
    if (t->is_contiguous) {
        memcpy(to, to + shift, pto_tensor_bytes(t));
        return;
    }
    for (;;) {
        uint64_t at = 0;
        uint32_t d = inner;

        for (uint32_t i = 0; i < inner; i++)
            at += (uint64_t)index[i] * t->strides[i];
        memcpy(to + at * size, to + at * size + shift, row * size);
        while (d-- > 0 && ++index[d] == t->shapes[d])
            index[d] = 0;
        if (d == UINT32_MAX)
            return;
    }
}

void ext_stage_end(struct ext_worker_run *run, bool succeeded)
{
    struct ext_written *written = run->written;
    struct ext_stage *stage = run->stages;

    run->written = NULL;
    run->stages = NULL;
    while (written != NULL) {
        struct ext_written *next = written->next;

        if (succeeded)
            copy_back(&written->tensor, written->stage);
        ext_hold_release(&written->hold);
        free(written);
        written = next;
    }
    while (stage != NULL) {
        struct ext_stage *next = stage->next;

        if (run->worker->worker != NULL)
            (void)pto_worker_free(run->worker->worker, stage->memory, NULL);
        free(stage);
        stage = next;
    }
}

static struct ext_stage *find_stage(struct ext_level *level, const struct pto_tensor *t,
                                    Py_ssize_t at)
{
    struct ext_worker *worker = level->worker;
    struct ext_stage *stage;
    void *memory = NULL;
    int status;

    for (stage = level->run->stages; stage != NULL; stage = stage->next) {
        if (t->addr >= stage->addr && t->addr + t->size <= stage->addr + stage->bytes)
            return stage;
        if (t->addr < stage->addr + stage->bytes && stage->addr < t->addr + t->size) {
            (void)ext_raise_text(level->state, PTO_EINVAL,
                                 "argument %zd overlaps with memory that an earlier task of this "
                                 "run got a part of; pass the whole to the first one, or allocate "
                                 "it with Worker.empty",
                                 at);
            return NULL;
        }
    }
    stage = malloc(sizeof(*stage));
    status = stage == NULL ? PTO_ENOMEM : pto_worker_alloc(worker->worker, t->size, &memory);
    if (status < 0) {
        free(stage);
        (void)ext_raise_text(level->state, status,
                             "out of memory for a copy of the %llu bytes of argument %zd",
                             (unsigned long long)t->size, at);
        return NULL;
    }
    memcpy(memory, (const void *)(uintptr_t)t->addr, t->size);
    *stage = (struct ext_stage){ t->addr, t->size, memory, level->run->stages };
    level->run->stages = stage;
    return stage;
}

/* Replaces the memory of a tensor by its stage. A tensor that is written keeps its owner. */
static int stage_tensor(struct ext_level *level, struct pto_tensor *t, struct ext_hold *hold,
                        bool is_written, Py_ssize_t at)
{
    struct ext_stage *stage = find_stage(level, t, at);
    struct ext_written *written;

    if (stage == NULL)
        return -1;
    if (is_written) {
        written = aligned_alloc(64, (sizeof(*written) + 63) / 64 * 64);
        if (written == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        written->tensor = *t;
        written->stage = stage;
        written->hold = *hold;
        written->next = level->run->written;
        level->run->written = written;
        hold->kind = EXT_HOLD_NOTHING; /* ownership moved */
    }
    t->addr = t->addr - stage->addr + (uint64_t)(uintptr_t)stage->memory;
    return 0;
}

/* ---- arguments ---- */

/* The arguments of one task during a submit. */
struct load {
    struct ext_args taken;
    struct pto_args args;
    uint32_t count; /* number of tensors: those of `taken`, in order, and new outputs */
    uint8_t tag[PTO_TASK_TENSORS_MAX];
    /* descriptions of outputs that the runtime allocates */
    struct pto_tensor_info fresh[PTO_TASK_TENSORS_MAX];
    struct pto_task_id *deps; /* or NULL */
};

static void release_load(struct load *load)
{
    ext_args_release(&load->taken);
    free(load->deps);
}

static enum pto_tag tag_of(enum pto_direction direction)
{
    return direction == PTO_DIR_IN    ? PTO_TAG_INPUT
           : direction == PTO_DIR_OUT ? PTO_TAG_OUTPUT_EXISTING
           : direction == (enum pto_direction)EXT_NO_DEP
               ? PTO_TAG_NO_DEP
               /* for an argument of unknown direction, assume that it is read and written */
               : PTO_TAG_INOUT;
}

static int take_argument(struct ext_level *level, struct load *load, PyObject *object,
                         const struct ext_signature *signature, struct ext_place *at)
{
    struct ext_state *state = level->state;
    uint32_t before = load->taken.tensor_count;

    if (load->count == PTO_TASK_TENSORS_MAX) {
        (void)ext_raise_text(state, PTO_EINVAL, "a task has at most %d tensors",
                             PTO_TASK_TENSORS_MAX);
        return -1;
    }
    if (Py_IS_TYPE(object, state->fresh_type)) {
        memcpy(&load->fresh[load->count], ((struct fresh *)object)->info, sizeof(load->fresh[0]));
        load->tag[load->count++] = PTO_TAG_OUTPUT;
        return ext_args_skip_tensor(state, signature, at);
    }
    if (ext_args_add(state, &load->taken, object, signature, at) < 0)
        return -1;
    if (load->taken.tensor_count != before) {
        struct pto_tensor *t = &load->taken.tensor[before];
        struct ext_hold *hold = &load->taken.hold[before];
        enum pto_tag tag = tag_of(hold->direction);

        if (t->addr - level->worker->addr >= level->worker->bytes && t->size != 0 &&
            stage_tensor(level, t, hold, tag != PTO_TAG_INPUT, at->argument - 1) < 0)
            return -1;
        load->tag[load->count++] = (uint8_t)tag;
    }
    return 0;
}

static int take_deps(struct ext_level *level, struct load *load, PyObject *deps)
{
    PyObject *list;
    Py_ssize_t count;

    if (deps == NULL || deps == Py_None)
        return 0;
    list = Py_IS_TYPE(deps, level->state->task_type) ? Py_BuildValue("[O]", deps)
                                                     : PySequence_List(deps);
    count = list == NULL ? -1 : PyList_Size(list);
    if (count > 0)
        load->deps = calloc((size_t)count, sizeof(*load->deps));
    for (Py_ssize_t i = 0; i < count && load->deps != NULL; i++) {
        PyObject *item = PyList_GetItem(list, i);

        if (!Py_IS_TYPE(item, level->state->task_type)) {
            (void)ext_raise_text(level->state, PTO_EINVAL, "deps must be results of submit");
            count = -1;
        } else {
            load->deps[i] = ((struct task *)item)->id;
        }
    }
    Py_XDECREF(list);
    if (count > 0)
        pto_set_deps(&load->args, load->deps, NULL, (uint32_t)count);
    return count < 0 ? -1 : 0;
}

/* Fills load->args; the caller releases it in any case. */
static int fill_load(struct ext_level *level, struct load *load,
                     const struct ext_registered *target, PyObject *const *objects,
                     Py_ssize_t count, PyObject *deps)
{
    struct ext_place at = { 0, 0, 0 };
    uint32_t tensor = 0;

    ext_args_init(&load->taken);
    load->count = 0;
    load->deps = NULL;
    load->taken.scalar = load->taken.scalars;
    pto_args_init(&load->args);
    for (Py_ssize_t i = 0; i < count; i++)
        if (take_argument(level, load, objects[i], &target->signature, &at) < 0)
            return -1;
    for (uint32_t i = 0; i < load->count; i++)
        pto_args_add(&load->args,
                     load->tag[i] == PTO_TAG_OUTPUT ? (const void *)&load->fresh[i]
                                                    : (const void *)&load->taken.tensor[tensor++],
                     (enum pto_tag)load->tag[i]);
    for (uint32_t i = 0; i < load->taken.scalar_count; i++)
        if (i < PTO_TASK_SCALARS_MAX && (load->taken.addresses >> i & 1) != 0)
            pto_add_address(&load->args, load->taken.scalar[i]);
        else
            pto_add_scalar(&load->args, load->taken.scalar[i]);
    return take_deps(level, load, deps);
}

/* ---- submitting ---- */

static struct pto_level *open_level(struct ext_level *level)
{
    if (level->level == NULL)
        (void)ext_raise_text(level->state, PTO_EINVAL, "the orchestration has returned");
    return level->level;
}

/* Raises the error with which the run has failed. */
static PyObject *level_refuse(struct ext_level *level)
{
    struct pto_error error;
    int status;
    PyObject *exception;

    pto_error_init(&error);
    status = pto_level_error(level->level, &error);
    exception =
        ext_exception(level->state, status < 0 ? status : PTO_EINVAL, status < 0 ? &error : NULL);
    if (exception == NULL)
        return NULL;
    PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    Py_DECREF(exception);
    return NULL;
}

static PyObject *make_outputs(struct ext_level *level, const struct pto_outputs *made)
{
    PyObject *outputs = PyTuple_New((Py_ssize_t)made->count);

    for (uint32_t i = 0; outputs != NULL && i < made->count; i++) {
        PyObject *tensor =
            ext_tensor_new(level->state, &made->tensor[i], (PyObject *)level->worker, false);

        if (tensor == NULL || PyTuple_SetItem(outputs, (Py_ssize_t)i, tensor) < 0)
            Py_CLEAR(outputs);
    }
    return outputs;
}

static PyObject *make_task(struct ext_level *level, const struct pto_outputs *made)
{
    struct task *task;

    if (!pto_task_id_is_valid(made->task))
        return level_refuse(level);
    task = PyObject_New(struct task, level->state->task_type);
    if (task == NULL)
        return NULL;
    task->id = made->task;
    task->outputs = NULL;
    if (made->count != 0 && (task->outputs = make_outputs(level, made)) == NULL)
        Py_CLEAR(task);
    return (PyObject *)task;
}

static struct ext_registered *target_of(struct ext_level *level, PyObject *object)
{
    struct ext_registered *target = (struct ext_registered *)object;

    if (object == NULL || !Py_IS_TYPE(object, level->state->registered_type)) {
        (void)ext_raise_text(level->state, PTO_EINVAL,
                             "the first argument must be a result of Worker.register");
        return NULL;
    }
    if (target->worker != level->worker || target->number == 0) {
        (void)ext_raise_text(level->state, PTO_EINVAL, "it is not registered with this worker");
        return NULL;
    }
    return target;
}

/* Finds keyword values, or NULL; -1 for an unknown keyword. */
static int find_keywords(struct ext_level *level, PyObject *names, PyObject *const *values,
                         PyObject **children, PyObject **deps)
{
    Py_ssize_t count = names == NULL ? 0 : PyTuple_Size(names);

    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *name = PyTuple_GetItem(names, i);

        if (PyUnicode_CompareWithASCIIString(name, "children") == 0) {
            *children = values[i];
        } else if (PyUnicode_CompareWithASCIIString(name, "deps") == 0) {
            *deps = values[i];
        } else {
            PyErr_Format(PyExc_TypeError, "submit has no keyword '%U': there are children and deps",
                         name);
            return -1;
        }
    }
    (void)level;
    return 0;
}

static PyObject *level_submit(PyObject *self, PyObject *const *objects, Py_ssize_t count,
                              PyObject *names)
{
    struct ext_level *level = level_of(self);
    struct pto_level *handle = open_level(level);
    PyObject *children = NULL, *deps = NULL, *task = NULL;
    const struct ext_registered *target;
    const struct pto_site *site;
    struct pto_outputs made;
    struct load load;
    uint64_t bits;

    if (handle == NULL || (target = target_of(level, count > 0 ? objects[0] : NULL)) == NULL ||
        find_keywords(level, names, objects + count, &children, &deps) < 0 ||
        !ext_worker_children(level->state, children, &bits))
        return NULL;
    if (fill_load(level, &load, target, objects + 1, count - 1, deps) == 0) {
        site = ext_site_here();
        Py_BEGIN_ALLOW_THREADS
        made = pto_level_submit_at(handle, target->number, bits, &load.args, site);
        Py_END_ALLOW_THREADS
        task = make_task(level, &made);
    }
    release_load(&load);
    return task;
}

/* Submits a group: a sequence of sequences of arguments. */
static PyObject *submit_group(struct ext_level *level, const struct ext_registered *target,
                              PyObject *members, PyObject *children)
{
    Py_ssize_t count = PySequence_Size(members), filled = 0;
    struct load *load = count < 1 || count > PTO_CHILDREN_MAX
                            ? NULL
                            : aligned_alloc(64, (size_t)count * ((sizeof(*load) + 63) / 64 * 64));
    struct pto_args *args = load == NULL ? NULL : calloc((size_t)count, sizeof(*args));
    struct pto_outputs outputs[PTO_CHILDREN_MAX];
    uint32_t number[PTO_CHILDREN_MAX];
    const struct pto_site *site = ext_site_here();
    PyObject *tasks = NULL;
    int status = args == NULL ? -1 : 0;

    if (status < 0)
        (void)ext_raise_text(level->state, PTO_EINVAL, "a group has 1 to %d members",
                             PTO_CHILDREN_MAX);
    for (Py_ssize_t i = 0; status == 0 && children != Py_None && i < count; i++) {
        PyObject *item = PySequence_GetItem(children, i);
        long child = item == NULL ? -1 : PyLong_AsLong(item);

        Py_XDECREF(item);
        if (PyErr_Occurred() || child < 0 || child >= PTO_CHILDREN_MAX) {
            PyErr_Clear();
            (void)ext_raise_text(level->state, PTO_EINVAL,
                                 "children of a group are as many numbers as it has members");
            status = -1;
        }
        number[i] = (uint32_t)child;
    }
    for (; status == 0 && filled < count; filled++) {
        PyObject *item = PySequence_GetItem(members, filled);
        PyObject *list = item == NULL ? NULL : PySequence_Tuple(item);
        Py_ssize_t size = list == NULL ? -1 : PyTuple_Size(list);
        PyObject **objects = size < 0 ? NULL : calloc((size_t)size + 1, sizeof(PyObject *));

        for (Py_ssize_t i = 0; objects != NULL && i < size; i++)
            objects[i] = PyTuple_GetItem(list, i);
        status =
            objects == NULL ? -1 : fill_load(level, &load[filled], target, objects, size, NULL);
        free(objects);
        /* `args` has copies of what is needed, and the members hold the objects */
        Py_XDECREF(list);
        Py_XDECREF(item);
        if (status == 0)
            args[filled] = load[filled].args;
        else if (objects != NULL)
            release_load(&load[filled]);
        if (status < 0)
            break;
    }
    if (status == 0) {
        Py_BEGIN_ALLOW_THREADS
        status = pto_level_submit_group_at(level->level, target->number,
                                           children == Py_None ? NULL : number, args,
                                           (uint32_t)count, outputs, site);
        Py_END_ALLOW_THREADS
        tasks = status < 0 ? level_refuse(level) : PyTuple_New(count);
        for (Py_ssize_t i = 0; tasks != NULL && i < count; i++) {
            PyObject *task = make_task(level, &outputs[i]);

            if (task == NULL || PyTuple_SetItem(tasks, i, task) < 0)
                Py_CLEAR(tasks);
        }
    }
    while (filled > 0)
        release_load(&load[--filled]);
    free(args);
    free(load);
    return tasks;
}

static PyObject *level_group(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "target", "members", "children", NULL };
    struct ext_level *level = level_of(self);
    PyObject *object, *members, *children = Py_None;
    const struct ext_registered *target;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|$O:group", names, &object, &members,
                                     &children) ||
        open_level(level) == NULL || (target = target_of(level, object)) == NULL)
        return NULL;
    if (children != Py_None && PySequence_Size(children) != PySequence_Size(members)) {
        PyErr_Clear();
        return ext_raise_text(level->state, PTO_EINVAL,
                              "children of a group are as many numbers as it has members");
    }
    return submit_group(level, target, members, children);
}

/*
 * Parses the description of an output: shape, dtype and, unless None, the initial value of all
 * elements.
 */
static int take_info(struct ext_state *state, PyObject *args, PyObject *keywords,
                     const char *format, struct pto_tensor_info *info_out)
{
    static char *names[] = { "shape", "dtype", "fill", NULL };
    PyObject *shape, *dtype, *fill = Py_None, *pair, *bits;
    uint32_t shapes[PTO_MAX_DIMS];
    int code, ndims;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, format, names, &shape, &dtype, &fill) ||
        (code = ext_dtype_code(state, dtype)) < 0 || (ndims = ext_shape(state, shape, shapes)) < 0)
        return -1;
    *info_out = (pto_tensor_info_make)(shapes, (uint32_t)ndims, (enum pto_dtype)code);
    if (fill == Py_None)
        return 0;
    pair = PyTuple_Pack(2, fill, state->dtype[code]);
    bits = pair == NULL ? NULL : ext_call_package("pto._bits", "element_bits", pair);
    if (bits != NULL)
        pto_tensor_info_fill(info_out, PyLong_AsUnsignedLongLong(bits));
    Py_XDECREF(bits);
    Py_XDECREF(pair);
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *level_alloc(PyObject *self, PyObject *args, PyObject *keywords)
{
    struct ext_level *level = level_of(self);
    struct pto_tensor_info info;
    struct pto_outputs made;
    struct pto_args list;

    if (open_level(level) == NULL ||
        take_info(level->state, args, keywords, "OO|O:alloc", &info) < 0)
        return NULL;
    pto_args_init(&list);
    pto_add_output(&list, &info);
    Py_BEGIN_ALLOW_THREADS
    made = pto_level_alloc(level->level, &list);
    Py_END_ALLOW_THREADS
    if (made.count != 1)
        return level_refuse(level);
    return ext_tensor_new(level->state, made.tensor, (PyObject *)level->worker, false);
}

static PyObject *level_copy(PyObject *self, PyObject *args)
{
    struct ext_level *level = level_of(self);
    PyObject *objects[2];
    static const enum pto_direction directions[] = { PTO_DIR_OUT, PTO_DIR_IN };
    const struct ext_signature signature = { .direction = directions, .count = 2, .name = "copy" };
    struct ext_place at = { 0, 0, 0 };
    struct pto_outputs made = { .count = 0 };
    const struct pto_site *site;
    struct load load;
    PyObject *task = NULL;

    if (!PyArg_ParseTuple(args, "OO:copy", &objects[0], &objects[1]) || open_level(level) == NULL)
        return NULL;
    ext_args_init(&load.taken);
    load.count = 0;
    load.deps = NULL;
    load.taken.scalar = load.taken.scalars;
    if (take_argument(level, &load, objects[0], &signature, &at) == 0 &&
        take_argument(level, &load, objects[1], &signature, &at) == 0) {
        if (load.taken.tensor_count != 2) {
            (void)ext_raise_text(level->state, PTO_EINVAL, "a copy is from a tensor to a tensor");
        } else {
            site = ext_site_here();
            Py_BEGIN_ALLOW_THREADS
            made.task =
                pto_level_copy_at(level->level, &load.taken.tensor[0], &load.taken.tensor[1], site);
            Py_END_ALLOW_THREADS
            task = make_task(level, &made);
        }
    }
    release_load(&load);
    return task;
}

/* ---- an orchestration in C ---- */

/* Allocates a list of `count` elements of `size` bytes; NULL with an exception. */
static void *make_list(Py_ssize_t count, size_t size)
{
    void *list = count < 0 ? NULL : calloc((size_t)count + 1, size);

    return list != NULL || PyErr_Occurred() ? list : PyErr_NoMemory();
}

/* Returns the texts of a tuple, which keeps them alive; NULL with an exception. */
static const char **take_names(PyObject *tuple)
{
    Py_ssize_t count = PyTuple_Size(tuple);
    const char **names = make_list(count, sizeof(*names));

    for (Py_ssize_t i = 0; names != NULL && i < count; i++) {
        names[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(tuple, i), NULL);
        if (names[i] == NULL) {
            free(names);
            return NULL;
        }
    }
    return names;
}

static uint64_t *take_callables(struct ext_level *level, PyObject *tuple)
{
    Py_ssize_t count = PyTuple_Size(tuple);
    uint64_t *numbers = make_list(count, sizeof(*numbers));

    for (Py_ssize_t i = 0; numbers != NULL && i < count; i++) {
        const struct ext_registered *target = target_of(level, PyTuple_GetItem(tuple, i));

        if (target == NULL) {
            free(numbers);
            return NULL;
        }
        numbers[i] = target->number;
    }
    return numbers;
}

static struct pto_scene_param *take_params(const char **names, PyObject *values)
{
    Py_ssize_t count = PyTuple_Size(values);
    struct pto_scene_param *params = names == NULL ? NULL : make_list(count, sizeof(*params));

    for (Py_ssize_t i = 0; params != NULL && i < count; i++) {
        params[i] =
            (struct pto_scene_param){ names[i], PyLong_AsLongLong(PyTuple_GetItem(values, i)) };
        if (PyErr_Occurred()) {
            free(params);
            return NULL;
        }
    }
    return params;
}

/*
 * Calls an orchestration of level 3 in C: its address, chips, SUB workers, then what the entry has,
 * each as a tuple of names and one of values: callables, arguments (tensors first; the names of
 * both together), parameters.
 */
static PyObject *level_call(PyObject *self, PyObject *args)
{
    struct ext_level *level = level_of(self);
    struct pto_level_entry entry = { .size = sizeof(entry) };
    PyObject *tuple[6], *result = NULL;
    const char **callable_names, **names, **param_names;
    unsigned long long address;
    struct pto_scene_param *params;
    uint64_t *callables;
    const struct ext_signature unknown = { .count = 0, .name = "" };
    struct ext_place at = { 0, 0, 0 };
    struct load load;
    int status = 0;

    if (!PyArg_ParseTuple(args, "O&O&O&O!O!O!O!O!O!:_call", ext_take_u64, &address, ext_take_u32,
                          &entry.chip_count, ext_take_u32, &entry.sub_count, &PyTuple_Type,
                          &tuple[0], &PyTuple_Type, &tuple[1], &PyTuple_Type, &tuple[2],
                          &PyTuple_Type, &tuple[3], &PyTuple_Type, &tuple[4], &PyTuple_Type,
                          &tuple[5]) ||
        open_level(level) == NULL)
        return NULL;
    for (int i = 0; i < 6; i += 2)
        if (PyTuple_Size(tuple[i]) != PyTuple_Size(tuple[i + 1]))
            return ext_raise_text(level->state, PTO_EINVAL, "each value needs a name");
    ext_args_init(&load.taken);
    load.count = 0;
    load.deps = NULL;
    load.taken.scalar = load.taken.scalars;
    callable_names = take_names(tuple[0]);
    callables = callable_names == NULL ? NULL : take_callables(level, tuple[1]);
    names = callables == NULL ? NULL : take_names(tuple[2]);
    param_names = names == NULL ? NULL : take_names(tuple[4]);
    params = take_params(param_names, tuple[5]);
    for (Py_ssize_t i = 0; params != NULL && status == 0 && i < PyTuple_Size(tuple[3]); i++)
        status = take_argument(level, &load, PyTuple_GetItem(tuple[3], i), &unknown, &at);
    if (params != NULL && status == 0) {
        entry.level = level->level;
        entry.worker = level->worker->worker;
        entry.tensor_count = load.taken.tensor_count;
        entry.scalar_count = load.taken.scalar_count;
        entry.callable_count = (uint32_t)PyTuple_Size(tuple[1]);
        entry.param_count = (uint32_t)PyTuple_Size(tuple[5]);
        entry.tensor = load.taken.tensor;
        entry.scalar = load.taken.scalar;
        entry.callable = callables;
        entry.tensor_name = names;
        entry.scalar_name = names + entry.tensor_count;
        entry.callable_name = callable_names;
        entry.param = params;
        Py_BEGIN_ALLOW_THREADS((pto_level_entry_fn)(uintptr_t)address)
        (level->level, &entry);
        Py_END_ALLOW_THREADS
        result = pto_level_status(level->level) < 0 ? level_refuse(level) : Py_NewRef(Py_None);
    }
    free(params);
    free(param_names);
    free(names);
    free(callables);
    free(callable_names);
    release_load(&load);
    return result;
}

/* ---- other methods of a level ---- */

static PyObject *level_finish(struct ext_level *level, int status)
{
    return status < 0 ? level_refuse(level) : Py_NewRef(Py_None);
}

static PyObject *level_scope_begin(PyObject *self, PyObject *is_manual)
{
    struct ext_level *level = level_of(self);
    int manual = PyObject_IsTrue(is_manual);

    if (manual < 0 || open_level(level) == NULL)
        return NULL;
    return level_finish(
        level, pto_level_scope_begin(level->level, manual ? PTO_SCOPE_MANUAL : PTO_SCOPE_AUTO));
}

static PyObject *level_scope_end(PyObject *self, PyObject *ignored)
{
    struct ext_level *level = level_of(self);

    (void)ignored;
    return open_level(level) == NULL ? NULL
                                     : level_finish(level, pto_level_scope_end(level->level));
}

static PyObject *set_timeout(PyObject *self, PyObject *seconds,
                             int (*set)(struct pto_level *level, uint64_t timeout_ns))
{
    struct ext_level *level = level_of(self);
    uint64_t ns;

    if (open_level(level) == NULL || !ext_timeout(level->state, seconds, &ns))
        return NULL;
    return level_finish(level, set(level->level, ns == UINT64_MAX ? 0 : ns));
}

static PyObject *level_set_timeout(PyObject *self, PyObject *seconds)
{
    return set_timeout(self, seconds, pto_level_set_timeout);
}

static PyObject *level_set_task_timeout(PyObject *self, PyObject *seconds)
{
    return set_timeout(self, seconds, pto_level_set_task_timeout);
}

static PyObject *level_set_run_options(PyObject *self, PyObject *const *values, Py_ssize_t count,
                                       PyObject *names)
{
    struct ext_level *level = level_of(self);
    struct pto_run_options options;

    if (count != 0)
        return PyErr_Format(PyExc_TypeError, "set_run_options takes keywords only");
    pto_run_options_init(&options);
    if (open_level(level) == NULL || ext_options_take(level->state, names, values, &options) < 0)
        return NULL;
    return level_finish(level, pto_level_set_run_options(level->level, &options));
}

static void level_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    Py_XDECREF((PyObject *)level_of(self)->run);
    Py_XDECREF((PyObject *)level_of(self)->worker);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Options of tasks. */
#define DOC_TASKS(...) EXT_OPTION_DOC(__VA_ARGS__)
#define DOC_RUNS(...) ""
#define LEVEL_OPTION_DOC(field, kind, name, level) DOC_##level(field, kind, name, level)

static PyMethodDef level_methods[] = {
    { "submit", EXT_WITH_KEYWORDS(level_submit), METH_FASTCALL | METH_KEYWORDS,
      "submit($self, target, *args, children=None, deps=None)\n--\n\nSubmits a task: a registered "
      "callable with these arguments, on one of the children: a\nnumber, several, or any with the "
      "callable. Returns a pto.LevelTask, which has its outputs.\n\nTensors and scalars are as for "
      "Device.run, pto.New(shape, dtype) is an output that\nthe runtime allocates. Without a "
      "signature a tensor is read and\nwritten, unless pto.In or pto.Out is given. `deps` are "
      "tasks to wait for as well.\n\nMemory that is not the worker's is copied when a task of the "
      "run first has it, and\nwhat tasks have written is copied back when the run has succeeded "
      "and its result is asked\nfor." },
    { "group", EXT_WITH_KEYWORDS(level_group), METH_VARARGS | METH_KEYWORDS,
      "group($self, target, members, *, children=None)\n--\n\nSubmits tasks that start together, "
      "each on a separate child, so that they may wait for\neach other. `members` has the "
      "arguments of each, `children` their numbers." },
    { "alloc", EXT_WITH_KEYWORDS(level_alloc), METH_VARARGS | METH_KEYWORDS,
      "alloc($self, shape, dtype, fill=None)\n--\n\nA tensor that lives until the scope has ended "
      "and its users are done. `fill`: initial value of all elements." },
    { "copy", level_copy, METH_VARARGS,
      "copy($self, to, source, /)\n--\n\nSubmits a copy, a task like any other." },
    { "_call", level_call, METH_VARARGS, "Calls an orchestration in C: for pto.testing." },
    { "scope_begin", level_scope_begin, METH_O,
      "scope_begin($self, manual, /)\n--\n\nBegins a scope; `scope` is the better way." },
    { "scope_end", level_scope_end, METH_NOARGS,
      "scope_end($self)\n--\n\nEnds the innermost "
      "scope." },
    { "set_timeout", level_set_timeout, METH_O,
      "set_timeout($self, seconds, /)\n--\n\nThe time-out of the run; None: the worker's." },
    { "set_task_timeout", level_set_task_timeout, METH_O,
      "set_task_timeout($self, seconds, /)\n--\n\nThe time-out of each task from here on; None: "
      "the worker's." },
    { "set_run_options", EXT_WITH_KEYWORDS(level_set_run_options), METH_FASTCALL | METH_KEYWORDS,
      "set_run_options($self, **options)\n--\n\nHow callables run on chips, for each task from "
      "here on. Without any: the defaults.\n\n"
      "Options:\n" PTO_RUN_OPTION_MAP(LEVEL_OPTION_DOC) },
    { NULL, NULL, 0, NULL }
};

static PyObject *get_worker(PyObject *self, void *ignored)
{
    (void)ignored;
    return Py_NewRef((PyObject *)level_of(self)->worker);
}

static PyGetSetDef level_fields[] = {
    { "worker", get_worker, NULL, "its worker, as a C object", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot level_slots[] = {
    { Py_tp_getset, level_fields },
    { Py_tp_doc, "The interface that a level-3 orchestration submits to." },
    { Py_tp_dealloc, level_free },
    { Py_tp_methods, level_methods },
    { 0, NULL },
};

static PyType_Spec level_spec = {
    .name = "pto._Level",
    .basicsize = sizeof(struct ext_level),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = level_slots,
};

/* ---- tasks and new outputs ---- */

static void task_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    Py_XDECREF(((struct task *)self)->outputs);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *get_outputs(PyObject *self, void *ignored)
{
    PyObject *outputs = ((struct task *)self)->outputs;

    (void)ignored;
    return outputs == NULL ? PyTuple_New(0) : Py_NewRef(outputs);
}

static PyObject *get_output(PyObject *self, void *ignored)
{
    PyObject *outputs = ((struct task *)self)->outputs;

    (void)ignored;
    if (outputs == NULL || PyTuple_Size(outputs) != 1) {
        PyErr_SetString(PyExc_AttributeError, "the task has no single output; see outputs");
        return NULL;
    }
    return Py_NewRef(PyTuple_GetItem(outputs, 0));
}

static Py_ssize_t task_length(PyObject *self)
{
    PyObject *outputs = ((struct task *)self)->outputs;

    return outputs == NULL ? 0 : PyTuple_Size(outputs);
}

static PyObject *task_item(PyObject *self, Py_ssize_t at)
{
    PyObject *outputs = ((struct task *)self)->outputs;

    if (at < 0 || at >= task_length(self)) {
        PyErr_SetString(PyExc_IndexError, "the task has no such output");
        return NULL;
    }
    return Py_NewRef(PyTuple_GetItem(outputs, at));
}

static PyObject *get_id(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromUnsignedLongLong(((struct task *)self)->id.raw);
}

static PyGetSetDef task_fields[] = {
    { "outputs", get_outputs, NULL, "tensors, one for each pto.New of the submit", NULL },
    { "output", get_output, NULL, "the only output", NULL },
    { "id", get_id, NULL, "its number, as in errors", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyObject *task_repr(PyObject *self)
{
    struct task *task = (struct task *)self;

    return PyUnicode_FromFormat("<pto.LevelTask: %llu, %zd outputs>",
                                (unsigned long long)task->id.raw,
                                task->outputs == NULL ? 0 : PyTuple_Size(task->outputs));
}

static PyType_Slot task_slots[] = {
    { Py_tp_doc, "A task of level 3 that was submitted; task[0] is its first output." },
    { Py_sq_length, task_length },
    { Py_sq_item, task_item },
    { Py_tp_dealloc, task_free },
    { Py_tp_repr, task_repr },
    { Py_tp_getset, task_fields },
    { 0, NULL },
};

static PyType_Spec task_spec = {
    .name = "pto.LevelTask",
    .basicsize = sizeof(struct task),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = task_slots,
};

static PyObject *fresh_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    struct ext_state *state = ext_state_of(type);
    struct pto_tensor_info info;
    struct fresh *self;

    if (state == NULL || take_info(state, args, keywords, "OO|O:New", &info) < 0)
        return NULL;
    self = (struct fresh *)PyType_GenericAlloc(type, 0);
    if (self != NULL)
        memcpy(self->info, &info, sizeof(info));
    return (PyObject *)self;
}

static void fresh_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *fresh_repr(PyObject *self)
{
    struct pto_tensor_info info;
    char shape[64] = "";
    size_t used = 0;

    memcpy(&info, ((struct fresh *)self)->info, sizeof(info));
    for (uint32_t d = 0; d < info.ndims && d < PTO_MAX_DIMS; d++)
        used += (size_t)snprintf(shape + used, sizeof(shape) - used, "%u%s", info.shapes[d],
                                 d + 1 < info.ndims ? ", "
                                 : info.ndims == 1  ? ","
                                                    : "");
    return PyUnicode_FromFormat("pto.New((%s), pto.%s)", shape, pto_dtype_text(info.dtype));
}

static PyType_Slot fresh_slots[] = {
    { Py_tp_doc,
      "New(shape, dtype, fill=None)\n--\n\nAn argument of a submit: an output that the runtime "
      "allocates. It is\nin `outputs` of the pto.LevelTask. `fill`: initial value of all "
      "elements." },
    { Py_tp_new, fresh_new },
    { Py_tp_dealloc, fresh_free },
    { Py_tp_repr, fresh_repr },
    { 0, NULL },
};

static PyType_Spec fresh_spec = {
    .name = "pto.New",
    .basicsize = sizeof(struct fresh),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = fresh_slots,
};

int ext_level_init(PyObject *module, struct ext_state *state)
{
    return ext_add_type(module, &level_spec, &state->level_type) < 0 ||
                   ext_add_type(module, &task_spec, &state->task_type) < 0 ||
                   ext_add_type(module, &fresh_spec, &state->fresh_type) < 0
               ? -1
               : 0;
}
