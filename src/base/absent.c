/* SPDX-License-Identifier: Apache-2.0 */
#include "base/absent.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

struct absent {
    struct absent *next;
    char *at;
    uint64_t bytes;
    char what[120];
};

static pthread_mutex_t absent_lock = PTHREAD_MUTEX_INITIALIZER;
static struct absent *absent_list; /* under the lock */

char *absent_reserve(uint64_t bytes, const char *what)
{
    struct absent *a = malloc(sizeof(*a));

    if (a == NULL)
        return NULL;
    a->bytes = bytes;
    a->at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (a->at == MAP_FAILED) {
        free(a);
        return NULL;
    }
    snprintf(a->what, sizeof(a->what), "%s", what);
    pthread_mutex_lock(&absent_lock);
    a->next = absent_list;
    absent_list = a;
    pthread_mutex_unlock(&absent_lock);
    return a->at;
}

void absent_release(char *at)
{
    struct absent **link, *a;

    if (at == NULL)
        return;
    pthread_mutex_lock(&absent_lock);
    for (link = &absent_list; (*link)->at != at; link = &(*link)->next)
        ;
    a = *link;
    *link = a->next;
    pthread_mutex_unlock(&absent_lock);
    (void)munmap(a->at, a->bytes);
    free(a);
}

bool absent_find(uint64_t addr, char *text, size_t size)
{
    const struct absent *a;

    pthread_mutex_lock(&absent_lock);
    for (a = absent_list; a != NULL && addr - (uint64_t)(uintptr_t)a->at >= a->bytes; a = a->next)
        ;
    if (a != NULL)
        snprintf(text, size, "%s", a->what);
    pthread_mutex_unlock(&absent_lock);
    return a != NULL;
}
