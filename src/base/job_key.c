/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and checks job keys: src/base/job_key.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "base/job_key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static const char digits[] = "0123456789abcdef";

int job_key_make(struct job_key *key_out, struct pto_error *error)
{
    struct job_key key;

    if (getrandom(&key, sizeof(key), 0) != (ssize_t)sizeof(key))
        return error_setf(error, PTO_ESYSTEM, "no random numbers: %s", strerror(errno));
    *key_out = key;
    explicit_bzero(&key, sizeof(key));
    return PTO_OK;
}

/* ---- the text of a key ---- */

bool job_key_parse(const char *text, size_t size, struct job_key *key_out)
{
    struct job_key key;

    if (size != JOB_KEY_TEXT_BYTES || text[size - 1] != '\n')
        return false;
    for (size_t i = 0; i < JOB_KEY_BYTES; i++) {
        const char *high = memchr(digits, text[2 * i], 16),
                   *low = memchr(digits, text[2 * i + 1], 16);

        if (high == NULL || low == NULL)
            return false;
        key.byte[i] = (uint8_t)((high - digits) << 4 | (low - digits));
    }
    *key_out = key;
    explicit_bzero(&key, sizeof(key));
    return true;
}

void job_key_format(const struct job_key *key, char text[JOB_KEY_TEXT_BYTES])
{
    for (size_t i = 0; i < JOB_KEY_BYTES; i++) {
        text[2 * i] = digits[key->byte[i] >> 4];
        text[2 * i + 1] = digits[key->byte[i] & 0xf];
    }
    text[JOB_KEY_TEXT_BYTES - 1] = '\n';
}

/* ---- files ---- */

/*
 * Reads up to `room` bytes: from the begin if the descriptor is a file, else the next ones. Returns
 * the number of bytes, or -1 with errno.
 */
static ssize_t job_key_load(int file, char *text, size_t room)
{
    size_t used = 0;
    bool is_stream = false;

    while (used < room) {
        ssize_t got = is_stream ? read(file, text + used, room - used)
                                : pread(file, text + used, room - used, (off_t)used);

        if (got < 0 && errno == ESPIPE && !is_stream) {
            is_stream = true;
            continue;
        }
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -1 : (ssize_t)used;
        used += (size_t)got;
    }
    return (ssize_t)used;
}

/* Reads the key of a descriptor; `name` is what errors call it. */
static int job_key_read(int file, const char *name, struct job_key *key_out,
                        struct pto_error *error)
{
    char text[JOB_KEY_TEXT_BYTES + 1]; /* one byte more than a key, to find a longer text */
    ssize_t size = job_key_load(file, text, sizeof(text));
    int number = errno, status = PTO_OK;

    if (size < 0)
        status =
            error_setf(error, PTO_ESYSTEM, "%.1000s cannot be read: %s", name, strerror(number));
    else if (!job_key_parse(text, (size_t)size, key_out))
        status = error_setf(error, PTO_EINVAL,
                            "%.1000s is not a job key, which is 64 lower-case hexadecimal digits "
                            "and a newline",
                            name);
    explicit_bzero(text, sizeof(text));
    return status;
}

/* Checks the owner and the permissions of a key file. */
static int job_key_check_file(const char *path, const struct stat *about, struct pto_error *error)
{
    unsigned mode = (unsigned)about->st_mode & 07777u;

    if (!S_ISREG(about->st_mode))
        return error_setf(error, PTO_EINVAL, "the job key %.1000s is not a regular file", path);
    if (about->st_uid != geteuid())
        return error_setf(error, PTO_EINVAL,
                          "the job key %.1000s belongs to user %u, not to this user, %u", path,
                          (unsigned)about->st_uid, (unsigned)geteuid());
    if (mode != 0600 && mode != 0400) /* mutation: open-key */
        return error_setf(error, PTO_EINVAL,
                          "the job key %.1000s has the permissions %o, not 600 or 400; make a new "
                          "key, or run `chmod 600` on the file if only you have read it",
                          path, mode);
    return PTO_OK;
}

int job_key_read_file(const char *path, struct job_key *key_out, struct pto_error *error)
{
    struct stat about;
    /* O_NONBLOCK: do not wait for a writer if the path is a named pipe */
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int status;

    if (file < 0 || fstat(file, &about) != 0)
        status = error_setf(error, PTO_ESYSTEM, "the job key %.1000s cannot be opened: %s", path,
                            strerror(errno));
    else
        status = job_key_check_file(path, &about, error);
    if (status >= 0)
        status = job_key_read(file, path, key_out, error);
    if (file >= 0)
        close(file);
    return status;
}

/* ---- descriptors ---- */

/* Replaces a pipe from which the key was read by a file with the key's text. */
static int job_key_replace_pipe(int descriptor, const struct job_key *key, struct pto_error *error)
{
    char text[JOB_KEY_TEXT_BYTES];
    int flags = fcntl(descriptor, F_GETFD);
    int file = memfd_create("pto-job-key", MFD_CLOEXEC);
    bool is_done;

    job_key_format(key, text);
    is_done = file >= 0 && flags >= 0 && file_put(file, text, sizeof(text)) &&
              dup3(file, descriptor, (flags & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0) >= 0;
    explicit_bzero(text, sizeof(text));
    if (!is_done)
        (void)error_setf(error, PTO_ESYSTEM, "the job key cannot be kept: %s", strerror(errno));
    if (file >= 0)
        close(file);
    return is_done ? PTO_OK : PTO_ESYSTEM;
}

int job_key_read_descriptor(int descriptor, struct job_key *key_out, struct pto_error *error)
{
    struct job_key key;
    int status = job_key_read(descriptor, "the descriptor of PTO_KEY_FD", &key, error);

    if (status >= 0 && lseek(descriptor, 0, SEEK_CUR) < 0)
        status = job_key_replace_pipe(descriptor, &key, error);
    if (status >= 0)
        *key_out = key;
    explicit_bzero(&key, sizeof(key));
    return status;
}

int job_key_find(struct job_key *key_out, bool *has_key_out, struct pto_error *error)
{
    const char *path = getenv("PTO_KEY_FILE"), *number = getenv("PTO_KEY_FD");
    bool has_path = path != NULL && path[0] != '\0';
    bool has_number = number != NULL && number[0] != '\0';
    int status;

    *has_key_out = false;
    if (!has_path && !has_number)
        return PTO_OK;
    if (has_path && has_number)
        return error_setf(error, PTO_EINVAL,
                          "PTO_KEY_FILE and PTO_KEY_FD are both set; a job has one key");
    if (has_number && (strspn(number, digits) != strlen(number) || strlen(number) > 6 ||
                       strpbrk(number, "abcdef") != NULL))
        return error_setf(error, PTO_EINVAL, "PTO_KEY_FD is '%.100s', which is not a descriptor",
                          number);
    status = has_path ? job_key_read_file(path, key_out, error)
                      : job_key_read_descriptor(atoi(number), key_out, error);
    *has_key_out = status >= 0;
    return status;
}
