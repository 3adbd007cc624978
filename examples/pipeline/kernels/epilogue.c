/* SPDX-License-Identifier: Apache-2.0 */
/* Half of each tile, as soon as it is there. */
#include "ring.h"

void kernel_entry(int64_t *args)
{
    int block = pto_block_index(args), lane = pto_sub_block(args);
    const float *bias = pto_tensor_data(pto_arg_tensor(args, 2));
    float *out = pto_tensor_data(pto_arg_tensor(args, 3));
    const float *ring = pto_tensor_data(pto_arg_tensor(args, 4));
    uint32_t *flags = pto_tensor_data(pto_arg_tensor(args, 5));

    out += (block * TILES * TILE + lane * HALF) * COLUMNS;
    ring += (block * SLOTS * TILE + lane * HALF) * COLUMNS;
    flags += block * FLAGS;
    for (int t = 0; t < TILES; t++, out += TILE * COLUMNS) {
        const float *half = ring + t % SLOTS * TILE * COLUMNS;

        wait_until(&flags[FILLED], t + 1);
        for (int i = 0; i < HALF * COLUMNS; i++) {
            float x = half[i] + bias[i % COLUMNS];

            out[i] = x > 0 ? x : 0;
        }
        pto_notify_set(&flags[TAKEN + lane], (uint32_t)(t + 1));
    }
}
