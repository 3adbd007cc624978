/* SPDX-License-Identifier: Apache-2.0 */
/* Stores the fields of a context. */
#include <pto/window.h>

PTO_KERNEL(args)
{
    PTO_GM const struct pto_comm_context *c = pto_arg_context(args, 1);
    PTO_GM int32_t *x = PTO_ARG(args, 0, int32_t);

    x[0] = (int32_t)c->rank;
    x[1] = (int32_t)c->rank_count;
    x[2] = (int32_t)c->window_bytes;
}
