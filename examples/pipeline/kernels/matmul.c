/* SPDX-License-Identifier: Apache-2.0 */
/* Tile after tile into the ring. All lanes get the same arguments: this one leaves bias and out alone. */
#include "ring.h"

void kernel_entry(int64_t *args)
{
    int block = pto_block_index(args);
    const float *a = pto_tensor_data(pto_arg_tensor(args, 0));
    const float *b = pto_tensor_data(pto_arg_tensor(args, 1));
    float *ring = pto_tensor_data(pto_arg_tensor(args, 4));
    uint32_t *flags = pto_tensor_data(pto_arg_tensor(args, 5));

    a += block * TILES * TILE * INNER;
    ring += block * SLOTS * TILE * COLUMNS;
    flags += block * FLAGS;
    for (int t = 0; t < TILES; t++) {
        float *tile = ring + t % SLOTS * TILE * COLUMNS;

        if (t >= SLOTS) { /* the tile that was here before must be gone */
            wait_until(&flags[TAKEN], t - SLOTS + 1);
            wait_until(&flags[TAKEN + 1], t - SLOTS + 1);
        }
        memset(tile, 0, TILE * COLUMNS * sizeof(*tile));
        for (int r = 0; r < TILE; r++, a += INNER, tile += COLUMNS)
            for (int k = 0; k < INNER; k++)
                for (int c = 0; c < COLUMNS; c++)
                    tile[c] += a[k] * b[k * COLUMNS + c];
        pto_notify_set(&flags[FILLED], (uint32_t)(t + 1));
    }
}
