/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a worker's children: started, watched, ended. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
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
    END_WAIT_MS = 3000, /* for children that were asked to end */
    NOTICE_MS = 500,    /* for children of a dead one to notice it */
};

static int find_program(const char *const *program, char path[PATH_MAX], struct pto_error *error);
static int make_hello(const struct tree *t, const struct tree_child *c, uint64_t deadline_ns);

/* ---- start ---- */

static void set_up(struct tree_child *c)
{
    struct tree_line *line = c->line;

    c->generation++;
    memset(&line->bell, 0, sizeof(line->bell)); /* nobody else has it now */
    memset(&line->status, 0, sizeof(line->status));
    a64_store_relaxed(&line->to_child.head, 0);
    a64_store_relaxed(&line->to_child.tail, 0);
    a64_store_relaxed(&line->to_worker.head, 0);
    a64_store_relaxed(&line->to_worker.tail, 0);
    channel_init(&c->out, &line->to_child, c->generation);
    channel_init(&c->in, &line->to_worker, c->generation);
    c->state = CHILD_STARTING;
    c->text[0] = '\0';
    c->late_task = 0;
}

static void close_one(int fd)
{
    if (fd >= 0)
        close(fd);
}

int tree_child_start(struct tree *t, uint32_t index, uint64_t deadline_ns, struct pto_error *error)
{
    struct tree_child *c = &t->child[index];
    static const char *const plain[] = { "pto-child", NULL };
    const char *const *program =
        c->kind != PTO_CHILD_CHIP && t->sub_program != NULL ? t->sub_program : t->program;
    const char *const *argv = program != NULL ? program : plain;
    char path[PATH_MAX];
    int fd[TREE_FD_END - TREE_MEMORY_FD], life[2] = { -1, -1 };
    int status = find_program(program, path, error);
    int number, descriptor;
    pid_t pid;

    if (status < 0)
        return status;
    pthread_mutex_lock(&t->lock);
    set_up(c);
    pthread_mutex_unlock(&t->lock);
    if (c->kind == PTO_CHILD_WORKER && pipe2(life, O_CLOEXEC) == 0) {
        life[0] = spawn_lift(life[0]);
        life[1] = spawn_lift(life[1]);
    }
    fd[0] = t->memory;
    fd[1] = make_hello(t, c, deadline_ns);
    fd[2] = c->kind == PTO_CHILD_WORKER ? life[1] : t->outer.map != NULL ? t->outer.life : -1;
    number = fd[1] >= 0 && (fd[2] >= 0 || c->kind != PTO_CHILD_WORKER)
                 ? spawn_arguments(path, argv, fd, fd[2] >= 0 ? 3 : 2, TREE_MEMORY_FD,
                                   c->kind == PTO_CHILD_WORKER, &pid)
                 : errno;
    close_one(fd[1]);
    close_one(life[1]);
    close_one(c->life); /* the watcher has no use for the old one */
    c->life = life[0];
    if (number != 0)
        return error_tell(error, PTO_ESYSTEM, "%s cannot be started: %s", path, strerror(number));
    descriptor = (int)syscall(SYS_pidfd_open, pid, 0);
    if (descriptor < 0) {
        number = errno;
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
    a32_store_relaxed(&c->is_buried, 0);
    a32_store_relaxed(&c->has_ended, 0); /* the watcher, which sets it, does not know it yet */
    pthread_mutex_unlock(&t->lock);
    if (t->alarm >= 0)
        (void)eventfd_write(t->alarm, 1);
    return PTO_OK;
}

int tree_program_copy(const char *const *program, const char ***copy_out)
{
    size_t count = 0, bytes = 0;
    const char **copy;
    char *text;

    if (program == NULL)
        return PTO_OK;
    if (program[0] == NULL || strlen(program[0]) >= PATH_MAX)
        return PTO_EINVAL;
    for (; program[count] != NULL; count++)
        bytes += strlen(program[count]) + 1;
    copy = malloc((count + 1) * sizeof(*copy) + bytes);
    if (copy == NULL)
        return PTO_ENOMEM;
    text = (char *)(copy + count + 1);
    for (size_t i = 0; i < count; i++) {
        copy[i] = strcpy(text, program[i]);
        text += strlen(text) + 1;
    }
    copy[count] = NULL;
    *copy_out = copy;
    return PTO_OK;
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

struct starting {
    struct tree *tree;
    uint64_t children;
};

static bool have_started(void *context)
{
    const struct starting *s = context;

    for (uint32_t i = 0; i < s->tree->child_count; i++)
        if ((s->children >> i & 1) != 0 && s->tree->child[i].state == CHILD_STARTING)
            return false;
    return true;
}

int tree_children_await(struct tree *t, uint64_t children, uint64_t deadline_ns,
                        struct pto_error *error)
{
    struct starting s = { t, children };
    int status = tree_await(t, have_started, &s, deadline_ns);

    for (uint32_t i = 0; i < t->child_count; i++) {
        struct tree_child *c = &t->child[i];
        char how[128];

        if ((children >> i & 1) == 0 || c->state == CHILD_READY)
            continue;
        if (c->state == CHILD_STARTING)
            return error_tell(error, status, "child %u, process %d, is not ready in time", i,
                              (int)c->pid);
        if (c->state == CHILD_DEAD && WIFEXITED(c->end) &&
            WEXITSTATUS(c->end) == CHILD_EXIT_ADDRESS)
            return PTO_EAGAIN;
        if (c->text[0] != '\0')
            return error_tell(error, c->ready_status, "child %u: %s", i, c->text);
        tree_child_tell_end(c, how, sizeof(how));
        return error_tell(error, PTO_EPEER, "child %u %s before it was ready", i, how);
    }
    return PTO_OK;
}

/* ---- end ---- */

void tree_child_tell_end(const struct tree_child *c, char *text, size_t size)
{
    if (c->state == CHILD_READY || c->state == CHILD_STARTING)
        snprintf(text, size, "is not ready yet");
    else if (c->late_task != 0)
        snprintf(text, size, "was killed, because a task had not ended in time");
    else if (c->state == CHILD_BROKEN)
        snprintf(text, size, "did not keep to the rules, and is being ended");
    else if (WIFSIGNALED(c->end))
        snprintf(text, size, "was ended by signal %d (%s)", WTERMSIG(c->end),
                 strsignal(WTERMSIG(c->end)));
    else if (WEXITSTATUS(c->end) == CHILD_EXIT_LOST)
        snprintf(text, size, "has ended, because its device is lost");
    else
        snprintf(text, size, "has ended with exit code %d", WEXITSTATUS(c->end));
}

void tree_child_kill(struct tree_child *c)
{
    if (c->descriptor >= 0)
        (void)syscall(SYS_pidfd_send_signal, c->descriptor, SIGKILL, NULL, 0);
}

/* It had no time to remove the code that it had loaded. */
static void sweep_files(const struct tree_child *c)
{
    if (WIFSIGNALED(c->end) && WTERMSIG(c->end) == SIGKILL)
        code_file_sweep(c->pid);
}

/* The children of a nested worker have gone, too. */
static bool has_life_ended(int life, int wait_ms)
{
    struct pollfd on = { .fd = life, .events = POLLIN };

    return life < 0 || (poll(&on, 1, wait_ms) == 1 && (on.revents & POLLHUP) != 0);
}

/*
 * The process of a nested worker has gone, and nobody has collected it. Its children notice; one
 * that has not got so far is ended with the group that it is in.
 */
static void end_group(const struct tree_child *c)
{
    if (c->kind == PTO_CHILD_WORKER && !has_life_ended(c->life, NOTICE_MS))
        (void)kill(-c->pid, SIGKILL);
}

/* Waits until then for the end of a nested worker that was asked to end, without collecting it. */
static void await_worker(struct tree_child *c, uint64_t deadline_ns)
{
    struct pollfd on = { .fd = c->descriptor, .events = POLLIN };
    uint64_t now = os_now_ns();

    if (c->kind != PTO_CHILD_WORKER)
        return;
    if (poll(&on, 1, now < deadline_ns ? (int)((deadline_ns - now) / 1000000) + 1 : 0) != 1) {
        tree_child_kill(c);
        (void)poll(&on, 1, END_WAIT_MS);
    }
    end_group(c);
}

static void close_life(struct tree_child *c)
{
    (void)has_life_ended(c->life, END_WAIT_MS);
    close_one(c->life);
    c->life = -1;
}

void tree_children_end(struct tree *t)
{
    const struct record_head head = { .kind = RECORD_END };
    uint64_t deadline_ns = os_now_ns() + END_WAIT_MS * 1000000ull;

    for (uint32_t i = 0; i < t->child_count; i++) {
        struct tree_child *c = &t->child[i];

        if (c->state == CHILD_READY && channel_write(&c->out, &head, NULL, 0))
            bell_ring(&c->line->bell);
        else
            tree_child_kill(c);
    }
    for (uint32_t i = 0; i < t->child_count; i++) {
        struct tree_child *c = &t->child[i];
        uint64_t now = os_now_ns();

        if (c->descriptor < 0) {
            close_one(c->life);
            continue;
        }
        if (a32_load_acquire(&c->has_ended) == 0 && !c->is_collected) {
            await_worker(c, deadline_ns);
            now = os_now_ns();
            if (spawn_end(
                    c->descriptor, now >= deadline_ns,
                    now < deadline_ns ? (int)((deadline_ns - now) / 1000000) + 1 : END_WAIT_MS,
                    &c->end))
                sweep_files(c);
            c->state = CHILD_DEAD;
        }
        close(c->descriptor);
        c->descriptor = -1;
        close_life(c);
    }
}

/* ---- watching ---- */

/* Those that live, and which they are. */
static uint32_t list_living(struct tree *t, struct pollfd on[], uint32_t which[])
{
    uint32_t count = 0;

    pthread_mutex_lock(&t->lock);
    for (uint32_t i = 0; i < t->child_count; i++)
        if (t->child[i].descriptor >= 0 && a32_load_relaxed(&t->child[i].has_ended) == 0) {
            on[count] = (struct pollfd){ .fd = t->child[i].is_collected ? t->child[i].life
                                                                        : t->child[i].descriptor,
                                         .events = POLLIN };
            which[count++] = i;
        }
    pthread_mutex_unlock(&t->lock);
    return count;
}

static void *watch_main(void *context)
{
    struct tree *t = context;
    struct pollfd on[TREE_CHILDREN_MAX + 1];
    uint32_t which[TREE_CHILDREN_MAX];

    while (a32_load_acquire(&t->is_closing) == 0) {
        uint32_t count = list_living(t, on, which);
        eventfd_t ignored;

        on[count] = (struct pollfd){ .fd = t->alarm, .events = POLLIN };
        if (poll(on, count + 1, -1) < 0)
            continue;
        if (on[count].revents != 0)
            (void)eventfd_read(t->alarm, &ignored);
        for (uint32_t i = 0; i < count; i++) {
            struct tree_child *c = &t->child[which[i]];

            if (on[i].revents == 0)
                continue;
            if (!c->is_collected) {
                end_group(c);
                if (!spawn_end(on[i].fd, false, 0, &c->end))
                    c->end = 0; /* somebody else has collected it */
                c->is_collected = true;
                sweep_files(c);
            }
            if (!has_life_ended(c->life, 0))
                continue;                        /* until its children have gone */
            a32_store_release(&c->has_ended, 1); /* with `end` */
            bell_wake(&t->shared->bell);
        }
    }
    return NULL;
}

int tree_watch_start(struct tree *t)
{
    t->alarm = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->alarm < 0)
        return PTO_ESYSTEM;
    if (os_thread_start(&t->watcher, watch_main, t) == PTO_OK)
        return PTO_OK;
    close(t->alarm);
    t->alarm = -1;
    return PTO_ESYSTEM;
}

void tree_watch_stop(struct tree *t)
{
    if (t->alarm < 0)
        return;
    a32_store_release(&t->is_closing, 1);
    (void)eventfd_write(t->alarm, 1);
    pthread_join(t->watcher, NULL);
    close(t->alarm);
    t->alarm = -1;
}
