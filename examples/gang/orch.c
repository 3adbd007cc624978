/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heat spreads along a rod: steps of a stencil in one task, whose blocks share
 * the rod and wait for each other after every step.
 *
 *     block 0        block 1        block 2      ...
 *     step 1         step 1         step 1
 *     -------------- barrier --------------
 *     step 2         step 2         step 2
 *     -------------- barrier --------------
 *
 * A block that waits for another one needs it on a core: the task is a gang,
 * whose blocks start together or not at all. There is one block for each AIV
 * core, as many as a gang can have.
 */
#include <pto/orch.h>

enum { DIFFUSE }; /* as in scene.yaml */

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *heat = &entry->tensor[0];
    const struct pto_tensor_info other = pto_tensor_info_make(heat->shapes, 1, PTO_FLOAT32);
    struct pto_tensor_info counter = pto_tensor_info_make(PTO_DIMS(1), 1, PTO_UINT32);

    pto_tensor_info_fill(&counter, 0);
    pto_aiv(o, DIFFUSE, PTO_INOUT(heat), PTO_OUT(&other), PTO_OUT(&counter), PTO_PASS(0),
            PTO_GANG(pto_aiv_count(o)));
}
