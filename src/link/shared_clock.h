/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One virtual clock for several processes, in memory that all of them have mapped. Each process is
 * a member of the clock and publishes a time, before which it will have no further effect on
 * others. A member acts only at a time that is not after that of any other member; equal times are
 * ordered by the members' numbers. So one member acts at a time, in an order that does not depend
 * on the machine.
 *
 *     reach      publish a time, wait for the turn, act
 *     announce   after acting: other members may wait for what was done
 *     look       after each announcement, each member that waits for others checks its condition
 *                once (it looks); the announcing member waits for these looks before its next
 *                turn, because a member that looked may publish an earlier time
 *
 * The time SHARED_CLOCK_NEVER means that a member does nothing until another one acts or gives it
 * work. A member that gives work to another one sets the other's time, before it raises its own.
 *
 * Ordering
 *   R46 publish -> A46 is_first   effects of a member before its time rose are visible
 *   R47 changed -> A47 is_first   a scan of all times that missed a change is repeated
 *   R48 see -> A48 is_first       times that a waiting member published when it looked are visible
 */
#ifndef PTO_SHARED_CLOCK_H
#define PTO_SHARED_CLOCK_H

#include "base/waker.h"

enum { SHARED_CLOCK_MEMBERS = 65 };

#define SHARED_CLOCK_NEVER UINT64_MAX
#define SHARED_CLOCK_BEGIN_NS 1000000000ull /* time at which every clock begins, in ns; never 0 */

struct shared_clock_member {
    alignas(WAKER_LINE) struct a64 ns;
    struct a64 seen; /* number of the latest announcement at which the member has looked */
    /* not 0: the member waits for other members, and looks after each announcement */
    struct a32 awaits;
};

struct shared_clock {
    struct waker waker;                     /* wakes the members that wait for their turn */
    alignas(WAKER_LINE) struct a32 version; /* incremented after each change of a member's time */
    struct a64 announced;                   /* number of announcements so far */
    struct a64 announced_ns;                /* time of the latest announcement */
    struct shared_clock_member member[SHARED_CLOCK_MEMBERS];
};

/* Which shared clock a process uses, and as which member. */
struct shared_clock_place {
    struct shared_clock *clock; /* NULL: the process has a clock of its own */
    uint32_t member;
    /* Real time in ns after which a run is given up if the clock has not changed; 0: no limit. */
    uint64_t limit_ns;
};

/* Initialises a clock in zeroed memory; every member's time is SHARED_CLOCK_NEVER. */
void shared_clock_init(struct shared_clock *c);

/* Sets the time of a member: of the caller itself, or of a member that gets work or has ended. */
void shared_clock_publish(struct shared_clock *c, uint32_t member, uint64_t ns);
static inline uint64_t shared_clock_time(const struct shared_clock *c, uint32_t member)
{
    return a64_load_acquire(&c->member[member].ns);
}
/* Removes a member that has left or died, so that no other member waits for it any more. */
void shared_clock_drop(struct shared_clock *c, uint32_t member);
/*
 * Returns the earliest time of all members except member `but`; SHARED_CLOCK_NEVER: none will act.
 */
uint64_t shared_clock_least(const struct shared_clock *c, uint32_t but);

/* Whether the member may act now (its turn). Its time must not be SHARED_CLOCK_NEVER. */
bool shared_clock_is_first(const struct shared_clock *c, uint32_t member);
/*
 * Waits until it is the member's turn, until there is an announcement after which it has to look,
 * or until the deadline, which is in real time. Returns whether it is the member's turn.
 */
bool shared_clock_await(struct shared_clock *c, uint32_t member, uint64_t deadline_ns);

/* Announces that the member has acted at this time; called in its turn. */
void shared_clock_announce(struct shared_clock *c, uint32_t member, uint64_t ns);
/* Sets whether the member waits for others; called in its turn. */
void shared_clock_set_awaits(struct shared_clock *c, uint32_t member, bool awaits);
/*
 * Whether there was an announcement after which the member has not looked yet. After the look it
 * calls shared_clock_see with *announced_out.
 */
bool shared_clock_must_look(const struct shared_clock *c, uint32_t member, uint64_t *announced_out);
void shared_clock_see(struct shared_clock *c, uint32_t member, uint64_t announced);

#endif
