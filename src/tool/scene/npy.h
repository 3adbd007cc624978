/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes NumPy's .npy files, versions 1 to 3. Types that NumPy lacks (bfloat16, the small
 * floats) are stored as raw bytes, V2 and V1, as the usual extension types are; unsigned integers
 * of the same size are accepted as well.
 */
#ifndef PTO_NPY_H
#define PTO_NPY_H

#include <stddef.h>

#include "pto/tensor.h"
#include "base/error.h"

struct npy {
    uint32_t ndims; /* a scalar has shape [1] */
    uint32_t shapes[PTO_MAX_DIMS];
    char kind; /* kind of the elements in NumPy: f, i, u, b or V */
    uint32_t item_bytes;
    uint64_t count; /* number of elements */
    void *data;     /* row-major, little-endian; points into `file` */
    void *file;     /* buffer that scene_npy_free frees */
};

/* Reads a file. Error messages begin with `path`. */
int scene_npy_read(const char *path, struct npy *npy, struct pto_error *error);
/*
 * Parses a file that is in memory. Takes ownership of `bytes`, also on failure, and frees it with
 * free(). Error messages begin with `name`.
 */
int scene_npy_parse(const char *name, void *bytes, size_t size, struct npy *npy,
                    struct pto_error *error);
void scene_npy_free(struct npy *npy);

/* Whether the elements can be read as that type. */
bool scene_npy_fits(const struct npy *npy, enum pto_dtype dtype);
/* Returns the data type of the elements; -1: it is not one of ours. */
int scene_npy_dtype(const struct npy *npy);

int scene_npy_write(const char *path, enum pto_dtype dtype, const uint32_t *shapes, uint32_t ndims,
                    const void *data, struct pto_error *error);

#endif
