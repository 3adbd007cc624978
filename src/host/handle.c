/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of public handles. A handle has three fields:
 *
 *     63 .. 32     31 .. 4     3 .. 0
 *     generation   index       kind
 *
 * A lookup takes no lock, because programs make some calls millions of times. handle_create stores
 * `count` with release after it has allocated the chunk, and lookups load it with acquire before
 * they use the chunk; in the same way an entry's `tag` is stored after its `object`.
 */
#include "host/handle.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/atomic.h"
#include "base/lock.h"

enum { CHUNK_ENTRIES = 1024, CHUNKS = 1024, KIND_BITS = 4 };

struct entry {
    struct a64 tag; /* the handle that the entry belongs to; 0: the entry is free */
    void *object;
    uint32_t generation;
    uint32_t next_free; /* index + 1 of the next free entry; 0: none */
};

static struct {
    pthread_mutex_t lock; /* taken by threads that change the table; handle_get takes no lock */
    /* chunks are never freed, because a stale handle may refer to any of their entries */
    struct entry *chunk[CHUNKS];
    struct a32 count;
    uint32_t first_free; /* index + 1 of the first free entry; 0: none */
} table = { .lock = PTHREAD_MUTEX_INITIALIZER };

/*
 * Fork handler: takes the lock, because the child could never take it if another thread held it at
 * the fork.
 */
static void handle_lock_table(void)
{
    pthread_mutex_lock(&table.lock);
}

static void handle_unlock_table(void)
{
    pthread_mutex_unlock(&table.lock);
}

static void handle_guard_forks(void)
{
    /* ignored: pthread_atfork fails only if memory is exhausted */
    (void)pthread_atfork(handle_lock_table, handle_unlock_table, handle_unlock_table);
}

static struct entry *entry_at(uint64_t index)
{
    return &table.chunk[index / CHUNK_ENTRIES][index % CHUNK_ENTRIES];
}

/* Returns the entry that the handle refers to; NULL: the handle is invalid. */
static struct entry *handle_find_entry(enum handle_kind kind, const void *handle)
{
    uint64_t tag = (uint64_t)(uintptr_t)handle;
    uint64_t index = (uint32_t)tag >> KIND_BITS;

    if (index >= a32_load_acquire(&table.count) || tag % (1 << KIND_BITS) != (uint64_t)kind ||
        a64_load_acquire(&entry_at(index)->tag) != tag)
        return NULL;
    return entry_at(index);
}

/* Takes a free entry and returns its index; -1: the table is full, or memory is exhausted. */
static int64_t take_index(void)
{
    /* relaxed: `count` changes only under the lock */
    uint32_t index = a32_load_relaxed(&table.count);

    assert_held(&table.lock);
    if (table.first_free != 0) {
        index = table.first_free - 1;
        table.first_free = entry_at(index)->next_free;
        return index;
    }
    if (index == CHUNKS * CHUNK_ENTRIES)
        return -1;
    if (index % CHUNK_ENTRIES == 0) {
        table.chunk[index / CHUNK_ENTRIES] = calloc(CHUNK_ENTRIES, sizeof(struct entry));
        if (table.chunk[index / CHUNK_ENTRIES] == NULL)
            return -1;
    }
    a32_store_release(&table.count, index + 1);
    return index;
}

void *handle_create(enum handle_kind kind, void *object)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint64_t tag = 0;
    int64_t index;

    pthread_once(&once, handle_guard_forks);
    pthread_mutex_lock(&table.lock);
    index = take_index();
    if (index >= 0) {
        struct entry *e = entry_at((uint64_t)index);

        e->generation++;
        /* generation 0 is skipped, so that no handle equals NULL */
        e->generation += e->generation == 0;
        tag = (uint64_t)e->generation << 32 | (uint64_t)index << KIND_BITS | (uint64_t)kind;
        e->object = object;
        a64_store_release(&e->tag, tag);
    }
    pthread_mutex_unlock(&table.lock);
    return (void *)(uintptr_t)tag;
}

void *handle_get(enum handle_kind kind, const void *handle)
{
    struct entry *e = handle_find_entry(kind, handle);

    return e != NULL ? e->object : NULL;
}

void *handle_destroy(enum handle_kind kind, const void *handle)
{
    void *object = NULL;
    struct entry *e;

    pthread_mutex_lock(&table.lock);
    e = handle_find_entry(kind, handle);
    if (e != NULL) {
        object = e->object;
        a64_store_relaxed(&e->tag, 0);
        e->next_free = table.first_free;
        table.first_free = ((uint32_t)(uintptr_t)handle >> KIND_BITS) + 1;
    }
    pthread_mutex_unlock(&table.lock);
    return object;
}
