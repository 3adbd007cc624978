/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent of `pto launch`; launch_agent.h describes what it does. It forks a runner, which calls
 * cli_ranks_run and waits for the ranks. So the agent itself never blocks, and if it is killed, the
 * supervisor of the ranks kills them.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/cli/launch_agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"
#include "base/tcp_listen.h"
#include "tool/cli/commands.h"
#include "tool/cli/launch_job.h"
#include "tool/cli/launch_program.h"

enum { POLL_MS = 250, FILES = 6 };
/* how long the agent waits for a byte from the launcher before it has its job */
#define JOB_SECONDS 60.0

enum agent_state { AGENT_IDLE, AGENT_READY, AGENT_RUNNING, AGENT_DONE, AGENT_GONE };

/*
 * Message from the runner and the supervisor to the agent. It is smaller than PIPE_BUF, so a pipe
 * writes it in one piece.
 */
struct report {
    bool is_final;
    struct ranks_result result;
};

struct agent {
    enum agent_state state;
    struct channel channel;
    struct bytes frame; /* content of the frame with the job; the texts of `job` point into it */
    struct launch_job job;
    int listener;
    pid_t runner;
    int output[2]; /* pipes from stdout and stderr of the ranks; -1: closed */
    struct bytes lines[2];
    int input; /* pipe to rank 0; -1: closed */
    struct bytes unread;
    bool is_input_over;
    int report;
    struct ranks_result result;
    bool has_result;
    int signal; /* last signal that was sent to the ranks; 0: none */
    char place[TCP_PLACE_MAX];
};

/* ---- the runner ---- */

static void agent_report_failure(const struct ranks_part *part, const struct ranks_result *result)
{
    struct report report = { .result = *result };

    (void)!write(part->report, &report, sizeof(report));
}

/*
 * Main function of the runner. `ends` has the runner's ends of the pipes for stdin, stdout, stderr
 * and reports.
 */
_Noreturn static void run_ranks(struct agent *a, const int ends[4], pid_t agent)
{
    static const int plain[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };
    const struct launch_job *job = &a->job;
    struct ranks_part part = { .first = job->first,
                               .total = job->total,
                               .meet = a->place[0] != '\0' ? a->place : NULL,
                               .token = job->token,
                               .key = job->key,
                               .listener = a->listener,
                               .failed = agent_report_failure,
                               .report = ends[3] };
    struct ranks_params params = { .count = job->count,
                                   .binding = (enum ranks_binding)job->binding,
                                   .has_prefix = job->has_prefix,
                                   .has_input = job->has_input,
                                   .grace = job->grace,
                                   .enter = cli_launch_become,
                                   .context = job->words,
                                   .part = &part };
    struct report report = { .is_final = true };

    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
        (void)signal(plain[i], SIG_DFL);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != agent)
        _exit(EXIT_FAILURE);
    for (int i = 0; i < 3; i++)
        (void)dup2(ends[i], i);
    close(a->channel.in);
    close(a->channel.out);
    /* closes the agent's end of the pipe: otherwise rank 0 would never read the end of its input */
    close(a->input);
    cli_ranks_run(&params, &report.result);
    (void)!write(ends[3], &report, sizeof(report));
    _exit(EXIT_SUCCESS);
}

static void agent_close_pair(const int pair[2])
{
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            close(pair[i]);
}

/* Starts the runner. Returns 0 or an errno. */
static int agent_start(struct agent *a)
{
    int pair[4][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 } };
    pid_t agent = getpid();
    int why = 0;

    for (int i = 0; i < 4 && why == 0; i++)
        if (pipe2(pair[i], O_CLOEXEC) != 0)
            why = errno;
    if (why == 0) {
        a->input = pair[0][1];
        a->runner = fork();
        if (a->runner == 0)
            run_ranks(a, (int[]){ pair[0][0], pair[1][1], pair[2][1], pair[3][1] }, agent);
        if (a->runner < 0)
            why = errno;
    }
    if (why != 0) {
        a->runner = 0;
        a->input = -1;
        for (int i = 0; i < 4; i++)
            agent_close_pair(pair[i]);
        return why;
    }
    close(pair[0][0]);
    for (int i = 1; i < 4; i++)
        close(pair[i][1]);
    a->output[0] = pair[1][0];
    a->output[1] = pair[2][0];
    a->report = pair[3][0];
    (void)fcntl(a->input, F_SETFL, O_NONBLOCK);
    if (!a->job.has_input)
        a->is_input_over = true;
    if (a->listener >= 0)
        close(a->listener);
    a->listener = -1;
    a->state = AGENT_RUNNING;
    return 0;
}

/*
 * Kills the ranks: the supervisor asks them to end at the first signal, and kills them at the
 * second.
 */
static void agent_kill(struct agent *a)
{
    if (a->runner == 0)
        return;
    a->signal = SIGTERM;
    (void)kill(a->runner, SIGTERM);
    (void)kill(a->runner, SIGHUP);
}

/* Ends the ranks, because the launcher is gone or does not answer any more. */
static void agent_leave(struct agent *a, const char *why)
{
    if (a->state == AGENT_GONE)
        return;
    if (a->state == AGENT_RUNNING)
        fprintf(stderr, "pto launch: %s; the ranks of this host are ended\n", why);
    a->state = AGENT_GONE;
    agent_kill(a); /* mutation: agent-stays */
}

/* ---- frames ---- */

static void agent_refuse(struct agent *a, int code, const char *why)
{
    struct bytes content = { .at = NULL };

    cli_bytes_add_u32(&content, (uint32_t)code);
    cli_bytes_add_text(&content, why);
    cli_channel_put(&a->channel, CHANNEL_REFUSED, &content);
    cli_bytes_free(&content);
    a->state = AGENT_DONE;
}

/*
 * Handles the launcher's message with the job: finds the folder, the environment variables and the
 * program, and creates the rendezvous. Reports to the launcher whether that worked.
 */
static void agent_take_job(struct agent *a, const struct reader *frame)
{
    struct reader from;
    struct bytes content = { .at = NULL };
    char why[LAUNCH_TEXT_MAX];
    int code;

    cli_bytes_add(&a->frame, frame->at, (size_t)(frame->end - frame->at));
    from = (struct reader){ .at = a->frame.at, .end = a->frame.at + a->frame.end };
    if (a->frame.is_lost || !cli_launch_job_decode(&from, &a->job)) {
        agent_refuse(a, EXIT_FAILED, "the job that arrived cannot be read");
        return;
    }
    if (chdir(a->job.folder) != 0) {
        snprintf(why, sizeof(why),
                 "the folder %.300s cannot be entered: %s; name another one with --chdir",
                 a->job.folder, strerror(errno));
        agent_refuse(a, EXIT_FAILED, why);
        return;
    }
    for (uint32_t i = 0; i < a->job.variable_count; i++)
        if (strchr(a->job.variables[i], '=') != NULL)
            (void)putenv(a->job.variables[i]);
    code = cli_launch_find_program(a->job.words[0], why);
    if (code == 0 && a->job.is_root) {
        struct pto_error error = { .size = sizeof(error) };

        /* loopback addresses are allowed, because all hosts of the job may be names of this host */
        a->listener = tcp_listen_towards(a->job.peers, true, a->place, &error);
        code = a->listener < 0 ? EXIT_FAILED : 0;
        snprintf(why, sizeof(why), "%.700s", error.text);
    }
    if (code != 0) {
        agent_refuse(a, code, why);
        return;
    }
    cli_bytes_add_text(&content, a->place);
    cli_channel_put(&a->channel, CHANNEL_READY, &content);
    cli_bytes_free(&content);
    a->state = AGENT_READY;
}

static void agent_begin(struct agent *a, struct reader *from)
{
    const char *place = cli_reader_text(from);
    int why;

    snprintf(a->place, sizeof(a->place), "%s", place);
    why = agent_start(a);
    if (why != 0) {
        a->result = (struct ranks_result){ .end = RANKS_NOT_STARTED, .state = why };
        a->has_result = true;
        a->state = AGENT_RUNNING; /* the loop then calls conclude_ranks */
    }
}

static void agent_signal(struct agent *a, int number)
{
    bool is_known = number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;

    if (!is_known || a->runner == 0)
        return;
    a->signal = number;
    (void)kill(a->runner, number);
}

static void agent_answer(struct agent *a, struct reader *from)
{
    struct bytes content = { .at = NULL };

    cli_bytes_add_u64(&content, cli_reader_u64(from));
    cli_bytes_add_u64(&content, os_now_ns());
    cli_channel_put(&a->channel, CHANNEL_ANSWER, &content);
    cli_bytes_free(&content);
}

/* Handles all frames that have arrived from the launcher. */
static void agent_read_frames(struct agent *a)
{
    struct reader from;
    bool is_open = cli_channel_receive(&a->channel);
    int kind;

    while ((kind = cli_channel_next(&a->channel, &from)) > 0) {
        if (kind == CHANNEL_JOB && a->state == AGENT_IDLE)
            agent_take_job(a, &from);
        else if (kind == CHANNEL_START && a->state == AGENT_READY)
            agent_begin(a, &from);
        else if (kind == CHANNEL_INPUT && a->state == AGENT_RUNNING) {
            cli_bytes_add(&a->unread, from.at, (size_t)(from.end - from.at));
            a->is_input_over |= from.at == from.end;
        } else if (kind == CHANNEL_SIGNAL)
            agent_signal(a, (int)cli_reader_u32(&from));
        else if (kind == CHANNEL_ASK)
            agent_answer(a, &from);
    }
    if (kind < 0)
        agent_leave(a, "the launcher sent an invalid frame");
    else if (!is_open)
        agent_leave(a, "the connection to the launcher has ended");
}

/* ---- the ranks ---- */

/*
 * Forwards the output of the ranks to the launcher in whole lines, so that lines of different hosts
 * do not mix.
 */
static void forward_output(struct agent *a, int stream)
{
    struct bytes *b = &a->lines[stream], content = { .at = NULL };
    char piece[CHANNEL_PIECE];
    ssize_t got = read(a->output[stream], piece, sizeof(piece));
    size_t size;
    const char *last;

    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got > 0)
        cli_bytes_add(b, piece, (size_t)got);
    last = cli_bytes_size(b) > 0 ? memrchr(b->at + b->begin, '\n', cli_bytes_size(b)) : NULL;
    size = last != NULL ? (size_t)(last - (b->at + b->begin)) + 1 : 0;
    if (got <= 0) {
        close(a->output[stream]);
        a->output[stream] = -1;
        size = cli_bytes_size(b);
    }
    if (size == 0)
        return;
    cli_bytes_add_u32(&content, (uint32_t)stream);
    cli_bytes_add(&content, b->at + b->begin, size);
    b->begin += size;
    if (a->state != AGENT_GONE)
        cli_channel_put(&a->channel, CHANNEL_OUTPUT, &content);
    cli_bytes_free(&content);
}

/* Writes received input to rank 0, and reports to the launcher how many bytes rank 0 has taken. */
static void agent_feed(struct agent *a)
{
    struct bytes content = { .at = NULL };
    size_t size = cli_bytes_size(&a->unread);
    ssize_t put = size > 0 ? write(a->input, a->unread.at + a->unread.begin, size) : 0;

    if (put < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (put < 0) { /* rank 0 has closed its input, so the rest is discarded */
        put = (ssize_t)size;
        close(a->input);
        a->input = -1;
    }
    a->unread.begin += (size_t)put;
    if (put > 0) {
        cli_bytes_add_u32(&content, (uint32_t)put);
        cli_channel_put(&a->channel, CHANNEL_TAKEN, &content);
        cli_bytes_free(&content);
    }
    if (a->input >= 0 && a->is_input_over && cli_bytes_size(&a->unread) == 0) {
        close(a->input);
        a->input = -1;
    }
}

static void read_report(struct agent *a)
{
    struct bytes content = { .at = NULL };
    struct report report;
    ssize_t got = read(a->report, &report, sizeof(report));

    if (got < 0 && errno == EINTR)
        return;
    if (got != (ssize_t)sizeof(report)) {
        close(a->report);
        a->report = -1;
        return;
    }
    a->result = report.result;
    a->has_result = report.is_final;
    if (report.is_final || a->state == AGENT_GONE)
        return;
    cli_launch_result_encode(&report.result, &content);
    cli_channel_put(&a->channel, CHANNEL_FAILED, &content);
    cli_bytes_free(&content);
}

/* Sends the result when the runner and its output have ended. */
static void conclude_ranks(struct agent *a)
{
    struct bytes content = { .at = NULL };
    int state = 0;

    if (a->report >= 0 || a->output[0] >= 0 || a->output[1] >= 0 ||
        (a->runner == 0 && !a->has_result))
        return;
    if (a->runner != 0)
        while (waitpid(a->runner, &state, 0) < 0 && errno == EINTR) {
        }
    a->runner = 0;
    if (!a->has_result) {
        /*
         * the runner was killed by the signal before it could forward the signal, so no rank was
         * started
         */
        bool is_early = a->signal != 0 && WIFSIGNALED(state) && WTERMSIG(state) == a->signal;

        a->result = (struct ranks_result){ .end = is_early ? RANKS_INTERRUPTED : RANKS_UNKEPT,
                                           .state = is_early ? a->signal : state,
                                           .ended_count = is_early ? a->job.count : 0 };
    }
    if (a->state != AGENT_RUNNING)
        return;
    cli_launch_result_encode(&a->result, &content);
    cli_channel_put(&a->channel, CHANNEL_DONE, &content);
    cli_bytes_free(&content);
    a->state = AGENT_DONE;
}

/* ---- the loop ---- */

/*
 * Whether to read output of the ranks. It is not read while too many bytes wait to be sent to the
 * launcher.
 */
static bool has_output_room(const struct agent *a)
{
    return a->state == AGENT_GONE || cli_bytes_size(&a->channel.unsent) < CHANNEL_FULL;
}

static void agent_wait(struct agent *a)
{
    bool is_gone = a->state == AGENT_GONE, has_room = has_output_room(a);
    bool has_input = cli_bytes_size(&a->unread) > 0 || a->is_input_over;
    struct pollfd file[FILES] = {
        { .fd = is_gone ? -1 : a->channel.in, .events = POLLIN },
        { .fd = is_gone || cli_bytes_size(&a->channel.unsent) == 0 ? -1 : a->channel.out,
          .events = POLLOUT },
        { .fd = has_room ? a->output[0] : -1, .events = POLLIN },
        { .fd = has_room ? a->output[1] : -1, .events = POLLIN },
        { .fd = a->report, .events = POLLIN },
        { .fd = has_input ? a->input : -1, .events = POLLOUT },
    };

    if (poll(file, FILES, POLL_MS) <= 0)
        return;
    /*
     * reports of failures come before output, and both before the launcher's frames, which may end
     * the agent
     */
    if (file[4].revents != 0)
        read_report(a);
    for (int i = 0; i < 2; i++)
        if (file[2 + i].revents != 0)
            forward_output(a, i);
    if (file[5].revents != 0)
        agent_feed(a);
    if (file[0].revents != 0)
        agent_read_frames(a);
}

static void agent_loop(struct agent *a)
{
    while (a->state != AGENT_GONE || a->runner != 0) {
        double silence = a->job.silence > 0 ? a->job.silence : JOB_SECONDS;

        agent_wait(a);
        if (a->state == AGENT_RUNNING || a->runner != 0)
            conclude_ranks(a);
        if (a->state == AGENT_GONE)
            continue;
        if (!cli_channel_send(&a->channel))
            agent_leave(a, "the connection to the launcher has ended");
        /*
         * checked after reading: if this agent itself was stopped by a signal, the launcher's
         * frames are here now
         */
        if (os_now_ns() - a->channel.heard_ns > (uint64_t)(silence * 1e9)) /* mutation: no-lease */
            agent_leave(a, "the launcher was silent for too long");
    }
}

int cli_launch_agent(void)
{
    struct agent a = { .listener = -1, .output = { -1, -1 }, .input = -1, .report = -1 };
    int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    char line[LAUNCH_GREETING_MAX];

    if (in < 0 || out < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        perror("pto launch");
        return EXIT_FAILED;
    }
    close(null);
    (void)signal(SIGPIPE, SIG_IGN);
    cli_channel_open(&a.channel, in, out);
    cli_launch_greeting_make(line);
    cli_bytes_add(&a.channel.unsent, line, strlen(line));
    (void)cli_channel_send(&a.channel);
    agent_loop(&a);
    for (int i = 0; i < 2; i++)
        cli_bytes_free(&a.lines[i]);
    cli_bytes_free(&a.unread);
    cli_launch_job_free(&a.job);
    if (a.frame.at != NULL)
        /* erases the frame, because it contains the key of the job */
        explicit_bzero(a.frame.at, a.frame.room);
    cli_bytes_free(&a.frame);
    cli_channel_close(&a.channel);
    return EXIT_OK;
}
