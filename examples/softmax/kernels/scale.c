/* SPDX-License-Identifier: Apache-2.0 */
/* y = exp(x - max) / sum */
#include <pto/half.h>
#include <pto/kernel.h>

#include "exp.h"

void kernel_entry(int64_t *args)
{
    const struct pto_tensor *from = pto_arg_tensor(args, 0), *to = pto_arg_tensor(args, 3);
    const uint16_t *x = pto_tensor_data(from);
    const float *max = pto_tensor_data(pto_arg_tensor(args, 1));
    const float *sum = pto_tensor_data(pto_arg_tensor(args, 2));
    uint16_t *y = pto_tensor_data(to);

    for (uint32_t r = 0; r < to->shapes[0]; r++, x += from->strides[0], y += to->strides[0])
        for (uint32_t c = 0; c < to->shapes[1]; c++)
            y[c] =
                pto_float16_from_float(kernel_exp(pto_bfloat16_to_float(x[c]) - max[r]) / sum[r]);
}
