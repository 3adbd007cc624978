/* SPDX-License-Identifier: Apache-2.0 */
/* What the lanes of a block agree on: the ring of tiles, and who is how far. */
#ifndef EXAMPLES_PIPELINE_RING_H
#define EXAMPLES_PIPELINE_RING_H

#include <pto/kernel.h>

enum {
    TILES = 6, /* of a block */
    TILE = 16, /* rows of a tile */
    HALF = TILE / 2,
    INNER = 32,
    COLUMNS = 32,
    SLOTS = 2 /* tiles in a ring */
};
/* Counters of tiles: each AIV counts what it has taken. Each is in a cache line of its own core. */
enum { APART = PTO_LINE / 4, FILLED = 0, TAKEN = APART, FLAGS = TAKEN + 2 * APART };

/* What was written before the flag was raised is there when it returns. */
static inline PTO_AICORE void wait_until(PTO_GM const uint32_t *flag, int value)
{
    while (pto_notified(flag) < (uint32_t)value)
        pto_pause();
}

#endif
