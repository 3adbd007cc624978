/* SPDX-License-Identifier: Apache-2.0 */
/* A real kernel would give an engine the targets of the parts, and the counter to raise. */
#include <pto/kernel.h>

PTO_KERNEL(args)
{
    PTO_GM const uint32_t *arrived = PTO_ARG(args, 1, uint32_t);

    pto_defer(args, arrived, (uint32_t)args[2]);
}
