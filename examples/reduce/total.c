/* SPDX-License-Identifier: Apache-2.0 */
/* The callable `total`, a function for SUB workers: the last tensor becomes the sum of the others. */
#include <pto/worker.h>

int total(const struct pto_sub_call *call)
{
    uint32_t last = call->tensor_count - 1;
    int32_t *sum = pto_tensor_data(&call->tensor[last]);

    for (uint32_t i = 0; i < call->tensor[last].shapes[0]; i++) {
        sum[i] = 0;
        for (uint32_t t = 0; t < last; t++)
            sum[i] += ((const int32_t *)pto_tensor_data(&call->tensor[t]))[i];
    }
    return PTO_OK;
}
