/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Domains over chips that are cards. The worker makes the children meet: each offers its window,
 * and when all have, each joins those of the others and makes its context. No child waits for another
 * one meanwhile, so one may still be busy with a task that needs what the other does next. A domain
 * that is over says so in shared memory; it stays there until all children have left it.
 */
#include <string.h>

#include "tree/tree.h"

enum { WAYS_MAX = 8 };

bool tree_has_cards(const struct tree *t)
{
    const struct pto_platform *platform = pto_platform_find(t->platform);

    return t->chip_count != 0 && platform != NULL && !platform->is_simulated;
}

struct wire_domain *tree_cards_make(struct tree *t, uint32_t count, uint64_t window_bytes)
{
    uint64_t bytes = sizeof(struct wire_domain) + count * sizeof(struct wire_member);
    struct wire_domain *w = (struct wire_domain *)(void *)arena_take(t->arena, bytes);

    if (w == NULL)
        return NULL;
    memset(w, 0, bytes);
    w->magic = TREE_MAGIC;
    w->count = count;
    w->window_bytes = window_bytes;
    return w;
}

/* One step on all members. */
static int ask_members(struct tree *t, const struct wire_domain *w, enum record_kind kind,
                       struct pto_error *error)
{
    const struct record_head head = { .kind = kind, .value = (uint64_t)(uintptr_t)w };
    uint64_t children = 0;

    for (uint32_t i = 0; i < w->count; i++)
        children |= 1ull << w->member[i].child;
    return tree_ask(t, &head, children, error);
}

int tree_cards_open(struct tree *t, struct wire_domain *w, struct pto_error *error)
{
    int status = PTO_ENOSUP;

    for (uint32_t way = 0; way < WAYS_MAX && status == PTO_ENOSUP; way++) {
        w->way = way;
        status = ask_members(t, w, RECORD_OFFER, error);
        if (status >= 0)
            status = ask_members(t, w, RECORD_JOIN, error);
    }
    return status;
}

/* Those who wait for a task to end do not hear of it by their streams. */
static void alarm_members(struct tree *t, const struct wire_domain *w)
{
    for (uint32_t i = 0; i < w->count; i++)
        bell_ring(&t->child[w->member[i].child].line->alarm);
}

void tree_cards_lose(struct tree *t, struct wire_domain *w)
{
    a32_store_relaxed(&w->is_lost, 1); /* F41 of the alarm follows */
    alarm_members(t, w);
}

void tree_cards_end(struct tree *t, struct wire_domain *w)
{
    a32_store_relaxed(&w->is_over, 1); /* F41 of the alarm follows */
    alarm_members(t, w);
}

bool tree_cards_has_left(const struct wire_domain *w, uint32_t rank)
{
    return a32_load_acquire(&w->member[rank].is_dropped) != 0; /* A43 */
}
