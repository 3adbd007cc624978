/* SPDX-License-Identifier: Apache-2.0 */
/* out = x + value */
#include <pto/kernel.h>

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *tensor = pto_arg_tensor(args, 0);
    PTO_GM const float *x = PTO_DATA(tensor, float);
    PTO_GM float *out = PTO_ARG(args, 1, float);
    float value = pto_arg_float(args, 2);

    for (uint32_t i = 0; i < tensor->shapes[0]; i++)
        out[i] = x[i] + value;
}
