/* SPDX-License-Identifier: Apache-2.0 */
/* out = x + y */
#include <pto/kernel.h>

void kernel_entry(int64_t *args)
{
    const struct pto_tensor *tensor = pto_arg_tensor(args, 0);
    const int32_t *x = pto_tensor_data(tensor);
    const int32_t *y = pto_tensor_data(pto_arg_tensor(args, 1));
    int32_t *out = pto_tensor_data(pto_arg_tensor(args, 2));

    for (uint32_t i = 0; i < tensor->shapes[0]; i++)
        out[i] = x[i] + y[i];
}
