/* SPDX-License-Identifier: Apache-2.0 */
#include <pto/window.h>
void kernel_entry(int64_t *args)
{
    const struct pto_comm_context *c = (const void *)(uintptr_t)args[1];

    (void)pto_window_wait(c, (int32_t *)(uintptr_t)c->window_in[c->rank], PTO_COMPARE_EQ, 12345);
}
