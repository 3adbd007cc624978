/* SPDX-License-Identifier: Apache-2.0 */
#include <pto/scene.h>

int pto_scene_golden(const struct pto_scene *s)
{
    int64_t batch = pto_scene_param(s, "batch"), width = pto_scene_param(s, "width");
    int64_t share = pto_scene_param(s, "share"), chips = pto_scene_param(s, "chips");
    const float *x = pto_scene_data(s, "x"), *w1 = pto_scene_data(s, "w1");
    const float *w2 = pto_scene_data(s, "w2");
    float *y = pto_scene_expected(s, "y");

    pto_scene_random(s, "x", -1, 1);
    pto_scene_random(s, "w1", -1, 1);
    pto_scene_random(s, "w2", -1, 1);
    for (int64_t row = 0; row < batch; row++)
        for (int64_t out = 0; out < width; out++) {
            double sum = 0;

            for (int64_t h = 0; h < chips * share; h++) { /* unit h % share of chip h / share */
                const float *columns = w1 + h / share * width * share + h % share;
                double unit = 0;

                for (int64_t i = 0; i < width; i++)
                    unit += (double)x[row * width + i] * columns[i * share];
                sum += unit > 0 ? unit * w2[h * width + out] : 0;
            }
            for (int64_t chip = 0; chip < chips; chip++)
                y[(chip * batch + row) * width + out] = (float)sum;
        }
    return 0;
}
