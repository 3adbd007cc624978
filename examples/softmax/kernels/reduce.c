/* SPDX-License-Identifier: Apache-2.0 */
/* max[r] = largest of row r of the tile, sum[r] = sum of exp(x - max[r]) */
#include <pto/half.h>
#include <pto/kernel.h>

#include "exp.h"

void kernel_entry(int64_t *args)
{
    const struct pto_tensor *tile = pto_arg_tensor(args, 0);
    const uint16_t *x = pto_tensor_data(tile);
    float *max = pto_tensor_data(pto_arg_tensor(args, 1));
    float *sum = pto_tensor_data(pto_arg_tensor(args, 2));

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
