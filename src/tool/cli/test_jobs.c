/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the child processes of `pto test`, reads their messages and enforces their deadlines. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/cli/test_jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"

enum { JOBS_MAX = 256, BUILD_SECONDS = 900, GRACE_SECONDS = 5, TEXT_MAX = 1 << 20 };
enum { OUTPUT_MAX = 64 << 10, READ_BYTES = 64 << 10 };
enum { STOP_TICKS = 200, STOP_TICK_MS = 10 };

struct job {
    uint32_t first, last; /* index of the job's first item (case), and of the item after the last */
    pid_t child;          /* pid of the child process; 0: none */
    int pipe;
    int output;            /* memfd that receives stdout and stderr of the child */
    uint64_t output_begin; /* offset in `output` at which the output of the case that runs begins */
    uint32_t next;         /* index of the case that runs, or of the next one to begin */
    bool has_begun;        /* item `next` has begun */
    bool is_late;          /* the child was killed at its deadline */
    bool has_report;       /* a sanitizer has printed a report in the output of one of the cases */
    struct { /* outcome of the last case, which is reported when the child has ended */
        bool is_there;
        enum test_outcome outcome;
        uint64_t all_ns;
        char *text;
    } last_end;
    uint64_t begin_ns;
    uint64_t deadline_ns;
    char *place; /* name of the step that the child is in, in shared memory */
    char *bytes; /* received bytes of an incomplete message */
    size_t used;
    size_t size;
};

struct pool {
    struct test_item *item;
    uint32_t count;
    uint32_t next; /* first item of the next job */
    uint32_t done;
    bool is_over; /* no more jobs are started */
    const struct test_settings *settings;
    char *places; /* names of the current steps of all jobs */
    struct job job[JOBS_MAX];
};

static void test_jobs_start_job(struct pool *p, struct job *job);
static void start_child(struct pool *p, struct job *job);
static void receive(struct pool *p, struct job *job);
static void end_child(struct pool *p, struct job *job);
static void wait_for_children(struct pool *p);
static void stop_all(struct pool *p);

void cli_test_jobs_run(struct test_item *item, uint32_t count, const struct test_settings *settings)
{
    struct pool *p = calloc(1, sizeof(*p));
    uint32_t jobs = settings->jobs < JOBS_MAX ? settings->jobs : JOBS_MAX;
    bool is_busy = true;

    if (p == NULL)
        return;
    p->places = mmap(NULL, (size_t)JOBS_MAX * SESSION_PLACE_BYTES, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p->places == MAP_FAILED) {
        free(p);
        return;
    }
    p->item = item;
    p->count = count;
    p->settings = settings;
    for (uint32_t i = 0; i < count; i++)
        p->done += item[i].outcome != TEST_WAITING;
    while (is_busy && !*settings->is_interrupted) {
        for (uint32_t i = 0; i < jobs; i++)
            if (p->job[i].child == 0 && !p->is_over)
                test_jobs_start_job(p, &p->job[i]);
        is_busy = p->next < p->count;
        for (uint32_t i = 0; i < jobs; i++)
            is_busy = is_busy || p->job[i].child != 0;
        wait_for_children(p);
        if (p->is_over)
            break;
    }
    stop_all(p);
    munmap(p->places, (size_t)JOBS_MAX * SESSION_PLACE_BYTES);
    free(p);
}

/* ---- outcomes ---- */

/*
 * Returns the output of the child since the case began, or the last part of that output. NULL:
 * there is none.
 */
static char *test_jobs_read_output(struct job *job)
{
    struct stat info;
    uint64_t size, begin = job->output_begin;
    char *text;
    ssize_t got;

    if (fstat(job->output, &info) < 0 || (uint64_t)info.st_size <= begin)
        return NULL;
    size = (uint64_t)info.st_size - begin;
    job->output_begin = (uint64_t)info.st_size;
    if (size > OUTPUT_MAX) {
        begin += size - OUTPUT_MAX;
        size = OUTPUT_MAX;
    }
    text = malloc(size + 1);
    got = text != NULL ? pread(job->output, text, size, (off_t)begin) : -1;
    if (got < 0) {
        free(text);
        return NULL;
    }
    text[got] = '\0';
    return text;
}

/*
 * Whether a sanitizer has printed a report. The process continues after the report, and may end
 * with the sanitizer's exit code.
 */
static bool is_sanitizer_report(const char *output)
{
    static const char *const marks[] = { "WARNING: ThreadSanitizer:", "ERROR: AddressSanitizer:",
                                         "ERROR: LeakSanitizer:", ": runtime error: " };

    for (uint32_t i = 0; output != NULL && i < sizeof(marks) / sizeof(marks[0]); i++)
        if (strstr(output, marks[i]) != NULL)
            return true;
    return false;
}

static void settle_item(struct pool *p, struct job *job, uint32_t index, enum test_outcome outcome,
                        uint64_t all_ns, const char *text)
{
    struct test_item *item = &p->item[index];

    item->output = test_jobs_read_output(job);
    if (is_sanitizer_report(item->output)) {
        job->has_report = true;
        text = outcome == TEST_PASSED ? "its result is right, but a sanitizer reports:" : text;
        outcome = TEST_FAILED;
    }
    item->outcome = outcome;
    item->text = text != NULL && text[0] != '\0' ? strdup(text) : NULL;
    item->seconds = (double)all_ns / 1e9;
    p->done++;
    if (outcome == TEST_FAILED && p->settings->is_fail_fast)
        p->is_over = true;
    p->settings->report(p->settings->context, item, p->done);
}

static void settle_last(struct pool *p, struct job *job)
{
    job->last_end.is_there = false;
    settle_item(p, job, job->last - 1, job->last_end.outcome, job->last_end.all_ns,
                job->last_end.text);
    free(job->last_end.text);
    job->last_end.text = NULL;
}

/* ---- children ---- */

static char *test_jobs_place_of(const struct pool *p, const struct job *job)
{
    return p->places + (job - p->job) * SESSION_PLACE_BYTES;
}

static void test_jobs_start_job(struct pool *p, struct job *job)
{
    uint32_t first = p->next;

    while (first < p->count && p->item[first].outcome != TEST_WAITING)
        first++;
    if (first == p->count) {
        p->next = first;
        return;
    }
    *job = (struct job){
        .first = first, .last = first + 1, .next = first, .place = test_jobs_place_of(p, job)
    };
    while (job->last < p->count && p->item[job->last].scene == p->item[first].scene &&
           p->item[job->last].platform == p->item[first].platform &&
           p->item[job->last].outcome == TEST_WAITING)
        job->last++;
    p->next = job->last;
    start_child(p, job);
}

/*
 * Runs in the child process, which has a process group of its own, so that its compilers end with
 * it.
 */
_Noreturn static void enter_child(struct pool *p, struct job *job, int pipe, pid_t parent)
{
    signal(SIGINT, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(job->output, STDOUT_FILENO) < 0 ||
        dup2(job->output, STDERR_FILENO) < 0)
        _exit(1);

    struct test_settings settings = *p->settings;

    settings.session.place = job->place;
    cli_test_child_run(p->item, job->next, job->last, &settings, pipe);
}

static void start_child(struct pool *p, struct job *job)
{
    pid_t parent = getpid();
    int ends[2] = { -1, -1 };
    char text[128];

    job->has_begun = job->is_late = job->has_report = false;
    job->place[0] = '\0';
    job->used = 0;
    job->output_begin = 0;
    job->begin_ns = os_now_ns();
    job->deadline_ns = job->begin_ns + BUILD_SECONDS * 1000000000ull;
    job->output = memfd_create("output", MFD_CLOEXEC);
    if (job->output >= 0 && fcntl(job->output, F_SETFL, O_APPEND) == 0 &&
        pipe2(ends, O_CLOEXEC) == 0) {
        /* flushes stdout, because the child would print buffered output of its parent again */
        fflush(stdout);
        fflush(stderr);
        job->child = fork();
    } else {
        job->child = -1;
    }
    if (job->child == 0) {
        close(ends[0]);
        enter_child(p, job, ends[1], parent);
    }
    if (ends[1] >= 0)
        close(ends[1]);
    job->pipe = ends[0];
    if (job->child > 0) {
        /* parent and child both set the process group, to avoid a race */
        (void)setpgid(job->child, job->child);
        return;
    }
    snprintf(text, sizeof(text), "cannot start a process: %s", strerror(errno));
    job->child = 0;
    for (uint32_t i = job->next; i < job->last; i++)
        settle_item(p, job, i, TEST_FAILED, 0, text);
    if (job->pipe >= 0)
        close(job->pipe);
    if (job->output >= 0)
        close(job->output);
}

/*
 * Returns the deadline of a case. The run has an earlier deadline, because the run's own report is
 * more specific.
 */
static uint64_t item_deadline(const struct pool *p, const struct job *job)
{
    double own = p->item[job->next].test_case->timeout, set = p->settings->session.timeout;
    double seconds = set != 0 ? set : own;

    seconds += session_grace(&p->settings->session, p->item[job->next].test_case);
    return os_now_ns() + (uint64_t)((seconds + GRACE_SECONDS) * 1e9);
}

static void test_jobs_handle_message(struct pool *p, struct job *job,
                                     const struct test_message *message, const char *text)
{
    enum test_outcome outcome = message->outcome == TEST_PASSED || message->outcome == TEST_SKIPPED
                                    ? message->outcome
                                    : TEST_FAILED;

    if (message->item != job->next || message->item >= job->last)
        return; /* ignores this message, which only a child with damaged memory sends */
    switch ((enum test_message_kind)message->kind) {
    case TEST_BEGIN:
        job->has_begun = true;
        job->begin_ns = os_now_ns();
        job->deadline_ns = item_deadline(p, job);
        p->settings->report(p->settings->context, NULL, p->done);
        break;
    case TEST_TICK:
        job->deadline_ns = item_deadline(p, job);
        break;
    case TEST_END:
        p->item[job->next].run_ns = message->run_ns;
        if (job->next + 1 < job->last) {
            settle_item(p, job, job->next, outcome, message->all_ns, text);
        } else {
            job->last_end.is_there = true;
            job->last_end.outcome = outcome;
            job->last_end.all_ns = message->all_ns;
            job->last_end.text = strdup(text);
        }
        job->next++;
        job->has_begun = false;
        job->deadline_ns = os_now_ns() + BUILD_SECONDS * 1000000000ull;
        break;
    }
}

static void handle_messages(struct pool *p, struct job *job)
{
    size_t at = 0;

    while (!p->is_over && job->used - at >= sizeof(struct test_message)) {
        struct test_message message;
        char *text = job->bytes + at + sizeof(message);
        char *copy;

        memcpy(&message, job->bytes + at, sizeof(message));
        if (message.bytes > TEXT_MAX || job->used - at - sizeof(message) < message.bytes)
            break;
        copy = strndup(text, message.bytes);
        test_jobs_handle_message(p, job, &message, copy);
        free(copy);
        at += sizeof(message) + message.bytes;
    }
    memmove(job->bytes, job->bytes + at, job->used - at);
    job->used -= at;
}

/* Reads messages from the pipe of a child. At the end of the pipe, handles the end of the child. */
static void receive(struct pool *p, struct job *job)
{
    ssize_t got;

    if (job->size - job->used < READ_BYTES) {
        char *grown = realloc(job->bytes, job->used + 2 * READ_BYTES);

        if (grown == NULL)
            return;
        job->bytes = grown;
        job->size = job->used + 2 * READ_BYTES;
    }
    got = read(job->pipe, job->bytes + job->used, job->size - job->used);
    if (got > 0) {
        job->used += (size_t)got;
        handle_messages(p, job);
    } else if (got == 0) {
        end_child(p, job);
    }
}

static void describe_child_end(const struct job *job, int state, char text[256])
{
    const char *when = job->next == job->last ? " after its last case"
                       : job->has_begun       ? job->place
                                              : " before the case began";

    if (job->is_late)
        snprintf(text, 256, "it did not finish in time%s and was killed", when);
    else if (WIFSIGNALED(state))
        snprintf(text, 256, "the process died%s: %s", when, strsignal(WTERMSIG(state)));
    else
        snprintf(text, 256, "the process ended%s, with code %d", when, WEXITSTATUS(state));
}

/*
 * Decides the outcome of the last case by how the child process ended. If a sanitizer reported
 * something in any case, the exit code differs.
 */
static void end_last(struct job *job, int state)
{
    char text[256];

    if (job->last_end.outcome != TEST_PASSED || (WIFEXITED(state) && WEXITSTATUS(state) == 0) ||
        (WIFEXITED(state) && job->has_report))
        return;
    describe_child_end(job, state, text);
    free(job->last_end.text);
    job->last_end.text = strdup(text);
    job->last_end.outcome = TEST_FAILED;
}

/*
 * Handles the end of a child. If cases are left, another child continues after the case in which
 * this one died.
 */
static void end_child(struct pool *p, struct job *job)
{
    char text[256];
    int state = 0;

    while (waitpid(job->child, &state, 0) < 0 && errno == EINTR) {
    }
    (void)kill(-job->child, SIGKILL); /* kills processes that the child left running */
    job->child = 0;
    close(job->pipe);
    if (job->next < job->last) {
        bool has_begun = job->has_begun;

        describe_child_end(job, state, text);
        settle_item(p, job, job->next++, TEST_FAILED, os_now_ns() - job->begin_ns, text);
        /* the child died before its first case: the other cases would fail in the same way */
        while (!has_begun && job->next < job->last)
            settle_item(p, job, job->next++, TEST_FAILED, os_now_ns() - job->begin_ns, text);
    } else {
        end_last(job, state);
        settle_last(p, job);
    }
    close(job->output);
    free(job->bytes);
    job->bytes = NULL;
    job->size = job->used = 0;
    if (job->next < job->last && !p->is_over)
        start_child(p, job);
}

/* Sleeps until a child sends a message or has reached its deadline. */
static void wait_for_children(struct pool *p)
{
    struct pollfd files[JOBS_MAX];
    struct job *jobs[JOBS_MAX];
    uint64_t now = os_now_ns(), next = now + 1000000000ull;
    nfds_t count = 0;

    for (uint32_t i = 0; i < JOBS_MAX; i++) {
        struct job *job = &p->job[i];

        if (job->child == 0)
            continue;
        if (now >= job->deadline_ns && !job->is_late) {
            job->is_late = true;
            (void)kill(-job->child, SIGKILL);
        }
        if (!job->is_late && job->deadline_ns < next)
            next = job->deadline_ns;
        files[count] = (struct pollfd){ .fd = job->pipe, .events = POLLIN };
        jobs[count++] = job;
    }
    if (count == 0)
        return;
    if (poll(files, count, (int)((next - now) / 1000000) + 1) <= 0)
        return;
    for (nfds_t i = 0; i < count; i++)
        if (files[i].revents != 0)
            receive(p, jobs[i]);
}

/*
 * Whether the child process has ended. A child that is building ends its compilers first: see
 * scene_build.c.
 */
static bool has_stopped(pid_t child)
{
    for (int i = 0; i < STOP_TICKS; i++) {
        if (waitpid(child, NULL, WNOHANG) != 0)
            return true;
        poll(NULL, 0, STOP_TICK_MS);
    }
    return false;
}

static void stop_all(struct pool *p)
{
    for (uint32_t i = 0; i < JOBS_MAX; i++)
        if (p->job[i].child != 0)
            (void)kill(-p->job[i].child, SIGTERM);
    for (uint32_t i = 0; i < JOBS_MAX; i++) {
        struct job *job = &p->job[i];

        if (job->child == 0)
            continue;
        bool is_gone = has_stopped(job->child);

        (void)kill(-job->child, SIGKILL); /* also kills processes that the child left running */
        while (!is_gone && waitpid(job->child, NULL, 0) < 0 && errno == EINTR) {
        }
        if (job->last_end.is_there)
            settle_last(p, job);
        close(job->pipe);
        close(job->output);
        free(job->bytes);
    }
}
