/* SPDX-License-Identifier: Apache-2.0 */
/* Three loops in double precision. */
#include <pto/scene.h>

int pto_scene_golden(const struct pto_scene *s)
{
    int64_t m = pto_scene_param(s, "m"), k = pto_scene_param(s, "k"), n = pto_scene_param(s, "n");
    const float *a = pto_scene_data(s, "a"), *b = pto_scene_data(s, "b");
    const float *bias = pto_scene_data(s, "bias");
    float *c = pto_scene_expected(s, "c");

    pto_scene_random(s, "a", -1, 1);
    pto_scene_random(s, "b", -1, 1);
    pto_scene_random(s, "bias", -1, 1);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = bias[j];

            for (int64_t x = 0; x < k; x++)
                sum += (double)a[i * k + x] * b[x * n + j];
            c[i * n + j] = sum > 0 ? (float)sum : 0;
        }
    return 0;
}
