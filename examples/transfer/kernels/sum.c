/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of a whole message. */
#include <pto/kernel.h>

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *message = pto_arg_tensor(args, 0);
    PTO_GM const float *inbox = PTO_DATA(message, float);
    PTO_GM float *sum = PTO_ARG(args, 1, float);

    *sum = 0;
    for (uint32_t i = 0; i < message->shapes[0]; i++)
        *sum += inbox[i];
}
