/* SPDX-License-Identifier: Apache-2.0 */
/*
 * f = (a + b + 1)(a + b + 2) + (a + b) in five tasks:
 *
 *     a --+             +-- d = c + 1 --+
 *         +-- c = a + b +               +-- g = d * e -- f = g + c
 *     b --+        |    +-- e = c + 2 --+               |
 *                  +------------------------------------+
 *
 * The orchestration names no order: it follows from the tensors. d, e and g
 * live in a separate scope and are freed when it has ended.
 */
#include <pto/orch.h>

enum { ADD, ADD_SCALAR, MUL }; /* as in scene.yaml */

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *a = &entry->tensor[0], *b = &entry->tensor[1], *f = &entry->tensor[2];
    const struct pto_tensor_info info = pto_tensor_info_make(a->shapes, 1, PTO_FLOAT32);
    const struct pto_tensor *c = pto_aiv(o, ADD, PTO_IN(a), PTO_IN(b), PTO_OUT(&info)).tensor;

    PTO_SCOPE(o) {
        const struct pto_tensor *d, *e, *g;

        d = pto_aiv(o, ADD_SCALAR, PTO_IN(c), PTO_OUT(&info), PTO_FLOAT(1.0f)).tensor;
        e = pto_aiv(o, ADD_SCALAR, PTO_IN(c), PTO_OUT(&info), PTO_FLOAT(2.0f)).tensor;
        g = pto_aiv(o, MUL, PTO_IN(d), PTO_IN(e), PTO_OUT(&info)).tensor;
        pto_aiv(o, ADD, PTO_IN(g), PTO_IN(c), PTO_WRITE(f));
    }
}
