/* SPDX-License-Identifier: Apache-2.0 */
/* The children of a worker, whatever is behind them: started, watched, ended. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/code_file.h"
#include "base/os.h"
#include "tree/tree.h"

/* For children that were asked to end. A nested worker waits for half as long as the one above, so that it can end its own. */
enum { END_WAIT_MS = 3000, END_WAIT_MIN_MS = 100 };

/* ---- start ---- */

int tree_child_start(struct tree *t, uint32_t index, uint64_t deadline_ns, struct pto_error *error)
{
    struct tree_child *c = &t->child[index];
    int status;

    pthread_mutex_lock(&t->lock);
    c->generation++;
    c->state = CHILD_STARTING;
    c->text[0] = '\0';
    c->late_task = 0;
    pthread_mutex_unlock(&t->lock);
    status = c->endpoint->life->start(t, c, deadline_ns, error);
    if (status < 0)
        return status;
    pthread_mutex_lock(&t->lock);
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
        if (c->state == CHILD_DEAD && c->endpoint->life->is_misplaced(c))
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
    else
        c->endpoint->life->tell_end(c, text, size);
}

void tree_child_kill(struct tree_child *c)
{
    c->endpoint->life->kill(c);
}

void tree_children_end(struct tree *t)
{
    const struct record_head head = { .kind = RECORD_END };
    uint32_t wait_ms = END_WAIT_MS >> tree_depth(t);
    uint64_t deadline_ns =
        os_now_ns() + (wait_ms > END_WAIT_MIN_MS ? wait_ms : END_WAIT_MIN_MS) * 1000000ull;

    for (uint32_t i = 0; i < t->child_count; i++) {
        struct tree_child *c = &t->child[i];

        if (c->state != CHILD_READY || !c->endpoint->records->send(c, &head, NULL, 0))
            tree_child_kill(c);
    }
    for (uint32_t i = 0; i < t->child_count; i++) {
        t->child[i].endpoint->life->end(&t->child[i], deadline_ns);
        t->child[i].state = CHILD_DEAD;
    }
}

/* ---- watching ---- */

/* Those that live, and which they are. */
static uint32_t list_living(struct tree *t, struct pollfd on[], uint32_t which[])
{
    uint32_t count = 0;

    pthread_mutex_lock(&t->lock);
    for (uint32_t i = 0; i < t->child_count; i++)
        if (a32_load_relaxed(&t->child[i].has_ended) == 0) {
            on[count] = (struct pollfd){ .fd = t->child[i].endpoint->life->watched(&t->child[i]),
                                         .events = POLLIN };
            which[count++] = i;
        }
    pthread_mutex_unlock(&t->lock);
    return count;
}

static uint64_t due_ns(const struct tree_child *c)
{
    return c->endpoint->life->due_ns != NULL ? c->endpoint->life->due_ns(c) : UINT64_MAX;
}

/* For poll: until one of them is to be asked again. */
static int wait_ms(const struct tree *t, const uint32_t which[], uint32_t count)
{
    uint64_t first = UINT64_MAX, now;

    for (uint32_t i = 0; i < count; i++)
        first = due_ns(&t->child[which[i]]) < first ? due_ns(&t->child[which[i]]) : first;
    if (first == UINT64_MAX)
        return -1;
    now = os_now_ns();
    return first > now ? (int)((first - now) / 1000000) + 1 : 0;
}

static void *watch_main(void *context)
{
    struct tree *t = context;
    struct pollfd on[TREE_CHILDREN_MAX + 1];
    uint32_t which[TREE_CHILDREN_MAX];
    pid_t killed[TREE_CHILDREN_MAX];

    while (a32_load_acquire(&t->is_closing) == 0) {
        uint32_t count = list_living(t, on, which);
        uint32_t killed_count = 0;
        eventfd_t ignored;

        on[count] = (struct pollfd){ .fd = t->alarm, .events = POLLIN };
        if (poll(on, count + 1, wait_ms(t, which, count)) < 0)
            continue;
        if (on[count].revents != 0)
            (void)eventfd_read(t->alarm, &ignored);
        for (uint32_t i = 0; i < count; i++) {
            struct tree_child *c = &t->child[which[i]];

            if ((on[i].revents == 0 && due_ns(c) > os_now_ns()) || !c->endpoint->life->has_ended(c))
                continue;
            killed[killed_count] = c->endpoint->life->leaves_files(c);
            killed_count += killed[killed_count] != 0;
            a32_store_release(&c->has_ended, 1); /* with what `tell_end` says */
            waker_wake_always(&t->shared->waker);
        }
        /* After the notices, and by number: a child may have another process by now. */
        for (uint32_t i = 0; i < killed_count; i++)
            code_file_sweep(killed[i]);
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
