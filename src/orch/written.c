/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that an orchestration wrote itself. */
#include "orch/written.h"

#include <string.h>

enum { WRITTEN_START = 256 };

/* The entry of a word, or the free one where it would be. */
static struct written_word *find_word(const struct written *w, uint64_t number)
{
    uint64_t at = (number * 0x9e3779b97f4a7c15ull) >> 20;

    for (;; at++) {
        struct written_word *word = &w->word[at & (w->capacity - 1)];

        if (word->bytes == 0 || word->number == number)
            return word;
    }
}

static bool grow(struct written *w)
{
    struct written old = *w;
    uint64_t capacity = old.capacity != 0 ? 2 * old.capacity : WRITTEN_START;
    void *memory = pool_take(&w->pool, capacity * sizeof(struct written_word));

    if (memory == NULL)
        return false;
    memset(memory, 0, capacity * sizeof(struct written_word));
    w->word = memory;
    w->capacity = capacity;
    for (uint64_t i = 0; i < old.capacity; i++)
        if (old.word[i].bytes != 0)
            *find_word(w, old.word[i].number) = old.word[i];
    return true;
}

void written_start(struct written *w)
{
    w->pool.used = 0;
    w->word = NULL;
    w->capacity = w->count = 0;
}

bool written_add(struct written *w, uint64_t addr, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        uint64_t number = (addr + i) / 8;
        struct written_word *word;

        if (2 * w->count >= w->capacity && !grow(w))
            return false;
        word = find_word(w, number);
        w->count += word->bytes == 0;
        word->number = number;
        word->bytes |= 1u << (addr + i) % 8;
    }
    return true;
}

uint64_t written_mask(const struct written *w, uint64_t addr, uint32_t bytes)
{
    uint64_t mask = 0;

    for (uint32_t i = 0; i < bytes && w->capacity != 0; i++)
        if ((find_word(w, (addr + i) / 8)->bytes >> (addr + i) % 8 & 1) != 0)
            mask |= 0xffull << 8 * i;
    return mask;
}
