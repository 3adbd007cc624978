/* SPDX-License-Identifier: Apache-2.0 */
/* The callable `subtract`, on a chip: f = a + (-b), in two tasks. Its kernel 0 is not that of `add`. */
#include <pto/orch.h>

enum { NEGATE, ADD };

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *a = &entry->tensor[0], *b = &entry->tensor[1], *f = &entry->tensor[2];
    const struct pto_tensor_info info = pto_tensor_info_make(b->shapes, 1, PTO_INT32);
    const struct pto_tensor *minus = pto_aiv(o, NEGATE, PTO_IN(b), PTO_OUT(&info)).tensor;

    pto_aiv(o, ADD, PTO_IN(a), PTO_IN(minus), PTO_WRITE(f));
}
