/* SPDX-License-Identifier: Apache-2.0 */
/* h = relu(x w1) */
#include "matrix.h"

void kernel_entry(int64_t *args)
{
    const struct pto_tensor *h = pto_arg_tensor(args, 2);
    float *at = pto_tensor_data(h);

    multiply(pto_arg_tensor(args, 0), pto_arg_tensor(args, 1), h);
    for (uint32_t i = 0; i < h->shapes[0] * h->shapes[1]; i++)
        at[i] = at[i] > 0 ? at[i] : 0;
}
