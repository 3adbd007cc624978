/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An endpoint is the process at the other side of one or two lines. Each kind of endpoint has a
 * table of operations; currently there is one kind:
 *
 *     endpoint_process   the program pto-child, or another that calls pto_child_serve, on this
 *                        machine
 *
 * Records go through lines in memory for every kind of endpoint, so sending is not an operation of
 * the table. A host on the network would be another table: it would start a session, with threads
 * of this process that forward records between the lines and the network. Callers do not depend on
 * the kind.
 *
 * An endpoint makes no decisions. Its owner, a worker or an isolated device, decides what to send,
 * validates what is received, and handles the end of the process. Only the watcher (watcher.h)
 * polls whether the other side has ended.
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

/* Parameters of starting a process. */
struct endpoint_start {
    const char *const *program; /* program and arguments, NULL-terminated; NULL: pto-child */
    /* the hello with which the child is started: hello->bytes bytes that tell it its role */
    const struct link_hello *hello;
    /* Descriptor of the memory with the streams; passed to the child, as are those in `more`. */
    int memory;
    /*
     * Further descriptors, which the child gets from number LINK_MORE_FD on; the life pipe, if
     * there are descendants, comes after them.
     */
    const int *more;
    uint32_t more_count;
    bool has_descendants; /* the process starts other processes, which must end with it */
    bool leads;           /* the process leads a process group, which its descendants join */
};

struct endpoint_ops {
    const char *name;

    /*
     * Starts the process of the endpoint, whose previous process has ended. Does not wait: the
     * first record that the process sends reports the result. A failed call leaves nothing to clean
     * up. Called without the lock. The watcher watches the process from watcher_add on.
     */
    int (*start)(struct endpoint *e, const struct endpoint_start *how, struct pto_error *error);

    /*
     * Kills the process. Does not wait; may be called for a process that has ended. Called with the
     * lock.
     */
    void (*kill)(struct endpoint *e);

    /* Interrupts the process with SIGURG. Does not wait; called with the lock. */
    void (*interrupt)(struct endpoint *e);

    /*
     * Called by the watcher: returns whether the process has ended, no longer writes to any memory,
     * and `end` is set.
     */
    bool (*has_ended)(struct endpoint *e);

    /*
     * Called without the lock and after the watcher was stopped, for a process that was asked to
     * end or killed: waits for its end, kills it at the deadline, and frees the resources of the
     * endpoint.
     */
    void (*end)(struct endpoint *e, uint64_t deadline_ns);
};

struct endpoint {
    const struct endpoint_ops *ops;
    pthread_mutex_t *lock; /* the owner's lock, which protects `pid` and `descriptor` */
    struct line line[ENDPOINT_LINES];
    /* 1: the process was not started, or the watcher has found that it has ended. */
    struct a32 has_ended;
    /*
     * Descriptor that becomes readable when has_ended is to be called again; only the watcher uses
     * it.
     */
    int watched;
    /*
     * Time at which has_ended is to be called at the latest; UINT64_MAX: never. Only the watcher
     * uses it.
     */
    uint64_t due_ns;
    pid_t pid;
    int descriptor;    /* pidfd of the process; -1: none */
    int end;           /* status of the process as from waitpid, once it has ended */
    bool is_end_known; /* false: another thread of the program has waited for the process */
    bool is_collected; /* the process has ended and was waited for; its descendants may be alive */
    /* read end of a pipe that closes when the last descendant ends; -1: no descendants */
    int life;
    bool leads; /* the process leads a process group */
};

extern const struct endpoint_ops endpoint_process;

void endpoint_init(struct endpoint *e, pthread_mutex_t *lock);
/*
 * Writes a text about how the process ended, which continues its name: "was ended by signal 9
 * (Killed)".
 */
void endpoint_describe_end(const struct endpoint *e, char *text, size_t size);
/*
 * Whether the child exited because it could not map its memory at the requested address; the caller
 * then tries another address.
 */
bool endpoint_is_misplaced(const struct endpoint *e);

#endif
