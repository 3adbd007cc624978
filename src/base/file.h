/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes whole files. A function that fails returns PTO_ESYSTEM or PTO_ENOMEM and sets
 * errno.
 */
#ifndef PTO_FILE_H
#define PTO_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pto_error;

/*
 * Reads a regular file and adds a zero byte after its content. The caller frees *bytes_out. errno
 * is EFBIG for more than `max` bytes, EINVAL for anything but a regular file.
 */
int file_read(const char *path, size_t max, char **bytes_out, size_t *size_out);
/* file_read with a message in `error`; PTO_EINVAL if errno is EFBIG or EINVAL. */
int file_load(const char *path, size_t max, char **bytes_out, size_t *size_out,
              struct pto_error *error);

/*
 * A file that is written completely or not at all: the content goes to a temporary file in the same
 * folder, which is synced, then renamed. An existing target that is not a regular file is written
 * in place, not replaced. If the path is a symbolic link of this user or of root, its target is
 * replaced and the link stays; a link of another user is refused with EPERM.
 */
struct file_part {
    int file;       /* descriptor to write to */
    bool is_placed; /* `file` is the target itself, not a temporary file */
    char target[PATH_MAX];
    char name[PATH_MAX + 48]; /* path of the temporary file */
};

/* Opens a file for writing. A new file gets the permissions `mode`. */
int file_part_open(const char *path, uint32_t mode, struct file_part *part);
/*
 * Closes the file and renames it to its target. `is_good` false: discards it; errno has the reason.
 */
int file_part_close(struct file_part *part, bool is_good);

/* Writes a whole file with one call: completely, or not at all. */
int file_write(const char *path, const void *bytes, size_t size);
/* Writes a whole file that only this user can read. */
int file_write_private(const char *path, const void *bytes, size_t size);

/* Writes all of the bytes to an open file, or returns false with errno set. */
bool file_put(int file, const void *bytes, size_t size);

/* Makes a folder and its parents, accessible to this user only. */
int file_make_folder(const char *path);
/* Removes a folder and its content as far as possible; links are not followed. */
void file_remove_tree(const char *path);
/* Returns the folder for temporary files: TMPDIR, if it is an absolute path. */
const char *file_temporary_folder(void);

#endif
