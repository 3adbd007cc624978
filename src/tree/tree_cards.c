/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Domains over chips that are cards. The worker makes the children meet: each offers its window,
 * and when all have, each joins those of the others and makes its context. No child waits for another
 * one meanwhile, so one may still be busy with a task that needs what the other does next. Where the
 * vendor's library has to be joined by all at once they do wait: then they get no more tasks until they have,
 * and begin when what each of them has is over. A domain that is over says so in shared memory; it stays
 * there until all children have left it.
 */
#include <string.h>

#include "tree/tree.h"
#include "tree/tree_domain.h"
#include "tree/tree_run.h"

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

static uint64_t members_of(const struct wire_domain *w)
{
    uint64_t children = 0;

    for (uint32_t i = 0; i < w->count; i++)
        children |= 1ull << w->member[i].child;
    return children;
}

/* One step on all members. */
static int ask_members(struct tree *t, const struct wire_domain *w, enum record_kind kind,
                       struct pto_error *error)
{
    const struct record_head head = { .kind = kind, .value = (uint64_t)(uintptr_t)w };

    return tree_ask(t, &head, members_of(w), error);
}

/* ---- all at once ---- */

struct members {
    struct tree *tree;
    const struct wire_domain *wire;
    struct tree_child *busy; /* the first of them */
};

static bool are_idle(void *context)
{
    struct members *m = context;

    m->busy = NULL;
    for (uint32_t i = 0; i < m->wire->count && m->busy == NULL; i++) {
        struct tree_child *c = &m->tree->child[m->wire->member[i].child];

        if (c->state == CHILD_READY && c->in_flight != 0)
            m->busy = c;
    }
    return m->busy == NULL || a32_load_relaxed(&m->wire->is_lost) != 0; /* the worker's own */
}

static void hold_members(struct tree *t, const struct wire_domain *w, int change)
{
    for (uint32_t i = 0; i < w->count; i++)
        t->child[w->member[i].child].held += (uint32_t)change;
}

/*
 * Members of a group start together, so that none of them is held back while another one runs and waits
 * for it.
 */
static int join_at_once(struct tree *t, const struct wire_domain *w, struct pto_error *error)
{
    struct members members = { t, w, NULL };
    int status;

    hold_members(t, w, 1);
    status = tree_await(t, are_idle, &members, tree_control_deadline(t));
    if (status < 0)
        (void)error_tell(
            error, status,
            "child %u has not come to the end of its tasks within %.3f s: its card shares "
            "memory by the vendor's communication library only, which all have to join "
            "at once",
            members.busy->index, (double)t->params.control_timeout_ns / 1e9);
    else
        status = ask_members(t, w, RECORD_JOIN, error);
    hold_members(t, w, -1);
    tree_dispatch(t);
    return status;
}

int tree_cards_open(struct tree *t, struct wire_domain *w, struct pto_error *error)
{
    int status;

    do {
        status = ask_members(t, w, RECORD_OFFER, error);
        if (status >= 0 &&
            a32_load_relaxed(&w->waits) != 0) /* this and the next: the answers' A41 */
            status = join_at_once(t, w, error);
        else if (status >= 0)
            status = ask_members(t, w, RECORD_JOIN, error);
    } while (status == PTO_ENOSUP && ++w->way < a32_load_relaxed(&w->way_count));
    return status;
}

/* ---- the end ---- */

/* Those who wait for a task to end do not hear of it by their streams. */
static void alarm_members(struct tree *t, const struct wire_domain *w)
{
    for (uint32_t i = 0; i < w->count; i++)
        waker_wake(&t->child[w->member[i].child].line->alarm);
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
