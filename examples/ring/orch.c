/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First the rows are summed on their way around the ring, then the sums go around once
 * more. Each step needs the one before it, as the tensors show; within a step the kernel
 * waits for what the neighbour sends.
 */
#include <pto/orch.h>

enum { SEND, ADD, COPY }; /* as in scene.yaml */

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *data = &entry->tensor[0];
    uint32_t ranks = data->shapes[0], steps = 2 * (ranks - 1);

    if (steps == 0)
        return;
    pto_aiv(o, SEND, PTO_INOUT(data), PTO_PASS(0));
    for (uint32_t step = 1; step <= steps; step++)
        pto_aiv(o, step < ranks ? ADD : COPY, PTO_INOUT(data), PTO_PASS(0), PTO_INT(step),
                PTO_INT(step == steps));
}
