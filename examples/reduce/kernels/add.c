/* SPDX-License-Identifier: Apache-2.0 */
/* out = x + y */
#include <pto/kernel.h>

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *tensor = pto_arg_tensor(args, 0);
    PTO_GM const int32_t *x = PTO_DATA(tensor, int32_t);
    PTO_GM const int32_t *y = PTO_ARG(args, 1, int32_t);
    PTO_GM int32_t *out = PTO_ARG(args, 2, int32_t);

    for (uint32_t i = 0; i < tensor->shapes[0]; i++)
        out[i] = x[i] + y[i];
}
