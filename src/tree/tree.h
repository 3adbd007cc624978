/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker of level 3, as its own process sees it.
 *
 *     worker.c          open, close, children as callers see them
 *     tree_children.c   children: started, watched, ended, replaced
 *     tree_register.c   callables, loaded by the children that are to have them
 *     tree_memory.c     allocations, and which tasks use them
 *     tree_copy.c       copies, in runs and outside
 *     tree_domain.c     domains over chips
 *     tree_cards.c      domains over chips that are cards
 *     tree_region.c     regions and queues, as the host uses them
 *     tree_mirror.c     those of chips that are cards: what is copied
 *     tree_submit.c     the graph: one for all runs, built by one orchestration at a time
 *     tree_dispatch.c   ready tasks, who gets which, and what follows from their end
 *     tree_failed.c     tasks that failed, and what comes after them
 *     tree_flexible.c   those that several children could have, and what is in flight
 *     tree_run.c        runs as callers see them; who waits drives
 *     tree_time.c       tasks and runs that take too long
 *     tree_trace.c      what is recorded of runs, and the timeline of it
 *     tree_show.c       what can be seen of it from other processes
 *     tree_nested.c     children that are workers
 *     child_serve.c     the other side: what a child does
 *
 * `lock` protects everything here but what says otherwise. Nothing in it waits for a child:
 * whoever has to wait leaves it (tree_await). Whoever waits for something takes what the children
 * say and hands out what is ready (tree_drive); if nobody waits, a thread of the worker does.
 * The graph is used under the lock, so for it there is one thread (graph->is_shared is false).
 */
#ifndef PTO_TREE_H
#define PTO_TREE_H

#include <pthread.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/digest.h"
#include "base/error.h"
#include "graph/graph_tasks.h"
#include "pto/trace.h"
#include "pto/worker.h"
#include "link/watcher.h"
#include "tree/tree_wire.h"

enum {
    TREE_DOMAINS = 256,
    TREE_CREDITS = 64,      /* tasks that a child has at a time; it runs one */
    TREE_AHEAD = 8,         /* of which so many may be such that others could have */
    TREE_LISTS = 8,         /* of tasks that several children could have */
    TREE_FREED = 64,        /* allocations that are remembered, for those who use them still */
    TREE_LIVE_MAX = 16384,  /* tasks before a submit waits */
    TREE_SEQ_MAX = 1 << 30, /* tasks after which the graph is started anew, when it is empty */
};

struct tree;

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

struct tree_callable {
    uint32_t users; /* registrations; 0: free */
    uint32_t tasks; /* live ones */
    uint32_t generation;
    bool is_settled;   /* children have answered */
    uint32_t is_below; /* levels further down; 0: for the children themselves */
    bool is_burnt;     /* a child may still have it under this number: it is not used again */
    enum pto_child_kind kind;
    uint64_t children;
    struct digest digest;
    void *bytes;
    uint64_t byte_count;
    char symbol[TREE_SYMBOL];
    char name[TREE_NAME];
};

/* What an allocation is for. Tasks may get addresses in it by pto_add_address if it has an owner. */
enum memory_kind { MEMORY_PLAIN, MEMORY_CONTEXT, MEMORY_WINDOW, MEMORY_REGION, MEMORY_LENT };

struct tree_allocation {
    uint64_t addr;
    uint64_t bytes;
    int32_t child;  /* -1: everybody's */
    uint32_t users; /* live tasks, once for each argument */
    enum memory_kind kind;
    void *owner; /* struct tree_domain or, of MEMORY_REGION, tree_region; NULL: it is plain */
};

/* Somebody waits for the answer of a child to a load or an unload. */
struct tree_request {
    struct tree_request *next;
    uint64_t key;
    uint32_t child;
    bool is_answered;
    int status;
    char text[TREE_TEXT];
};

struct tree_run {
    struct tree *tree;
    struct tree_run *next; /* of the runs that have not ended */
    uint64_t live;         /* tasks */
    bool is_building;
    bool is_cancelled;
    struct a32 has_ended; /* written under the lock, and looked at without */
    int event;            /* descriptor; -1: nobody asked */
    bool is_abandoned;    /* nobody will finish it: it goes when it ends */
    void *staging;        /* and this allocation with it */
    uint64_t begin_ns;
    uint64_t built_ns;            /* when the orchestration returned */
    uint64_t number;              /* counts the runs of the worker */
    uint64_t deadline_ns;         /* UINT64_MAX: none */
    uint64_t task_timeout_ns;     /* of what is submitted next */
    uint32_t task_options;        /* the same; struct record_head */
    struct tree_options *options; /* that tasks of it have */
    uint32_t kept;                /* tasks of it that are kept, by slot and their `next` */
    uint32_t told_seq;            /* of the next submit when the program was told; 0: not yet */
    pthread_t builder;
    struct pto_worker_report report;
};

/* Where a nested worker is, as its process was told. */
struct tree_outer {
    int memory; /* the file, which is the tree's then */
    char *map;  /* all of it */
    uint64_t map_bytes;
    int life[TREE_NESTED_MAX]; /* ends of pipes, for its children: nested->depth */
    int32_t root;
    const struct wire_nested *nested;
};

/* The public handles: a level is a run that is being built. */
struct tree {
    pthread_mutex_t lock;
    uint32_t *own_process;
    uint32_t child_count;
    uint32_t chip_count;
    struct pto_worker_params params; /* platform is ours */
    char platform[TREE_PLATFORM];

    int memory; /* the file */
    char *base;
    uint64_t bytes;
    struct arena *arena;
    bool keeps_memory; /* at its end: somebody else frees the arena */
    struct tree_shared *shared;
    struct spin_policy spin_policy;
    struct tree_allocation *allocation; /* by address */
    uint32_t allocation_count, allocation_room;
    struct tree_allocation freed[TREE_FREED]; /* the last ones */
    uint32_t freed_count;
    struct tree_domain *domain[TREE_DOMAINS]; /* NULL: free */
    uint32_t domain_generation[TREE_DOMAINS];
    uint32_t domain_count;
    struct tree_domain *leaving; /* over cards, and over; some child has not left it yet */
    struct tree_region *regions; /* that are open */
    void *staging; /* memory for copies outside of runs that none has; NULL: not yet */
    char *heap;
    uint64_t heap_bytes;

    struct tree_child child[TREE_CHILDREN_MAX];
    struct tree_list flexible[TREE_LISTS]; /* the last one: children are those of each task */
    uint32_t flexible_count;               /* in all of them */
    uint32_t open_count;                   /* tasks in flight that can be taken back */
    struct tree_queue over;                /* that have ended, and are not completed yet */
    bool is_settling;
    uint32_t ready_count; /* in all queues but `over` */
    uint64_t order;
    uint64_t key; /* of requests */
    struct tree_request *requests;
    struct tree_callable callable[TREE_CALLABLES + 1]; /* the last one is the copy */

    struct graph graph;
    struct pool_budget budget, heap_budget;
    struct graph_kernel kernel; /* stands for all callables */
    bool is_graph_broken;       /* it ran out of memory: nothing more until it is empty */
    struct tree_task *task;     /* by slot */
    uint32_t task_room;
    struct tree_run *building;
    uint32_t kept_count; /* tasks, and joins, of state TASK_KEPT */
    struct tree_task
        next;         /* what is known of a task before it is submitted: the line of failures */
    uint32_t submits; /* counts some, to look for answers between them */

    struct tree_trace *trace; /* NULL: nothing was recorded */
    bool is_traced;           /* what happens now is */

    struct tree_run *runs; /* that have not ended */
    uint32_t run_count;    /* that are not finished */
    uint64_t run_number;   /* of the last one */
    uint32_t timed_runs;   /* with a deadline */

    uint32_t waiting;   /* threads in tree_await */
    bool is_parked;     /* the background thread, on `work` */
    struct a32 changes; /* counts what threads other than the one that drives may wait for */
    bool has_background;
    struct a32 work; /* it sleeps on it */
    struct a32 is_closing;
    pthread_t background;
    struct watcher watcher;
    const char **program;     /* of the children; NULL: pto-child */
    const char **sub_program; /* of SUB workers and nested ones; NULL: program */
    uint32_t level;           /* 3, or one more than the highest of the nested ones */
    uint32_t sub_count;       /* behind the chips */
    struct tree_outer outer;  /* map NULL: it is the root */
};

/* worker.c: as pto_worker_open, in the process of a nested worker. Its handle is the caller's. */
int tree_open_nested(const struct tree_outer *outer, const struct pto_worker_params *params,
                     struct pto_worker **worker_out);

/* worker.c: the number of the device that a chip is. */
uint32_t tree_device_of(const struct pto_worker_params *params, uint32_t chip);

/* worker.c: NULL with a status: no such worker, or it is the parent's. */
struct tree *worker_get(const struct pto_worker *worker, int *status_out);

/* tree_children.c */
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

/* tree_memory.c */
/* The tensors of a task are the worker's; counts it in. PTO_EMEMORY with a sentence. */
int tree_use_tensors(struct tree *t, const struct pto_args *args, uint64_t *children,
                     struct pto_error *error);
/* The same for a task that has ended; one that failed had tree_lose_tensors before. */
void tree_unuse_tensors(struct tree *t, struct slot *s, uint32_t addresses);
/* It failed: others may wait for it in vain. Regions are given back, all else is not. */
void tree_lose_tensors(struct tree *t, struct slot *s, struct tree_task *k);
void tree_undo_tensors(struct tree *t, const struct pto_args *args);

/* As pto_worker_alloc and pto_worker_free, with the lock held. child -1: everybody's. */
int tree_alloc(struct tree *t, int32_t child, uint64_t bytes, void **addr_out);
int tree_free(struct tree *t, uint64_t addr, struct pto_error *error);
/* The allocation in which all of the bytes lie; NULL with a sentence about `what`. */
struct tree_allocation *tree_find_memory(struct tree *t, uint64_t addr, uint64_t bytes,
                                         const char *what, struct pto_error *error);

/* False with a sentence: something was written outside of the allocations that the task has as tensors. */
bool tree_has_kept_bounds(struct tree *t, const struct slot *s, char *text, size_t size);

/* The tensors of a call are memory of the nested worker while it runs. */
int tree_lend(struct tree *t, const struct pto_tensor *tensor, uint32_t count);
void tree_take_back(struct tree *t);

/* The memory is part of a domain or a region; it is freed by its owner only. */
void tree_own_memory(struct tree *t, void *memory, enum memory_kind kind, void *owner);
void tree_disown_memory(struct tree *t, void *memory); /* frees it; accepts NULL */

/* tree_cards.c */
/* Whether chips are cards: they do not reach the worker's memory. */
bool tree_has_cards(const struct tree *t);
/* Members are to be filled in; NULL: there is no memory. It is the arena's. */
struct wire_domain *tree_cards_make(struct tree *t, uint32_t count, uint64_t window_bytes);
/* Has the children make their windows and contexts; the lock is left meanwhile. */
int tree_cards_open(struct tree *t, struct wire_domain *w, struct pto_error *error);
/* Kernels that wait for others stop doing so. */
void tree_cards_lose(struct tree *t, struct wire_domain *w);
/* Nobody uses it any more. */
void tree_cards_end(struct tree *t, struct wire_domain *w);
/* Whether the child of this member has left it then. */
bool tree_cards_has_left(const struct wire_domain *w, uint32_t rank);

/* tree_domain.c */
/* A task has `what`, "argument 3", of the domain. */
int tree_domain_use(struct tree_domain *d, const char *what, struct pto_error *error);
/* It is over; the domain may be gone then. */
void tree_domain_unuse(struct tree *t, struct tree_domain *d);
/* It has failed: others may wait in vain. */
void tree_domain_lose(struct tree *t, struct tree_domain *d);
/* The run has ended. */
void tree_domains_of_run(struct tree *t, const struct tree_run *run);
/* A child has died. */
void tree_domains_bury(struct tree *t, uint32_t child);
void tree_forget_domains(struct tree *t);

/* tree_region.c: as those of domains. */
int tree_region_use(struct tree_region *r, const char *what, struct pto_error *error);
void tree_region_unuse(struct tree *t, struct tree_region *r, int status);
void tree_forget_regions(struct tree *t);

/* tree_mirror.c: what stands in the worker's memory for a region on a card. */
struct mirror {
    uint32_t chip;
    uint32_t generation; /* of the child that has the memory on the card */
    uint64_t addr;
    uint64_t bytes;
};
/* Has the child make it, as the mirror is now. */
int tree_mirror_open(struct tree *t, struct mirror *m, struct pto_error *error);
/* PTO_ETIMEOUT: the child may still use it. */
int tree_mirror_close(struct tree *t, const struct mirror *m, struct pto_error *error);
/*
 * Copies parts: all of them to the card, and it is not waited for; or as they say. PTO_ETIMEOUT; PTO_EPEER:
 * the child has gone; or why an earlier one could not be done. A look lets others go first.
 */
int tree_mirror_send(struct tree *t, const struct mirror *m, const struct errand_part *part,
                     uint32_t count, uint64_t deadline_ns, struct pto_error *error);
int tree_mirror_fetch(struct tree *t, const struct mirror *m, const struct errand_part *part,
                      uint32_t count, bool is_look, uint64_t deadline_ns, struct pto_error *error);

/* tree_copy.c */
void tree_copy_open(struct tree *t);

/* tree_options.c: frees what no task has any more. */
void tree_options_free(struct tree_run *run);

/* tree_register.c */
/* NULL: there is none with this number. */
struct tree_callable *tree_find_callable(struct tree *t, uint64_t number);
uint64_t tree_callable_number(const struct tree *t, const struct tree_callable *k);
/* Has one child load one callable, or all that it should have; waits. */
int tree_load(struct tree *t, struct tree_callable *k, uint64_t children, uint64_t *loaded_out,
              struct pto_error *error);
void tree_forget_callables(struct tree *t);
/* Sends a request, which has no body, to children, and waits for their answers. */
int tree_ask(struct tree *t, const struct record_head *head, uint64_t children,
             struct pto_error *error);
/* For an answer: a child may be in the middle of a task. */
uint64_t tree_control_deadline(const struct tree *t);
/* In a nested worker: what was registered above for its children, under the same number. */
int tree_register_below(struct tree *t, uint32_t index, const struct wire_load *load,
                        struct pto_error *error);
void tree_unregister_below(struct tree *t, uint32_t index);

/* tree_show.c: what others may know. */
void tree_show(struct tree *t);
void tree_show_child(struct tree *t, struct tree_child *c);
void tree_show_name(struct tree *t, const struct tree_callable *k);

/* tree_trace.c: of a run, and of a task, that has ended; under the lock, if `is_traced`. */
struct tree_trace;
void tree_trace_run(struct tree *t, const struct tree_run *run);
void tree_trace_task(struct tree *t, const struct slot *s, const struct tree_task *k);
void tree_trace_close(struct tree *t);
/* Begins a recording; of a nested worker it is part of that of the one above. PTO_EBUSY, PTO_ENOMEM. */
int tree_trace_begin(struct tree *t, enum pto_trace chips, const struct tree_tracing *above,
                     uint32_t child);
void tree_trace_end(struct tree *t);
/* What is shared of it is as it was, whatever children wrote there; of one, `bytes` were whole. */
void tree_trace_restore(struct tree *t, uint32_t child, uint64_t bytes);
/* Writes the events, each behind a comma, the first behind `before`. Nothing runs. */
void tree_trace_put(const struct tree *t, const char *before, FILE *out);

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

/* tree_nested.c */
/* The level of such a worker; PTO_EINVAL: there are too many levels, or nothing says what one is. */
int tree_level_of(const struct pto_worker_params *params, struct pto_error *error);
/* What the nested workers are, and a part of the memory for each. */
int tree_nested_open(struct tree *t, const struct pto_worker_params *params,
                     struct pto_error *error);
/* All of the old processes of a nested worker have gone: its memory is as a new one expects it. */
int tree_nested_clear(const struct tree *t, const struct tree_child *c);
void tree_nested_close(struct tree *t);
/* Where the memory begins that all processes have mapped. */
static inline char *tree_map(const struct tree *t)
{
    return t->outer.map != NULL ? t->outer.map : t->base;
}
/* How many nested workers are above; 0: it is the root. */
static inline uint32_t tree_depth(const struct tree *t)
{
    return t->outer.map != NULL ? t->outer.nested->depth : 0;
}
/* Has the nested worker start its dead children; the lock is held. */
int tree_reopen_below(struct tree *t, uint32_t child, struct pto_error *error);

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

/* tree_flexible.c */
/* The oldest task that the child has is at 0. */
struct tree_flight *tree_flight_at(struct tree_child *c, uint32_t index);
void tree_flight_add(struct tree *t, struct tree_child *c, uint32_t number);
/* Returns the number of its slot. */
uint32_t tree_flight_remove(struct tree *t, struct tree_child *c, uint32_t index);
/* Takes back what the child has of the run and has not begun; it becomes flexible. */
void tree_flight_recall(struct tree *t, struct tree_child *c, const struct tree_run *run);
/* The child is dead: takes back what it has not begun, and one of the ready children could have. */
void tree_flight_rescue(struct tree *t, struct tree_child *c, uint64_t ready);
/* The task is ready, and several children could have it. */
void tree_flexible_push(struct tree *t, uint32_t number);
/* Gives children such tasks. False: none can be given. */
bool tree_flexible_give(struct tree *t);
/* Whether one that the child has no room for came before its own. */
bool tree_flexible_is_first(const struct tree *t, const struct tree_child *c);
/* Gives idle children what others have not begun. */
void tree_flexible_balance(struct tree *t);

/* tree_time.c */
/* When the next task or run is late; those that are late now are ended. */
uint64_t tree_deadline(struct tree *t);
/* The status of a task that a killed child had, and why, if it was killed for it. */
int tree_tell_late(struct tree *t, struct tree_child *c, uint32_t number, char *text, size_t size);
/* The time-outs of the worker, or another one from the beginning; 0: none. */
void tree_run_begin_time(struct tree_run *run);
void tree_run_set_time(struct tree_run *run, uint64_t timeout_ns);

/* tree_run.c */
/*
 * Drives until `holds`, which is called under the lock and is so when it returns; the lock is held
 * before and after. PTO_OK or PTO_ETIMEOUT.
 */
int tree_await(struct tree *t, bool (*holds)(void *context), void *context, uint64_t deadline_ns);
void tree_run_ended(struct tree_run *run);
/* As pto_worker_launch; waits until the deadline for the turn of its orchestration. */
int tree_launch(struct pto_worker *worker, pto_level_fn orchestration, void *context,
                uint64_t deadline_ns, struct pto_worker_run **run_out);
/* Nobody waits for a run that was launched any more: when it has ended it goes, and the memory with it. */
void tree_run_abandon(struct pto_worker_run *run, void *staging);
/* When the worker closes: those that have not ended. */
void tree_forget_runs(struct tree *t);
int tree_background_start(struct tree *t);
void tree_background_stop(struct tree *t);

static inline struct tree_task *tree_task_of(struct tree *t, const struct slot *s)
{
    return &t->task[s->number];
}

static inline struct slot *tree_slot(struct tree *t, uint32_t number)
{
    return graph_slot_numbered(&t->graph, number);
}

#endif
