/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output = the sum of all ranks' inputs, from the root on: all ranks add in the same order. A
 * rank's input is copied to this rank's window first, behind its own input, because a rank may be
 * on another host.
 */
#include <pto/window.h>

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *input = pto_arg_tensor(args, 0);
    PTO_GM float *output = PTO_ARG(args, 1, float);
    uint32_t nranks = (uint32_t)args[2], root = (uint32_t)args[3];
    PTO_GM const struct pto_comm_context *context = pto_arg_context(args, 4);
    uint32_t n = input->shapes[0];
    PTO_GM float *from =
        (PTO_GM float *)(PTO_WINDOW_OWN(context, char) + PTO_WHOLE_LINES(n * sizeof(float)));

    for (uint32_t k = 0; k < nranks; k++) {
        if (pto_window_get(context, (root + k) % nranks, pto_tensor_data(input), from,
                           n * sizeof(float)) < 0)
            return; /* the rank is gone, which the host notices, too */
        for (uint32_t i = 0; i < n; i++)
            output[i] = (k == 0 ? 0 : output[i]) + from[i];
    }
}
