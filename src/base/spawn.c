/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int spawn_lift(int fd)
{
    int high = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, SPAWN_FD_MAX) : -1;

    if (high < 0 && fd >= 0 && errno == EINVAL)
        /*
         * no descriptor from SPAWN_FD_MAX on can exist: the process's limit of descriptors is too
         * low
         */
        errno = EMFILE;
    if (fd >= 0)
        close(fd);
    return high;
}

int spawn_program(const char *path, const char *name, const int *fds, uint32_t count, int first,
                  pid_t *pid_out)
{
    const char *argv[] = { name, NULL };

    return spawn_arguments(path, argv, fds, count, first, false, pid_out);
}

int spawn_arguments(const char *path, const char *const *argv, const int *fds, uint32_t count,
                    int first, bool leads, pid_t *pid_out)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all, none;
    int number;

    sigfillset(&all);
    sigemptyset(&none);
    if (posix_spawn_file_actions_init(&actions) != 0)
        return ENOMEM;
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return ENOMEM;
    }
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, (short)(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK |
                                                  (leads ? POSIX_SPAWN_SETPGROUP : 0)));
    number = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    for (uint32_t i = 0; i < count && number == 0; i++)
        number = posix_spawn_file_actions_adddup2(&actions, fds[i], first + (int)i);
    if (number == 0)
        number = posix_spawn_file_actions_addclosefrom_np(&actions, first + (int)count);
    if (number == 0)
        number = posix_spawn(pid_out, path, &actions, &attributes, (char *const *)argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return number;
}

bool spawn_await(int descriptor, int wait_ms)
{
    struct pollfd on = { .fd = descriptor, .events = POLLIN };
    int count;

    do
        count = poll(&on, 1, wait_ms);
    while (count < 0 && errno == EINTR);
    return count == 1;
}

bool spawn_end(int descriptor, bool is_killed, int wait_ms, int *status_out)
{
    siginfo_t info = { .si_pid = 0 };

    if (is_killed || !spawn_await(descriptor, wait_ms))
        (void)syscall(SYS_pidfd_send_signal, descriptor, SIGKILL, NULL, 0);
    if (!spawn_await(descriptor, wait_ms))
        /*
         * the kernel has not finished ending the process; init or a subreaper will wait for it
         * later
         */
        return false;
    /* Another thread may have waited for the process, or the program ignores SIGCHLD. */
    if (waitid(P_PIDFD, (id_t)descriptor, &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0)
        return false;
    *status_out = info.si_code == CLD_EXITED ? (info.si_status & 0xff) << 8 : info.si_status & 0x7f;
    return true;
}
