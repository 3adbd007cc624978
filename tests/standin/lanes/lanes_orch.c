/* SPDX-License-Identifier: Apache-2.0 */
#include <pto/orch.h>

#include "lanes.h"

void orchestrate(struct pto_orch *o, const struct pto_entry *e)
{
    const struct pto_tensor *x = &e->tensor[0], *y = &e->tensor[1];
    const uint32_t *lines = PTO_DIMS(x->shapes[0], LINES, WORDS);
    const struct pto_tensor_info between = pto_tensor_info_make(lines, 3, PTO_INT32);

    pto_mix(o, PTO_LANES(0, 1, 1), PTO_IN(x), PTO_WRITE(y), PTO_OUT(&between),
            PTO_BLOCKS(x->shapes[0]));
}
