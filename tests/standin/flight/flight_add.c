/* SPDX-License-Identifier: Apache-2.0 */
#include <pto/kernel.h>

PTO_KERNEL(args)
{
    PTO_GM uint32_t *gate = PTO_ARG(args, 0, uint32_t);
    PTO_GM const struct pto_tensor *in = pto_arg_tensor(args, 1);
    PTO_GM const int32_t *x = PTO_DATA(in, int32_t);
    PTO_GM int32_t *y = PTO_ARG(args, 2, int32_t);

    for (volatile int64_t i = 2; i < args[3]; i++)
        continue;
    if (args[3] == 1 || args[3] == 2) {
        pto_notify_set(&gate[0], 1);
        while (pto_notified(&gate[1]) == 0)
            continue;
    }
    for (uint32_t i = 0; i < in->shapes[0]; i++)
        y[i] = x[i] + 1;
}
