/* SPDX-License-Identifier: Apache-2.0 */
/* y = gate * result, token by token. */
#include "moe.h"

void kernel_entry(int64_t *args)
{
    const float *gate = pto_tensor_data(pto_arg_tensor(args, 0));
    const struct pto_tensor *inbox = pto_arg_tensor(args, 1);
    float *y = pto_tensor_data(pto_arg_tensor(args, 2));
    const float *result = moe_results(inbox);
    uint32_t tokens = inbox->shapes[1], hidden = inbox->shapes[2];

    for (uint32_t i = 0; i < tokens * hidden; i++)
        y[i] = gate[i / hidden] * result[i];
}
