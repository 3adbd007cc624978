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
enum { FILLED, TAKEN, FLAGS = TAKEN + 2 }; /* tiles so far; each AIV counts what it has taken */

/* What was written before the flag was raised is there when it returns. */
static inline void wait_until(const uint32_t *flag, int value)
{
    while (pto_notified(flag) < (uint32_t)value)
        pto_pause();
}

#endif
