/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops over elements: src/comm/reduce.h. They are written so that compilers vectorise them:
 * without branches, and with `ivdep`, because `to` is either one of the sources or disjoint from
 * them.
 */
#include "comm/reduce.h"

enum { BLOCK = 1024 }; /* elements per block, so that partial sums stay in the first-level cache */

/* ---- conversion of 16-bit floats ---- */

static inline uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline float load_f32(float x)
{
    return x;
}

static inline float store_f32(float x)
{
    return x == x ? x : float_of(0x7fc00000);
}

static inline float load_bf16(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

static inline uint16_t store_bf16(float x)
{
    uint32_t bits = bits_of(x);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;

    return (uint16_t)(x == x ? rounded : 0x7fc0);
}

/* A half has 5 bits of exponent with a bias of 15, a float 8 with 127. */
static inline float load_f16(uint16_t h)
{
    uint32_t bits = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
    /*
     * Subnormal halves: the fraction counts from 2^-14, which is added as an exponent and then
     * subtracted.
     */
    uint32_t small = bits_of(float_of(bits + (113u << 23)) - 0x1p-14f);
    uint32_t normal = bits + (112u << 23);
    uint32_t special = bits + (224u << 23);

    bits = bits < 1u << 23 ? small : normal;
    return float_of(sign | ((h & 0x7fff) < 0x7c00 ? bits : special));
}

static inline uint16_t store_f16(float x)
{
    uint32_t sign = bits_of(x) >> 16 & 0x8000, bits = bits_of(x) & 0x7fffffff;
    /* Subnormal result: the addition shifts the fraction into place and rounds it. */
    uint32_t small = bits_of(float_of(bits) + 0.5f) - bits_of(0.5f);
    uint32_t normal = (bits - (112u << 23) + 0xfff + (bits >> 13 & 1)) >> 13;
    uint32_t half = bits < 113u << 23 ? small : normal;

    half = bits < 143u << 23 ? half : 0x7c00; /* values of 2^16 and more become infinity */
    return (uint16_t)(x == x ? half | sign : 0x7e00);
}

static inline int32_t load_i32(int32_t x)
{
    return x;
}

static inline int32_t store_i32(int32_t x)
{
    return x;
}

static inline float sum_float(float a, float b)
{
    return a + b;
}

/*
 * Maximum; a NaN of either operand is the result. A NaN `a` is selected by the second comparison; a
 * NaN `b` because both comparisons are false.
 */
static inline float max_float(float a, float b)
{
    return (a > b) | (a != a) ? a : b;
}

static inline float min_float(float a, float b)
{
    return (a < b) | (a != a) ? a : b;
}

static inline int32_t sum_int(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

static inline int32_t max_int(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static inline int32_t min_int(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* ---- loops ---- */

/* Reduces `n` elements, at most BLOCK, from element `begin` on. */
typedef void reduce_fn(const struct reduce *r, uint64_t begin, uint32_t n, void *to);

#define DEFINE_REDUCE(name, type, wide, load, combine, store)                      \
    static void name(const struct reduce *r, uint64_t begin, uint32_t n, void *to) \
    {                                                                              \
        const type *a = (const type *)r->source[0] + begin;                        \
        const type *b = (const type *)r->source[1] + begin;                        \
        type *result = (type *)to + begin;                                         \
        wide sum[BLOCK];                                                           \
                                                                                   \
        if (r->source_count == 2) {                                                \
            _Pragma("GCC ivdep") for (uint32_t i = 0; i < n; i++) result[i] =      \
                store(combine(load(a[i]), load(b[i])));                            \
            return;                                                                \
        }                                                                          \
        for (uint32_t i = 0; i < n; i++)                                           \
            sum[i] = combine(load(a[i]), load(b[i]));                              \
        for (uint32_t k = 2; k < r->source_count; k++) {                           \
            const type *c = (const type *)r->source[k] + begin;                    \
                                                                                   \
            for (uint32_t i = 0; i < n; i++)                                       \
                sum[i] = combine(sum[i], load(c[i]));                              \
        }                                                                          \
        for (uint32_t i = 0; i < n; i++)                                           \
            result[i] = store(sum[i]);                                             \
    }

DEFINE_REDUCE(reduce_sum_f32, float, float, load_f32, sum_float, store_f32)
DEFINE_REDUCE(reduce_max_f32, float, float, load_f32, max_float, store_f32)
DEFINE_REDUCE(reduce_min_f32, float, float, load_f32, min_float, store_f32)
DEFINE_REDUCE(reduce_sum_f16, uint16_t, float, load_f16, sum_float, store_f16)
DEFINE_REDUCE(reduce_max_f16, uint16_t, float, load_f16, max_float, store_f16)
DEFINE_REDUCE(reduce_min_f16, uint16_t, float, load_f16, min_float, store_f16)
DEFINE_REDUCE(reduce_sum_bf16, uint16_t, float, load_bf16, sum_float, store_bf16)
DEFINE_REDUCE(reduce_max_bf16, uint16_t, float, load_bf16, max_float, store_bf16)
DEFINE_REDUCE(reduce_min_bf16, uint16_t, float, load_bf16, min_float, store_bf16)
DEFINE_REDUCE(reduce_sum_i32, int32_t, int32_t, load_i32, sum_int, store_i32)
DEFINE_REDUCE(reduce_max_i32, int32_t, int32_t, load_i32, max_int, store_i32)
DEFINE_REDUCE(reduce_min_i32, int32_t, int32_t, load_i32, min_int, store_i32)

/* Sums the sources times their weights, for `n` elements, at most BLOCK, from `begin` on. */
typedef void weighted_fn(const struct reduce *r, const float *weights, uint64_t begin, uint32_t n,
                         void *to);

#define DEFINE_WEIGHTED(name, type, load, store)                                               \
    static void name(const struct reduce *r, const float *weights, uint64_t begin, uint32_t n, \
                     void *to)                                                                 \
    {                                                                                          \
        type *result = (type *)to + begin;                                                     \
        float sum[BLOCK] = { 0 };                                                              \
                                                                                               \
        for (uint32_t k = 0; k < r->source_count; k++) {                                       \
            const type *a = (const type *)r->source[k] + begin;                                \
                                                                                               \
            for (uint32_t i = 0; i < n; i++)                                                   \
                sum[i] = sum[i] + load(a[i]) * weights[k];                                     \
        }                                                                                      \
        for (uint32_t i = 0; i < n; i++)                                                       \
            result[i] = store(sum[i]);                                                         \
    }

DEFINE_WEIGHTED(weighted_f32, float, load_f32, store_f32)
DEFINE_WEIGHTED(weighted_f16, uint16_t, load_f16, store_f16)
DEFINE_WEIGHTED(weighted_bf16, uint16_t, load_bf16, store_bf16)

/* ---- tables ---- */

static const struct {
    reduce_fn *reduce[PTO_REDUCE_MIN + 1];
    weighted_fn *weighted;
} functions[PTO_DTYPE_COUNT] = {
    [PTO_FLOAT32] = { { reduce_sum_f32, reduce_max_f32, reduce_min_f32 }, weighted_f32 },
    [PTO_FLOAT16] = { { reduce_sum_f16, reduce_max_f16, reduce_min_f16 }, weighted_f16 },
    [PTO_BFLOAT16] = { { reduce_sum_bf16, reduce_max_bf16, reduce_min_bf16 }, weighted_bf16 },
    [PTO_INT32] = { { reduce_sum_i32, reduce_max_i32, reduce_min_i32 }, NULL },
};

bool reduce_has(enum pto_dtype dtype, enum pto_reduce how)
{
    return (uint32_t)dtype < PTO_DTYPE_COUNT && (uint32_t)how <= PTO_REDUCE_MIN &&
           functions[dtype].reduce[how] != NULL;
}

bool reduce_has_weighted(enum pto_dtype dtype)
{
    return (uint32_t)dtype < PTO_DTYPE_COUNT && functions[dtype].weighted != NULL;
}

static uint32_t block_at(uint64_t at, uint64_t count)
{
    return count - at < BLOCK ? (uint32_t)(count - at) : BLOCK;
}

void reduce_sources(const struct reduce *r, uint64_t count, void *to, void *copy)
{
    uint64_t bytes = pto_dtype_size(r->dtype);

    for (uint64_t at = 0; at < count; at += BLOCK) {
        uint32_t n = block_at(at, count);

        functions[r->dtype].reduce[r->how](r, at, n, to);
        if (copy != NULL)
            memcpy((char *)copy + at * bytes, (char *)to + at * bytes, n * bytes);
    }
}

void reduce_weighted(const struct reduce *r, const float *weights, uint64_t count, void *to)
{
    for (uint64_t at = 0; at < count; at += BLOCK)
        functions[r->dtype].weighted(r, weights, at, block_at(at, count), to);
}
