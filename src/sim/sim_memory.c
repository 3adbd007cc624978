/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory of the simulated chip: each allocation has a pattern before and behind
 * it, and the chip knows which addresses are its own and which were freed lately. Memory
 * that was adopted is in the same list, and nothing more is done to it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "chip/memory_guard.h"
#include "sim/sim.h"

enum { ALIGN = 1024 };

static_assert(MEMORY_GUARD_BYTES % ALIGN == 0, "the memory behind a guard is aligned, too");

struct sim_allocation {
    struct sim_allocation *next;
    uint64_t addr;
    uint64_t bytes;
    bool is_adopted;
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
static int sim_adopt(struct chip *chip, uint64_t addr, uint64_t bytes);
static void sim_disown(struct chip *chip, uint64_t addr);

const struct chip_memory_ops sim_memory_ops = {
    .alloc = sim_alloc,
    .free = sim_free,
    .write = sim_write,
    .read = sim_read,
    .contains = sim_contains,
    .check = sim_check,
    .adopt = sim_adopt,
    .disown = sim_disown,
};

static void enlist(struct sim *m, struct sim_allocation *a);
static struct sim_allocation **find_containing(struct sim *m, uint64_t addr);
static int tell_damage(const struct sim_allocation *a, struct pto_error *error);
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
    a->is_adopted = false;
    enlist(m, a);
    *addr_out = a->addr;
    return PTO_OK;
}

static int sim_adopt(struct chip *chip, uint64_t addr, uint64_t bytes)
{
    struct sim_allocation *a = malloc(sizeof(*a));

    if (a == NULL)
        return PTO_ENOMEM;
    *a = (struct sim_allocation){ .addr = addr, .bytes = bytes, .is_adopted = true };
    enlist(sim_of(chip), a);
    return PTO_OK;
}

static void sim_disown(struct chip *chip, uint64_t addr)
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
    if (a == NULL || a->addr != addr || a->is_adopted) {
        status = explain_free(m, addr, error);
        pthread_mutex_unlock(&m->memory_lock);
        return status;
    }
    *link = a->next;
    m->freed[m->freed_next++ % SIM_FREED] = addr;
    pthread_mutex_unlock(&m->memory_lock);
    status = tell_damage(a, error);
    free_allocation(m, a);
    return status;
}

/* The first byte, if all of them lie inside one allocation. Under the lock. */
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

static int sim_check(struct chip *chip, struct pto_error *error)
{
    struct sim *m = sim_of(chip);
    int status = PTO_OK;

    pthread_mutex_lock(&m->memory_lock);
    for (const struct sim_allocation *a = m->allocation; a != NULL && status == PTO_OK; a = a->next)
        status = tell_damage(a, error);
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
            m->freed[i] = 0; /* in use again */
    pthread_mutex_unlock(&m->memory_lock);
}

/* The link to the allocation that the address lies in, or to NULL. Under the lock. */
static struct sim_allocation **find_containing(struct sim *m, uint64_t addr)
{
    struct sim_allocation **link = &m->allocation;

    while (*link != NULL && (addr < (*link)->addr || addr - (*link)->addr >= (*link)->bytes))
        link = &(*link)->next;
    return link;
}

static void free_allocation(struct sim *m, struct sim_allocation *a)
{
    void *memory = (void *)(uintptr_t)(a->addr - MEMORY_GUARD_BYTES);

    if (m->arena != NULL && !a->is_adopted)
        arena_give(m->arena, memory);
    else if (!a->is_adopted) /* else it is somebody else's */
        free(memory);
    free(a);
}

static int tell_damage(const struct sim_allocation *a, struct pto_error *error)
{
    const char *data = (const char *)(uintptr_t)a->addr;

    return a->is_adopted ? PTO_OK
                         : memory_guard_tell(a->addr, a->bytes, data - MEMORY_GUARD_BYTES,
                                             data + a->bytes, error);
}

static int explain_free(struct sim *m, uint64_t addr, struct pto_error *error)
{
    const struct sim_allocation *a = *find_containing(m, addr);

    if (a != NULL && a->is_adopted)
        return error_tell(error, PTO_EMEMORY,
                          "%#llx lies in memory that was lent to the device, such as a window; "
                          "close its domain instead",
                          (unsigned long long)addr);
    if (a != NULL)
        return error_tell(error, PTO_EMEMORY,
                          "%#llx lies inside an allocation; free its start, %#llx",
                          (unsigned long long)addr, (unsigned long long)a->addr);
    for (uint32_t i = 0; i < SIM_FREED; i++)
        if (m->freed[i] == addr && addr != 0)
            return error_tell(error, PTO_EMEMORY, "memory at %#llx was freed before",
                              (unsigned long long)addr);
    return error_tell(error, PTO_EMEMORY, "%#llx was not allocated on this device",
                      (unsigned long long)addr);
}
