/* SPDX-License-Identifier: Apache-2.0 */
/* Children that are processes of this machine: src/tree/endpoint.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tree/endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/code_file.h"
#include "base/os.h"
#include "base/program.h"
#include "base/spawn.h"
#include "tree/child.h"
#include "tree/tree.h"

enum {
    KILLED_WAIT_MS = 3000, /* for one that was killed */
    NOTICE_MS = 500,       /* for children of a dead one to notice it */
    DEEP_NOTICE_MS = 2000, /* the same further down, where more is ended then */
};

/* ---- start ---- */

/*
 * Everything that a child could have written to, but for tensors, is as the worker wants it: the one before may
 * have written anything anywhere. Bytes in streams have no meaning to a new generation.
 */
static void set_up(struct tree *t, struct tree_child *c)
{
    struct tree_line *line = c->line;
    uint64_t trace_bytes = a64_load_relaxed(&line->trace_bytes); /* nobody has the line now */

    memset(line, 0, offsetof(struct tree_line, to_child));
    tree_show(t);
    tree_trace_restore(t, c->index, trace_bytes);
    waker_restore(&t->shared->waker);
    a64_store_relaxed(&line->to_child.head, 0);
    a64_store_relaxed(&line->to_child.tail, 0);
    a64_store_relaxed(&line->to_worker.head, 0);
    a64_store_relaxed(&line->to_worker.tail, 0);
    channel_init(&c->out, &line->to_child, c->generation);
    channel_init(&c->in, &line->to_worker, c->generation);
    a64_store_relaxed(&c->read, 0);
}

static void close_one(int fd)
{
    if (fd >= 0)
        close(fd);
}

/* NULL: pto-child. */
static const char *const *program_of(const struct tree *t, const struct tree_child *c)
{
    return c->kind != PTO_CHILD_CHIP && t->sub_program != NULL ? t->sub_program : t->program;
}

static int find_program(const char *const *program, char path[PATH_MAX], struct pto_error *error)
{
    if (program != NULL) {
        snprintf(path, PATH_MAX, "%s", program[0]);
        return PTO_OK;
    }
    if (program_find("pto-child", path))
        return PTO_OK;
    return error_tell(error, PTO_ENOSUP,
                      "%.300s, which workers start for each child, is not there; install it beside "
                      "the library",
                      path[0] != '\0' ? path : "pto-child");
}

/* A file from which the child reads what it has to know first. */
static int make_hello(const struct tree *t, const struct tree_child *c, uint64_t deadline_ns)
{
    bool is_root = t->outer.map == NULL;
    uint64_t now = os_now_ns();
    struct tree_hello hello = { .magic = TREE_MAGIC,
                                .addr = (uint64_t)(uintptr_t)(is_root ? t->base : t->outer.map),
                                .bytes = is_root ? t->bytes : t->outer.map_bytes,
                                .shared = (uint64_t)(uintptr_t)t->shared,
                                .root = is_root ? (int32_t)getpid() : t->outer.root,
                                .nested = c->nested,
                                .hello_bytes = sizeof(hello),
                                .child = c->index,
                                .generation = c->generation,
                                .kind = (uint32_t)c->kind,
                                .process_count = t->child_count + 1,
                                .clusters = t->params.clusters,
                                .workers = t->params.chip_workers,
                                .device = c->device,
                                .parent = (int32_t)getpid(),
                                .has_guards = t->params.has_guards };
    int fd = spawn_lift(memfd_create("pto-hello", MFD_CLOEXEC));

    if (deadline_ns > now) /* so that it can say which of its children is late */
        hello.nested.deadline_ns = now + (deadline_ns - now) / 8 * 7;
    snprintf(hello.platform, sizeof(hello.platform), "%s", t->platform);
    if (fd >= 0 && pwrite(fd, &hello, sizeof(hello), 0) != (ssize_t)sizeof(hello)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/*
 * `life`, unless -1, is given to the child, with those of the workers above. The children of a nested worker are
 * in its process group, at any depth. Returns an errno, or 0 with the process.
 */
static int spawn(const struct tree *t, const struct tree_child *c, const char *path,
                 uint64_t deadline_ns, int life, pid_t *pid_out)
{
    static const char *const plain[] = { "pto-child", NULL };
    int fd[2 + TREE_NESTED_MAX + 1] = { t->memory, make_hello(t, c, deadline_ns) };
    const char *const *program = program_of(t, c);
    bool leads = c->kind == PTO_CHILD_WORKER && t->outer.map == NULL;
    uint32_t count = 2;
    int number = errno;

    for (uint32_t i = 0; i < tree_depth(t); i++)
        fd[count++] = t->outer.life[i];
    if (life >= 0)
        fd[count++] = life;
    if (fd[1] >= 0)
        number = spawn_arguments(path, program != NULL ? program : plain, fd, count, TREE_MEMORY_FD,
                                 leads, pid_out);
    close_one(fd[1]);
    return number;
}

/* The child has a process: it can be killed, and watched. */
static int adopt(struct tree *t, struct tree_child *c, pid_t pid, struct pto_error *error)
{
    int descriptor = (int)syscall(SYS_pidfd_open, pid, 0);
    int number = errno;

    if (descriptor < 0) {
        (void)kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
        return error_tell(error, PTO_ENOSUP, "the system has no descriptors of processes: %s",
                          strerror(number));
    }
    pthread_mutex_lock(&t->lock);
    c->pid = pid;
    tree_show_child(t, c);
    close_one(c->descriptor);
    c->descriptor = descriptor;
    c->is_collected = false;
    c->notice_ns = 0;
    pthread_mutex_unlock(&t->lock);
    return PTO_OK;
}

static int start_with(struct tree *t, struct tree_child *c, uint64_t deadline_ns, int life,
                      struct pto_error *error)
{
    char path[PATH_MAX];
    int status = find_program(program_of(t, c), path, error);
    int number;
    pid_t pid;

    if (status < 0)
        return status;
    pthread_mutex_lock(&t->lock);
    set_up(t, c);
    pthread_mutex_unlock(&t->lock);
    number = spawn(t, c, path, deadline_ns, life, &pid);
    if (number != 0)
        return error_tell(error, PTO_ESYSTEM, "%s cannot be started: %s", path, strerror(number));
    return adopt(t, c, pid, error);
}

static int process_start(struct tree *t, struct tree_child *c, uint64_t deadline_ns,
                         struct pto_error *error)
{
    return start_with(t, c, deadline_ns, -1, error);
}

static int nested_start(struct tree *t, struct tree_child *c, uint64_t deadline_ns,
                        struct pto_error *error)
{
    int life[2];
    int status;

    if (tree_nested_clear(t, c) < 0)
        return error_tell(error, PTO_ESYSTEM, "the memory of child %u cannot be cleared: %s",
                          c->index, strerror(errno));
    if (pipe2(life, O_CLOEXEC) != 0)
        return error_tell(error, PTO_ESYSTEM, "there is no pipe for child %u: %s", c->index,
                          strerror(errno));
    life[0] = spawn_lift(life[0]);
    life[1] = spawn_lift(life[1]);
    status = life[0] >= 0 && life[1] >= 0
                 ? start_with(t, c, deadline_ns, life[1], error)
                 : error_tell(error, PTO_ESYSTEM, "there is no pipe for child %u: %s", c->index,
                              strerror(errno));
    close_one(life[1]);
    close_one(c->life); /* the watcher has no use for the old one */
    c->life = life[0];
    return status;
}

/* ---- end ---- */

static void process_tell_end(const struct tree_child *c, char *text, size_t size)
{
    if (WIFSIGNALED(c->end))
        snprintf(text, size, "was ended by signal %d (%s)", WTERMSIG(c->end),
                 strsignal(WTERMSIG(c->end)));
    else if (WEXITSTATUS(c->end) == CHILD_EXIT_LOST)
        snprintf(text, size, "has ended, because its device is lost");
    else if (WEXITSTATUS(c->end) == CHILD_EXIT_THREAD)
        snprintf(text, size, "has ended, because a function called pthread_exit");
    else
        snprintf(text, size, "has ended with exit code %d", WEXITSTATUS(c->end));
}

static bool process_is_misplaced(const struct tree_child *c)
{
    return WIFEXITED(c->end) && WEXITSTATUS(c->end) == CHILD_EXIT_ADDRESS;
}

static void process_kill(struct tree_child *c)
{
    if (c->descriptor >= 0)
        (void)syscall(SYS_pidfd_send_signal, c->descriptor, SIGKILL, NULL, 0);
}

/* It had no time to remove the code that it had loaded. */
static pid_t process_leaves_files(const struct tree_child *c)
{
    return WIFSIGNALED(c->end) && WTERMSIG(c->end) == SIGKILL ? c->pid : 0;
}

static int process_watched(const struct tree_child *c)
{
    return c->descriptor;
}

static void collect(struct tree_child *c)
{
    if (!spawn_end(c->descriptor, false, 0, &c->end))
        c->end = 0; /* somebody else has collected it */
    c->is_collected = true;
}

static bool is_over(const struct tree_child *c)
{
    struct pollfd on = { .fd = c->descriptor, .events = POLLIN };

    return poll(&on, 1, 0) == 1;
}

static bool process_has_ended(struct tree_child *c)
{
    if (!c->is_collected && is_over(c))
        collect(c);
    return c->is_collected;
}

static void process_end(struct tree_child *c, uint64_t deadline_ns)
{
    uint64_t now = os_now_ns();
    bool is_late = now >= deadline_ns;

    if (c->descriptor < 0)
        return;
    if (!c->is_collected &&
        spawn_end(c->descriptor, is_late,
                  is_late ? KILLED_WAIT_MS : (int)((deadline_ns - now) / 1000000) + 1, &c->end) &&
        process_leaves_files(c) != 0)
        code_file_sweep(c->pid);
    close(c->descriptor); /* mutation: tree-keeps-descriptor */
    c->descriptor = -1;
}

/* ---- nested workers: their children hold a pipe open ---- */

static bool has_life_ended(const struct tree_child *c, int wait_ms)
{
    struct pollfd on = { .fd = c->life, .events = POLLIN };

    return c->life < 0 || (poll(&on, 1, wait_ms) == 1 && (on.revents & POLLHUP) != 0);
}

/*
 * The process of a nested worker has gone, and nobody has collected it. Its children notice; one
 * that has not got so far is ended with the group that it is in. Only a child of the root leads a group: what is
 * left below ends all of the group, this process included, and the root notices.
 */
static void kill_group(const struct tree_child *c)
{
    (void)kill(c->nested.depth == 1 ? -c->pid : 0, SIGKILL);
}

static int notice_ms(const struct tree_child *c)
{
    return c->nested.depth == 1 ? NOTICE_MS : DEEP_NOTICE_MS;
}

static void end_group(const struct tree_child *c)
{
    if (!has_life_ended(c, notice_ms(c)))
        kill_group(c);
}

static int nested_watched(const struct tree_child *c)
{
    return c->notice_ns != 0 ? c->life : c->descriptor;
}

/* As end_group, but the watcher does not wait here: other children may die meanwhile. */
static bool nested_has_ended(struct tree_child *c)
{
    uint64_t now = os_now_ns();

    if (!c->is_collected) {
        if (!is_over(c))
            return false;
        if (c->notice_ns == 0)
            c->notice_ns = now + (uint64_t)notice_ms(c) * 1000000;
        if (!has_life_ended(c, 0)) {
            if (now < c->notice_ns)
                return false;
            kill_group(c);
        }
        collect(c);
    }
    return has_life_ended(c, 0);
}

static uint64_t nested_due_ns(const struct tree_child *c)
{
    return c->notice_ns != 0 && !c->is_collected ? c->notice_ns : UINT64_MAX;
}

static void nested_end(struct tree_child *c, uint64_t deadline_ns)
{
    struct pollfd on = { .fd = c->descriptor, .events = POLLIN };
    uint64_t now = os_now_ns();

    if (c->descriptor >= 0 && !c->is_collected) {
        if (poll(&on, 1, now < deadline_ns ? (int)((deadline_ns - now) / 1000000) + 1 : 0) != 1) {
            process_kill(c);
            (void)poll(&on, 1, KILLED_WAIT_MS);
        }
        end_group(c);
    }
    process_end(c, deadline_ns);
    (void)has_life_ended(c, KILLED_WAIT_MS);
    close_one(c->life);
    c->life = -1;
}

/* ---- records ---- */

static bool line_has_room(struct tree_child *c, uint32_t body_bytes)
{
    return channel_has_room(&c->out, body_bytes);
}

static bool line_send(struct tree_child *c, const struct record_head *head,
                      const struct record_part *parts, uint32_t count)
{
    if (!channel_write(&c->out, head, parts, count))
        return false;
    c->sent = c->out.last;
    waker_wake(&c->line->waker);
    return true;
}

static bool line_take_back(struct tree_child *c, uint64_t sent)
{
    return channel_take_back(&c->out, sent);
}

static bool line_is_broken(const struct tree_child *c)
{
    return c->out.is_broken;
}

static enum channel_result line_receive(struct tree_child *c, struct record *out)
{
    enum channel_result result = channel_read(&c->in, out);

    a64_store_relaxed(&c->read, c->in.position); /* for looks without the lock */
    return result;
}

/* By what was read as this process knows it: the child can write the other position, too. */
static bool line_has_news(const struct tree_child *c)
{
    return a64_load_acquire(&c->line->to_worker.tail) != a64_load_relaxed(&c->read); /* a look */
}

static void line_discard(struct tree_child *c)
{
    uint64_t tail = a64_load_acquire(&c->line->to_worker.tail);

    a64_store_release(&c->line->to_worker.head, tail);
    a64_store_relaxed(&c->read, tail); /* for looks without the lock */
}

static bool line_is_asleep(const struct tree_child *c)
{
    return waker_has_sleepers(&c->line->waker);
}

/* ---- tables ---- */

static const struct endpoint_record_ops line_records = { .has_room = line_has_room,
                                                         .send = line_send,
                                                         .take_back = line_take_back,
                                                         .is_broken = line_is_broken,
                                                         .receive = line_receive,
                                                         .has_news = line_has_news,
                                                         .discard = line_discard,
                                                         .is_asleep = line_is_asleep };

static const struct endpoint_life_ops process_life = { .start = process_start,
                                                       .kill = process_kill,
                                                       .watched = process_watched,
                                                       .has_ended = process_has_ended,
                                                       .leaves_files = process_leaves_files,
                                                       .end = process_end,
                                                       .is_misplaced = process_is_misplaced,
                                                       .tell_end = process_tell_end };

static const struct endpoint_life_ops nested_life = { .start = nested_start,
                                                      .kill = process_kill,
                                                      .watched = nested_watched,
                                                      .has_ended = nested_has_ended,
                                                      .leaves_files = process_leaves_files,
                                                      .due_ns = nested_due_ns,
                                                      .end = nested_end,
                                                      .is_misplaced = process_is_misplaced,
                                                      .tell_end = process_tell_end };

const struct endpoint endpoint_process = { "process", &process_life, &line_records };
const struct endpoint endpoint_nested = { "nested worker", &nested_life, &line_records };
