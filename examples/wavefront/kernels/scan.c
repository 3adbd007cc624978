/* SPDX-License-Identifier: Apache-2.0 */
/* One tile of the table; those above and to the left are there. */
#include <pto/kernel.h>

enum { TILE = 32 }; /* as in orch.c */

static PTO_AICORE int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *tensor = pto_arg_tensor(args, 0);
    PTO_GM const int32_t *image = PTO_DATA(tensor, int32_t);
    PTO_GM int32_t *table = PTO_ARG(args, 1, int32_t);
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
