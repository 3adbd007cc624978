/* SPDX-License-Identifier: Apache-2.0 */
/* The children of a worker: starts and ends their processes, and notices when they end. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"
#include "tree/tree.h"
#include "tree/tree_run.h"
#include "tree/tree_trace.h"

/*
 * How long children that were asked to end may take. A nested worker gives its own children half as
 * long as it has itself, so that it ends before the worker above kills it.
 */
enum { END_WAIT_MS = 3000, END_WAIT_MIN_MS = 100 };

/* ---- starting children ---- */

static_assert(TREE_NESTED_MAX + 1 <= (int)LINK_MORE_MAX, "every nested worker has a life pipe");
static_assert((int)TREE_CHILDREN_MAX <= (int)WATCHER_MAX, "one watcher for all children");

/*
 * Resets all memory that the child can write to, except tensors, because its previous process may
 * have written anything there. Bytes left in the streams come from that process and are discarded.
 */
static void child_set_up(struct tree *t, struct tree_child *c)
{
    struct tree_line *line = c->line;
    const struct line_ends ends = { .out = &line->to_child,
                                    .in = &line->to_worker,
                                    .own = &t->shared->waker,
                                    .other = &line->waker };
    /* relaxed: no process uses the line now */
    uint64_t trace_bytes = a64_load_relaxed(&line->trace_bytes);

    memset(line, 0, offsetof(struct tree_line, to_child));
    tree_show(t);
    tree_trace_restore(t, c->index, trace_bytes);
    waker_restore(&t->shared->waker);
    line_reset(&ends);
    line_open(c->link.line, &ends, c->generation, RECORD_KINDS);
}

/* Returns the program that a child runs, with its arguments; NULL: pto-child. */
static const char *const *child_program(const struct tree *t, const struct tree_child *c)
{
    return c->kind != PTO_CHILD_CHIP && t->sub_program != NULL ? t->sub_program : t->program;
}

static struct tree_hello child_hello(const struct tree *t, const struct tree_child *c,
                                     uint64_t deadline_ns)
{
    bool is_root = t->outer.map == NULL;
    uint64_t now = os_now_ns();
    struct tree_hello hello = { .link = link_hello_make(LINK_CHILD, sizeof(hello)),
                                .shared = (uint64_t)(uintptr_t)t->shared,
                                .nested = c->nested,
                                .child = c->index,
                                .kind = (uint32_t)c->kind,
                                .process_count = t->child_count + 1,
                                .clusters = t->params.clusters,
                                .workers = t->params.chip_workers,
                                .device = c->device,
                                .has_guards = t->params.has_guards,
                                .has_nan_check = t->params.has_nan_check,
                                .is_virtual = t->params.is_virtual };

    hello.link.addr = (uint64_t)(uintptr_t)(is_root ? t->base : t->outer.map);
    hello.link.memory_bytes = is_root ? t->bytes : t->outer.map_bytes;
    hello.link.generation = c->generation;
    if (!is_root)
        hello.link.root = t->outer.root;
    /*
     * The nested worker gets less time than this worker waits, so that it can report which of its
     * children is late.
     */
    if (deadline_ns > now)
        hello.nested.deadline_ns = now + (deadline_ns - now) / 8 * 7;
    snprintf(hello.platform, sizeof(hello.platform), "%s", t->platform);
    return hello;
}

int tree_child_start(struct tree *t, uint32_t index, uint64_t deadline_ns, struct pto_error *error)
{
    struct tree_child *c = &t->child[index];
    bool is_worker = c->kind == PTO_CHILD_WORKER;
    struct tree_hello hello;
    struct endpoint_start how = { .program = child_program(t, c),
                                  .hello = &hello.link,
                                  .memory = t->memory,
                                  .more = t->outer.life,
                                  .more_count = tree_depth(t),
                                  .has_descendants = is_worker,
                                  .leads = is_worker && tree_depth(t) == 0 };
    int status = PTO_OK;

    assert_not_held(&t->lock);
    if (is_worker && tree_nested_clear(t, c) < 0)
        status = error_setf(error, PTO_ESYSTEM, "the memory of child %u cannot be cleared: %s",
                            c->index, strerror(errno));
    pthread_mutex_lock(&t->lock);
    c->generation++;
    c->state = CHILD_STARTING;
    c->text[0] = '\0';
    c->late_task = 0;
    child_set_up(t, c);
    hello = child_hello(t, c, deadline_ns);
    pthread_mutex_unlock(&t->lock);
    if (status >= 0)
        status = c->link.ops->start(&c->link, &how, error);
    if (status < 0)
        return status;
    pthread_mutex_lock(&t->lock);
    tree_show_child(t, c);
    /* is_end_handled and has_ended change under the lock */
    a32_store_relaxed(&c->is_end_handled, 0);
    watcher_add(&t->watcher, &c->link);
    pthread_mutex_unlock(&t->lock);
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

    assert_held(&t->lock);
    for (uint32_t i = 0; i < t->child_count; i++) {
        struct tree_child *c = &t->child[i];
        char how[128];

        if ((children >> i & 1) == 0 || c->state == CHILD_READY)
            continue;
        if (c->state == CHILD_STARTING)
            return error_setf(error, status, "child %u, process %d, is not ready in time", i,
                              (int)c->link.pid);
        if (c->state == CHILD_DEAD && endpoint_is_misplaced(&c->link))
            return PTO_EAGAIN;
        if (c->text[0] != '\0')
            return error_setf(error, c->ready_status, "child %u: %s", i, c->text);
        tree_child_describe_end(c, how, sizeof(how));
        return error_setf(error, PTO_EPEER, "child %u %s before it was ready", i, how);
    }
    return PTO_OK;
}

/* ---- ending children ---- */

void tree_child_describe_end(const struct tree_child *c, char *text, size_t size)
{
    if (c->state == CHILD_READY || c->state == CHILD_STARTING)
        snprintf(text, size, "is not ready yet");
    else if (c->late_task != 0)
        snprintf(text, size, "was killed, because a task had not ended in time");
    else if (c->state == CHILD_BROKEN)
        snprintf(text, size, "violated the protocol, and is being killed");
    else
        endpoint_describe_end(&c->link, text, size);
}

void tree_child_describe_place(const struct tree_child *c, char *text, size_t size)
{
    text[0] = '\0';
    if (a32_load_acquire(&c->line->has_end) != 0 && c->line->end[0] != '\0')
        snprintf(text, size, ": %.*s", TREE_TEXT - 1, c->line->end);
    pto_text_clean(text, false);
}

void tree_child_kill(struct tree_child *c)
{
    c->link.ops->kill(&c->link);
}

void tree_children_end(struct tree *t)
{
    const struct record_head head = { .kind = RECORD_END };
    uint32_t wait_ms = END_WAIT_MS >> tree_depth(t);
    uint64_t deadline_ns =
        os_now_ns() + (wait_ms > END_WAIT_MIN_MS ? wait_ms : END_WAIT_MIN_MS) * 1000000ull;

    assert_not_held(&t->lock);
    for (uint32_t i = 0; i < t->child_count; i++) {
        struct tree_child *c = &t->child[i];

        if (c->state != CHILD_READY || !line_send(c->link.line, &head, NULL, 0))
            tree_child_kill(c);
    }
    for (uint32_t i = 0; i < t->child_count; i++) {
        t->child[i].link.ops->end(&t->child[i].link, deadline_ns);
        t->child[i].state = CHILD_DEAD;
    }
}

/* ---- noticing the end of a process ---- */

/*
 * Called when a child's process has ended: wakes the threads of the worker that wait for records.
 */
static void child_wake(void *context)
{
    waker_wake_always(&((struct tree *)context)->shared->waker);
}

int tree_watch_start(struct tree *t)
{
    for (uint32_t i = 0; i < t->child_count; i++)
        t->watcher.endpoint[i] = &t->child[i].link;
    t->watcher.count = t->child_count;
    t->watcher.ended = child_wake;
    t->watcher.owner = t;
    return watcher_start(&t->watcher);
}
