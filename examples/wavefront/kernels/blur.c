/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of the pixels around each one: four elements of the table. */
#include <pto/kernel.h>

enum { RADIUS = 2 };

/* The sum of the pixels above row i and left of column j, as far as there are any. */
static PTO_AICORE int32_t sum_before(PTO_GM const int32_t *table, PTO_GM const struct pto_tensor *t,
                                     int64_t i, int64_t j)
{
    int64_t rows = t->shapes[0], columns = t->shapes[1];

    i = i < rows ? i : rows;
    j = j < columns ? j : columns;
    return i > 0 && j > 0 ? table[(i - 1) * columns + j - 1] : 0;
}

PTO_KERNEL(args)
{
    PTO_GM const struct pto_tensor *t = pto_arg_tensor(args, 0);
    PTO_GM const int32_t *table = PTO_DATA(t, int32_t);
    PTO_GM int32_t *blurred = PTO_ARG(args, 1, int32_t);

    for (int64_t i = 0; i < t->shapes[0]; i++)
        for (int64_t j = 0; j < t->shapes[1]; j++) {
            int64_t top = i - RADIUS, bottom = i + RADIUS + 1;
            int64_t left = j - RADIUS, right = j + RADIUS + 1;

            blurred[i * t->shapes[1] + j] =
                sum_before(table, t, bottom, right) - sum_before(table, t, top, right) -
                sum_before(table, t, bottom, left) + sum_before(table, t, top, left);
        }
}
