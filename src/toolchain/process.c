/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for pipe2 */
#endif

#include "toolchain/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"
#include "base/error.h"
#include "toolchain/words.h"

extern char **environ;

enum {
    TICK_MS = 20,
    OUTPUT_MAX = 4 << 20, /* maximum number of bytes that are kept of a program's output */
    TIMEOUT_MINUTES = 10
};

struct child {
    pid_t pid;
    int output; /* reading end of the output's pipe */
    int status; /* status as waitpid returns it; valid if has_ended */
    bool has_ended;
};

static int process_fork(const struct process_params *params, struct child *child,
                        struct pto_error *error);
static int process_follow(const struct process_params *params, struct child *child,
                          struct text *output, bool *is_cut);

int process_run(const struct process_params *params, struct process_result *out,
                struct pto_error *error)
{
    struct process_result result = { 0 };
    struct text output = { 0 };
    struct child child;
    int status = process_fork(params, &child, error);

    if (status < 0)
        return status;
    text_add(&output, "", 0);
    status = process_follow(params, &child, &output, &result.is_cut);
    close(child.output);
    if (status == PTO_OK && output.is_short)
        status = PTO_ENOMEM;
    if (status < 0) {
        text_free(&output);
        return error_setf(error, status, "%s: %s", params->argv[0],
                          status == PTO_ECANCELED  ? "killed because the build was cancelled"
                          : status == PTO_ETIMEOUT ? "killed because its time-out expired"
                                                   : "no memory for its output");
    }
    result.code = WIFEXITED(child.status) ? WEXITSTATUS(child.status) : -1;
    result.signal = WIFSIGNALED(child.status) ? WTERMSIG(child.status) : 0;
    result.output = output.bytes;
    result.output_size = output.size;
    *out = result;
    return PTO_OK;
}

void process_free(struct process_result *result)
{
    free(result->output);
    *result = (struct process_result){ 0 };
}

/* Runs in the child, between fork and exec, so it only makes system calls. */
static _Noreturn void process_become(const struct process_params *params, int output, int report,
                                     pid_t parent)
{
    int null = open("/dev/null", O_RDONLY);
    sigset_t none;
    int number;

    setpgid(0, 0);
    /*
     * The child gets SIGTERM when its parent thread ends: a compiler's driver then removes its
     * temporary files.
     */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(127);
    sigemptyset(&none);
    for (int i = 1; i < NSIG; i++)
        signal(i, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(null, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execve(params->argv[0], params->argv, params->env != NULL ? params->env : environ);
    number = errno;
    while (write(report, &number, sizeof(number)) < 0 && errno == EINTR)
        ;
    _exit(127);
}

static int start_failed(const struct process_params *params, int number, struct pto_error *error)
{
    return error_setf(error, PTO_ESYSTEM, "%s cannot be started: %s", params->argv[0],
                      strerror(number));
}

static int process_fork(const struct process_params *params, struct child *child,
                        struct pto_error *error)
{
    int output[2], report[2];
    pid_t parent = getpid();
    int number = 0;

    if (pipe2(output, O_CLOEXEC) != 0)
        return start_failed(params, errno, error);
    if (pipe2(report, O_CLOEXEC) != 0) {
        number = errno;
        close(output[0]);
        close(output[1]);
        return start_failed(params, number, error);
    }
    *child = (struct child){ .pid = fork(), .output = output[0] };
    if (child->pid == 0)
        process_become(params, output[1], report[1], parent);
    number = child->pid < 0 ? errno : 0;
    close(output[1]);
    close(report[1]);
    if (child->pid > 0) {
        ssize_t got;

        /* parent and child both call it, because either may run first */
        setpgid(child->pid, child->pid);
        while ((got = read(report[0], &number, sizeof(number))) < 0 && errno == EINTR)
            ;
        /*
         * The child writes the errno of a failed exec to the pipe. A successful exec closes the
         * pipe without a byte.
         */
        if (got == (ssize_t)sizeof(number))
            while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        else
            number = 0;
    }
    close(report[0]);
    if (number == 0)
        return PTO_OK;
    close(output[0]);
    return start_failed(params, number, error);
}

/* Reads the available output. False: every writer has closed the pipe. */
static bool take_output(struct child *child, struct text *output, bool *is_cut)
{
    char bytes[16384];
    ssize_t got = read(child->output, bytes, sizeof(bytes));

    if (got < 0)
        return errno == EINTR || errno == EAGAIN;
    if (got > 0 && output->size + (size_t)got <= OUTPUT_MAX)
        text_add(output, bytes, (size_t)got);
    else if (got > 0)
        *is_cut = true;
    return got != 0;
}

static void process_end_group(struct child *child)
{
    kill(-child->pid, SIGTERM);
    /* after SIGTERM, the program gets half a second to remove its temporary files */
    for (int i = 0; i < 25 && !child->has_ended; i++) {
        poll(NULL, 0, TICK_MS);
        child->has_ended = waitpid(child->pid, &child->status, WNOHANG) == child->pid;
    }
    kill(-child->pid, SIGKILL);
    if (!child->has_ended)
        while (waitpid(child->pid, &child->status, 0) < 0 && errno == EINTR)
            ;
}

/*
 * Reads until the process has ended. Does not wait for its descendants, which may keep the output
 * open.
 */
static int process_follow(const struct process_params *params, struct child *child,
                          struct text *output, bool *is_cut)
{
    uint64_t timeout_ns =
        params->timeout_ns != 0 ? params->timeout_ns : TIMEOUT_MINUTES * 60 * 1000000000ull;
    uint64_t deadline = os_now_ns() + timeout_ns;
    bool is_open = true;

    fcntl(child->output, F_SETFL, O_NONBLOCK);
    for (;;) {
        struct pollfd wait = { .fd = is_open ? child->output : -1, .events = POLLIN };
        bool is_stopped = params->stop != NULL && params->stop(params->context);

        if (is_stopped || os_now_ns() > deadline) {
            process_end_group(child);
            return is_stopped ? PTO_ECANCELED : PTO_ETIMEOUT;
        }
        /*
         * a program that has closed its output usually ends soon, so the loop checks for its end
         * more often
         */
        int ready = poll(&wait, 1, is_open ? TICK_MS : 1);

        if (is_open && ready > 0) {
            is_open = take_output(child, output, is_cut);
            if (is_open)
                continue;
        }
        if (waitpid(child->pid, &child->status, WNOHANG) == child->pid) {
            child->has_ended = true;
            while (is_open && poll(&wait, 1, 0) > 0)
                is_open = take_output(child, output, is_cut);
            return PTO_OK;
        }
    }
}
