/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every Python since 3.9 exports with the same layout and meaning, though the limited
 * interface declares it only since 3.10 or 3.11: buffers, METH_FASTCALL, the text of a string.
 */
#ifndef PTO_PY_SINCE39_H
#define PTO_PY_SINCE39_H

#include <Python.h>

#if PY_VERSION_HEX < 0x030A0000

/* Python 3.9 ignores these flags; ext_make_type() does what the second one means. */
#define Py_TPFLAGS_IMMUTABLETYPE (1UL << 8)
#define Py_TPFLAGS_DISALLOW_INSTANTIATION (1UL << 7)

#endif

/* Functions that Python 3.9 lacks; newer headers may declare them as functions of its library. */
#undef Py_NewRef
#undef Py_XNewRef
#define Py_NewRef(object) since39_new_ref(object)
#define Py_XNewRef(object) since39_new_ref(object)
#define PyModule_AddObjectRef(module, name, object) since39_add_object(module, name, object)

static inline PyObject *since39_new_ref(PyObject *object)
{
    Py_XINCREF(object);
    return object;
}

static inline int since39_add_object(PyObject *module, const char *name, PyObject *object)
{
    if (PyModule_AddObject(module, name, since39_new_ref(object)) == 0)
        return 0;
    Py_DECREF(object);
    return -1;
}

#if Py_LIMITED_API < 0x030A0000

#define METH_FASTCALL 0x0080

PyAPI_FUNC(const char *) PyUnicode_AsUTF8AndSize(PyObject *unicode, Py_ssize_t *size);

#endif

#if Py_LIMITED_API < 0x030B0000

typedef struct {
    void *buf;
    PyObject *obj; /* owned reference */
    Py_ssize_t len;
    Py_ssize_t itemsize;
    int readonly;
    int ndim;
    char *format;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    Py_ssize_t *suboffsets;
    void *internal;
} Py_buffer;

PyAPI_FUNC(int) PyObject_CheckBuffer(PyObject *object);
PyAPI_FUNC(int) PyObject_GetBuffer(PyObject *object, Py_buffer *view, int flags);
PyAPI_FUNC(void) PyBuffer_Release(Py_buffer *view);

#define PyBUF_SIMPLE 0
#define PyBUF_WRITABLE 0x0001
#define PyBUF_FORMAT 0x0004
#define PyBUF_ND 0x0008
#define PyBUF_STRIDES (0x0010 | PyBUF_ND)
#define PyBUF_C_CONTIGUOUS (0x0020 | PyBUF_STRIDES)
#define PyBUF_F_CONTIGUOUS (0x0040 | PyBUF_STRIDES)
#define PyBUF_ANY_CONTIGUOUS (0x0080 | PyBUF_STRIDES)
#define PyBUF_RECORDS_RO (PyBUF_STRIDES | PyBUF_FORMAT)

#define Py_bf_getbuffer 1

#endif

#endif
