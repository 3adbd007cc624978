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

/* Somebody waits for the answer of a child to a load or an unload. */
struct tree_request {
    struct tree_request *next;
    uint64_t key;
    uint32_t child;
    bool is_answered;
    int status;
    char text[TREE_TEXT];
};

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

#endif
