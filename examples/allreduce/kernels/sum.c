/* SPDX-License-Identifier: Apache-2.0 */
/* output = the sum of all ranks' inputs, from the root on: all ranks add in the same order. */
#include <pto/window.h>

void kernel_entry(int64_t *args)
{
    const struct pto_tensor *input = pto_arg_tensor(args, 0);
    float *output = pto_tensor_data(pto_arg_tensor(args, 1));
    uint32_t nranks = (uint32_t)args[2], root = (uint32_t)args[3];
    const struct pto_comm_context *context = (const void *)(uintptr_t)args[4];

    for (uint32_t k = 0; k < nranks; k++) {
        const float *from = pto_window_peer(context, (root + k) % nranks, pto_tensor_data(input));

        for (uint32_t i = 0; i < input->shapes[0]; i++)
            output[i] = (k == 0 ? 0 : output[i]) + from[i];
    }
}
