/* SPDX-License-Identifier: Apache-2.0 */
/* h = relu(x w1) */
#include "matrix.h"

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *h = pto_arg_tensor(args, 2);
    PTO_GM float *at = PTO_DATA(h, float);

    multiply(pto_arg_tensor(args, 0), pto_arg_tensor(args, 1), h);
    for (uint32_t i = 0; i < h->shapes[0] * h->shapes[1]; i++)
        at[i] = at[i] > 0 ? at[i] : 0;
}
