/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "link/observe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pto/error.h"
#include "pto/status.h"

/*
 * Returns the number after a key in /proc/PID/status; if the line has several, returns the last one
 * and sets *is_several. -1: none.
 */
static long read_status(int32_t pid, const char *key, bool *is_several_out)
{
    char path[64], line[256];
    long value = -1;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    file = fopen(path, "re");
    while (file != NULL && value < 0 && fgets(line, sizeof(line), file) != NULL) {
        char *at = line + strlen(key), *end = at;

        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        for (uint32_t count = 0;; count++, at = end) {
            long next = strtol(at, &end, 10);

            if (end == at)
                break;
            if (is_several_out != NULL)
                *is_several_out = count != 0;
            value = next;
        }
    }
    if (file != NULL)
        fclose(file);
    return value;
}

static void read_program(struct observe_process *p)
{
    char path[64];
    ssize_t got = -1;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/cmdline", p->pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        got = read(fd, p->program, OBSERVE_PROGRAM_MAX);
        close(fd);
    }
    while (got > 0 && p->program[got - 1] == '\0')
        got--;
    p->program[got > 0 ? got : 0] = '\0';
    for (ssize_t i = 0; i < got; i++)
        if (p->program[i] == '\0')
            p->program[i] = ' ';
    (void)pto_text_clean(p->program, true);
}

void observe_read(int32_t pid, struct observe_process *process_out)
{
    long own;

    *process_out = (struct observe_process){ .pid = pid };
    own = read_status(pid, "NSpid:", &process_out->is_elsewhere);
    process_out->own_pid = own > 0 ? (int32_t)own : 0;
    read_program(process_out);
}

static bool is_zombie(int32_t pid)
{
    char path[64], text[512], *at = NULL;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    file = fopen(path, "re");
    if (file != NULL) {
        if (fgets(text, sizeof(text), file) != NULL)
            /* the program's name, in parentheses, may contain any characters */
            at = strrchr(text, ')');
        fclose(file);
    }
    return at == NULL || at[1] == '\0' || at[2] == 'Z' || at[2] == 'X';
}

int32_t observe_parent(int32_t pid)
{
    return (int32_t)read_status(pid, "PPid:", NULL);
}

bool observe_is_child(int32_t pid, const struct observe_process *parent)
{
    return parent->is_elsewhere || (observe_parent(pid) == parent->pid && !is_zombie(pid));
}

/* ---- descriptors of other processes ---- */

/*
 * Opens a descriptor of another process if it is a nameless file (memfd) of this name; -1: it is
 * not.
 */
static int open_file(int folder, const char *entry, const char *name)
{
    static const char before[] = "/memfd:";
    char link[PATH_MAX];
    ssize_t length = readlinkat(folder, entry, link, sizeof(link) - 1);

    if (length <= 0)
        return -1;
    link[length] = '\0';
    if (strncmp(link, before, strlen(before)) != 0 ||
        strncmp(link + strlen(before), name, strlen(name)) != 0)
        return -1;
    return openat(folder, entry, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

int observe_files(int32_t pid, const char *name, void (*each)(void *context, int fd), void *context)
{
    ino_t seen[OBSERVE_FILES_MAX];
    uint32_t seen_count = 0;
    char path[64];
    DIR *folder;

    snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    folder = opendir(path);
    if (folder == NULL)
        return errno;
    for (struct dirent *e; (e = readdir(folder)) != NULL && seen_count < OBSERVE_FILES_MAX;) {
        int fd = e->d_name[0] != '.' ? open_file(dirfd(folder), e->d_name, name) : -1;
        struct stat info;
        bool is_new = fd >= 0 && fstat(fd, &info) == 0;

        for (uint32_t i = 0; is_new && i < seen_count; i++)
            is_new = seen[i] != info.st_ino;
        if (is_new) {
            seen[seen_count++] = info.st_ino;
            each(context, fd);
        }
        if (fd >= 0)
            close(fd);
    }
    closedir(folder);
    return 0;
}

/* ---- all processes of this machine ---- */

static int compare_pids(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return x < y ? -1 : x > y;
}

int observe_list(int32_t **pid_out)
{
    int32_t *pid = NULL;
    int count = 0, room = 0;
    DIR *folder = opendir("/proc");

    if (folder == NULL)
        return PTO_ESYSTEM;
    for (struct dirent *e; (e = readdir(folder)) != NULL;) {
        char *end;
        long number = strtol(e->d_name, &end, 10);

        if (number <= 0 || number > INT32_MAX || *end != '\0')
            continue;
        if (count == room) {
            int32_t *grown = realloc(pid, (size_t)(room + 1024) * sizeof(*pid));

            if (grown == NULL) {
                count = PTO_ENOMEM;
                break;
            }
            pid = grown;
            room += 1024;
        }
        pid[count++] = (int32_t)number;
    }
    closedir(folder);
    if (count > 0)
        qsort(pid, (size_t)count, sizeof(*pid), compare_pids);
    if (count < 0) {
        free(pid);
        pid = NULL;
    }
    *pid_out = pid;
    return count;
}
