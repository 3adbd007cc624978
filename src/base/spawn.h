/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts our programs as separate processes, without a fork of this process and with only the given
 * descriptors, and ends them through a pidfd.
 */
#ifndef PTO_SPAWN_H
#define PTO_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A started program has descriptors below this number only; spawn_lift moves descriptors of this
 * process to higher numbers.
 */
enum { SPAWN_FD_MAX = 24 };

/* Moves a descriptor to a number from SPAWN_FD_MAX on, so that spawning does not overwrite it. */
int spawn_lift(int fd); /* returns -1 for -1, or on failure; closes the old descriptor */

/*
 * Starts a program: its input is /dev/null, `fds` become its descriptors from the number `first`
 * on, and its signals have their default actions. Returns 0 or an errno.
 */
int spawn_program(const char *path, const char *name, const int *fds, uint32_t count, int first,
                  pid_t *pid_out);
/*
 * spawn_program with arguments, including the name and a final NULL; `leads` puts the program at
 * the head of a new process group.
 */
int spawn_arguments(const char *path, const char *const *argv, const int *fds, uint32_t count,
                    int first, bool leads, pid_t *pid_out);

/* Waits up to wait_ms for the end of the process of a pidfd; true: it has ended. */
bool spawn_await(int descriptor, int wait_ms);
/*
 * Waits up to wait_ms for the end of a process, then kills it (at once if `is_killed`), and waits
 * for its status. True: *status_out is as from waitpid. False: it does not end, or another thread
 * has waited for it.
 */
bool spawn_end(int descriptor, bool is_killed, int wait_ms, int *status_out);

#endif
