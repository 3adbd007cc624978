/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contexts of this process, which kernels receive, and the windows in them. Copies to and from
 * the device may name any window, so the window of a rank is found here by its address.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "compat/hostlib/hostlib.h"

/* All contexts. Copies hold the lock, so that no window is unmapped during a copy. */
static struct {
    pthread_mutex_t lock;
    struct hostlib_context *first;
} contexts = { .lock = PTHREAD_MUTEX_INITIALIZER };

struct hostlib_context *hostlib_context_create(uint32_t rank, uint32_t rank_count, uint64_t bytes)
{
    struct hostlib_context *c = calloc(1, sizeof(*c));

    assert(rank < rank_count && rank_count <= PTO_CONTEXT_RANKS);
    if (c == NULL)
        return NULL;
    c->context.rank = rank;
    c->context.rank_count = rank_count;
    c->context.window_bytes = bytes;
    pthread_mutex_lock(&contexts.lock);
    c->next = contexts.first;
    contexts.first = c;
    pthread_mutex_unlock(&contexts.lock);
    return c;
}

void hostlib_context_set(struct hostlib_context *c, uint32_t rank, uint64_t window)
{
    pthread_mutex_lock(&contexts.lock);
    c->context.window_in[rank] = c->context.window_out[rank] = window;
    pthread_mutex_unlock(&contexts.lock);
}

void hostlib_context_destroy(struct hostlib_context *c)
{
    struct hostlib_context **link;

    if (c == NULL)
        return;
    pthread_mutex_lock(&contexts.lock);
    for (link = &contexts.first; *link != c; link = &(*link)->next)
        ;
    *link = c->next;
    pthread_mutex_unlock(&contexts.lock);
    free(c);
}

static bool contains(uint64_t begin, uint64_t size, uint64_t addr, uint64_t bytes)
{
    return begin != 0 && addr >= begin && addr - begin <= size && bytes <= size - (addr - begin);
}

static bool is_reachable(const struct pto_comm_context *c, uint64_t addr, uint64_t bytes)
{
    for (uint32_t i = 0; i < c->rank_count; i++)
        if (contains(c->window_in[i], c->window_bytes, addr, bytes))
            return true;
    return false;
}

bool hostlib_window_copy(const void *window, void *to, const void *from, uint64_t bytes)
{
    uint64_t addr = (uint64_t)(uintptr_t)window;
    const struct hostlib_context *c;

    pthread_mutex_lock(&contexts.lock);
    for (c = contexts.first; c != NULL; c = c->next)
        if (is_reachable(&c->context, addr, bytes) ||
            (window == from &&
             contains((uint64_t)(uintptr_t)&c->context, sizeof(c->context), addr, bytes)))
            break;
    if (c != NULL)
        memcpy(to, from, bytes);
    pthread_mutex_unlock(&contexts.lock);
    return c != NULL;
}
