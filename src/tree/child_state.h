/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a child of a worker, for the files that serve it: child_serve.c, child_load.c and child_task.c. One thread. */
#ifndef PTO_CHILD_STATE_H
#define PTO_CHILD_STATE_H

#include "tree/child.h"
#include "tree/tree_wire.h"

struct device;
struct object;

/* What is loaded under a number of the worker's. */
struct loaded {
    struct pto_callable *callable; /* of a chip */
    char *path;                    /* the file of a shared object for it; NULL: none */
    struct object *object;         /* of a SUB worker, or of a nested worker */
    pto_sub_fn fn;
    const struct pto_child_hooks *hooks; /* whose the function is; NULL: of the object */
    void *function;
    pto_nested_fn nested_fn;
    bool is_below; /* its children have it */
};

struct child {
    struct tree_hello hello;
    struct tree_shared *shared;
    struct tree_line *line;
    struct line records; /* to and from the worker */
    struct spin_policy spin_policy;
    const struct child_watch *watch;
    const struct pto_child_hooks *hooks; /* or NULL */
    struct pto_device *device;
    struct pto_worker *worker;     /* of a nested one */
    struct device *held;           /* the chip's; NULL: it is none, or cannot be held */
    struct child_domains *domains; /* this and the next: of a card; NULL: it is none */
    struct child_regions *regions;
    struct child_tracer tracer;
    bool has_task; /* this and the next: the task that runs */
    uint64_t key;
    struct loaded loaded[TREE_CALLABLES + 1]; /* nothing is loaded for the copy */
};

/* child_serve.c: sends a record, when there is room for one with a failure. */
void child_send(struct child *c, const struct record_head *head, struct record_part part);
void child_answer(struct child *c, uint32_t kind, uint64_t key, int status, const char *text);

/* child_load.c: what RECORD_LOAD and RECORD_UNLOAD ask for. */
int child_load(struct child *c, const struct record *r, struct pto_error *error);
void child_unload(struct child *c, uint32_t index);
void child_forget(struct loaded *l);

/* child_task.c: whether the body of a task is as long as its head says. */
bool child_is_task(const struct record *r);
/* What is of a domain or a region is on the card. */
void child_place_arguments(const struct child *c, struct record *r);
/* Runs it, and answers. */
void child_run_task(struct child *c, const struct record *r);
/* Ends the process if the device is lost, so that it can be opened again. */
void child_leave_if_lost(const struct child *c, int status);

#endif
