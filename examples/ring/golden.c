/* SPDX-License-Identifier: Apache-2.0 */
/* Every rank calls it. The data of the others follows from their numbers. */
#include <pto/scene.h>

static float data_of(int64_t rank, uint64_t i)
{
    return (float)((rank * 13 + (int64_t)i * 7) % 41);
}

int pto_scene_golden(const struct pto_scene *s)
{
    int64_t rank = pto_scene_param(s, "rank"), ranks = pto_scene_param(s, "ranks");
    float *data = pto_scene_data(s, "data"), *expected = pto_scene_expected(s, "data");

    for (uint64_t i = 0; i < pto_scene_tensor(s, "data")->count; i++) {
        data[i] = data_of(rank, i);
        for (int64_t r = 0; r < ranks; r++)
            expected[i] += data_of(r, i);
    }
    return 0;
}
