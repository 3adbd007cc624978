/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of an endpoint: what stands behind a child of a worker. One table; what an endpoint has to
 * keep for a child is in struct tree_child (tree.h).
 *
 *     endpoint_process   a program on this machine that calls pto_child_serve: chips, SUB workers
 *     endpoint_nested    the same, but its program is a worker with children of its own
 *
 * A worker on another machine would be a third one, which starts a session where these start a process, and
 * carries the same records (channel.h); tensors would have to be copied by it.
 *
 * Everything else of a worker is the same for all of them: which child gets what, in which order, what a
 * time-out or a death does to tasks, what an answer may say. So an endpoint decides nothing. It brings
 * records to the child, each once and in order, and what the child says back, and it knows when the child
 * has gone. `lock` is that of the tree, and is held unless it says otherwise.
 */
#ifndef PTO_ENDPOINT_H
#define PTO_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "link/channel.h"

struct pto_error;
struct tree;
struct tree_child;

/* From start to end. */
struct endpoint_life_ops {
    /*
     * Begins to start a child that has gone, or never was: both streams are empty, `generation` is one
     * more. It does not wait: the first record of the child, RECORD_READY, says how it went. On
     * failure nothing is left behind. The lock is not held; the state is CHILD_STARTING.
     */
    int (*start)(struct tree *t, struct tree_child *c, uint64_t deadline_ns,
                 struct pto_error *error);

    /* It has to go now, whatever it does. Waits for nothing; may be called for one that has gone. */
    void (*kill)(struct tree_child *c);

    /* The watcher's, without the lock: a descriptor that can be read when `has_ended` is to be asked again. */
    int (*watched)(const struct tree_child *c);
    /* The child has gone: nothing of it writes to any memory. `tell_end` can say how. */
    bool (*has_ended)(struct tree_child *c);
    /* The process that had no time to remove its code, which is removed after the notice; 0: none. */
    pid_t (*leaves_files)(const struct tree_child *c);
    /* When to ask again although nothing can be read; UINT64_MAX: never. NULL: the same. */
    uint64_t (*due_ns)(const struct tree_child *c);

    /*
     * When the worker closes, without the lock, and nobody watches. The child was sent RECORD_END,
     * or was killed; waits for it, kills it at the deadline, and frees what the endpoint has.
     */
    void (*end)(struct tree_child *c, uint64_t deadline_ns);

    /* It has gone because something else is where the worker's memory was to be: another place is tried. */
    bool (*is_misplaced)(const struct tree_child *c);
    /* How one that has gone ended, for a sentence: "was ended by signal 9 (Killed)". */
    void (*tell_end)(const struct tree_child *c, char *text, size_t size);
};

/* Records. What the child says is checked by whoever receives it, not by the endpoint. */
struct endpoint_record_ops {
    /* Whether a record with such a body can be sent. */
    bool (*has_room)(struct tree_child *c, uint32_t body_bytes);
    /* Sends one and wakes the child, if it sleeps. False: there is no room. `sent` is where it is. */
    bool (*send)(struct tree_child *c, const struct record_head *head,
                 const struct record_part *parts, uint32_t count);
    /* The child will never see the record that was sent there. False: it has it, or may have. */
    bool (*take_back)(struct tree_child *c, uint64_t sent);

    /* There is no room, and never will be: what the child says that it has read makes no sense. */
    bool (*is_broken)(const struct tree_child *c);

    enum channel_result (*receive)(struct tree_child *c, struct record *out);
    /* Without the lock, a look: whether `receive` would have something. Then the waker of the tree wakes. */
    bool (*has_news)(const struct tree_child *c);
    /* Nobody will receive what it has said and may still say. */
    void (*discard)(struct tree_child *c);

    /* A guess: it would have to be woken for the next record. */
    bool (*is_asleep)(const struct tree_child *c);
};

struct endpoint {
    const char *name;
    const struct endpoint_life_ops *life;
    const struct endpoint_record_ops *records;
};

extern const struct endpoint endpoint_process;
extern const struct endpoint endpoint_nested;

#endif
