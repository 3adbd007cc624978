/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many threads a process has. pthread_join returns when the kernel has cleared the thread's id, and
 * /proc still lists the thread for a moment afterwards; but the kernel marks it as exiting before. So
 * those that are marked are not counted, and no test waits for /proc or counts one thread too many.
 */
#ifndef PTO_THREADS_TEST_H
#define PTO_THREADS_TEST_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The line is that of /proc/PID/task/TID/stat; the name in it may contain anything. */
static inline bool thread_is_alive(const char *folder, const char *task)
{
    enum { EXITING = 4 }; /* PF_EXITING of the kernel's include/linux/sched.h */
    char path[400], line[1024];
    const char *after = NULL;
    unsigned flags = EXITING;
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s/stat", folder, task);
    file = fopen(path, "re");
    if (file != NULL && fgets(line, sizeof(line), file) != NULL)
        after = strrchr(line, ')');
    if (after != NULL && sscanf(after + 2, "%*c %*d %*d %*d %*d %*d %u", &flags) != 1)
        abort();
    if (file != NULL)
        fclose(file);
    return (flags & EXITING) == 0; /* one without a line is gone */
}

/* The folder is /proc/self/task, or that of another process. */
static inline uint32_t count_threads_in(const char *folder)
{
    DIR *list = opendir(folder);
    struct dirent *entry;
    uint32_t count = 0;

    while (list != NULL && (entry = readdir(list)) != NULL)
        count += entry->d_name[0] != '.' && thread_is_alive(folder, entry->d_name);
    if (list != NULL)
        closedir(list);
    return count;
}

static inline uint32_t count_threads(void)
{
    return count_threads_in("/proc/self/task");
}

#endif
