/* SPDX-License-Identifier: Apache-2.0 */
/* Adds a block's part to what was accumulated, both rescaled to the larger maximum. */
#include <pto/kernel.h>

#include "exp.h"

void kernel_entry(int64_t *args)
{
    const float *block_max = pto_tensor_data(pto_arg_tensor(args, 0));
    const float *block_sum = pto_tensor_data(pto_arg_tensor(args, 1));
    const struct pto_tensor *parts = pto_arg_tensor(args, 2);
    const float *part = pto_tensor_data(parts);
    float *max = pto_tensor_data(pto_arg_tensor(args, 3));
    float *sum = pto_tensor_data(pto_arg_tensor(args, 4));
    float *acc = pto_tensor_data(pto_arg_tensor(args, 5));
    float *out = pto_tensor_data(pto_arg_tensor(args, 6));
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
