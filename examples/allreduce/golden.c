/* SPDX-License-Identifier: Apache-2.0 */
/* Every rank calls it. The inputs of the others follow from their numbers. */
#include <pto/scene.h>

static float input_of(int64_t rank, uint64_t i)
{
    return 0.1f * (float)((rank * 31 + (int64_t)i * 17) % 101 - 50);
}

int pto_scene_golden(const struct pto_scene *s)
{
    int64_t rank = pto_scene_param(s, "rank"), ranks = pto_scene_param(s, "ranks");
    int64_t root = pto_scene_param(s, "root");
    float *input = pto_scene_data(s, "input"), *output = pto_scene_expected(s, "output");

    for (uint64_t i = 0; i < pto_scene_tensor(s, "input")->count; i++) {
        input[i] = input_of(rank, i);
        for (int64_t k = 0; k < ranks; k++)
            output[i] += input_of((root + k) % ranks, i);
    }
    return 0;
}
