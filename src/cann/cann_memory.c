/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory: the vendor's, and a table of what was given out, in the order of addresses. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cann/cann.h"

enum { ALIGN = 1024, TABLE_MIN = 64 };

static int cann_alloc(struct chip *chip, uint64_t bytes, uint64_t *addr_out);
static int cann_free(struct chip *chip, uint64_t addr, struct pto_error *error);
static int cann_write(struct chip *chip, uint64_t addr, const void *from, uint64_t bytes);
static int cann_read(struct chip *chip, uint64_t addr, void *to, uint64_t bytes);
static bool cann_contains(struct chip *chip, uint64_t addr);

const struct chip_memory_ops cann_memory_ops = {
    .alloc = cann_alloc,
    .free = cann_free,
    .write = cann_write,
    .read = cann_read,
    .contains = cann_contains,
};

/* Where the first allocation is that ends behind the address. Under the lock. */
static uint32_t find_place(const struct cann *c, uint64_t addr)
{
    uint32_t low = 0, high = c->allocation_count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (c->allocation[middle].addr + c->allocation[middle].bytes <= addr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* NULL: the address lies in none. Under the lock. */
static struct cann_allocation *find_containing(const struct cann *c, uint64_t addr)
{
    uint32_t place = find_place(c, addr);

    return place < c->allocation_count && c->allocation[place].addr <= addr ? &c->allocation[place]
                                                                            : NULL;
}

static bool put(struct cann *c, struct cann_allocation allocation)
{
    uint32_t place;

    if (c->allocation_count == c->allocation_max) {
        uint32_t max = c->allocation_max != 0 ? 2 * c->allocation_max : TABLE_MIN;
        struct cann_allocation *more = realloc(c->allocation, max * sizeof(*more));

        if (more == NULL)
            return false;
        c->allocation = more;
        c->allocation_max = max;
    }
    place = find_place(c, allocation.addr);
    memmove(&c->allocation[place + 1], &c->allocation[place],
            (c->allocation_count - place) * sizeof(c->allocation[0]));
    c->allocation[place] = allocation;
    c->allocation_count++;
    c->allocation_version++;
    return true;
}

static int cann_alloc(struct chip *chip, uint64_t bytes, uint64_t *addr_out)
{
    struct cann *c = cann_of(chip);
    struct cann_allocation a = { .bytes = bytes };
    void *before = NULL;
    int code = cann_enter(c, &before);
    bool is_kept = false;

    if (code == ACL_SUCCESS)
        code =
            VENDOR_CALL(&c->vendor, aclrtMalloc, &a.block, bytes + ALIGN, VENDOR_MALLOC_HUGE_FIRST);
    if (code == ACL_SUCCESS) {
        a.addr = ((uint64_t)(uintptr_t)a.block + ALIGN - 1) / ALIGN * ALIGN;
        pthread_mutex_lock(&c->memory_lock);
        is_kept = put(c, a);
        pthread_mutex_unlock(&c->memory_lock);
        if (!is_kept)
            (void)VENDOR_CALL(&c->vendor, aclrtFree, a.block);
    }
    cann_leave(c, before);
    if (code != ACL_SUCCESS)
        return cann_tell(c, NULL, "aclrtMalloc", code, "");
    if (!is_kept)
        return PTO_ENOMEM;
    *addr_out = a.addr;
    return PTO_OK;
}

static int cann_free(struct chip *chip, uint64_t addr, struct pto_error *error)
{
    struct cann *c = cann_of(chip);
    struct cann_allocation *a;
    void *block = NULL, *before = NULL;
    int code;

    pthread_mutex_lock(&c->memory_lock);
    a = find_containing(c, addr);
    if (a != NULL && a->addr == addr) {
        block = a->block;
        c->allocation_count--;
        c->allocation_version++;
        memmove(a, a + 1, (size_t)((char *)&c->allocation[c->allocation_count] - (char *)a));
    }
    pthread_mutex_unlock(&c->memory_lock);
    if (block == NULL)
        return error_tell(error, PTO_EMEMORY,
                          "%#llx is not the start of an allocation on this device, or it was freed "
                          "before",
                          (unsigned long long)addr);
    code = cann_enter(c, &before);
    if (code == ACL_SUCCESS)
        code = VENDOR_CALL(&c->vendor, aclrtFree, block);
    cann_leave(c, before);
    return code == ACL_SUCCESS ? PTO_OK : cann_tell(c, error, "aclrtFree", code, "");
}

/* Both ways; the one whose end is not on the card is NULL. */
static int copy(struct cann *c, uint64_t addr, const void *from, void *to, uint64_t bytes)
{
    const struct cann_allocation *a;
    void *before = NULL;
    bool is_inside;
    int code;

    pthread_mutex_lock(&c->memory_lock);
    a = find_containing(c, addr);
    is_inside = a != NULL && bytes <= a->bytes - (addr - a->addr);
    pthread_mutex_unlock(&c->memory_lock);
    if (!is_inside)
        return PTO_EMEMORY;
    code = cann_enter(c, &before);
    if (code == ACL_SUCCESS)
        code = from != NULL ? cann_upload(c, addr, from, bytes) : cann_download(c, addr, to, bytes);
    cann_leave(c, before);
    return code == ACL_SUCCESS ? PTO_OK : cann_tell(c, NULL, "aclrtMemcpy", code, "");
}

static int cann_write(struct chip *chip, uint64_t addr, const void *from, uint64_t bytes)
{
    return copy(cann_of(chip), addr, from, NULL, bytes);
}

static int cann_read(struct chip *chip, uint64_t addr, void *to, uint64_t bytes)
{
    return copy(cann_of(chip), addr, NULL, to, bytes);
}

static bool cann_contains(struct chip *chip, uint64_t addr)
{
    struct cann *c = cann_of(chip);
    bool is_there;

    pthread_mutex_lock(&c->memory_lock);
    is_there = find_containing(c, addr) != NULL;
    pthread_mutex_unlock(&c->memory_lock);
    return is_there;
}

void cann_release_memory(struct cann *c)
{
    for (uint32_t i = 0; i < c->allocation_count; i++)
        (void)VENDOR_CALL(&c->vendor, aclrtFree, c->allocation[i].block);
    c->allocation_count = 0;
}
