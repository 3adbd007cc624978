/* SPDX-License-Identifier: Apache-2.0 */
/* sum += x y; x and y are parts of larger matrices, so their rows are a stride apart. */
#include <pto/kernel.h>

void kernel_entry(int64_t *args)
{
    const struct pto_tensor *x = pto_arg_tensor(args, 0), *y = pto_arg_tensor(args, 1);
    const float *left = pto_tensor_data(x), *right = pto_tensor_data(y);
    float *sum = pto_tensor_data(pto_arg_tensor(args, 2));
    uint32_t columns = y->shapes[1];

    for (uint32_t r = 0; r < x->shapes[0]; r++)
        for (uint32_t k = 0; k < x->shapes[1]; k++)
            for (uint32_t c = 0; c < columns; c++)
                sum[r * columns + c] += left[r * x->strides[0] + k] * right[k * y->strides[0] + c];
}
