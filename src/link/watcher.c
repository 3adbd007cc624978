/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "link/watcher.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/code_file.h"
#include "pto/status.h"

/* Lists the endpoints whose processes are alive, and their descriptors for poll. */
static uint32_t watcher_list(struct watcher *w, struct pollfd on[], struct endpoint *living[])
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < w->count; i++)
        /* acquire: pairs with the release in watcher_add, after `watched` was set */
        if (a32_load_acquire(&w->endpoint[i]->has_ended) == 0) {
            living[count] = w->endpoint[i];
            on[count++] = (struct pollfd){ .fd = w->endpoint[i]->watched, .events = POLLIN };
        }
    return count;
}

/*
 * Returns the timeout for poll in ms, until the first endpoint has to be checked again; -1: none
 * has to.
 */
static int watcher_wait_ms(struct endpoint *const living[], uint32_t count)
{
    uint64_t first = UINT64_MAX, now;

    for (uint32_t i = 0; i < count; i++)
        first = living[i]->due_ns < first ? living[i]->due_ns : first;
    if (first == UINT64_MAX)
        return -1;
    now = os_now_ns();
    return first > now ? (int)((first - now) / 1000000) + 1 : 0;
}

static void *watcher_run(void *context)
{
    struct watcher *w = context;
    struct pollfd on[WATCHER_MAX + 1];
    struct endpoint *living[WATCHER_MAX];
    pid_t killed[WATCHER_MAX];

    while (a32_load_acquire(&w->is_closing) == 0) {
        uint32_t count = watcher_list(w, on, living);
        uint32_t killed_count = 0;
        eventfd_t ignored;

        on[count] = (struct pollfd){ .fd = w->alarm, .events = POLLIN };
        if (poll(on, count + 1, watcher_wait_ms(living, count)) < 0)
            continue;
        if (on[count].revents != 0)
            (void)eventfd_read(w->alarm, &ignored);
        for (uint32_t i = 0; i < count; i++) {
            struct endpoint *e = living[i];

            if ((on[i].revents == 0 && e->due_ns > os_now_ns()) || !e->ops->has_ended(e))
                continue;
            if (WIFSIGNALED(e->end) && WTERMSIG(e->end) == SIGKILL)
                /* A killed process could not remove its code files, so the watcher removes them. */
                killed[killed_count++] = e->pid;
            /* release: publishes `end` to threads that load has_ended */
            a32_store_release(&e->has_ended, 1);
            w->ended(w->owner);
        }
        /*
         * The files of killed processes are removed after all waiting threads were notified. The
         * pid is that of the ended process: the endpoint may have a new process by now.
         */
        for (uint32_t i = 0; i < killed_count; i++)
            code_file_sweep(killed[i]);
    }
    return NULL;
}

int watcher_start(struct watcher *w)
{
    w->alarm = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->alarm < 0)
        return PTO_ESYSTEM;
    if (os_thread_start(&w->thread, watcher_run, w) == PTO_OK)
        return PTO_OK;
    close(w->alarm);
    w->alarm = -1;
    return PTO_ESYSTEM;
}

void watcher_stop(struct watcher *w)
{
    if (w->alarm < 0)
        return;
    a32_store_release(&w->is_closing, 1);
    (void)eventfd_write(w->alarm, 1);
    pthread_join(w->thread, NULL);
    close(w->alarm);
    w->alarm = -1;
}

void watcher_add(struct watcher *w, struct endpoint *e)
{
    /* the endpoint has a running process again, which the watcher thread now watches */
    a32_store_release(&e->has_ended, 0);
    if (w->alarm >= 0)
        (void)eventfd_write(w->alarm, 1);
}
