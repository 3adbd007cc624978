/* SPDX-License-Identifier: Apache-2.0 */
#include <pto/kernel.h>
void kernel_entry(int64_t *args)
{
    const struct pto_tensor *from = pto_arg_tensor(args, 0);
    const int32_t *x = pto_tensor_data(from);
    int32_t *y = pto_tensor_data(pto_arg_tensor(args, 1));

    for (uint32_t i = 0; i < from->shapes[0]; i++)
        y[i] = 2 * x[i];
}
