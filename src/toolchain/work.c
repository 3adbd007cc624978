/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for asprintf */
#endif

#include "toolchain/work.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

#define WORK_PREFIX "pto-build-"

enum { LEFT_SECONDS = 3600 };

/*
 * Removes folders of processes that have ended, if they are more than an hour old. Younger ones are
 * kept, because the pid in the name may belong to a process in another container.
 */
static void work_remove_left(const char *folder)
{
    DIR *list = opendir(folder);
    struct dirent *entry;

    while (list != NULL && (entry = readdir(list)) != NULL) {
        char path[PATH_MAX];
        struct stat about;
        long pid;

        if (strncmp(entry->d_name, WORK_PREFIX, strlen(WORK_PREFIX)) != 0)
            continue;
        pid = strtol(entry->d_name + strlen(WORK_PREFIX), NULL, 10);
        if (pid <= 0 || (kill((pid_t)pid, 0) == 0 || errno != ESRCH))
            continue;
        snprintf(path, sizeof(path), "%.3000s/%s", folder, entry->d_name);
        if (lstat(path, &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == geteuid() &&
            about.st_mtim.tv_sec + LEFT_SECONDS < time(NULL))
            work_remove(path);
    }
    if (list != NULL)
        closedir(list);
}

int work_create(char **path_out, struct pto_error *error)
{
    const char *folder = file_temporary_folder();
    char *path;

    work_remove_left(folder);
    if (asprintf(&path, "%s/" WORK_PREFIX "%ld-XXXXXX", folder, (long)getpid()) < 0)
        return error_setf(error, PTO_ENOMEM, "no memory to build");
    if (mkdtemp(path) == NULL) {
        free(path);
        return error_setf(error, PTO_ESYSTEM,
                          "no temporary folder can be made in %s: %s; set TMPDIR to another folder",
                          folder, strerror(errno));
    }
    *path_out = path;
    return PTO_OK;
}

int work_make_inner(const char *work, uint32_t index, char **path_out, struct pto_error *error)
{
    char *path;

    if (asprintf(&path, "%s/%u", work, index) < 0)
        return error_setf(error, PTO_ENOMEM, "no memory to build");
    work_remove(path); /* remove what an earlier attempt has left */
    if (mkdir(path, 0700) != 0) {
        int status = error_setf(error, PTO_ESYSTEM, "%s cannot be made: %s", path, strerror(errno));

        free(path);
        return status;
    }
    *path_out = path;
    return PTO_OK;
}

void work_remove(const char *path)
{
    if (path != NULL)
        file_remove_tree(path);
}
