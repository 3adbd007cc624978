/* SPDX-License-Identifier: Apache-2.0 */
/* Time by the counter that all processors of a card share. */
#ifndef PTO_COUNTER_H
#define PTO_COUNTER_H

#include <stdint.h>

/* Ticks per second of the fastest counter of a card: the newer generation's. The older has 50 MHz. */
#define COUNTER_FASTEST 1000000000ull

/*
 * Nanoseconds of so many ticks. A counter whose rate reads as 0, as firmware may leave it, is taken
 * for the fastest one: time then passes, and deadlines come late rather than early.
 */
static inline uint64_t counter_ns(uint64_t ticks, uint64_t rate)
{
    if (rate == 0)
        rate = COUNTER_FASTEST;
    return ticks / rate * 1000000000ull + ticks % rate * 1000000000ull / rate;
}

#endif
