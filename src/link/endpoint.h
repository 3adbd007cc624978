/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of an endpoint: where the other side of one or two lines is. One table with a row for each kind of
 * place; there is one so far:
 *
 *     endpoint_process   the program pto-child, or another that calls pto_child_serve, on this machine
 *
 * Records go through lines in memory whatever the place is, so that sending one is no operation of the table. A host on
 * the network would be the next row: it starts a session, and threads of this process, which take records
 * from the lines and put others there. Nothing above knows which row it is.
 *
 * An endpoint decides nothing. Its owner, a worker or an isolated device, says what is sent, checks what is received,
 * and decides what a death means. The watcher (watcher.h) alone asks whether the other side has ended.
 */
#ifndef PTO_ENDPOINT_H
#define PTO_ENDPOINT_H

#include <pthread.h>
#include <stddef.h>
#include <sys/types.h>

#include "link/line.h"

struct pto_error;
struct link_hello;
struct endpoint;

enum { ENDPOINT_LINES = 2 };

/* What is to be started. */
struct endpoint_start {
    const char *const *program;     /* path and arguments, up to NULL; NULL: pto-child */
    const struct link_hello *hello; /* hello->bytes of them */
    int memory;                     /* this and the next: descriptors for the child */
    const int *more; /* from LINK_MORE_FD on; of one with descendants the life pipe follows */
    uint32_t more_count;
    /* This and the next: it starts processes of its own, which have to be gone when it has ended. */
    bool has_descendants;
    bool leads; /* and all of them are in a process group that it leads */
};

struct endpoint_ops {
    const char *name;

    /*
     * Begins to start the other side; the old one has ended, or never was. It does not wait: the first record that comes
     * says how it went. On failure nothing is left behind. The lock is not held. The watcher looks
     * after it from watcher_add on.
     */
    int (*start)(struct endpoint *e, const struct endpoint_start *how, struct pto_error *error);

    /* It has to go now, whatever it does. Waits for nothing; may be called for one that has gone. With the lock. */
    void (*kill)(struct endpoint *e);

    /* Of the watcher: nothing of it writes to any memory any more, and `end` is known. */
    bool (*has_ended)(struct endpoint *e);

    /*
     * Without the lock and without a watcher. It was asked to end, or was killed; waits for it, kills it at the
     * deadline, and frees what the endpoint has.
     */
    void (*end)(struct endpoint *e, uint64_t deadline_ns);
};

struct endpoint {
    const struct endpoint_ops *ops;
    pthread_mutex_t *lock; /* the owner's: for pid and descriptor */
    struct line line[ENDPOINT_LINES];
    struct a32 has_ended; /* 1: it was not started, or the watcher has found that it has ended */
    int watched; /* this and the next: the watcher's. Readable when has_ended is to be asked again */
    uint64_t due_ns; /* when it is to be asked although nothing can be read; UINT64_MAX: never */
    pid_t pid;
    int descriptor;    /* of the process; -1: none */
    int end;           /* waitpid's status, once it has ended */
    bool is_end_known; /* false: another thread of the program has collected it */
    bool is_collected; /* its process has gone; those of its children may not have */
    int life;          /* a pipe that ends with its last process; -1: it has no descendants */
    bool leads;        /* a process group */
};

extern const struct endpoint_ops endpoint_process;

void endpoint_init(struct endpoint *e, pthread_mutex_t *lock);
/* How one that has ended did so, for a sentence: "was ended by signal 9 (Killed)". */
void endpoint_tell_end(const struct endpoint *e, char *text, size_t size);
/* It has ended because something else is where memory was to be: another place is tried. */
bool endpoint_is_misplaced(const struct endpoint *e);

#endif
