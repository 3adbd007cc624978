/* SPDX-License-Identifier: Apache-2.0 */
/* Tile after tile into the ring. All lanes get the same arguments: this one leaves bias and out alone. */
#include "ring.h"

PTO_KERNEL(args)
{
    int block = pto_block_index(args);
    PTO_GM const float *a = PTO_ARG(args, 0, float);
    PTO_GM const float *b = PTO_ARG(args, 1, float);
    PTO_GM float *ring = PTO_ARG(args, 4, float);
    PTO_GM uint32_t *flags = PTO_ARG(args, 5, uint32_t);

    a += block * TILES * TILE * INNER;
    ring += block * SLOTS * TILE * COLUMNS;
    flags += block * FLAGS;
    for (int t = 0; t < TILES; t++) {
        PTO_GM float *tile = ring + t % SLOTS * TILE * COLUMNS;

        if (t >= SLOTS) { /* the tile that was here before must be gone */
            wait_until(&flags[TAKEN], t - SLOTS + 1);
            wait_until(&flags[TAKEN + APART], t - SLOTS + 1);
        }
        for (int i = 0; i < TILE * COLUMNS; i++)
            tile[i] = 0;
        for (int r = 0; r < TILE; r++, a += INNER, tile += COLUMNS)
            for (int k = 0; k < INNER; k++)
                for (int c = 0; c < COLUMNS; c++)
                    tile[c] += a[k] * b[k * COLUMNS + c];
        pto_notify_set(&flags[FILLED], (uint32_t)(t + 1));
    }
}
