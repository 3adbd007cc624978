/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of an isolated chip. The child process chooses the addresses of allocations. The host
 * copies through the file that holds the device's memory, after a check against its own list of
 * allocations, and needs no message for that.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/error.h"
#include "sim/isolated.h"

struct isolated_piece {
    struct isolated_piece *next;
    uint64_t addr;
    uint64_t bytes;
};

static int isolated_alloc(struct chip *chip, uint64_t bytes, uint64_t *addr_out,
                          struct pto_error *error);
static int isolated_free(struct chip *chip, uint64_t addr, struct pto_error *error);
static int isolated_write(struct chip *chip, uint64_t addr, const void *from, uint64_t bytes,
                          struct pto_error *error);
static int isolated_read(struct chip *chip, uint64_t addr, void *to, uint64_t bytes,
                         struct pto_error *error);
static bool isolated_contains(struct chip *chip, uint64_t addr);
static int isolated_check(struct chip *chip, struct pto_error *error);

const struct chip_memory_ops sim_isolated_memory_ops = {
    .alloc = isolated_alloc,
    .free = isolated_free,
    .write = isolated_write,
    .read = isolated_read,
    .contains = isolated_contains,
    .check = isolated_check,
};

/*
 * Finds the allocation that contains an address. Returns the address of the pointer that points to
 * it in the list; that pointer is NULL if there is none. The lock is held.
 */
static struct isolated_piece **isolated_find_containing(struct isolated *iso, uint64_t addr)
{
    struct isolated_piece **link = &iso->piece;

    assert_held(&iso->memory_lock);
    while (*link != NULL && addr - (*link)->addr >= (*link)->bytes)
        link = &(*link)->next;
    return link;
}

static int isolated_alloc(struct chip *chip, uint64_t bytes, uint64_t *addr_out,
                          struct pto_error *error)
{
    struct isolated *iso = isolated_of(chip);
    struct isolated_piece *piece = malloc(sizeof(*piece));
    int status;

    (void)error;
    if (piece == NULL)
        return PTO_ENOMEM;
    piece->bytes = bytes;
    pthread_mutex_lock(&iso->side.lock);
    status = sim_isolated_call(iso, &iso->side,
                               (struct record_head){ .kind = ISOLATED_ALLOC, .value = bytes },
                               &piece->addr);
    pthread_mutex_unlock(&iso->side.lock);
    if (status < 0) {
        free(piece);
        return status == PTO_EPEER ? PTO_ELOST : status;
    }
    pthread_mutex_lock(&iso->memory_lock);
    piece->next = iso->piece;
    iso->piece = piece;
    pthread_mutex_unlock(&iso->memory_lock);
    *addr_out = piece->addr;
    return PTO_OK;
}

/* Frees an allocation. The child process, not the host, detects an invalid address. */
static int isolated_free(struct chip *chip, uint64_t addr, struct pto_error *error)
{
    struct isolated *iso = isolated_of(chip);
    struct isolated_piece **link, *piece;
    int status;

    pthread_mutex_lock(&iso->memory_lock);
    link = isolated_find_containing(iso, addr);
    piece = *link;
    if (piece != NULL && piece->addr == addr)
        *link = piece->next;
    else
        piece = NULL;
    pthread_mutex_unlock(&iso->memory_lock);
    free(piece);
    pthread_mutex_lock(&iso->side.lock);
    status = sim_isolated_call(iso, &iso->side,
                               (struct record_head){ .kind = ISOLATED_FREE, .value = addr }, NULL);
    if (status == PTO_EPEER)
        status = sim_isolated_error_gone(iso, error);
    else if (status < 0)
        status = sim_isolated_error_set(&iso->side, status, error);
    pthread_mutex_unlock(&iso->side.lock);
    return status;
}

/*
 * Returns the offset of these bytes in the file of the device's memory; negative: they are not
 * inside of one allocation. The lock is held.
 */
static off_t isolated_reach(struct isolated *iso, uint64_t addr, uint64_t bytes)
{
    const struct isolated_piece *piece = *isolated_find_containing(iso, addr);

    assert_held(&iso->memory_lock);
    return piece != NULL && bytes <= piece->bytes - (addr - piece->addr)
               ? (off_t)(addr - (uint64_t)(uintptr_t)iso->range)
               : -1;
}

static int isolated_copy_failed(void)
{
    return errno == ENOMEM || errno == ENOSPC ? PTO_ENOMEM : PTO_ESYSTEM;
}

/* Copies `bytes` to device memory from `from`; or, if that is NULL, from device memory to `to`. */
static int isolated_copy(struct isolated *iso, uint64_t addr, char *to, const char *from,
                         uint64_t bytes)
{
    int status = isolated_is_gone(iso) ? PTO_ELOST : PTO_OK;
    uint64_t done = 0;
    off_t at;

    pthread_mutex_lock(&iso->memory_lock);
    at = isolated_reach(iso, addr, bytes);
    if (status == PTO_OK && at < 0)
        status = PTO_EMEMORY;
    while (status == PTO_OK && done < bytes) {
        size_t left = bytes - done;
        ssize_t count = from != NULL ? pwrite(iso->memory, from + done, left, at + (off_t)done)
                                     : pread(iso->memory, to + done, left, at + (off_t)done);

        if (count > 0)
            done += (uint64_t)count;
        else if (count == 0 || errno != EINTR)
            status = isolated_copy_failed();
    }
    pthread_mutex_unlock(&iso->memory_lock);
    return status;
}

static int isolated_write(struct chip *chip, uint64_t addr, const void *from, uint64_t bytes,
                          struct pto_error *error)
{
    (void)error;
    return isolated_copy(isolated_of(chip), addr, NULL, from, bytes);
}

static int isolated_read(struct chip *chip, uint64_t addr, void *to, uint64_t bytes,
                         struct pto_error *error)
{
    (void)error;
    return isolated_copy(isolated_of(chip), addr, to, NULL, bytes);
}

static bool isolated_contains(struct chip *chip, uint64_t addr)
{
    struct isolated *iso = isolated_of(chip);
    bool is_there;

    pthread_mutex_lock(&iso->memory_lock);
    is_there = *isolated_find_containing(iso, addr) != NULL;
    pthread_mutex_unlock(&iso->memory_lock);
    return is_there;
}

static int isolated_check(struct chip *chip, struct pto_error *error)
{
    struct isolated *iso = isolated_of(chip);
    int status;

    pthread_mutex_lock(&iso->side.lock);
    status =
        sim_isolated_call(iso, &iso->side, (struct record_head){ .kind = ISOLATED_CHECK }, NULL);
    if (status == PTO_EPEER)
        status = sim_isolated_error_gone(iso, error);
    else if (status < 0)
        status = sim_isolated_error_set(&iso->side, status, error);
    pthread_mutex_unlock(&iso->side.lock);
    return status;
}

void sim_isolated_forget_memory(struct isolated *iso)
{
    while (iso->piece != NULL) {
        struct isolated_piece *piece = iso->piece;

        iso->piece = piece->next;
        free(piece);
    }
}
