/* SPDX-License-Identifier: Apache-2.0 */
/* part[h] = sum over t of weight[h][t] * v[t] */
#include <pto/kernel.h>

PTO_KERNEL(args)
{
    PTO_GM const float *weight = PTO_ARG(args, 0, float);
    PTO_GM const struct pto_tensor *values = pto_arg_tensor(args, 1);
    PTO_GM const struct pto_tensor *parts = pto_arg_tensor(args, 2);
    PTO_GM float *part = PTO_DATA(parts, float);
    uint32_t dim = parts->shapes[1];

    for (uint32_t h = 0; h < parts->shapes[0]; h++, part += dim) {
        PTO_GM const float *v = PTO_DATA(values, float);

        for (uint32_t d = 0; d < dim; d++)
            part[d] = 0;
        for (uint32_t t = 0; t < values->shapes[1]; t++, weight++, v += values->strides[1])
            for (uint32_t d = 0; d < dim; d++)
                part[d] += *weight * v[d];
    }
}
