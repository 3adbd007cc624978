/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that waits for the end of what endpoints have started, so that threads which wait for records need not. */
#ifndef PTO_WATCHER_H
#define PTO_WATCHER_H

#include <pthread.h>

#include "link/endpoint.h"

enum { WATCHER_MAX = 64 };

struct watcher {
    struct endpoint *endpoint[WATCHER_MAX];
    uint32_t count;
    void (*ended)(
        void *owner); /* one has ended: has_ended of that one is set; wakes those who wait */
    void *owner;
    int alarm; /* eventfd: it looks at the endpoints again; -1: there is no thread */
    struct a32 is_closing;
    pthread_t thread;
};

/* The endpoints are there, and none was started. PTO_ESYSTEM. */
int watcher_start(struct watcher *w);
void watcher_stop(struct watcher *w); /* also of one that was not started, with alarm -1 */
/* The endpoint was started: clears has_ended. */
void watcher_add(struct watcher *w, struct endpoint *e);

#endif
