/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launcher's side of a job on several hosts: one loop over the channels of all agents. While
 * its own output is blocked, the loop stops reading from the channels.
 *
 * The first cause that ends the job decides the exit code. If several ranks fail, the rank that
 * failed first counts, even if its report arrives later: agents report the time of a failure by
 * their own clock, and the launcher knows the offset of each clock.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/cli/launch_hub.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"
#include "tool/cli/commands.h"
#include "tool/cli/launch_remote.h"
#include "tool/cli/supervised.h"

enum {
    OUTPUT_FULL = 1 << 20, /* if more bytes than this wait to be printed, no channel is read */
    INPUT_AHEAD = 64 << 10,
    /* number of bytes that a pipe takes without blocking when poll() says that it is writable */
    WRITE_BYTES = 4096,
    /* number of CHANNEL_ASK frames in the time after which a silent agent counts as lost */
    ASKS = 4,
    SHELLS_MS = 5000, /* how long remote shells may take to end by themselves */
    FIXED_FILES = 4,
};
#define START_NS 60000000000ull /* time limit for starting: all hosts must be ready by then */
/* how long agents may take to confirm that their ranks were killed */
#define KILL_NS 5000000000ull

enum cause { CAUSE_NONE, CAUSE_HOST, CAUSE_RANK, CAUSE_LATE, CAUSE_SIGNAL };

/*
 * Exit code and message of the job. The hub's process stores them in shared memory, the launcher
 * prints them.
 */
struct verdict {
    int code;
    char text[LAUNCH_TEXT_MAX];
};

struct hub {
    const struct launch_params *params;
    struct verdict *verdict;
    struct supervised supervised;
    struct remote_way way;
    struct remote *remote;
    uint32_t count;
    /* the descriptors of the hub itself (FIXED_FILES), then three for each host */
    struct pollfd *poll;
    int signals;
    bool is_running;
    enum cause cause;
    /* for CAUSE_RANK: the first failure; failed_ns is its time by the launcher's clock */
    struct ranks_result failure;
    const char *failed_host;
    int64_t failed_ns;
    int signal; /* CAUSE_SIGNAL */
    uint32_t signals_seen;
    uint64_t end_ns;   /* the job's deadline; 0: none */
    uint64_t start_ns; /* time by which all hosts must be ready */
    /* time at which hosts that have not confirmed the end of their ranks are given up; 0: never */
    uint64_t give_up_ns;
    uint32_t ended_count; /* number of ranks that were ended because of the cause */
    struct bytes out[2];
    int lost_output;
    /* number of input bytes that were sent to rank 0's host and that rank 0 has not read yet */
    uint32_t input_ahead;
    bool is_input_over;
    char place[128]; /* address of the rendezvous, which the agent of the first host makes */
};

static uint64_t silence_ns(const struct hub *h)
{
    return (uint64_t)(h->params->job.silence * 1e9);
}

/* ---- ending the job ---- */

static void signal_ranks(struct hub *h, int number)
{
    struct bytes content = { .at = NULL };

    cli_bytes_add_u32(&content, (uint32_t)number);
    for (uint32_t i = 0; i < h->count; i++)
        if (h->remote[i].state == REMOTE_RUNNING)
            cli_channel_put(&h->remote[i].channel, CHANNEL_SIGNAL, &content);
    cli_bytes_free(&content);
}

/* Records why the job ends, unless it has a cause already, and ends the ranks of all hosts. */
__attribute__((format(printf, 4, 5))) static void hub_end(struct hub *h, enum cause cause, int code,
                                                          const char *format, ...)
{
    va_list args;

    if (h->cause != CAUSE_NONE)
        return;
    h->cause = cause;
    h->verdict->code = code;
    va_start(args, format);
    vsnprintf(h->verdict->text, sizeof(h->verdict->text), format, args);
    va_end(args);
    h->give_up_ns = os_now_ns() + (uint64_t)(h->params->job.grace * 1e9) + silence_ns(h) + KILL_NS;
    signal_ranks(h, cause == CAUSE_SIGNAL ? h->signal : SIGTERM);
}

static void lose_host(struct hub *h, struct remote *r, const char *why)
{
    r->state = REMOTE_LOST;
    cli_channel_close(&r->channel);
    hub_end(h, CAUSE_HOST, EXIT_FAILED, "%s", why);
}

/*
 * Handles the report that a rank has failed on a host. If ranks have failed on several hosts, the
 * earliest failure is kept.
 */
static void take_failure(struct hub *h, const struct remote *r, const struct ranks_result *result)
{
    int64_t when_ns = (int64_t)result->failed_ns - r->ahead_ns;
    bool is_first = h->cause == CAUSE_NONE || (h->cause == CAUSE_RANK && when_ns < h->failed_ns);

    if (!is_first || result->end != RANKS_FAILED)
        return;
    h->failure = *result;
    h->failed_host = r->place->name;
    h->failed_ns = when_ns;
    hub_end(h, CAUSE_RANK, EXIT_FAILED, "%s", "");
}

static void take_signal(struct hub *h)
{
    struct signalfd_siginfo info;

    if (read(h->signals, &info, sizeof(info)) != (ssize_t)sizeof(info) || info.ssi_signo == SIGCHLD)
        return;
    h->signals_seen++;
    h->signal = (int)info.ssi_signo;
    if (h->cause == CAUSE_NONE) {
        hub_end(h, CAUSE_SIGNAL, EXIT_SIGNAL + h->signal, "%s", "");
        return;
    }
    /*
     * forwards the second signal, which kills the ranks; agents that do not confirm this are given
     * up
     */
    signal_ranks(h, h->signal);
    h->give_up_ns = h->signals_seen > 2 ? 1 : os_now_ns() + KILL_NS;
}

/* ---- starting ---- */

static uint32_t count_state(const struct hub *h, enum remote_state state)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < h->count; i++)
        count += h->remote[i].state == state;
    return count;
}

/*
 * Lists the other hosts for the agent that makes the rendezvous: first the addresses that are
 * known, then the names.
 */
static void list_peers(const struct hub *h, struct bytes *out)
{
    for (uint32_t i = 1; i < h->count; i++)
        if (h->remote[i].greeting.address[0] != '\0') {
            cli_bytes_add(out, h->remote[i].greeting.address,
                          strlen(h->remote[i].greeting.address));
            cli_bytes_add(out, "\n", 1);
        }
    for (uint32_t i = 1; i < h->count; i++) {
        const char *name = h->remote[i].place->name, *at = strrchr(name, '@');

        name = at != NULL ? at + 1 : name;
        cli_bytes_add(out, name, strlen(name));
        cli_bytes_add(out, "\n", 1);
    }
    cli_bytes_add(out, "", 1);
}

/* Sends each agent its job. Called when all agents have sent a greeting. */
static void send_jobs(struct hub *h)
{
    struct bytes peers = { .at = NULL };

    list_peers(h, &peers);
    for (uint32_t i = 0; i < h->count && !peers.is_lost; i++) {
        struct remote *r = &h->remote[i];
        struct launch_job job = h->params->job;
        struct bytes content = { .at = NULL };

        job.first = r->place->first;
        job.count = r->place->count;
        job.is_root = i == 0 && h->count > 1;
        job.has_input &= i == 0;
        job.peers = i == 0 ? peers.at : "";
        if (h->count == 1)
            /* no key is needed, because the ranks of a single host do not use the network */
            job.key = "";
        cli_launch_job_encode(&job, &content);
        if (content.is_lost || cli_bytes_size(&content) > CHANNEL_FRAME_MAX)
            hub_end(h, CAUSE_HOST, EXIT_FAILED,
                    "the command and its variables are too large for an agent");
        else
            cli_channel_put(&r->channel, CHANNEL_JOB, &content);
        /* erases the frame, because it contains the key of the job */
        explicit_bzero(content.at, content.room);
        cli_bytes_free(&content);
    }
    cli_bytes_free(&peers);
}

/* Starts the ranks of all hosts. Called when all agents are ready. */
static void start_ranks(struct hub *h)
{
    struct bytes content = { .at = NULL };

    cli_bytes_add_text(&content, h->place);
    for (uint32_t i = 0; i < h->count; i++) {
        h->remote[i].state = REMOTE_RUNNING;
        cli_channel_put(&h->remote[i].channel, CHANNEL_START, &content);
    }
    cli_bytes_free(&content);
    h->is_running = true;
    if (h->params->timeout != 0)
        h->end_ns = os_now_ns() + (uint64_t)(h->params->timeout * 1e9);
}

/* ---- frames of an agent ---- */

static void take_ready(struct hub *h, struct remote *r, struct reader *from)
{
    const char *text = cli_reader_text(from);

    r->state = REMOTE_READY;
    if (r == h->remote)
        snprintf(h->place, sizeof(h->place), "%s", text);
    if (count_state(h, REMOTE_READY) == h->count && h->cause == CAUSE_NONE)
        start_ranks(h);
}

static void take_refusal(struct hub *h, struct remote *r, struct reader *from)
{
    int code = (int)cli_reader_u32(from);

    r->state = REMOTE_DONE;
    hub_end(h, CAUSE_HOST, code, "host %.200s: %s", r->place->name, cli_reader_text(from));
}

static void take_end(struct hub *h, struct remote *r, struct reader *from)
{
    char text[RANKS_TEXT_MAX];

    if (!cli_launch_result_decode(from, &r->result)) {
        lose_host(h, r, "an agent sent a result that cannot be read");
        return;
    }
    r->state = REMOTE_DONE;
    take_failure(h, r, &r->result);
    h->ended_count += r->result.ended_count;
    if (r->result.end == RANKS_NOT_STARTED || r->result.end == RANKS_UNKEPT)
        hub_end(h, CAUSE_HOST, EXIT_FAILED, "host %.200s: %s", r->place->name,
                cli_ranks_describe(&r->result, text));
    /* some other process on that host has sent the signal */
    else if (r->result.end == RANKS_INTERRUPTED)
        hub_end(h, CAUSE_HOST, EXIT_SIGNAL + r->result.state,
                "the ranks of host %.200s were ended there by a signal: %s", r->place->name,
                strsignal(r->result.state));
}

/*
 * Estimates the offset of a host's clock from the answer to CHANNEL_ASK that had the shortest round
 * trip.
 */
static void take_answer(struct remote *r, struct reader *from)
{
    uint64_t asked_ns = cli_reader_u64(from), their_ns = cli_reader_u64(from), now = os_now_ns();

    if (from->is_bad || asked_ns > now || (r->trip_ns != 0 && now - asked_ns >= r->trip_ns))
        return;
    r->trip_ns = now - asked_ns;
    r->ahead_ns = (int64_t)(their_ns - (asked_ns + r->trip_ns / 2));
}

static void hub_take_frame(struct hub *h, struct remote *r, int kind, struct reader *from)
{
    struct ranks_result result;
    uint32_t number;

    switch (kind) {
    case CHANNEL_READY:
        if (r->state == REMOTE_GREETED)
            take_ready(h, r, from);
        break;
    case CHANNEL_REFUSED:
        take_refusal(h, r, from);
        break;
    case CHANNEL_OUTPUT:
        number = cli_reader_u32(from);
        if (!from->is_bad && number < 2)
            cli_bytes_add(&h->out[number], from->at, (size_t)(from->end - from->at));
        break;
    case CHANNEL_TAKEN:
        number = cli_reader_u32(from);
        h->input_ahead -= number < h->input_ahead ? number : h->input_ahead;
        break;
    case CHANNEL_FAILED:
        if (cli_launch_result_decode(from, &result))
            take_failure(h, r, &result);
        break;
    case CHANNEL_DONE:
        take_end(h, r, from);
        break;
    case CHANNEL_ANSWER:
        take_answer(r, from);
        break;
    default:
        break;
    }
}

/* Reads and handles the frames of a host. */
static void read_host(struct hub *h, struct remote *r)
{
    bool is_open = cli_channel_receive(&r->channel);
    char why[LAUNCH_TEXT_MAX];
    struct reader from;
    int kind = 0;

    if (r->state == REMOTE_STARTING) {
        int found = cli_launch_remote_greet(r, &h->way, why);

        if (found < 0) {
            lose_host(h, r, why);
            return;
        }
        if (found > 0)
            r->state = REMOTE_GREETED;
        if (found > 0 && count_state(h, REMOTE_GREETED) == h->count)
            send_jobs(h);
    }
    if (r->state != REMOTE_STARTING)
        while (r->channel.in >= 0 && (kind = cli_channel_next(&r->channel, &from)) > 0)
            hub_take_frame(h, r, kind, &from);
    if (r->state == REMOTE_DONE || r->state == REMOTE_LOST || (is_open && kind >= 0))
        return;
    if (kind < 0)
        snprintf(why, sizeof(why), "the agent on host %.200s sent an invalid frame",
                 r->place->name);
    else
        cli_launch_remote_explain(r, &h->way, &h->out[1], why);
    lose_host(h, r, why);
}

/* ---- input and output ---- */

static void print_output(struct hub *h, int stream)
{
    struct bytes *b = &h->out[stream];
    size_t size = cli_bytes_size(b);
    ssize_t put = write(stream == 0 ? STDOUT_FILENO : STDERR_FILENO, b->at + b->begin,
                        size < WRITE_BYTES ? size : WRITE_BYTES);

    if (put > 0)
        b->begin += (size_t)put;
    else if (put < 0 && errno != EINTR && errno != EAGAIN) {
        h->lost_output = errno;
        b->begin = b->end;
    }
}

/* Prints the remaining output. After a signal, gives up if the reader of the output is too slow. */
static void hub_flush(struct hub *h)
{
    uint64_t end_ns = h->cause == CAUSE_SIGNAL ? os_now_ns() + KILL_NS : UINT64_MAX;

    for (int stream = 0; stream < 2; stream++)
        while (cli_bytes_size(&h->out[stream]) > 0 && os_now_ns() < end_ns &&
               cli_supervised_has_caller(&h->supervised)) {
            struct pollfd to = { .fd = stream + 1, .events = POLLOUT };

            if (poll(&to, 1, 100) > 0)
                print_output(h, stream);
        }
}

static void read_input(struct hub *h)
{
    char piece[CHANNEL_PIECE];
    ssize_t got = read(STDIN_FILENO, piece, sizeof(piece));

    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got <= 0)
        h->is_input_over = true;
    else
        h->input_ahead += (uint32_t)got;
    cli_channel_put_raw(&h->remote[0].channel, CHANNEL_INPUT, piece, got > 0 ? (size_t)got : 0);
}

/* ---- the loop ---- */

/*
 * Sends CHANNEL_ASK to each agent at intervals, so that neither the launcher nor the agent
 * considers the other side lost.
 */
static void ask_hosts(struct hub *h, uint64_t now)
{
    struct bytes content = { .at = NULL };

    cli_bytes_add_u64(&content, now);
    for (uint32_t i = 0; i < h->count; i++) {
        struct remote *r = &h->remote[i];
        uint64_t period_ns = silence_ns(h) / ASKS;

        if (r->state == REMOTE_STARTING || r->state == REMOTE_LOST ||
            now - r->asked_ns < (period_ns < 1000000000 ? period_ns : 1000000000))
            continue;
        r->asked_ns = now;
        cli_channel_put(&r->channel, CHANNEL_ASK, &content);
    }
    cli_bytes_free(&content);
}

static bool is_output_full(const struct hub *h)
{
    return cli_bytes_size(&h->out[0]) + cli_bytes_size(&h->out[1]) > OUTPUT_FULL;
}

/* Finds hosts that have been silent for too long, and checks the deadlines of the job. */
static void check_times(struct hub *h)
{
    uint64_t now = os_now_ns();

    for (uint32_t i = 0; i < h->count; i++) {
        struct remote *r = &h->remote[i];
        char why[LAUNCH_TEXT_MAX];

        if (is_output_full(h))
            /*
             * the host may have sent something that was not read, because its channel was not read
             */
            r->channel.heard_ns = now;
        if (r->state == REMOTE_STARTING || r->state == REMOTE_LOST || r->state == REMOTE_DONE ||
            now - r->channel.heard_ns <= silence_ns(h))
            continue;
        snprintf(why, sizeof(why),
                 "host %.200s has been silent for %g seconds; if its agent does not hear from this "
                 "launcher either, it ends its ranks after the same time",
                 r->place->name, h->params->job.silence);
        lose_host(h, r, why);
    }
    if (h->end_ns != 0 && now >= h->end_ns)
        hub_end(h, CAUSE_LATE, EXIT_LATE, "%s", "");
    for (uint32_t i = 0; i < h->count && !h->is_running && now >= h->start_ns; i++)
        if (h->remote[i].state < REMOTE_READY)
            hub_end(h, CAUSE_HOST, EXIT_FAILED, "host %.200s is not ready after %llu seconds",
                    h->remote[i].place->name, START_NS / 1000000000);
    ask_hosts(h, now);
}

/* Whether the loop may end: no host runs ranks any more, or the hosts that do were given up. */
static bool is_over(struct hub *h)
{
    uint32_t busy = count_state(h, REMOTE_RUNNING);

    if (!cli_supervised_has_caller(&h->supervised))
        return true;
    if (!h->is_running)
        return h->cause != CAUSE_NONE;
    if (busy > 0 && h->give_up_ns != 0 && os_now_ns() >= h->give_up_ns) {
        for (uint32_t i = 0; i < h->count; i++)
            if (h->remote[i].state == REMOTE_RUNNING)
                fprintf(stderr, "pto launch: host %s has not confirmed that its ranks have ended\n",
                        h->remote[i].place->name);
        return true;
    }
    return busy == 0;
}

static void hub_wait(struct hub *h)
{
    bool is_full = is_output_full(h);
    bool wants_input = h->is_running && h->params->job.has_input && !h->is_input_over &&
                       h->input_ahead < INPUT_AHEAD && h->remote[0].state == REMOTE_RUNNING;
    uint64_t period_ms = silence_ns(h) / ASKS / 1000000;
    struct pollfd *p = h->poll;

    p[0] = (struct pollfd){ .fd = h->signals, .events = POLLIN };
    p[1] = (struct pollfd){ .fd = wants_input ? STDIN_FILENO : -1, .events = POLLIN };
    for (int i = 0; i < 2; i++)
        p[2 + i] =
            (struct pollfd){ .fd = cli_bytes_size(&h->out[i]) > 0 ? i + 1 : -1, .events = POLLOUT };
    for (uint32_t i = 0; i < h->count; i++) {
        struct remote *r = &h->remote[i];

        p = &h->poll[FIXED_FILES + 3 * i];
        p[0] = (struct pollfd){ .fd = is_full ? -1 : r->channel.in, .events = POLLIN };
        p[1] = (struct pollfd){ .fd = cli_bytes_size(&r->channel.unsent) > 0 ? r->channel.out : -1,
                                .events = POLLOUT };
        p[2] = (struct pollfd){ .fd = is_full ? -1 : r->errors, .events = POLLIN };
    }
    if (poll(h->poll, FIXED_FILES + 3 * h->count, period_ms < 250 ? (int)period_ms : 250) <= 0)
        return;
    p = h->poll;
    if (p[0].revents != 0)
        take_signal(h);
    if (p[1].revents != 0)
        read_input(h);
    for (int i = 0; i < 2; i++)
        if (p[2 + i].revents != 0)
            print_output(h, i);
    for (uint32_t i = 0; i < h->count; i++) {
        p = &h->poll[FIXED_FILES + 3 * i];
        if (p[2].revents != 0)
            (void)cli_launch_remote_read_errors(&h->remote[i], &h->out[1]);
        if (p[0].revents != 0 && h->remote[i].channel.in >= 0)
            read_host(h, &h->remote[i]);
    }
}

static void hub_loop(struct hub *h)
{
    while (!is_over(h)) {
        hub_wait(h);
        check_times(h);
        for (uint32_t i = 0; i < h->count; i++)
            if (h->remote[i].channel.out >= 0)
                /*
                 * an error of sending is ignored, because reading from the channel reports the end
                 */
                (void)cli_channel_send(&h->remote[i].channel);
    }
}

/* ---- the result ---- */

static void hub_conclude(struct hub *h)
{
    struct verdict *v = h->verdict;

    if (h->cause == CAUSE_RANK) {
        h->failure.host = h->failed_host;
        h->failure.ended_count = h->ended_count;
        v->code = WIFSIGNALED(h->failure.state) ? EXIT_SIGNAL + WTERMSIG(h->failure.state)
                                                : WEXITSTATUS(h->failure.state);
        (void)cli_ranks_describe(&h->failure, v->text);
    } else if (h->cause == CAUSE_LATE)
        snprintf(v->text, sizeof(v->text),
                 "the time limit of %g seconds was reached; %u ranks were ended",
                 h->params->timeout, h->ended_count);
    for (uint32_t i = 0; i < h->count && h->lost_output == 0; i++)
        h->lost_output = h->remote[i].result.lost_output;
    if (h->cause != CAUSE_NONE || h->lost_output == 0)
        return;
    v->code = EXIT_FAILED;
    snprintf(v->text, sizeof(v->text), "the output is incomplete: %s", strerror(h->lost_output));
}

/* Main function of the hub's process. */
static void hub_run(void *context)
{
    struct hub *h = context;

    (void)signal(SIGPIPE, SIG_IGN);
    /* blocks SIGTTOU, so that this process can print while it is in the background */
    sigaddset(&h->supervised.signals, SIGTTOU);
    sigprocmask(SIG_BLOCK, &h->supervised.signals, NULL);
    sigdelset(&h->supervised.signals, SIGTTOU);
    h->signals = signalfd(-1, &h->supervised.signals, SFD_CLOEXEC | SFD_NONBLOCK);
    h->way = (struct remote_way){ h->params->shell, h->params->prefix, &h->supervised.mask };
    h->count = h->params->places->count;
    h->remote = calloc(h->count, sizeof(*h->remote));
    h->poll = calloc(FIXED_FILES + 3 * (size_t)h->count, sizeof(*h->poll));
    h->start_ns = os_now_ns() + START_NS;
    if (h->signals < 0 || h->remote == NULL || h->poll == NULL) {
        h->verdict->code = EXIT_FAILED;
        snprintf(h->verdict->text, sizeof(h->verdict->text), "%s", strerror(errno));
        return;
    }
    for (uint32_t i = 0; i < h->count; i++) {
        int why = cli_launch_remote_start(&h->remote[i], &h->params->places->place[i], &h->way);

        if (why != 0)
            hub_end(h, CAUSE_HOST, EXIT_FAILED, "cannot start the remote shell for host %.200s: %s",
                    h->params->places->place[i].name, strerror(why));
    }
    hub_loop(h);
    for (uint32_t i = 0; i < h->count; i++)
        cli_channel_drain(&h->remote[i].channel, 0);
    hub_flush(h);
    cli_launch_remotes_end(h->remote, h->count, SHELLS_MS);
    hub_conclude(h);
}

int cli_launch_hosts(const struct launch_params *params, char why[LAUNCH_TEXT_MAX])
{
    struct hub h = { .params = params };
    int state = 0, status, code;

    h.verdict =
        mmap(NULL, sizeof(*h.verdict), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (h.verdict == MAP_FAILED) {
        snprintf(why, LAUNCH_TEXT_MAX, "%s", strerror(errno));
        return EXIT_FAILED;
    }
    cli_supervised_begin(&h.supervised);
    status = cli_supervised_run(&h.supervised, hub_run, &h, &state);
    code = h.verdict->code;
    snprintf(why, LAUNCH_TEXT_MAX, "%s", h.verdict->text);
    if (status != 0 || state != 0) {
        code = EXIT_FAILED;
        snprintf(why, LAUNCH_TEXT_MAX, "%s%s",
                 status != 0 ? "cannot start a process: "
                             : "the process that watches the hosts died; their ranks are ended: ",
                 status != 0          ? strerror(status)
                 : WIFSIGNALED(state) ? strsignal(WTERMSIG(state))
                                      : "exit");
    }
    munmap(h.verdict, sizeof(*h.verdict));
    cli_supervised_end(&h.supervised);
    return code;
}
