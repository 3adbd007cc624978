/* SPDX-License-Identifier: Apache-2.0 */
/* to = from * from */
#include <pto/kernel.h>

void kernel_entry(int64_t *args)
{
    const struct pto_tensor *tensor = pto_arg_tensor(args, 0);
    const int32_t *from = pto_tensor_data(tensor);
    int32_t *to = pto_tensor_data(pto_arg_tensor(args, 1));

    for (uint32_t i = 0; i < tensor->shapes[0]; i++)
        to[i] = from[i] * from[i];
}
