/* SPDX-License-Identifier: Apache-2.0 */
/*
 * out = max(a b + bias, 0) with all three cores of each cluster at work: the
 * AIC multiplies a tile of rows, and each AIV finishes half of it while the
 * AIC is at the next one. Between them is a ring of SLOTS tiles in memory.
 *
 *     AIC    matmul 0   matmul 1   matmul 2   matmul 3  ...
 *                   \ filled  \          \
 *     AIV 0          rows 0-7   rows 0-7   rows 0-7
 *     AIV 1          rows 8-15  rows 8-15  rows 8-15
 *                   / taken
 *     AIC                       matmul 2 may use the slot of matmul 0
 *
 * The lanes of a block run at the same time, so they may wait for each other.
 * A block does a part of the rows, with its own ring; blocks that find no
 * free cluster run later.
 */
#include <pto/orch.h>

#include "ring.h"

enum { MATMUL, EPILOGUE }; /* as in scene.yaml */

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *a = &entry->tensor[0], *b = &entry->tensor[1];
    const struct pto_tensor *bias = &entry->tensor[2], *out = &entry->tensor[3];
    uint32_t blocks = out->shapes[0] / (TILES * TILE);
    const uint32_t *tiles = PTO_DIMS(blocks, SLOTS, TILE, COLUMNS);
    const struct pto_tensor_info ring = pto_tensor_info_make(tiles, 4, PTO_FLOAT32);
    struct pto_tensor_info flags = pto_tensor_info_make(PTO_DIMS(blocks, FLAGS), 2, PTO_UINT32);

    pto_tensor_info_fill(&flags, 0);
    pto_mix(o, PTO_LANES(MATMUL, EPILOGUE, EPILOGUE), PTO_IN(a), PTO_IN(b), PTO_IN(bias),
            PTO_WRITE(out), PTO_OUT(&ring), PTO_OUT(&flags), PTO_BLOCKS(blocks));
}
