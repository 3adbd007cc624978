/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files, read and written. A function that fails gives PTO_ESYSTEM or PTO_ENOMEM and sets errno. */
#ifndef PTO_FILE_H
#define PTO_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads a regular file; a zero follows its bytes. The caller frees *bytes_out.
 * More than `max` bytes: EFBIG. Anything but a regular file: EINVAL.
 */
int file_read(const char *path, size_t max, char **bytes_out, size_t *size_out);

/*
 * Writes a file whole or not at all: beside its place first, to the disk, then
 * renamed. A place that holds something other than a regular file is written
 * to, not replaced; what a link names stays linked.
 */
int file_write(const char *path, const void *bytes, size_t size);

/* All of the bytes into an open file, or false with errno set. */
bool file_put(int file, const void *bytes, size_t size);

/* Makes a folder and those above it. */
int file_make_folder(const char *path);

#endif
