/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each tile of c is a chain of products on an AIC, one for each tile along k,
 * and a task on an AIV at its end:
 *
 *     a[i][0] b[0][j]    a[i][1] b[1][j]          bias[j]
 *            |                  |                    |
 *     MULTIPLY -> sum -> MULTIPLY -> sum -> ... -> FINISH -> c[i][j]
 *
 * The chains are independent of each other and share the cores. Views at the
 * edges are smaller; kernels take their sizes from the tensors.
 */
#include <pto/orch.h>

enum { TILE = 32 };
enum { MULTIPLY, FINISH }; /* as in scene.yaml */

static uint32_t part(uint32_t size, uint32_t at)
{
    return size - at < TILE ? size - at : TILE;
}

static void multiply(struct pto_orch *o, const struct pto_entry *entry, uint32_t i, uint32_t j)
{
    const struct pto_tensor *a = &entry->tensor[0], *b = &entry->tensor[1];
    const struct pto_tensor *bias = &entry->tensor[2], *c = &entry->tensor[3];
    uint32_t rows = part(c->shapes[0], i), columns = part(c->shapes[1], j);
    const struct pto_tensor tile = pto_tensor_view(c, PTO_DIMS(rows, columns), PTO_DIMS(i, j));
    const struct pto_tensor shift = pto_tensor_view(bias, PTO_DIMS(columns), PTO_DIMS(j));
    struct pto_tensor_info zero = pto_tensor_info_make(PTO_DIMS(rows, columns), 2, PTO_FLOAT32);

    pto_tensor_info_fill(&zero, 0);
    const struct pto_tensor *sum = pto_alloc(o, PTO_OUT(&zero)).tensor;

    for (uint32_t k = 0; k < a->shapes[1]; k += TILE) {
        uint32_t inner = part(a->shapes[1], k);
        const struct pto_tensor x = pto_tensor_view(a, PTO_DIMS(rows, inner), PTO_DIMS(i, k));
        const struct pto_tensor y = pto_tensor_view(b, PTO_DIMS(inner, columns), PTO_DIMS(k, j));

        pto_aic(o, MULTIPLY, PTO_IN(&x), PTO_IN(&y), PTO_INOUT(sum));
    }
    pto_aiv(o, FINISH, PTO_IN(sum), PTO_IN(&shift), PTO_WRITE(&tile));
}

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *c = &entry->tensor[3];

    for (uint32_t i = 0; i < c->shapes[0]; i += TILE)
        for (uint32_t j = 0; j < c->shapes[1]; j += TILE)
            PTO_SCOPE(o)
                multiply(o, entry, i, j);
}
