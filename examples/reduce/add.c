/* SPDX-License-Identifier: Apache-2.0 */
/* The callable `add`, on a chip: f = a + b, in tiles that run in parallel. */
#include <pto/orch.h>

enum { ADD };
enum { TILE = 512 };

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *a = &entry->tensor[0], *b = &entry->tensor[1], *f = &entry->tensor[2];
    uint32_t n = a->shapes[0];

    for (uint32_t first = 0; first < n; first += TILE) {
        const uint32_t shape[] = { n - first < TILE ? n - first : TILE }, offset[] = { first };
        const struct pto_tensor x = pto_tensor_view(a, shape, offset);
        const struct pto_tensor y = pto_tensor_view(b, shape, offset);
        const struct pto_tensor z = pto_tensor_view(f, shape, offset);

        pto_aiv(o, ADD, PTO_IN(&x), PTO_IN(&y), PTO_WRITE(&z));
    }
}
