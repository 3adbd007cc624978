/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program `pto-child`. Its process is a child of a worker of level 3: a chip, a SUB worker or a
 * nested worker.
 */
#ifndef PTO_CHILD_H
#define PTO_CHILD_H

#include <stdbool.h>
#include <stdint.h>

#include "link/hello.h"
#include "pto/device.h"
#include "pto/tensor.h"
#include "pto/worker.h"

/*
 * Lets a test run code between two records (messages) of a child, for example to end the child's
 * process there.
 */
struct child_watch {
    /*
     * Called before the child handles a record, and, with `is_done`, after it has written its
     * answer. `number` counts the records from the worker; 0 is the child's own first record,
     * READY.
     */
    void (*at)(void *context, uint32_t child, uint64_t number, bool is_done);
    void *context;
};

/* Does the work of pto_child_serve_with, observed by `watch`. Each argument may be NULL. */
int child_serve(const struct pto_child_hooks *hooks, const struct child_watch *watch);

/*
 * child_copy.c: the built-in task of every child, which copies the second tensor to the first.
 * `scalar` points to a value of enum copy_ends. `device` is NULL unless the child is a chip. `text`
 * receives an error.
 */
int child_copy(struct pto_device *device, const struct pto_tensor tensor[2], const void *scalar,
               char *text);

/* child_trace.c: the file to which a chip's child writes its timelines. */
struct child_tracer {
    int file;      /* file descriptor; -1: not open yet */
    uint64_t flow; /* number of flow identifiers that this file has used so far */
};

struct tree_hello;
struct tree_shared;
/*
 * Appends the timeline and the recording of the device's last run to the file that the worker has
 * for this child. `task`: number of the task that made the run.
 */
void child_trace(struct child_tracer *tracer, struct pto_device *device, struct tree_shared *shared,
                 const struct tree_hello *hello, uint32_t task);
/*
 * Called in the process of a nested worker, around a task that is recorded: child_trace_below
 * starts the recording, child_trace_nested ends it and appends it to the file of timelines.
 */
void child_trace_below(struct pto_worker *worker, const struct tree_shared *shared,
                       const struct tree_hello *hello, uint32_t task);
void child_trace_nested(struct child_tracer *tracer, struct pto_worker *worker,
                        struct tree_shared *shared, const struct tree_hello *hello);
void child_trace_close(struct child_tracer *tracer);

struct waker;
struct chip;
struct child_domains;
struct wire_domain;
/*
 * child_domain.c: domains of a child whose chip is a card; a thread of the child sleeps on the
 * waker `alarm`.
 */
int child_domains_open(struct chip *chip, uint32_t child, struct waker *alarm,
                       struct child_domains **domains_out);
void child_domains_close(struct child_domains *domains); /* accepts NULL */
/*
 * Takes one step of opening a domain. `is_offer`: offers this child's window; otherwise joins the
 * windows of the other members and makes the context.
 */
int child_domain_step(struct child_domains *domains, struct wire_domain *wire, bool is_offer,
                      struct pto_error *error);
/*
 * Returns the address on the card that an address in the worker's memory represents; 0: the address
 * represents none.
 */
uint64_t child_domains_find(struct child_domains *domains, uint64_t addr);

struct child_regions;
/*
 * child_region.c: regions of a child whose chip is a card. A thread of the child sleeps on the
 * waker `alarm` until the worker requests a copy.
 */
int child_regions_open(struct chip *chip, const struct tree_hello *hello,
                       struct tree_shared *shared, struct child_regions **regions_out);
void child_regions_close(struct child_regions *regions); /* accepts NULL */
/* Like child_domains_find, for addresses in a region's mirror. */
uint64_t child_regions_find(struct child_regions *regions, uint64_t addr);

struct wire_failure;
struct wire_load;

/* child_nested.c: opens the worker of a child that is a worker itself. */
int child_nested_open(const struct tree_hello *hello, struct pto_worker **worker_out,
                      struct pto_error *error);
/* Calls the function, and waits for the tasks that the function has submitted. */
int child_nested_call(struct pto_worker *worker, pto_nested_fn fn, const struct pto_sub_call *call,
                      uint64_t timeout_ns, struct wire_failure *failure);

#endif
