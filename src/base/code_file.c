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
#include "pto/status.h"

#define FOLDER_PREFIX "pto-code-"

enum {
    NAME_MAX_BYTES = 64,
    YOUNG_SECONDS = 60,   /* its process may not have locked it yet */
    CORE_SECONDS = 86400, /* for somebody to look at a core file */
};

static struct {
    char path[PATH_MAX]; /* empty: there is none */
    pid_t owner;         /* a child has a folder of its own */
    int lock;            /* the folder, locked while its process lives; -1: it is the user's */
    uint32_t count;      /* files in it */
    uint64_t created;    /* ever */
} folder = { .lock = -1 };

static const char *temporary_folder(void)
{
    const char *path = secure_getenv("TMPDIR");

    return path != NULL && path[0] == '/' ? path : "/tmp";
}

/* ---- what others left ---- */

static void empty_folder(int at)
{
    DIR *list = fdopendir(at);
    struct dirent *entry;

    if (list == NULL) {
        close(at);
        return;
    }
    while ((entry = readdir(list)) != NULL)
        (void)unlinkat(dirfd(list), entry->d_name, 0); /* nothing in it is a folder */
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
    return first == '|'; /* a program, which has no limit */
}

/* If it is ours, and nobody holds its lock. */
static void remove_left_one(int where, const char *name, time_t before)
{
    int at = openat(where, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat about;

    if (at < 0)
        return;
    if (fstat(at, &about) != 0 || about.st_uid != geteuid() || about.st_mtim.tv_sec >= before ||
        flock(at, LOCK_EX | LOCK_NB) != 0) {
        close(at);
        return;
    }
    empty_folder(at);
    (void)unlinkat(where, name, AT_REMOVEDIR);
}

static void remove_left(const char *place)
{
    DIR *list = opendir(place);
    time_t before = time(NULL) - (may_dump_core() ? CORE_SECONDS : YOUNG_SECONDS);
    struct dirent *entry;

    while (list != NULL && (entry = readdir(list)) != NULL)
        if (strncmp(entry->d_name, FOLDER_PREFIX, strlen(FOLDER_PREFIX)) == 0)
            remove_left_one(dirfd(list), entry->d_name, before);
    if (list != NULL)
        closedir(list);
}

void code_file_sweep(pid_t process)
{
    DIR *list = opendir(temporary_folder());
    struct dirent *entry;
    char prefix[64];

    snprintf(prefix, sizeof(prefix), FOLDER_PREFIX "%ld-", (long)process);
    while (list != NULL && (entry = readdir(list)) != NULL)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            remove_left_one(dirfd(list), entry->d_name, INT64_MAX);
    if (list != NULL)
        closedir(list);
}

/* ---- the folder ---- */

static bool use_chosen(const char *chosen)
{
    if (file_make_folder(chosen) < 0 || realpath(chosen, folder.path) == NULL) {
        folder.path[0] = '\0';
        return false;
    }
    return true;
}

static bool make_folder(void)
{
    const char *place = temporary_folder();

    remove_left(place);
    if (snprintf(folder.path, sizeof(folder.path), "%s/" FOLDER_PREFIX "%ld-XXXXXX", place,
                 (long)getpid()) >= (int)sizeof(folder.path) ||
        mkdtemp(folder.path) == NULL) {
        folder.path[0] = '\0';
        return false;
    }
    folder.lock = open(folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder.lock < 0) {
        int number = errno;

        (void)rmdir(folder.path);
        folder.path[0] = '\0';
        errno = number;
        return false;
    }
    (void)flock(folder.lock, LOCK_EX | LOCK_NB); /* not every file system can */
    return true;
}

static bool enter_folder(void)
{
    const char *chosen = secure_getenv("PTO_CODE_DIR");

    if (folder.path[0] != '\0' && folder.owner == getpid())
        return true;
    if (folder.lock >= 0) /* the parent's: its own descriptor keeps the lock */
        close(folder.lock);
    folder.lock = -1;
    folder.path[0] = '\0';
    folder.count = 0;
    folder.owner = getpid();
    return chosen != NULL && chosen[0] != '\0' ? use_chosen(chosen) : make_folder();
}

static bool is_kept(void)
{
    return folder.lock < 0;
}

static void leave_folder(void)
{
    (void)rmdir(folder.path);
    close(folder.lock);
    folder.lock = -1;
    folder.path[0] = '\0';
}

/* ---- files ---- */

/* Letters and digits of the name, with a hyphen for anything between them. */
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

/* Others have files in a folder that is kept, and a process may have had the same number. */
static int open_new(const char *name, char path[PATH_MAX])
{
    int file;

    do {
        if (snprintf(path, PATH_MAX, "%s/%ld-%llu-%s.so", folder.path, (long)folder.owner,
                     (unsigned long long)++folder.created, name) >= PATH_MAX) {
            errno = ENAMETOOLONG;
            return -1;
        }
        file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0500);
    } while (file < 0 && errno == EEXIST);
    return file;
}

int code_file_create(const void *bytes, size_t size, const char *name, char path[PATH_MAX])
{
    char plain[NAME_MAX_BYTES];
    bool is_written;
    int number, file;

    if (!enter_folder())
        return errno == ENOMEM ? PTO_ENOMEM : PTO_ESYSTEM;
    plain_name(name, plain);
    file = open_new(plain, path);
    is_written = file >= 0 && file_put(file, bytes, size);
    number = errno;
    if (file >= 0)
        close(file);
    if (is_written) {
        folder.count++;
        return PTO_OK;
    }
    if (file >= 0)
        (void)unlink(path);
    if (folder.count == 0 && !is_kept())
        leave_folder();
    errno = number;
    return number == ENOMEM ? PTO_ENOMEM : PTO_ESYSTEM;
}

void code_file_remove(const char *path)
{
    size_t length = strlen(folder.path);

    if (folder.owner != getpid() || is_kept() || strncmp(path, folder.path, length) != 0 ||
        path[length] != '/')
        return;
    (void)unlink(path);
    if (--folder.count == 0)
        leave_folder();
}

void code_file_leave(void)
{
    if (folder.owner != getpid() || is_kept() || folder.path[0] == '\0')
        return;
    empty_folder(dup(folder.lock));
    folder.count = 0;
    leave_folder();
}
