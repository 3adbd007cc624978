/* SPDX-License-Identifier: Apache-2.0 */
/* sum += x y; x and y are parts of larger matrices, so their rows are a stride apart. */
#include <pto/kernel.h>

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *x = pto_arg_tensor(args, 0);
    PTO_GM const struct pto_tensor *y = pto_arg_tensor(args, 1);
    PTO_GM const float *left = PTO_DATA(x, float);
    PTO_GM const float *right = PTO_DATA(y, float);
    PTO_GM float *sum = PTO_ARG(args, 2, float);
    uint32_t columns = y->shapes[1];

    for (uint32_t r = 0; r < x->shapes[0]; r++)
        for (uint32_t k = 0; k < x->shapes[1]; k++)
            for (uint32_t c = 0; c < columns; c++)
                sum[r * columns + c] += left[r * x->strides[0] + k] * right[k * y->strides[0] + c];
}
