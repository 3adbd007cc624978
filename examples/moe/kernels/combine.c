/* SPDX-License-Identifier: Apache-2.0 */
/* y = gate * result, token by token. */
#include "moe.h"

PTO_KERNEL(args)
{
    PTO_GM const float *gate = PTO_ARG(args, 0, float);
    PTO_GM const struct pto_tensor *inbox = pto_arg_tensor(args, 1);
    PTO_GM float *y = PTO_ARG(args, 2, float);
    PTO_GM const float *result = moe_results(inbox);
    uint32_t tokens = inbox->shapes[1], hidden = inbox->shapes[2];

    for (uint32_t i = 0; i < tokens * hidden; i++)
        y[i] = gate[i / hidden] * result[i];
}
