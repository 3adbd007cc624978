/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DLPack: the structs by which array libraries exchange tensors, reduced to the parts used here,
 * whose layout is fixed; Debian's header is too old.
 */
#ifndef PTO_PY_DLPACK_H
#define PTO_PY_DLPACK_H

#include <stdint.h>

enum { DLPACK_MAJOR = 1, DLPACK_MINOR = 3 };

enum { DLPACK_CPU = 1 };

enum {
    DLPACK_INT = 0,
    DLPACK_UINT = 1,
    DLPACK_FLOAT = 2,
    DLPACK_BFLOAT = 4,
    DLPACK_BOOL = 6,
    DLPACK_FLOAT8_E4M3FN = 10,
    DLPACK_FLOAT8_E8M0FNU = 14,
    DLPACK_FLOAT4_E2M1FN = 17
};

enum { DLPACK_READ_ONLY = 1, DLPACK_IS_COPIED = 2, DLPACK_SUBBYTE_PADDED = 4 };

struct dlpack_version {
    uint32_t major;
    uint32_t minor;
};

struct dlpack_device {
    int32_t type;
    int32_t id;
};

struct dlpack_type {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
};

struct dlpack_tensor {
    void *data;
    struct dlpack_device device;
    int32_t ndim;
    struct dlpack_type dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: row-major */
    uint64_t byte_offset;
};

/* Content of a capsule named "dltensor". */
struct dlpack_managed {
    struct dlpack_tensor tensor;
    void *context;
    void (*deleter)(struct dlpack_managed *self);
};

/* Content of a capsule named "dltensor_versioned", which the functions below exchange. */
struct dlpack_versioned {
    struct dlpack_version version;
    void *context;
    void (*deleter)(struct dlpack_versioned *self);
    uint64_t flags;
    struct dlpack_tensor tensor;
};

/* Content of the capsule named "dlpack_exchange_api" of a type: __dlpack_c_exchange_api__. */
struct dlpack_exchange {
    struct dlpack_version version;
    const struct dlpack_exchange *previous; /* an older version; NULL: none */
    void *allocate;
    int (*from_object)(void *object, struct dlpack_versioned **out);
    int (*to_object)(struct dlpack_versioned *tensor, void **object_out);
    int (*describe)(void *object, struct dlpack_tensor *out);
    int (*current_stream)(int32_t device_type, int32_t device_id, void **stream_out);
};

#endif
