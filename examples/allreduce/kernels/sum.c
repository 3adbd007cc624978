/* SPDX-License-Identifier: Apache-2.0 */
/* output = the sum of all ranks' inputs, from the root on: all ranks add in the same order. */
#include <pto/window.h>

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *input = pto_arg_tensor(args, 0);
    PTO_GM float *output = PTO_ARG(args, 1, float);
    uint32_t nranks = (uint32_t)args[2], root = (uint32_t)args[3];
    PTO_GM const struct pto_comm_context *context = pto_arg_context(args, 4);

    for (uint32_t k = 0; k < nranks; k++) {
        PTO_GM const float *from =
            PTO_WINDOW_PEER(context, (root + k) % nranks, pto_tensor_data(input), float);

        for (uint32_t i = 0; i < input->shapes[0]; i++)
            output[i] = (k == 0 ? 0 : output[i]) + from[i];
    }
}
