/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller forks the supervisor and waits for it. The supervisor forks the ranks and does all
 * other work. The supervisor is a subreaper: when the parent of a process that a rank started ends,
 * the supervisor becomes the parent of that process, whatever its process group or session. So when
 * the supervisor has no child left, it has killed all of them.
 *
 * In the supervisor, signals are blocked except in two places, before each check of deadlines and
 * signals and in ppoll, so that no signal is missed between the check and the sleep. Handlers only
 * set variables. A rank is reaped only after the rest of its process group was killed: until then
 * the kernel does not reuse its pid.
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
#include "tool/cli/supervised.h"

enum { LINE_BYTES = 16 << 10, WRITE_BYTES = 4096, TOKEN_BYTES = 16, PATH_BYTES = 200 };
enum { DROP_NS = 1000000000, SCAN_NS = 50000000 };
/*
 * If a rank fails only because it lost its peer, time to wait for the report of the rank that
 * failed by itself, before all other ranks are asked to end.
 */
#define BLAME_NS 5000000000ull
#define REST_NS 10000000000ull /* time that killed processes get to end */

/* A pipe from the stdout or stderr of a rank to the supervisor. */
struct stream {
    int pipe; /* -1: closed */
    uint32_t used;
    char *bytes; /* received bytes of an incomplete line */
};

struct rank {
    pid_t process; /* pid; 0: the rank has ended */
    struct stream stream[2];
};

enum ending { GOING_ON, ASKED, KILLED };

struct ranks {
    const struct ranks_params *params;
    struct ranks_result *result; /* shared memory of the supervisor and the caller */
    struct supervised supervised;
    uint32_t living;
    /*
     * `result` names a rank that failed only because it lost its peer; it is replaced if another
     * rank fails by itself
     */
    bool is_echo;
    /*
     * the other ranks are not asked to end: they lose their peer anyway, or the failure does not
     * affect them
     */
    bool is_calm;
    enum ending ending;
    uint64_t end_ns;  /* deadline of the job; 0: none */
    uint64_t ask_ns;  /* time at which ranks are asked to end although none has failed; 0: never */
    uint64_t kill_ns; /* time at which ranks that were asked to end are killed */
    /* while `ending` is KILLED: time at which output that no process reads is dropped */
    uint64_t drop_ns;
    char folder[PATH_BYTES];
    char token[2 * TOKEN_BYTES + 1];
    int lost_output; /* errno of a failure to forward output; 0: none */
    struct rlimit files;
    struct rank *rank;
    struct pollfd *poll;
};

static const int watched[] = { SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT };
enum { WATCHED = sizeof(watched) / sizeof(watched[0]) };

/* State of the supervisor that its signal handlers read and write. */
static const struct ranks *supervised;
static volatile sig_atomic_t interrupts;
static volatile sig_atomic_t last_signal;
/* pid of the rank that failed first; 0: none yet; -1: failures are ignored */
static volatile sig_atomic_t first_to_fail;
static volatile uint64_t first_failed_ns; /* time of that failure */
static volatile sig_atomic_t has_ended;   /* a child process has ended since the last check */

static int make_rendezvous(struct ranks *r);
static void remove_rendezvous(const struct ranks *r);
static void supervise(void *context);
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

void cli_ranks_run(const struct ranks_params *params, struct ranks_result *result)
{
    struct ranks r = { .params = params };
    int state = 0, status = 0;

    r.result =
        mmap(NULL, sizeof(*r.result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r.result == MAP_FAILED) {
        *result = (struct ranks_result){ .end = RANKS_NOT_STARTED, .state = errno };
        return;
    }
    cli_supervised_begin(&r.supervised);
    if (params->part == NULL || params->part->meet == NULL)
        status = make_rendezvous(&r);
    if (status == 0)
        status = cli_supervised_run(&r.supervised, supervise, &r, &state);
    if (status != 0 || state != 0)
        remove_rendezvous(&r);
    *result = status != 0  ? (struct ranks_result){ .end = RANKS_NOT_STARTED, .state = status }
              : state != 0 ? (struct ranks_result){ .end = RANKS_UNKEPT, .state = state }
                           : *r.result;
    munmap(r.result, sizeof(*r.result));
    cli_supervised_end(&r.supervised);
}

/* ---- rendezvous ---- */

/* Makes the rendezvous: a folder that only this user can read, and a random token. */
static int make_rendezvous(struct ranks *r)
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

static void remove_rendezvous(const struct ranks *r)
{
    char path[PATH_BYTES + 16];

    if (r->folder[0] == '\0')
        return;
    snprintf(path, sizeof(path), "%s/meet", r->folder);
    (void)unlink(path);
    (void)rmdir(r->folder);
}

/* ---- the supervisor ---- */

static bool is_rank(pid_t process)
{
    for (uint32_t i = 0; i < supervised->params->count && process != 0; i++)
        if (supervised->rank[i].process == process)
            return true;
    return false;
}

static void ranks_note_signal(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (number == SIGCHLD) { /* a rank, another child process or the caller has ended */
        has_ended = 1;
        if (first_to_fail == 0 && (info->si_code != CLD_EXITED || info->si_status != 0) &&
            is_rank(info->si_pid)) {
            first_to_fail = info->si_pid;
            first_failed_ns = os_now_ns();
        }
        return;
    }
    last_signal = number;
    interrupts++;
}

/*
 * Prepares the supervisor. It has its own process group, so that signals to the caller's group do
 * not reach it; SIGTTOU is blocked, so that it can still write to the terminal.
 */
static void ranks_prepare(struct ranks *r)
{
    struct sigaction action = { .sa_sigaction = ranks_note_signal,
                                .sa_flags = SA_SIGINFO | SA_NOCLDSTOP };
    struct rlimit more;
    sigset_t set;

    supervised = r;
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
    getrlimit(RLIMIT_NOFILE, &r->files);
    more = r->files;
    more.rlim_cur = more.rlim_max;
    /* raises the limit of descriptors, because each rank needs two pipes */
    (void)setrlimit(RLIMIT_NOFILE, &more);
}

/* Runs in the supervisor. */
static void supervise(void *context)
{
    struct ranks *r = context;
    int status = 0;

    *r->result = (struct ranks_result){ .end = RANKS_DONE };
    r->rank = calloc(r->params->count, sizeof(*r->rank));
    r->poll = calloc(2 * r->params->count + 1, sizeof(*r->poll));
    if (r->rank == NULL || r->poll == NULL) {
        *r->result = (struct ranks_result){ .end = RANKS_NOT_STARTED, .state = ENOMEM };
        remove_rendezvous(r);
        return;
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
    remove_rendezvous(r);
}

/* Returns the parent of a process; 0: unknown, or the process has ended. */
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
    end = strrchr(text, ')'); /* the name of the program may contain parentheses */
    return end != NULL && sscanf(end, ") %*c %d", &parent) == 1 ? parent : 0;
}

/*
 * Kills all child processes of the supervisor and returns their number. The pid of a child is not
 * reused before the supervisor reaps it.
 */
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
 * Kills processes that ranks started and that left the process group of their rank. The children of
 * a killed process become children of the supervisor, so the loop ends when the supervisor has no
 * child.
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
    snprintf(text, sizeof(text), "pto: cannot kill %u processes that ranks started\n", count);
    emit(r, STDERR_FILENO, text, strlen(text));
}

/* ---- a rank ---- */

/* Binds the rank to its share of the CPUs that this process may use. */
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

/* Returns the number of the first rank of this machine. */
static uint32_t first_rank(const struct ranks *r)
{
    return r->params->part != NULL ? r->params->part->first : 0;
}

/*
 * Passes the key of the job to a rank as a pipe that contains it. So the key is not in the rank's
 * environment or arguments, which other processes can read, and it is gone once it was read.
 */
static void ranks_set_key(const struct ranks_part *part)
{
    size_t size = strlen(part->key);
    int ends[2];

    if (size == 0 || pipe(ends) != 0)
        return;
    (void)unsetenv("PTO_KEY_FILE"); /* PTO_KEY_FD replaces a key file that is set on this host */
    if (write(ends[1], part->key, size) == (ssize_t)size)
        ranks_set_number("PTO_KEY_FD", (uint32_t)ends[0]);
    close(ends[1]);
}

static void ranks_set_environment(const struct ranks *r, uint32_t index)
{
    const struct ranks_part *part = r->params->part;
    char path[PATH_BYTES + 16];

    snprintf(path, sizeof(path), "%s/meet", r->folder);
    ranks_set_number("PTO_RANK", first_rank(r) + index);
    ranks_set_number("PTO_RANKS", part != NULL ? part->total : r->params->count);
    (void)setenv("PTO_MEET", r->folder[0] == '\0' ? part->meet : path, 1);
    (void)setenv("PTO_TOKEN", r->folder[0] == '\0' ? part->token : r->token, 1);
    if (part == NULL)
        return;
    ranks_set_key(part);
    if (part->listener >= 0 && first_rank(r) + index == 0) {
        /* the socket stays open when the rank executes its program */
        (void)fcntl(part->listener, F_SETFD, 0);
        ranks_set_number("PTO_COMM_LISTEN_FD", (uint32_t)part->listener);
    }
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

/*
 * Runs in the process of a rank. Arranges that the process ends when the supervisor ends, also if
 * the supervisor has ended before this call.
 */
_Noreturn static void enter_rank(struct ranks *r, uint32_t index, const int out[2],
                                 pid_t supervisor)
{
    bool has_input = r->params->has_input && first_rank(r) + index == 0 && !isatty(STDIN_FILENO);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int code;

    for (int i = 0; i < WATCHED; i++) {
        struct sigaction now;

        if (sigaction(watched[i], NULL, &now) == 0 && now.sa_sigaction == ranks_note_signal)
            (void)signal(watched[i], SIG_DFL); /* signals that the caller ignores remain ignored */
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setpgid(0, 0);
    if (getppid() != supervisor || (!has_input && dup2(null, STDIN_FILENO) < 0) ||
        dup2(out[0], STDOUT_FILENO) < 0 || dup2(out[1], STDERR_FILENO) < 0) {
        dprintf(out[1], "the rank cannot be started: %s\n",
                null < 0 ? "no descriptor is free; see ulimit -n" : strerror(errno));
        _exit(EXIT_FAILURE);
    }
    /* closes the pipes of other ranks, which would stay open in a rank that does not exec */
    for (uint32_t i = 0; i < index; i++)
        close_streams(&r->rank[i]);
    close(out[0]);
    close(out[1]);
    close(null);
    ranks_bind(r, index);
    ranks_set_environment(r, index);
    (void)setrlimit(RLIMIT_NOFILE, &r->files);
    sigprocmask(SIG_SETMASK, &r->supervised.mask, NULL);
    code = r->params->enter(r->params->context, index);
    if (pto_stuck_threads() == 0)
        exit(code);
    fflush(NULL);
    /* skips the handlers of exit(): threads may still run code that exit() would unmap */
    _exit(code);
}

static int ranks_start_rank(struct ranks *r, uint32_t index)
{
    struct rank *rank = &r->rank[index];
    pid_t supervisor = getpid();
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
            enter_rank(r, index, out, supervisor);
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
    /* parent and child both set the process group, to avoid a race */
    (void)setpgid(rank->process, rank->process);
    r->living++;
    return 0;
}

/* ---- ending ranks ---- */

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

/* Counts the ranks that have not exited; `living` also has those that are not reaped yet. */
static uint32_t count_running(const struct ranks *r)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < r->params->count; i++) {
        siginfo_t info = { .si_pid = 0 };
        id_t process = (id_t)r->rank[i].process;

        count += process != 0 && (waitid(P_PID, process, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
                                  info.si_pid == 0);
    }
    return count;
}

/* Sends the signal to the remaining ranks; later calls have no effect. */
static void end_all(struct ranks *r, int number)
{
    if (r->ending != GOING_ON)
        return;
    r->ending = ASKED;
    if (first_to_fail == 0)
        first_to_fail = -1; /* failures are ignored from now on, because the signal causes them */
    r->kill_ns = os_now_ns() + (uint64_t)(r->params->grace * 1e9);
    r->result->ended_count = count_running(r);
    signal_all(r, number);
}

/*
 * Handles deadlines and signals. Returns the time of the next check, UINT64_MAX if none is needed.
 */
static uint64_t ranks_check_time_and_signals(struct ranks *r)
{
    uint64_t now = os_now_ns();
    sigset_t blocked;

    /* unblocks signals briefly, because ppoll delivers none while descriptors are ready */
    sigprocmask(SIG_SETMASK, &r->supervised.mask, &blocked);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    if (interrupts > 0 && r->ending == GOING_ON) {
        if (r->result->end == RANKS_DONE)
            *r->result = (struct ranks_result){ .end = RANKS_INTERRUPTED, .state = last_signal };
        end_all(r, last_signal);
    }
    if ((interrupts > 1 || !cli_supervised_has_caller(&r->supervised)) && r->ending != KILLED)
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

/* ---- output of ranks ---- */

/* Sleeps until a descriptor is ready, a signal arrives, or `when_ns` is reached. */
static int sleep_until(const struct ranks *r, struct pollfd *files, nfds_t count, uint64_t when_ns)
{
    uint64_t now = os_now_ns(), left = when_ns > now ? when_ns - now : 0;
    struct timespec time = { .tv_sec = (time_t)(left / 1000000000),
                             .tv_nsec = (long)(left % 1000000000) };

    return ppoll(files, count, when_ns == UINT64_MAX ? NULL : &time, &r->supervised.mask);
}

/*
 * Writes output of ranks. The reader may be slow, so deadlines and signals are handled between
 * writes.
 */
static void emit(struct ranks *r, int file, const char *bytes, size_t size)
{
    while (size > 0) {
        struct pollfd to = { .fd = file, .events = POLLOUT };
        ssize_t put;

        if (sleep_until(r, &to, 1,
                        r->ending == KILLED ? r->drop_ns : ranks_check_time_and_signals(r)) <= 0) {
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
    int prefix = r->params->has_prefix ? snprintf(text, 32, "[%u] ", first_rank(r) + rank) : 0;

    memcpy(text + prefix, line, size);
    text[(size_t)prefix + size] = '\n';
    emit(r, stream == 0 ? STDOUT_FILENO : STDERR_FILENO, text, (size_t)prefix + size + 1);
}

/*
 * Forwards the complete lines of a stream; splits a line that is too long. Returns false when there
 * is nothing more to read now.
 */
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

/*
 * Records the first failure. A rank that ends because of another rank is recorded only if no other
 * rank failed.
 */
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
        r->result->rank = first_rank(r) + rank;
        r->result->state = state;
        r->result->failed_ns = is_first ? first_failed_ns : os_now_ns();
        r->is_echo = is_echo;
        r->is_calm = is_echo || is_apart;
        if (r->params->part != NULL) /* mutation: late-news */
            r->params->part->failed(r->params->part, r->result);
    }
}

/* Kills the rest of the group of a rank that has ended, then forwards its remaining output. */
static void ranks_reap(struct ranks *r, uint32_t index)
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

/*
 * Returns the index of a rank that has ended, or the number of ranks. Reaps other processes that
 * have ended.
 */
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
    uint64_t when_ns = ranks_check_time_and_signals(r);
    uint32_t count = 0;

    /* does not sleep: SIGCHLD has already arrived and would not end the sleep */
    if (has_ended != 0)
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
                    /* this pipe is closed, and all its output was read */
                } else if (r->poll[at].revents != 0) {
                    close(s->pipe);
                    s->pipe = -1;
                }
                at++;
            }
    }
    has_ended = 0; /* no SIGCHLD is lost, because signals are blocked here */
    for (uint32_t i; (i = ranks_find_ended(r)) != r->params->count;) {
        ranks_reap(r, i);
        if (r->result->end == RANKS_DONE)
            continue;
        if (!r->is_calm)
            end_all(r, SIGTERM);
        else if (r->ask_ns == 0)
            r->ask_ns = os_now_ns() + BLAME_NS;
    }
}

const char *cli_ranks_describe(const struct ranks_result *result, char text[RANKS_TEXT_MAX])
{
    char others[64] = "", where[280] = "";

    if (result->ended_count == 1)
        snprintf(others, sizeof(others), "; the other one was ended");
    else if (result->ended_count > 1)
        snprintf(others, sizeof(others), "; the %u others were ended", result->ended_count);
    if (result->host != NULL)
        snprintf(where, sizeof(where), " on %.256s", result->host);
    if (result->end == RANKS_NOT_STARTED)
        snprintf(text, RANKS_TEXT_MAX, "cannot start a process: %s", strerror(result->state));
    else if (result->end == RANKS_UNKEPT)
        snprintf(text, RANKS_TEXT_MAX,
                 "the process that started the ranks died (%s); processes of ranks may be left",
                 WIFSIGNALED(result->state) ? strsignal(WTERMSIG(result->state)) : "exit");
    else if (WIFSIGNALED(result->state))
        snprintf(text, RANKS_TEXT_MAX, "rank %u%s died: %s%s", result->rank, where,
                 strsignal(WTERMSIG(result->state)), others);
    else
        snprintf(text, RANKS_TEXT_MAX, "rank %u%s ended with code %d%s", result->rank, where,
                 WEXITSTATUS(result->state), others);
    return text;
}
