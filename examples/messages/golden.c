/* SPDX-License-Identifier: Apache-2.0 */
#include <pto/scene.h>

int pto_scene_golden(const struct pto_scene *s)
{
    int64_t count = pto_scene_param(s, "rows") * pto_scene_param(s, "n");
    const int32_t *x = pto_scene_data(s, "x");
    int32_t *y = pto_scene_expected(s, "y");

    pto_scene_random(s, "x", -1000, 1000);
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] * x[i];
    return 0;
}
