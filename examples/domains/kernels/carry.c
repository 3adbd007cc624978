/* SPDX-License-Identifier: Apache-2.0 */
/* The rank in both domains sends the sum of the first to all ranks of the second. */
#include "window.h"

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *sum = pto_arg_tensor(args, 0);
    PTO_GM const struct pto_comm_context *low = pto_arg_context(args, 2);
    PTO_GM const struct pto_comm_context *high = pto_arg_context(args, 3);
    PTO_GM float *carried = PTO_ARG(args, 1, float);
    uint32_t n = sum->shapes[0];

    for (uint32_t rank = 0; low != NULL && high != NULL && rank < high->rank_count; rank++)
        pto_window_put_signal(high, rank, window_row(high, n, CARRIED), pto_tensor_data(sum),
                              n * sizeof(float), window_count(high, n, CARRIED), PTO_SIGNAL_SET, 1);
    for (uint32_t i = 0; i < n; i++)
        carried[i] = 0;
    if (high == NULL ||
        pto_window_wait(high, window_count(high, n, CARRIED), PTO_COMPARE_EQ, 1) < 0)
        return;
    pto_copy(carried, window_row(high, n, CARRIED), n * sizeof(float));
}
