/* SPDX-License-Identifier: Apache-2.0 */
/* score[h][t] = q[h] . k[t]; the rows of a page are a stride apart. */
#include <pto/kernel.h>

PTO_KERNEL(args)
{
    PTO_GM const float *q = PTO_ARG(args, 0, float);
    PTO_GM const struct pto_tensor *keys = pto_arg_tensor(args, 1);
    PTO_GM const struct pto_tensor *scores = pto_arg_tensor(args, 2);
    PTO_GM float *score = PTO_DATA(scores, float);
    uint32_t dim = keys->shapes[3];

    for (uint32_t h = 0; h < scores->shapes[0]; h++, q += dim) {
        PTO_GM const float *k = PTO_DATA(keys, float);

        for (uint32_t t = 0; t < keys->shapes[1]; t++, k += keys->strides[1]) {
            float dot = 0;

            for (uint32_t d = 0; d < dim; d++)
                dot += q[d] * k[d];
            *score++ = dot;
        }
    }
}
