/* SPDX-License-Identifier: Apache-2.0 */
/* Time from the counter that all processors of a card share. */
#ifndef PTO_COUNTER_H
#define PTO_COUNTER_H

#include <stdint.h>

/*
 * Ticks per second of the fastest counter: the newer generation's. The older generation's has 50
 * MHz.
 */
#define COUNTER_FASTEST 1000000000ull

/*
 * Converts ticks to nanoseconds. Firmware may leave the rate at 0; then the counter is assumed to
 * be the fastest one, so that time passes, and deadlines come late rather than early.
 */
static inline uint64_t counter_ns(uint64_t ticks, uint64_t rate)
{
    if (rate == 0)
        rate = COUNTER_FASTEST;
    return ticks / rate * 1000000000ull + ticks % rate * 1000000000ull / rate;
}

#endif
