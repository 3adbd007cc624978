/* SPDX-License-Identifier: Apache-2.0 */
#include <pto/kernel.h>

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *from = pto_arg_tensor(args, 0);
    PTO_GM const int32_t *x = PTO_DATA(from, int32_t);
    PTO_GM int32_t *y = PTO_ARG(args, 1, int32_t);

    for (uint32_t i = 0; i < from->shapes[0]; i++)
        y[i] = 2 * x[i];
}
