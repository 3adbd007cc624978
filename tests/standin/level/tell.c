/* SPDX-License-Identifier: Apache-2.0 */
/* What a context says of its domain. */
#include <pto/window.h>
void kernel_entry(int64_t *args)
{
    const struct pto_comm_context *c = (const void *)(uintptr_t)args[1];
    int32_t *x = pto_tensor_data(pto_arg_tensor(args, 0));

    x[0] = (int32_t)c->rank;
    x[1] = (int32_t)c->rank_count;
    x[2] = (int32_t)c->window_bytes;
}
