/* SPDX-License-Identifier: Apache-2.0 */
/* Every rank calls it. The tokens and weights of the others follow from their numbers. */
#include <pto/scene.h>

static float token_of(int64_t rank, int64_t t, int64_t h)
{
    return (float)(1 + (rank * 5 + t * 3 + h) % 7);
}

static float weight_of(int64_t rank, int64_t j, int64_t k)
{
    return (float)((rank + j * 2 + k * 3) % 5 - 2);
}

static int64_t expert_of(int64_t rank, int64_t t, int64_t ranks)
{
    return (rank * 3 + t * t) % ranks;
}

int pto_scene_golden(const struct pto_scene *s)
{
    int64_t rank = pto_scene_param(s, "rank"), ranks = pto_scene_param(s, "ranks");
    int64_t tokens = pto_scene_param(s, "tokens"), hidden = pto_scene_param(s, "hidden");
    float *x = pto_scene_data(s, "x"), *gate = pto_scene_data(s, "gate");
    float *weight = pto_scene_data(s, "weight"), *inbox = pto_scene_expected(s, "inbox");
    float *y = pto_scene_expected(s, "y");
    int32_t *expert = pto_scene_data(s, "expert");

    for (int64_t i = 0; i < hidden * hidden; i++)
        weight[i] = weight_of(rank, i / hidden, i % hidden);
    for (int64_t i = 0; i < ranks * tokens * hidden; i++) {
        int64_t from = i / hidden / tokens, t = i / hidden % tokens;

        inbox[i] = expert_of(from, t, ranks) == rank ? token_of(from, t, i % hidden) : 0;
    }
    for (int64_t t = 0; t < tokens; t++) {
        expert[t] = (int32_t)expert_of(rank, t, ranks);
        gate[t] = (float)(t % 4) * 0.5f;
        for (int64_t k = 0; k < hidden; k++) {
            x[t * hidden + k] = token_of(rank, t, k);
            for (int64_t j = 0; j < hidden; j++)
                y[t * hidden + k] += gate[t] * token_of(rank, t, j) * weight_of(expert[t], j, k);
        }
    }
    return 0;
}
