/* SPDX-License-Identifier: Apache-2.0 */
/* A virtual clock that several processes share: shared_clock.h describes it. */
#include "link/shared_clock.h"

void shared_clock_init(struct shared_clock *c)
{
    for (uint32_t i = 0; i < SHARED_CLOCK_MEMBERS; i++) {
        /* relaxed: no other process has the clock yet */
        a64_store_relaxed(&c->member[i].ns, SHARED_CLOCK_NEVER);
        a64_store_relaxed(&c->member[i].seen, 0);
        a32_store_relaxed(&c->member[i].awaits, 0);
    }
}

static void changed(struct shared_clock *c)
{
    (void)a32_add_acq_rel(&c->version, 1); /* R47: the version changes after the time */
    waker_wake(&c->waker);
}

void shared_clock_publish(struct shared_clock *c, uint32_t member, uint64_t ns)
{
    a64_store_release(&c->member[member].ns, ns); /* R46: publishes what this member did before */
    changed(c);
}

void shared_clock_drop(struct shared_clock *c, uint32_t member)
{
    a32_store_release(&c->member[member].awaits, 0);
    shared_clock_publish(c, member, SHARED_CLOCK_NEVER);
}

uint64_t shared_clock_least(const struct shared_clock *c, uint32_t but)
{
    uint64_t least = SHARED_CLOCK_NEVER;

    for (uint32_t i = 0; i < SHARED_CLOCK_MEMBERS; i++) {
        uint64_t ns = i != but ? shared_clock_time(c, i) : SHARED_CLOCK_NEVER;

        least = ns < least ? ns : least;
    }
    return least;
}

/*
 * Whether `member`, which wants to act at time `ns`, has to wait for `other`: because of the
 * other's time, or because the other has not checked its condition since the last announcement.
 */
static bool is_after(const struct shared_clock *c, uint32_t member, uint64_t ns, uint32_t other)
{
    const struct shared_clock_member *m = &c->member[other];
    uint64_t its_ns;

    if (a32_load_acquire(&m->awaits) != 0 &&
        a64_load_acquire(&m->seen) != a64_load_acquire(&c->announced)) /* A48: its look */
        return true;
    its_ns = a64_load_acquire(&m->ns);                      /* A46: loads the other member's time */
    return its_ns < ns || (its_ns == ns && other < member); /* mutation: clock-order */
}

bool shared_clock_is_first(const struct shared_clock *c, uint32_t member)
{
    /* relaxed: only this member changes its own time in its turn */
    uint64_t ns = a64_load_relaxed(&c->member[member].ns);
    uint32_t version;

    if (ns == SHARED_CLOCK_NEVER)
        return false;
    /*
     * While the members are scanned, one that is scanned later may give work to one that was
     * scanned before, and then raise its own time. The version has changed then, and the scan is
     * repeated.
     */
    do {
        version = a32_load_acquire(&c->version); /* A47: version before the scan */
        for (uint32_t i = 0; i < SHARED_CLOCK_MEMBERS; i++)
            if (i != member && is_after(c, member, ns, i))
                return false;
    } while (a32_load_acquire(&c->version) != version); /* A47: version after the scan */
    return true;
}

struct turn {
    struct shared_clock *clock;
    uint32_t member;
};

static bool has_turn_or_look(void *context)
{
    const struct turn *t = context;
    uint64_t announced;

    return shared_clock_is_first(t->clock, t->member) ||
           shared_clock_must_look(t->clock, t->member, &announced);
}

bool shared_clock_await(struct shared_clock *c, uint32_t member, uint64_t deadline_ns)
{
    struct turn t = { c, member };

    (void)waker_await(&c->waker,
                      &(struct waker_wait){ .holds = has_turn_or_look,
                                            .context = &t,
                                            .policy = waker_spin_policy(SHARED_CLOCK_MEMBERS),
                                            .deadline_ns = deadline_ns });
    return shared_clock_is_first(c, member);
}

void shared_clock_announce(struct shared_clock *c, uint32_t member, uint64_t ns)
{
    /* relaxed: only the member whose turn it is writes it */
    uint64_t number = a64_load_relaxed(&c->announced) + 1;

    /* relaxed: the release of `announced` below publishes it */
    a64_store_relaxed(&c->announced_ns, ns);
    /* the announcing member itself need not look */
    a64_store_release(&c->member[member].seen, number);
    a64_store_release(&c->announced, number);
    changed(c);
}

void shared_clock_set_awaits(struct shared_clock *c, uint32_t member, bool awaits)
{
    /* relaxed: only the member whose turn it is writes it */
    a64_store_release(&c->member[member].seen, a64_load_relaxed(&c->announced));
    a32_store_release(&c->member[member].awaits, awaits);
    changed(c);
}

bool shared_clock_must_look(const struct shared_clock *c, uint32_t member, uint64_t *announced_out)
{
    const struct shared_clock_member *m = &c->member[member];

    *announced_out = a64_load_acquire(&c->announced);
    return a32_load_acquire(&m->awaits) != 0 && a64_load_acquire(&m->seen) != *announced_out;
}

void shared_clock_see(struct shared_clock *c, uint32_t member, uint64_t announced)
{
    /* R48: publishes that the member has looked */
    a64_store_release(&c->member[member].seen, announced);
    changed(c);
}
