/* SPDX-License-Identifier: Apache-2.0 */
/* One tile of the table; those above and to the left are there. */
#include <pto/kernel.h>

enum { TILE = 32 }; /* as in orch.c */

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void kernel_entry(int64_t *args)
{
    const struct pto_tensor *tensor = pto_arg_tensor(args, 0);
    const int32_t *image = pto_tensor_data(tensor);
    int32_t *table = pto_tensor_data(pto_arg_tensor(args, 1));
    int64_t rows = tensor->shapes[0], columns = tensor->shapes[1];
    int64_t top = args[2] * TILE, left = args[3] * TILE;

    for (int64_t i = top; i < smaller(top + TILE, rows); i++)
        for (int64_t j = left; j < smaller(left + TILE, columns); j++) {
            int32_t above = i > 0 ? table[(i - 1) * columns + j] : 0;
            int32_t before = j > 0 ? table[i * columns + j - 1] : 0;
            int32_t both = i > 0 && j > 0 ? table[(i - 1) * columns + j - 1] : 0;

            table[i * columns + j] = image[i * columns + j] + above + before - both;
        }
}
