/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Solves 4 x[i] - x[i-1] - x[i+1] = b[i] by sweeps over x until it is good
 * enough. The number of sweeps is not known in advance, so each round
 * has a predicate: it runs only while the last one that ran has left work.
 *
 *     going = 1
 *     if going:  SWEEP x     if going:  MEASURE x -> going
 *     if going:  SWEEP x     if going:  MEASURE x -> going
 *     ...
 *
 * The rounds that are not needed cost next to nothing, but they are submitted.
 * Where tasks run while the graph is built, the orchestration looks at the
 * flag itself from time to time and stops submitting.
 */
#include <pto/orch.h>

enum { ROUNDS = 100, LOOK = 8 }; /* rounds between two looks */
enum { SWEEP, MEASURE };         /* as in scene.yaml */

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *b = &entry->tensor[0], *x = &entry->tensor[1];
    const struct pto_tensor *rounds = &entry->tensor[2];
    struct pto_tensor_info flag = pto_tensor_info_make(PTO_DIMS(1), 1, PTO_INT32);

    pto_tensor_info_fill(&flag, 1);
    const struct pto_tensor *going = pto_alloc(o, PTO_OUT(&flag)).tensor;

    for (int round = 1; round <= ROUNDS; round++) {
        pto_aiv(o, SWEEP, PTO_IN(b), PTO_INOUT(x), PTO_IF(going, NE, 0, 0));
        pto_aiv(o, MEASURE, PTO_IN(b), PTO_IN(x), PTO_WRITE(going), PTO_INOUT(rounds),
                PTO_IF(going, NE, 0, 0));
        if (pto_is_streamed(o) && round % LOOK == 0 && pto_get_data(o, going, 1, PTO_DIMS(0)) == 0)
            break;
    }
}
