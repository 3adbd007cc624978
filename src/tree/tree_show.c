/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists workers of other processes. The memory of a worker is a nameless file, but the kernel shows
 * it to processes of the same user as a descriptor of the worker's process. The file begins with a
 * struct tree_shared. This code only reads it, with calls that cannot fault, and trusts none of its
 * contents. Processes may end at any moment.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "link/observe.h"
#include "pto/status.h"
#include "pto/watch.h"
#include "tree/tree.h"
#include "tree/tree_trace.h"

enum { NESTED_MAX = 4096 /* maximum number of nested workers that are listed for one tree */ };

/* ---- publishing the state of this worker ---- */

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
    a32_store_relaxed(&shown->kind, (uint32_t)c->kind); /* relaxed: see struct tree_status */
    a32_store_relaxed(&shown->device, c->device);
    a32_store_relaxed(&shown->generation, c->generation);
    a64_store_relaxed(&shown->nested_at, c->kind == PTO_CHILD_WORKER ? c->nested.addr - base : 0);
    a32_store_relaxed(&shown->pid, (uint32_t)c->link.pid);
}

void tree_show_name(struct tree *t, const struct tree_callable *k)
{
    memcpy(t->shared->name[k - t->callable], k->name, TREE_NAME);
}

/* ---- reading one worker ---- */

static struct pto_watch_child show_look_at_child(const struct tree_shared *shared,
                                                 const struct tree_status *shown,
                                                 const struct observe_process *p)
{
    /* relaxed: `shown` is a copy, to which no other thread writes */
    uint32_t doing = a32_load_relaxed(&shown->doing);
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
    if (child.pid != 0 && !observe_is_child(child.pid, p))
        child.state = PTO_WATCH_DEAD;
    if (child.state == PTO_WATCH_RUNNING && callable <= TREE_COPY) {
        memcpy(child.callable, shared->name[callable], sizeof(child.callable) - 1);
        (void)pto_text_clean(child.callable, true);
        child.running_ns = now > since ? now - since : 0;
    }
    return child;
}

/* The data that were read about one worker. */
struct sight {
    struct tree_shared shared;
    struct pto_watch_worker worker;
    struct pto_watch_child child[TREE_CHILDREN_MAX];
    /* offsets of nested workers in the file, by child; 0: the child is not a worker */
    uint64_t nested_at[TREE_CHILDREN_MAX];
};

/*
 * Reads the head of a worker at offset `at` of the file. False: there is none, or the process has
 * only inherited the file.
 */
static bool look_at_memory(int fd, uint64_t at, const struct observe_process *p,
                           struct sight *sight)
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
        sight->nested_at[i] = a64_load_relaxed(&shown.nested_at); /* relaxed: `shown` is a copy */
        sight->child[worker->child_count++] = show_look_at_child(shared, &shown, p);
    }
    return true;
}

/* State of a listing of all workers. */
struct look {
    pto_watch_fn visit;
    void *context;
    /* TREE_NESTED_MAX + 1 entries, one for each level of the tree that is being read */
    struct sight *sight;
    int found; /* number of workers found in all processes */
    /* maximum number of workers that are still accepted from this file, whatever it contains */
    int left;
    struct observe_process process; /* the process whose files are read */
};

/* Reports a worker, then its children that are workers, whose memory is in the same file. */
static void look_at_tree(struct look *l, int fd, uint64_t at, const struct observe_process *p,
                         uint32_t depth)
{
    struct sight *sight = &l->sight[depth];

    if (l->left-- <= 0 || !look_at_memory(fd, at, p, sight))
        return;
    l->visit(l->context, &sight->worker);
    l->found++;
    for (uint32_t i = 0; i < sight->worker.child_count && depth < TREE_NESTED_MAX; i++) {
        const struct pto_watch_child *child = &sight->child[i];
        struct observe_process nested;

        if (sight->nested_at[i] <= at || child->state == PTO_WATCH_DEAD)
            continue;
        observe_read(child->pid, &nested);
        nested.own_pid = child->pid;
        nested.is_elsewhere = p->is_elsewhere;
        look_at_tree(l, fd, sight->nested_at[i], &nested, depth + 1);
    }
}

/* Reports the workers of a process, which may have several, one in each file. */
static void look_at_file(void *context, int fd)
{
    struct look *l = context;

    if (l->process.own_pid == 0)
        observe_read(l->process.pid, &l->process);
    l->left = NESTED_MAX;
    look_at_tree(l, fd, 0, &l->process, 0);
}

int pto_watch_workers(pto_watch_fn visit, void *context)
{
    struct look l = { .visit = visit, .context = context };
    int32_t *pid = NULL;
    int count;

    if (visit == NULL)
        return PTO_EINVAL;
    l.sight = calloc(TREE_NESTED_MAX + 1, sizeof(*l.sight));
    count = l.sight != NULL ? observe_list(&pid) : PTO_ENOMEM;
    for (int i = 0; i < count; i++) {
        l.process = (struct observe_process){ .pid = pid[i] };
        (void)observe_files(pid[i], TREE_MEMORY_NAME, look_at_file, &l);
    }
    free(pid);
    free(l.sight);
    return count < 0 ? count : l.found;
}
