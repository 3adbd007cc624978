/* SPDX-License-Identifier: Apache-2.0 */
/* The program `pto-child`: a chip or a SUB worker of a worker of level 3. */
#ifndef PTO_CHILD_H
#define PTO_CHILD_H

#include <stdbool.h>
#include <stdint.h>

#include "link/hello.h"
#include "pto/device.h"
#include "pto/tensor.h"
#include "pto/worker.h"

/* Who wants to know what a child does; for tests of what happens when it ends in the middle. */
struct child_watch {
    /* Before a record is handled, and, with `is_done`, when its answer is there. 0: the first, READY. */
    void (*at)(void *context, uint32_t child, uint64_t number, bool is_done);
    void *context;
};

/* pto_child_serve_with, watched; each may be NULL. */
int child_serve(const struct pto_child_hooks *hooks, const struct child_watch *watch);

/*
 * child_copy.c: the task that every child has: copies the second tensor to the first; behind `scalar` are enum
 * copy_ends. `device` is NULL unless the child is a chip. `text` has room for a sentence.
 */
int child_copy(struct pto_device *device, const struct pto_tensor tensor[2], const void *scalar,
               char *text);

/* child_trace.c: where the timelines of a chip go. */
struct child_tracer {
    int file;      /* -1: not open yet */
    uint64_t flow; /* numbers of its flows that are taken */
};

struct tree_hello;
struct tree_shared;
/* Appends the timeline of the last run to the file that the worker has for this child. */
void child_trace(struct child_tracer *tracer, struct pto_device *device, struct tree_shared *shared,
                 const struct tree_hello *hello);
/* Of a nested worker: before a task, if it is recorded, and after it. */
void child_trace_below(struct pto_worker *worker, const struct tree_shared *shared,
                       const struct tree_hello *hello);
void child_trace_nested(struct child_tracer *tracer, struct pto_worker *worker,
                        struct tree_shared *shared, const struct tree_hello *hello);
void child_trace_close(struct child_tracer *tracer);

struct waker;
struct chip;
struct child_domains;
struct wire_domain;
/* child_domain.c: domains of a chip that is a card, which hears the alarm. */
int child_domains_open(struct chip *chip, uint32_t child, struct waker *alarm,
                       struct child_domains **domains_out);
void child_domains_close(struct child_domains *domains); /* accepts NULL */
/* Offers the own window, or joins those of the others and makes the context. */
int child_domain_step(struct child_domains *domains, struct wire_domain *wire, bool is_offer,
                      struct pto_error *error);
/* Where on the card is what an address stands for; 0: it stands for nothing there. */
uint64_t child_domains_find(struct child_domains *domains, uint64_t addr);

struct child_regions;
/* child_region.c: regions of a chip that is a card, which hears the alarm, too. */
int child_regions_open(struct chip *chip, const struct tree_hello *hello,
                       struct tree_shared *shared, struct child_regions **regions_out);
void child_regions_close(struct child_regions *regions); /* accepts NULL */
/* As child_domains_find. */
uint64_t child_regions_find(struct child_regions *regions, uint64_t addr);

struct wire_failure;
struct wire_load;

/* child_nested.c: a child that is a worker. */
int child_nested_open(const struct tree_hello *hello, struct pto_worker **worker_out,
                      struct pto_error *error);
/* Calls the function, and waits for what it has submitted. */
int child_nested_call(struct pto_worker *worker, pto_nested_fn fn, const struct pto_sub_call *call,
                      uint64_t timeout_ns, struct wire_failure *failure);

#endif
