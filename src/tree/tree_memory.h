/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a worker (tree_memory.c): allocations, and which tasks use them. Copies (tree_copy.c).
 */
#ifndef PTO_TREE_MEMORY_H
#define PTO_TREE_MEMORY_H

#include "pto/worker.h"
#include "tree/tree_task.h"

enum { TREE_FREED = 64 }; /* allocations that are remembered, for tasks that still use them */

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

/* tree_copy.c */
void tree_copy_open(struct tree *t);

#endif
