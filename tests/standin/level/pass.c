/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a number to the window of the next rank, and reads the number that came from the one
 * before.
 */
#include <pto/window.h>

PTO_KERNEL(args)
{
    PTO_GM const struct pto_comm_context *c = pto_arg_context(args, 1);
    uint32_t next = (c->rank + 1) % c->rank_count;
    PTO_GM int32_t *own = PTO_WINDOW_OWN(c, int32_t);
    PTO_GM int32_t *x = PTO_ARG(args, 0, int32_t);
    const int32_t round = (int32_t)args[3];

    x[0] = (int32_t)args[2];
    pto_window_put_signal(c, next, own + 16, x, sizeof(*x), own, PTO_SIGNAL_SET, round);
    if (pto_window_wait(c, own, PTO_COMPARE_EQ, round) == 0)
        x[0] = own[16];
}
