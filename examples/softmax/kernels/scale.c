/* SPDX-License-Identifier: Apache-2.0 */
/* y = exp(x - max) / sum */
#include <pto/half.h>
#include <pto/kernel.h>

#include "exp.h"

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *from = pto_arg_tensor(args, 0);
    PTO_GM const struct pto_tensor *to = pto_arg_tensor(args, 3);
    PTO_GM const uint16_t *x = PTO_DATA(from, uint16_t);
    PTO_GM const float *max = PTO_ARG(args, 1, float);
    PTO_GM const float *sum = PTO_ARG(args, 2, float);
    PTO_GM uint16_t *y = PTO_DATA(to, uint16_t);

    for (uint32_t r = 0; r < to->shapes[0]; r++, x += from->strides[0], y += to->strides[0])
        for (uint32_t c = 0; c < to->shapes[1]; c++)
            y[c] =
                pto_float16_from_float(kernel_exp(pto_bfloat16_to_float(x[c]) - max[r]) / sum[r]);
}
