/* SPDX-License-Identifier: Apache-2.0 */
/*
 * y = the sum of what all chips have. A window has a place for the numbers of each member, then a
 * word for each that says that they are there.
 */
#include <pto/window.h>

void kernel_entry(int64_t *args)
{
    const struct pto_tensor *partial = pto_arg_tensor(args, 0);
    const struct pto_comm_context *c = (const void *)(uintptr_t)args[2];
    float *y = pto_tensor_data(pto_arg_tensor(args, 1));
    uint32_t n = partial->shapes[0] * partial->shapes[1];
    float *own = (float *)(uintptr_t)c->window_in[c->rank];
    int32_t *word = (int32_t *)(own + c->rank_count * n);

    for (uint32_t rank = 0; rank < c->rank_count; rank++)
        pto_window_put_signal(c, rank, own + c->rank * n, pto_tensor_data(partial),
                              n * sizeof(float), word + c->rank, PTO_SIGNAL_SET, 1);
    memset(y, 0, n * sizeof(float));
    for (uint32_t rank = 0; rank < c->rank_count; rank++) {
        if (pto_window_wait(c, word + rank, PTO_COMPARE_EQ, 1) < 0)
            return; /* its chip is lost, and so is the run */
        for (uint32_t i = 0; i < n; i++)
            y[i] += own[rank * n + i];
    }
}
