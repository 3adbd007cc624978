/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that waits for the end of the processes of endpoints, so that threads that wait for
 * records need not.
 */
#ifndef PTO_WATCHER_H
#define PTO_WATCHER_H

#include <pthread.h>

#include "link/endpoint.h"

enum { WATCHER_MAX = 64 };

struct watcher {
    struct endpoint *endpoint[WATCHER_MAX];
    uint32_t count;
    /* Called after has_ended of an endpoint was set; wakes the threads that wait for it. */
    void (*ended)(void *owner);
    void *owner;
    /* eventfd that makes the watcher list its endpoints again; -1: the watcher has no thread */
    int alarm;
    struct a32 is_closing;
    pthread_t thread;
};

/* Starts the watcher's thread, before any endpoint is started. Returns PTO_OK or PTO_ESYSTEM. */
int watcher_start(struct watcher *w);
/* Ends the watcher's thread. Accepts a watcher that was not started (`alarm` is -1). */
void watcher_stop(struct watcher *w);
/* Makes the watcher watch an endpoint that was just started: clears the endpoint's has_ended. */
void watcher_add(struct watcher *w, struct endpoint *e);

#endif
