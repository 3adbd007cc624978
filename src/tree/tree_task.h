/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks of a worker: submitted to its graph, ready, given to a child, over.
 *
 *     tree_submit.c         the graph: one for all runs, built by one orchestration at a time
 *     tree_dispatch.c       ready tasks, which child gets which, and what follows from their end
 *     tree_in_flight.c      what was written to the streams of children
 *     tree_shared_queue.c   ready tasks that several children could have
 *     tree_failed.c         tasks that failed, and what comes after them
 */
#ifndef PTO_TREE_TASK_H
#define PTO_TREE_TASK_H

#include "graph/graph_tasks.h"
#include "pto/worker.h"
#include "tree/tree_wire.h"

enum {
    TREE_CREDITS = 64,      /* tasks that a child has at a time; it runs one */
    TREE_AHEAD = 8,         /* of which so many may be such that others could have */
    TREE_LISTS = 8,         /* of tasks that several children could have */
    TREE_LIVE_MAX = 16384,  /* tasks before a submit waits */
    TREE_SEQ_MAX = 1 << 30, /* tasks after which the graph is started anew, when it is empty */
};

struct tree;
struct tree_child;
struct tree_run;

enum task_state {
    TASK_WAITING,
    TASK_READY,
    TASK_IN_FLIGHT,
    TASK_OVER,
    TASK_KEPT, /* it has failed, and stays in the graph (tree_failed.c) */
};

/* A task that comes after one that is kept. */
struct tree_hold;

/* A group waits until all its members are ready. */
struct tree_group {
    uint32_t count;
    uint32_t waiting; /* members that are not ready, and one while it is being submitted */
    uint32_t left;    /* the same of those that are not over */
    bool is_skipped;  /* none of them runs */
    uint64_t hurt_ns; /* when the child of one died; 0: none has */
    uint64_t order;
    uint32_t member[]; /* slots by number */
};

/* What the graph does not know of a task, by the number of its slot. */
struct tree_task {
    struct tree_run *run; /* NULL: a join, or free */
    struct tree_group *group;
    uint32_t callable;
    int32_t child; /* that it is queued at or given to; -1: none yet */
    uint64_t children;
    uint64_t order; /* counts tasks as they become ready */
    uint64_t timeout_ns;
    uint32_t next;    /* of a queue, by number; 0: the last one */
    uint8_t state;    /* enum task_state */
    uint8_t list;     /* of tree->flexible, if it is queued there */
    bool is_poisoned; /* it depends on something that failed */
    int status;       /* TASK_OVER */
    uint32_t held;    /* tasks that it comes after and that are kept */
    uint32_t until;   /* this and the rest of a line of failures: tree_failed.c */
    struct tree_hold *holds;
    uint64_t cause;     /* the callable that failed first, by its number */
    uint64_t cause_run; /* of which run; 0: it does not come after a failed one */
    uint32_t options;   /* of a callable on a chip: struct record_head */
    uint16_t addresses; /* scalars that are addresses: struct pto_args */
    uint64_t submit_ns; /* this and the next two: if it is recorded */
    uint64_t begin_ns;  /* 0: it never ran, or nobody knows */
    uint64_t end_ns;
};

/* A list of ready tasks, the oldest first. */
struct tree_queue {
    uint32_t first;
    uint32_t last;
    uint32_t count;
};

/* Ready tasks that several children could have: the same ones. */
struct tree_list {
    uint64_t children;
    struct tree_queue queue;
};

/* A task that was written to the stream of a child. */
struct tree_flight {
    uint32_t number; /* of its slot */
    bool is_open;    /* others could have it, and the child may not have taken it yet */
    uint64_t sent;   /* where it is, for the endpoint */
};

/* tree_submit.c */
int tree_graph_open(struct tree *t);
void tree_graph_close(struct tree *t);
/* Before a run: if nothing is live, and the graph is broken or its numbers run out. */
int tree_graph_refresh(struct tree *t);
/* The run of a level, with the lock taken; NULL: not by this thread, or not now. */
struct tree_run *tree_level_enter(struct pto_level *level);
int tree_level_leave(struct tree_run *run, int status); /* returns the status */
/* The run has asked for something that cannot be: that is its error. Returns the status. */
int tree_refuse(struct tree_run *run, struct pto_error *error, const struct pto_site *site);
/* Submits a task of the run: the callable by its number. The lock is held; it may be left meanwhile. */
#define TREE_COPY_NUMBER UINT64_MAX /* of the copy, which is not for callers */
struct pto_outputs tree_submit(struct tree_run *run, uint64_t callable, uint64_t children,
                               const struct pto_args *args, const struct pto_site *site);
/* What a child is, for a sentence: "chip". */
const char *tree_kind_name(enum pto_child_kind kind);
/* The first error of the run stays. */
void tree_run_fail(struct tree_run *run, int child, const struct pto_error *error);

/* tree_dispatch.c */
/* A task waits for nothing any more. */
void tree_ready(struct tree *t, struct slot *s);
/* The call that submitted the group is done with it. */
void tree_group_submitted(struct tree *t, struct tree_group *g);
/* The task is over: what waits for it goes on. status < 0: what depends on it is skipped. */
void tree_complete(struct tree *t, struct slot *s, int status);
/* It never ran and never will: told as the run's error, if that is the first. */
void tree_fail_task(struct tree *t, struct slot *s, int child, int status, const char *why);
/* It failed on the child, which says where and why. */
void tree_fail_below(struct tree *t, struct slot *s, int child, int status,
                     const struct wire_failure *why);
/* Gives children what is ready. */
void tree_dispatch(struct tree *t);
/* Takes what children have said, and goes on. */
void tree_drive(struct tree *t);
/* Whether tree_drive would find anything; without the lock. */
bool tree_has_news(struct tree *t);
/* Tasks of the run that no child was given yet are skipped. */
void tree_withdraw(struct tree *t, const struct tree_run *run);
/* Something that a thread may wait for has happened. */
void tree_note(struct tree *t);

/* Lists of ready tasks. `before` is the one in front of it; 0: it is the first. */
void tree_queue_push(struct tree *t, struct tree_queue *q, uint32_t number);
void tree_queue_remove(struct tree *t, struct tree_queue *q, uint32_t number, uint32_t before);
/* Whether the child can have another task. */
bool tree_has_room(struct tree_child *c);
/* Writes a task, which is in no list any more, to the child's stream. */
void tree_give(struct tree *t, struct tree_child *c, uint32_t number);

/* tree_failed.c */
/* The graph's ended_fn: a submit found that it comes after a task that is kept. */
void tree_follows(void *context, const struct slot *before, const struct slot *after);
/* The task was submitted; NULL: it was refused. */
void tree_submitted(struct tree *t, const struct slot *s);
/* A task, of which k is a copy, has failed or was skipped. */
void tree_blame(struct tree *t, struct tree_task *k);
/* `next` waited for a task that failed or was skipped, of which k is a copy: it is not to run. */
void tree_poison(struct tree *t, struct tree_task *k, const struct slot *next);
/* The successors of that task were released. False: it need not be kept. */
bool tree_keep(struct tree *t, const struct slot *s, const struct tree_task *k);
/* The program was told how the run ended, or never will be: what failed is not kept for it. */
void tree_run_told(struct tree_run *run);
/* Why a task is skipped that comes after a failed one. */
int tree_tell_cause(struct tree *t, const struct tree_task *k, struct pto_error *error);

/* tree_in_flight.c */
/* The oldest task that the child has is at 0. */
struct tree_flight *tree_flight_at(struct tree_child *c, uint32_t index);
void tree_flight_add(struct tree *t, struct tree_child *c, uint32_t number);
/* Returns the number of its slot. */
uint32_t tree_flight_remove(struct tree *t, struct tree_child *c, uint32_t index);
/* Takes back what the child has of the run and has not begun; it becomes flexible. */
void tree_flight_recall(struct tree *t, struct tree_child *c, const struct tree_run *run);
/* The child is dead: takes back what it has not begun, and one of the ready children could have. */
void tree_flight_rescue(struct tree *t, struct tree_child *c, uint64_t ready);
/* The child will not run it. False: it has begun, and is not asked again. */
bool tree_flight_take_back(struct tree *t, struct tree_child *c, uint32_t index);

/* tree_shared_queue.c */
/* The task is ready, and several children could have it. */
void tree_shared_queue_push(struct tree *t, uint32_t number);
/* Gives children such tasks. False: none can be given. */
bool tree_shared_queue_give(struct tree *t);
/* Whether one that the child has no room for came before its own. */
bool tree_shared_queue_is_first(const struct tree *t, const struct tree_child *c);
/* Gives idle children what others have not begun. */
void tree_shared_queue_balance(struct tree *t);

#endif
