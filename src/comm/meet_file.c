/* SPDX-License-Identifier: Apache-2.0 */
/* The file at which ranks meet: src/comm/meet.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "comm/meet.h"

/* Reads the file. -1: it is not a regular file of this user or of root. */
static ssize_t read_trusted(int file, void *bytes, size_t size)
{
    struct stat info;

    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode) ||
        (info.st_uid != geteuid() && info.st_uid != 0))
        return -1;
    return read(file, bytes, size);
}

int meet_file_open(const char *path, struct meet_root *out)
{
    char bytes[sizeof(*out) + 1];
    ssize_t size;
    int how = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    int file = open(path, O_RDWR | how);

    if (file < 0 && errno != ENOENT)
        file = open(path, O_RDONLY | how);
    if (file < 0)
        return -1;
    size = read_trusted(file, bytes, sizeof(bytes));
    if (size > 0 && meet_is_root(bytes, (size_t)size, out))
        return file;
    close(file);
    return -1;
}

bool meet_file_read(const char *path, struct meet_root *out)
{
    int file = meet_file_open(path, out);

    if (file >= 0)
        close(file);
    return file >= 0;
}

uint64_t meet_find_network(void)
{
    struct stat info;

    return stat("/proc/thread-self/ns/net", &info) == 0 ? (uint64_t)info.st_ino : 0;
}

bool meet_is_elsewhere(int file, const struct meet_root *root)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    uint64_t network = meet_find_network();

    return root->network != 0 && network != 0 && root->network != network &&
           fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool meet_is_in_use(const char *path)
{
    struct meet_root root;
    int file = meet_file_open(path, &root);
    int socket;
    bool is_used;

    if (file < 0)
        return false;
    socket = meet_connect(root.name);
    is_used = socket >= 0 || meet_is_elsewhere(file, &root);
    if (socket >= 0)
        close(socket);
    close(file);
    return is_used;
}

bool meet_is_replaceable(const char *path)
{
    uint32_t magic = MEET_MAGIC;
    ssize_t size;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

    if (file < 0)
        /* in the case of ENOTDIR the later write reports the error */
        return errno == ENOENT || errno == ENOTDIR;
    size = read_trusted(file, &magic, sizeof(magic));
    close(file);
    return size == 0 || (size == (ssize_t)sizeof(magic) && magic == MEET_MAGIC);
}

int meet_file_write(const char *path, const struct meet_root *root)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    struct file_part part;
    int held;

    if (file_part_open(path, 0600, &part) < 0)
        return -1;
    /*
     * If the file system has no locks, ranks in other network namespaces get their error only at
     * the deadline.
     */
    (void)fcntl(part.file, F_OFD_SETLK, &lock);
    held = fcntl(part.file, F_DUPFD_CLOEXEC, 3);
    if (file_part_close(&part, held >= 0 && file_put(part.file, root, sizeof(*root))) >= 0)
        return held;
    meet_close_fds(&held, 1);
    return -1;
}
