/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks of a worker: submitted to its graph, ready, given to a child, ended.
 *
 *     tree_submit.c         the graph: one for all runs, built by one orchestration at a time
 *     tree_dispatch.c       ready tasks, the choice of a child for each, and the effects of their end
 *     tree_in_flight.c      tasks that were written to the streams of children
 *     tree_shared_queue.c   ready tasks that several children could run
 *     tree_failed.c         tasks that failed, and the tasks after them
 */
#ifndef PTO_TREE_TASK_H
#define PTO_TREE_TASK_H

#include "graph/graph_tasks.h"
#include "pto/worker.h"
#include "tree/tree_wire.h"

enum {
    /* maximum number of tasks that a child has at a time, of which it runs one */
    TREE_CREDITS = 64,
    /* a child that has this many tasks gets no further ones that other children could also run */
    TREE_AHEAD = 8,
    TREE_LISTS = 8,         /* number of lists of ready tasks that several children could run */
    TREE_LIVE_MAX = 16384,  /* a submit waits while this many tasks are live */
    TREE_SEQ_MAX = 1 << 30, /* sequence numbers after which an empty graph is restarted */
};

struct tree;
struct tree_child;
struct tree_run;

enum task_state {
    TASK_WAITING,
    TASK_READY,
    TASK_IN_FLIGHT,
    TASK_OVER,
    /* failed or skipped, and still in the graph for later submits to find (tree_failed.c) */
    TASK_KEPT,
};

/* An entry in a list of tasks that come after a task in state TASK_KEPT. */
struct tree_hold;

/* Tasks that start together: a group waits until all its members are ready. */
struct tree_group {
    uint32_t count;
    /* number of members that are not ready, plus 1 until the submit of the group has finished */
    uint32_t waiting;
    /* number of members that have not ended, plus 1 until the submit of the group has finished */
    uint32_t left;
    /* the group was refused, or a member depends on a failed task: no member runs */
    bool is_skipped;
    uint64_t member_died_ns; /* time at which the child of a member was found dead; 0: none was */
    uint64_t order;
    uint32_t member[]; /* numbers of the members' slots */
};

/*
 * What the worker adds to the graph's state of a task. The worker has an array of these, indexed by
 * the number of the task's slot.
 */
struct tree_task {
    /* NULL: the slot belongs to a join, which stands for many edges, or is free */
    struct tree_run *run;
    struct tree_group *group;
    uint32_t callable;
    /* index of the child that runs the task or in whose queue the task is; -1: none yet */
    int32_t child;
    uint64_t children;
    uint64_t order; /* position among all tasks in the order in which they became ready */
    uint64_t timeout_ns;
    uint32_t next; /* slot of the next task in the same list or queue; 0: none */
    uint8_t state; /* enum task_state */
    /* index in tree->flexible of the list in which it waits, if no child was chosen */
    uint8_t list;
    bool is_poisoned; /* depends on a task that failed: must not run */
    int status;       /* result of the task, from state TASK_OVER on */
    uint32_t held;    /* number of tasks in state TASK_KEPT that this task comes after */
    /*
     * the fields down to cause_run: state after a failure (tree_failed.c). Successors of this task
     * with a sequence number below `until` do not run.
     */
    uint32_t until;
    struct tree_hold *holds;
    uint64_t cause; /* number of the callable whose task failed first */
    /* number of the run in which that task failed; 0: this task does not come after a failed one */
    uint64_t cause_run;
    uint32_t options;   /* options of a task on a chip, as in struct record_head */
    uint16_t addresses; /* a bit for each scalar that is an address, as in struct pto_args */
    /* submit_ns, begin_ns and end_ns: only if the run is recorded, or in virtual time */
    uint64_t submit_ns;
    /*
     * time at which the task began; 0: the task never ran, or its child has not reported the time
     */
    uint64_t begin_ns;
    uint64_t end_ns;
    /* in virtual time: duration of the longest chain of tasks that ends with this one */
    uint64_t path_ns;
    /*
     * index in the recording, plus 1; 0: not recorded. That of a join is the index of the task that
     * made it ready.
     */
    uint32_t traced;
};

/* A list of ready tasks, starting with the one that became ready first. */
struct tree_queue {
    uint32_t first;
    uint32_t last;
    uint32_t count;
};

/*
 * Ready tasks that could run on any child of a set. The last list, for mixed sets, ignores
 * `children`.
 */
struct tree_list {
    uint64_t children;
    struct tree_queue queue;
};

/* A task that was written to the stream of a child. */
struct tree_flight {
    uint32_t number; /* number of the task's slot */
    /*
     * another child could run it, and this one is not known to have started it: it can be taken
     * back
     */
    bool is_open;
    uint64_t sent; /* position in the stream, by which the task is taken back */
};

/* The following is defined in tree_submit.c. */
int tree_graph_open(struct tree *t);
void tree_graph_close(struct tree *t);
/* Called before a run: restarts the graph, if it is empty, and broken or near TREE_SEQ_MAX. */
int tree_graph_refresh(struct tree *t);
/*
 * Returns the run that the orchestration of this handle builds, with the worker's lock taken. NULL:
 * the caller is not the orchestration's thread, or the orchestration has returned.
 */
struct tree_run *tree_level_enter(struct pto_level *level);
int tree_level_leave(struct tree_run *run, int status); /* returns the status */
/* Fails the run because of an invalid request. Returns the status. */
int tree_refuse(struct tree_run *run, struct pto_error *error, const struct pto_site *site);
/* Number that stands for the copy task in tree_submit; programs cannot submit it by a number. */
#define TREE_COPY_NUMBER UINT64_MAX
/*
 * Submits a task that runs the callable with this number. Called with the lock, which it may
 * release while it waits for room.
 */
struct pto_outputs tree_submit(struct tree_run *run, uint64_t callable, uint64_t children,
                               const struct pto_args *args, const struct pto_site *site);
/* Returns the name of a kind of child for error texts, such as "chip". */
const char *tree_kind_name(enum pto_child_kind kind);
/* Records the error as the run's result, unless the run has one already. child -1: none. */
void tree_run_fail(struct tree_run *run, int child, const struct pto_error *error);

/* The following is defined in tree_dispatch.c. */
/* Queues a task that does not wait for other tasks any more. */
void tree_ready(struct tree *t, struct slot *s);
/* Called when all members of the group were submitted. */
void tree_group_submitted(struct tree *t, struct tree_group *g);
/*
 * Called when a task has ended: releases its successors; if `status` is negative, they are skipped.
 */
void tree_complete(struct tree *t, struct slot *s, int status);
/* Ends a task that no child has run or will run as failed, and records the run's error. */
void tree_fail_task(struct tree *t, struct slot *s, int child, int status, const char *why);
/* Ends a task that a child has reported as failed; `why` has the child's reason and its place. */
void tree_fail_below(struct tree *t, struct slot *s, int child, int status,
                     const struct wire_failure *why);
/* Gives ready tasks to children. */
void tree_dispatch(struct tree *t);
/* Reads the records of all children and handles them, then gives ready tasks to children. */
void tree_drive(struct tree *t);
/* Whether tree_drive would find work. Called without the lock. */
bool tree_has_news(struct tree *t);
/* Skips the run's tasks that no child has started. */
void tree_withdraw(struct tree *t, const struct tree_run *run);
/* Wakes the threads in tree_await, which check their conditions again. */
void tree_signal_change(struct tree *t);

/*
 * Lists of ready tasks. `before` is the number of the task that precedes the removed one; 0: the
 * removed one is the first.
 */
void tree_queue_push(struct tree *t, struct tree_queue *q, uint32_t number);
void tree_queue_remove(struct tree *t, struct tree_queue *q, uint32_t number, uint32_t before);
/* Whether the child can take another task. */
bool tree_has_room(struct tree_child *c);
/*
 * Writes a task, which is in no list any more, to the child's stream. The caller has checked that
 * there is room.
 */
void tree_give(struct tree *t, struct tree_child *c, uint32_t number);

/* The following is defined in tree_failed.c. */
/*
 * The graph calls this (ended_fn) when the task that is being submitted depends on a task that has
 * ended and is kept.
 */
void tree_follows(void *context, const struct slot *before, const struct slot *after);
/*
 * Called after each submit: connects the new task with the failed predecessors that tree_follows
 * has found. NULL: the submit was refused.
 */
void tree_submitted(struct tree *t, const struct slot *s);
/*
 * Called for a task that has failed or was skipped: makes it the cause of later skips, unless it is
 * a join or was skipped because of another task. k is a copy of its state.
 */
void tree_blame(struct tree *t, struct tree_task *k);
/*
 * Marks `next`, a successor of a task that failed or was skipped, so that it does not run. k is a
 * copy of that task's state.
 */
void tree_poison(struct tree *t, struct tree_task *k, const struct slot *next);
/*
 * Called when the successors of a failed or skipped task were released: keeps it in the graph.
 * False: later submits need not find it.
 */
bool tree_keep(struct tree *t, const struct slot *s, const struct tree_task *k);
/*
 * Called when the end of the run was reported to the program, or never will be: releases its failed
 * tasks from the graph.
 */
void tree_run_reported(struct tree_run *run);
/* Sets the error of a task that is skipped, which names the callable and the run that failed. */
int tree_error_set_cause(struct tree *t, const struct tree_task *k, struct pto_error *error);

/* The following is defined in tree_in_flight.c. */
/* Returns the entry of a task in flight. Index 0 is the oldest task that the child has. */
struct tree_flight *tree_flight_at(struct tree_child *c, uint32_t index);
void tree_flight_add(struct tree *t, struct tree_child *c, uint32_t number);
/*
 * Removes the task at this index from the child's tasks in flight. Returns the number of its slot.
 */
uint32_t tree_flight_remove(struct tree *t, struct tree_child *c, uint32_t index);
/*
 * Takes back the run's tasks that the child has not started, and puts them into the lists of ready
 * tasks.
 */
void tree_flight_recall(struct tree *t, struct tree_child *c, const struct tree_run *run);
/*
 * The child is dead: takes back the tasks that it has not started and that one of the children in
 * `ready` could run.
 */
void tree_flight_rescue(struct tree *t, struct tree_child *c, uint64_t ready);
/*
 * Takes one task back from the child's stream. False: the child has started it; later calls do not
 * try again for this task.
 */
bool tree_flight_take_back(struct tree *t, struct tree_child *c, uint32_t index);

/* The following is defined in tree_shared_queue.c. */
/* Puts a ready task that several children could run into its list. */
void tree_shared_queue_push(struct tree *t, uint32_t number);
/* Gives ready tasks in the lists to children that have room. False: none was given. */
bool tree_shared_queue_give(struct tree *t);
/*
 * Whether the child's queue has to wait, because a ready task in a list became ready earlier and
 * the child has no room for it.
 */
bool tree_shared_queue_is_first(const struct tree *t, const struct tree_child *c);
/* Takes tasks that busy children have not started, and gives them to idle children. */
void tree_shared_queue_balance(struct tree *t);

#endif
