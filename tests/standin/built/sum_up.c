/* SPDX-License-Identifier: Apache-2.0 */
#include <pto/kernel.h>
/*
 * Tensor 1 becomes tensor 0 plus a scalar; if the scalar is negative, also writes one element too
 * many.
 */
PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *to = pto_arg_tensor(args, 1);
    PTO_GM const int32_t *x = PTO_ARG(args, 0, int32_t);
    PTO_GM int32_t *y = PTO_DATA(to, int32_t);

    for (uint32_t i = 0; i < to->shapes[0] + (args[2] < 0); i++)
        y[i] = x[i < to->shapes[0] ? i : 0] + (int32_t)args[2];
}
