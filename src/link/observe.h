/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the state that other processes of the same user publish. They publish it in nameless files
 * (memfd), which the kernel shows to processes of the same user as descriptors in /proc/PID/fd.
 * These functions neither stop nor ask the other process, which may end at any moment.
 */
#ifndef PTO_OBSERVE_H
#define PTO_OBSERVE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    OBSERVE_PROGRAM_MAX = 200,
    /* maximum number of files with one name that are read from one process */
    OBSERVE_FILES_MAX = 64
};

struct observe_process {
    int32_t pid;
    int32_t own_pid; /* id of the process in its own PID namespace; 0: unknown */
    /* the process is in another PID namespace, so the ids of its children mean nothing here */
    bool is_elsewhere;
    char program[OBSERVE_PROGRAM_MAX + 1]; /* command line of the process, on one line */
};

/*
 * Lists the ids of all processes in ascending order. Returns their number, PTO_ESYSTEM, PTO_ENOMEM.
 */
int observe_list(int32_t **pid_out);
/* Fills in what is known about the process with this id. Fields that cannot be read stay empty. */
void observe_read(int32_t pid, struct observe_process *process_out);
/* Returns the id of the process's parent; -1: unknown. */
int32_t observe_parent(int32_t pid);
/* Whether the process exists and may be a child of `parent`. */
bool observe_is_child(int32_t pid, const struct observe_process *parent);

/*
 * Calls `each` once for each nameless file of the process whose name begins with `name`. The
 * descriptor is read-only, and is closed afterwards. Returns 0, or the errno for which the
 * descriptors of the process cannot be listed.
 */
int observe_files(int32_t pid, const char *name, void (*each)(void *context, int fd),
                  void *context);

#endif
