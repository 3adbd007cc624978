/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of chips that are cards. Their memory is the card's, which only the child reaches: what lies in the
 * worker's memory is a mirror, and the child copies parts of it, in the order in which they are
 * listed, as it is asked to: to the card what the host has written, from it what the host wants to
 * know. It does so beside its tasks, one errand at a time, and an errand that brings something to
 * the card is not waited for: the next one is. The lock is held, and left by whoever waits.
 */
#include <string.h>

#include "tree/tree.h"
#include "tree/tree_region.h"
#include "tree/tree_run.h"

/* Somebody who wants to send the child. */
struct turn {
    struct tree_child *child;
    uint32_t generation;
    bool is_look; /* others go first */
};

static bool mirror_has_gone(const struct turn *turn)
{
    return turn->child->generation != turn->generation || turn->child->state != CHILD_READY;
}

static bool mirror_is_free(const struct tree_child *c)
{
    const struct wire_errand *e = &c->line->errand;

    return a32_load_acquire(&e->done) == /* A45 */
           a32_load_relaxed(&e->asked);  /* the worker's own */
}

static bool has_turn(void *context)
{
    const struct turn *turn = context;

    return mirror_has_gone(turn) || (mirror_is_free(turn->child) && !turn->child->is_awaited &&
                                     !(turn->is_look && turn->child->wanting != 0));
}

static bool is_back(void *context)
{
    const struct turn *turn = context;

    return mirror_has_gone(turn) || mirror_is_free(turn->child);
}

static int mirror_tell_gone(const struct turn *turn, struct pto_error *error)
{
    return error_tell(error, PTO_EPEER,
                      "chip %u is dead, and what the region held has gone with it",
                      turn->child->index);
}

static int tell_late(const struct turn *turn, struct pto_error *error)
{
    return error_tell(error, PTO_ETIMEOUT, "chip %u did not copy in time", turn->child->index);
}

/* What the child said; it is not trusted. */
static int mirror_take_answer(const struct tree_child *c, struct pto_error *error)
{
    const struct wire_errand *e = &c->line->errand;
    int status = e->status;
    char text[TREE_TEXT];

    if (status >= 0)
        return PTO_OK;
    memcpy(text, e->text, sizeof(text));
    text[sizeof(text) - 1] = '\0';
    (void)pto_text_clean(text, true);
    return error_tell(error, status, "chip %u: %.400s", c->index, text);
}

static void mirror_ask(struct tree_child *c, const struct mirror *m, enum errand_kind kind,
                       const struct errand_part *part, uint32_t count)
{
    struct wire_errand *e = &c->line->errand;

    e->kind = kind;
    e->mirror = m->addr;
    e->bytes = m->bytes;
    e->part_count = count;
    if (count != 0)
        memcpy(e->part, part, count * sizeof(*part));
    e->status = PTO_OK;
    a32_store_release(&e->asked, a32_load_relaxed(&e->asked) + 1); /* R44; its own */
    waker_wake(&c->line->alarm);
}

/* Until the child could be sent. */
static int await_turn(struct tree *t, struct turn *turn, uint64_t deadline_ns,
                      struct pto_error *error)
{
    struct tree_child *c = turn->child;
    int status;

    assert_held(&t->lock);
    c->wanting += !turn->is_look;
    status = tree_await(t, has_turn, turn, deadline_ns);
    c->wanting -= !turn->is_look;
    if (mirror_has_gone(turn))
        return mirror_tell_gone(turn, error);
    return status < 0 ? tell_late(turn, error) : PTO_OK;
}

/* The same; a copy that nobody has waited for, and that has failed, is what all later ones are told. */
static int await_move(struct tree *t, struct turn *turn, uint64_t deadline_ns,
                      struct pto_error *error)
{
    int status = await_turn(t, turn, deadline_ns, error);

    if (status >= 0 && turn->child->line->errand.kind == ERRAND_MOVE)
        status = mirror_take_answer(turn->child, error);
    return status;
}

static int await_back(struct tree *t, struct turn *turn, uint64_t deadline_ns,
                      struct pto_error *error)
{
    int status;

    turn->child->is_awaited = true; /* nobody asks for more before the answer was read */
    status = tree_await(t, is_back, turn, deadline_ns);
    turn->child->is_awaited = false;
    tree_note(t);
    if (mirror_has_gone(turn))
        return mirror_tell_gone(turn, error);
    return status < 0 ? tell_late(turn, error) : mirror_take_answer(turn->child, error);
}

int tree_mirror_open(struct tree *t, struct mirror *m, struct pto_error *error)
{
    struct turn turn = { &t->child[m->chip], t->child[m->chip].generation, false };
    uint64_t deadline_ns = tree_control_deadline(t);
    int status = await_turn(t, &turn, deadline_ns, error);

    m->generation = turn.generation;
    if (status < 0)
        return status;
    mirror_ask(turn.child, m, ERRAND_OPEN, NULL, 0);
    return await_back(t, &turn, deadline_ns, error);
}

/* Nobody copies from or to the mirror any more: not either a process that is about to end. */
static bool is_left(const struct turn *turn)
{
    return turn->child->generation != turn->generation || turn->child->state == CHILD_DEAD;
}

static bool can_close(void *context)
{
    const struct turn *turn = context;

    return is_left(turn) || (turn->child->state == CHILD_READY && has_turn(context));
}

int tree_mirror_close(struct tree *t, const struct mirror *m, struct pto_error *error)
{
    struct turn turn = { &t->child[m->chip], m->generation, false };
    int status = tree_await(t, can_close, &turn, tree_control_deadline(t));

    assert_held(&t->lock);
    if (status < 0)
        return tell_late(&turn, error);
    if (!is_left(&turn))
        mirror_ask(turn.child, m, ERRAND_CLOSE, NULL,
                   0); /* nobody waits: what comes next is behind it */
    return PTO_OK;
}

int tree_mirror_send(struct tree *t, const struct mirror *m, const struct mirror_copy *copy,
                     uint64_t deadline_ns, struct pto_error *error)
{
    struct turn turn = { &t->child[m->chip], m->generation, false };
    int status = await_move(t, &turn, deadline_ns, error);

    if (status >= 0)
        mirror_ask(turn.child, m, ERRAND_MOVE, copy->part, copy->count);
    return status;
}

int tree_mirror_fetch(struct tree *t, const struct mirror *m, const struct mirror_copy *copy,
                      uint64_t deadline_ns, struct pto_error *error)
{
    struct turn turn = { &t->child[m->chip], m->generation, copy->is_look };
    int status = await_move(t, &turn, deadline_ns, error);

    if (status < 0)
        return status;
    mirror_ask(turn.child, m, ERRAND_MOVE, copy->part, copy->count);
    return await_back(t, &turn, deadline_ns, error);
}
