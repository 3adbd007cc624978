/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "base/code_file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/limit.h"
#include "pto/status.h"

enum {
    NAME_MAX_BYTES = 64,
    /*
     * attempts to create a file in the root folder, which other processes remove while it is empty
     */
    ATTEMPTS = 64,
    /*
     * a folder younger than so many seconds may be unlocked because its process has not locked it
     * yet
     */
    YOUNG_SECONDS = 60,
    /*
     * time for which a killed process's folder stays, so that the user can look at a core file, in
     * seconds
     */
    CORE_SECONDS = 86400,
};

struct folder {
    const char *root; /* name of the root folder, without the user id at its end */
    const char *prefix;
    char path[PATH_MAX]; /* path of the folder of this process; empty: there is none */
    pid_t owner;         /* process that made the folder; a forked child makes its own */
    /*
     * Descriptor of the folder, locked while its process lives; -1: a folder that the user chose.
     */
    int lock;
    /*
     * the folder is inside of the root, and the root is removed together with the last such folder
     */
    bool is_in_root;
    uint32_t count; /* number of files in the folder */
};

static struct folder folders[CODE_KINDS] = {
    [CODE_PLAIN] = { .root = "pto-", .prefix = "pto-code-", .lock = -1 },
    /*
     * the prefix contains orch_so_, because a test of simpler counts mapped files whose paths begin
     * with /tmp/orch_so_
     */
    [CODE_SIMPLER] = { .root = "orch_so_pto-", .prefix = "orch_so_pto-", .lock = -1 },
};
/* number of files that this process has created so far, for unique names */
static uint64_t created;

/* ---- the root: a folder in TMPDIR, such as pto-UID, which only this user can fill ---- */

static bool name_root(const struct folder *f, char root[PATH_MAX])
{
    return snprintf(root, PATH_MAX, "%s/%s%ld", file_temporary_folder(), f->root, (long)geteuid()) <
           PATH_MAX;
}

/* Opens the root. -1: it does not exist, belongs to another user, or is a link. */
static int code_file_open_root(const char *root)
{
    int at = open(root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat about;

    if (at >= 0 && fstat(at, &about) == 0 && about.st_uid == geteuid() &&
        (about.st_mode & 077) == 0)
        return at;
    if (at >= 0) {
        close(at);
        errno = EPERM;
    }
    return -1;
}

static bool is_private(const char *root)
{
    int at = code_file_open_root(root);

    if (at >= 0)
        close(at);
    return at >= 0;
}

static bool enter_root(const struct folder *f, char root[PATH_MAX])
{
    bool is_there = false;

    if (!name_root(f, root))
        return false;
    for (uint32_t i = 0; i < ATTEMPTS && !is_there; i++) {
        if (mkdir(root, 0700) != 0 && errno != EEXIST)
            return false;
        is_there = is_private(root);
        if (!is_there && errno != ENOENT)
            return false;
    }
    return is_there;
}

/* ---- removing the folders of dead processes ---- */

static void empty_folder(int at)
{
    DIR *list = fdopendir(at);
    struct dirent *entry;

    if (list == NULL) {
        close(at);
        return;
    }
    while ((entry = readdir(list)) != NULL)
        /* unlinking is enough, because the folder has no subfolders */
        (void)unlinkat(dirfd(list), entry->d_name, 0);
    closedir(list);
}

static bool may_dump_core(void)
{
    struct rlimit limit = { 0, 0 };
    char first = '\0';
    int file;

    if (getrlimit(RLIMIT_CORE, &limit) != 0 || limit.rlim_cur != 0)
        return true;
    file = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        if (read(file, &first, 1) != 1)
            first = '\0';
        close(file);
    }
    /* a pattern that starts with '|' pipes core files to a program, whatever their size limit is */
    return first == '|';
}

/*
 * Locks the folder of a process. The kernel may report the end of a process shortly before it
 * releases the lock, so the lock of a process that has ended is waited for.
 */
static bool lock_left(int at, bool has_ended)
{
    enum { TRIES = 50, WAIT_US = 2000 };

    for (uint32_t i = 0; flock(at, LOCK_EX | LOCK_NB) != 0; i++) {
        if (!has_ended || i == TRIES)
            return false;
        usleep(WAIT_US);
    }
    return true;
}

/*
 * Removes the folder of a dead process, if it belongs to this user and its lock is free. `before`:
 * as for code_file_remove_left.
 */
static void remove_left_one(int where, const char *name, time_t before)
{
    int at = openat(where, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat about;

    if (at < 0)
        return;
    if (fstat(at, &about) != 0 || about.st_uid != geteuid() || about.st_mtim.tv_sec >= before ||
        !lock_left(at, before == INT64_MAX)) {
        close(at);
        return;
    }
    empty_folder(at);
    (void)unlinkat(where, name, AT_REMOVEDIR);
}

/*
 * Removes the folders of dead processes whose names begin with the prefix and that were changed
 * before a time; INT64_MAX: their process is known to have ended. Reads only the root, because the
 * temporary folder may have any number of files of other users.
 */
static void code_file_remove_left(const char *root, const char *prefix, time_t before)
{
    int at = code_file_open_root(root);
    DIR *list = at >= 0 ? fdopendir(at) : NULL;
    struct dirent *entry;

    if (list == NULL && at >= 0)
        close(at);
    while (list != NULL && (entry = readdir(list)) != NULL)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            remove_left_one(dirfd(list), entry->d_name, before);
    if (list != NULL)
        closedir(list);
}

void code_file_sweep(pid_t process)
{
    char root[PATH_MAX];

    for (int kind = 0; kind < CODE_KINDS; kind++) {
        char prefix[64];

        if (!name_root(&folders[kind], root))
            return;
        snprintf(prefix, sizeof(prefix), "%s%ld-", folders[kind].prefix, (long)process);
        code_file_remove_left(root, prefix, INT64_MAX);
        (void)rmdir(root); /* this call fails, as intended, if the root is not empty */
    }
}

/* ---- the folder of this process ---- */

static bool use_chosen(struct folder *f, const char *chosen)
{
    if (file_make_folder(chosen) < 0 || realpath(chosen, f->path) == NULL) {
        f->path[0] = '\0';
        return false;
    }
    return true;
}

/* Makes a folder in the root, or in the temporary folder if there is no root. */
static bool code_file_make_path(struct folder *f, const char *root)
{
    if (snprintf(f->path, sizeof(f->path), "%s/%s%ld-XXXXXX",
                 f->is_in_root ? root : file_temporary_folder(), f->prefix,
                 (long)getpid()) >= (int)sizeof(f->path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    return mkdtemp(f->path) != NULL;
}

static void remove_folder(struct folder *f)
{
    (void)rmdir(f->path);
    if (f->is_in_root) {
        *strrchr(f->path, '/') = '\0';
        (void)rmdir(f->path); /* this call fails, as intended, if the folder is not empty */
    }
    f->path[0] = '\0';
}

static bool code_file_make_folder(struct folder *f)
{
    char root[PATH_MAX];
    bool is_made = false;

    for (uint32_t i = 0; i < ATTEMPTS && !is_made; i++) {
        f->is_in_root = enter_root(f, root);
        if (f->is_in_root && i == 0)
            code_file_remove_left(root, f->prefix,
                                  time(NULL) - (may_dump_core() ? CORE_SECONDS : YOUNG_SECONDS));
        is_made = code_file_make_path(f, root);
        if (!is_made && (errno != ENOENT || !f->is_in_root))
            /* ENOENT: another process has just removed the empty root, so try again */
            break;
        /*
         * The root is not empty from here on, so no process removes it. But another user could have
         * replaced it before, so check its owner again.
         */
        if (is_made && f->is_in_root && !is_private(root)) {
            (void)rmdir(f->path);
            is_made = false;
        }
    }
    if (!is_made) {
        f->path[0] = '\0';
        return false;
    }
    f->lock = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->lock < 0) {
        int number = errno;

        remove_folder(f);
        errno = number;
        return false;
    }
    (void)flock(f->lock, LOCK_EX | LOCK_NB); /* locking may fail: not every file system has locks */
    return true;
}

static bool enter_folder(struct folder *f)
{
    const char *chosen = secure_getenv("PTO_CODE_DIR");

    if (f->path[0] != '\0' && f->owner == getpid())
        return true;
    /* only close the descriptor: the parent has the lock, and keeps it by its own descriptor */
    if (f->lock >= 0)
        close(f->lock);
    f->lock = -1;
    f->path[0] = '\0';
    f->count = 0;
    f->owner = getpid();
    return chosen != NULL && chosen[0] != '\0' ? use_chosen(f, chosen) : code_file_make_folder(f);
}

static bool is_kept(const struct folder *f)
{
    return f->lock < 0;
}

static void leave_folder(struct folder *f)
{
    remove_folder(f);
    close(f->lock);
    f->lock = -1;
}

static bool is_in(const struct folder *f, const char *path)
{
    size_t length = strlen(f->path);

    return length != 0 && strncmp(path, f->path, length) == 0 && path[length] == '/';
}

/* ---- files in the folder ---- */

/* Copies the letters and digits of the name, with a hyphen in place of other characters. */
static void plain_name(const char *name, char out[NAME_MAX_BYTES])
{
    size_t used = 0;

    for (; *name != '\0' && used < NAME_MAX_BYTES - 1; name++)
        if (isalnum((unsigned char)*name) || *name == '_' || *name == '.')
            out[used++] = *name;
        else if (used != 0 && out[used - 1] != '-')
            out[used++] = '-';
    while (used != 0 && out[used - 1] == '-')
        used--;
    out[used] = '\0';
}

/*
 * Opens a new file under an unused name. A folder that the user chose keeps files of other
 * processes, possibly of one with the same process id.
 */
static int open_new(const struct folder *f, const char *name, char path[PATH_MAX])
{
    int file;

    do {
        if (snprintf(path, PATH_MAX, "%s/%ld-%llu-%s.so", f->path, (long)f->owner,
                     (unsigned long long)++created, name) >= PATH_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0500);
    } while (file < 0 && errno == EEXIST);
    return file;
}

int code_file_create_in(enum code_kind kind, const void *bytes, size_t size, const char *name,
                        char path[PATH_MAX])
{
    struct folder *f = &folders[kind];
    char plain[NAME_MAX_BYTES];
    bool is_written;
    int number, file;

    if (!enter_folder(f))
        return errno == ENOMEM ? PTO_ENOMEM : PTO_ESYSTEM;
    plain_name(name, plain);
    file = open_new(f, plain, path);
    is_written = file >= 0 && limit_allows_file(size) && file_put(file, bytes, size);
    number = errno;
    if (file >= 0)
        close(file);
    if (is_written) {
        f->count++;
        return PTO_OK;
    }
    if (file >= 0)
        (void)unlink(path);
    if (f->count == 0 && !is_kept(f))
        leave_folder(f);
    errno = number;
    return number == ENOMEM ? PTO_ENOMEM : PTO_ESYSTEM;
}

void code_file_remove(const char *path)
{
    for (struct folder *f = folders; f < folders + CODE_KINDS; f++)
        if (f->owner == getpid() && !is_kept(f) && is_in(f, path)) {
            (void)unlink(path);
            if (--f->count == 0)
                leave_folder(f);
            return;
        }
}

void code_file_leave(void)
{
    for (struct folder *f = folders; f < folders + CODE_KINDS; f++)
        if (f->owner == getpid() && !is_kept(f) && f->path[0] != '\0') {
            empty_folder(dup(f->lock));
            f->count = 0;
            leave_folder(f);
        }
}
