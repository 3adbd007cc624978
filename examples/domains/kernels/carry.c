/* SPDX-License-Identifier: Apache-2.0 */
/* Whoever is of both domains gives the sum of the first to all ranks of the second. */
#include "window.h"

void kernel_entry(int64_t *args)
{
    const struct pto_tensor *sum = pto_arg_tensor(args, 0);
    const struct pto_comm_context *low = (const void *)(uintptr_t)args[2];
    const struct pto_comm_context *high = (const void *)(uintptr_t)args[3];
    float *carried = pto_tensor_data(pto_arg_tensor(args, 1));
    uint32_t n = sum->shapes[0];

    for (uint32_t rank = 0; low != NULL && high != NULL && rank < high->rank_count; rank++)
        pto_window_put_signal(high, rank, window_row(high, n, CARRIED), pto_tensor_data(sum),
                              n * sizeof(float), window_count(high, n, CARRIED), PTO_SIGNAL_SET, 1);
    memset(carried, 0, n * sizeof(float));
    if (high == NULL ||
        pto_window_wait(high, window_count(high, n, CARRIED), PTO_COMPARE_EQ, 1) < 0)
        return;
    memcpy(carried, window_row(high, n, CARRIED), n * sizeof(float));
}
