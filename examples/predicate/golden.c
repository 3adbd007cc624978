/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the rounds in a plain loop. */
#include <math.h>
#include <pto/scene.h>

static float solution(int64_t i)
{
    return (float)(i % 19 - 9);
}

static int is_good(const float *b, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float near = (i > 0 ? x[i - 1] : 0) + (i < n - 1 ? x[i + 1] : 0);

        if (fabsf(4 * x[i] - near - b[i]) > 1e-3f)
            return 0;
    }
    return 1;
}

int pto_scene_golden(const struct pto_scene *s)
{
    int64_t n = pto_scene_param(s, "n");
    float *b = pto_scene_data(s, "b"), *x = pto_scene_expected(s, "x");
    int32_t *rounds = pto_scene_expected(s, "rounds");

    for (int64_t i = 0; i < n; i++)
        b[i] = 4 * solution(i) - (i > 0 ? solution(i - 1) : 0) - (i < n - 1 ? solution(i + 1) : 0);
    do { /* x is 0 at first */
        for (int64_t i = 0; i < n; i++)
            x[i] = 0.25f * (b[i] + (i > 0 ? x[i - 1] : 0) + (i < n - 1 ? x[i + 1] : 0));
        ++*rounds;
    } while (!is_good(b, x, n));
    return *rounds < 100 ? 0 : 1;
}
