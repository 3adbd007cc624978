/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes whole files; what goes wrong is told in a sentence. */
#ifndef PTO_BYTES_H
#define PTO_BYTES_H

#include <stddef.h>

#include "tool/scene/fault.h"

/* A zero follows the bytes; the caller frees them. More than `max` bytes are refused. */
int scene_bytes_read(const char *path, size_t max, void **bytes_out, size_t *size_out,
                     struct fault *fault);
/* Written whole or not at all: beside its place, then renamed. */
int scene_bytes_write(const char *path, const void *bytes, size_t size, struct fault *fault);

#endif
