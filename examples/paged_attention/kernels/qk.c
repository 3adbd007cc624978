/* SPDX-License-Identifier: Apache-2.0 */
/* score[h][t] = q[h] . k[t]; the rows of a page are a stride apart. */
#include <pto/kernel.h>

void kernel_entry(int64_t *args)
{
    const float *q = pto_tensor_data(pto_arg_tensor(args, 0));
    const struct pto_tensor *keys = pto_arg_tensor(args, 1), *scores = pto_arg_tensor(args, 2);
    float *score = pto_tensor_data(scores);
    uint32_t dim = keys->shapes[3];

    for (uint32_t h = 0; h < scores->shapes[0]; h++, q += dim) {
        const float *k = pto_tensor_data(keys);

        for (uint32_t t = 0; t < keys->shapes[1]; t++, k += keys->strides[1]) {
            float dot = 0;

            for (uint32_t d = 0; d < dim; d++)
                dot += q[d] * k[d];
            *score++ = dot;
        }
    }
}
