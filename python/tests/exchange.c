/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors by DLPack's C functions, as newer array libraries have them: exchange_capsule() is what
 * their types hand out. The objects that it is asked for are memoryviews of bytes here: one dimension of uint8.
 * `dtype` and `flags` are what the next tensor says of itself; `alive` counts those that are not deleted.
 */
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#include <stdlib.h>

#include "py_dlpack.h"

struct held {
    struct dlpack_versioned versioned;
    Py_buffer view;
    int64_t shape[6];
    int64_t strides[6];
};

__attribute__((visibility("default"))) struct dlpack_type dtype = { DLPACK_UINT, 8, 1 };
__attribute__((visibility("default"))) uint64_t flags;
__attribute__((visibility("default"))) uint32_t major = 1;
__attribute__((visibility("default"))) int32_t device = 1;
__attribute__((visibility("default"))) int64_t stride = 1;
__attribute__((visibility("default"))) int alive;
__attribute__((visibility("default"))) int asked;

static void delete (struct dlpack_versioned *self)
{
    struct held *held = self->context;

    PyBuffer_Release(&held->view);
    free(held);
    alive--;
}

static int from_object(void *object, struct dlpack_versioned **out)
{
    PyObject *data = PyObject_GetAttrString(object, "data");
    struct held *held = calloc(1, sizeof(*held));
    int status =
        data == NULL || held == NULL ? -1 : PyObject_GetBuffer(data, &held->view, PyBUF_SIMPLE);

    asked++;
    Py_XDECREF(data);
    if (status < 0) {
        free(held);
        return -1;
    }
    held->shape[0] = held->view.len / ((dtype.bits * dtype.lanes + 7) / 8) / stride;
    held->strides[0] = stride;
    held->versioned = (struct dlpack_versioned){
        .version = { major, 3 },
        .context = held,
        .deleter = delete,
        .flags = flags,
        .tensor = { held->view.buf, { device, 0 }, 1, dtype, held->shape, held->strides, 0 },
    };
    alive++;
    *out = &held->versioned;
    return 0;
}

static struct dlpack_exchange newest,
    exchange = { .version = { 1, 3 }, .from_object = from_object };

/* With one of a version to come before it. */
__attribute__((visibility("default"))) PyObject *exchange_capsule(void)
{
    newest.version = (struct dlpack_version){ 2, 0 };
    newest.previous = &exchange;
    return PyCapsule_New(&newest, "dlpack_exchange_api", NULL);
}
