/* SPDX-License-Identifier: Apache-2.0 */
/* Puts x into this rank's window, and signals all ranks of the domain. */
#include "window.h"

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *x = pto_arg_tensor(args, 0);
    PTO_GM const struct pto_comm_context *c = pto_arg_context(args, 1);
    uint32_t n = x->shapes[0];

    if (c == NULL)
        return;
    pto_copy(window_row(c, n, SHARED), pto_tensor_data(x), n * sizeof(float));
    for (uint32_t rank = 0; rank < c->rank_count; rank++)
        pto_window_signal(c, rank, window_count(c, n, SHARED), PTO_SIGNAL_ADD, 1);
}
