/* SPDX-License-Identifier: Apache-2.0 */
/* Adds a block's part to the accumulated sum, both rescaled to the larger maximum. */
#include <pto/kernel.h>

#include "exp.h"

PTO_KERNEL(args)
{
    PTO_GM const float *block_max = PTO_ARG(args, 0, float);
    PTO_GM const float *block_sum = PTO_ARG(args, 1, float);
    PTO_GM const struct pto_tensor *parts = pto_arg_tensor(args, 2);
    PTO_GM const float *part = PTO_DATA(parts, float);
    PTO_GM float *max = PTO_ARG(args, 3, float);
    PTO_GM float *sum = PTO_ARG(args, 4, float);
    PTO_GM float *acc = PTO_ARG(args, 5, float);
    PTO_GM float *out = PTO_ARG(args, 6, float);
    bool is_first = args[7] != 0, is_last = args[8] != 0;
    uint32_t dim = parts->shapes[1];

    for (uint32_t h = 0; h < parts->shapes[0]; h++, part += dim, acc += dim, out += dim) {
        float both = is_first || block_max[h] > max[h] ? block_max[h] : max[h];
        float keep = is_first ? 0 : kernel_exp(max[h] - both);
        float add = kernel_exp(block_max[h] - both);

        max[h] = both;
        sum[h] = is_first ? block_sum[h] : sum[h] * keep + block_sum[h] * add;
        for (uint32_t d = 0; d < dim; d++) {
            acc[d] = is_first ? part[d] : acc[d] * keep + part[d] * add;
            if (is_last)
                out[d] = acc[d] / sum[h];
        }
    }
}
