/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention over a paged cache: out = softmax(q k^T / sqrt(dim)) v for a batch
 * of sequences of different lengths, whose keys and values are scattered over
 * pages. A table maps block i of a sequence to its page.
 *
 * A group of query heads shares one head of keys and values. Each pair of
 * sequence and group walks its blocks with four tasks per block:
 *
 *     q, k page -> QK -> scores -> SOFTMAX -> weights, v page -> PV -> part
 *                                     |                                 |
 *                                     +---- maximum, sum ---------------+-> UPDATE
 *
 * UPDATE is the only task that waits for the block before: it rescales what
 * was accumulated to the new maximum. The other three overlap freely. The
 * views of the last page have only as many tokens as are left; kernels take
 * their sizes from the tensors.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "examples/example.h"

enum {
    BATCH = 4,
    HEADS = 8,    /* of the query */
    KV_HEADS = 2, /* of keys and values */
    GROUP = HEADS / KV_HEADS,
    DIM = 16,
    TOKENS = 16,          /* in a page */
    BLOCKS = 4,           /* of a sequence, at most */
    ROW = KV_HEADS * DIM, /* floats of a token */
    PAGE = TOKENS * ROW,
    PAGES = BATCH * BLOCKS
};
enum { QK, SOFTMAX, PV, UPDATE, KERNELS };
enum { QUERY, KEYS, VALUES, TABLE, LENGTHS, OUT, TENSORS };

static const float SCALE = 0.25f; /* 1 / sqrt(DIM) */
static const double ERROR_MAX = 1e-5;

struct attention {
    float query[BATCH][HEADS][DIM];
    float keys[PAGES][TOKENS][KV_HEADS][DIM];
    float values[PAGES][TOKENS][KV_HEADS][DIM];
    int32_t table[BATCH][BLOCKS];
    int32_t lengths[BATCH];
    float out[BATCH][HEADS][DIM];
};

static int run_paged_attention(struct pto_device *device, const struct pto_run_options *options,
                               struct pto_run_report *report, char *result, size_t result_bytes);
static void orchestrate(struct pto_orch *o, const struct pto_entry *entry);
static void attend(struct pto_orch *o, const struct pto_entry *entry, uint32_t b, uint32_t g);
static void kernel_qk(int64_t *args);
static void kernel_softmax(int64_t *args);
static void kernel_pv(int64_t *args);
static void kernel_update(int64_t *args);

PTO_EXAMPLE = {
    .name = "paged_attention",
    .summary = "attention of 4 sequences, 8 heads of 16 over a paged cache, 4 tasks per block",
    .run = run_paged_attention,
};

static const struct pto_kernel kernels[KERNELS] = {
    [QK] = { "qk", kernel_qk, PTO_CORE_AIC },
    [SOFTMAX] = { "softmax", kernel_softmax, PTO_CORE_AIV },
    [PV] = { "pv", kernel_pv, PTO_CORE_AIC },
    [UPDATE] = { "update", kernel_update, PTO_CORE_AIV },
};

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    for (uint32_t b = 0; b < BATCH; b++)
        for (uint32_t g = 0; g < KV_HEADS; g++)
            PTO_SCOPE(o)
                attend(o, entry, b, g);
}

/* One sequence, one group of heads. Table and lengths are host memory, read while submitting. */
static void attend(struct pto_orch *o, const struct pto_entry *entry, uint32_t b, uint32_t g)
{
    const int32_t *table = pto_tensor_data(&entry->tensor[TABLE]);
    const int32_t *lengths = pto_tensor_data(&entry->tensor[LENGTHS]);
    const uint32_t *box = PTO_DIMS(1, GROUP, DIM), *at = PTO_DIMS(b, g * GROUP, 0);
    const struct pto_tensor q = pto_tensor_view(&entry->tensor[QUERY], box, at);
    const struct pto_tensor out = pto_tensor_view(&entry->tensor[OUT], box, at);
    const struct pto_tensor_info row = pto_tensor_info_make(PTO_DIMS(GROUP), 1, PTO_FLOAT32);
    const struct pto_tensor_info tile = pto_tensor_info_make(PTO_DIMS(GROUP, DIM), 2, PTO_FLOAT32);
    uint32_t left = (uint32_t)lengths[b];

    if (left > BLOCKS * TOKENS) {
        pto_orch_fail(o, PTO_EARGS, "a sequence is longer than its row of the table");
        return;
    }
    /* Maximum, sum and result so far; the result is not yet divided by the sum. */
    const struct pto_outputs acc = pto_alloc(o, PTO_OUT(&row), PTO_OUT(&row), PTO_OUT(&tile));
    const struct pto_tensor *max = pto_output(acc, 0), *sum = pto_output(acc, 1),
                            *result = pto_output(acc, 2);

    for (uint32_t i = 0; left > 0; i++) {
        uint32_t page = (uint32_t)table[b * BLOCKS + i], count = left < TOKENS ? left : TOKENS;
        const uint32_t *tokens = PTO_DIMS(1, count, 1, DIM), *place = PTO_DIMS(page, 0, g, 0);
        const struct pto_tensor k = pto_tensor_view(&entry->tensor[KEYS], tokens, place);
        const struct pto_tensor v = pto_tensor_view(&entry->tensor[VALUES], tokens, place);
        const uint32_t *scores = PTO_DIMS(GROUP, count);
        const struct pto_tensor_info score = pto_tensor_info_make(scores, 2, PTO_FLOAT32);

        left -= count;
        PTO_SCOPE(o) {
            struct pto_outputs s, p, part;

            s = pto_aic(o, QK, PTO_IN(&q), PTO_IN(&k), PTO_OUT(&score));
            p = pto_aiv(o, SOFTMAX, PTO_IN(pto_output(s, 0)), PTO_OUT(&score), PTO_OUT(&row),
                        PTO_OUT(&row), PTO_FLOAT(SCALE));
            part = pto_aic(o, PV, PTO_IN(pto_output(p, 0)), PTO_IN(&v), PTO_OUT(&tile));
            pto_aiv(o, UPDATE, PTO_IN(pto_output(p, 1)), PTO_IN(pto_output(p, 2)),
                    PTO_IN(pto_output(part, 0)), PTO_INOUT(max), PTO_INOUT(sum), PTO_INOUT(result),
                    PTO_WRITE(&out), PTO_INT(i == 0), PTO_INT(left == 0));
        }
    }
}

/* score[h][t] = q[h] . k[t]; the rows of a page are a stride apart. */
static void kernel_qk(int64_t *args)
{
    const float *q = pto_tensor_data(pto_arg_tensor(args, 0));
    const struct pto_tensor *keys = pto_arg_tensor(args, 1);
    float *score = pto_tensor_data(pto_arg_tensor(args, 2));

    for (uint32_t h = 0; h < GROUP; h++) {
        const float *k = pto_tensor_data(keys);

        for (uint32_t t = 0; t < keys->shapes[1]; t++, k += keys->strides[1]) {
            float dot = 0;

            for (uint32_t d = 0; d < DIM; d++)
                dot += q[h * DIM + d] * k[d];
            *score++ = dot;
        }
    }
}

/* Kernels call no library. For x <= 0: a short series of x / 256, squared eight times. */
static float kernel_exp(float x)
{
    double y = x / 256.0;
    double e = 1 + y * (1 + y / 2 * (1 + y / 3 * (1 + y / 4 * (1 + y / 5 * (1 + y / 6)))));

    if (x < -80) /* nothing beside the 1 that the maximum gives */
        return 0;
    for (int i = 0; i < 8; i++)
        e *= e;
    return (float)e;
}

/* weight[h][t] = exp(scale * score[h][t] - max[h]), sum[h] = their sum. */
static void kernel_softmax(int64_t *args)
{
    const struct pto_tensor *scores = pto_arg_tensor(args, 0);
    const float *score = pto_tensor_data(scores);
    float *weight = pto_tensor_data(pto_arg_tensor(args, 1));
    float *max = pto_tensor_data(pto_arg_tensor(args, 2));
    float *sum = pto_tensor_data(pto_arg_tensor(args, 3));
    float scale = pto_arg_float(args, 4);
    uint32_t count = scores->shapes[1];

    for (uint32_t h = 0; h < GROUP; h++, score += count, weight += count) {
        max[h] = scale * score[0];
        for (uint32_t t = 1; t < count; t++)
            max[h] = scale * score[t] > max[h] ? scale * score[t] : max[h];
        sum[h] = 0;
        for (uint32_t t = 0; t < count; t++) {
            weight[t] = kernel_exp(scale * score[t] - max[h]);
            sum[h] += weight[t];
        }
    }
}

/* part[h] = sum over t of weight[h][t] * v[t] */
static void kernel_pv(int64_t *args)
{
    const float *weight = pto_tensor_data(pto_arg_tensor(args, 0));
    const struct pto_tensor *values = pto_arg_tensor(args, 1);
    float *part = pto_tensor_data(pto_arg_tensor(args, 2));

    for (uint32_t h = 0; h < GROUP; h++, part += DIM) {
        const float *v = pto_tensor_data(values);

        memset(part, 0, DIM * sizeof(*part));
        for (uint32_t t = 0; t < values->shapes[1]; t++, weight++, v += values->strides[1])
            for (uint32_t d = 0; d < DIM; d++)
                part[d] += *weight * v[d];
    }
}

/* Adds a block's part to what was accumulated, both rescaled to the larger maximum. */
static void kernel_update(int64_t *args)
{
    const float *block_max = pto_tensor_data(pto_arg_tensor(args, 0));
    const float *block_sum = pto_tensor_data(pto_arg_tensor(args, 1));
    const float *part = pto_tensor_data(pto_arg_tensor(args, 2));
    float *max = pto_tensor_data(pto_arg_tensor(args, 3));
    float *sum = pto_tensor_data(pto_arg_tensor(args, 4));
    float *acc = pto_tensor_data(pto_arg_tensor(args, 5));
    float *out = pto_tensor_data(pto_arg_tensor(args, 6));
    bool is_first = args[7] != 0, is_last = args[8] != 0;

    for (uint32_t h = 0; h < GROUP; h++, part += DIM, acc += DIM, out += DIM) {
        float both = is_first || block_max[h] > max[h] ? block_max[h] : max[h];
        float keep = is_first ? 0 : kernel_exp(max[h] - both);
        float add = kernel_exp(block_max[h] - both);

        max[h] = both;
        sum[h] = is_first ? block_sum[h] : sum[h] * keep + block_sum[h] * add;
        for (uint32_t d = 0; d < DIM; d++) {
            acc[d] = is_first ? part[d] : acc[d] * keep + part[d] * add;
            if (is_last)
                out[d] = acc[d] / sum[h];
        }
    }
}

/* Numbers from -1 to 1 that look random. */
static float next_number(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / (float)(1 << 23) - 1;
}

/* What no sequence owns is NAN: a kernel that reads it spoils the result. */
static void fill(struct attention *a)
{
    static const int32_t lengths[BATCH] = { BLOCKS * TOKENS, 3 * TOKENS + 2, TOKENS, 1 };
    float *keys = (float *)a->keys, *values = (float *)a->values;
    float *query = (float *)a->query, *out = (float *)a->out;
    uint32_t state = 1;

    for (int i = 0; i < PAGES * PAGE; i++)
        keys[i] = values[i] = NAN;
    for (int i = 0; i < BATCH * HEADS * DIM; i++) {
        query[i] = 4 * next_number(&state);
        out[i] = NAN;
    }
    memcpy(a->lengths, lengths, sizeof(lengths));
    for (int i = 0; i < PAGES; i++)
        a->table[i / BLOCKS][i % BLOCKS] = (5 * i + 3) % PAGES;
    for (int b = 0; b < BATCH; b++) {
        for (int t = 0; t < lengths[b]; t++) {
            int first = a->table[b][t / TOKENS] * PAGE + t % TOKENS * ROW;

            for (int i = first; i < first + ROW; i++) {
                keys[i] = next_number(&state);
                values[i] = next_number(&state);
            }
        }
    }
}

/* By the series itself, whose terms are all positive. For x <= 0. */
static double exact_exp(double x)
{
    double sum = 1, term = 1;

    for (int n = 1; n < 200; n++)
        sum += term *= -x / n;
    return 1 / sum;
}

static double exact_score(const struct attention *a, int b, int h, int t)
{
    const float *k = a->keys[a->table[b][t / TOKENS]][t % TOKENS][h / GROUP];
    double dot = 0;

    for (int d = 0; d < DIM; d++)
        dot += (double)a->query[b][h][d] * k[d];
    return dot * SCALE;
}

/* The largest error of one head: softmax as it is written in books, in double precision. */
static double compare_head(const struct attention *a, int b, int h)
{
    double max = exact_score(a, b, h, 0), sum = 0, error = 0, expect[DIM] = { 0 };

    for (int t = 1; t < a->lengths[b]; t++)
        max = exact_score(a, b, h, t) > max ? exact_score(a, b, h, t) : max;
    for (int t = 0; t < a->lengths[b]; t++) {
        const float *v = a->values[a->table[b][t / TOKENS]][t % TOKENS][h / GROUP];
        double weight = exact_exp(exact_score(a, b, h, t) - max);

        sum += weight;
        for (int d = 0; d < DIM; d++)
            expect[d] += weight * v[d];
    }
    for (int d = 0; d < DIM; d++) {
        double off = fabs(a->out[b][h][d] - expect[d] / sum);

        error = off <= error ? error : off; /* keeps a NAN */
    }
    return error;
}

static int check(const struct attention *a, char *result, size_t result_bytes)
{
    double error = 0;

    for (int b = 0; b < BATCH; b++) {
        for (int h = 0; h < HEADS; h++) {
            double off = compare_head(a, b, h);

            if (!(off <= ERROR_MAX)) {
                snprintf(result, result_bytes, "sequence %d, head %d is off by %.2g", b, h, off);
                return PTO_EKERNEL;
            }
            error = off > error ? off : error;
        }
    }
    snprintf(result, result_bytes, "out[0][0][0]=%.6f, largest error %.2g in %d values",
             a->out[0][0][0], error, BATCH * HEADS * DIM);
    return PTO_OK;
}

static int run_paged_attention(struct pto_device *device, const struct pto_run_options *options,
                               struct pto_run_report *report, char *result, size_t result_bytes)
{
    const uint32_t *heads = PTO_DIMS(BATCH, HEADS, DIM);
    const uint32_t *cache = PTO_DIMS(PAGES, TOKENS, KV_HEADS, DIM);
    struct pto_callable_params params;
    struct pto_callable *callable;
    int status;
    struct attention *a = malloc(sizeof(*a));

    if (a == NULL)
        return PTO_ENOMEM;

    const struct pto_tensor tensors[TENSORS] = {
        [QUERY] = pto_tensor_external(a->query, heads, 3, PTO_FLOAT32),
        [KEYS] = pto_tensor_external(a->keys, cache, 4, PTO_FLOAT32),
        [VALUES] = pto_tensor_external(a->values, cache, 4, PTO_FLOAT32),
        [TABLE] = pto_tensor_external(a->table, PTO_DIMS(BATCH, BLOCKS), 2, PTO_INT32),
        [LENGTHS] = pto_tensor_external(a->lengths, PTO_DIMS(BATCH), 1, PTO_INT32),
        [OUT] = pto_tensor_external(a->out, heads, 3, PTO_FLOAT32),
    };
    const struct pto_entry entry = { .tensor_count = TENSORS, .tensor = tensors };

    fill(a);
    pto_callable_params_init(&params);
    params.name = "paged_attention";
    params.orchestration = orchestrate;
    params.kernels = kernels;
    params.kernel_count = KERNELS;
    status = pto_callable_create(&params, &callable);
    if (status < 0)
        goto free_memory;

    status = pto_run(device, callable, &entry, options, report);
    if (status == PTO_OK)
        status = check(a, result, result_bytes);

    pto_callable_destroy(callable);
free_memory:
    free(a);
    return status;
}
