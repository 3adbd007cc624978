/* SPDX-License-Identifier: Apache-2.0 */
/* Half of each tile, as soon as it is there. */
#include "ring.h"

PTO_KERNEL(args)
{
    int block = pto_block_index(args), lane = pto_sub_block(args);
    PTO_GM const float *bias = PTO_ARG(args, 2, float);
    PTO_GM float *out = PTO_ARG(args, 3, float);
    PTO_GM const float *ring = PTO_ARG(args, 4, float);
    PTO_GM uint32_t *flags = PTO_ARG(args, 5, uint32_t);

    out += (block * TILES * TILE + lane * HALF) * COLUMNS;
    ring += (block * SLOTS * TILE + lane * HALF) * COLUMNS;
    flags += block * FLAGS;
    for (int t = 0; t < TILES; t++, out += TILE * COLUMNS) {
        PTO_GM const float *half = ring + t % SLOTS * TILE * COLUMNS;

        wait_until(&flags[FILLED], t + 1);
        for (int i = 0; i < HALF * COLUMNS; i++) {
            float x = half[i] + bias[i % COLUMNS];

            out[i] = x > 0 ? x : 0;
        }
        pto_notify_set(&flags[TAKEN + lane * APART], (uint32_t)(t + 1));
    }
}
