/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller forks the keeper and waits for it; all else happens in the keeper, which forks
 * the ranks. The keeper is a subreaper: a process that a rank started and whose own parent
 * has ended becomes the keeper's child, whatever its process group or session. So the
 * keeper has killed all of them when it has no child left.
 *
 * In the keeper signals are blocked but for two places, before a look around and in ppoll, so
 * that none is missed between the look and the sleep. Handlers only leave a note. A rank is
 * reaped only after the rest of its group was killed: until then the kernel does not reuse its
 * number.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/cli/ranks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/os.h"
#include "pto/device.h"

enum { LINE_BYTES = 16 << 10, WRITE_BYTES = 4096, TOKEN_BYTES = 16, PATH_BYTES = 200 };
enum { DROP_NS = 1000000000, SCAN_NS = 50000000 };
#define PATIENCE_NS 5000000000ull /* for whoever is to blame to say so */
#define REST_NS 10000000000ull    /* for processes that were killed to end */

/* One of the two that a rank prints to. */
struct stream {
    int pipe; /* -1: it has ended */
    uint32_t used;
    char *bytes; /* a line that is not complete */
};

struct rank {
    pid_t process; /* 0: it has ended */
    struct stream stream[2];
};

enum ending { GOING_ON, ASKED, KILLED };

struct ranks {
    const struct ranks_params *params;
    struct ranks_result *result; /* shared by the keeper and its caller */
    pid_t caller;
    uint32_t living;
    bool is_echo; /* the failure in `result` is that of a rank that missed another one */
    bool is_calm; /* the others end by themselves: it is an echo, or a failure apart */
    enum ending ending;
    uint64_t end_ns; /* when time is over; 0: never */
    uint64_t
        ask_ns; /* when the others are asked to end, though none of them has failed; 0: never */
    uint64_t kill_ns; /* when those that were asked to end are killed */
    uint64_t drop_ns; /* KILLED: when what nobody reads is dropped */
    char folder[PATH_BYTES];
    char token[2 * TOKEN_BYTES + 1];
    int lost_output; /* an errno */
    sigset_t mask;   /* of the signals, before */
    struct rlimit files;
    struct rank *rank;
    struct pollfd *poll;
};

static const int watched[] = { SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT };
enum { WATCHED = sizeof(watched) / sizeof(watched[0]) };

/* What the handlers read and leave, in the keeper. */
static const struct ranks *kept;
static volatile sig_atomic_t interrupts;
static volatile sig_atomic_t last_signal;
static volatile sig_atomic_t first_to_fail; /* a process; 0: none yet */
static volatile sig_atomic_t has_ended;     /* a process, since they were looked at last */

static int make_meeting(struct ranks *r);
static void remove_meeting(const struct ranks *r);
static int wait_for_keeper(pid_t keeper, const sigset_t *set);
_Noreturn static void keep(struct ranks *r);
static int ranks_start_rank(struct ranks *r, uint32_t index);
static void wait_for_event(struct ranks *r);
static void end_all(struct ranks *r, int number);
static void kill_all(struct ranks *r);
static void kill_rest(struct ranks *r);
static void emit(struct ranks *r, int file, const char *bytes, size_t size);

const char *cli_ranks_binding_name(uint32_t binding)
{
    static const char *const names[RANKS_BINDINGS] = { "auto", "cpu", "none" };

    return binding < RANKS_BINDINGS ? names[binding] : NULL;
}

/* The signals that the caller passes on, and the one that ends its wait. */
static void find_signals(sigset_t *set)
{
    sigemptyset(set);
    for (int i = 0; i < WATCHED; i++) {
        struct sigaction now;

        if (watched[i] == SIGCHLD ||
            (sigaction(watched[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN))
            sigaddset(set, watched[i]);
    }
}

void cli_ranks_run(const struct ranks_params *params, struct ranks_result *result)
{
    struct sigaction plain = { .sa_handler = SIG_DFL }, child;
    struct ranks r = { .params = params, .caller = getpid() };
    pid_t keeper = -1;
    int state = 0, status;
    sigset_t set;

    r.result =
        mmap(NULL, sizeof(*r.result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r.result == MAP_FAILED) {
        *result = (struct ranks_result){ .end = RANKS_NOT_STARTED, .state = errno };
        return;
    }
    fflush(stdout); /* the keeper must not inherit what is not yet written */
    fflush(stderr);
    find_signals(&set);
    sigprocmask(SIG_BLOCK, &set, &r.mask);
    (void)sigaction(SIGCHLD, &plain, &child);
    status = make_meeting(&r);
    if (status == 0) {
        keeper = fork();
        if (keeper == 0)
            keep(&r);
        status = keeper < 0 ? errno : 0;
        if (keeper > 0)
            state = wait_for_keeper(keeper, &set);
        if (keeper < 0 || state != 0)
            remove_meeting(&r);
    }
    *result = status != 0  ? (struct ranks_result){ .end = RANKS_NOT_STARTED, .state = status }
              : state != 0 ? (struct ranks_result){ .end = RANKS_UNKEPT, .state = state }
                           : *r.result;
    munmap(r.result, sizeof(*r.result));
    (void)sigaction(SIGCHLD, &child, NULL);
    sigprocmask(SIG_SETMASK, &r.mask, NULL);
}

/* Passes signals on until the keeper has ended. Returns its state, of waitpid. */
static int wait_for_keeper(pid_t keeper, const sigset_t *set)
{
    int state = 0;

    for (;;) {
        pid_t got = waitpid(keeper, &state, WNOHANG);
        int number;

        if (got == keeper || (got < 0 && errno != EINTR))
            return state;
        number = sigwaitinfo(set, NULL);
        if (number > 0 && number != SIGCHLD)
            (void)kill(keeper, number);
    }
}

/* ---- where ranks meet ---- */

/* A folder that only this user can look into, and a token that nobody can guess. */
static int make_meeting(struct ranks *r)
{
    const char *tmp = file_temporary_folder();
    uint8_t random[TOKEN_BYTES];

    if (strlen(tmp) > PATH_BYTES - 32)
        tmp = "/tmp";
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return errno;
    for (int i = 0; i < TOKEN_BYTES; i++)
        snprintf(r->token + 2 * i, 3, "%02x", random[i]);
    snprintf(r->folder, sizeof(r->folder), "%s/pto-ranks-XXXXXX", tmp);
    return mkdtemp(r->folder) != NULL ? 0 : errno;
}

static void remove_meeting(const struct ranks *r)
{
    char path[PATH_BYTES + 16];

    snprintf(path, sizeof(path), "%s/meet", r->folder);
    (void)unlink(path);
    (void)rmdir(r->folder);
}

/* ---- the keeper ---- */

static bool is_rank(pid_t process)
{
    for (uint32_t i = 0; i < kept->params->count && process != 0; i++)
        if (kept->rank[i].process == process)
            return true;
    return false;
}

static void ranks_note_signal(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (number == SIGCHLD) { /* a child has ended, or the caller has */
        has_ended = 1;
        if (first_to_fail == 0 && (info->si_code != CLD_EXITED || info->si_status != 0) &&
            is_rank(info->si_pid))
            first_to_fail = info->si_pid;
        return;
    }
    last_signal = number;
    interrupts++;
}

/*
 * A process group of its own, so that a signal to the caller's ends the caller only; SIGTTOU is
 * blocked, so that it may write to the terminal all the same.
 */
static void ranks_prepare(struct ranks *r)
{
    struct sigaction action = { .sa_sigaction = ranks_note_signal,
                                .sa_flags = SA_SIGINFO | SA_NOCLDSTOP };
    struct rlimit more;
    sigset_t set;

    kept = r;
    interrupts = last_signal = first_to_fail = has_ended = 0;
    sigemptyset(&set);
    sigaddset(&set, SIGTTOU);
    sigfillset(&action.sa_mask);
    for (int i = 0; i < WATCHED; i++) {
        struct sigaction old;

        sigaddset(&set, watched[i]);
        (void)sigaction(watched[i], NULL, &old);
        if (watched[i] == SIGCHLD || old.sa_handler != SIG_IGN)
            (void)sigaction(watched[i], &action, NULL);
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* mutation: no-subreaper */
    (void)prctl(PR_SET_PDEATHSIG, SIGCHLD); /* ranks_look_around finds that the caller has ended */
    (void)setpgid(0, 0);
    getrlimit(RLIMIT_NOFILE, &r->files);
    more = r->files;
    more.rlim_cur = more.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &more); /* two pipes for each rank */
}

_Noreturn static void keep(struct ranks *r)
{
    int status = 0;

    *r->result = (struct ranks_result){ .end = RANKS_DONE };
    r->rank = calloc(r->params->count, sizeof(*r->rank));
    r->poll = calloc(2 * r->params->count + 1, sizeof(*r->poll));
    if (r->rank == NULL || r->poll == NULL) {
        *r->result = (struct ranks_result){ .end = RANKS_NOT_STARTED, .state = ENOMEM };
        remove_meeting(r);
        _exit(0);
    }
    ranks_prepare(r);
    for (uint32_t i = 0; i < r->params->count && status == 0; i++)
        status = ranks_start_rank(r, i);
    if (status != 0) {
        *r->result = (struct ranks_result){ .end = RANKS_NOT_STARTED, .state = status };
        kill_all(r);
    }
    if (r->params->timeout != 0)
        r->end_ns = os_now_ns() + (uint64_t)(r->params->timeout * 1e9);
    while (r->living != 0)
        wait_for_event(r);
    kill_rest(r);
    r->result->lost_output = r->lost_output;
    remove_meeting(r);
    _exit(0);
}

/* The parent of a process; 0: unknown, or it has ended. */
static pid_t parent_of(const char *process)
{
    char path[64], text[512];
    const char *end;
    ssize_t size = -1;
    int file, parent = 0;

    snprintf(path, sizeof(path), "/proc/%.20s/stat", process);
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        size = read(file, text, sizeof(text) - 1);
        close(file);
    }
    if (size <= 0)
        return 0;
    text[size] = '\0';
    end = strrchr(text, ')'); /* the name of a program may contain anything */
    return end != NULL && sscanf(end, ") %*c %d", &parent) == 1 ? parent : 0;
}

/* A child's number stays its own until this process reaps it. Returns how many there are. */
static uint32_t kill_children(void)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    uint32_t count = 0;

    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            parent_of(entry->d_name) == getpid()) {
            (void)kill((pid_t)atol(entry->d_name), SIGKILL);
            count++;
        }
    if (folder != NULL)
        closedir(folder);
    return count;
}

/*
 * Kills what ranks started and what left its group. The children of a process that is killed
 * become this one's, so there are none left when this one has no child.
 */
static void kill_rest(struct ranks *r)
{
    uint64_t end_ns = os_now_ns() + REST_NS;
    uint32_t count = 0;
    char text[128];
    sigset_t child;

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    for (;;) {
        pid_t got = waitpid(-1, NULL, WNOHANG);

        if (got < 0 && errno == ECHILD)
            return;
        if (got != 0)
            continue;
        if (os_now_ns() >= end_ns)
            break;
        count = kill_children();
        (void)sigtimedwait(&child, NULL, &(struct timespec){ .tv_nsec = SCAN_NS });
    }
    r->ending = KILLED;
    r->drop_ns = os_now_ns() + DROP_NS;
    snprintf(text, sizeof(text), "pto: processes that ranks started cannot be killed: %u\n", count);
    emit(r, STDERR_FILENO, text, strlen(text));
}

/* ---- a rank ---- */

/* The CPUs of this process, shared out. */
static void ranks_bind(const struct ranks *r, uint32_t rank)
{
    uint32_t count = r->params->count, cpus, share, first, at = 0;
    cpu_set_t all, own;

    CPU_ZERO(&own);
    if (r->params->binding == RANKS_ANY || sched_getaffinity(0, sizeof(all), &all) != 0)
        return;
    cpus = (uint32_t)CPU_COUNT(&all);
    if (r->params->binding == RANKS_AUTO && cpus < count)
        return;
    share = r->params->binding == RANKS_AUTO ? cpus / count : 1;
    first = rank * share % cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all)) {
            if (at >= first && at < first + share)
                CPU_SET(cpu, &own);
            at++;
        }
    (void)sched_setaffinity(0, sizeof(own), &own);
}

static void ranks_set_number(const char *name, uint32_t value)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", value);
    (void)setenv(name, text, 1);
}

static void ranks_set_environment(const struct ranks *r, uint32_t rank)
{
    char path[PATH_BYTES + 16];

    snprintf(path, sizeof(path), "%s/meet", r->folder);
    ranks_set_number("PTO_RANK", rank);
    ranks_set_number("PTO_RANKS", r->params->count);
    (void)setenv("PTO_MEET", path, 1);
    (void)setenv("PTO_TOKEN", r->token, 1);
}

static void close_streams(struct rank *rank)
{
    for (int i = 0; i < 2; i++) {
        if (rank->stream[i].pipe >= 0)
            close(rank->stream[i].pipe);
        rank->stream[i].pipe = -1;
        free(rank->stream[i].bytes);
        rank->stream[i].bytes = NULL;
    }
}

/* In the rank. It ends when the keeper does, also if the keeper has ended already. */
_Noreturn static void enter_rank(struct ranks *r, uint32_t index, const int out[2], pid_t keeper)
{
    bool has_input = r->params->has_input && index == 0 && !isatty(STDIN_FILENO);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int code;

    for (int i = 0; i < WATCHED; i++) {
        struct sigaction now;

        if (sigaction(watched[i], NULL, &now) == 0 && now.sa_sigaction == ranks_note_signal)
            (void)signal(watched[i], SIG_DFL); /* what was ignored stays so */
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setpgid(0, 0);
    if (getppid() != keeper || (!has_input && dup2(null, STDIN_FILENO) < 0) ||
        dup2(out[0], STDOUT_FILENO) < 0 || dup2(out[1], STDERR_FILENO) < 0) {
        dprintf(out[1], "the rank cannot be started: %s\n",
                null < 0 ? "no descriptor is free; see ulimit -n" : strerror(errno));
        _exit(EXIT_FAILURE);
    }
    for (uint32_t i = 0; i < index; i++) /* one that does not exec has all of them */
        close_streams(&r->rank[i]);
    close(out[0]);
    close(out[1]);
    close(null);
    ranks_bind(r, index);
    ranks_set_environment(r, index);
    (void)setrlimit(RLIMIT_NOFILE, &r->files);
    sigprocmask(SIG_SETMASK, &r->mask, NULL);
    code = r->params->enter(r->params->context, index);
    if (pto_stuck_threads() == 0)
        exit(code);
    fflush(NULL);
    _exit(code); /* threads may still run code that an orderly exit would unmap */
}

static int ranks_start_rank(struct ranks *r, uint32_t index)
{
    struct rank *rank = &r->rank[index];
    pid_t keeper = getpid();
    int out[2] = { -1, -1 };
    int status = 0;

    for (int i = 0; i < 2; i++) {
        int ends[2] = { -1, -1 };

        rank->stream[i] = (struct stream){ .pipe = -1, .bytes = malloc(LINE_BYTES) };
        if (rank->stream[i].bytes == NULL || pipe2(ends, O_CLOEXEC) != 0)
            status = errno;
        rank->stream[i].pipe = ends[0];
        out[i] = ends[1];
        if (ends[0] >= 0)
            (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    }
    if (status == 0) {
        rank->process = fork();
        if (rank->process == 0)
            enter_rank(r, index, out, keeper);
        if (rank->process < 0)
            status = errno;
    }
    for (int i = 0; i < 2; i++)
        if (out[i] >= 0)
            close(out[i]);
    if (status != 0) {
        rank->process = 0;
        close_streams(rank);
        return status;
    }
    (void)setpgid(rank->process, rank->process); /* whoever is first */
    r->living++;
    return 0;
}

/* ---- ending them ---- */

static void signal_all(const struct ranks *r, int number)
{
    for (uint32_t i = 0; i < r->params->count; i++)
        if (r->rank[i].process != 0)
            (void)kill(-r->rank[i].process, number);
}

static void kill_all(struct ranks *r)
{
    r->ending = KILLED;
    r->drop_ns = os_now_ns() + DROP_NS;
    signal_all(r, SIGKILL);
}

/* Asks those that are left, once. */
static void end_all(struct ranks *r, int number)
{
    if (r->ending != GOING_ON)
        return;
    r->ending = ASKED;
    if (first_to_fail == 0)
        first_to_fail = -1; /* whoever fails from now on was made to */
    r->kill_ns = os_now_ns() + (uint64_t)(r->params->grace * 1e9);
    r->result->ended_count = r->living;
    signal_all(r, number);
}

/* What time and signals ask for. Returns when to look again; UINT64_MAX: no need to. */
static uint64_t ranks_look_around(struct ranks *r)
{
    uint64_t now = os_now_ns();
    sigset_t blocked;

    sigprocmask(SIG_SETMASK, &r->mask, &blocked); /* ppoll lets none in while there is work */
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    if (interrupts > 0 && r->ending == GOING_ON) {
        if (r->result->end == RANKS_DONE)
            *r->result = (struct ranks_result){ .end = RANKS_INTERRUPTED, .state = last_signal };
        end_all(r, last_signal);
    }
    if ((interrupts > 1 || getppid() != r->caller) && r->ending != KILLED)
        kill_all(r);
    if (r->ending == GOING_ON && r->end_ns != 0 && now >= r->end_ns) {
        *r->result = (struct ranks_result){ .end = RANKS_LATE };
        end_all(r, SIGTERM);
    }
    if (r->ask_ns != 0 && now >= r->ask_ns)
        end_all(r, SIGTERM);
    if (r->ending == ASKED && now >= r->kill_ns)
        kill_all(r);
    if (r->ending == ASKED)
        return r->kill_ns;
    if (r->ending == KILLED || (r->end_ns == 0 && r->ask_ns == 0))
        return UINT64_MAX;
    return r->end_ns == 0 || (r->ask_ns != 0 && r->ask_ns < r->end_ns) ? r->ask_ns : r->end_ns;
}

/* ---- what they print ---- */

/* Sleeps until a file is ready, a signal comes, or it is time to look again. */
static int sleep_until(const struct ranks *r, struct pollfd *files, nfds_t count, uint64_t when_ns)
{
    uint64_t now = os_now_ns(), left = when_ns > now ? when_ns - now : 0;
    struct timespec time = { .tv_sec = (time_t)(left / 1000000000),
                             .tv_nsec = (long)(left % 1000000000) };

    return ppoll(files, count, when_ns == UINT64_MAX ? NULL : &time, &r->mask);
}

/* Whoever reads may be slow: time and signals count meanwhile. */
static void emit(struct ranks *r, int file, const char *bytes, size_t size)
{
    while (size > 0) {
        struct pollfd to = { .fd = file, .events = POLLOUT };
        ssize_t put;

        if (sleep_until(r, &to, 1, r->ending == KILLED ? r->drop_ns : ranks_look_around(r)) <= 0) {
            if (r->ending == KILLED && os_now_ns() >= r->drop_ns)
                return;
            continue;
        }
        put = write(file, bytes, size < WRITE_BYTES ? size : WRITE_BYTES);
        if (put < 0 && errno != EINTR && errno != EAGAIN) {
            r->lost_output = errno;
            return;
        }
        if (put > 0) {
            bytes += put;
            size -= (size_t)put;
        }
    }
}

static void emit_line(struct ranks *r, uint32_t rank, int stream, const char *line, size_t size)
{
    char text[LINE_BYTES + 32];
    int prefix = r->params->has_prefix ? snprintf(text, 32, "[%u] ", rank) : 0;

    memcpy(text + prefix, line, size);
    text[(size_t)prefix + size] = '\n';
    emit(r, stream == 0 ? STDOUT_FILENO : STDERR_FILENO, text, (size_t)prefix + size + 1);
}

/* A line that is too long becomes several. False: there is nothing more to read now. */
static bool forward(struct ranks *r, uint32_t rank, int index)
{
    struct stream *s = &r->rank[rank].stream[index];
    ssize_t got = read(s->pipe, s->bytes + s->used, LINE_BYTES - s->used);
    uint32_t begin = 0;

    if (got <= 0)
        return got < 0 && errno == EINTR;
    s->used += (uint32_t)got;
    for (;;) {
        const char *end = memchr(s->bytes + begin, '\n', s->used - begin);

        if (end == NULL)
            break;
        emit_line(r, rank, index, s->bytes + begin, (size_t)(end - s->bytes) - begin);
        begin = (uint32_t)(end - s->bytes) + 1;
    }
    memmove(s->bytes, s->bytes + begin, s->used - begin);
    s->used -= begin;
    if (s->used == LINE_BYTES) {
        emit_line(r, rank, index, s->bytes, s->used);
        s->used = 0;
    }
    return true;
}

/* ---- the loop ---- */

/* The first that failed is told; one that ends because of another only if there is no other. */
static void ranks_judge(struct ranks *r, uint32_t rank, int state)
{
    bool is_first = first_to_fail == r->rank[rank].process;
    bool was_made_to = WIFSIGNALED(state) && r->ending != GOING_ON;
    bool is_echo = WIFEXITED(state) && WEXITSTATUS(state) == r->params->peer_code;
    bool is_apart = WIFEXITED(state) && WEXITSTATUS(state) == r->params->apart_code;

    if (WIFEXITED(state) && WEXITSTATUS(state) == 0)
        return;
    r->result->apart_count += is_apart;
    if (r->result->end == RANKS_DONE || (r->result->end == RANKS_FAILED && !was_made_to &&
                                         (is_echo == r->is_echo ? is_first : r->is_echo))) {
        r->result->end = RANKS_FAILED;
        r->result->rank = rank;
        r->result->state = state;
        r->is_echo = is_echo;
        r->is_calm = is_echo || is_apart;
    }
}

/* Of a rank that has ended, kills the rest of its group, then passes on what it has printed. */
static void ranks_bury(struct ranks *r, uint32_t index)
{
    struct rank *rank = &r->rank[index];
    int state = 0;

    (void)kill(-rank->process, SIGKILL);
    while (waitpid(rank->process, &state, 0) < 0 && errno == EINTR) {
    }
    ranks_judge(r, index, state);
    rank->process = 0;
    for (int i = 0; i < 2; i++) {
        while (forward(r, index, i)) {
        }
        if (rank->stream[i].used != 0)
            emit_line(r, index, i, rank->stream[i].bytes, rank->stream[i].used);
    }
    close_streams(rank);
    r->living--;
}

/* The index of a rank that has ended; `count`: none has. Reaps other processes that have ended. */
static uint32_t ranks_find_ended(struct ranks *r)
{
    for (;;) {
        siginfo_t info = { .si_pid = 0 };

        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
            return r->params->count;
        for (uint32_t i = 0; i < r->params->count; i++)
            if (r->rank[i].process == info.si_pid)
                return i;
        (void)waitpid(info.si_pid, NULL, 0);
    }
}

static void wait_for_event(struct ranks *r)
{
    uint64_t when_ns = ranks_look_around(r);
    uint32_t count = 0;

    if (has_ended != 0) /* the signal has come already: nothing would end the sleep */
        when_ns = 0;
    for (uint32_t i = 0; i < r->params->count; i++)
        for (int k = 0; k < 2; k++)
            if (r->rank[i].process != 0 && r->rank[i].stream[k].pipe >= 0)
                r->poll[count++] =
                    (struct pollfd){ .fd = r->rank[i].stream[k].pipe, .events = POLLIN };
    if (sleep_until(r, r->poll, count, when_ns) > 0) {
        uint32_t at = 0;

        for (uint32_t i = 0; i < r->params->count; i++)
            for (int k = 0; k < 2; k++) {
                struct stream *s = &r->rank[i].stream[k];

                if (r->rank[i].process == 0 || s->pipe < 0)
                    continue;
                if ((r->poll[at].revents & POLLIN) != 0) {
                    (void)forward(r, i, k);
                } else if (r->poll[at].revents != 0) { /* closed, and nothing in it */
                    close(s->pipe);
                    s->pipe = -1;
                }
                at++;
            }
    }
    has_ended = 0; /* signals are blocked here */
    for (uint32_t i; (i = ranks_find_ended(r)) != r->params->count;) {
        ranks_bury(r, i);
        if (r->result->end == RANKS_DONE)
            continue;
        if (!r->is_calm)
            end_all(r, SIGTERM);
        else if (r->ask_ns == 0)
            r->ask_ns = os_now_ns() + PATIENCE_NS;
    }
}

const char *cli_ranks_tell(const struct ranks_result *result, char text[RANKS_TEXT_MAX])
{
    char others[64] = "";

    if (result->ended_count == 1)
        snprintf(others, sizeof(others), "; the other one was ended");
    else if (result->ended_count > 1)
        snprintf(others, sizeof(others), "; the %u others were ended", result->ended_count);
    if (result->end == RANKS_NOT_STARTED)
        snprintf(text, RANKS_TEXT_MAX, "no process can be started: %s", strerror(result->state));
    else if (result->end == RANKS_UNKEPT)
        snprintf(text, RANKS_TEXT_MAX,
                 "the process that started the ranks died (%s); what ranks started may be left",
                 WIFSIGNALED(result->state) ? strsignal(WTERMSIG(result->state)) : "exit");
    else if (WIFSIGNALED(result->state))
        snprintf(text, RANKS_TEXT_MAX, "rank %u died: %s%s", result->rank,
                 strsignal(WTERMSIG(result->state)), others);
    else
        snprintf(text, RANKS_TEXT_MAX, "rank %u ended with code %d%s", result->rank,
                 WEXITSTATUS(result->state), others);
    return text;
}
