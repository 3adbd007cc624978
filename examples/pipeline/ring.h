/* SPDX-License-Identifier: Apache-2.0 */
/* State shared by the lanes of a block: the ring of tiles, and the progress of each lane. */
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
/* Counters of the tiles that each AIV has taken. Each is in a cache line of its own core. */
enum { APART = PTO_LINE / 4, FILLED = 0, TAKEN = APART, FLAGS = TAKEN + 2 * APART };

/* Waits for the flag; writes that preceded it are then visible. */
static inline PTO_AICORE void wait_until(PTO_GM const uint32_t *flag, int value)
{
    while (pto_notified(flag) < (uint32_t)value)
        pto_pause();
}

#endif
