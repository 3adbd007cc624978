/* SPDX-License-Identifier: Apache-2.0 */
/* Stores the sum that arrived from the neighbour, and sends it on unless all ranks have it. */
#include "ring.h"

PTO_KERNEL(args)
{
    struct ring r = ring_at(args, (uint32_t)args[2]);

    if (pto_window_wait(r.context, r.arrived, PTO_COMPARE_GE, 1) < 0)
        return; /* a rank is gone, which the host notices, too */
    pto_copy(r.row, r.inbox, r.m * sizeof(float));
    if (args[3] == 0)
        ring_send(args, r.step);
}
