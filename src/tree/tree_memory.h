/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a worker (tree_memory.c): allocations, and which tasks use them. Copies (tree_copy.c).
 */
#ifndef PTO_TREE_MEMORY_H
#define PTO_TREE_MEMORY_H

#include "pto/worker.h"
#include "tree/tree_task.h"

/*
 * number of freed allocations that are remembered, so that errors about their memory can name them
 */
enum { TREE_FREED = 64 };

/*
 * What an allocation is for. If it has an owner, tasks may get addresses in it (pto_add_address).
 */
enum memory_kind { MEMORY_PLAIN, MEMORY_CONTEXT, MEMORY_WINDOW, MEMORY_REGION, MEMORY_REGISTERED };

struct tree_allocation {
    uint64_t addr;
    uint64_t bytes;
    int32_t child;  /* index of the only child that may use the allocation; -1: all children may */
    uint32_t users; /* number of arguments of live tasks that lie in the allocation */
    enum memory_kind kind;
    void *owner; /* a struct tree_domain; for MEMORY_REGION, a struct tree_region; NULL: none */
};

/*
 * Checks that a task's tensors are memory of the worker, and counts the task as a user. PTO_EMEMORY
 * with an error text.
 */
int tree_use_tensors(struct tree *t, const struct pto_args *args, uint64_t *children,
                     struct pto_error *error);
/*
 * Reverses tree_use_tensors for a task that has ended. If the task failed, tree_lose_tensors was
 * called before.
 */
void tree_unuse_tensors(struct tree *t, struct slot *s, uint32_t addresses);
/*
 * Called when a task failed: tasks of other chips may wait for it in vain. Domains in its arguments
 * become lost; regions are also no longer counted as used by it.
 */
void tree_lose_tensors(struct tree *t, struct slot *s, struct tree_task *k);
void tree_undo_tensors(struct tree *t, const struct pto_args *args);

/*
 * Like pto_worker_alloc and pto_worker_free, but called with the lock. child -1: for all children.
 */
int tree_alloc(struct tree *t, int32_t child, uint64_t bytes, void **addr_out);
int tree_free(struct tree *t, uint64_t addr, struct pto_error *error);
/*
 * Returns the allocation that contains all of the bytes; NULL with an error text, in which `what`
 * names the address.
 */
struct tree_allocation *tree_find_memory(struct tree *t, uint64_t addr, uint64_t bytes,
                                         const char *what, struct pto_error *error);

/*
 * Checks the guards of the allocations in which the task's tensors lie. False with an error text:
 * bytes outside of an allocation were overwritten.
 */
bool tree_has_kept_bounds(struct tree *t, const struct slot *s, char *text, size_t size);

/* In a nested worker: registers the tensors of a call as its memory until the function returns. */
int tree_register_memory(struct tree *t, const struct pto_tensor *tensor, uint32_t count);
void tree_unregister_memory(struct tree *t);

/* Marks memory as part of a domain or a region: from then on only `owner` may free it. */
void tree_own_memory(struct tree *t, void *memory, enum memory_kind kind, void *owner);
void tree_disown_memory(struct tree *t, void *memory); /* frees the memory; accepts NULL */

/* The following is defined in tree_copy.c. */
void tree_copy_open(struct tree *t);

#endif
