/* SPDX-License-Identifier: Apache-2.0 */
/* part[h] = sum over t of weight[h][t] * v[t] */
#include <pto/kernel.h>

void kernel_entry(int64_t *args)
{
    const float *weight = pto_tensor_data(pto_arg_tensor(args, 0));
    const struct pto_tensor *values = pto_arg_tensor(args, 1), *parts = pto_arg_tensor(args, 2);
    float *part = pto_tensor_data(parts);
    uint32_t dim = parts->shapes[1];

    for (uint32_t h = 0; h < parts->shapes[0]; h++, part += dim) {
        const float *v = pto_tensor_data(values);

        memset(part, 0, dim * sizeof(*part));
        for (uint32_t t = 0; t < values->shapes[1]; t++, weight++, v += values->strides[1])
            for (uint32_t d = 0; d < dim; d++)
                part[d] += *weight * v[d];
    }
}
