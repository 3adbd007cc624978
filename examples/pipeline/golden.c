/* SPDX-License-Identifier: Apache-2.0 */
/* Small whole numbers, so every intermediate result is exact. */
#include <pto/scene.h>

int pto_scene_golden(const struct pto_scene *s)
{
    int64_t rows = pto_scene_tensor(s, "a")->shapes[0];
    const float *a = pto_scene_data(s, "a"), *b = pto_scene_data(s, "b");
    const float *bias = pto_scene_data(s, "bias");
    float *out = pto_scene_expected(s, "out");

    for (const char *const *name = (const char *const[]){ "a", "b", "bias", NULL }; *name; name++) {
        const struct pto_scene_tensor *t = pto_scene_tensor(s, *name);

        for (uint64_t i = 0; i < t->count && !t->is_given; i++)
            ((float *)t->data)[i] = (float)pto_scene_integer(s, -5, 5);
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < 32; c++) {
            float x = bias[c];

            for (int64_t k = 0; k < 32; k++)
                x += a[r * 32 + k] * b[k * 32 + c];
            out[r * 32 + c] = x > 0 ? x : 0;
        }
    return 0;
}
