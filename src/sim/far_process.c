/* SPDX-License-Identifier: Apache-2.0 */
/* The process of an isolated chip: its program, its descriptors, its end. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/program.h"
#include "sim/far.h"

enum {
    HIGH = 16,           /* descriptors are above those that the program gets */
    END_WAIT_MS = 10000, /* for a process that ends by itself, and for one that was killed */
    RANGES = 64,         /* stretches of addresses that are tried */
    RANGE_ALIGN = 1 << 30,
};
#define RANGE_FIRST (1ull << 45) /* far from programs, libraries, stacks and shadows of memory */

extern char **environ;

/* What the program gets, and what stays here, in the order of FAR_RUN_FD and so on. */
struct ends {
    int theirs[FAR_FD_END - FAR_RUN_FD];
    int ours[FAR_FD_END - FAR_RUN_FD];
};

enum { ENDS = FAR_FD_END - FAR_RUN_FD };

static int find_program(char path[PATH_MAX], struct pto_error *error);
static bool make_ends(uint64_t memory_bytes, struct ends *ends);
static int spawn(const char *path, const struct ends *ends, pid_t *pid_out);

static void close_all(const int fd[ENDS])
{
    for (uint32_t i = 0; i < ENDS; i++)
        if (fd[i] >= 0)
            close(fd[i]);
}

int sim_process_start(uint64_t memory_bytes, struct far_process *out, struct pto_error *error)
{
    char path[PATH_MAX];
    struct ends ends;
    int status = find_program(path, error);
    int number;
    pid_t pid;

    if (status < 0)
        return status;
    if (!make_ends(memory_bytes, &ends)) {
        number = errno;
        status = error_tell(error, PTO_ESYSTEM, "an isolated device needs %s: %s",
                            "sockets and a file in memory", strerror(number));
        goto close_ours;
    }
    number = spawn(path, &ends, &pid);
    close_all(ends.theirs);
    if (number != 0) {
        status = error_tell(error, PTO_ESYSTEM, "%s cannot be started: %s", path, strerror(number));
        goto close_ours;
    }
    *out = (struct far_process){ .pid = pid,
                                 .descriptor = (int)syscall(SYS_pidfd_open, pid, 0),
                                 .run = ends.ours[FAR_RUN_FD - FAR_RUN_FD],
                                 .side = ends.ours[FAR_SIDE_FD - FAR_RUN_FD],
                                 .will = ends.ours[FAR_WILL_FD - FAR_RUN_FD],
                                 .memory = ends.ours[FAR_MEMORY_FD - FAR_RUN_FD] };
    if (out->descriptor >= 0)
        return PTO_OK;
    number = errno;
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    status = error_tell(error, PTO_ENOSUP, "the system has no descriptors of processes: %s",
                        strerror(number));

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

/* Above the numbers that the program gets, so that none is overwritten when they are given. */
static int lift(int fd)
{
    int high = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, HIGH) : -1;

    if (fd >= 0)
        close(fd);
    return high;
}

static bool make_ends(uint64_t memory_bytes, struct ends *ends)
{
    int pair[2];

    for (uint32_t i = 0; i < ENDS; i++)
        ends->theirs[i] = ends->ours[i] = -1;
    for (uint32_t i = 0; i < ENDS; i++) {
        int fd = FAR_RUN_FD + (int)i;

        if (fd == FAR_MEMORY_FD) {
            pair[0] = memfd_create("pto-device", MFD_CLOEXEC | MFD_ALLOW_SEALING);
            pair[1] = pair[0] >= 0 ? fcntl(pair[0], F_DUPFD_CLOEXEC, HIGH) : -1;
        } else if (fd == FAR_WILL_FD
                       ? pipe2(pair, O_CLOEXEC | O_NONBLOCK) != 0
                       : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
            pair[0] = pair[1] = -1;
        }
        ends->ours[i] = lift(pair[0]);
        ends->theirs[i] = lift(pair[1]);
        if (ends->ours[i] < 0 || ends->theirs[i] < 0)
            goto close_theirs;
    }
    if (ftruncate(ends->ours[ENDS - 1], (off_t)memory_bytes) != 0)
        goto close_theirs;
    /* Nobody makes it smaller below the mapping; if the system cannot promise it, nobody does. */
    (void)fcntl(ends->ours[ENDS - 1], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    return true;

close_theirs:
    close_all(ends->theirs);
    return false;
}

static int spawn(const char *path, const struct ends *ends, pid_t *pid_out)
{
    char *argv[] = { (char[]){ "pto-chip" }, NULL };
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
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    number = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    for (uint32_t i = 0; i < ENDS && number == 0; i++)
        number = posix_spawn_file_actions_adddup2(&actions, ends->theirs[i], FAR_RUN_FD + (int)i);
    if (number == 0)
        number = posix_spawn_file_actions_addclosefrom_np(&actions, FAR_FD_END);
    if (number == 0)
        number = posix_spawn(pid_out, path, &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return number;
}

/* ---- addresses ---- */

/* NULL: there is something else, or no room. */
static char *take_at(uint64_t addr, uint64_t bytes)
{
    char *range = mmap((void *)(uintptr_t)addr, bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (range == MAP_FAILED)
        return NULL;
    if (addr == 0 || (uint64_t)(uintptr_t)range == addr)
        return range;
    munmap(range, bytes);
    return NULL;
}

/* Where nothing is by itself, in this process or in the program; else below what the system has. */
char *sim_range_take(uint64_t bytes, uint32_t attempt)
{
    uint64_t step = (bytes + RANGE_ALIGN - 1) / RANGE_ALIGN * RANGE_ALIGN;
    char *range = NULL;

    for (uint32_t i = attempt; i < RANGES && range == NULL; i++)
        range = take_at(RANGE_FIRST + i * step, bytes);
    if (range != NULL)
        return range;
    range = take_at(0, bytes);
    if (range == NULL || attempt == 0)
        return range;
    munmap(range, bytes);
    return take_at((uint64_t)(uintptr_t)range - attempt * step, bytes);
}

void sim_range_give(char *range, uint64_t bytes)
{
    if (range != NULL)
        munmap(range, bytes);
}

/* ---- its end ---- */

static bool has_ended(const struct far_process *process, int wait_ms)
{
    struct pollfd on = { .fd = process->descriptor, .events = POLLIN };
    int count;

    do
        count = poll(&on, 1, wait_ms);
    while (count < 0 && errno == EINTR);
    return count == 1;
}

bool sim_process_end(struct far_process *process, bool is_killed, int *status_out)
{
    siginfo_t info = { .si_pid = 0 };

    if (is_killed || !has_ended(process, END_WAIT_MS))
        (void)syscall(SYS_pidfd_send_signal, process->descriptor, SIGKILL, NULL, 0);
    if (!has_ended(process, END_WAIT_MS))
        return false; /* the kernel does not let it go; whoever inherits it collects it */
    /* Somebody else may have collected it, or wants no children to be collected. */
    if (waitid(P_PIDFD, (id_t)process->descriptor, &info, WEXITED | WNOHANG) != 0 ||
        info.si_pid == 0)
        return false;
    *status_out = info.si_code == CLD_EXITED ? (info.si_status & 0xff) << 8 : info.si_status & 0x7f;
    return true;
}

void sim_process_close(struct far_process *process)
{
    const int fd[] = { process->descriptor, process->run, process->side, process->will,
                       process->memory };

    for (uint32_t i = 0; i < sizeof(fd) / sizeof(fd[0]); i++)
        close(fd[i]);
}
