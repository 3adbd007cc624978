/* SPDX-License-Identifier: Apache-2.0 */
/* Multiplies the tokens that came by this rank's weights, and puts the results where they came from. */
#include "moe.h"

void kernel_entry(int64_t *args)
{
    const struct pto_tensor *inbox = pto_arg_tensor(args, 0);
    const float *weight = pto_tensor_data(pto_arg_tensor(args, 1));
    const struct pto_comm_context *c = (const void *)(uintptr_t)args[2];
    uint32_t tokens = inbox->shapes[1], hidden = inbox->shapes[2];
    const float *from = pto_tensor_data(inbox);

    for (uint32_t rank = 0; rank < c->rank_count; rank++) {
        for (uint32_t i = 0; i < tokens; i++, from += hidden) {
            float *to = pto_window_peer(c, rank, moe_results(inbox) + i * hidden);

            if (from[0] == 0) /* no token begins with 0: this one went elsewhere */
                continue;
            for (uint32_t k = 0; k < hidden; k++) {
                float sum = 0;

                for (uint32_t j = 0; j < hidden; j++)
                    sum += from[j] * weight[j * hidden + k];
                to[k] = sum;
            }
        }
        pto_window_signal(c, rank, moe_count(inbox, RETURNED), PTO_SIGNAL_ADD, 1);
    }
}
