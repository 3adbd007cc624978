/* SPDX-License-Identifier: Apache-2.0 */
/* The first step: the own row. */
#include "ring.h"

PTO_KERNEL(args)
{
    ring_send(args, 0);
}
