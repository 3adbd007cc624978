/* SPDX-License-Identifier: Apache-2.0 */
/* A number to the window of the next rank, and what came from the one before. */
#include <pto/window.h>
void kernel_entry(int64_t *args)
{
    const struct pto_comm_context *c = (const void *)(uintptr_t)args[1];
    uint32_t next = (c->rank + 1) % c->rank_count;
    int32_t *own = (int32_t *)(uintptr_t)c->window_in[c->rank];
    int32_t *x = pto_tensor_data(pto_arg_tensor(args, 0));
    const int32_t number = (int32_t)args[2], round = (int32_t)args[3];

    pto_window_put_signal(c, next, own + 16, &number, sizeof(number), own, PTO_SIGNAL_SET, round);
    if (pto_window_wait(c, own, PTO_COMPARE_EQ, round) == 0)
        x[0] = own[16];
}
