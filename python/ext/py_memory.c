/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a device: an allocation lives as long as a tensor in it, even if its device is closed
 * earlier.
 */
#include "py_ext.h"

struct memory {
    PyObject_HEAD struct ext_device *device;
    uint64_t addr;
};

PyObject *ext_memory_new(struct ext_device *device, PyObject *shape, PyObject *dtype)
{
    struct ext_state *state = device->state;
    uint32_t shapes[PTO_MAX_DIMS];
    struct pto_tensor tensor;
    struct memory *memory;
    PyObject *result = NULL;
    int code = ext_dtype_code(state, dtype);
    int ndims = code < 0 ? -1 : ext_shape(state, shape, shapes);
    int status;

    if (ndims < 0)
        return NULL;
    tensor = (pto_tensor_external)(NULL, shapes, (uint32_t)ndims, (enum pto_dtype)code);
    if (tensor.ndims == 0)
        return ext_raise_text(state, PTO_EINVAL,
                              "a tensor of that shape is too large for its strides");
    memory = (struct memory *)PyType_GenericAlloc(state->memory_type, 0);
    if (memory == NULL)
        return NULL;
    status = pto_mem_alloc(device->device, tensor.size != 0 ? tensor.size : 1, &memory->addr);
    if (status >= 0) {
        memory->device = (struct ext_device *)Py_NewRef((PyObject *)device);
        device->memory_count++;
        tensor.addr = memory->addr;
        result = ext_tensor_new(state, &tensor, (PyObject *)memory, false);
        if (result != NULL && device->is_remote)
            ext_tensor_set_remote(result);
    } else {
        struct pto_error error;

        pto_error_init(&error);
        (void)pto_mem_explain(device->device, &error);
        (void)ext_raise_text(state, status, "%llu bytes of device memory: %.400s",
                             (unsigned long long)tensor.size,
                             error.status == status ? error.text : pto_strerror(status));
    }
    Py_DECREF((PyObject *)memory);
    return result;
}

/*
 * Prints that an allocation is damaged. No exception is possible, because the allocation is freed
 * by the garbage collector.
 */
static void memory_report(struct ext_state *state, int status, const struct pto_error *error,
                          PyObject *self)
{
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    (void)ext_raise(state, status, error);
    PyErr_WriteUnraisable((PyObject *)Py_TYPE(self));
    PyErr_Restore(type, value, traceback);
}

static void memory_free(PyObject *self)
{
    struct memory *memory = (struct memory *)self;
    struct ext_device *device = memory->device;
    PyTypeObject *type = Py_TYPE(self);
    struct pto_error error;

    if (device != NULL) {
        int status;

        pto_error_init(&error);
        status = pto_mem_free(device->device, memory->addr, &error);
        /* A lost device has no memory left to free. */
        if (status < 0 && status != PTO_EFORKED && status != PTO_ELOST && status != PTO_EPEER)
            memory_report(device->state, status, &error, self);
        device->memory_count--;
        ext_device_forget(device);
        Py_DECREF((PyObject *)device); /* mutation: lost-reference */
    }
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyType_Slot memory_slots[] = {
    { Py_tp_doc, "An allocation of a device, kept alive by its tensors." },
    { Py_tp_dealloc, memory_free },
    { 0, NULL },
};

static PyType_Spec memory_spec = {
    .name = "pto._pto.Memory",
    .basicsize = sizeof(struct memory),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = memory_slots,
};

int ext_memory_init(PyObject *module, struct ext_state *state)
{
    state->memory_type = (PyTypeObject *)ext_make_type(module, &memory_spec);
    return state->memory_type == NULL ? -1 : 0;
}
