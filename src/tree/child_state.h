/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of a child's process, for the files that serve the worker's records: child_serve.c,
 * child_load.c and child_task.c. Only the thread that reads the records uses it.
 */
#ifndef PTO_CHILD_STATE_H
#define PTO_CHILD_STATE_H

#include "base/crash.h"
#include "tree/child.h"
#include "tree/tree_wire.h"

struct device;
struct object;

/* Code that the child has loaded under a callable's number in the worker. */
struct loaded {
    struct pto_callable *callable; /* callable of a chip; NULL in other children */
    char *path;                    /* file of the loaded shared object; NULL: none */
    struct object *object;         /* shared object, for a SUB worker or a nested worker */
    pto_sub_fn fn;
    /* hooks that loaded the function and unload it; NULL: it comes from the shared object */
    const struct pto_child_hooks *hooks;
    void *function;
    pto_nested_fn nested_fn;
    /* the code is for the children of this nested worker, and these have loaded it */
    bool is_below;
};

/* How the virtual duration of a call of a SUB function is determined. */
struct child_duration {
    uint64_t ns;
    bool is_measured; /* no cost applies, so the duration is the CPU time */
};

struct child {
    struct tree_hello hello;
    struct tree_shared *shared;
    struct tree_line *line;
    struct line records; /* the streams from and to the worker */
    struct spin_policy spin_policy;
    const struct child_watch *watch;
    const struct pto_child_hooks *hooks; /* the program's own hooks for functions; NULL: none */
    struct pto_device *device;
    /* the worker that the child has opened, if it is a nested worker; else NULL */
    struct pto_worker *worker;
    struct device *held;           /* the chip's device, pinned; NULL: no chip, or not pinned */
    struct child_domains *domains; /* NULL unless the chip is a card */
    struct child_regions *regions; /* NULL unless the chip is a card */
    struct child_tracer tracer;
    struct crash crash; /* reports an exit or abort in a function */
    /* always 0: the crash handler never makes this thread return from a function that crashes */
    struct a32 depth;
    /* the child's position on the worker's shared clock; if there is no such clock, real time */
    struct shared_clock_place time;
    struct cost_model *costs; /* durations of SUB functions in virtual time */
    bool has_task;            /* a task is running, and `key` is the number of its record */
    uint64_t key;
    pto_sub_fn fn; /* the function that runs; NULL: unknown, or a run of the chip */
    /* loaded code by number of the callable; the last entry, of the copy task, is unused */
    struct loaded loaded[TREE_CALLABLES + 1];
};

/*
 * child_serve.c: child_send waits until the stream to the worker has room for any record, then
 * sends this one; child_answer sends one with a status and a text.
 */
void child_send(struct child *c, const struct record_head *head, struct record_part part);
void child_answer(struct child *c, uint32_t kind, uint64_t key, int status, const char *text);

/* child_load.c: loads and unloads callables, for RECORD_LOAD and RECORD_UNLOAD. */
int child_load(struct child *c, const struct record *r, struct pto_error *error);
void child_unload(struct child *c, uint32_t index);
void child_forget(struct loaded *l);

/*
 * child_time.c: virtual time. child_time_open joins the worker's clock, after the chip was opened.
 * child_time_set sets durations, for RECORD_COSTS.
 */
int child_time_open(struct child *c, struct pto_error *error);
int child_time_set(struct child *c, const struct record *r, struct pto_error *error);
/* Returns the virtual duration of a call of a SUB function that used cpu_ns of CPU time. */
int child_time_of_call(struct child *c, const struct pto_sub_call *call, uint32_t callable,
                       uint64_t cpu_ns, struct child_duration *duration_out, char *text);
/* Whether the costs ask for a plan only, so that SUB functions are not called. */
bool child_time_is_planned(const struct child *c);
/*
 * child_time_begin returns the virtual time at which a task begins. child_time_end returns the
 * virtual time at which it ends, after all other members of the clock have passed that time.
 */
uint64_t child_time_begin(const struct child *c);
uint64_t child_time_end(struct child *c, uint64_t begin_ns, const struct child_duration *duration);
void child_time_close(struct child *c);

/*
 * child_task.c: whether a task's record is valid: its body must have the length that the counts in
 * its head give.
 */
bool child_is_task(const struct record *r);
/*
 * Replaces the addresses in a task's arguments that represent memory of the card, in domains and
 * regions, by the addresses on the card.
 */
void child_place_arguments(const struct child *c, struct record *r);
/* Runs the task of the record, and sends its RECORD_DONE. */
void child_run_task(struct child *c, const struct record *r);
/*
 * Ends the process if `status` is an error and the device is lost, so that the worker can start a
 * new child.
 */
void child_leave_if_lost(const struct child *c, int status);

#endif
