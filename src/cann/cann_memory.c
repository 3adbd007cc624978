/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory from the vendor, and a table of allocations sorted by address. Before and after
 * each allocation is a guard, a pattern that is written and checked by copies.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/lock.h"
#include "cann/cann.h"
#include "chip/memory_guard.h"

enum { ALIGN = 1024, TABLE_MIN = 64 };

static int cann_alloc(struct chip *chip, uint64_t bytes, uint64_t *addr_out,
                      struct pto_error *error);
static int cann_free(struct chip *chip, uint64_t addr, struct pto_error *error);
static int cann_write(struct chip *chip, uint64_t addr, const void *from, uint64_t bytes,
                      struct pto_error *error);
static int cann_read(struct chip *chip, uint64_t addr, void *to, uint64_t bytes,
                     struct pto_error *error);
static bool cann_contains(struct chip *chip, uint64_t addr);
static int cann_check(struct chip *chip, struct pto_error *error);

const struct chip_memory_ops cann_memory_ops = {
    .alloc = cann_alloc,
    .free = cann_free,
    .write = cann_write,
    .read = cann_read,
    .contains = cann_contains,
    .check = cann_check,
};

/*
 * Returns the index of the first allocation that ends after the address, or the number of
 * allocations if there is none.
 */
static uint32_t cann_memory_find_place(const struct cann *c, uint64_t addr)
{
    uint32_t low = 0, high = c->allocation_count;

    assert_held(&c->memory_lock);
    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (c->allocation[middle].addr + c->allocation[middle].bytes <= addr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns the allocation that contains the address; NULL: none. */
static struct cann_allocation *cann_memory_find_containing(const struct cann *c, uint64_t addr)
{
    uint32_t place = cann_memory_find_place(c, addr);

    return place < c->allocation_count && c->allocation[place].addr <= addr ? &c->allocation[place]
                                                                            : NULL;
}

static bool cann_memory_put(struct cann *c, struct cann_allocation allocation)
{
    uint32_t place;

    assert_held(&c->memory_lock);
    if (c->allocation_count == c->allocation_max) {
        uint32_t max = c->allocation_max != 0 ? 2 * c->allocation_max : TABLE_MIN;
        struct cann_allocation *more = realloc(c->allocation, max * sizeof(*more));

        if (more == NULL)
            return false;
        c->allocation = more;
        c->allocation_max = max;
    }
    place = cann_memory_find_place(c, allocation.addr);
    memmove(&c->allocation[place + 1], &c->allocation[place],
            (c->allocation_count - place) * sizeof(c->allocation[0]));
    c->allocation[place] = allocation;
    c->allocation_count++;
    c->allocation_version++;
    return true;
}

static void cann_memory_take_out(struct cann *c, struct cann_allocation *a)
{
    assert_held(&c->memory_lock);
    assert(a >= c->allocation && a < c->allocation + c->allocation_count);
    c->allocation_count--;
    c->allocation_version++;
    memmove(a, a + 1, (size_t)((char *)&c->allocation[c->allocation_count] - (char *)a));
}

int cann_register_memory(struct cann *c, uint64_t addr, uint64_t bytes)
{
    bool is_kept;

    pthread_mutex_lock(&c->memory_lock);
    is_kept = cann_memory_put(c, (struct cann_allocation){ .addr = addr, .bytes = bytes });
    pthread_mutex_unlock(&c->memory_lock);
    return is_kept ? PTO_OK : PTO_ENOMEM;
}

void cann_unregister_memory(struct cann *c, uint64_t addr)
{
    struct cann_allocation *a;

    pthread_mutex_lock(&c->memory_lock);
    a = cann_memory_find_containing(c, addr);
    if (a != NULL && a->addr == addr && a->block == NULL)
        cann_memory_take_out(c, a);
    pthread_mutex_unlock(&c->memory_lock);
}

/* Work for a driver thread that concerns memory, and its result. */
struct memory_job {
    void *block;
    uint64_t addr;
    uint64_t bytes;
    /* `from` or `to` is host memory, by the direction of a copy; the other one is NULL */
    const void *from;
    void *to;
    int code;
};

static int cann_memory_run_job(struct cann *c, driver_work_fn work, struct memory_job *job,
                               const char *call, struct pto_error *error)
{
    int status;

    /* makes no further call: one call already hangs, and another one would hang as long */
    if (a32_load_relaxed(&c->is_silent) != 0)
        return cann_refuse(c, error);
    status = driver_thread_call(c, work, job, error);
    if (status >= 0 && job->code != ACL_SUCCESS)
        status = cann_error_set(c, error, call, job->code, "for a tensor");
    return status;
}

static void take_block(struct cann *c, void *arg)
{
    struct memory_job *job = arg;
    /* a variable of this thread: if the vendor call hangs, the caller gives up and frees the job */
    void *block = NULL;
    int code = VENDOR_CALL(&c->vendor, aclrtMalloc, &block, job->bytes, VENDOR_MALLOC_HUGE_FIRST);

    job->block = block;
    job->code = code;
}

static void free_block(struct cann *c, void *arg)
{
    struct memory_job *job = arg;

    job->code = cann_give_back(c, (uint64_t)(uintptr_t)job->block);
}

static void cann_memory_copy_bytes(struct cann *c, void *arg)
{
    struct memory_job *job = arg;

    job->code = job->from != NULL ? cann_upload(c, job->addr, job->from, job->bytes)
                                  : cann_download(c, job->addr, job->to, job->bytes);
}

/*
 * Copies both guards of an allocation: from `from` to the card, or, if `from` is NULL, from the
 * card to `to`.
 */
static int copy_guards(struct cann *c, const struct cann_allocation *a, const char *from, char *to,
                       struct pto_error *error)
{
    struct memory_job before = {
        .addr = a->addr - MEMORY_GUARD_BYTES, .bytes = MEMORY_GUARD_BYTES, .from = from, .to = to
    };
    struct memory_job after = { .addr = a->addr + a->bytes,
                                .bytes = MEMORY_GUARD_BYTES,
                                .from = from,
                                .to = to != NULL ? to + MEMORY_GUARD_BYTES : NULL };
    int status = cann_memory_run_job(c, cann_memory_copy_bytes, &before, "aclrtMemcpy", error);

    return status < 0
               ? status
               : cann_memory_run_job(c, cann_memory_copy_bytes, &after, "aclrtMemcpy", error);
}

static int cann_memory_check_guards(struct cann *c, const struct cann_allocation *a,
                                    struct pto_error *error)
{
    char guard[2 * MEMORY_GUARD_BYTES];
    int status = copy_guards(c, a, NULL, guard, error);

    return status < 0
               ? status
               : memory_guard_check(a->addr, a->bytes, guard, guard + MEMORY_GUARD_BYTES, error);
}

static int cann_alloc(struct chip *chip, uint64_t bytes, uint64_t *addr_out,
                      struct pto_error *error)
{
    struct cann *c = cann_of(chip);
    struct memory_job job = { .bytes = bytes + ALIGN + 2 * MEMORY_GUARD_BYTES };
    struct cann_allocation a = { .bytes = bytes };
    int status = cann_memory_run_job(c, take_block, &job, "aclrtMalloc", error);
    char guard[MEMORY_GUARD_BYTES];
    bool is_kept = false;

    if (status < 0)
        return status;
    a.block = job.block;
    a.addr = ((uint64_t)(uintptr_t)a.block + MEMORY_GUARD_BYTES + ALIGN - 1) / ALIGN * ALIGN;
    memory_guard_fill(guard);
    status = copy_guards(c, &a, guard, NULL, error);
    if (status >= 0) {
        pthread_mutex_lock(&c->memory_lock);
        is_kept = cann_memory_put(c, a);
        pthread_mutex_unlock(&c->memory_lock);
    }
    if (!is_kept) {
        (void)cann_memory_run_job(c, free_block, &job, "aclrtFree", NULL);
        return status < 0 ? status : PTO_ENOMEM;
    }
    *addr_out = a.addr;
    return PTO_OK;
}

static int cann_free(struct chip *chip, uint64_t addr, struct pto_error *error)
{
    struct cann *c = cann_of(chip);
    struct cann_allocation *a, freed = { .block = NULL };
    struct memory_job job = { .block = NULL };
    int status, damage;

    pthread_mutex_lock(&c->memory_lock);
    a = cann_memory_find_containing(c, addr);
    if (a != NULL && a->addr == addr && a->block != NULL) {
        freed = *a;
        cann_memory_take_out(c, a);
    }
    pthread_mutex_unlock(&c->memory_lock);
    if (freed.block == NULL)
        return error_setf(error, PTO_EMEMORY,
                          "%#llx is not the start of an allocation on this device, or it was freed "
                          "before",
                          (unsigned long long)addr);
    pthread_mutex_lock(&c->guard_lock);
    damage = cann_is_lost(c) ? PTO_OK : cann_memory_check_guards(c, &freed, error);
    job.block = freed.block;
    status = cann_memory_run_job(c, free_block, &job, "aclrtFree", damage < 0 ? NULL : error);
    pthread_mutex_unlock(&c->guard_lock);
    return damage < 0 ? damage : status;
}

/*
 * Checks the guards of all allocations, in the order of addresses. Other threads may allocate
 * between two checks, so each step searches for the next allocation by address.
 */
static int cann_check(struct chip *chip, struct pto_error *error)
{
    struct cann *c = cann_of(chip);
    uint64_t addr = 0;
    int status = PTO_OK;

    pthread_mutex_lock(&c->guard_lock);
    while (status == PTO_OK) {
        struct cann_allocation a = { .bytes = 0 };
        uint32_t place;

        pthread_mutex_lock(&c->memory_lock);
        place = cann_memory_find_place(c, addr);
        if (place < c->allocation_count)
            a = c->allocation[place];
        pthread_mutex_unlock(&c->memory_lock);
        if (a.bytes == 0)
            break;
        addr = a.addr + a.bytes;
        if (a.block != NULL)
            status = cann_memory_check_guards(c, &a, error);
    }
    pthread_mutex_unlock(&c->guard_lock);
    return status;
}

/* Copies to or from the card, if the bytes lie in an allocation. */
static int cann_memory_copy(struct cann *c, struct memory_job job, struct pto_error *error)
{
    const struct cann_allocation *a;
    bool is_inside;

    pthread_mutex_lock(&c->memory_lock);
    a = cann_memory_find_containing(c, job.addr);
    is_inside = a != NULL && job.bytes <= a->bytes - (job.addr - a->addr);
    pthread_mutex_unlock(&c->memory_lock);
    return is_inside ? cann_memory_run_job(c, cann_memory_copy_bytes, &job, "aclrtMemcpy", error)
                     : PTO_EMEMORY;
}

static int cann_write(struct chip *chip, uint64_t addr, const void *from, uint64_t bytes,
                      struct pto_error *error)
{
    return cann_memory_copy(
        cann_of(chip), (struct memory_job){ .addr = addr, .bytes = bytes, .from = from }, error);
}

static int cann_read(struct chip *chip, uint64_t addr, void *to, uint64_t bytes,
                     struct pto_error *error)
{
    return cann_memory_copy(cann_of(chip),
                            (struct memory_job){ .addr = addr, .bytes = bytes, .to = to }, error);
}

static bool cann_contains(struct chip *chip, uint64_t addr)
{
    struct cann *c = cann_of(chip);
    bool is_there;

    pthread_mutex_lock(&c->memory_lock);
    is_there = cann_memory_find_containing(c, addr) != NULL;
    pthread_mutex_unlock(&c->memory_lock);
    return is_there;
}

int cann_release_memory(struct cann *c)
{
    int failed = 0;

    for (uint32_t i = 0; i < c->allocation_count; i++)
        if (c->allocation[i].block != NULL)
            failed |= VENDOR_CALL(&c->vendor, aclrtFree, c->allocation[i].block);
    c->allocation_count = 0;
    return failed;
}
