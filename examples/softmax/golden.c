/* SPDX-License-Identifier: Apache-2.0 */
/* As it is written in books, in double precision. */
#include <math.h>
#include <pto/half.h>
#include <pto/scene.h>

int pto_scene_golden(const struct pto_scene *s)
{
    int64_t rows = pto_scene_param(s, "rows"), columns = pto_scene_param(s, "columns");
    const uint16_t *x = pto_scene_data(s, "x");
    uint16_t *y = pto_scene_expected(s, "y");

    pto_scene_random(s, "x", -10, 10);
    for (int64_t r = 0; r < rows; r++, x += columns, y += columns) {
        double max = pto_bfloat16_to_float(x[0]), sum = 0;

        for (int64_t c = 1; c < columns; c++)
            max = fmax(max, pto_bfloat16_to_float(x[c]));
        for (int64_t c = 0; c < columns; c++)
            sum += exp(pto_bfloat16_to_float(x[c]) - max);
        for (int64_t c = 0; c < columns; c++)
            y[c] = pto_float16_from_float((float)(exp(pto_bfloat16_to_float(x[c]) - max) / sum));
    }
    return 0;
}
