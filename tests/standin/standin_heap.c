/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap of a card's control processor if that is a thread: memory that its programs allocate
 * belongs to them until they free it, or until a forced reset, which would end the process on a
 * real card. When a card is closed regularly, all of it must be free.
 */
#include <stdlib.h>

#include "tests/standin/standin.h"

struct block {
    struct block *next;
    void *at;
    uint32_t card;
};

static struct block *blocks;

void *standin_heap_keep(void *at)
{
    struct block *b = at != NULL ? malloc(sizeof(*b)) : NULL;

    if (at != NULL && b == NULL)
        abort();
    pthread_mutex_lock(&standin.lock);
    if (b != NULL) {
        *b = (struct block){ blocks, at, standin_here != NULL ? standin_here->card : 0 };
        blocks = b;
    }
    pthread_mutex_unlock(&standin.lock);
    return at;
}

static void drop(struct block **link)
{
    struct block *b = *link;

    *link = b->next;
    free(b->at);
    free(b);
}

void standin_heap_free(void *at)
{
    struct block **link = &blocks;

    pthread_mutex_lock(&standin.lock);
    while (*link != NULL && (*link)->at != at)
        link = &(*link)->next;
    if (*link != NULL)
        drop(link);
    else if (at != NULL)
        standin_violation("a program of the control processor frees %p, which is not its own", at);
    pthread_mutex_unlock(&standin.lock);
}

uint32_t standin_forget_heap(uint32_t card)
{
    uint32_t count = 0;

    for (struct block **link = &blocks; *link != NULL;) {
        if ((*link)->card == card && !standin.card[card].is_haunted) {
            drop(link);
            count++;
        } else {
            link = &(*link)->next;
        }
    }
    return count;
}
