/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each pixel becomes the sum of the 5 x 5 pixels around it, from a table of sums:
 * table[i][j] is the sum of all pixels above and to the left.
 *
 *     SCAN(0,0) --> SCAN(0,1) --> SCAN(0,2)       a task for each tile of the table,
 *         |             |             |           which needs those above and to the
 *         v             v             v           left; BLUR reads all of it
 *     SCAN(1,0) --> SCAN(1,1) --> SCAN(1,2) --> BLUR
 *
 * Every SCAN gets the whole table, so the tensors would run them one by one: the
 * orchestration names the order itself.
 */
#include <pto/orch.h>

enum { SCAN, BLUR }; /* as in scene.yaml */

enum { TILE = 32, COLUMNS_MAX = 64 }; /* TILE: as in kernels/scan.c */

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *image = &entry->tensor[0], *blurred = &entry->tensor[1];
    const struct pto_tensor_info info = pto_tensor_info_make(image->shapes, 2, PTO_INT32);
    uint32_t rows = (image->shapes[0] + TILE - 1) / TILE;
    uint32_t columns = (image->shapes[1] + TILE - 1) / TILE;
    struct pto_task_id done[COLUMNS_MAX]; /* the latest task of each column */
    const struct pto_tensor *table = pto_alloc(o, PTO_OUT(&info)).tensor;

    if (columns > COLUMNS_MAX) {
        pto_orch_fail(o, PTO_EORCH, "the image is wider than 64 tiles");
        return;
    }
    PTO_MANUAL(o) {
        for (uint32_t i = 0; i < rows * columns; i++) {
            uint32_t r = i / columns, c = i % columns, count = 0;
            struct pto_task_id before[2];

            if (r > 0)
                before[count++] = done[c];
            if (c > 0)
                before[count++] = done[c - 1];
            done[c] = pto_aiv(o, SCAN, PTO_IN(image), PTO_INOUT(table), PTO_INT(r), PTO_INT(c),
                              PTO_DEPS_OF(before, count))
                          .task;
        }
    }
    pto_aiv(o, BLUR, PTO_IN(table), PTO_WRITE(blurred), PTO_DEPS(done[columns - 1]));
}
