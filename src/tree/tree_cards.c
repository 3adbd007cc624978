/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Domains over chips that are cards. The worker coordinates the children: each offers its window;
 * when all have offered, each joins the windows of the others and makes its context. A child does
 * not wait for others in these steps, so it may still run a task that waits for another child's
 * task. One way of sharing windows is different: the vendor's library makes all members wait until
 * all have joined. Then the members get no tasks until they have joined, and begin to join when
 * their earlier tasks are over. A domain that is over is marked so in shared memory, where it stays
 * until all children have left it.
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

/*
 * Sends one step of opening a domain to the children that are members of it, and waits for their
 * answers: each offers its own window, or joins the windows of the others.
 */
static int ask_members(struct tree *t, const struct wire_domain *w, enum record_kind kind,
                       struct pto_error *error)
{
    const struct record_head head = { .kind = kind, .value = (uint64_t)(uintptr_t)w };

    return tree_ask(t, &head, members_of(w), error);
}

/* ---- ways of sharing windows in which all members join at once ---- */

struct members {
    struct tree *tree;
    const struct wire_domain *wire;
    /* the first member's child that still has tasks; NULL: none has any */
    struct tree_child *busy;
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
    /* relaxed: only the worker writes is_lost */
    return m->busy == NULL || a32_load_relaxed(&m->wire->is_lost) != 0;
}

static void hold_members(struct tree *t, const struct wire_domain *w, int change)
{
    for (uint32_t i = 0; i < w->count; i++)
        t->child[w->member[i].child].held += (uint32_t)change;
}

/*
 * Makes all members join when none of them has a task. They get no tasks until all have joined, so
 * that none is kept from joining by a task that waits for another member.
 */
static int join_at_once(struct tree *t, const struct wire_domain *w, struct pto_error *error)
{
    struct members members = { t, w, NULL };
    int status;

    hold_members(t, w, 1);
    status = tree_await(t, are_idle, &members, tree_control_deadline(t));
    if (status < 0)
        (void)error_setf(
            error, status,
            "child %u has not finished its tasks within %.3f s: its card shares memory only by the "
            "vendor's communication library, which all children have to join at once",
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
        /* relaxed: acquire A41 of the answers precedes the loads of waits and way_count */
        if (status >= 0 && a32_load_relaxed(&w->waits) != 0)
            status = join_at_once(t, w, error);
        else if (status >= 0)
            status = ask_members(t, w, RECORD_JOIN, error);
    } while (status == PTO_ENOSUP && ++w->way < a32_load_relaxed(&w->way_count));
    return status;
}

/* ---- the end of a domain ---- */

/*
 * Wakes the threads of the members' children that watch their domains: a child does not read its
 * stream while a task runs.
 */
static void alarm_members(struct tree *t, const struct wire_domain *w)
{
    for (uint32_t i = 0; i < w->count; i++)
        waker_wake(&t->child[w->member[i].child].line->alarm);
}

void tree_cards_lose(struct tree *t, struct wire_domain *w)
{
    a32_store_relaxed(&w->is_lost, 1); /* fence F31 of the alarm follows */
    alarm_members(t, w);
}

void tree_cards_end(struct tree *t, struct wire_domain *w)
{
    a32_store_relaxed(&w->is_over, 1); /* fence F31 of the alarm follows */
    alarm_members(t, w);
}

bool tree_cards_has_left(const struct wire_domain *w, uint32_t rank)
{
    return a32_load_acquire(&w->member[rank].is_dropped) != 0; /* A43 */
}
