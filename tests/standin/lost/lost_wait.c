/* SPDX-License-Identifier: Apache-2.0 */
#include <pto/window.h>

PTO_KERNEL(args)
{
    PTO_GM const struct pto_comm_context *c = pto_arg_context(args, 1);

    (void)pto_window_wait(c, PTO_WINDOW_OWN(c, int32_t), PTO_COMPARE_EQ, 12345);
}
