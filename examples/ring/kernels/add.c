/* SPDX-License-Identifier: Apache-2.0 */
/* Adds the row that arrived from the neighbour, and sends on the sum. */
#include "ring.h"

PTO_KERNEL(args)
{
    struct ring r = ring_at(args, (uint32_t)args[2]);

    if (pto_window_wait(r.context, r.arrived, PTO_COMPARE_GE, 1) < 0)
        return; /* a rank is gone, which the host notices, too */
    for (uint32_t i = 0; i < r.m; i++)
        r.row[i] += r.inbox[i];
    if (args[3] == 0)
        ring_send(args, r.step);
}
