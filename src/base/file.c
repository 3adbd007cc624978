/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic.h"
#include "pto/status.h"

/* Closes the file and keeps errno. */
static int fail(int file, int number)
{
    if (file >= 0)
        close(file);
    errno = number;
    return number == ENOMEM ? PTO_ENOMEM : PTO_ESYSTEM;
}

int file_read(const char *path, size_t max, char **bytes_out, size_t *size_out)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat about;
    size_t size = 0;
    size_t room;
    char *bytes;

    if (file < 0 || fstat(file, &about) != 0)
        return fail(file, errno);
    if (!S_ISREG(about.st_mode))
        return fail(file, EINVAL);
    if ((uint64_t)about.st_size > max)
        return fail(file, EFBIG);
    room = (size_t)about.st_size;
    bytes = malloc(room + 1);
    if (bytes == NULL)
        return fail(file, ENOMEM);
    while (size < room) {
        ssize_t got = read(file, bytes + size, room - size);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            int number = errno;

            free(bytes);
            return fail(file, number);
        }
        if (got == 0) /* it has become shorter */
            break;
        size += (size_t)got;
    }
    close(file);
    bytes[size] = '\0';
    *bytes_out = bytes;
    *size_out = size;
    return PTO_OK;
}

bool file_put(int file, const void *bytes, size_t size)
{
    const char *at = bytes;

    while (size != 0) {
        ssize_t done = write(file, at, size);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        at += done;
        size -= (size_t)done;
    }
    return true;
}

static void sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];
    int file;

    snprintf(folder, sizeof(folder), "%.*s", slash != NULL ? (int)(slash - path) + 1 : 1,
             slash != NULL ? path : ".");
    file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file >= 0) {
        (void)fsync(file); /* not every file system can */
        close(file);
    }
}

/* A new file beside the target, under a name that nobody else has. Its descriptor or -1. */
static int open_beside(const char *target, char *name, size_t name_bytes)
{
    static struct a32 counter; /* of this process: threads write, too */

    for (int attempt = 0; attempt < 100; attempt++) {
        int file;

        snprintf(name, name_bytes, "%s.%ld-%u.part", target, (long)getpid(),
                 a32_add_relaxed(&counter, 1));
        file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file >= 0 || errno != EEXIST)
            return file;
    }
    return -1;
}

static int write_into(const char *path, const void *bytes, size_t size)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);

    if (file < 0 || !file_put(file, bytes, size))
        return fail(file, errno);
    return close(file) == 0 ? PTO_OK : fail(-1, errno);
}

int file_write(const char *path, const void *bytes, size_t size)
{
    char target[PATH_MAX];
    char temporary[PATH_MAX + 40];
    struct stat about;
    bool is_written;
    int file;

    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode))
        return write_into(path, bytes, size);
    if (realpath(path, target) == NULL) { /* not there yet */
        if (strlen(path) >= sizeof(target))
            return fail(-1, ENAMETOOLONG);
        strcpy(target, path);
    }
    file = open_beside(target, temporary, sizeof(temporary));
    if (file < 0)
        return fail(-1, errno);
    is_written = file_put(file, bytes, size) && fsync(file) == 0;
    if (!is_written || close(file) != 0 || rename(temporary, target) != 0) {
        int number = errno;

        unlink(temporary);
        return fail(is_written ? -1 : file, number);
    }
    sync_folder_of(target);
    return PTO_OK;
}

int file_make_folder(const char *path)
{
    char name[PATH_MAX];
    size_t length = strlen(path);

    if (length == 0 || length >= sizeof(name))
        return fail(-1, length == 0 ? ENOENT : ENAMETOOLONG);
    memcpy(name, path, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (name[i] != '/' && name[i] != '\0')
            continue;

        char kept = name[i];

        name[i] = '\0';
        if (mkdir(name, 0777) != 0 && errno != EEXIST)
            return fail(-1, errno);
        name[i] = kept;
    }
    return PTO_OK;
}
