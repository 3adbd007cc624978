/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes whole files. */
#include "scene/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pto/pto.h"

static int refuse_file(struct fault *fault, const char *path, const char *what)
{
    return fault_tell(fault, PTO_ESYSTEM, "%.1000s cannot be %s: %s", path, what, strerror(errno));
}

static int read_all(int file, char *bytes, size_t size)
{
    size_t at = 0;

    while (at < size) {
        ssize_t got = read(file, bytes + at, size - at);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            errno = got == 0 ? EIO : errno; /* it became shorter meanwhile */
            return -1;
        }
        at += (size_t)got;
    }
    return 0;
}

int scene_bytes_read(const char *path, size_t max, void **bytes_out, size_t *size_out,
                     struct fault *fault)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    char *bytes = NULL;
    int status = PTO_OK;

    if (file < 0)
        return refuse_file(fault, path, "read");
    if (fstat(file, &info) < 0) {
        status = refuse_file(fault, path, "read");
    } else if (!S_ISREG(info.st_mode)) {
        status = fault_tell(fault, PTO_EINVAL, "%.1000s is not a file", path);
    } else if ((uint64_t)info.st_size > max) {
        status = fault_tell(fault, PTO_EINVAL, "%.1000s has more than %zu bytes", path, max);
    } else {
        bytes = malloc((size_t)info.st_size + 1);
        if (bytes == NULL)
            status = fault_tell(fault, PTO_ENOMEM, "not enough memory for %.1000s", path);
        else if (read_all(file, bytes, (size_t)info.st_size) < 0)
            status = refuse_file(fault, path, "read");
    }
    close(file);
    if (status < 0) {
        free(bytes);
        return status;
    }
    bytes[info.st_size] = '\0';
    *bytes_out = bytes;
    *size_out = (size_t)info.st_size;
    return PTO_OK;
}

static int write_all(int file, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t put = write(file, bytes, size);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -1;
        bytes += put;
        size -= (size_t)put;
    }
    return 0;
}

/* Not a regular file, /dev/stdout for instance: written to, not replaced. */
static int write_in_place(const char *path, const void *bytes, size_t size, struct fault *fault)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);

    if (file < 0)
        return refuse_file(fault, path, "written");
    if (write_all(file, bytes, size) < 0) {
        (void)refuse_file(fault, path, "written");
        close(file);
        return fault->status;
    }
    return close(file) < 0 ? refuse_file(fault, path, "written") : PTO_OK;
}

int scene_bytes_write(const char *path, const void *bytes, size_t size, struct fault *fault)
{
    char part[PATH_MAX];
    struct stat info;
    int file;

    if (lstat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return write_in_place(path, bytes, size, fault);
    if (snprintf(part, sizeof(part), "%s.%d.part", path, (int)getpid()) >= (int)sizeof(part)) {
        errno = ENAMETOOLONG;
        return refuse_file(fault, path, "written");
    }
    file = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0)
        return refuse_file(fault, path, "written");
    if (write_all(file, bytes, size) < 0) {
        (void)refuse_file(fault, path, "written");
        close(file);
        unlink(part);
        return fault->status;
    }
    if (close(file) < 0 || rename(part, path) < 0) {
        (void)refuse_file(fault, path, "written");
        unlink(part);
        return fault->status;
    }
    return PTO_OK;
}
