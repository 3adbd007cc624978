/* SPDX-License-Identifier: Apache-2.0 */
/* Remote shells of a launcher; see launch_remote.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/cli/launch_remote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"

enum { WORDS_MS = 1000, POLL_MS = 10, SSH_UNREACHABLE = 255 };

/* Writes a word for the shell of another host; quotes it if it has special characters. */
static void quote(const char *word, char *out, size_t size)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+,:@";
    size_t used = 0;

    if (word[strspn(word, plain)] == '\0') {
        snprintf(out, size, "%s", word);
        return;
    }
    used += (size_t)snprintf(out, size, "'");
    for (; *word != '\0' && used + 6 < size; word++)
        used += (size_t)snprintf(out + used, size - used, *word == '\'' ? "'\\''" : "%c", *word);
    snprintf(out + used, size - used, "'");
}

/*
 * Replaces this process by the remote shell. The shell's command is run by `sh`, which splits it
 * into words.
 */
_Noreturn static void become_shell(const char *host, const struct remote_way *way)
{
    char command[4096], path[4096], program[4200];

    snprintf(command, sizeof(command), "exec %s \"$@\"", way->shell);
    snprintf(path, sizeof(path), "%s%s", way->prefix != NULL ? way->prefix : "",
             way->prefix != NULL ? "/bin/pto" : "pto");
    quote(path, program, sizeof(program));
    execl("/bin/sh", "sh", "-c", command, "sh", host, program, "launch", "--agent", NULL);
    fprintf(stderr, "sh: %s\n", strerror(errno));
    _exit(EXIT_NOT_FOUND);
}

static void close_ends(int pipes[3][2])
{
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++)
            if (pipes[i][k] >= 0)
                close(pipes[i][k]);
}

int cli_launch_remote_start(struct remote *r, const struct launch_place *place,
                            const struct remote_way *way)
{
    int pipes[3][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 } };
    pid_t launcher = getpid();
    int why = 0;

    *r = (struct remote){ .place = place, .errors = -1, .channel = { .in = -1, .out = -1 } };
    for (int i = 0; i < 3 && why == 0; i++)
        if (pipe2(pipes[i], O_CLOEXEC) != 0)
            why = errno;
    if (why == 0) {
        r->shell = fork();
        if (r->shell == 0) {
            /*
             * end the remote shell with the launcher, so that the agent sees the end of its channel
             */
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != launcher || dup2(pipes[0][0], 0) < 0 || dup2(pipes[1][1], 1) < 0 ||
                dup2(pipes[2][1], 2) < 0)
                _exit(EXIT_FAILURE);
            (void)signal(SIGPIPE, SIG_DFL);
            sigprocmask(SIG_SETMASK, way->mask, NULL);
            become_shell(place->name, way);
        }
        why = r->shell < 0 ? errno : 0;
    }
    if (why != 0) {
        r->shell = 0;
        r->state = REMOTE_LOST;
        close_ends(pipes);
        return why;
    }
    close(pipes[0][0]);
    close(pipes[1][1]);
    close(pipes[2][1]);
    cli_channel_open(&r->channel, pipes[1][0], pipes[0][1]);
    r->errors = pipes[2][0];
    (void)fcntl(r->errors, F_SETFL, O_NONBLOCK);
    return 0;
}

/* Forwards one line of the remote shell's stderr. */
static void forward_error(struct remote *r, const char *line, size_t size, struct bytes *out)
{
    while (size > 0 && line[size - 1] == '\r')
        size--;
    if (size == 0)
        return;
    snprintf(r->last_error, sizeof(r->last_error), "%.*s", (int)(size < 250 ? size : 250), line);
    cli_bytes_add(out, r->place->name, strlen(r->place->name));
    cli_bytes_add(out, ": ", 2);
    cli_bytes_add(out, line, size);
    cli_bytes_add(out, "\n", 1);
}

bool cli_launch_remote_read_errors(struct remote *r, struct bytes *out)
{
    struct bytes *b = &r->error_lines;
    char piece[4096];
    ssize_t got = r->errors >= 0 ? read(r->errors, piece, sizeof(piece)) : 0;

    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (got > 0)
        cli_bytes_add(b, piece, (size_t)got);
    while (cli_bytes_size(b) > 0) {
        const char *begin = b->at + b->begin, *end = memchr(begin, '\n', cli_bytes_size(b));
        size_t size = end != NULL ? (size_t)(end - begin) : cli_bytes_size(b);

        if (end == NULL && got > 0 && size < sizeof(piece))
            break;
        forward_error(r, begin, size, out);
        b->begin += size + (end != NULL);
    }
    if (got <= 0 && r->errors >= 0) {
        close(r->errors);
        r->errors = -1;
    }
    return got > 0;
}

int cli_launch_remote_greet(struct remote *r, const struct remote_way *way,
                            char why[LAUNCH_TEXT_MAX])
{
    const char *host = r->place->name;
    struct launch_greeting own;
    int found = cli_launch_greeting_take(&r->channel.received, &r->greeting);

    if (found == 0)
        return 0;
    cli_launch_greeting_own(&own);
    if (found < 0)
        snprintf(
            why, LAUNCH_TEXT_MAX,
            "the program that answers on host %.200s is not an agent of pto launch%s", host,
            way->prefix == NULL ? "; name the folder of the installation there with --prefix" : "");
    else if (strcmp(r->greeting.version, own.version) != 0)
        snprintf(why, LAUNCH_TEXT_MAX,
                 "host %.200s has pto %s, but this host has %s; install the same version on both",
                 host, r->greeting.version, own.version);
    else if (strcmp(r->greeting.platform, own.platform) != 0)
        snprintf(why, LAUNCH_TEXT_MAX,
                 "host %.200s is %s, but this host is %s; the ranks of a job need machines of one "
                 "kind",
                 host, r->greeting.platform, own.platform);
    else
        return 1;
    return -1;
}

/*
 * Forwards the remaining stderr of the remote shell and waits for its end. Returns its wait status,
 * or -1.
 */
static int await_shell(struct remote *r, struct bytes *out, int wait_ms)
{
    uint64_t end_ns = os_now_ns() + (uint64_t)wait_ms * 1000000;
    int state = -1;

    while (r->shell != 0 && os_now_ns() < end_ns) {
        if (waitpid(r->shell, &state, WNOHANG) == r->shell)
            r->shell = 0;
        else
            (void)poll(&(struct pollfd){ .fd = r->errors, .events = POLLIN }, 1, POLL_MS);
        while (cli_launch_remote_read_errors(r, out) && cli_bytes_size(&r->error_lines) == 0 &&
               poll(&(struct pollfd){ .fd = r->errors, .events = POLLIN }, 1, 0) > 0) {
        }
    }
    return state;
}

void cli_launch_remote_explain(struct remote *r, const struct remote_way *way, struct bytes *out,
                               char why[LAUNCH_TEXT_MAX])
{
    const char *host = r->place->name, *last;
    int state = await_shell(r, out, WORDS_MS);
    int code = state >= 0 && WIFEXITED(state) ? WEXITSTATUS(state) : -1;

    last = r->last_error[0] != '\0' ? r->last_error : "it printed nothing";
    if (r->state != REMOTE_STARTING)
        snprintf(why, LAUNCH_TEXT_MAX, "the connection to host %.200s was lost: %s", host, last);
    else if (code == EXIT_NOT_FOUND || code == EXIT_NOT_RUN)
        snprintf(
            why, LAUNCH_TEXT_MAX, "host %.200s has no program %.200s%s: %s%s", host,
            way->prefix != NULL ? way->prefix : "pto", way->prefix != NULL ? "/bin/pto" : "", last,
            way->prefix != NULL ? "" : "; name the folder of the installation there with --prefix");
    else if (code == SSH_UNREACHABLE)
        snprintf(why, LAUNCH_TEXT_MAX, "host %.200s cannot be reached: %s", host, last);
    else
        snprintf(why, LAUNCH_TEXT_MAX,
                 "no agent started on host %.200s: the remote shell ended with %s %d: %s", host,
                 code >= 0 ? "code" : "status", code >= 0 ? code : state, last);
}

void cli_launch_remotes_end(struct remote *r, uint32_t count, int wait_ms)
{
    uint64_t end_ns = os_now_ns() + (uint64_t)wait_ms * 1000000;
    uint32_t left;

    for (uint32_t i = 0; i < count; i++)
        cli_channel_close(&r[i].channel);
    do {
        left = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (r[i].shell != 0 && waitpid(r[i].shell, NULL, WNOHANG) != 0)
                r[i].shell = 0;
            left += r[i].shell != 0;
        }
    } while (left > 0 && os_now_ns() < end_ns && poll(NULL, 0, POLL_MS) == 0);
    for (uint32_t i = 0; i < count; i++) {
        if (r[i].shell != 0) {
            (void)kill(r[i].shell, SIGKILL);
            (void)waitpid(r[i].shell, NULL, 0);
            r[i].shell = 0;
        }
        if (r[i].errors >= 0)
            close(r[i].errors);
        r[i].errors = -1;
        cli_bytes_free(&r[i].error_lines);
    }
}
