/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax as it is written in books, in double precision. What no sequence
 * owns is NAN: a kernel that reads it spoils the result.
 */
#include <math.h>
#include <pto/scene.h>

/* Sizes, and where a token's row of a head is. */
struct cache {
    int64_t heads, kv_heads, dim, tokens, blocks;
    const int32_t *table;
};

static int64_t row_of(const struct cache *c, int64_t b, int64_t t, int64_t kv_head)
{
    int64_t page = c->table[b * c->blocks + t / c->tokens];

    return ((page * c->tokens + t % c->tokens) * c->kv_heads + kv_head) * c->dim;
}

static int32_t length_of(const struct cache *c, int64_t b)
{
    int64_t most = c->blocks * c->tokens;
    const int64_t lengths[] = { most, most - c->tokens + 2, c->tokens, 1 };

    return (int32_t)lengths[b % 4];
}

static void fill(const struct pto_scene *s, struct cache *c, int64_t batch)
{
    float *keys = pto_scene_data(s, "keys"), *values = pto_scene_data(s, "values");
    int32_t *table = pto_scene_data(s, "table"), *lengths = pto_scene_data(s, "lengths");
    int64_t pages = batch * c->blocks;

    pto_scene_random(s, "query", -4, 4);
    for (uint64_t i = 0; i < pto_scene_tensor(s, "keys")->count; i++)
        keys[i] = values[i] = NAN;
    for (int64_t i = 0; i < pages; i++)
        table[i] = (int32_t)((7 * i + 3) % pages); /* 7 divides none of the sizes used here */
    for (int64_t b = 0; b < batch; b++) {
        lengths[b] = length_of(c, b);
        for (int64_t t = 0; t < lengths[b]; t++)
            for (int64_t i = 0; i < c->kv_heads * c->dim; i++) {
                keys[row_of(c, b, t, 0) + i] = (float)pto_scene_uniform(s, -1, 1);
                values[row_of(c, b, t, 0) + i] = (float)pto_scene_uniform(s, -1, 1);
            }
    }
}

static double score(const struct cache *c, const float *q, const float *k)
{
    double dot = 0;

    for (int64_t d = 0; d < c->dim; d++)
        dot += (double)q[d] * k[d];
    return dot / sqrt((double)c->dim);
}

static void attend(const struct pto_scene *s, const struct cache *c, int64_t b, int64_t h)
{
    const float *keys = pto_scene_data(s, "keys"), *values = pto_scene_data(s, "values");
    const float *q = (const float *)pto_scene_data(s, "query") + (b * c->heads + h) * c->dim;
    float *out = (float *)pto_scene_expected(s, "out") + (b * c->heads + h) * c->dim;
    int64_t kv_head = h / (c->heads / c->kv_heads), length = length_of(c, b);
    double max = -INFINITY, sum = 0;

    for (int64_t t = 0; t < length; t++)
        max = fmax(max, score(c, q, keys + row_of(c, b, t, kv_head)));
    for (int64_t t = 0; t < length; t++)
        sum += exp(score(c, q, keys + row_of(c, b, t, kv_head)) - max);
    for (int64_t d = 0; d < c->dim; d++) {
        double x = 0;

        for (int64_t t = 0; t < length; t++)
            x += exp(score(c, q, keys + row_of(c, b, t, kv_head)) - max) *
                 values[row_of(c, b, t, kv_head) + d];
        out[d] = (float)(x / sum);
    }
}

int pto_scene_golden(const struct pto_scene *s)
{
    int64_t batch = pto_scene_param(s, "batch");
    struct cache c = { pto_scene_param(s, "heads"),  pto_scene_param(s, "kv_heads"),
                       pto_scene_param(s, "dim"),    pto_scene_param(s, "tokens"),
                       pto_scene_param(s, "blocks"), pto_scene_data(s, "table") };

    fill(s, &c, batch);
    for (int64_t b = 0; b < batch; b++)
        for (int64_t h = 0; h < c.heads; h++)
            attend(s, &c, b, h);
    return 0;
}
