/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each block of rows is cut into tiles of columns:
 *
 *     x tile 0 -> REDUCE -> maximum, sum --+              +-> SCALE -> y tile 0
 *     x tile 1 -> REDUCE -> maximum, sum --+-> COMBINE ---+-> SCALE -> y tile 1
 *     ...                                  +              +
 *
 * REDUCE writes into its own column of the statistics, COMBINE reads all of
 * them: it waits for every REDUCE of its rows, and for no other.
 */
#include <pto/orch.h>

enum { ROWS = 16, COLUMNS = 64 }; /* of a tile */
enum { REDUCE, COMBINE, SCALE };  /* as in scene.yaml */

static uint32_t part(uint32_t size, uint32_t at, uint32_t tile)
{
    return size - at < tile ? size - at : tile;
}

static void normalize(struct pto_orch *o, const struct pto_entry *entry, uint32_t r)
{
    const struct pto_tensor *x = &entry->tensor[0], *y = &entry->tensor[1];
    uint32_t rows = part(x->shapes[0], r, ROWS), columns = x->shapes[1];
    uint32_t tiles = (columns + COLUMNS - 1) / COLUMNS;
    const struct pto_tensor_info each = pto_tensor_info_make(PTO_DIMS(tiles, rows), 2, PTO_FLOAT32);
    const struct pto_tensor_info all = pto_tensor_info_make(PTO_DIMS(rows), 1, PTO_FLOAT32);
    const struct pto_outputs parts = pto_alloc(o, PTO_OUT(&each), PTO_OUT(&each));
    struct pto_outputs whole;

    for (uint32_t t = 0; t < tiles; t++) {
        const uint32_t *box = PTO_DIMS(rows, part(columns, t * COLUMNS, COLUMNS));
        const struct pto_tensor tile = pto_tensor_view(x, box, PTO_DIMS(r, t * COLUMNS));
        const uint32_t *line = PTO_DIMS(1, rows), *at = PTO_DIMS(t, 0);
        const struct pto_tensor max = pto_tensor_view(pto_output(parts, 0), line, at);
        const struct pto_tensor sum = pto_tensor_view(pto_output(parts, 1), line, at);

        pto_aiv(o, REDUCE, PTO_IN(&tile), PTO_WRITE(&max), PTO_WRITE(&sum));
    }
    whole = pto_aiv(o, COMBINE, PTO_IN(pto_output(parts, 0)), PTO_IN(pto_output(parts, 1)),
                    PTO_OUT(&all), PTO_OUT(&all));
    for (uint32_t t = 0; t < tiles; t++) {
        const uint32_t *box = PTO_DIMS(rows, part(columns, t * COLUMNS, COLUMNS));
        const struct pto_tensor from = pto_tensor_view(x, box, PTO_DIMS(r, t * COLUMNS));
        const struct pto_tensor to = pto_tensor_view(y, box, PTO_DIMS(r, t * COLUMNS));

        pto_aiv(o, SCALE, PTO_IN(&from), PTO_IN(pto_output(whole, 0)), PTO_IN(pto_output(whole, 1)),
                PTO_WRITE(&to));
    }
}

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    for (uint32_t r = 0; r < entry->tensor[0].shapes[0]; r += ROWS)
        PTO_SCOPE(o)
            normalize(o, entry, r);
}
