/* SPDX-License-Identifier: Apache-2.0 */
/* out = the largest magnitude of a row */
#include <math.h>
#include <pto/kernel.h>

void kernel_entry(int64_t *args)
{
    const struct pto_tensor *tensor = pto_arg_tensor(args, 0);
    const float *x = pto_tensor_data(tensor);
    float *out = pto_tensor_data(pto_arg_tensor(args, 1));

    *out = 0;
    for (uint32_t i = 0; i < tensor->shapes[1]; i++)
        *out = fabsf(x[i]) > *out ? fabsf(x[i]) : *out; /* a core has no library */
}
