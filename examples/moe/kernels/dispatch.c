/* SPDX-License-Identifier: Apache-2.0 */
/* Puts each token into its expert's inbox, then tells every rank that this one has done so. */
#include "moe.h"

void kernel_entry(int64_t *args)
{
    const float *x = pto_tensor_data(pto_arg_tensor(args, 0));
    const int32_t *expert = pto_tensor_data(pto_arg_tensor(args, 1));
    const struct pto_tensor *inbox = pto_arg_tensor(args, 2);
    const struct pto_comm_context *c = (const void *)(uintptr_t)args[3];
    uint32_t tokens = inbox->shapes[1], hidden = inbox->shapes[2];
    float *own = (float *)pto_tensor_data(inbox) + (size_t)c->rank * tokens * hidden;

    for (uint32_t i = 0; i < tokens; i++)
        pto_window_put(c, (uint32_t)expert[i], own + i * hidden, x + i * hidden,
                       hidden * sizeof(float));
    for (uint32_t rank = 0; rank < c->rank_count; rank++)
        pto_window_signal(c, rank, moe_count(inbox, DISPATCHED), PTO_SIGNAL_ADD, 1);
}
