/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be seen of workers from outside. A worker's memory is a file without a name, but the system
 * shows it to the same user as a descriptor of the worker's process. It begins with
 * a struct tree_shared; what is there is only read, by calls that cannot fault, and nothing of
 * it is trusted. Processes may vanish at any moment.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os.h"
#include "pto/status.h"
#include "pto/watch.h"
#include "tree/tree.h"
#include "tree/tree_trace.h"

enum {
    PROGRAM_MAX = 200,
    WORKERS_MAX = 64 /* of one process */,
    NESTED_MAX = 4096 /* of one tree */
};
#define MEMORY_LINK "/memfd:" TREE_MEMORY_NAME

/* ---- what a worker tells ---- */

void tree_show(struct tree *t)
{
    t->shared->head = (struct tree_head){ .magic = TREE_MAGIC,
                                          .shared_bytes = sizeof(struct tree_shared),
                                          .line_bytes = sizeof(struct tree_line),
                                          .child_count = t->child_count,
                                          .level = t->level,
                                          .pid = (int32_t)getpid() };
    memcpy(t->shared->head.platform, t->platform, sizeof(t->platform));
    snprintf(t->shared->name[TREE_COPY], TREE_NAME, "copy");
    for (uint32_t i = 0; i < TREE_CALLABLES; i++)
        if (t->callable[i].users != 0)
            tree_show_name(t, &t->callable[i]);
}

void tree_show_child(struct tree *t, struct tree_child *c)
{
    struct tree_status *shown = &c->line->status;
    uint64_t base = (uint64_t)(uintptr_t)tree_map(t);

    assert_held(&t->lock);
    a32_store_relaxed(&shown->kind, (uint32_t)c->kind); /* tree_status says why */
    a32_store_relaxed(&shown->device, c->device);
    a32_store_relaxed(&shown->generation, c->generation);
    a64_store_relaxed(&shown->nested_at, c->kind == PTO_CHILD_WORKER ? c->nested.addr - base : 0);
    a32_store_relaxed(&shown->pid, (uint32_t)c->link.pid);
}

void tree_show_name(struct tree *t, const struct tree_callable *k)
{
    memcpy(t->shared->name[k - t->callable], k->name, TREE_NAME);
}

/* ---- processes ---- */

struct process {
    int32_t pid;
    int32_t own_pid; /* as it knows itself; 0: unknown */
    bool
        is_elsewhere; /* it counts processes differently: those of its children mean nothing here */
    char program[PROGRAM_MAX + 1];
};

/* The number behind a key of /proc/PID/status, the last one of its line. -1: none. */
static long read_status(int32_t pid, const char *key, bool *is_several_out)
{
    char path[64], line[256];
    long value = -1;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    file = fopen(path, "re");
    while (file != NULL && value < 0 && fgets(line, sizeof(line), file) != NULL) {
        char *at = line + strlen(key), *end = at;

        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        for (uint32_t count = 0;; count++, at = end) {
            long next = strtol(at, &end, 10);

            if (end == at)
                break;
            if (is_several_out != NULL)
                *is_several_out = count != 0;
            value = next;
        }
    }
    if (file != NULL)
        fclose(file);
    return value;
}

static void show_read_program(struct process *p)
{
    char path[64];
    ssize_t got = -1;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/cmdline", p->pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        got = read(fd, p->program, PROGRAM_MAX);
        close(fd);
    }
    while (got > 0 && p->program[got - 1] == '\0')
        got--;
    p->program[got > 0 ? got : 0] = '\0';
    for (ssize_t i = 0; i < got; i++)
        if (p->program[i] == '\0')
            p->program[i] = ' ';
    (void)pto_text_clean(p->program, true);
}

static bool is_zombie(int32_t pid)
{
    char path[64], text[512], *at = NULL;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    file = fopen(path, "re");
    if (file != NULL) {
        if (fgets(text, sizeof(text), file) != NULL)
            at = strrchr(text, ')'); /* the name may be anything */
        fclose(file);
    }
    return at == NULL || at[1] == '\0' || at[2] == 'Z' || at[2] == 'X';
}

/* It is there, and of this worker. */
static bool is_child_of(int32_t pid, const struct process *worker)
{
    return worker->is_elsewhere ||
           (read_status(pid, "PPid:", NULL) == worker->pid && !is_zombie(pid));
}

/* ---- one worker ---- */

static struct pto_watch_child show_look_at_child(const struct tree_shared *shared,
                                                 const struct tree_status *shown,
                                                 const struct process *p)
{
    uint32_t doing = a32_load_relaxed(&shown->doing); /* a copy, nobody writes it */
    uint64_t since = a64_load_relaxed(&shown->since_ns), now = os_now_ns();
    struct pto_watch_child child = { .kind = a32_load_relaxed(&shown->kind),
                                     .pid = (int32_t)a32_load_relaxed(&shown->pid),
                                     .generation = a32_load_relaxed(&shown->generation),
                                     .tasks = a64_load_relaxed(&shown->tasks),
                                     .device = a32_load_relaxed(&shown->device) };
    uint32_t callable = doing - TREE_RUNNING;

    child.state = doing == TREE_STARTING ? PTO_WATCH_STARTING
                  : doing == TREE_IDLE   ? PTO_WATCH_IDLE
                                         : PTO_WATCH_RUNNING;
    if (child.pid != 0 && !is_child_of(child.pid, p))
        child.state = PTO_WATCH_DEAD;
    if (child.state == PTO_WATCH_RUNNING && callable <= TREE_COPY) {
        memcpy(child.callable, shared->name[callable], sizeof(child.callable) - 1);
        (void)pto_text_clean(child.callable, true);
        child.running_ns = now > since ? now - since : 0;
    }
    return child;
}

/* What is found of one worker. */
struct sight {
    struct tree_shared shared;
    struct pto_watch_worker worker;
    struct pto_watch_child child[TREE_CHILDREN_MAX];
    uint64_t nested_at[TREE_CHILDREN_MAX]; /* 0: it is none */
};

/* False: there is no worker's memory, or a process has only inherited it. */
static bool look_at_memory(int fd, uint64_t at, const struct process *p, struct sight *sight)
{
    struct tree_shared *shared = &sight->shared;
    struct pto_watch_worker *worker = &sight->worker;
    struct tree_head *head = &shared->head;

    memset(sight, 0, sizeof(*sight));
    if (pread(fd, shared, sizeof(*shared), (off_t)at) < (ssize_t)sizeof(*head) ||
        head->magic != TREE_MAGIC)
        return false;
    head->platform[TREE_PLATFORM - 1] = '\0';
    (void)pto_text_clean(head->platform, true);
    *worker = (struct pto_watch_worker){ .size = sizeof(*worker),
                                         .pid = p->pid,
                                         .level = head->level,
                                         .program = p->program,
                                         .platform = head->platform,
                                         .child = sight->child };
    worker->is_other_build = head->shared_bytes != sizeof(struct tree_shared) ||
                             head->line_bytes != sizeof(struct tree_line) ||
                             head->child_count > TREE_CHILDREN_MAX;
    if (worker->is_other_build)
        return true;
    if (head->pid != p->own_pid)
        return false;
    for (uint32_t i = 0; i < head->child_count; i++) {
        struct tree_status shown;
        uint64_t line = offsetof(struct tree_shared, line) + i * sizeof(struct tree_line);

        if (pread(fd, &shown, sizeof(shown),
                  (off_t)(at + line + offsetof(struct tree_line, status))) !=
            (ssize_t)sizeof(shown))
            break;
        sight->nested_at[i] = a64_load_relaxed(&shown.nested_at); /* a copy */
        sight->child[worker->child_count++] = show_look_at_child(shared, &shown, p);
    }
    return true;
}

/* A look at all workers. */
struct look {
    pto_watch_fn visit;
    void *context;
    struct sight *sight; /* TREE_NESTED_MAX + 1, one for each level that is being looked at */
    int found;           /* all in all */
    int left;            /* that may still be found in this file, whatever it says */
};

/* Tells of a worker, and of those of its children that are workers: their memory is in the same file. */
static void look_at_tree(struct look *l, int fd, uint64_t at, const struct process *p,
                         uint32_t depth)
{
    struct sight *sight = &l->sight[depth];

    if (l->left-- <= 0 || !look_at_memory(fd, at, p, sight))
        return;
    l->visit(l->context, &sight->worker);
    l->found++;
    for (uint32_t i = 0; i < sight->worker.child_count && depth < TREE_NESTED_MAX; i++) {
        const struct pto_watch_child *child = &sight->child[i];
        struct process nested = { .pid = child->pid,
                                  .own_pid = child->pid,
                                  .is_elsewhere = p->is_elsewhere };

        if (sight->nested_at[i] <= at || child->state == PTO_WATCH_DEAD)
            continue;
        show_read_program(&nested);
        look_at_tree(l, fd, sight->nested_at[i], &nested, depth + 1);
    }
}

/* Opens the descriptor of another process if it is a worker's memory. Negative: it is not. */
static int show_open_memory(int folder, const char *name)
{
    char link[PATH_MAX];
    ssize_t length = readlinkat(folder, name, link, sizeof(link) - 1);

    if (length <= 0)
        return -1;
    link[length] = '\0';
    if (strncmp(link, MEMORY_LINK, strlen(MEMORY_LINK)) != 0)
        return -1;
    return openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

/* A process may have several workers, and one memory as several descriptors. */
static void look_at_process(struct look *l, int32_t pid)
{
    struct process p = { .pid = pid };
    ino_t seen[WORKERS_MAX];
    int seen_count = 0;
    char path[64];
    DIR *folder;

    snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    folder = opendir(path);
    for (struct dirent *e;
         folder != NULL && (e = readdir(folder)) != NULL && seen_count < WORKERS_MAX;) {
        int fd = e->d_name[0] != '.' ? show_open_memory(dirfd(folder), e->d_name) : -1;
        struct stat info;
        bool is_new = fd >= 0 && fstat(fd, &info) == 0;

        for (int i = 0; is_new && i < seen_count; i++)
            is_new = seen[i] != info.st_ino;
        if (is_new && p.own_pid == 0) {
            p.own_pid = (int32_t)read_status(pid, "NSpid:", &p.is_elsewhere);
            show_read_program(&p);
        }
        if (is_new) {
            seen[seen_count++] = info.st_ino;
            l->left = NESTED_MAX;
            look_at_tree(l, fd, 0, &p, 0);
        }
        if (fd >= 0)
            close(fd);
    }
    if (folder != NULL)
        closedir(folder);
}

/* ---- all of them ---- */

static int compare_pids(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return x < y ? -1 : x > y;
}

/* Returns how many; negative: a status. */
static int list_processes(int32_t **pid_out)
{
    int32_t *pid = NULL;
    int count = 0, room = 0;
    DIR *folder = opendir("/proc");

    if (folder == NULL)
        return PTO_ESYSTEM;
    for (struct dirent *e; (e = readdir(folder)) != NULL;) {
        char *end;
        long number = strtol(e->d_name, &end, 10);

        if (number <= 0 || number > INT32_MAX || *end != '\0')
            continue;
        if (count == room) {
            int32_t *grown = realloc(pid, (size_t)(room + 1024) * sizeof(*pid));

            if (grown == NULL) {
                count = PTO_ENOMEM;
                break;
            }
            pid = grown;
            room += 1024;
        }
        pid[count++] = (int32_t)number;
    }
    closedir(folder);
    if (count > 0)
        qsort(pid, (size_t)count, sizeof(*pid), compare_pids);
    *pid_out = pid;
    return count;
}

int pto_watch_workers(pto_watch_fn visit, void *context)
{
    struct look l = { .visit = visit, .context = context };
    int32_t *pid = NULL;
    int count;

    if (visit == NULL)
        return PTO_EINVAL;
    l.sight = calloc(TREE_NESTED_MAX + 1, sizeof(*l.sight));
    count = l.sight != NULL ? list_processes(&pid) : PTO_ENOMEM;
    for (int i = 0; i < count; i++)
        look_at_process(&l, pid[i]);
    free(pid);
    free(l.sight);
    return count < 0 ? count : l.found;
}
