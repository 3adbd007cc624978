/* SPDX-License-Identifier: Apache-2.0 */
/* Every rank calls it. The numbers of the others follow from theirs. */
#include <pto/scene.h>

static float x_of(int64_t rank, uint64_t i)
{
    return (float)((rank * 19 + (int64_t)i * 5) % 37);
}

int pto_scene_golden(const struct pto_scene *s)
{
    int64_t rank = pto_scene_param(s, "rank"), ranks = pto_scene_param(s, "ranks");
    int64_t mid = pto_scene_param(s, "mid");
    float *x = pto_scene_data(s, "x"), *low = pto_scene_expected(s, "low_sum");
    float *high = pto_scene_expected(s, "high_sum"), *carried = pto_scene_expected(s, "carried");

    for (uint64_t i = 0; i < pto_scene_tensor(s, "x")->count; i++) {
        x[i] = x_of(rank, i);
        for (int64_t r = 0; r < ranks; r++) {
            low[i] += rank <= mid && r <= mid ? x_of(r, i) : 0;
            high[i] += rank >= mid && r >= mid ? x_of(r, i) : 0;
            carried[i] += rank >= mid && r <= mid ? x_of(r, i) : 0;
        }
    }
    return 0;
}
