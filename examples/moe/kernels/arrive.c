/* SPDX-License-Identifier: Apache-2.0 */
/* The task is over when every rank has signalled, whenever that is. */
#include "moe.h"

PTO_KERNEL(args)
{
    PTO_GM const struct pto_comm_context *c = pto_arg_context(args, 1);
    PTO_GM const int32_t *count = moe_count(pto_arg_tensor(args, 0), (uint32_t)args[2]);

    pto_defer(args, (PTO_GM const uint32_t *)count, c->rank_count);
}
