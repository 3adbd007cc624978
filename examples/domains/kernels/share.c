/* SPDX-License-Identifier: Apache-2.0 */
/* Puts x into the own window, and tells all ranks of the domain. */
#include "window.h"

void kernel_entry(int64_t *args)
{
    const struct pto_tensor *x = pto_arg_tensor(args, 0);
    const struct pto_comm_context *c = (const void *)(uintptr_t)args[1];
    uint32_t n = x->shapes[0];

    if (c == NULL)
        return;
    memcpy(window_row(c, n, SHARED), pto_tensor_data(x), n * sizeof(float));
    for (uint32_t rank = 0; rank < c->rank_count; rank++)
        pto_window_signal(c, rank, window_count(c, n, SHARED), PTO_SIGNAL_ADD, 1);
}
