/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of chips that are cards. Only the child can access a region's memory on the card. The
 * worker's memory has a mirror of it, and the child copies parts on request, in the order in which
 * the request lists them: to the card what the host has written, from the card what the host reads.
 * A thread of the child does so while another one runs tasks, one request at a time. After a
 * request that copies to the card, the worker does not wait; it waits before its next request to
 * that child. All functions are called with the lock, and release it while they wait.
 */
#include <string.h>

#include "tree/tree.h"
#include "tree/tree_region.h"
#include "tree/tree_run.h"

/* A thread of the worker that wants to send a request to the child of a card. */
struct turn {
    struct tree_child *child;
    uint32_t generation;
    bool is_look; /* a request that only polls the card: requests of other threads go first */
};

static bool mirror_has_gone(const struct turn *turn)
{
    return turn->child->generation != turn->generation || turn->child->state != CHILD_READY;
}

static bool mirror_is_free(const struct tree_child *c)
{
    const struct wire_mirror_request *e = &c->line->mirror_request;

    return a32_load_acquire(&e->done) == /* A45 */
           a32_load_relaxed(&e->asked);  /* relaxed: only the worker writes `asked` */
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

static int mirror_error_gone(const struct turn *turn, struct pto_error *error)
{
    return error_setf(error, PTO_EPEER, "chip %u is dead, and the contents of the region are lost",
                      turn->child->index);
}

static int error_set_late(const struct turn *turn, struct pto_error *error)
{
    return error_setf(error, PTO_ETIMEOUT, "chip %u did not copy in time", turn->child->index);
}

/* Reads the child's answer, without trusting its contents. */
static int mirror_take_answer(const struct tree_child *c, struct pto_error *error)
{
    const struct wire_mirror_request *e = &c->line->mirror_request;
    int status = e->status;
    char text[TREE_TEXT];

    if (status >= 0)
        return PTO_OK;
    memcpy(text, e->text, sizeof(text));
    text[sizeof(text) - 1] = '\0';
    (void)pto_text_clean(text, true);
    return error_setf(error, status, "chip %u: %.400s", c->index, text);
}

static void mirror_ask(struct tree_child *c, const struct mirror *m, enum mirror_request_kind kind,
                       const struct mirror_range *part, uint32_t count)
{
    struct wire_mirror_request *e = &c->line->mirror_request;

    e->kind = kind;
    e->mirror = m->addr;
    e->bytes = m->bytes;
    e->range_count = count;
    if (count != 0)
        memcpy(e->part, part, count * sizeof(*part));
    e->status = PTO_OK;
    /* R44; only the worker writes `asked` */
    a32_store_release(&e->asked, a32_load_relaxed(&e->asked) + 1);
    waker_wake(&c->line->alarm);
}

/* Waits until the previous request is answered and no other thread waits for an answer. */
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
        return mirror_error_gone(turn, error);
    return status < 0 ? error_set_late(turn, error) : PTO_OK;
}

/*
 * Waits until this thread may send a request that copies. If the previous request, for which no
 * thread waited, was a copy that failed, returns the error of that copy.
 */
static int await_move(struct tree *t, struct turn *turn, uint64_t deadline_ns,
                      struct pto_error *error)
{
    int status = await_turn(t, turn, deadline_ns, error);

    if (status >= 0 && turn->child->line->mirror_request.kind == MIRROR_MOVE)
        status = mirror_take_answer(turn->child, error);
    return status;
}

static int await_back(struct tree *t, struct turn *turn, uint64_t deadline_ns,
                      struct pto_error *error)
{
    int status;

    /* keeps other threads from sending a request before the answer was read */
    turn->child->is_awaited = true;
    status = tree_await(t, is_back, turn, deadline_ns);
    turn->child->is_awaited = false;
    tree_signal_change(t);
    if (mirror_has_gone(turn))
        return mirror_error_gone(turn, error);
    return status < 0 ? error_set_late(turn, error) : mirror_take_answer(turn->child, error);
}

int tree_mirror_open(struct tree *t, struct mirror *m, struct pto_error *error)
{
    struct turn turn = { &t->child[m->chip], t->child[m->chip].generation, false };
    uint64_t deadline_ns = tree_control_deadline(t);
    int status = await_turn(t, &turn, deadline_ns, error);

    m->generation = turn.generation;
    if (status < 0)
        return status;
    mirror_ask(turn.child, m, MIRROR_OPEN, NULL, 0);
    return await_back(t, &turn, deadline_ns, error);
}

/*
 * Whether the child process that had the mirror has ended. Only then is it certain that it copies
 * no more.
 */
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
        return error_set_late(&turn, error);
    if (!is_left(&turn))
        /* does not wait for the answer: the child serves later requests after this one */
        mirror_ask(turn.child, m, MIRROR_CLOSE, NULL, 0);
    return PTO_OK;
}

int tree_mirror_send(struct tree *t, const struct mirror *m, const struct mirror_copy *copy,
                     uint64_t deadline_ns, struct pto_error *error)
{
    struct turn turn = { &t->child[m->chip], m->generation, false };
    int status = await_move(t, &turn, deadline_ns, error);

    if (status >= 0)
        mirror_ask(turn.child, m, MIRROR_MOVE, copy->part, copy->count);
    return status;
}

int tree_mirror_fetch(struct tree *t, const struct mirror *m, const struct mirror_copy *copy,
                      uint64_t deadline_ns, struct pto_error *error)
{
    struct turn turn = { &t->child[m->chip], m->generation, copy->is_look };
    int status = await_move(t, &turn, deadline_ns, error);

    if (status < 0)
        return status;
    mirror_ask(turn.child, m, MIRROR_MOVE, copy->part, copy->count);
    return await_back(t, &turn, deadline_ns, error);
}
