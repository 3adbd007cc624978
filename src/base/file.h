/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files, read and written. A function that fails gives PTO_ESYSTEM or PTO_ENOMEM and sets errno. */
#ifndef PTO_FILE_H
#define PTO_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pto_error;

/*
 * Reads a regular file; a zero follows its bytes. The caller frees *bytes_out.
 * More than `max` bytes: EFBIG. Anything but a regular file: EINVAL.
 */
int file_read(const char *path, size_t max, char **bytes_out, size_t *size_out);
/* As file_read; a failure is a sentence in `error`, and the two above are PTO_EINVAL. */
int file_load(const char *path, size_t max, char **bytes_out, size_t *size_out,
              struct pto_error *error);

/*
 * A file that is written whole or not at all: beside its place first, to the
 * disk, then renamed. What is there and is no regular file is written to, not
 * replaced. What a link names stays linked, if the link is this user's or
 * root's; another user's is refused with EPERM.
 */
struct file_part {
    int file;       /* to be written to */
    bool is_placed; /* it is the target itself */
    char target[PATH_MAX];
    char name[PATH_MAX + 48]; /* until it is whole */
};

/* `mode` as open has it, for a new file. */
int file_part_open(const char *path, uint32_t mode, struct file_part *part);
/* `is_good` false: nothing is kept, and errno says why. Closes it in any case. */
int file_part_close(struct file_part *part, bool is_good);

/* The same in one step. */
int file_write(const char *path, const void *bytes, size_t size);
/* And for this user's eyes only. */
int file_write_private(const char *path, const void *bytes, size_t size);

/* All of the bytes into an open file, or false with errno set. */
bool file_put(int file, const void *bytes, size_t size);

/* Makes a folder and those above it, for this user only. */
int file_make_folder(const char *path);
/* Removes a folder and all that is in it, as far as that goes; links are not followed. */
void file_remove_tree(const char *path);
/* Where temporary files go: TMPDIR, if it is an absolute path. */
const char *file_temporary_folder(void);

#endif
