/* SPDX-License-Identifier: Apache-2.0 */
/* Sums what all ranks of the domain share, once they have. */
#include "window.h"

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *tensor = pto_arg_tensor(args, 0);
    PTO_GM const struct pto_comm_context *c = pto_arg_context(args, 1);
    PTO_GM float *sum = PTO_DATA(tensor, float);
    uint32_t n = tensor->shapes[0];

    for (uint32_t i = 0; i < n; i++)
        sum[i] = 0;
    if (c == NULL ||
        pto_window_wait(c, window_count(c, n, SHARED), PTO_COMPARE_EQ, (int32_t)c->rank_count) < 0)
        return;
    for (uint32_t rank = 0; rank < c->rank_count; rank++) {
        PTO_GM float *from = window_row(c, n, COPIED);

        if (pto_window_get(c, rank, window_row(c, n, SHARED), from, n * sizeof(float)) < 0)
            return; /* the rank is gone, which the host notices, too */
        for (uint32_t i = 0; i < n; i++)
            sum[i] += from[i];
    }
}
