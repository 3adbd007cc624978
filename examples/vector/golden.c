/* SPDX-License-Identifier: Apache-2.0 */
/* Small whole numbers, so every intermediate result is exact. */
#include <pto/scene.h>

int pto_scene_golden(const struct pto_scene *s)
{
    int64_t n = pto_scene_param(s, "n");
    float *a = pto_scene_data(s, "a"), *b = pto_scene_data(s, "b");
    float *f = pto_scene_expected(s, "f");

    for (int64_t i = 0; i < n; i++) {
        if (!pto_scene_tensor(s, "a")->is_given)
            a[i] = (float)(i % 61);
        if (!pto_scene_tensor(s, "b")->is_given)
            b[i] = (float)(i % 37);
        f[i] = (a[i] + b[i] + 1) * (a[i] + b[i] + 2) + (a[i] + b[i]);
    }
    return 0;
}
