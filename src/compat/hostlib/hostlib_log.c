/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines on stderr, in the format that the reference's tools and tests parse:
 *
 *     [mono_ns=...][T0x...][LEVEL] function: text
 *
 * A line is one write, so lines of several threads do not mix. The threshold is in the worker's
 * memory, which all libraries of the process share; nothing is printed before it is bound.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "compat/hostlib/hostlib.h"

enum { LINE_BYTES = 2048 };

static struct {
    pthread_mutex_t lock; /* serialises writes to stderr */
    struct log_state *state;
} log = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void print_theirs(void *context, int level, const char *function, const char *text);
static void print_clocks_once(struct log_state *state);
static void hostlib_print_line(const char *level, const char *function, const char *format,
                               va_list rest);
static void print_own(const char *level, const char *function, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static const char *hostlib_level_name(int level)
{
    switch (level) {
    case PTO_LOG_DEBUG:
        return "DEBUG";
    case PTO_LOG_INFO:
        return "INFO";
    case PTO_LOG_TIMING:
        return "TIMING";
    case PTO_LOG_WARN:
        return "WARN";
    case PTO_LOG_ERROR:
        return "ERROR";
    case PTO_LOG_OFF:
        return "NUL";
    default:
        return NULL;
    }
}

int simpler_host_log_bind_state(struct log_state *state)
{
    struct pto_log theirs;

    if (state == NULL || state->abi != LOG_STATE_ABI || state->size < sizeof(*state) ||
        hostlib_level_name(__atomic_load_n(&state->threshold, __ATOMIC_ACQUIRE)) == NULL)
        return WORKER_FAILED;
    __atomic_store_n(&log.state, state, __ATOMIC_RELEASE);
    pto_log_init(&theirs);
    theirs.fn = print_theirs;
    theirs.state = state;
    return pto_log_set(&theirs);
}

/* Prints the log lines of orchestrations compiled for the reference. */
static void print_theirs(void *context, int level, const char *function, const char *text)
{
    (void)context;
    hostlib_log((enum pto_log_level)level, function, "%s", text);
}

int64_t hostlib_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* Returns the state of the log if lines of this level are printed, else NULL. */
static struct log_state *state_for(int level)
{
    struct log_state *state = __atomic_load_n(&log.state, __ATOMIC_ACQUIRE);
    int threshold = PTO_LOG_OFF;

    if (state != NULL)
        threshold = __atomic_load_n(&state->threshold, __ATOMIC_ACQUIRE);
    return threshold != PTO_LOG_OFF && level >= threshold ? state : NULL;
}

void hostlib_log(enum pto_log_level level, const char *function, const char *format, ...)
{
    struct log_state *state = state_for((int)level);
    va_list rest;

    if (state == NULL)
        return;
    print_clocks_once(state);
    va_start(rest, format);
    hostlib_print_line(hostlib_level_name((int)level), function, format, rest);
    va_end(rest);
}

void hostlib_span(const struct worker_run *run, const char *name, int depth, int64_t begin_ns,
                  int64_t ns, const char *attributes)
{
    if (state_for(PTO_LOG_TIMING) == NULL) /* saves a system call if timing lines are not printed */
        return;
    hostlib_log(PTO_LOG_TIMING, "emit_host_span",
                "[STRACE] v=1 pid=%d tid=%ld inv=%" PRIu64 " hid=%" PRIx64
                " depth=%d name=%s ts=%" PRId64 " dur=%" PRId64 " %s",
                (int)getpid(), syscall(SYS_gettid), run->invocation, run->hid, depth, name,
                begin_ns, ns, attributes);
}

/*
 * Prints both clocks as read at one moment, from which readers derive the time of day. Once in a
 * process.
 */
static void print_clocks_once(struct log_state *state)
{
    int32_t pid = (int32_t)getpid();
    int32_t seen = __atomic_load_n(&state->anchor_pid, __ATOMIC_ACQUIRE);
    struct timespec wall;

    if (state_for(PTO_LOG_TIMING) == NULL || seen == pid || seen == -pid ||
        !__atomic_compare_exchange_n(&state->anchor_pid, &seen, -pid, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        return;
    clock_gettime(CLOCK_REALTIME, &wall);
    print_own(hostlib_level_name(PTO_LOG_TIMING), "clock_anchor",
              "[CLOCK_ANCHOR] v=1 pid=%d mono_ns=%" PRId64 " wall_ns=%lld", (int)pid,
              hostlib_now_ns(), wall.tv_sec * 1000000000ll + wall.tv_nsec);
    __atomic_store_n(&state->anchor_pid, pid, __ATOMIC_RELEASE);
}

static void print_own(const char *level, const char *function, const char *format, ...)
{
    va_list rest;

    va_start(rest, format);
    hostlib_print_line(level, function, format, rest);
    va_end(rest);
}

static void hostlib_print_line(const char *level, const char *function, const char *format,
                               va_list rest)
{
    char line[LINE_BYTES];
    int length =
        snprintf(line, sizeof(line) - 1, "[mono_ns=%" PRId64 "][T0x%lx][%s] %s: ", hostlib_now_ns(),
                 (unsigned long)pthread_self(), level != NULL ? level : "?", function);
    size_t done = 0, bytes;

    length += vsnprintf(line + length, sizeof(line) - 1 - (size_t)length, format, rest);
    bytes = (size_t)length < sizeof(line) - 2 ? (size_t)length : sizeof(line) - 2;
    line[bytes++] = '\n';
    pthread_mutex_lock(&log.lock);
    while (done < bytes) {
        ssize_t written = write(STDERR_FILENO, line + done, bytes - done);

        if (written < 0 && errno != EINTR)
            break;
        done += written > 0 ? (size_t)written : 0;
    }
    pthread_mutex_unlock(&log.lock);
}
