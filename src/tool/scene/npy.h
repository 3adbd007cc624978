/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NumPy's .npy files, versions 1 to 3. Types that NumPy lacks (bfloat16, the
 * small floats) are read from and written as raw bytes, V2 and V1, as the usual
 * extension types are; unsigned integers of the same size are taken, too.
 */
#ifndef PTO_NPY_H
#define PTO_NPY_H

#include <stddef.h>

#include "pto/tensor.h"
#include "base/error.h"

struct npy {
    uint32_t ndims; /* a single number has shape [1] */
    uint32_t shapes[PTO_MAX_DIMS];
    char kind; /* f, i, u, b or V */
    uint32_t item_bytes;
    uint64_t count; /* of elements */
    void *data;     /* row-major, little-endian; in the bytes that were read */
    void *file;     /* what scene_npy_free frees */
};

/* Complaints begin with `name`. */
int scene_npy_read(const char *path, struct npy *npy, struct pto_error *error);
/* Takes over `bytes`, which free() must accept, whatever comes of it. */
int scene_npy_parse(const char *name, void *bytes, size_t size, struct npy *npy,
                    struct pto_error *error);
void scene_npy_free(struct npy *npy);

/* Whether its elements can be read as that type. */
bool scene_npy_fits(const struct npy *npy, enum pto_dtype dtype);
/* The data type that its descr names; -1: none of ours. */
int scene_npy_dtype(const struct npy *npy);

int scene_npy_write(const char *path, enum pto_dtype dtype, const uint32_t *shapes, uint32_t ndims,
                    const void *data, struct pto_error *error);

#endif
