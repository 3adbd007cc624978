/* SPDX-License-Identifier: Apache-2.0 */
/* Puts each token into its expert's inbox, then signals every rank that this one is done. */
#include "moe.h"

PTO_KERNEL(args)
{
    PTO_GM const float *x = PTO_ARG(args, 0, float);
    PTO_GM const int32_t *expert = PTO_ARG(args, 1, int32_t);
    PTO_GM const struct pto_tensor *inbox = pto_arg_tensor(args, 2);
    PTO_GM const struct pto_comm_context *c = pto_arg_context(args, 3);
    uint32_t tokens = inbox->shapes[1], hidden = inbox->shapes[2];
    PTO_GM float *own = PTO_DATA(inbox, float) + (size_t)c->rank * tokens * hidden;

    for (uint32_t i = 0; i < tokens; i++)
        pto_window_put(c, (uint32_t)expert[i], own + i * hidden, x + i * hidden,
                       hidden * sizeof(float));
    for (uint32_t rank = 0; rank < c->rank_count; rank++)
        pto_window_signal(c, rank, moe_count(inbox, DISPATCHED), PTO_SIGNAL_ADD, 1);
}
