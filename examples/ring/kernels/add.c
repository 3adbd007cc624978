/* SPDX-License-Identifier: Apache-2.0 */
/* A row has come from the neighbour: it is added, and the sum goes on. */
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
