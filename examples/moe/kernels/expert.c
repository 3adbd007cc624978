/* SPDX-License-Identifier: Apache-2.0 */
/* Multiplies the tokens that came by this rank's weights, and puts the results where they came from. */
#include "moe.h"

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *inbox = pto_arg_tensor(args, 0);
    PTO_GM const float *weight = PTO_ARG(args, 1, float);
    PTO_GM const struct pto_comm_context *c = pto_arg_context(args, 2);
    uint32_t tokens = inbox->shapes[1], hidden = inbox->shapes[2];
    PTO_GM const float *from = PTO_DATA(inbox, float);
    PTO_GM float *product = moe_product(inbox);

    for (uint32_t rank = 0; rank < c->rank_count; rank++) {
        for (uint32_t i = 0; i < tokens; i++, from += hidden) {
            if (from[0] == 0) /* no token begins with 0: this one went elsewhere */
                continue;
            for (uint32_t k = 0; k < hidden; k++) {
                float sum = 0;

                for (uint32_t j = 0; j < hidden; j++)
                    sum += from[j] * weight[j * hidden + k];
                product[k] = sum;
            }
            pto_window_put(c, rank, moe_results(inbox) + i * hidden, product,
                           hidden * sizeof(float));
        }
        pto_window_signal(c, rank, moe_count(inbox, RETURNED), PTO_SIGNAL_ADD, 1);
    }
}
