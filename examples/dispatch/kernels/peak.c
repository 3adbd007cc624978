/* SPDX-License-Identifier: Apache-2.0 */
/* out = the largest magnitude of a row */
#include <pto/kernel.h>

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *tensor = pto_arg_tensor(args, 0);
    PTO_GM const float *x = PTO_DATA(tensor, float);
    PTO_GM float *out = PTO_ARG(args, 1, float);

    *out = 0;
    for (uint32_t i = 0; i < tensor->shapes[1]; i++) {
        float magnitude = x[i] < 0 ? -x[i] : x[i];

        *out = magnitude > *out ? magnitude : *out;
    }
}
