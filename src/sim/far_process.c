/* SPDX-License-Identifier: Apache-2.0 */
/* The process of an isolated chip: its program, its descriptors, its end. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limit.h"
#include "base/program.h"
#include "base/spawn.h"
#include "sim/far.h"

enum { KILLED_WAIT_MS = 10000 };

/* What the program gets, and what stays here, in the order of FAR_RUN_FD and so on. */
struct ends {
    int theirs[FAR_FD_END - FAR_RUN_FD];
    int ours[FAR_FD_END - FAR_RUN_FD];
};

enum { ENDS = FAR_FD_END - FAR_RUN_FD };

static int find_program(char path[PATH_MAX], struct pto_error *error);
static bool make_ends(uint64_t memory_bytes, struct ends *ends);

static void close_all(const int fd[ENDS])
{
    for (uint32_t i = 0; i < ENDS; i++)
        if (fd[i] >= 0)
            close(fd[i]);
}

int sim_process_start(uint64_t memory_bytes, struct far_process *out, struct pto_error *error)
{
    char path[PATH_MAX], why[LIMIT_TEXT];
    struct ends ends;
    int status = find_program(path, error);
    int number;
    pid_t pid;

    if (status < 0)
        return status;
    if (!make_ends(memory_bytes, &ends)) {
        status = error_tell(error, PTO_ESYSTEM,
                            "an isolated device needs sockets and a file of %llu GiB in memory: %s",
                            (unsigned long long)(memory_bytes >> 30), limit_explain(errno, why));
        goto close_ours;
    }
    number = spawn_program(path, "pto-chip", ends.theirs, ENDS, FAR_RUN_FD, &pid);
    close(ends.theirs[FAR_WILL_FD - FAR_RUN_FD]);
    close(ends.theirs[FAR_MEMORY_FD - FAR_RUN_FD]);
    ends.theirs[FAR_WILL_FD - FAR_RUN_FD] = ends.theirs[FAR_MEMORY_FD - FAR_RUN_FD] = -1;
    if (number != 0) {
        close_all(ends.theirs);
        status = error_tell(error, PTO_ESYSTEM, "%s cannot be started: %s", path,
                            limit_explain(number, why));
        goto close_ours;
    }
    *out = (struct far_process){ .pid = pid,
                                 .descriptor = (int)syscall(SYS_pidfd_open, pid, 0),
                                 .run = ends.ours[FAR_RUN_FD - FAR_RUN_FD],
                                 .side = ends.ours[FAR_SIDE_FD - FAR_RUN_FD],
                                 .will = ends.ours[FAR_WILL_FD - FAR_RUN_FD],
                                 .memory = ends.ours[FAR_MEMORY_FD - FAR_RUN_FD],
                                 .peer_run = ends.theirs[FAR_RUN_FD - FAR_RUN_FD],
                                 .peer_side = ends.theirs[FAR_SIDE_FD - FAR_RUN_FD] };
    if (out->descriptor >= 0)
        return PTO_OK;
    number = errno;
    close_all(ends.theirs);
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    status = error_tell(error, PTO_ENOSUP, "the system has no descriptors of processes: %s",
                        limit_explain(number, why));

close_ours:
    close_all(ends.ours);
    return status;
}

/* ---- where the program is ---- */

static int find_program(char path[PATH_MAX], struct pto_error *error)
{
    const char *chosen = secure_getenv("PTO_CHIP");

    if (chosen != NULL && chosen[0] != '\0') {
        if (snprintf(path, PATH_MAX, "%s", chosen) < PATH_MAX && access(path, X_OK) == 0)
            return PTO_OK;
        return error_tell(error, PTO_ENOSUP,
                          "%.300s, which PTO_CHIP names, is no program; isolated devices need "
                          "pto-chip",
                          chosen);
    }
    if (program_find("pto-chip", path))
        return PTO_OK;
    if (path[0] == '\0')
        return error_tell(error, PTO_ENOSUP,
                          "the folder of the library is not known, so pto-chip cannot be found; "
                          "set PTO_CHIP to its path");
    return error_tell(error, PTO_ENOSUP,
                      "%.300s, which isolated devices need, is not there; install it beside the "
                      "library, or set PTO_CHIP to its path",
                      path);
}

/* ---- starting it ---- */

static bool make_ends(uint64_t memory_bytes, struct ends *ends)
{
    int pair[2];

    for (uint32_t i = 0; i < ENDS; i++)
        ends->theirs[i] = ends->ours[i] = -1;
    for (uint32_t i = 0; i < ENDS; i++) {
        int fd = FAR_RUN_FD + (int)i;

        if (fd == FAR_MEMORY_FD) {
            pair[0] = memfd_create("pto-device", MFD_CLOEXEC | MFD_ALLOW_SEALING);
            pair[1] = pair[0] >= 0 ? fcntl(pair[0], F_DUPFD_CLOEXEC, SPAWN_FD_MAX) : -1;
        } else if (fd == FAR_WILL_FD
                       ? pipe2(pair, O_CLOEXEC | O_NONBLOCK) != 0
                       : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
            pair[0] = pair[1] = -1;
        }
        ends->ours[i] = spawn_lift(pair[0]);
        ends->theirs[i] = spawn_lift(pair[1]);
        if (ends->ours[i] < 0 || ends->theirs[i] < 0)
            goto close_theirs;
    }
    if (limit_resize(ends->ours[ENDS - 1], memory_bytes) != 0)
        goto close_theirs;
    /* Nobody makes it smaller below the mapping; if the system cannot promise it, nobody does. */
    (void)fcntl(ends->ours[ENDS - 1], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    return true;

close_theirs:
    close_all(ends->theirs);
    return false;
}

/* ---- its end ---- */

bool sim_process_end(struct far_process *process, bool is_killed, int *status_out)
{
    int wait_ms = FAR_ANSWER_SECONDS * (int)a32_load_relaxed(&sim_far_second_ms);

    if (!is_killed)
        is_killed = !spawn_await(process->descriptor, wait_ms);
    return spawn_end(process->descriptor, is_killed, KILLED_WAIT_MS, status_out);
}

void sim_process_close(struct far_process *process)
{
    const int fd[] = { process->descriptor, process->run,      process->side,     process->will,
                       process->memory,     process->peer_run, process->peer_side };

    for (uint32_t i = 0; i < sizeof(fd) / sizeof(fd[0]); i++)
        close(fd[i]);
}
