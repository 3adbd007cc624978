/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory of the simulated chip. Each allocation lies between two guard patterns, and the
 * chip knows all addresses that are allocated and those that were freed last. Registered memory is
 * in the same list, without patterns.
 */
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/error.h"
#include "chip/memory_guard.h"
#include "sim/sim.h"

enum { ALIGN = 1024 };

static_assert(MEMORY_GUARD_BYTES % ALIGN == 0, "the memory after a guard must be aligned");

struct sim_allocation {
    struct sim_allocation *next;
    uint64_t addr;
    uint64_t bytes;
    bool is_registered;
};

static int sim_alloc(struct chip *chip, uint64_t bytes, uint64_t *addr_out,
                     struct pto_error *error);
static int sim_free(struct chip *chip, uint64_t addr, struct pto_error *error);
static int sim_write(struct chip *chip, uint64_t addr, const void *from, uint64_t bytes,
                     struct pto_error *error);
static int sim_read(struct chip *chip, uint64_t addr, void *to, uint64_t bytes,
                    struct pto_error *error);
static bool sim_contains(struct chip *chip, uint64_t addr);
static int sim_check(struct chip *chip, struct pto_error *error);
static int sim_register_memory(struct chip *chip, uint64_t addr, uint64_t bytes);
static void sim_unregister_memory(struct chip *chip, uint64_t addr);

const struct chip_memory_ops sim_memory_ops = {
    .alloc = sim_alloc,
    .free = sim_free,
    .write = sim_write,
    .read = sim_read,
    .contains = sim_contains,
    .check = sim_check,
    .register_memory = sim_register_memory,
    .unregister_memory = sim_unregister_memory,
};

static void enlist(struct sim *m, struct sim_allocation *a);
static struct sim_allocation **find_containing(struct sim *m, uint64_t addr);
static int check_guards(const struct sim_allocation *a, struct pto_error *error);
static void free_allocation(struct sim *m, struct sim_allocation *a);
static int explain_free(struct sim *m, uint64_t addr, struct pto_error *error);

static int sim_alloc(struct chip *chip, uint64_t bytes, uint64_t *addr_out, struct pto_error *error)
{
    struct sim *m = sim_of(chip);
    uint64_t whole = (bytes + 2 * MEMORY_GUARD_BYTES + ALIGN - 1) / ALIGN * ALIGN;
    struct sim_allocation *a = malloc(sizeof(*a));
    char *memory = m->arena != NULL ? arena_take(m->arena, whole) : aligned_alloc(ALIGN, whole);

    (void)error;
    if (a == NULL || memory == NULL) {
        free(a);
        if (m->arena == NULL)
            free(memory);
        else if (memory != NULL)
            arena_give(m->arena, memory);
        return PTO_ENOMEM;
    }
    memory_guard_fill(memory);
    memory_guard_fill(memory + MEMORY_GUARD_BYTES + bytes);
    a->addr = (uint64_t)(uintptr_t)(memory + MEMORY_GUARD_BYTES);
    a->bytes = bytes;
    a->is_registered = false;
    enlist(m, a);
    *addr_out = a->addr;
    return PTO_OK;
}

static int sim_register_memory(struct chip *chip, uint64_t addr, uint64_t bytes)
{
    struct sim_allocation *a = malloc(sizeof(*a));

    if (a == NULL)
        return PTO_ENOMEM;
    *a = (struct sim_allocation){ .addr = addr, .bytes = bytes, .is_registered = true };
    enlist(sim_of(chip), a);
    return PTO_OK;
}

static void sim_unregister_memory(struct chip *chip, uint64_t addr)
{
    struct sim *m = sim_of(chip);
    struct sim_allocation **link, *a;

    pthread_mutex_lock(&m->memory_lock);
    link = find_containing(m, addr);
    a = *link;
    if (a != NULL)
        *link = a->next;
    pthread_mutex_unlock(&m->memory_lock);
    free(a);
}

static int sim_free(struct chip *chip, uint64_t addr, struct pto_error *error)
{
    struct sim *m = sim_of(chip);
    struct sim_allocation **link, *a;
    int status;

    pthread_mutex_lock(&m->memory_lock);
    link = find_containing(m, addr);
    a = *link;
    if (a == NULL || a->addr != addr || a->is_registered) {
        status = explain_free(m, addr, error);
        pthread_mutex_unlock(&m->memory_lock);
        return status;
    }
    *link = a->next;
    m->freed[m->freed_next++ % SIM_FREED] = addr;
    pthread_mutex_unlock(&m->memory_lock);
    status = check_guards(a, error);
    free_allocation(m, a);
    return status;
}

/*
 * Returns the bytes as a pointer if all of them are inside of one allocation, else NULL. The lock
 * is held.
 */
static void *reach(struct sim *m, uint64_t addr, uint64_t bytes)
{
    const struct sim_allocation *a = *find_containing(m, addr);

    return a != NULL && bytes <= a->bytes - (addr - a->addr) ? (void *)(uintptr_t)addr : NULL;
}

static int sim_write(struct chip *chip, uint64_t addr, const void *from, uint64_t bytes,
                     struct pto_error *error)
{
    struct sim *m = sim_of(chip);
    void *to;

    (void)error;
    pthread_mutex_lock(&m->memory_lock);
    to = reach(m, addr, bytes);
    if (to != NULL)
        memcpy(to, from, bytes);
    pthread_mutex_unlock(&m->memory_lock);
    return to != NULL ? PTO_OK : PTO_EMEMORY;
}

static int sim_read(struct chip *chip, uint64_t addr, void *to, uint64_t bytes,
                    struct pto_error *error)
{
    struct sim *m = sim_of(chip);
    const void *from;

    (void)error;
    pthread_mutex_lock(&m->memory_lock);
    from = reach(m, addr, bytes);
    if (from != NULL)
        memcpy(to, from, bytes);
    pthread_mutex_unlock(&m->memory_lock);
    return from != NULL ? PTO_OK : PTO_EMEMORY;
}

static bool sim_contains(struct chip *chip, uint64_t addr)
{
    struct sim *m = sim_of(chip);
    bool is_there;

    pthread_mutex_lock(&m->memory_lock);
    is_there = *find_containing(m, addr) != NULL;
    pthread_mutex_unlock(&m->memory_lock);
    return is_there;
}

bool sim_is_memory(struct sim *m, uint64_t addr)
{
    const struct chip_graph *graph = m->launched;
    const struct sim_allocation *a;
    /*
     * any address in the range of the heap is taken as device memory, because the submitter may be
     * allocating outputs there
     */
    bool is_there = addr - (uint64_t)(uintptr_t)m->graph.heap_pool.base < m->graph.heap_pool.max;

    if (!is_there && graph != NULL)
        is_there = addr - (uint64_t)(uintptr_t)graph->memory < graph->kept_bytes;
    if (is_there)
        return true;
    pthread_mutex_lock(&m->memory_lock);
    a = *find_containing(m, addr);
    is_there = a != NULL && !a->is_registered;
    pthread_mutex_unlock(&m->memory_lock);
    return is_there;
}

static int sim_check(struct chip *chip, struct pto_error *error)
{
    struct sim *m = sim_of(chip);
    int status = PTO_OK;

    pthread_mutex_lock(&m->memory_lock);
    for (const struct sim_allocation *a = m->allocation; a != NULL && status == PTO_OK; a = a->next)
        status = check_guards(a, error);
    pthread_mutex_unlock(&m->memory_lock);
    return status;
}

void sim_release_memory(struct sim *m)
{
    while (m->allocation != NULL) {
        struct sim_allocation *a = m->allocation;

        m->allocation = a->next;
        free_allocation(m, a);
    }
}

static void enlist(struct sim *m, struct sim_allocation *a)
{
    pthread_mutex_lock(&m->memory_lock);
    a->next = m->allocation;
    m->allocation = a;
    for (uint32_t i = 0; i < SIM_FREED; i++)
        if (m->freed[i] == a->addr)
            m->freed[i] = 0; /* the address is allocated again, so forget that it was freed */
    pthread_mutex_unlock(&m->memory_lock);
}

/*
 * Finds the allocation that contains an address. Returns the address of the pointer that points to
 * it in the list; that pointer is NULL if there is none. The lock is held.
 */
static struct sim_allocation **find_containing(struct sim *m, uint64_t addr)
{
    struct sim_allocation **link = &m->allocation;

    assert_held(&m->memory_lock);
    while (*link != NULL && (addr < (*link)->addr || addr - (*link)->addr >= (*link)->bytes))
        link = &(*link)->next;
    return link;
}

static void free_allocation(struct sim *m, struct sim_allocation *a)
{
    void *memory = (void *)(uintptr_t)(a->addr - MEMORY_GUARD_BYTES);

    if (m->arena != NULL && !a->is_registered)
        arena_give(m->arena, memory);
    else if (!a->is_registered) /* registered memory belongs to the caller, who frees it */
        free(memory);
    free(a);
}

static int check_guards(const struct sim_allocation *a, struct pto_error *error)
{
    const char *data = (const char *)(uintptr_t)a->addr;

    return a->is_registered ? PTO_OK
                            : memory_guard_check(a->addr, a->bytes, data - MEMORY_GUARD_BYTES,
                                                 data + a->bytes, error);
}

static int explain_free(struct sim *m, uint64_t addr, struct pto_error *error)
{
    const struct sim_allocation *a = *find_containing(m, addr);

    if (a != NULL && a->is_registered)
        return error_setf(error, PTO_EMEMORY,
                          "%#llx is in memory that is registered with the device, such as a "
                          "window; close its domain instead",
                          (unsigned long long)addr);
    if (a != NULL)
        return error_setf(error, PTO_EMEMORY,
                          "%#llx is inside an allocation; free its start, %#llx",
                          (unsigned long long)addr, (unsigned long long)a->addr);
    for (uint32_t i = 0; i < SIM_FREED; i++)
        if (m->freed[i] == addr && addr != 0)
            return error_setf(error, PTO_EMEMORY, "memory at %#llx was freed before",
                              (unsigned long long)addr);
    return error_setf(error, PTO_EMEMORY, "%#llx was not allocated on this device",
                      (unsigned long long)addr);
}
