/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pto.Tensor: a descriptor, and the owner of its memory. It is made without a copy from objects
 * with DLPack or the buffer protocol, and exported in the same ways.
 */
#include "py_ext.h"

#include <stdlib.h>
#include <string.h>

static struct pto_tensor tensor_of(PyObject *self)
{
    struct pto_tensor tensor;

    memcpy(&tensor, ((struct ext_tensor_object *)self)->bytes, sizeof(tensor));
    return tensor;
}

/* ---- making tensors ---- */

static bool is_remote(PyObject *tensor)
{
    return ((struct ext_tensor_object *)tensor)->is_remote;
}

static struct ext_tensor_object *allocate(struct ext_state *state, PyTypeObject *type,
                                          const struct pto_tensor *tensor)
{
    struct ext_tensor_object *self = (struct ext_tensor_object *)PyType_GenericAlloc(type, 0);

    if (self == NULL)
        return NULL;
    self->state = state;
    memcpy(self->bytes, tensor, sizeof(*tensor));
    for (uint32_t d = 0; d < tensor->ndims; d++) {
        self->shape[d] = tensor->shapes[d];
        self->strides[d] = (Py_ssize_t)tensor->strides[d] * pto_dtype_size(tensor->dtype);
    }
    return self;
}

PyObject *ext_tensor_new(struct ext_state *state, const struct pto_tensor *tensor, PyObject *owner,
                         bool is_readonly)
{
    struct ext_tensor_object *self = allocate(state, state->tensor_type, tensor);

    if (self == NULL)
        return NULL;
    self->is_readonly = is_readonly;
    if (owner != NULL) {
        self->hold.kind = EXT_HOLD_OBJECT;
        self->hold.object = Py_NewRef(owner);
    }
    return (PyObject *)self;
}

void ext_tensor_set_remote(PyObject *tensor)
{
    ((struct ext_tensor_object *)tensor)->is_remote = true;
}

static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "object", "dtype", NULL };
    struct ext_state *state = ext_state_of(type);
    PyObject *object, *dtype = Py_None;
    struct ext_tensor taken;
    struct ext_tensor_object *self;
    int code = -1;

    if (state == NULL ||
        !PyArg_ParseTupleAndKeywords(args, keywords, "O|O:Tensor", names, &object, &dtype))
        return NULL;
    if (dtype != Py_None && (code = ext_dtype_code(state, dtype)) < 0)
        return NULL;
    if (ext_tensor_take(state, object, code, &taken) < 0)
        return NULL;
    self = allocate(state, type, &taken.tensor);
    if (self == NULL) {
        ext_hold_release(&taken.hold);
        return NULL;
    }
    self->hold = taken.hold;
    self->is_readonly = taken.is_readonly;
    self->is_remote = taken.hold.kind == EXT_HOLD_OBJECT && is_remote(taken.hold.object);
    return (PyObject *)self;
}

static int tensor_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct ext_hold *hold = &((struct ext_tensor_object *)self)->hold;

    Py_VISIT(Py_TYPE(self));
    if (hold->kind == EXT_HOLD_OBJECT)
        Py_VISIT(hold->object);
    return 0;
}

static int tensor_clear(PyObject *self)
{
    struct ext_hold *hold = &((struct ext_tensor_object *)self)->hold;

    if (hold->kind == EXT_HOLD_OBJECT)
        ext_hold_release(hold);
    return 0;
}

static void tensor_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    ext_hold_release(&((struct ext_tensor_object *)self)->hold);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Refuses to export a tensor that this process cannot access. */
static int refuse_remote(PyObject *self)
{
    if (!((struct ext_tensor_object *)self)->is_remote)
        return 0;
    PyErr_SetString(PyExc_BufferError,
                    "the tensor is in the memory of a device in another process or on a "
                    "chip; Device.read and Device.write copy it");
    return -1;
}

/* ---- properties ---- */

static PyObject *numbers(const uint32_t *values, uint32_t count)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);

    for (uint32_t i = 0; tuple != NULL && i < count; i++) {
        PyObject *value = PyLong_FromUnsignedLong(values[i]);

        if (value == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, value) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *get_shape(PyObject *self, void *ignored)
{
    struct pto_tensor tensor = tensor_of(self);

    (void)ignored;
    return numbers(tensor.shapes, tensor.ndims);
}

static PyObject *get_strides(PyObject *self, void *ignored)
{
    struct pto_tensor tensor = tensor_of(self);

    (void)ignored;
    return numbers(tensor.strides, tensor.ndims);
}

static PyObject *get_dtype(PyObject *self, void *ignored)
{
    (void)ignored;
    return Py_NewRef(((struct ext_tensor_object *)self)->state->dtype[tensor_of(self).dtype]);
}

static PyObject *get_ndim(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyLong_FromUnsignedLong(tensor_of(self).ndims);
}

static PyObject *get_size(PyObject *self, void *ignored)
{
    struct pto_tensor tensor = tensor_of(self);

    (void)ignored;
    return PyLong_FromUnsignedLongLong(pto_tensor_numel(&tensor));
}

static PyObject *get_nbytes(PyObject *self, void *ignored)
{
    struct pto_tensor tensor = tensor_of(self);

    (void)ignored;
    return PyLong_FromUnsignedLongLong(pto_tensor_bytes(&tensor));
}

static PyObject *get_address(PyObject *self, void *ignored)
{
    struct pto_tensor tensor = tensor_of(self);

    (void)ignored;
    return PyLong_FromVoidPtr(pto_tensor_data(&tensor));
}

static PyObject *get_readonly(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(((struct ext_tensor_object *)self)->is_readonly);
}

static PyObject *get_contiguous(PyObject *self, void *ignored)
{
    (void)ignored;
    return PyBool_FromLong(tensor_of(self).is_contiguous);
}

/* Returns the owner of the memory of the tensor and its views; None: another library's memory. */
static PyObject *get_origin(PyObject *self, void *ignored)
{
    struct ext_tensor_object *t = (struct ext_tensor_object *)self;

    (void)ignored;
    while (t->hold.kind == EXT_HOLD_OBJECT && Py_IS_TYPE(t->hold.object, t->state->tensor_type))
        t = (struct ext_tensor_object *)t->hold.object;
    return Py_NewRef(t->hold.kind == EXT_HOLD_OBJECT ? t->hold.object : Py_None);
}

/* Makes a tensor without memory, for views: _symbol(origin, shape, strides, dtype). */
static PyObject *module_symbol(PyObject *module, PyObject *args)
{
    struct ext_state *state = PyModule_GetState(module);
    uint32_t shapes[PTO_MAX_DIMS], strides[PTO_MAX_DIMS];
    PyObject *origin, *shape, *stride, *dtype, *made;
    struct pto_tensor tensor;
    int code, ndims;

    if (!PyArg_ParseTuple(args, "OOOO:_symbol", &origin, &shape, &stride, &dtype) ||
        (code = ext_dtype_code(state, dtype)) < 0 ||
        (ndims = ext_shape(state, shape, shapes)) < 0 ||
        (stride != Py_None && ext_shape(state, stride, strides) != ndims))
        return NULL;
    tensor = (pto_tensor_external)(NULL, shapes, (uint32_t)ndims, (enum pto_dtype)code);
    if (tensor.ndims == 0)
        return ext_raise_text(state, PTO_EINVAL,
                              "a tensor of that shape is too large for its strides");
    if (stride != Py_None) {
        memcpy(tensor.strides, strides, (size_t)ndims * sizeof(strides[0]));
        pto_tensor_update(&tensor);
    }
    made = ext_tensor_new(state, &tensor, origin, false);
    if (made != NULL)
        ext_tensor_set_remote(made);
    return made;
}

static PyObject *tensor_repr(PyObject *self)
{
    struct ext_tensor_object *t = (struct ext_tensor_object *)self;
    struct pto_tensor tensor = tensor_of(self);
    PyObject *shape = numbers(tensor.shapes, tensor.ndims);
    PyObject *text = shape == NULL ? NULL
                                   : PyUnicode_FromFormat(
                                         "pto.Tensor(shape=%S, dtype=%S, address=%p%s%s)", shape,
                                         t->state->dtype[tensor.dtype], pto_tensor_data(&tensor),
                                         tensor.is_contiguous ? "" : ", strided",
                                         t->is_readonly ? ", read-only" : "");

    Py_XDECREF(shape);
    return text;
}

static Py_ssize_t tensor_length(PyObject *self)
{
    return (Py_ssize_t)tensor_of(self).shapes[0];
}

/* ---- views ---- */

int ext_shape(struct ext_state *state, PyObject *object, uint32_t shapes[PTO_MAX_DIMS])
{
    bool is_number = PyIndex_Check(object) && !PySequence_Check(object);
    PyObject *items = is_number ? PyTuple_Pack(1, object) : PySequence_Tuple(object);
    Py_ssize_t count = items == NULL ? -1 : PyTuple_Size(items);

    if (count == 0 || count > PTO_MAX_DIMS) {
        (void)ext_raise_text(state, PTO_EINVAL, "a shape has 1 to %d dimensions, not %zd",
                             PTO_MAX_DIMS, count);
        count = -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (ext_take_u32(PyTuple_GetItem(items, i), &shapes[i]))
            continue;
        if (PyErr_ExceptionMatches(PyExc_ValueError)) {
            PyErr_Clear();
            (void)ext_raise_text(state, PTO_EINVAL,
                                 "dimension %zd of a shape is not between 0 and 4294967295", i);
        }
        count = -1;
    }
    Py_XDECREF(items);
    return (int)count;
}

static PyObject *make_view(PyObject *self, const struct pto_tensor *view, const char *what)
{
    static const char *const reasons[] = {
        [PTO_VIEW_BAD_NDIMS] = "a tensor has 1 to 5 dimensions",
        [PTO_VIEW_OUT_OF_RANGE] = "it reaches beyond the tensor",
        [PTO_VIEW_STRIDED] = "the tensor is strided; copy it first",
        [PTO_VIEW_NUMEL] = "it has another number of elements",
        [PTO_VIEW_BAD_DIM] = "a dimension does not exist or is named twice",
        [PTO_VIEW_BAD_STEP] = "its step is not above 0",
        [PTO_VIEW_TOO_LARGE] = "a stride would not fit 32 bits",
    };
    struct ext_tensor_object *t = (struct ext_tensor_object *)self;

    if (view->ndims != 0) {
        PyObject *made = ext_tensor_new(t->state, view, self, t->is_readonly);

        if (made != NULL && t->is_remote)
            ext_tensor_set_remote(made);
        return made;
    }
    return ext_raise_text(
        t->state, PTO_EINVAL, "%s of a tensor: %s", what,
        view->fault < sizeof(reasons) / sizeof(reasons[0]) && reasons[view->fault] != NULL
            ? reasons[view->fault]
            : "it cannot exist");
}

static PyObject *tensor_reshape(PyObject *self, PyObject *args)
{
    struct ext_tensor_object *t = (struct ext_tensor_object *)self;
    struct pto_tensor tensor = tensor_of(self), view;
    PyObject *shape = PyTuple_Size(args) == 1 ? PyTuple_GetItem(args, 0) : args;
    uint32_t shapes[PTO_MAX_DIMS];
    int count = ext_shape(t->state, shape, shapes);

    if (count < 0)
        return NULL;
    view = (pto_tensor_reshape)(&tensor, shapes, (uint32_t)count);
    return make_view(self, &view, "a reshape");
}

static PyObject *tensor_view(PyObject *self, PyObject *args)
{
    struct ext_tensor_object *t = (struct ext_tensor_object *)self;
    struct pto_tensor tensor = tensor_of(self), view;
    uint32_t shapes[PTO_MAX_DIMS], offsets[PTO_MAX_DIMS] = { 0 };
    PyObject *shape, *offset = NULL;
    int count, offset_count;

    if (!PyArg_ParseTuple(args, "O|O:view", &shape, &offset))
        return NULL;
    count = ext_shape(t->state, shape, shapes);
    offset_count = count < 0 || offset == NULL ? count : ext_shape(t->state, offset, offsets);
    if (count < 0 || offset_count < 0)
        return NULL;
    if (count != (int)tensor.ndims || offset_count != count)
        return ext_raise_text(
            t->state, PTO_EINVAL,
            "a view of a tensor with %u dimensions has as many shapes and offsets", tensor.ndims);
    view = (pto_tensor_view)(&tensor, shapes, offsets);
    return make_view(self, &view, "a view");
}

static PyObject *tensor_permute(PyObject *self, PyObject *args)
{
    struct ext_tensor_object *t = (struct ext_tensor_object *)self;
    struct pto_tensor tensor = tensor_of(self), view;
    PyObject *given = PyTuple_Size(args) == 1 ? PyTuple_GetItem(args, 0) : args;
    uint32_t order[PTO_MAX_DIMS] = { 0 };
    int count = ext_shape(t->state, given, order);

    if (count < 0)
        return NULL;
    view = count == (int)tensor.ndims ? (pto_tensor_permute)(&tensor, order)
                                      : pto_tensor_invalid(&tensor, PTO_VIEW_BAD_DIM);
    return make_view(self, &view, "a permutation");
}

static PyObject *tensor_transpose(PyObject *self, PyObject *args)
{
    struct pto_tensor tensor = tensor_of(self), view;
    int x = -2, y = -1;

    if (!PyArg_ParseTuple(args, "|ii:transpose", &x, &y))
        return NULL;
    x += x < 0 ? (int)tensor.ndims : 0;
    y += y < 0 ? (int)tensor.ndims : 0;
    view = x < 0 || y < 0 ? pto_tensor_invalid(&tensor, PTO_VIEW_BAD_DIM)
                          : pto_tensor_transpose(&tensor, (uint32_t)x, (uint32_t)y);
    return make_view(self, &view, "a transposition");
}

/* Applies an index to dimension `from` of the parent, which becomes dimension *to of the view. */
static int apply_index(struct ext_state *state, PyObject *index, const struct pto_tensor *parent,
                       uint32_t from, struct pto_tensor *view, uint32_t *to)
{
    uint32_t size = parent->shapes[from], stride = parent->strides[from];
    Py_ssize_t start, stop, step, count;

    if (PySlice_Check(index)) {
        if (PySlice_Unpack(index, &start, &stop, &step) < 0)
            return -1;
        if (step < 1) {
            (void)ext_raise_text(state, PTO_EINVAL,
                                 "a slice of a tensor has a step of at least 1, not %zd", step);
            return -1;
        }
        count = PySlice_AdjustIndices(size, &start, &stop, step);
        if ((uint64_t)stride * (uint64_t)step > UINT32_MAX && count > 1) {
            (void)ext_raise_text(state, PTO_EINVAL, "a stride would not fit 32 bits");
            return -1;
        }
        view->shapes[*to] = (uint32_t)count;
        view->strides[*to] = count > 1 ? stride * (uint32_t)step : stride;
        view->start += count > 0 ? (uint64_t)start * stride : 0;
        ++*to;
        return 0;
    }
    start = PyNumber_AsSsize_t(index, PyExc_IndexError);
    if (start == -1 && PyErr_Occurred())
        return -1;
    start += start < 0 ? (Py_ssize_t)size : 0;
    if (start < 0 || start >= (Py_ssize_t)size) {
        PyErr_Format(PyExc_IndexError,
                     "index %zd is outside of dimension %u, which has %u elements", start, from,
                     size);
        return -1;
    }
    view->start += (uint64_t)start * stride;
    return 0;
}

static PyObject *tensor_item(PyObject *self, PyObject *key)
{
    struct ext_tensor_object *t = (struct ext_tensor_object *)self;
    struct pto_tensor tensor = tensor_of(self), view = tensor;
    PyObject *indices = PyTuple_Check(key) ? Py_NewRef(key) : PyTuple_Pack(1, key);
    Py_ssize_t count = indices == NULL ? -1 : PyTuple_Size(indices);
    uint32_t from = 0, to = 0;
    int status = indices == NULL ? -1 : 0;

    for (Py_ssize_t i = 0; status == 0 && i < count; i++) {
        PyObject *index = PyTuple_GetItem(indices, i);
        Py_ssize_t whole = index == Py_Ellipsis ? (Py_ssize_t)tensor.ndims - (count - 1) : 0;

        for (; whole > 0 && from < tensor.ndims; whole--, from++, to++) {
            view.shapes[to] = tensor.shapes[from];
            view.strides[to] = tensor.strides[from];
        }
        if (index == Py_Ellipsis)
            continue;
        if (from >= tensor.ndims) {
            PyErr_Format(PyExc_IndexError, "more indices than the %u dimensions of the tensor",
                         tensor.ndims);
            status = -1;
        } else {
            status = apply_index(t->state, index, &tensor, from++, &view, &to);
        }
    }
    Py_XDECREF(indices);
    if (status < 0)
        return NULL;
    for (; from < tensor.ndims; from++, to++) {
        view.shapes[to] = tensor.shapes[from];
        view.strides[to] = tensor.strides[from];
    }
    /*
     * an index for each dimension selects a single element, which becomes a tensor with one
     * dimension
     */
    if (to == 0) {
        view.shapes[0] = view.strides[0] = 1;
        to = 1;
    }
    view.ndims = to;
    for (; to < PTO_MAX_DIMS; to++)
        view.shapes[to] = view.strides[to] = 0;
    pto_tensor_update(&view);
    return make_view(self, &view, "a slice");
}

/* ---- exporting ---- */

static int tensor_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    /* for types without a format: format by element size */
    static const char *const bits[] = { "B", "B", "H" };
    struct ext_tensor_object *t = (struct ext_tensor_object *)self;
    struct pto_tensor tensor = tensor_of(self);
    const char *format = ext_dtype_format(tensor.dtype);

    if (refuse_remote(self) < 0)
        return -1;
    if ((flags & PyBUF_WRITABLE) != 0 && t->is_readonly) {
        PyErr_SetString(PyExc_BufferError, "the tensor is read-only");
        return -1;
    }
    if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES && !tensor.is_contiguous) {
        PyErr_SetString(PyExc_BufferError, "the tensor is strided");
        return -1;
    }
    if (((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS ||
         (flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS) &&
        !tensor.is_contiguous) {
        PyErr_SetString(PyExc_BufferError, "the tensor is not contiguous");
        return -1;
    }
    if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && tensor.ndims > 1) {
        PyErr_SetString(PyExc_BufferError, "the tensor is row-major");
        return -1;
    }
    if (format == NULL)
        format = bits[pto_dtype_size(tensor.dtype)];
    view->buf = pto_tensor_data(&tensor);
    view->obj = Py_NewRef(self);
    view->len = (Py_ssize_t)pto_tensor_bytes(&tensor);
    view->itemsize = pto_dtype_size(tensor.dtype);
    view->readonly = t->is_readonly;
    view->ndim = (int)tensor.ndims;
    view->format = (flags & PyBUF_FORMAT) != 0 ? (char *)format : NULL;
    view->shape = (flags & PyBUF_ND) != 0 ? t->shape : NULL;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? t->strides : NULL;
    view->suboffsets = NULL;
    view->internal = NULL;
    return 0;
}

/* An exported capsule with the data to which it points, in one allocation. */
struct export
{
    PyObject *owner;
    int64_t shape[PTO_MAX_DIMS];
    int64_t strides[PTO_MAX_DIMS];
    union {
        struct dlpack_managed managed;
        struct dlpack_versioned versioned;
    };
};

static void free_export(struct export *export)
{
    PyGILState_STATE lock;

    if (!Py_IsInitialized())
        return; /* the interpreter has ended, so the memory cannot be freed any more */
    lock = PyGILState_Ensure();
    Py_DECREF(export->owner);
    free(export);
    PyGILState_Release(lock);
}

static void delete_managed(struct dlpack_managed *self)
{
    free_export(self->context);
}

static void delete_versioned(struct dlpack_versioned *self)
{
    free_export(self->context);
}

static void free_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor"))
        delete_managed(PyCapsule_GetPointer(capsule, "dltensor"));
    else if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
        delete_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
}

static struct export *make_export(PyObject *self, struct dlpack_tensor *out)
{
    struct pto_tensor tensor = tensor_of(self);
    struct export *export = calloc(1, sizeof(*export));

    if (export == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (uint32_t d = 0; d < tensor.ndims; d++) {
        export->shape[d] = tensor.shapes[d];
        export->strides[d] = tensor.strides[d];
    }
    *out = (struct dlpack_tensor){ .data = pto_tensor_data(&tensor),
                                   .device = { DLPACK_CPU, 0 },
                                   .ndim = (int32_t)tensor.ndims,
                                   .shape = export->shape,
                                   .strides = export->strides };
    (void)ext_dtype_to_dlpack(tensor.dtype, &out->dtype);
    return export;
}

static PyObject *export_versioned(PyObject *self)
{
    struct dlpack_tensor tensor;
    struct export *export = make_export(self, &tensor);
    PyObject *capsule;

    if (export == NULL)
        return NULL;
    export->versioned = (struct dlpack_versioned){
        .version = { DLPACK_MAJOR, DLPACK_MINOR },
        .context = export,
        .deleter = delete_versioned,
        .flags = ((struct ext_tensor_object *)self)->is_readonly ? DLPACK_READ_ONLY : 0,
        .tensor = tensor,
    };
    capsule = PyCapsule_New(&export->versioned, "dltensor_versioned", free_capsule);
    if (capsule == NULL)
        free(export);
    else
        export->owner = Py_NewRef(self);
    return capsule;
}

static PyObject *export_managed(PyObject *self)
{
    struct dlpack_tensor tensor;
    struct export *export;
    PyObject *capsule;

    if (((struct ext_tensor_object *)self)->is_readonly) {
        PyErr_SetString(PyExc_BufferError, "the tensor is read-only, which this version of DLPack "
                                           "cannot say; ask for max_version=(1, 0)");
        return NULL;
    }
    export = make_export(self, &tensor);
    if (export == NULL)
        return NULL;
    export->managed =
        (struct dlpack_managed){ .tensor = tensor, .context = export, .deleter = delete_managed };
    capsule = PyCapsule_New(&export->managed, "dltensor", free_capsule);
    if (capsule == NULL)
        free(export);
    else
        export->owner = Py_NewRef(self);
    return capsule;
}

static PyObject *tensor_dlpack(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = { "stream", "max_version", "dl_device", "copy", NULL };
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    int major = 0, minor = 0, type = DLPACK_CPU, id = 0;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOO:__dlpack__", names, &stream, &version,
                                     &device, &copy) ||
        (version != Py_None && !PyArg_ParseTuple(version, "ii;max_version", &major, &minor)) ||
        (device != Py_None && !PyArg_ParseTuple(device, "ii;dl_device", &type, &id)))
        return NULL;
    if (refuse_remote(self) < 0)
        return NULL;
    if (type != DLPACK_CPU || copy == Py_True) {
        PyErr_SetString(PyExc_BufferError, "a tensor is exported in place and never copied");
        return NULL;
    }
    return major >= DLPACK_MAJOR ? export_versioned(self) : export_managed(self);
}

static PyObject *tensor_dlpack_device(PyObject *self, PyObject *ignored)
{
    (void)self;
    (void)ignored;
    return Py_BuildValue("(ii)", DLPACK_CPU, 0);
}

static PyObject *tensor_numpy(PyObject *self, PyObject *ignored)
{
    PyObject *numpy = PyImport_ImportModule("numpy");
    PyObject *array = numpy == NULL ? NULL : PyObject_CallMethod(numpy, "asarray", "O", self);

    (void)ignored;
    Py_XDECREF(numpy);
    return array;
}

/*
 * Called by numpy if it cannot use the buffer protocol. Raises an exception, because numpy would
 * otherwise make an array with the tensor as its only element.
 */
static PyObject *tensor_array(PyObject *self, PyObject *args, PyObject *keywords)
{
    (void)args;
    (void)keywords;
    if (refuse_remote(self) == 0)
        PyErr_SetString(PyExc_BufferError, "numpy has no type for the tensor's elements");
    return NULL;
}

static PyObject *through_memoryview(PyObject *self, const char *method)
{
    PyObject *view = PyMemoryView_FromObject(self);
    PyObject *result = view == NULL ? NULL : PyObject_CallMethod(view, method, NULL);

    Py_XDECREF(view);
    return result;
}

static PyObject *tensor_tolist(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return through_memoryview(self, "tolist");
}

static PyObject *tensor_tobytes(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    return through_memoryview(self, "tobytes");
}

static PyGetSetDef tensor_fields[] = {
    { "shape", get_shape, NULL, "elements of each dimension", NULL },
    { "strides", get_strides, NULL, "elements from one to the next, in each dimension", NULL },
    { "dtype", get_dtype, NULL, "the data type, a pto.dtype", NULL },
    { "ndim", get_ndim, NULL, "number of dimensions, 1 to 5", NULL },
    { "size", get_size, NULL, "number of elements", NULL },
    { "nbytes", get_nbytes, NULL, "bytes of all elements", NULL },
    { "address", get_address, NULL, "address of the first element", NULL },
    { "is_readonly", get_readonly, NULL, "whether it can only be an input", NULL },
    { "_origin", get_origin, NULL, NULL, NULL },
    { "is_contiguous", get_contiguous, NULL, "whether its elements are contiguous, row by row",
      NULL },
    { NULL, NULL, NULL, NULL, NULL }
};

static PyMethodDef tensor_methods[] = {
    { "view", tensor_view, METH_VARARGS,
      "view($self, shape, offsets=None, /)\n--\n\nA box of the tensor, in the same memory." },
    { "reshape", tensor_reshape, METH_VARARGS,
      "reshape($self, *shape)\n--\n\nThe same elements with another shape; the tensor is "
      "contiguous." },
    { "permute", tensor_permute, METH_VARARGS,
      "permute($self, *order)\n--\n\nA view whose dimension d is dimension order[d]." },
    { "transpose", tensor_transpose, METH_VARARGS,
      "transpose($self, x=-2, y=-1, /)\n--\n\nA view with two dimensions exchanged." },
    { "__array__", EXT_WITH_KEYWORDS(tensor_array), METH_VARARGS | METH_KEYWORDS, NULL },
    { "numpy", tensor_numpy, METH_NOARGS,
      "numpy($self)\n--\n\nA numpy array of the same memory, which it keeps alive. Types that "
      "numpy\n"
      "lacks, such as bfloat16, are unsigned numbers with the same bits." },
    { "tolist", tensor_tolist, METH_NOARGS, "tolist($self)\n--\n\nThe elements as nested lists." },
    { "tobytes", tensor_tobytes, METH_NOARGS,
      "tobytes($self)\n--\n\nA copy of the elements, row by row." },
    { "__dlpack__", EXT_WITH_KEYWORDS(tensor_dlpack), METH_VARARGS | METH_KEYWORDS,
      "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
      "Hands the tensor to another library, which keeps it alive." },
    { "__dlpack_device__", tensor_dlpack_device, METH_NOARGS,
      "__dlpack_device__($self)\n--\n\nWhere the memory is: the CPU's." },
    { NULL, NULL, 0, NULL }
};

static PyType_Slot tensor_slots[] = {
    { Py_tp_doc, "Tensor(object, dtype=None)\n--\n\nA tensor that shares the memory of another "
                 "object: of torch, numpy, memoryview,\nbytearray, array, ctypes, or anything with "
                 "DLPack or the buffer protocol. It keeps that\nmemory alive. `dtype` gives the "
                 "elements another type of the same size, for types that\nother libraries lack." },
    { Py_tp_new, tensor_new },
    { Py_tp_dealloc, tensor_free },
    { Py_tp_traverse, tensor_traverse },
    { Py_tp_clear, tensor_clear },
    { Py_tp_repr, tensor_repr },
    { Py_tp_getset, tensor_fields },
    { Py_tp_methods, tensor_methods },
    { Py_mp_subscript, tensor_item },
    { Py_mp_length, tensor_length },
    { Py_bf_getbuffer, tensor_get_buffer },
    { 0, NULL },
};

static PyType_Spec tensor_spec = {
    .name = "pto.Tensor",
    .basicsize = sizeof(struct ext_tensor_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = tensor_slots,
};

static PyMethodDef functions[] = { { "_symbol", module_symbol, METH_VARARGS, NULL },
                                   { NULL, NULL, 0, NULL } };

int ext_tensor_init(PyObject *module, struct ext_state *state)
{
    state->exchange = PyDict_New();
    state->max_version =
        Py_BuildValue("{O:(ii)}", state->names.max_version, DLPACK_MAJOR, DLPACK_MINOR);
    if (state->exchange == NULL || state->max_version == NULL)
        return -1;
    return ext_add_type(module, &tensor_spec, &state->tensor_type) < 0
               ? -1
               : PyModule_AddFunctions(module, functions);
}
