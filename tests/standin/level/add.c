/* SPDX-License-Identifier: Apache-2.0 */
#include <pto/kernel.h>

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *t = pto_arg_tensor(args, 0);
    PTO_GM int32_t *x = PTO_DATA(t, int32_t);

    for (uint32_t i = 0; i < t->shapes[0]; i++)
        x[i] += (int32_t)args[1];
}
