/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a function in a forked process. While the calling process waits for the forked one, it
 * forwards signals to it. If the calling process ends first, the forked process gets SIGCHLD and
 * decides when to end.
 */
#ifndef PTO_SUPERVISED_H
#define PTO_SUPERVISED_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

/* State that the forked process inherits. */
struct supervised {
    pid_t caller;
    sigset_t mask;          /* signal mask of the caller */
    sigset_t signals;       /* signals that are forwarded, and SIGCHLD; blocked in both processes */
    struct sigaction child; /* action of the caller for SIGCHLD */
};

/*
 * Blocks the signals that are to be forwarded. They stay pending until cli_supervised_run forwards
 * them, or until cli_supervised_end.
 */
void cli_supervised_begin(struct supervised *own);
/*
 * Runs `enter` in a forked process, with a process group of its own, and waits for its end.
 * *state_out is its wait status. Returns 0 or an errno.
 */
int cli_supervised_run(const struct supervised *own, void (*enter)(void *context), void *context,
                       int *state_out);
void cli_supervised_end(const struct supervised *own);

/* Called in the forked process: whether the process that called cli_supervised_run still exists. */
bool cli_supervised_has_caller(const struct supervised *own);

#endif
