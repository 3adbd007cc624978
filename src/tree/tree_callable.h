/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callables of a worker (tree_register.c), and requests to its children.
 */
#ifndef PTO_TREE_CALLABLE_H
#define PTO_TREE_CALLABLE_H

#include "base/digest.h"
#include "pto/worker.h"
#include "tree/tree_wire.h"

struct tree;

struct tree_callable {
    uint32_t users; /* number of registrations; 0: this entry is free */
    uint32_t tasks; /* number of live tasks that name the callable */
    uint32_t generation;
    bool is_settled; /* all children have answered the request to load the callable */
    /*
     * number of levels between this worker and the children that load it; 0: its own children load
     * it
     */
    uint32_t is_below;
    /* a child may still have the callable loaded under this number: the number is not used again */
    bool is_number_retired;
    enum pto_child_kind kind;
    uint64_t children;
    struct digest digest;
    void *bytes;
    uint64_t byte_count;
    char symbol[TREE_SYMBOL];
    char name[TREE_NAME];
};

/* A request to a child, for which a thread of the worker waits. */
struct tree_request {
    struct tree_request *next;
    uint64_t key;
    uint32_t child;
    bool is_answered;
    int status;
    char text[TREE_TEXT];
};

/* Returns the callable with this number; NULL: there is none. */
struct tree_callable *tree_find_callable(struct tree *t, uint64_t number);
uint64_t tree_callable_number(const struct tree *t, const struct tree_callable *k);
/* tree_load makes children load one callable, and waits for their answers. */
int tree_load(struct tree *t, struct tree_callable *k, uint64_t children, uint64_t *loaded_out,
              struct pto_error *error);
void tree_forget_callables(struct tree *t);
/* Sends a request without a body to the children in the set, and waits for their answers. */
int tree_ask(struct tree *t, const struct record_head *head, uint64_t children,
             struct pto_error *error);
/*
 * Returns the time at which an answer to a request is overdue. The child may first finish a task,
 * so this includes the time for one.
 */
uint64_t tree_control_deadline(const struct tree *t);
/*
 * In a nested worker: registers a callable that the worker above has registered for this worker's
 * children, under the same number.
 */
int tree_register_below(struct tree *t, uint32_t index, const struct wire_load *load,
                        struct pto_error *error);
void tree_unregister_below(struct tree *t, uint32_t index);

#endif
