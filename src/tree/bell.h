/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bells: how a process of a worker of level 3 sleeps until another one has something for it.
 *
 * Ordering
 *   F41 bell_ring: store, fence, look for sleepers   against   bell_sleep: announce, fence, look
 *       again: one of the two sees the other.
 */
#ifndef PTO_BELL_H
#define PTO_BELL_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

enum { BELL_LINE = 64 };

struct bell {
    alignas(BELL_LINE) struct a32 asleep; /* counts how often somebody went to sleep */
    struct a32 answered;                  /* up to which of these they were woken */
    alignas(BELL_LINE) struct a32 count;  /* they sleep on it */
    struct a32 luck;                      /* of those who wait: how often looking was enough */
    struct a32 wait_ns;                   /* and how long they had to wait, if that was not long */
};

/* After a store that somebody may sleep for. */
void bell_ring(struct bell *b);
/* The same for whoever did not see to F41: wakes in any case. */
void bell_wake(struct bell *b);
/* Whatever was written to it: everybody who sleeps is woken, and the next ring wakes. */
void bell_restore(struct bell *b);

/* How long to look before sleeping. */
struct patience {
    uint32_t spin_ns;  /* without a pause */
    uint32_t yield_ns; /* then letting others run */
    uint32_t most_ns;  /* and no longer than that, if it was not enough the last time */
};
struct patience bell_patience(uint32_t processes);

/*
 * Looks again and again until `holds` does or the deadline has passed (UINT64_MAX: none):
 * false. At first without a pause, then it sleeps on the bell.
 */
bool bell_await(struct bell *b, bool (*holds)(void *context), void *context,
                struct patience patience, uint64_t deadline_ns);

#endif
