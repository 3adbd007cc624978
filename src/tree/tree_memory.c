/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a worker: its allocations, the guards around them, and which tasks use them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tree/tree.h"
#include "tree/tree_domain.h"
#include "tree/tree_region.h"

/* guard bytes before and after each allocation, and their value */
enum { GUARD_BYTES = 1024, GUARD_BYTE = 0xb6 };

/*
 * Returns the index of the first allocation, in the order of addresses, that starts after the
 * address.
 */
static uint32_t find_after(const struct tree *t, uint64_t addr)
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

/* Returns the allocation that contains the address; NULL: none. */
static struct tree_allocation *find_allocation(struct tree *t, uint64_t addr)
{
    uint32_t after = find_after(t, addr);
    struct tree_allocation *a = after > 0 ? &t->allocation[after - 1] : NULL;

    return a != NULL && addr - a->addr < a->bytes ? a : NULL;
}

/*
 * Whether the tensor lies in an allocation: it is not an output of a task, and not an empty or
 * refused view.
 */
static bool is_allocated(const struct pto_tensor *x)
{
    return !pto_task_id_is_valid(x->owner) && x->ndims != 0 && x->size != 0;
}

/*
 * Returns why there is no allocation at the address, as the rest of a sentence that begins with the
 * address.
 */
static const char *describe_absence(const struct tree *t, uint64_t addr)
{
    if (addr - (uint64_t)(uintptr_t)t->base >= t->bytes)
        return "is not memory of the worker; allocate it with pto_worker_alloc";
    for (uint32_t i = 0; i < TREE_FREED; i++)
        if (addr - t->freed[i].addr < t->freed[i].bytes)
            return "was freed before";
    return "is not in an allocation of the worker";
}

struct tree_allocation *tree_find_memory(struct tree *t, uint64_t addr, uint64_t bytes,
                                         const char *what, struct pto_error *error)
{
    struct tree_allocation *a = find_allocation(t, addr);

    assert_held(&t->lock);
    if (a != NULL && bytes <= a->bytes - (addr - a->addr))
        return a;
    if (a != NULL)
        (void)error_setf(error, PTO_EMEMORY,
                         "%s: it has %llu bytes at %#llx, where the allocation has only %llu", what,
                         (unsigned long long)bytes, (unsigned long long)addr,
                         (unsigned long long)(a->bytes - (addr - a->addr)));
    else
        (void)error_setf(error, PTO_EMEMORY, "%s: %#llx %s", what, (unsigned long long)addr,
                         describe_absence(t, addr));
    return NULL;
}

/* ---- guards ---- */

static void lay_guards(const struct tree_allocation *a)
{
    memset((char *)(uintptr_t)a->addr - GUARD_BYTES, GUARD_BYTE, GUARD_BYTES);
    memset((char *)(uintptr_t)(a->addr + a->bytes), GUARD_BYTE, GUARD_BYTES);
}

/*
 * Returns the distance of the nearest overwritten byte of a guard from its allocation; 0: the guard
 * is intact.
 */
static uint32_t memory_find_breach(const unsigned char *guard, bool is_before)
{
    for (uint32_t i = 0; i < GUARD_BYTES; i++)
        if (guard[is_before ? GUARD_BYTES - 1 - i : i] != GUARD_BYTE)
            return i + 1;
    return 0;
}

/*
 * Checks both guards of an allocation. False with an error text: one was overwritten. It is
 * repaired, so that the next task does not get the error again.
 */
static bool memory_is_whole(const struct tree_allocation *a, char *text, size_t size)
{
    const unsigned char *guard = (const unsigned char *)(uintptr_t)a->addr;
    uint32_t before = memory_find_breach(guard - GUARD_BYTES, true);
    uint32_t after = memory_find_breach(guard + a->bytes, false);

    if (before == 0 && after == 0)
        return true;
    snprintf(text, size, "%u bytes were written %s the %llu bytes allocated at %#llx",
             after != 0 ? after : before, after != 0 ? "after" : "before",
             (unsigned long long)a->bytes, (unsigned long long)a->addr);
    lay_guards(a);
    return false;
}

bool tree_has_kept_bounds(struct tree *t, const struct slot *s, char *text, size_t size)
{
    for (uint32_t i = 0; i < s->tensor_count; i++)
        if (is_allocated(&s->tensor[i])) {
            const struct tree_allocation *a = find_allocation(t, s->tensor[i].addr);

            /* MEMORY_REGISTERED: memory of the worker above, which checks its guards itself */
            if (a->kind != MEMORY_REGISTERED && !memory_is_whole(a, text, size))
                return false;
        }
    return true;
}

/* ---- allocating ---- */

static int memory_make_entry(struct tree *t)
{
    uint32_t room = t->allocation_room != 0 ? 2 * t->allocation_room : 64;
    struct tree_allocation *grown;

    if (t->allocation_count < t->allocation_room)
        return PTO_OK;
    grown = realloc(t->allocation, room * sizeof(*grown));
    if (grown == NULL)
        return PTO_ENOMEM;
    t->allocation = grown;
    t->allocation_room = room;
    return PTO_OK;
}

/* Inserts an allocation into the sorted table, which has room. */
static struct tree_allocation *insert(struct tree *t, const struct tree_allocation *made)
{
    uint32_t at = find_after(t, made->addr);

    memmove(t->allocation + at + 1, t->allocation + at,
            (t->allocation_count - at) * sizeof(*t->allocation));
    t->allocation[at] = *made;
    t->allocation_count++;
    return &t->allocation[at];
}

static void remove_entry(struct tree *t, const struct tree_allocation *a)
{
    uint32_t at = (uint32_t)(a - t->allocation);

    t->allocation_count--;
    memmove(t->allocation + at, t->allocation + at + 1,
            (t->allocation_count - at) * sizeof(*t->allocation));
}

int tree_alloc(struct tree *t, int32_t child, uint64_t bytes, void **addr_out)
{
    struct tree_allocation made = { .bytes = bytes, .child = child };
    char *memory;

    assert_held(&t->lock);
    if (memory_make_entry(t) < 0)
        return PTO_ENOMEM;
    memory = bytes != 0 && bytes <= t->bytes ? arena_take(t->arena, bytes + 2 * GUARD_BYTES) : NULL;
    if (memory == NULL)
        return PTO_ENOMEM;
    made.addr = (uint64_t)(uintptr_t)memory + GUARD_BYTES;
    lay_guards(insert(t, &made));
    *addr_out = (void *)(uintptr_t)made.addr;
    return PTO_OK;
}

/* ---- memory that the worker above has registered for a call ---- */

int tree_register_memory(struct tree *t, const struct pto_tensor *tensor, uint32_t count)
{
    assert_held(&t->lock);
    for (uint32_t i = 0; i < count; i++) {
        struct tree_allocation made = {
            .addr = tensor[i].addr, .bytes = tensor[i].size, .child = -1, .kind = MEMORY_REGISTERED
        };

        if (!is_allocated(&tensor[i]))
            continue;
        if (memory_make_entry(t) < 0)
            return PTO_ENOMEM;
        /* merges allocations that overlap or touch: they are parts of one buffer */
        for (uint32_t j = 0; j < t->allocation_count; j++) {
            struct tree_allocation a = t->allocation[j];

            if (a.kind != MEMORY_REGISTERED || a.addr > made.addr + made.bytes ||
                made.addr > a.addr + a.bytes)
                continue;
            if (a.addr + a.bytes > made.addr + made.bytes)
                made.bytes = a.addr + a.bytes - made.addr;
            if (a.addr < made.addr) {
                made.bytes += made.addr - a.addr;
                made.addr = a.addr;
            }
            remove_entry(t, &t->allocation[j--]);
        }
        (void)insert(t, &made);
    }
    return PTO_OK;
}

void tree_unregister_memory(struct tree *t)
{
    assert_held(&t->lock);
    for (uint32_t i = t->allocation_count; i-- > 0;)
        if (t->allocation[i].kind == MEMORY_REGISTERED)
            remove_entry(t, &t->allocation[i]);
}

int pto_worker_range(struct pto_worker *worker, uint64_t *addr_out, uint64_t *bytes_out)
{
    int status;
    const struct tree *t = worker_get(worker, &status);

    if (status < 0)
        return status;
    if (addr_out == NULL || bytes_out == NULL)
        return PTO_EINVAL;
    *addr_out = (uint64_t)(uintptr_t)t->base;
    *bytes_out = t->bytes;
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
    status = tree_alloc(t, -1, bytes, addr_out);
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
    status = child_is_ready(&t->child[child]) ? tree_alloc(t, (int32_t)child, bytes, addr_out)
                                              : PTO_EPEER;
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* ---- freeing ---- */

static void remove_allocation(struct tree *t, struct tree_allocation *a)
{
    t->freed[t->freed_count++ % TREE_FREED] = *a;
    arena_give(t->arena, (char *)(uintptr_t)a->addr - GUARD_BYTES);
    remove_entry(t, a);
}

int tree_free(struct tree *t, uint64_t addr, struct pto_error *error)
{
    struct tree_allocation *a = find_allocation(t, addr);
    int status = PTO_OK;
    char text[160];

    assert_held(&t->lock);
    if (a == NULL)
        return error_setf(error, PTO_EMEMORY, "%#llx %s", (unsigned long long)addr,
                          describe_absence(t, addr));
    if (a->addr != addr)
        return error_setf(
            error, PTO_EMEMORY,
            "%#llx is inside an allocation, %llu bytes after its start; free the start",
            (unsigned long long)addr, (unsigned long long)(addr - a->addr));
    if (a->kind != MEMORY_PLAIN)
        return error_setf(
            error, PTO_EMEMORY,
            "%#llx belongs to a domain, a region or the worker above, and is freed with it",
            (unsigned long long)addr);
    if (a->users != 0)
        return error_setf(error, PTO_EBUSY,
                          "%u arguments of tasks use the allocation: the tasks have not ended, or "
                          "their run failed and the program has not waited for it",
                          a->users);
    if (!memory_is_whole(a, text, sizeof(text)))
        status = error_setf(error, PTO_EMEMORY, "%s", text);
    remove_allocation(t, a);
    return status;
}

int pto_worker_free(struct pto_worker *worker, void *addr, struct pto_error *error)
{
    int status;
    struct tree *t = worker_get(worker, &status);

    if (status < 0)
        return status;
    pthread_mutex_lock(&t->lock);
    tree_drive(t);
    status = tree_free(t, (uint64_t)(uintptr_t)addr, error);
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* ---- memory of domains and regions ---- */

void tree_own_memory(struct tree *t, void *memory, enum memory_kind kind, void *owner)
{
    struct tree_allocation *a = find_allocation(t, (uint64_t)(uintptr_t)memory);

    assert_held(&t->lock);
    a->kind = kind;
    a->owner = owner;
}

void tree_disown_memory(struct tree *t, void *memory)
{
    if (memory != NULL)
        remove_allocation(t, find_allocation(t, (uint64_t)(uintptr_t)memory));
}

/* ---- arguments of tasks ---- */

/* Counts an argument of a task as a use of the allocation; `what` names the argument in errors. */
static int use(struct tree_allocation *a, const char *what, uint64_t *children,
               struct pto_error *error)
{
    if (a->child >= 0 && (*children >> a->child & 1) == 0)
        return error_setf(error, PTO_EMEMORY,
                          "%s is memory of chip %d; a task on another child cannot use it", what,
                          a->child);
    if (a->kind == MEMORY_REGION && tree_region_use(a->owner, what, error) < 0)
        return error->status;
    if ((a->kind == MEMORY_CONTEXT || a->kind == MEMORY_WINDOW) &&
        tree_domain_use(a->owner, what, error) < 0)
        return error->status;
    if (a->child >= 0)
        *children = 1ull << a->child;
    a->users++;
    return PTO_OK;
}

static void unuse(struct tree *t, struct tree_allocation *a)
{
    assert(a->users != 0);
    a->users--;
    if (a->kind == MEMORY_REGION)
        tree_region_unuse(t, a->owner, PTO_OK);
    else if (a->owner != NULL)
        tree_domain_unuse(t, a->owner);
}

/*
 * Called for an argument of a task that failed. True: the task was also removed from the count of
 * tasks that use the allocation.
 */
static bool memory_lose(struct tree *t, struct tree_allocation *a, int status)
{
    if (a->kind == MEMORY_REGION) {
        a->users--;
        tree_region_unuse(t, a->owner, status);
        return true;
    }
    if (a->owner != NULL)
        tree_domain_lose(t, a->owner);
    return false;
}

static int use_tensor(struct tree *t, const struct pto_tensor *x, uint32_t argument,
                      uint64_t *children, struct pto_error *error)
{
    struct tree_allocation *a;
    char what[32];
    int status;

    snprintf(what, sizeof(what), "argument %u", argument);
    a = tree_find_memory(t, x->addr, x->size, what, error);
    status = a != NULL ? use(a, what, children, error) : PTO_EMEMORY;
    if (status < 0)
        error->argument = (int32_t)argument;
    return status;
}

/*
 * Returns the allocation with an owner in which scalar `index` is an address; NULL: the scalar is a
 * number, or 0.
 */
static struct tree_allocation *memory_find_address(struct tree *t, uint32_t addresses,
                                                   const uint64_t *scalar, uint32_t index)
{
    struct tree_allocation *a;

    if ((addresses >> index & 1) == 0 || scalar[index] == 0)
        return NULL;
    a = find_allocation(t, scalar[index]);
    return a != NULL && a->owner != NULL ? a : NULL;
}

static int use_scalar(struct tree *t, const struct pto_args *args, uint32_t index,
                      uint64_t *children, struct pto_error *error)
{
    struct tree_allocation *a = memory_find_address(t, args->addresses, args->scalar, index);
    uint64_t addr = args->scalar[index];
    char what[32];

    snprintf(what, sizeof(what), "scalar %u", index);
    if (a != NULL)
        return use(a, what, children, error);
    if ((args->addresses >> index & 1) == 0 || addr == 0)
        return PTO_OK;
    for (uint32_t i = 0; i < TREE_FREED; i++)
        if (t->freed[i].addr == addr && t->freed[i].kind == MEMORY_CONTEXT)
            return error_setf(error, PTO_EINVAL,
                              "%s is the address of a context of a domain that was released", what);
    return error_setf(
        error, PTO_EMEMORY,
        "%s: %#llx is not in a region, window or context of the worker; pass numbers as scalars",
        what, (unsigned long long)addr);
}

static void undo(struct tree *t, const struct pto_args *args, uint32_t tensor_count,
                 uint32_t scalar_count)
{
    for (uint32_t i = 0; i < tensor_count; i++) {
        const struct pto_tensor *x = args->tensor[i];

        if (args->tag[i] != PTO_TAG_OUTPUT && is_allocated(x))
            unuse(t, find_allocation(t, x->addr));
    }
    for (uint32_t i = 0; i < scalar_count; i++) {
        struct tree_allocation *a = memory_find_address(t, args->addresses, args->scalar, i);

        if (a != NULL)
            unuse(t, a);
    }
}

void tree_undo_tensors(struct tree *t, const struct pto_args *args)
{
    assert_held(&t->lock);
    undo(t, args, args->tensor_count, args->scalar_count);
}

int tree_use_tensors(struct tree *t, const struct pto_args *args, uint64_t *children,
                     struct pto_error *error)
{
    int status;

    assert_held(&t->lock);
    for (uint32_t i = 0; i < args->tensor_count; i++) {
        const struct pto_tensor *x = args->tensor[i];

        if (args->tag[i] == PTO_TAG_OUTPUT || !is_allocated(x))
            continue;
        status = use_tensor(t, x, i, children, error);
        if (status < 0) {
            undo(t, args, i, 0);
            return status;
        }
    }
    for (uint32_t i = 0; i < args->scalar_count; i++) {
        status = use_scalar(t, args, i, children, error);
        if (status < 0) {
            undo(t, args, args->tensor_count, i);
            return status;
        }
    }
    return PTO_OK;
}

void tree_unuse_tensors(struct tree *t, struct slot *s, uint32_t addresses)
{
    const uint64_t *scalar = s->scalar_count == 1 ? &s->scalar : slot_scalars(s);

    assert_held(&t->lock);
    for (uint32_t i = 0; i < s->tensor_count; i++)
        if (is_allocated(&s->tensor[i]))
            unuse(t, find_allocation(t, s->tensor[i].addr));
    for (uint32_t i = 0; i < s->scalar_count; i++) {
        struct tree_allocation *a = memory_find_address(t, addresses, scalar, i);

        if (a != NULL)
            unuse(t, a);
    }
}

void tree_lose_tensors(struct tree *t, struct slot *s, struct tree_task *k)
{
    const uint64_t *scalar = s->scalar_count == 1 ? &s->scalar : slot_scalars(s);

    assert_held(&t->lock);
    for (uint32_t i = 0; i < s->tensor_count; i++)
        if (is_allocated(&s->tensor[i]) &&
            memory_lose(t, find_allocation(t, s->tensor[i].addr), k->status))
            /*
             * makes tree_unuse_tensors skip this tensor, whose use memory_lose has already
             * uncounted
             */
            s->tensor[i].size = 0;
    for (uint32_t i = 0; i < s->scalar_count; i++) {
        struct tree_allocation *a = memory_find_address(t, k->addresses, scalar, i);

        if (a != NULL && memory_lose(t, a, k->status))
            /*
             * makes tree_unuse_tensors skip this scalar, whose use memory_lose has already
             * uncounted
             */
            k->addresses = (uint16_t)(k->addresses & ~(1u << i));
    }
}
