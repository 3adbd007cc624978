/* SPDX-License-Identifier: Apache-2.0 */
#include <pto/kernel.h>
void kernel_entry(int64_t *args)
{
    int32_t *gate = pto_tensor_data(pto_arg_tensor(args, 0));
    const struct pto_tensor *in = pto_arg_tensor(args, 1), *out = pto_arg_tensor(args, 2);

    for (volatile int64_t i = 2; i < args[3]; i++)
        continue;
    if (args[3] == 1 || args[3] == 2) {
        __atomic_store_n(&gate[0], 1, __ATOMIC_RELEASE);
        while (__atomic_load_n(&gate[1], __ATOMIC_ACQUIRE) == 0)
            continue;
    }
    for (uint32_t i = 0; i < in->shapes[0]; i++)
        ((int32_t *)pto_tensor_data(out))[i] = ((const int32_t *)pto_tensor_data(in))[i] + 1;
}
