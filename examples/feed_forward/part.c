/* SPDX-License-Identifier: Apache-2.0 */
/* The callable `part`, on a chip: its share of the hidden layer, and the sum with the others. */
#include <pto/orch.h>

enum { UP, DOWN, ALL_REDUCE };

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *x = &entry->tensor[0], *w1 = &entry->tensor[1];
    const struct pto_tensor *w2 = &entry->tensor[2], *y = &entry->tensor[3];
    const uint32_t hidden[] = { x->shapes[0], w1->shapes[1] };
    const struct pto_tensor_info hidden_info = pto_tensor_info_make(hidden, 2, PTO_FLOAT32);
    const struct pto_tensor_info y_info = pto_tensor_info_make(x->shapes, 2, PTO_FLOAT32);
    const struct pto_tensor *h, *partial;

    h = pto_aic(o, UP, PTO_IN(x), PTO_IN(w1), PTO_OUT(&hidden_info)).tensor;
    partial = pto_aic(o, DOWN, PTO_IN(h), PTO_IN(w2), PTO_OUT(&y_info)).tensor;
    pto_aiv(o, ALL_REDUCE, PTO_IN(partial), PTO_WRITE(y), PTO_INT(entry->scalar[0]));
}
