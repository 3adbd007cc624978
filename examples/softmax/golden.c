/* SPDX-License-Identifier: Apache-2.0 */
/* As it is written in books, in double precision. */
#include <math.h>
#include <pto/scene.h>

int pto_scene_golden(const struct pto_scene *s)
{
    int64_t rows = pto_scene_param(s, "rows"), columns = pto_scene_param(s, "columns");
    const float *x = pto_scene_data(s, "x");
    float *y = pto_scene_expected(s, "y");

    pto_scene_random(s, "x", -10, 10);
    for (int64_t r = 0; r < rows; r++, x += columns, y += columns) {
        double max = x[0], sum = 0;

        for (int64_t c = 1; c < columns; c++)
            max = fmax(max, x[c]);
        for (int64_t c = 0; c < columns; c++)
            sum += exp(x[c] - max);
        for (int64_t c = 0; c < columns; c++)
            y[c] = (float)(exp(x[c] - max) / sum);
    }
    return 0;
}
