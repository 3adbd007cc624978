/* SPDX-License-Identifier: Apache-2.0 */
/* The statistics of all tiles, rescaled to the largest maximum. */
#include <pto/kernel.h>

#include "exp.h"

void kernel_entry(int64_t *args)
{
    const struct pto_tensor *parts = pto_arg_tensor(args, 0);
    const float *part_max = pto_tensor_data(parts);
    const float *part_sum = pto_tensor_data(pto_arg_tensor(args, 1));
    float *max = pto_tensor_data(pto_arg_tensor(args, 2));
    float *sum = pto_tensor_data(pto_arg_tensor(args, 3));
    uint32_t tiles = parts->shapes[0], rows = parts->shapes[1];

    for (uint32_t r = 0; r < rows; r++) {
        max[r] = part_max[r];
        for (uint32_t t = 1; t < tiles; t++)
            max[r] = part_max[t * rows + r] > max[r] ? part_max[t * rows + r] : max[r];
        sum[r] = 0;
        for (uint32_t t = 0; t < tiles; t++)
            sum[r] += part_sum[t * rows + r] * kernel_exp(part_max[t * rows + r] - max[r]);
    }
}
