/* SPDX-License-Identifier: Apache-2.0 */
/* out = x / divisor, a row */
#include <pto/kernel.h>

void kernel_entry(int64_t *args)
{
    const struct pto_tensor *tensor = pto_arg_tensor(args, 0);
    const float *x = pto_tensor_data(tensor);
    const float *divisor = pto_tensor_data(pto_arg_tensor(args, 1));
    float *out = pto_tensor_data(pto_arg_tensor(args, 2));

    for (uint32_t i = 0; i < tensor->shapes[1]; i++)
        out[i] = x[i] / *divisor;
}
