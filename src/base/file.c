/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for nftw, secure_getenv */
#endif

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

enum { LINKS_MAX = 40 };

/* Closes the file and preserves errno. */
static int file_fail(int file, int number)
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
        return file_fail(file, errno);
    if (!S_ISREG(about.st_mode))
        return file_fail(file, EINVAL);
    if ((uint64_t)about.st_size > max)
        return file_fail(file, EFBIG);
    room = (size_t)about.st_size;
    bytes = malloc(room + 1);
    if (bytes == NULL)
        return file_fail(file, ENOMEM);
    while (size < room) {
        ssize_t got = read(file, bytes + size, room - size);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            int number = errno;

            free(bytes);
            return file_fail(file, number);
        }
        if (got == 0) /* end of the file: it has become shorter since its size was read */
            break;
        size += (size_t)got;
    }
    close(file);
    bytes[size] = '\0';
    *bytes_out = bytes;
    *size_out = size;
    return PTO_OK;
}

int file_load(const char *path, size_t max, char **bytes_out, size_t *size_out,
              struct pto_error *error)
{
    int status = file_read(path, max, bytes_out, size_out);

    if (status == PTO_OK)
        return PTO_OK;
    if (status == PTO_ENOMEM)
        return error_setf(error, status, "not enough memory for %.1000s", path);
    if (errno == EINVAL)
        return error_setf(error, PTO_EINVAL, "%.1000s is not a file", path);
    if (errno == EFBIG)
        return error_setf(error, PTO_EINVAL, "%.1000s has more than %zu bytes", path, max);
    return error_setf(error, status, "%.1000s cannot be read: %s", path, strerror(errno));
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
        (void)fsync(file); /* syncing may fail: not every file system supports it */
        close(file);
    }
}

/*
 * Creates a new file under an unused name, in the folder of the target. Returns its descriptor, or
 * -1.
 */
static int open_temporary(struct file_part *part, uint32_t mode)
{
    for (int attempt = 0; attempt < 100; attempt++) {
        uint64_t number;
        int file;

        if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
            return -1;
        snprintf(part->name, sizeof(part->name), "%s.%ld-%016llx.part", part->target,
                 (long)getpid(), (unsigned long long)number);
        file = open(part->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (file >= 0 || errno != EEXIST)
            return file;
    }
    return -1;
}

static bool file_is_trusted(const struct stat *about)
{
    return about->st_uid == geteuid() || about->st_uid == 0;
}

/* Replaces the path of a symbolic link by its target. False with errno set. */
static bool read_link(char target[PATH_MAX])
{
    char link[PATH_MAX];
    ssize_t length = readlink(target, link, sizeof(link) - 1);
    const char *slash = strrchr(target, '/');
    size_t folder = slash != NULL ? (size_t)(slash - target) + 1 : 0;

    if (length < 0)
        return false;
    link[length] = '\0';
    if (link[0] == '/')
        folder = 0;
    if (folder + (size_t)length >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(target + folder, link, (size_t)length + 1);
    return true;
}

/*
 * Finds the file to write. Follows symbolic links of this user and of root only: a user who can
 * write to the folder could otherwise choose which of our files is overwritten. Sets `is_placed` if
 * the target has to be written in place: a device, a pipe, or the target of a link in /proc.
 */
static int find_target(const char *path, struct file_part *part)
{
    struct stat about;

    if (strlen(path) >= sizeof(part->target))
        return file_fail(-1, ENAMETOOLONG);
    strcpy(part->target, path);
    part->is_placed = false;
    for (int links = 0; lstat(part->target, &about) == 0; links++) {
        bool is_link = S_ISLNK(about.st_mode);

        if ((is_link || S_ISFIFO(about.st_mode)) && !file_is_trusted(&about))
            return file_fail(-1, EPERM);
        part->is_placed =
            is_link ? strncmp(part->target, "/proc/", 6) == 0 : !S_ISREG(about.st_mode);
        if (!is_link || part->is_placed)
            return PTO_OK;
        if (links == LINKS_MAX || !read_link(part->target))
            return file_fail(-1, links == LINKS_MAX ? ELOOP : errno);
    }
    return PTO_OK; /* the target does not exist yet, so it can be created */
}

int file_part_open(const char *path, uint32_t mode, struct file_part *part)
{
    int status = find_target(path, part);

    if (status < 0)
        return status;
    part->file = part->is_placed ? open(part->target, O_WRONLY | O_NOCTTY | O_CLOEXEC)
                                 : open_temporary(part, mode);
    return part->file >= 0 ? PTO_OK : file_fail(-1, errno);
}

int file_part_close(struct file_part *part, bool is_good)
{
    int number = is_good ? 0 : errno;

    if (is_good && !part->is_placed && fsync(part->file) != 0)
        number = errno;
    if (close(part->file) != 0 && number == 0)
        number = errno;
    if (part->is_placed)
        return number == 0 ? PTO_OK : file_fail(-1, number);
    if (number == 0 && rename(part->name, part->target) != 0)
        number = errno;
    if (number != 0) {
        unlink(part->name);
        return file_fail(-1, number);
    }
    sync_folder_of(part->target);
    return PTO_OK;
}

static int write_as(const char *path, uint32_t mode, const void *bytes, size_t size)
{
    struct file_part part;
    int status = file_part_open(path, mode, &part);

    return status < 0 ? status : file_part_close(&part, file_put(part.file, bytes, size));
}

int file_write(const char *path, const void *bytes, size_t size)
{
    return write_as(path, 0666, bytes, size);
}

int file_write_private(const char *path, const void *bytes, size_t size)
{
    return write_as(path, 0600, bytes, size);
}

int file_make_folder(const char *path)
{
    char name[PATH_MAX];
    size_t length = strlen(path);

    if (length == 0 || length >= sizeof(name))
        return file_fail(-1, length == 0 ? ENOENT : ENAMETOOLONG);
    memcpy(name, path, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (name[i] != '/' && name[i] != '\0')
            continue;

        char kept = name[i];

        name[i] = '\0';
        if (mkdir(name, 0700) != 0 && errno != EEXIST)
            return file_fail(-1, errno);
        name[i] = kept;
    }
    return PTO_OK;
}

static int file_remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about;
    (void)kind;
    (void)where;
    (void)remove(path);
    return 0;
}

void file_remove_tree(const char *path)
{
    (void)nftw(path, file_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *file_temporary_folder(void)
{
    const char *folder = secure_getenv("TMPDIR");

    return folder != NULL && folder[0] == '/' ? folder : "/tmp";
}
