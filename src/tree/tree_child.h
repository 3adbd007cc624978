/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children of a worker (tree_children.c): started, watched, ended, replaced.
 */
#ifndef PTO_TREE_CHILD_H
#define PTO_TREE_CHILD_H

#include "link/watcher.h"
#include "tree/tree_task.h"

enum child_state { CHILD_STARTING, CHILD_READY, CHILD_BROKEN, CHILD_DEAD };

struct tree_child {
    uint32_t index;
    enum pto_child_kind kind;
    uint32_t device; /* that a chip is */
    enum child_state state;
    struct endpoint link;
    struct a32 is_buried; /* it has ended, and the worker knows */
    uint32_t generation;
    struct tree_queue queue;
    uint32_t in_flight;
    struct tree_flight flight[TREE_CREDITS]; /* from flight_first on */
    uint32_t flight_first;
    uint64_t since_ns;  /* its first one is known to be the first; 0: not looked at yet */
    uint32_t late_task; /* the slot for which it was killed; 0: none */
    uint64_t late_ns;   /* after which it was */
    uint64_t tasks;
    bool is_loading;  /* it was opened anew, and does not have all its callables yet */
    uint32_t held;    /* by so many it is given no tasks (tree_cards.c) */
    uint32_t wanting; /* this and the next: threads that have an errand for it (tree_mirror.c) */
    bool is_awaited;
    int ready_status;
    char text[TREE_TEXT]; /* why it is not ready */
    struct tree_line *line;
    struct wire_nested nested;
    struct wire_nested *below; /* nested.below_count, what is nested in it; NULL: nothing */
};

/* Starts the process of a child that has none; it is not ready yet. The lock is not held. */
int tree_child_start(struct tree *t, uint32_t index, uint64_t deadline_ns, struct pto_error *error);
/* Waits until the children, by bits, are ready; the lock is held. PTO_EAGAIN: one found its memory's
   addresses taken. */
int tree_children_await(struct tree *t, uint64_t children, uint64_t deadline_ns,
                        struct pto_error *error);
void tree_child_kill(struct tree_child *c);
/* Copies what the user wants children to be; of NULL it makes nothing. */
int tree_program_copy(const char *const *program, const char ***copy_out);
/* Ends all of them, first by request. The lock is not held, and nobody watches any more. */
void tree_children_end(struct tree *t);
/* How it ended, for a sentence: "was ended by signal 9 (Killed)". */
void tree_child_tell_end(const struct tree_child *c, char *text, size_t size);
/* A thread that notices when children end. */
int tree_watch_start(struct tree *t);

static inline bool child_is_ready(const struct tree_child *c)
{
    return c->state == CHILD_READY && !c->is_loading;
}

#endif
