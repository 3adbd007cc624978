/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chips that share a clock (link/shared_clock.h): a chip acts only in its turn. Its scheduler, its
 * orchestration and its kernels run on real threads, but before one of them reads or writes what
 * other chips can see, the chip waits until no other member is at an earlier time. What a kernel
 * did is announced when it has returned, or waits; other chips then look at their late kernels.
 */
#include "virtual/virtual.h"

/* interval in which the chip shows that it is alive while it waits for the shared clock */
enum { TURN_LOOK_NS = 5000000 };

static bool is_cancelled(const struct virtual_chip *v)
{
    /* relaxed: the chip notices the cancellation at its next check */
    return a64_load_relaxed(&v->cancelled) >= v->request->number;
}

/* Announces, in the chip's turn, what it has done. */
static void announce(struct virtual_chip *v)
{
    struct shared_clock_place at = v->shared;
    uint32_t late;

    /* repeats as long as late kernels return: each one that returns may make another one return */
    do {
        virtual_settle(v);
        late = v->late;
        virtual_look_at_late(v, v->acted_ns);
    } while (v->late < late);
    shared_clock_set_awaits(at.clock, at.member, v->late != 0);
    shared_clock_announce(at.clock, at.member, v->acted_ns);
    v->has_acted = false;
}

/* Looks at the late kernels after another member's announcement. True: one has returned. */
static bool look(struct virtual_chip *v, uint64_t announced_ns)
{
    uint32_t late = v->late;

    virtual_look_at_late(v, announced_ns);
    return v->late < late;
}

/*
 * Cancels the run if the clock has not changed for long in real time, because another member does
 * not continue.
 */
static void check_limit(struct virtual_chip *v, uint32_t *version, uint64_t *since_ns)
{
    /* relaxed: the value is only compared */
    uint32_t seen = a32_load_relaxed(&v->shared.clock->version);
    uint64_t now_ns = os_now_ns();

    if (seen != *version) {
        *version = seen;
        *since_ns = now_ns;
    }
    if (v->shared.limit_ns == 0 || now_ns - *since_ns < v->shared.limit_ns)
        return;
    v->is_held = true;
    pthread_mutex_lock(&v->lock);
    /* relaxed: `cancelled` changes only under the lock */
    if (v->request->number > a64_load_relaxed(&v->cancelled))
        a64_store_relaxed(&v->cancelled, v->request->number);
    pthread_mutex_unlock(&v->lock);
}

bool virtual_turn_at(struct virtual_chip *v, uint64_t ns)
{
    struct shared_clock_place at = v->shared;
    bool has_returned = false;
    uint64_t announced, since_ns = os_now_ns();
    uint32_t version = 0;

    if (at.clock == NULL)
        return ns != VIRTUAL_NEVER;
    if (v->has_acted)
        announce(v);
    shared_clock_publish(at.clock, at.member, ns);
    for (;;) {
        bool is_first = shared_clock_await(at.clock, at.member, os_now_ns() + TURN_LOOK_NS);

        virtual_show_live(v);
        check_limit(v, &version, &since_ns);
        if (shared_clock_must_look(at.clock, at.member, &announced)) {
            uint64_t announced_ns =
                /* relaxed: shared_clock_must_look has acquired the announcement */
                a64_load_relaxed(&at.clock->announced_ns);

            v->frozen_ns = 0;
            if (look(v, announced_ns)) {
                has_returned = true;
                v->acted_ns = announced_ns;
                /*
                 * the time is published before shared_clock_see, because what the kernel does next
                 * happens at that time
                 */
                shared_clock_publish(at.clock, at.member, announced_ns);
            }
            shared_clock_see(at.clock, at.member, announced);
        } else if (is_first) {
            v->has_acted = has_returned;
            return !has_returned;
        } else if (is_cancelled(v) || (ns == VIRTUAL_NEVER && !has_returned)) {
            return false;
        }
    }
}

void virtual_turn(struct virtual_chip *v)
{
    while (!virtual_turn_at(v, v->clock->now_ns) && !is_cancelled(v)) {
    }
}

bool virtual_turn_is_alive(const struct virtual_chip *v)
{
    return v->shared.clock != NULL &&
           shared_clock_least(v->shared.clock, v->shared.member) != SHARED_CLOCK_NEVER;
}

void virtual_turn_acted(struct virtual_chip *v)
{
    v->has_acted = v->shared.clock != NULL;
    v->acted_ns = v->clock->now_ns;
}

void virtual_turn_end(struct virtual_chip *v)
{
    struct shared_clock_place at = v->shared;

    if (at.clock == NULL)
        return;
    if (v->result.failure.status >= 0)
        virtual_turn(v);
    /*
     * after a failure: kernels may never return, and the other members do not wait for this chip
     * any more
     */
    else
        shared_clock_publish(at.clock, at.member, v->clock->now_ns);
    a32_store_release(&at.clock->member[at.member].awaits, 0);
}
