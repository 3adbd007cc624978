/* SPDX-License-Identifier: Apache-2.0 */
/* A real one would tell an engine where the parts go, and which counter to raise. */
#include <pto/kernel.h>

PTO_KERNEL(args)
{
    PTO_GM const uint32_t *arrived = PTO_ARG(args, 1, uint32_t);

    pto_defer(args, arrived, (uint32_t)args[2]);
}
