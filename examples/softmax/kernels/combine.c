/* SPDX-License-Identifier: Apache-2.0 */
/* The statistics of all tiles, rescaled to the largest maximum. */
#include <pto/kernel.h>

#include "exp.h"

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *parts = pto_arg_tensor(args, 0);
    PTO_GM const float *part_max = PTO_DATA(parts, float);
    PTO_GM const float *part_sum = PTO_ARG(args, 1, float);
    PTO_GM float *max = PTO_ARG(args, 2, float);
    PTO_GM float *sum = PTO_ARG(args, 3, float);
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
