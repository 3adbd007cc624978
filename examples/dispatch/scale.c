/* SPDX-License-Identifier: Apache-2.0 */
/* The callable `scale`, on a chip: each row of y is that of x, divided by its largest magnitude. */
#include <pto/orch.h>

enum { PEAK, DIVIDE };

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *x = &entry->tensor[0], *y = &entry->tensor[1];
    const struct pto_tensor_info one =
        pto_tensor_info_make((const uint32_t[]){ 1 }, 1, PTO_FLOAT32);

    for (uint32_t row = 0; row < x->shapes[0]; row++) {
        const uint32_t shape[] = { 1, x->shapes[1] }, offset[] = { row, 0 };
        const struct pto_tensor from = pto_tensor_view(x, shape, offset);
        const struct pto_tensor to = pto_tensor_view(y, shape, offset);
        const struct pto_tensor *peak = pto_aiv(o, PEAK, PTO_IN(&from), PTO_OUT(&one)).tensor;

        pto_aiv(o, DIVIDE, PTO_IN(&from), PTO_IN(peak), PTO_WRITE(&to));
    }
}
