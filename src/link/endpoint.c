/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints that are processes of this machine: src/link/endpoint.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "link/endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/code_file.h"
#include "base/error.h"
#include "base/limit.h"
#include "base/program.h"
#include "base/spawn.h"
#include "link/hello.h"

enum {
    KILLED_WAIT_MS = 3000, /* how long endpoint_end waits for a killed process to exit */
    /* how long descendants of a process get to notice its end and to exit */
    NOTICE_MS = 500,
    /*
     * as NOTICE_MS, for a process that has grandchildren: they notice its end later than its
     * children
     */
    DEEP_NOTICE_MS = 5000,
};

void endpoint_init(struct endpoint *e, pthread_mutex_t *lock)
{
    *e = (struct endpoint){ .ops = &endpoint_process,
                            .lock = lock,
                            .watched = -1,
                            .due_ns = UINT64_MAX,
                            .descriptor = -1,
                            .life = -1 };
    a32_store_relaxed(&e->has_ended, 1); /* relaxed: no other thread knows the endpoint yet */
}

static void endpoint_close(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* ---- starting a process ---- */

static int endpoint_find_program(const char *const *program, char path[PATH_MAX],
                                 struct pto_error *error)
{
    const char *chosen = program != NULL ? NULL : secure_getenv("PTO_CHILD");

    if (program != NULL) {
        snprintf(path, PATH_MAX, "%s", program[0]);
        return PTO_OK;
    }
    if (chosen != NULL && chosen[0] != '\0') {
        if (snprintf(path, PATH_MAX, "%s", chosen) < PATH_MAX && access(path, X_OK) == 0)
            return PTO_OK;
        return error_setf(error, PTO_ENOSUP,
                          "%.300s, which PTO_CHILD names, is not a program; isolated devices and "
                          "workers need pto-child",
                          chosen);
    }
    if (program_find("pto-child", path))
        return PTO_OK;
    if (path[0] == '\0')
        return error_setf(error, PTO_ENOSUP,
                          "the folder of the library is not known, so pto-child cannot be found; "
                          "set PTO_CHILD to its path");
    return error_setf(error, PTO_ENOSUP,
                      "%.300s, which isolated devices and workers need, is missing; install it "
                      "next to the library, or set PTO_CHILD to its path",
                      path);
}

/* Makes a file from which the child reads its parameters. */
static int endpoint_make_hello(const struct link_hello *hello)
{
    int fd = spawn_lift(memfd_create("pto-hello", MFD_CLOEXEC));

    if (fd >= 0 && pwrite(fd, hello, hello->bytes, 0) != (ssize_t)hello->bytes) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/*
 * Spawns the program. The child inherits the descriptor `life` unless it is -1. Returns 0 with the
 * process id, or an errno.
 */
static int endpoint_spawn(const struct endpoint_start *how, const char *path, int life,
                          pid_t *pid_out)
{
    static const char *const plain[] = { "pto-child", NULL };
    int fd[2 + LINK_MORE_MAX] = { how->memory, endpoint_make_hello(how->hello) };
    uint32_t count = 2;
    int number = errno;

    for (uint32_t i = 0; i < how->more_count; i++)
        fd[count++] = how->more[i];
    if (life >= 0)
        fd[count++] = life;
    if (fd[1] >= 0)
        number = spawn_arguments(path, how->program != NULL ? how->program : plain, fd, count,
                                 LINK_MEMORY_FD, how->leads, pid_out);
    endpoint_close(fd[1]);
    return number;
}

/* Registers the started process, so that it can be killed and watched. */
static int endpoint_adopt(struct endpoint *e, pid_t pid, int life, struct pto_error *error)
{
    int descriptor = (int)syscall(SYS_pidfd_open, pid, 0);
    char why[LIMIT_TEXT];
    int number = errno;

    if (descriptor < 0) {
        (void)kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
        return error_setf(error, PTO_ENOSUP,
                          "the system does not support process descriptors (pidfd): %s",
                          limit_explain(number, why));
    }
    pthread_mutex_lock(e->lock);
    endpoint_close(e->descriptor);
    endpoint_close(e->life);
    e->pid = pid;
    e->descriptor = e->watched = descriptor;
    e->life = life;
    e->due_ns = UINT64_MAX;
    e->is_collected = e->is_end_known = false;
    pthread_mutex_unlock(e->lock);
    return PTO_OK;
}

static int process_start(struct endpoint *e, const struct endpoint_start *how,
                         struct pto_error *error)
{
    char path[PATH_MAX], why[LIMIT_TEXT];
    int status = endpoint_find_program(how->program, path, error);
    int life[2] = { -1, -1 };
    int number = 0;
    pid_t pid;

    if (status < 0)
        return status;
    if (how->has_descendants) {
        number = pipe2(life, O_CLOEXEC) != 0 ? errno : 0;
        life[0] = spawn_lift(life[0]);
        life[1] = spawn_lift(life[1]);
        number = number == 0 && (life[0] < 0 || life[1] < 0) ? errno : number;
    }
    if (number == 0)
        number = endpoint_spawn(how, path, life[1], &pid);
    endpoint_close(life[1]);
    e->leads = how->leads;
    status = number == 0 ? endpoint_adopt(e, pid, life[0], error)
                         : error_setf(error, PTO_ESYSTEM, "%s cannot be started: %s", path,
                                      limit_explain(number, why));
    if (status < 0)
        endpoint_close(life[0]);
    return status;
}

/* ---- the end of a process ---- */

void endpoint_describe_end(const struct endpoint *e, char *text, size_t size)
{
    if (WIFSIGNALED(e->end))
        snprintf(text, size, "was ended by signal %d (%s)", WTERMSIG(e->end),
                 strsignal(WTERMSIG(e->end)));
    else if (WEXITSTATUS(e->end) == CHILD_EXIT_LOST)
        snprintf(text, size, "has ended, because its device is lost");
    else if (WEXITSTATUS(e->end) == CHILD_EXIT_THREAD)
        snprintf(text, size, "has ended, because a function called pthread_exit");
    else
        snprintf(text, size, "has ended with exit code %d", WEXITSTATUS(e->end));
}

bool endpoint_is_misplaced(const struct endpoint *e)
{
    return WIFEXITED(e->end) && WEXITSTATUS(e->end) == CHILD_EXIT_ADDRESS;
}

static void process_kill(struct endpoint *e)
{
    if (e->descriptor >= 0)
        (void)syscall(SYS_pidfd_send_signal, e->descriptor, SIGKILL, NULL, 0);
}

static void process_interrupt(struct endpoint *e)
{
    if (e->descriptor >= 0)
        (void)syscall(SYS_pidfd_send_signal, e->descriptor, SIGURG, NULL, 0);
}

static void process_collect(struct endpoint *e)
{
    e->is_end_known = spawn_end(e->descriptor, false, 0, &e->end);
    if (!e->is_end_known)
        /* the status is unknown: another thread of the program has waited for the process */
        e->end = 0;
    e->is_collected = true;
}

/*
 * Whether the last descendant of the process has ended, which closes the life pipe. Always true for
 * a process that has no descendants.
 */
static bool process_has_life_ended(const struct endpoint *e, int wait_ms)
{
    struct pollfd on = { .fd = e->life, .events = POLLIN };

    return e->life < 0 || (poll(&on, 1, wait_ms) == 1 && (on.revents & POLLHUP) != 0);
}

/*
 * Ends the descendants of a process that has ended but is not waited for yet, so that its pid
 * cannot be reused. Descendants exit when they notice the end of their parent; those that started
 * too recently to notice are killed with their process group. If the dead process did not lead a
 * group, its group is the caller's own, so the caller is killed as well, and the caller's parent
 * notices.
 */
static void process_kill_group(const struct endpoint *e)
{
    (void)kill(e->leads ? -e->pid : 0, SIGKILL);
}

static int process_notice_ms(const struct endpoint *e)
{
    return e->leads ? NOTICE_MS : DEEP_NOTICE_MS;
}

/*
 * Called by the watcher thread. Must not block, because the watcher also watches other processes.
 */
static bool process_has_ended(struct endpoint *e)
{
    uint64_t now = os_now_ns();

    if (!e->is_collected) {
        if (!spawn_await(e->descriptor, 0))
            return false;
        if (!process_has_life_ended(e, 0)) {
            if (e->due_ns == UINT64_MAX) {
                e->due_ns = now + (uint64_t)process_notice_ms(e) * 1000000;
                e->watched = e->life;
            }
            if (now < e->due_ns)
                return false;
            process_kill_group(e);
        }
        process_collect(e);
        e->due_ns = UINT64_MAX;
    }
    return process_has_life_ended(e, 0);
}

static void process_end(struct endpoint *e, uint64_t deadline_ns)
{
    uint64_t now = os_now_ns();

    if (e->descriptor >= 0 && !e->is_collected) {
        if (!spawn_await(e->descriptor,
                         now < deadline_ns ? (int)((deadline_ns - now) / 1000000) + 1 : 0)) {
            process_kill(e);
            (void)spawn_await(e->descriptor, KILLED_WAIT_MS);
        }
        if (!process_has_life_ended(e, process_notice_ms(e)))
            process_kill_group(e);
        process_collect(e);
        if (WIFSIGNALED(e->end) && WTERMSIG(e->end) == SIGKILL)
            code_file_sweep(e->pid);
    }
    (void)process_has_life_ended(e, KILLED_WAIT_MS);
    endpoint_close(e->descriptor); /* mutation: tree-keeps-descriptor */
    endpoint_close(e->life);
    e->descriptor = e->life = -1;
}

const struct endpoint_ops endpoint_process = { .name = "process",
                                               .start = process_start,
                                               .kill = process_kill,
                                               .interrupt = process_interrupt,
                                               .has_ended = process_has_ended,
                                               .end = process_end };
