/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window has a row, then, in a separate cache line, a word with the round in which the peer wrote
 * it. Members of a group start together, so both are done with a round before the next one.
 */
#include <pto/window.h>

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *tensor = pto_arg_tensor(args, 0);
    PTO_GM const struct pto_comm_context *c = pto_arg_context(args, 1);
    PTO_GM int32_t *x = PTO_DATA(tensor, int32_t);
    int32_t round = (int32_t)args[2];
    uint32_t n = tensor->shapes[1], peer = 1 - c->rank;
    PTO_GM int32_t *row = PTO_WINDOW_OWN(c, int32_t);
    PTO_GM int32_t *word = row + PTO_WHOLE_LINES(n * sizeof(*x)) / sizeof(*x);

    pto_window_put_signal(c, peer, row, x, n * sizeof(*x), word, PTO_SIGNAL_SET, round);
    if (pto_window_wait(c, word, PTO_COMPARE_EQ, round) < 0)
        return; /* the other chip is lost, and so is the run */
    for (uint32_t i = 0; i < n; i++)
        x[i] += row[i];
}
