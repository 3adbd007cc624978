/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <pto/scene.h>

int pto_scene_golden(const struct pto_scene *s)
{
    int64_t batch = pto_scene_param(s, "batch"), width = pto_scene_param(s, "width");
    const float *x = pto_scene_data(s, "x");
    float *y = pto_scene_expected(s, "y");

    pto_scene_random(s, "x", -8, 8);
    for (int64_t row = 0; row < batch; row++) {
        float peak = 0;

        for (int64_t i = 0; i < width; i++)
            peak = fmaxf(peak, fabsf(x[row * width + i]));
        for (int64_t i = 0; i < width; i++)
            y[row * width + i] = x[row * width + i] / peak;
    }
    return 0;
}
