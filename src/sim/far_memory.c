/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of an isolated chip. The program says where an allocation is; copies go through
 * the file, after a look at the list that is kept here, and need no message.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "sim/far.h"

struct far_piece {
    struct far_piece *next;
    uint64_t addr;
    uint64_t bytes;
};

static int far_alloc(struct chip *chip, uint64_t bytes, uint64_t *addr_out,
                     struct pto_error *error);
static int far_free(struct chip *chip, uint64_t addr, struct pto_error *error);
static int far_write(struct chip *chip, uint64_t addr, const void *from, uint64_t bytes,
                     struct pto_error *error);
static int far_read(struct chip *chip, uint64_t addr, void *to, uint64_t bytes,
                    struct pto_error *error);
static bool far_contains(struct chip *chip, uint64_t addr);
static int far_check(struct chip *chip, struct pto_error *error);

const struct chip_memory_ops sim_far_memory_ops = {
    .alloc = far_alloc,
    .free = far_free,
    .write = far_write,
    .read = far_read,
    .contains = far_contains,
    .check = far_check,
};

/* The link to the allocation that the address lies in, or to NULL. Under the lock. */
static struct far_piece **find_containing(struct far *f, uint64_t addr)
{
    struct far_piece **link = &f->piece;

    while (*link != NULL && addr - (*link)->addr >= (*link)->bytes)
        link = &(*link)->next;
    return link;
}

static int far_alloc(struct chip *chip, uint64_t bytes, uint64_t *addr_out, struct pto_error *error)
{
    struct far *f = far_of(chip);
    struct far_piece *piece = malloc(sizeof(*piece));
    int status;

    (void)error;
    if (piece == NULL)
        return PTO_ENOMEM;
    piece->bytes = bytes;
    pthread_mutex_lock(&f->side.lock);
    status = sim_far_call(f, &f->side, (struct record_head){ .kind = FAR_ALLOC, .value = bytes },
                          &piece->addr);
    pthread_mutex_unlock(&f->side.lock);
    if (status < 0) {
        free(piece);
        return status == PTO_EPEER ? PTO_ELOST : status;
    }
    pthread_mutex_lock(&f->memory_lock);
    piece->next = f->piece;
    f->piece = piece;
    pthread_mutex_unlock(&f->memory_lock);
    *addr_out = piece->addr;
    return PTO_OK;
}

/* Whatever is wrong with it is noticed, and told, over there. */
static int far_free(struct chip *chip, uint64_t addr, struct pto_error *error)
{
    struct far *f = far_of(chip);
    struct far_piece **link, *piece;
    int status;

    pthread_mutex_lock(&f->memory_lock);
    link = find_containing(f, addr);
    piece = *link;
    if (piece != NULL && piece->addr == addr)
        *link = piece->next;
    else
        piece = NULL;
    pthread_mutex_unlock(&f->memory_lock);
    free(piece);
    pthread_mutex_lock(&f->side.lock);
    status =
        sim_far_call(f, &f->side, (struct record_head){ .kind = FAR_FREE, .value = addr }, NULL);
    if (status == PTO_EPEER)
        status = sim_far_tell_gone(f, error);
    else if (status < 0)
        status = sim_far_tell(&f->side, status, error);
    pthread_mutex_unlock(&f->side.lock);
    return status;
}

/* Where in the file the bytes are; negative: not in one allocation. Under the lock. */
static off_t reach(struct far *f, uint64_t addr, uint64_t bytes)
{
    const struct far_piece *piece = *find_containing(f, addr);

    return piece != NULL && bytes <= piece->bytes - (addr - piece->addr)
               ? (off_t)(addr - (uint64_t)(uintptr_t)f->range)
               : -1;
}

static int copy_failed(void)
{
    return errno == ENOMEM || errno == ENOSPC ? PTO_ENOMEM : PTO_ESYSTEM;
}

static int far_write(struct chip *chip, uint64_t addr, const void *from, uint64_t bytes,
                     struct pto_error *error)
{
    struct far *f = far_of(chip);
    int status = far_is_gone(f) ? PTO_ELOST : PTO_OK;
    off_t at;

    (void)error;
    pthread_mutex_lock(&f->memory_lock);
    at = reach(f, addr, bytes);
    if (status == PTO_OK && at < 0)
        status = PTO_EMEMORY;
    while (status == PTO_OK && bytes != 0) {
        ssize_t count = pwrite(f->memory, from, bytes, at);

        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0) {
            status = copy_failed();
            break;
        }
        from = (const char *)from + count;
        at += count;
        bytes -= (uint64_t)count;
    }
    pthread_mutex_unlock(&f->memory_lock);
    return status;
}

static int far_read(struct chip *chip, uint64_t addr, void *to, uint64_t bytes,
                    struct pto_error *error)
{
    struct far *f = far_of(chip);
    int status = far_is_gone(f) ? PTO_ELOST : PTO_OK;
    off_t at;

    (void)error;
    pthread_mutex_lock(&f->memory_lock);
    at = reach(f, addr, bytes);
    if (status == PTO_OK && at < 0)
        status = PTO_EMEMORY;
    while (status == PTO_OK && bytes != 0) {
        ssize_t count = pread(f->memory, to, bytes, at);

        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0) {
            status = copy_failed();
            break;
        }
        to = (char *)to + count;
        at += count;
        bytes -= (uint64_t)count;
    }
    pthread_mutex_unlock(&f->memory_lock);
    return status;
}

static bool far_contains(struct chip *chip, uint64_t addr)
{
    struct far *f = far_of(chip);
    bool is_there;

    pthread_mutex_lock(&f->memory_lock);
    is_there = *find_containing(f, addr) != NULL;
    pthread_mutex_unlock(&f->memory_lock);
    return is_there;
}

static int far_check(struct chip *chip, struct pto_error *error)
{
    struct far *f = far_of(chip);
    int status;

    pthread_mutex_lock(&f->side.lock);
    status = sim_far_call(f, &f->side, (struct record_head){ .kind = FAR_CHECK }, NULL);
    if (status == PTO_EPEER)
        status = sim_far_tell_gone(f, error);
    else if (status < 0)
        status = sim_far_tell(&f->side, status, error);
    pthread_mutex_unlock(&f->side.lock);
    return status;
}

void sim_far_forget_memory(struct far *f)
{
    while (f->piece != NULL) {
        struct far_piece *piece = f->piece;

        f->piece = piece->next;
        free(piece);
    }
}
