/* SPDX-License-Identifier: Apache-2.0 */
/* weight[h][t] = exp(scale * score[h][t] - max[h]), sum[h] = their sum. */
#include <pto/orch.h>

#include "exp.h"

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *scores = pto_arg_tensor(args, 0);
    PTO_GM const float *score = PTO_DATA(scores, float);
    PTO_GM float *weight = PTO_ARG(args, 1, float);
    PTO_GM float *max = PTO_ARG(args, 2, float);
    PTO_GM float *sum = PTO_ARG(args, 3, float);
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
