/* SPDX-License-Identifier: Apache-2.0 */
/* out = max(sum + bias, 0); out is a part of a larger matrix. */
#include <pto/kernel.h>

PTO_KERNEL(args)
{
    PTO_GM const float *sum = PTO_ARG(args, 0, float);
    PTO_GM const float *bias = PTO_ARG(args, 1, float);
    PTO_GM const struct pto_tensor *out = pto_arg_tensor(args, 2);
    PTO_GM float *to = PTO_DATA(out, float);

    for (uint32_t r = 0; r < out->shapes[0]; r++, to += out->strides[0])
        for (uint32_t c = 0; c < out->shapes[1]; c++) {
            float x = *sum++ + bias[c];

            to[c] = x > 0 ? x : 0;
        }
}
