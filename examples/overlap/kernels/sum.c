/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window has a row, then a word with the round in which the peer wrote it. Members of a group start together, so
 * both are done with a round before the next one.
 */
#include <pto/window.h>

void kernel_entry(int64_t *args)
{
    const struct pto_tensor *tensor = pto_arg_tensor(args, 0);
    const struct pto_comm_context *c = (const void *)(uintptr_t)args[1];
    int32_t *x = pto_tensor_data(tensor), round = (int32_t)args[2];
    uint32_t n = tensor->shapes[1], peer = 1 - c->rank;
    int32_t *row = (int32_t *)(uintptr_t)c->window_in[c->rank];

    pto_window_put_signal(c, peer, row, x, n * sizeof(*x), row + n, PTO_SIGNAL_SET, round);
    if (pto_window_wait(c, row + n, PTO_COMPARE_EQ, round) < 0)
        return; /* the other chip is lost, and so is the run */
    for (uint32_t i = 0; i < n; i++)
        x[i] += row[i];
}
