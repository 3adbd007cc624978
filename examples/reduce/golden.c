/* SPDX-License-Identifier: Apache-2.0 */
#include <pto/scene.h>

int pto_scene_golden(const struct pto_scene *s)
{
    int64_t n = pto_scene_param(s, "n");
    const int32_t *a = pto_scene_data(s, "a");
    int32_t *f = pto_scene_expected(s, "f");

    pto_scene_random(s, "a", -100000, 100000);
    pto_scene_random(s, "b", -100000, 100000);
    for (int64_t i = 0; i < n; i++)
        f[i] = 2 * a[i];
    return 0;
}
