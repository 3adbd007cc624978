/* SPDX-License-Identifier: Apache-2.0 */
/* A real one would tell an engine where the parts go, and which counter to raise. */
#include <pto/kernel.h>

void kernel_entry(int64_t *args)
{
    const uint32_t *arrived = pto_tensor_data(pto_arg_tensor(args, 1));

    pto_defer(args, arrived, (uint32_t)args[2]);
}
