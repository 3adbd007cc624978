/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a function in a forked process, to which this process forwards its signals while it waits.
 * The function outlives this process if it wants to: it gets SIGCHLD when this process ends.
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

/* Blocks the signals. They wait until cli_supervised_run forwards them, or until cli_supervised_end. */
void cli_supervised_begin(struct supervised *own);
/*
 * Runs `enter` in a forked process, with a process group of its own, and waits for its end.
 * *state_out is its wait status. Returns 0 or an errno.
 */
int cli_supervised_run(const struct supervised *own, void (*enter)(void *context), void *context,
                       int *state_out);
void cli_supervised_end(const struct supervised *own);

/* Whether the caller of cli_supervised_run still exists; for the forked process. */
bool cli_supervised_has_caller(const struct supervised *own);

#endif
