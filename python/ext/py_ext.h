/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The extension module pto._pto: what its files share. It holds no logic: a method parses,
 * releases the interpreter's lock, calls one pto_ function and converts the result.
 *
 * Everything hangs off the module's state, one for each interpreter. Objects keep a pointer
 * to it: their type keeps the module alive.
 */
#ifndef PTO_PY_EXT_H
#define PTO_PY_EXT_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#include <pto/pto.h>

#include "py_dlpack.h"

/* Classes of exceptions: X(name, base beside Error or NULL, documentation) */
#define EXT_ERROR_MAP(X)                                                                          \
    X(InvalidArgument, PyExc_ValueError, "A call was asked for something impossible.")            \
    X(Timeout, PyExc_TimeoutError, "It was not over before its deadline, or came to a halt.")     \
    X(OutOfMemory, PyExc_MemoryError, "There is no memory left, or none of that kind.")           \
    X(Canceled, NULL, "The run or the build was ended early, on request.")                        \
    X(PeerGone, PyExc_ConnectionError, "A process that takes part is gone.")                      \
    X(BuildError, NULL, "The compiler refused a source; `output` is what it printed, unchanged.") \
    X(Crash, NULL, "A kernel or an orchestration crashed.")                                       \
    X(Unsupported, PyExc_NotImplementedError, "This backend cannot do it.")

enum ext_error_class {
#define X(name, base, text) EXT_##name,
    EXT_ERROR_MAP(X)
#undef X
        EXT_ERROR_CLASSES
};

/* Names that are looked up often: X(variable, text) */
#define EXT_NAME_MAP(X)                          \
    X(dlpack, "__dlpack__")                      \
    X(dlpack_device, "__dlpack_device__")        \
    X(exchange_api, "__dlpack_c_exchange_api__") \
    X(max_version, "max_version")                \
    X(name, "name")                              \
    X(type_name, "__name__")

struct ext_state {
    PyObject *error; /* pto.Error */
    PyObject *error_class[EXT_ERROR_CLASSES];
    PyObject *dtype[PTO_DTYPE_COUNT];
    PyTypeObject *dtype_type;
    PyTypeObject *tensor_type;
    PyTypeObject *argument_type;
    PyTypeObject *callable_type;
    PyTypeObject *device_type;
    PyTypeObject *report_type;
    PyObject *exchange;    /* dict: type -> capsule, or None: it has no exchange functions */
    PyObject *max_version; /* of DLPack, a tuple */
#define X(variable, text) PyObject *variable;
    struct {
        EXT_NAME_MAP(X)
    } names;
#undef X
};

/* ---- py_module.c ---- */

/* The state of the module that a type of this extension, or a class derived from it, is from. */
struct ext_state *ext_state_of(PyTypeObject *type);

/* Makes a type of the module and adds it. */
int ext_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type_out);

/* ---- py_error.c ---- */

int ext_error_init(PyObject *module, struct ext_state *state);
/* Raises the exception for a status, with the fields of `error`, which may be NULL. Returns NULL. */
PyObject *ext_raise(struct ext_state *state, int status, const struct pto_error *error);
/* The same with a sentence of our own. */
PyObject *ext_raise_text(struct ext_state *state, int status, const char *format, ...);
/* Makes the exception without raising it. */
PyObject *ext_exception(struct ext_state *state, int status, const struct pto_error *error);

/* ---- py_dtype.c ---- */

int ext_dtype_init(PyObject *module, struct ext_state *state);
/* The code of a data type given as pto.dtype, its name, its code, or a dtype of numpy or torch; -1: raised. */
int ext_dtype_code(struct ext_state *state, PyObject *object);
/* DLPack's description; false: there is none. */
bool ext_dtype_to_dlpack(uint32_t dtype, struct dlpack_type *type_out);
/* From DLPack's description; -1: the runtime has no such type. */
int ext_dtype_from_dlpack(struct dlpack_type type);
/* From a format of the buffer protocol; -1: the runtime has no such type. */
int ext_dtype_from_format(const char *format, Py_ssize_t itemsize);
/* For the buffer protocol; NULL: it has no format of its own, and raw bytes are exported. */
const char *ext_dtype_format(uint32_t dtype);

/* ---- py_tensor.c ---- */

/* Keeps the memory of a tensor alive; released with the interpreter's lock held. */
struct ext_hold {
    enum {
        EXT_HOLD_NOTHING,
        EXT_HOLD_OBJECT,
        EXT_HOLD_BUFFER,
        EXT_HOLD_MANAGED,
        EXT_HOLD_VERSIONED
    } kind;
    enum pto_direction direction; /* of an argument; PTO_DIR_SCALAR: not known */
    union {
        PyObject *object;
        Py_buffer buffer;
        struct dlpack_managed *managed;
        struct dlpack_versioned *versioned;
    };
};

/* A tensor that came from Python, and what keeps it. */
struct ext_tensor {
    struct pto_tensor tensor;
    struct ext_hold hold;
    bool is_readonly;
};

int ext_tensor_init(PyObject *module, struct ext_state *state);
/*
 * Takes a tensor from anything: pto.Tensor, DLPack, the buffer protocol. `dtype` -1: the object's own.
 * 0, or -1 with an exception. *out is to be released.
 */
int ext_tensor_take(struct ext_state *state, PyObject *object, int dtype, struct ext_tensor *out);
void ext_hold_release(struct ext_hold *hold);
/* A pto.Tensor of a descriptor that keeps `owner` alive, which may be NULL. */
PyObject *ext_tensor_new(struct ext_state *state, const struct pto_tensor *tensor, PyObject *owner,
                         bool is_readonly);
/* Shapes from a tuple, a list or an int. Returns how many, or -1 with an exception. */
int ext_shape(struct ext_state *state, PyObject *object, uint32_t shapes[PTO_MAX_DIMS]);

/* ---- py_args.c ---- */

/*
 * The arguments of a run: descriptors and scalars as pto_entry wants them, and what keeps them.
 * `room` of each array are there from the beginning; begin with ext_args_init.
 */
enum { EXT_ARGS_ROOM = 8 };

struct ext_args {
    struct pto_tensor *tensor;
    struct ext_hold *hold;
    uint64_t *scalar;
    uint32_t tensor_count;
    uint32_t scalar_count;
    uint32_t tensor_room;
    struct pto_tensor tensors[EXT_ARGS_ROOM];
    struct ext_hold holds[EXT_ARGS_ROOM];
    uint64_t scalars[PTO_ENTRY_SCALARS_MAX];
};

int ext_args_init_types(PyObject *module, struct ext_state *state);
void ext_args_init(struct ext_args *args);
/*
 * Takes the arguments of a call, tensors and scalars in any order. `signature` may be NULL: directions
 * are not known. 0, or -1 with an exception; to be released in any case.
 */
int ext_args_take(struct ext_state *state, struct ext_args *args, PyObject *const *objects,
                  Py_ssize_t count, const enum pto_direction *signature, uint32_t signature_count);
void ext_args_release(struct ext_args *args);

/* ---- py_callable.c ---- */

struct ext_callable {
    PyObject_HEAD struct ext_state *state;
    struct pto_callable *callable; /* NULL: closed */
    const enum pto_direction *signature;
    uint32_t signature_count;
    PyObject *owner; /* what its code needs to stay; may be NULL */
};

int ext_callable_init(PyObject *module, struct ext_state *state);

/* ---- py_device.c, py_report.c ---- */

int ext_device_init(PyObject *module, struct ext_state *state);
int ext_report_init(PyObject *module, struct ext_state *state);
PyObject *ext_report_new(struct ext_state *state, const struct pto_run_report *report);

#endif
