/* SPDX-License-Identifier: Apache-2.0 */
#include <pto/scene.h>

int pto_scene_golden(const struct pto_scene *s)
{
    int64_t n = pto_scene_param(s, "n"), rounds = pto_scene_param(s, "rounds");
    const int32_t *x = pto_scene_data(s, "x");
    int32_t *y = pto_scene_expected(s, "x");

    pto_scene_random(s, "x", -1000, 1000);
    for (int64_t i = 0; i < n; i++) {
        int32_t a = x[i], b = x[n + i], c = x[2 * n + i];

        for (int64_t round = 0; round < rounds; round++) {
            a = b = a + b;
            b = c = b + c;
        }
        y[i] = a;
        y[n + i] = b;
        y[2 * n + i] = c;
    }
    return 0;
}
