/* SPDX-License-Identifier: Apache-2.0 */
/* The set of bytes that an orchestration itself wrote: a hash table of eight-byte words. */
#include "orch/write_set.h"

#include <string.h>

enum { WRITTEN_START = 256 };

/* Returns the entry of a word, or the free entry in which it belongs. */
static struct write_set_word *find_word(const struct write_set *w, uint64_t number)
{
    uint64_t at = (number * 0x9e3779b97f4a7c15ull) >> 20;

    for (;; at++) {
        struct write_set_word *word = &w->word[at & (w->capacity - 1)];

        if (word->bytes == 0 || word->number == number)
            return word;
    }
}

static bool grow(struct write_set *w)
{
    struct write_set old = *w;
    uint64_t capacity = old.capacity != 0 ? 2 * old.capacity : WRITTEN_START;
    void *memory = pool_take(&w->pool, capacity * sizeof(struct write_set_word));

    if (memory == NULL)
        return false;
    memset(memory, 0, capacity * sizeof(struct write_set_word));
    w->word = memory;
    w->capacity = capacity;
    for (uint64_t i = 0; i < old.capacity; i++)
        if (old.word[i].bytes != 0)
            *find_word(w, old.word[i].number) = old.word[i];
    return true;
}

void write_set_start(struct write_set *w)
{
    w->pool.used = 0;
    w->word = NULL;
    w->capacity = w->count = 0;
}

bool write_set_add(struct write_set *w, uint64_t addr, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        uint64_t number = (addr + i) / 8;
        struct write_set_word *word;

        if (2 * w->count >= w->capacity && !grow(w))
            return false;
        word = find_word(w, number);
        w->count += word->bytes == 0;
        word->number = number;
        word->bytes |= 1u << (addr + i) % 8;
    }
    return true;
}

uint64_t write_set_mask(const struct write_set *w, uint64_t addr, uint32_t bytes)
{
    uint64_t mask = 0;

    for (uint32_t i = 0; i < bytes && w->capacity != 0; i++)
        if ((find_word(w, (addr + i) / 8)->bytes >> (addr + i) % 8 & 1) != 0)
            mask |= 0xffull << 8 * i;
    return mask;
}
