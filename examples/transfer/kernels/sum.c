/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of a whole message. */
#include <pto/kernel.h>

void kernel_entry(int64_t *args)
{
    const struct pto_tensor *message = pto_arg_tensor(args, 0);
    const float *inbox = pto_tensor_data(message);
    float *sum = pto_tensor_data(pto_arg_tensor(args, 1));

    *sum = 0;
    for (uint32_t i = 0; i < message->shapes[0]; i++)
        *sum += inbox[i];
}
