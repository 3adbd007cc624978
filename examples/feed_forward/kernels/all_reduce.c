/* SPDX-License-Identifier: Apache-2.0 */
/*
 * y = the sum of what all chips have. A window has a place for the numbers of each member, then a
 * flag for each that they are there. Each place and flag has its own cache lines: two
 * chips that wrote to one would undo what the other wrote.
 */
#include <pto/window.h>

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *partial = pto_arg_tensor(args, 0);
    PTO_GM const struct pto_comm_context *c = pto_arg_context(args, 2);
    PTO_GM float *y = PTO_ARG(args, 1, float);
    uint32_t n = partial->shapes[0] * partial->shapes[1];
    uint32_t place = PTO_WHOLE_LINES(n * sizeof(float)) / sizeof(float);
    uint32_t apart = PTO_LINE / sizeof(int32_t);
    PTO_GM float *own = PTO_WINDOW_OWN(c, float);
    PTO_GM int32_t *word = (PTO_GM int32_t *)(own + c->rank_count * place);

    for (uint32_t rank = 0; rank < c->rank_count; rank++)
        pto_window_put_signal(c, rank, own + c->rank * place, pto_tensor_data(partial),
                              n * sizeof(float), word + c->rank * apart, PTO_SIGNAL_SET, 1);
    for (uint32_t i = 0; i < n; i++)
        y[i] = 0;
    for (uint32_t rank = 0; rank < c->rank_count; rank++) {
        if (pto_window_wait(c, word + rank * apart, PTO_COMPARE_EQ, 1) < 0)
            return; /* its chip is lost, and so is the run */
        for (uint32_t i = 0; i < n; i++)
            y[i] += own[rank * place + i];
    }
}
