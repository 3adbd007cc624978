/* SPDX-License-Identifier: Apache-2.0 */
#include <pto/kernel.h>

PTO_KERNEL(args)
{
    PTO_GM int32_t *y = PTO_ARG(args, 0, int32_t);

    for (int32_t i = 0; i < 16; i++)
        y[i] = i;
}
