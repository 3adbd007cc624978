/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory with guards: each allocation has a pattern behind it, and the
 * device knows which addresses are its own and which were freed lately.
 */
#include <stdlib.h>
#include <string.h>

#include "host/host.h"

enum { GUARD_BYTES = 64, GUARD = 0xa5, ALIGN = 1024 };

struct allocation {
    struct allocation *next;
    uint64_t addr;
    uint64_t bytes;
};

static struct allocation **find_containing(struct device *device, uint64_t addr);
static bool has_guard(const struct allocation *a);
static int explain_free(struct device *device, uint64_t addr, struct pto_error *error);

int pto_mem_alloc(struct pto_device *handle, uint64_t bytes, uint64_t *addr_out)
{
    int status;
    struct device *device = device_get(handle, &status);
    struct allocation *a;
    void *memory;

    if (device == NULL)
        return status;
    if (addr_out == NULL || bytes == 0 || bytes > 1ull << 46)
        return PTO_EINVAL;
    a = malloc(sizeof(*a));
    memory = aligned_alloc(ALIGN, (bytes + GUARD_BYTES + ALIGN - 1) / ALIGN * ALIGN);
    if (a == NULL || memory == NULL) {
        free(a);
        free(memory);
        return PTO_ENOMEM;
    }
    memset((char *)memory + bytes, GUARD, GUARD_BYTES);
    a->addr = (uint64_t)(uintptr_t)memory;
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

    if (device == NULL)
        return error_tell(error, status, "%s", pto_strerror(status));
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
    if (!has_guard(a))
        status = error_tell(error, PTO_EMEMORY,
                            "memory at %#llx was written beyond its end: it has %llu bytes",
                            (unsigned long long)addr, (unsigned long long)a->bytes);
    free((void *)(uintptr_t)a->addr);
    free(a);
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
    pthread_mutex_lock(&device->memory_lock);
    for (struct allocation *a = device->allocation; a != NULL && status == PTO_OK; a = a->next)
        if (!has_guard(a))
            status = error_tell(error, PTO_EMEMORY,
                                "memory at %#llx was written beyond its end: it has %llu bytes",
                                (unsigned long long)a->addr, (unsigned long long)a->bytes);
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
        free((void *)(uintptr_t)a->addr);
        free(a);
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

static bool has_guard(const struct allocation *a)
{
    const uint8_t *guard = (const uint8_t *)(uintptr_t)(a->addr + a->bytes);

    for (uint32_t i = 0; i < GUARD_BYTES; i++)
        if (guard[i] != GUARD)
            return false;
    return true;
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
