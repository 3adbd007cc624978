/* SPDX-License-Identifier: Apache-2.0 */
/* The pixels around each one, added up. */
#include <pto/scene.h>

enum { RADIUS = 2 };

int pto_scene_golden(const struct pto_scene *s)
{
    int64_t rows = pto_scene_param(s, "rows"), columns = pto_scene_param(s, "columns");
    const int32_t *image = pto_scene_data(s, "image");
    int32_t *blurred = pto_scene_expected(s, "blurred");

    pto_scene_random(s, "image", 0, 256);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            int32_t sum = 0;

            for (int64_t k = i - RADIUS; k <= i + RADIUS; k++)
                for (int64_t l = j - RADIUS; l <= j + RADIUS; l++)
                    sum += k >= 0 && k < rows && l >= 0 && l < columns ? image[k * columns + l] : 0;
            blurred[i * columns + j] = sum;
        }
    return 0;
}
