/* SPDX-License-Identifier: Apache-2.0 */
#include <pto/kernel.h>
void kernel_entry(int64_t *args)
{
    const struct pto_tensor *t = pto_arg_tensor(args, 0);
    int32_t *x = pto_tensor_data(t);

    for (uint32_t i = 0; i < t->shapes[0]; i++)
        x[i] += (int32_t)args[1];
}
