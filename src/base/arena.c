/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory in an unnamed file, shared with another process: that process reads and writes the
 * file, the calling one uses the mapping. Pieces are whole pages, allocated first-fit; a freed
 * piece becomes a hole in the file.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "base/arena.h"

#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/os.h"
#include "pto/status.h"

enum {
    RANGES = 64, /* number of address ranges to try */
    RANGE_ALIGN = 1 << 30,
};
/*
 * Lowest address of the ranges, far from programs, libraries, stacks and sanitizer shadow memory.
 */
#define RANGE_FIRST (1ull << 45)

/*
 * A piece of an arena, free or allocated. Pieces are sorted by address and cover the whole arena.
 */
struct piece {
    struct piece *next;
    uint64_t at;
    uint64_t bytes;
    bool is_taken;
};

struct arena {
    int file;
    uint64_t offset; /* position of the arena's first byte in the file */
    bool is_part;    /* the arena is a part of a larger mapping, which belongs to the caller */
    char *base;
    uint64_t bytes;
    pthread_mutex_t lock;
    struct piece *first;
};

static bool arena_split(struct piece *p, uint64_t bytes);
static void arena_join(struct piece *p);

int arena_open_part(int file, uint64_t offset, void *addr, uint64_t bytes, struct arena **arena_out)
{
    struct arena *a = calloc(1, sizeof(*a));
    struct piece *whole = calloc(1, sizeof(*whole));

    if (a == NULL || whole == NULL) {
        free(whole);
        free(a);
        return PTO_ENOMEM;
    }
    *a = (struct arena){ .file = file,
                         .offset = offset,
                         .is_part = true,
                         .base = addr,
                         .bytes = bytes / os_page_bytes() * os_page_bytes(),
                         .first = whole };
    whole->bytes = a->bytes;
    pthread_mutex_init(&a->lock, NULL);
    *arena_out = a;
    return PTO_OK;
}

int arena_open(int file, void *addr, uint64_t bytes, struct arena **arena_out)
{
    void *base;
    int status;

    bytes = bytes / os_page_bytes() * os_page_bytes();
    base = mmap(addr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (base == MAP_FAILED)
        return PTO_ENOMEM;
    status = base == addr ? arena_open_part(file, 0, addr, bytes, arena_out) : PTO_EAGAIN;
    if (status < 0)
        munmap(base, bytes);
    else
        (*arena_out)->is_part = false;
    return status;
}

void arena_close(struct arena *a)
{
    if (a == NULL)
        return;
    while (a->first != NULL) {
        struct piece *next = a->first->next;

        free(a->first);
        a->first = next;
    }
    if (!a->is_part)
        munmap(a->base, a->bytes);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

char *arena_take(struct arena *a, uint64_t bytes)
{
    uint64_t page = os_page_bytes();
    uint64_t rounded = (bytes + page - 1) / page * page;
    struct piece *p;

    pthread_mutex_lock(&a->lock);
    p = a->first;
    while (p != NULL && (p->is_taken || p->bytes < rounded))
        p = p->next;
    if (p != NULL && !arena_split(p, rounded))
        p = NULL;
    if (p != NULL)
        p->is_taken = true;
    pthread_mutex_unlock(&a->lock);
    return p != NULL ? a->base + p->at : NULL;
}

void arena_give(struct arena *a, char *memory)
{
    uint64_t at = (uint64_t)(memory - a->base);
    struct piece *before = NULL, *p;

    pthread_mutex_lock(&a->lock);
    for (p = a->first; p->at != at; p = p->next)
        before = p;
    assert(p->is_taken);
    /*
     * If the kernel refuses to punch a hole, the file keeps these pages until they are reused or
     * freed.
     */
    (void)fallocate(a->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(a->offset + p->at),
                    (off_t)p->bytes);
    p->is_taken = false;
    arena_join(p);
    if (before != NULL)
        arena_join(before);
    pthread_mutex_unlock(&a->lock);
}

/*
 * Shrinks a piece to `bytes` and makes a free piece of the rest. False: no memory for the new
 * piece's entry.
 */
static bool arena_split(struct piece *p, uint64_t bytes)
{
    struct piece *rest;

    if (p->bytes == bytes)
        return true;
    rest = malloc(sizeof(*rest));
    if (rest == NULL)
        return false;
    *rest = (struct piece){ p->next, p->at + bytes, p->bytes - bytes, false };
    p->next = rest;
    p->bytes = bytes;
    return true;
}

/* Joins the piece with the following one if both are free. */
static void arena_join(struct piece *p)
{
    struct piece *next = p->next;

    if (p->is_taken || next == NULL || next->is_taken)
        return;
    assert(p->at + p->bytes == next->at);
    p->bytes += next->bytes;
    p->next = next->next;
    free(next);
}

/* ---- reserving address ranges ---- */

/*
 * Reserves the range at exactly this address, or anywhere if the address is 0. NULL: something else
 * is mapped there, or memory is exhausted.
 */
static char *take_at(uint64_t addr, uint64_t bytes)
{
    char *range = mmap((void *)(uintptr_t)addr, bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (range == MAP_FAILED)
        return NULL;
    if (addr == 0 || (uint64_t)(uintptr_t)range == addr)
        return range;
    munmap(range, bytes);
    return NULL;
}

/*
 * Tries addresses that neither this process nor the child program uses by default; then addresses
 * below the one that the kernel would choose.
 */
char *arena_range_take(uint64_t bytes, uint32_t attempt)
{
    uint64_t step = (bytes + RANGE_ALIGN - 1) / RANGE_ALIGN * RANGE_ALIGN;
    char *range = NULL;

    for (uint32_t i = attempt; i < RANGES && range == NULL; i++)
        range = take_at(RANGE_FIRST + i * step, bytes);
    if (range != NULL)
        return range;
    range = take_at(0, bytes);
    if (range == NULL || attempt == 0)
        return range;
    munmap(range, bytes);
    return take_at((uint64_t)(uintptr_t)range - attempt * step, bytes);
}

void arena_range_give(char *range, uint64_t bytes)
{
    if (range != NULL)
        munmap(range, bytes);
}
