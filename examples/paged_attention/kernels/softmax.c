/* SPDX-License-Identifier: Apache-2.0 */
/* weight[h][t] = exp(scale * score[h][t] - max[h]), sum[h] = their sum. */
#include <pto/orch.h>

#include "exp.h"

void kernel_entry(int64_t *args)
{
    const struct pto_tensor *scores = pto_arg_tensor(args, 0);
    const float *score = pto_tensor_data(scores);
    float *weight = pto_tensor_data(pto_arg_tensor(args, 1));
    float *max = pto_tensor_data(pto_arg_tensor(args, 2));
    float *sum = pto_tensor_data(pto_arg_tensor(args, 3));
    float scale = pto_arg_float(args, 4);
    uint32_t count = scores->shapes[1];

    for (uint32_t h = 0; h < scores->shapes[0]; h++, score += count, weight += count) {
        max[h] = scale * score[0];
        for (uint32_t t = 1; t < count; t++)
            max[h] = scale * score[t] > max[h] ? scale * score[t] : max[h];
        sum[h] = 0;
        for (uint32_t t = 0; t < count; t++) {
            weight[t] = kernel_exp(scale * score[t] - max[h]);
            sum[h] += weight[t];
        }
    }
}
