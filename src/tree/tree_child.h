/* SPDX-License-Identifier: Apache-2.0 */
/* Children of a worker (tree_children.c): starts, watches, ends and replaces them. */
#ifndef PTO_TREE_CHILD_H
#define PTO_TREE_CHILD_H

#include "link/watcher.h"
#include "tree/tree_task.h"

enum child_state { CHILD_STARTING, CHILD_READY, CHILD_BROKEN, CHILD_DEAD };

struct tree_child {
    uint32_t index;
    enum pto_child_kind kind;
    uint32_t device; /* device number, if the child is a chip */
    enum child_state state;
    struct endpoint link;
    /* the worker has noticed that the child's process has ended, and has handled that */
    struct a32 is_end_handled;
    uint32_t generation;
    struct tree_queue queue;
    uint32_t in_flight;
    uint32_t credits; /* maximum number of tasks in flight; 1 in virtual time */
    /* tasks that the child has; a ring that starts at flight_first */
    struct tree_flight flight[TREE_CREDITS];
    uint32_t flight_first;
    /*
     * time at which the first task in `flight` was seen to be the first, from which its time-out is
     * measured; 0: not seen yet
     */
    uint64_t since_ns;
    /* slot of the task that was late, for which the child was killed; 0: none */
    uint32_t late_task;
    uint64_t late_ns; /* how long the late task had been the first task of the child */
    /* time at which the child was asked where the function of its first task is; 0: not asked */
    uint64_t asked_ns;
    uint64_t tasks;
    bool is_loading; /* the child was started again and has not yet loaded all its callables */
    uint32_t held;   /* number of threads that prevent that the child gets tasks (tree_cards.c) */
    /* number of threads that wait to send the child a mirror request (tree_mirror.c) */
    uint32_t wanting;
    bool is_awaited;
    int ready_status;
    char text[TREE_TEXT]; /* why the child is not ready */
    struct tree_line *line;
    struct wire_nested nested;
    /*
     * descriptions of the nested worker's own nested workers, nested.below_count of them; NULL:
     * none
     */
    struct wire_nested *below;
};

/*
 * Starts the process of a child that has none. The child is not ready when this returns. Called
 * without the lock.
 */
int tree_child_start(struct tree *t, uint32_t index, uint64_t deadline_ns, struct pto_error *error);
/*
 * Waits until all children in the set, a bit mask, are ready. Called with the lock. PTO_EAGAIN: a
 * child could not map the shared memory, because the addresses are in use in its process.
 */
int tree_children_await(struct tree *t, uint64_t children, uint64_t deadline_ns,
                        struct pto_error *error);
void tree_child_kill(struct tree_child *c);
/*
 * Copies the program of the worker's parameters, a NULL-terminated list of arguments; NULL gives
 * NULL.
 */
int tree_program_copy(const char *const *program, const char ***copy_out);
/*
 * Ends all children: requests it, and kills those that have not ended in time. Called without the
 * lock, after the watcher thread has ended.
 */
void tree_children_end(struct tree *t);
/*
 * Describes how the child's process ended, as part of a sentence: "was ended by signal 9 (Killed)".
 */
void tree_child_describe_end(const struct tree_child *c, char *text, size_t size);
/*
 * Writes ": exit in ..." if the child reported the line at which its code ended it, or at which its
 * code does not return.
 */
void tree_child_describe_place(const struct tree_child *c, char *text, size_t size);
/* Starts the thread that watches for children whose processes end. */
int tree_watch_start(struct tree *t);

static inline bool child_is_ready(const struct tree_child *c)
{
    return c->state == CHILD_READY && !c->is_loading;
}

#endif
