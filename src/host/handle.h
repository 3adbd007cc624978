/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles: what the caller holds is a number in the shape of a pointer. It is
 * looked up, never followed, so a handle that is NULL, closed, of another kind
 * or invented is refused instead of crashing. The table is the one thing that
 * all devices of a process share; it says nothing about any of them.
 *
 * Any thread may call these functions. Whoever destroys a handle sees to it
 * that no other call with it is under way.
 */
#ifndef PTO_HANDLE_H
#define PTO_HANDLE_H

enum handle_kind {
    HANDLE_DEVICE = 1,
    HANDLE_CALLABLE,
    HANDLE_RUN,
    HANDLE_GRAPH,
    HANDLE_COMM,
    HANDLE_DOMAIN,
    HANDLE_WORKER,
    HANDLE_WORKER_RUN,
    HANDLE_LEVEL,
    HANDLE_REGION,
    HANDLE_QUEUE
};

/* NULL when memory has run out. */
void *handle_create(enum handle_kind kind, void *object);
/* The object, or NULL if there is no such handle. */
void *handle_get(enum handle_kind kind, const void *handle);
/* Returns the object; NULL if the handle was destroyed before. */
void *handle_destroy(enum handle_kind kind, const void *handle);

#endif
