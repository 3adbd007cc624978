/* SPDX-License-Identifier: Apache-2.0 */
/* max[r] = largest of row r of the tile, sum[r] = sum of exp(x - max[r]) */
#include <pto/half.h>
#include <pto/kernel.h>

#include "exp.h"

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *tile = pto_arg_tensor(args, 0);
    PTO_GM const uint16_t *x = PTO_DATA(tile, uint16_t);
    PTO_GM float *max = PTO_ARG(args, 1, float);
    PTO_GM float *sum = PTO_ARG(args, 2, float);

    for (uint32_t r = 0; r < tile->shapes[0]; r++, x += tile->strides[0]) {
        max[r] = pto_bfloat16_to_float(x[0]);
        for (uint32_t c = 1; c < tile->shapes[1]; c++) {
            float value = pto_bfloat16_to_float(x[c]);

            max[r] = value > max[r] ? value : max[r];
        }
        sum[r] = 0;
        for (uint32_t c = 0; c < tile->shapes[1]; c++)
            sum[r] += kernel_exp(pto_bfloat16_to_float(x[c]) - max[r]);
    }
}
