/* SPDX-License-Identifier: Apache-2.0 */
/* Forks a process and forwards signals to it; see supervised.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/cli/supervised.h"

#include <errno.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Collects the signals that the caller forwards, and SIGCHLD, which ends its wait. */
static void find_signals(sigset_t *set)
{
    static const int forwarded[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

    sigemptyset(set);
    sigaddset(set, SIGCHLD);
    for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++) {
        struct sigaction now;

        if (sigaction(forwarded[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(set, forwarded[i]);
    }
}

/* Forwards signals to the process until it has ended. Returns its wait status. */
static int forward_signals(pid_t process, const sigset_t *set)
{
    int state = 0;

    for (;;) {
        pid_t got = waitpid(process, &state, WNOHANG);
        int number;

        if (got == process || (got < 0 && errno != EINTR))
            return state;
        number = sigwaitinfo(set, NULL);
        if (number > 0 && number != SIGCHLD)
            (void)kill(process, number);
    }
}

void cli_supervised_begin(struct supervised *own)
{
    struct sigaction plain = { .sa_handler = SIG_DFL };

    own->caller = getpid();
    find_signals(&own->signals);
    sigprocmask(SIG_BLOCK, &own->signals, &own->mask);
    (void)sigaction(SIGCHLD, &plain, &own->child);
}

int cli_supervised_run(const struct supervised *own, void (*enter)(void *context), void *context,
                       int *state_out)
{
    pid_t process;

    /* flushes stdout, because the process would print buffered output of its parent again */
    fflush(stdout);
    fflush(stderr);
    process = fork();
    if (process == 0) {
        /* the process checks cli_supervised_has_caller when SIGCHLD wakes it */
        (void)prctl(PR_SET_PDEATHSIG, SIGCHLD);
        (void)setpgid(0, 0);
        enter(context);
        _exit(0);
    }
    if (process < 0)
        return errno;
    *state_out = forward_signals(process, &own->signals);
    return 0;
}

void cli_supervised_end(const struct supervised *own)
{
    (void)sigaction(SIGCHLD, &own->child, NULL);
    sigprocmask(SIG_SETMASK, &own->mask, NULL);
}

bool cli_supervised_has_caller(const struct supervised *own)
{
    return getppid() == own->caller;
}
