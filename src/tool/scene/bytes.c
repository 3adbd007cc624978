/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes whole files. */
#include "tool/scene/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pto/build.h"
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

int scene_bytes_write(const char *path, const void *bytes, size_t size, struct fault *fault)
{
    struct pto_error error;
    int status;

    pto_error_init(&error);
    status = pto_file_write(path, bytes, size, &error);
    return status < 0 ? fault_tell(fault, status, "%s", error.text) : PTO_OK;
}
