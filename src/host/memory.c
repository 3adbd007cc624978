/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory with guards: each allocation has a pattern before and behind it,
 * and the device knows which addresses are its own and which were freed lately.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "host/host.h"

enum { GUARD_BYTES = 1024, GUARD = 0xa5, ALIGN = 1024 };

static_assert(GUARD_BYTES % ALIGN == 0, "the memory behind a guard is aligned, too");

struct allocation {
    struct allocation *next;
    uint64_t addr;
    uint64_t bytes;
};

static struct allocation **find_containing(struct device *device, uint64_t addr);
static const char *find_damage(const struct allocation *a);
static void free_allocation(struct allocation *a);
static int explain_free(struct device *device, uint64_t addr, struct pto_error *error);

int pto_mem_alloc(struct pto_device *handle, uint64_t bytes, uint64_t *addr_out)
{
    int status;
    struct device *device = device_get(handle, &status);
    struct allocation *a;
    char *memory;

    if (device == NULL)
        return status;
    if (addr_out == NULL || bytes == 0 || bytes > 1ull << 46)
        return PTO_EINVAL;
    a = malloc(sizeof(*a));
    memory = aligned_alloc(ALIGN, (bytes + 2 * GUARD_BYTES + ALIGN - 1) / ALIGN * ALIGN);
    if (a == NULL || memory == NULL) {
        free(a);
        free(memory);
        return PTO_ENOMEM;
    }
    memset(memory, GUARD, GUARD_BYTES);
    memset(memory + GUARD_BYTES + bytes, GUARD, GUARD_BYTES);
    a->addr = (uint64_t)(uintptr_t)(memory + GUARD_BYTES);
    a->bytes = bytes;
    pthread_mutex_lock(&device->memory_lock);
    a->next = device->allocation;
    device->allocation = a;
    for (uint32_t i = 0; i < 64; i++)
        if (device->freed[i] == a->addr)
            device->freed[i] = 0; /* in use again */
    pthread_mutex_unlock(&device->memory_lock);
    *addr_out = a->addr;
    return PTO_OK;
}

int pto_mem_free(struct pto_device *handle, uint64_t addr, struct pto_error *error)
{
    int status;
    struct device *device = device_get(handle, &status);
    struct allocation **link, *a;
    const char *damage;

    if (device == NULL)
        return error_tell(error, status, "%s", pto_strerror(status));
    if (!sized_is_valid(error))
        return PTO_EINVAL;
    pthread_mutex_lock(&device->memory_lock);
    link = find_containing(device, addr);
    if (*link == NULL || (*link)->addr != addr) {
        status = explain_free(device, addr, error);
        pthread_mutex_unlock(&device->memory_lock);
        return status;
    }
    a = *link;
    *link = a->next;
    device->freed[device->freed_next++ % 64] = addr;
    pthread_mutex_unlock(&device->memory_lock);
    damage = find_damage(a);
    if (damage != NULL)
        status = error_tell(error, PTO_EMEMORY, "memory at %#llx was written %s: it has %llu bytes",
                            (unsigned long long)addr, damage, (unsigned long long)a->bytes);
    free_allocation(a);
    return status;
}

static int copy(struct pto_device *handle, uint64_t addr, void *to, const void *from,
                uint64_t bytes)
{
    int status;
    struct device *device = device_get(handle, &status);
    struct allocation *a;

    if (device == NULL)
        return status;
    if (bytes == 0)
        return PTO_OK;
    if (to == NULL && from == NULL)
        return PTO_EINVAL;
    pthread_mutex_lock(&device->memory_lock);
    a = *find_containing(device, addr);
    if (a == NULL || bytes > a->bytes - (addr - a->addr))
        status = PTO_EMEMORY;
    else if (to != NULL)
        memcpy(to, (const void *)(uintptr_t)addr, bytes);
    else
        memcpy((void *)(uintptr_t)addr, from, bytes);
    pthread_mutex_unlock(&device->memory_lock);
    return status;
}

int pto_mem_write(struct pto_device *device, uint64_t addr, const void *from, uint64_t bytes)
{
    return copy(device, addr, NULL, from, bytes);
}

int pto_mem_read(struct pto_device *device, uint64_t addr, void *to, uint64_t bytes)
{
    return copy(device, addr, to, NULL, bytes);
}

int pto_mem_check(struct pto_device *handle, struct pto_error *error)
{
    int status;
    struct device *device = device_get(handle, &status);

    if (device == NULL)
        return error_tell(error, status, "%s", pto_strerror(status));
    if (!sized_is_valid(error))
        return PTO_EINVAL;
    pthread_mutex_lock(&device->memory_lock);
    for (struct allocation *a = device->allocation; a != NULL && status == PTO_OK; a = a->next) {
        const char *damage = find_damage(a);

        if (damage != NULL)
            status =
                error_tell(error, PTO_EMEMORY, "memory at %#llx was written %s: it has %llu bytes",
                           (unsigned long long)a->addr, damage, (unsigned long long)a->bytes);
    }
    pthread_mutex_unlock(&device->memory_lock);
    return status;
}

bool memory_contains(struct device *device, uint64_t addr)
{
    bool is_there;

    pthread_mutex_lock(&device->memory_lock);
    is_there = *find_containing(device, addr) != NULL;
    pthread_mutex_unlock(&device->memory_lock);
    return is_there;
}

void memory_release_all(struct device *device)
{
    while (device->allocation != NULL) {
        struct allocation *a = device->allocation;

        device->allocation = a->next;
        free_allocation(a);
    }
}

/* The link to the allocation that the address lies in, or to NULL. Under the lock. */
static struct allocation **find_containing(struct device *device, uint64_t addr)
{
    struct allocation **link = &device->allocation;

    while (*link != NULL && (addr < (*link)->addr || addr - (*link)->addr >= (*link)->bytes))
        link = &(*link)->next;
    return link;
}

static void free_allocation(struct allocation *a)
{
    free((void *)(uintptr_t)(a->addr - GUARD_BYTES));
    free(a);
}

static bool is_intact(uint64_t addr)
{
    const uint8_t *guard = (const uint8_t *)(uintptr_t)addr;

    for (uint32_t i = 0; i < GUARD_BYTES; i++)
        if (guard[i] != GUARD)
            return false;
    return true;
}

/* Where the memory was written though it is not the caller's; NULL: nowhere. */
static const char *find_damage(const struct allocation *a)
{
    if (!is_intact(a->addr + a->bytes))
        return "beyond its end";
    return is_intact(a->addr - GUARD_BYTES) ? NULL : "before its beginning";
}

static int explain_free(struct device *device, uint64_t addr, struct pto_error *error)
{
    struct allocation *a = *find_containing(device, addr);

    if (a != NULL)
        return error_tell(error, PTO_EMEMORY,
                          "%#llx lies inside an allocation; free its start, %#llx",
                          (unsigned long long)addr, (unsigned long long)a->addr);
    for (uint32_t i = 0; i < 64; i++)
        if (device->freed[i] == addr && addr != 0)
            return error_tell(error, PTO_EMEMORY, "memory at %#llx was freed before",
                              (unsigned long long)addr);
    return error_tell(error, PTO_EMEMORY, "%#llx was not allocated on this device",
                      (unsigned long long)addr);
}
