/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of ours in processes of their own: started without a fork of this process, with
 * nothing but the descriptors that they are given, and ended through a descriptor of the
 * process.
 */
#ifndef PTO_SPAWN_H
#define PTO_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    SPAWN_FD_MAX = 24
}; /* numbers that a program gets are below it, those of its parent above */

/* The descriptor under a number from SPAWN_FD_MAX on, so that none is overwritten when they are given. */
int spawn_lift(int fd); /* -1 for -1, or on failure; the old one is closed */

/*
 * Starts the program, with /dev/null as its input and the descriptors from the number `first`
 * on; signals are as they are by default. Returns 0 or an errno.
 */
int spawn_program(const char *path, const char *name, const int *fds, uint32_t count, int first,
                  pid_t *pid_out);
/* The same with arguments, the name included, up to NULL; it may lead a group of processes. */
int spawn_arguments(const char *path, const char *const *argv, const int *fds, uint32_t count,
                    int first, bool leads, pid_t *pid_out);

/* Waits so long for the end of a process; true: it has ended. */
bool spawn_await(int descriptor, int wait_ms);
/*
 * Waits so long for the end of a process that is ending, or kills it, and collects it. True:
 * *status_out is waitpid's. False: it does not end, or somebody else has collected it.
 */
bool spawn_end(int descriptor, bool is_killed, int wait_ms, int *status_out);

#endif
