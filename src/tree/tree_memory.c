/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a worker: allocations, their guards, and which tasks use them. */
#include <stdlib.h>
#include <string.h>

#include "tree/tree.h"

/* The index of the first allocation behind the address. */
static uint32_t find_behind(const struct tree *t, uint64_t addr)
{
    uint32_t low = 0, high = t->allocation_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (t->allocation[middle].addr > addr)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The one in which the address lies; NULL: none. */
static struct tree_allocation *find_allocation(struct tree *t, uint64_t addr)
{
    uint32_t behind = find_behind(t, addr);
    struct tree_allocation *a = behind > 0 ? &t->allocation[behind - 1] : NULL;

    return a != NULL && addr - a->addr < a->bytes ? a : NULL;
}

/* ---- allocating ---- */

static int add_allocation(struct tree *t, int32_t child, uint64_t bytes, void **addr_out)
{
    uint32_t at;
    char *memory;

    if (t->allocation_count == t->allocation_room) {
        uint32_t room = t->allocation_room != 0 ? 2 * t->allocation_room : 64;
        struct tree_allocation *grown = realloc(t->allocation, room * sizeof(*grown));

        if (grown == NULL)
            return PTO_ENOMEM;
        t->allocation = grown;
        t->allocation_room = room;
    }
    memory = bytes != 0 && bytes <= t->bytes ? arena_take(t->arena, bytes) : NULL;
    if (memory == NULL)
        return PTO_ENOMEM;
    at = find_behind(t, (uint64_t)(uintptr_t)memory);
    memmove(t->allocation + at + 1, t->allocation + at,
            (t->allocation_count - at) * sizeof(*t->allocation));
    t->allocation[at] = (struct tree_allocation){ (uint64_t)(uintptr_t)memory, bytes, child, 0 };
    t->allocation_count++;
    *addr_out = memory;
    return PTO_OK;
}

int pto_worker_alloc(struct pto_worker *worker, uint64_t bytes, void **addr_out)
{
    int status;
    struct tree *t = worker_get(worker, &status);

    if (status < 0)
        return status;
    if (bytes == 0 || addr_out == NULL)
        return PTO_EINVAL;
    pthread_mutex_lock(&t->lock);
    status = add_allocation(t, -1, bytes, addr_out);
    pthread_mutex_unlock(&t->lock);
    return status;
}

int pto_worker_alloc_on(struct pto_worker *worker, uint32_t child, uint64_t bytes, void **addr_out)
{
    int status;
    struct tree *t = worker_get(worker, &status);

    if (status < 0)
        return status;
    if (bytes == 0 || addr_out == NULL || child >= t->chip_count)
        return PTO_EINVAL;
    pthread_mutex_lock(&t->lock);
    status = child_is_ready(&t->child[child]) ? add_allocation(t, (int32_t)child, bytes, addr_out)
                                              : PTO_EPEER;
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* ---- freeing ---- */

static int free_allocation(struct tree *t, uint64_t addr, struct pto_error *error)
{
    struct tree_allocation *a = find_allocation(t, addr);
    uint32_t at;

    if (a == NULL)
        return error_tell(error, PTO_EMEMORY,
                          "there is no allocation of this worker at %#llx; it was freed before, or "
                          "is of something else",
                          (unsigned long long)addr);
    if (a->addr != addr)
        return error_tell(error, PTO_EMEMORY,
                          "%#llx lies inside an allocation, %llu bytes behind its beginning",
                          (unsigned long long)addr, (unsigned long long)(addr - a->addr));
    if (a->users != 0)
        return error_tell(error, PTO_EBUSY, "%u tasks that are not over use the allocation",
                          a->users);
    at = (uint32_t)(a - t->allocation);
    arena_give(t->arena, (char *)(uintptr_t)addr);
    t->allocation_count--;
    memmove(t->allocation + at, t->allocation + at + 1,
            (t->allocation_count - at) * sizeof(*t->allocation));
    return PTO_OK;
}

int pto_worker_free(struct pto_worker *worker, void *addr, struct pto_error *error)
{
    int status;
    struct tree *t = worker_get(worker, &status);

    if (status < 0)
        return status;
    pthread_mutex_lock(&t->lock);
    tree_drive(t);
    status = free_allocation(t, (uint64_t)(uintptr_t)addr, error);
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* ---- tensors of tasks ---- */

/* Whether the memory behind a tensor is an allocation's: no output of a task, no refused view. */
static bool is_allocated(const struct pto_tensor *x)
{
    return !pto_task_id_is_valid(x->owner) && x->ndims != 0 && x->size != 0;
}

static int use_tensor(struct tree *t, const struct pto_tensor *x, uint32_t argument,
                      uint64_t *children, struct pto_error *error)
{
    struct tree_allocation *a = find_allocation(t, x->addr);

    if (a == NULL || x->size > a->bytes - (x->addr - a->addr)) {
        error->argument = (int32_t)argument;
        return error_tell(error, PTO_EMEMORY,
                          a == NULL ? "argument %u: %#llx is no memory of the worker; allocate it "
                                      "with pto_worker_alloc"
                                    : "argument %u: the tensor at %#llx is larger than its "
                                      "allocation",
                          argument, (unsigned long long)x->addr);
    }
    if (a->child >= 0 && (*children >> a->child & 1) == 0) {
        error->argument = (int32_t)argument;
        return error_tell(error, PTO_EMEMORY,
                          "argument %u is memory of chip %d; a task on another child cannot use it",
                          argument, a->child);
    }
    if (a->child >= 0)
        *children = 1ull << a->child;
    a->users++;
    return PTO_OK;
}

void tree_undo_tensors(struct tree *t, const struct pto_args *args, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct pto_tensor *x = args->tensor[i];

        if (args->tag[i] != PTO_TAG_OUTPUT && is_allocated(x))
            find_allocation(t, x->addr)->users--;
    }
}

int tree_use_tensors(struct tree *t, const struct pto_args *args, uint64_t *children,
                     struct pto_error *error)
{
    for (uint32_t i = 0; i < args->tensor_count; i++) {
        const struct pto_tensor *x = args->tensor[i];
        int status = PTO_OK;

        if (args->tag[i] != PTO_TAG_OUTPUT && is_allocated(x))
            status = use_tensor(t, x, i, children, error);
        if (status < 0) {
            tree_undo_tensors(t, args, i);
            return status;
        }
    }
    return PTO_OK;
}

void tree_unuse_tensors(struct tree *t, const struct slot *s)
{
    for (uint32_t i = 0; i < s->tensor_count; i++)
        if (is_allocated(&s->tensor[i]))
            find_allocation(t, s->tensor[i].addr)->users--;
}
