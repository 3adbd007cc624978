/* SPDX-License-Identifier: Apache-2.0 */
#include <pto/scene.h>

int pto_scene_golden(const struct pto_scene *s)
{
    int64_t rows = pto_scene_param(s, "rows"), columns = pto_scene_param(s, "columns");
    float *a = pto_scene_data(s, "a"), *x = pto_scene_data(s, "x");
    float *y = pto_scene_expected(s, "y");

    for (int64_t i = 0; i < rows * columns; i++)
        a[i] = (float)(i % 7 - 3);
    for (int64_t c = 0; c < columns; c++)
        x[c] = (float)(c % 5 - 2);
    for (int64_t r = 0; r < rows; r++) {
        y[r] = 0;
        for (int64_t c = 0; c < columns; c++)
            y[r] += a[r * columns + c] * x[c];
    }
    return 0;
}
