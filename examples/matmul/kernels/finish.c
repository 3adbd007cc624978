/* SPDX-License-Identifier: Apache-2.0 */
/* out = max(sum + bias, 0); out is a part of a larger matrix. */
#include <pto/kernel.h>

void kernel_entry(int64_t *args)
{
    const float *sum = pto_tensor_data(pto_arg_tensor(args, 0));
    const float *bias = pto_tensor_data(pto_arg_tensor(args, 1));
    const struct pto_tensor *out = pto_arg_tensor(args, 2);
    float *to = pto_tensor_data(out);

    for (uint32_t r = 0; r < out->shapes[0]; r++, to += out->strides[0])
        for (uint32_t c = 0; c < out->shapes[1]; c++) {
            float x = *sum++ + bias[c];

            to[c] = x > 0 ? x : 0;
        }
}
