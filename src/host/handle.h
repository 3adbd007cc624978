/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles: a public handle is a number in the type of a pointer. It is looked up, never
 * dereferenced, so a handle that is NULL, closed, of another kind or forged is refused instead of
 * crashing the program. The table of handles holds no state of a device.
 *
 * Any thread may call these functions. The caller of handle_destroy ensures that no other call with
 * this handle is in progress.
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

/* Creates a handle for the object. NULL: memory is exhausted. */
void *handle_create(enum handle_kind kind, void *object);
/* Returns the object of a handle; NULL: there is no such handle. */
void *handle_get(enum handle_kind kind, const void *handle);
/* Frees the handle and returns its object; NULL: the handle was already destroyed. */
void *handle_destroy(enum handle_kind kind, const void *handle);

#endif
