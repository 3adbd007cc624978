/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of collectives, compared with arithmetic that rounds by dividing: every half and every
 * bfloat16, random sums, NaN, and sums with weights.
 */
#include "comm/reduce.h"
#include "tests/fixture/numbers_test.h"
#include "tests/fixture/fixture.h"

enum { COUNT = 1 << 16 };

static const enum pto_dtype shorts[] = { PTO_FLOAT16, PTO_BFLOAT16 };

static uint16_t a[COUNT], b[COUNT], c[COUNT], to[COUNT], copy[COUNT];

static void reduce(enum pto_dtype dtype, enum pto_reduce how, uint32_t source_count, uint64_t n)
{
    const void *source[] = { a, b, c };
    struct reduce r = { dtype, how, source, source_count };

    reduce_sources(&r, n, to, copy);
    assert_memory_equal(to, copy, n * pto_dtype_size(dtype));
}

static void every_short_number_stays_what_it_is(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < 2; d++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            a[i] = (uint16_t)i;
            b[i] = 0x8000; /* -0, which changes nothing */
        }
        reduce(shorts[d], PTO_REDUCE_SUM, 2, COUNT);
        for (uint32_t i = 0; i < COUNT; i++)
            assert_int_equal(to[i], number_encode(shorts[d], number_decode(shorts[d], a[i])));
    }
}

static void sums_are_rounded_once_to_the_nearest(void **state)
{
    struct rng seed = { 1 };

    (void)state;
    for (uint32_t d = 0; d < 2; d++)
        for (uint32_t round = 0; round < 4; round++) {
            for (uint32_t i = 0; i < COUNT; i++) {
                a[i] = (uint16_t)rng_next(&seed);
                b[i] = (uint16_t)(round == 0 ? a[i] ^ (rng_next(&seed) & 0x83ff) : rng_next(&seed));
                c[i] = (uint16_t)rng_next(&seed);
            }
            reduce(shorts[d], PTO_REDUCE_SUM, 3, COUNT);
            for (uint32_t i = 0; i < COUNT; i++) {
                float sum = number_decode(shorts[d], a[i]) + number_decode(shorts[d], b[i]);

                sum += number_decode(shorts[d], c[i]);
                assert_int_equal(to[i], number_encode(shorts[d], sum));
            }
        }
}

/* At any position, in vectors and after the last whole one. */
static void what_is_no_number_wins(void **state)
{
    const float none = number_decode(PTO_FLOAT32, 0xffc12345);

    (void)state;
    for (uint32_t how = PTO_REDUCE_SUM; how <= PTO_REDUCE_MIN; how++)
        for (uint32_t source_count = 2; source_count <= 3; source_count++)
            for (uint32_t at = 0; at < 37; at++)
                for (uint32_t k = 0; k < source_count; k++) {
                    float *given[] = { (float *)(void *)a, (float *)(void *)b, (float *)(void *)c };
                    uint32_t bits;

                    for (uint32_t i = 0; i < 37; i++)
                        given[0][i] = given[1][i] = given[2][i] = 1;
                    given[k][at] = none;
                    reduce(PTO_FLOAT32, how, source_count, 37);
                    for (uint32_t i = 0; i < 37; i++) {
                        memcpy(&bits, (float *)(void *)to + i, sizeof(bits));
                        assert_true((bits == 0x7fc00000) == (i == at));
                    }
                }
}

static void weights_are_summed_in_order(void **state)
{
    static float x[3][2000], result[2000];
    const void *source[] = { x[0], x[1], x[2] };
    const float weights[] = { 0.1f, 1e8f, -1e8f };
    struct reduce r = { .dtype = PTO_FLOAT32, .source = source };

    (void)state;
    for (uint32_t i = 0; i < 2000; i++) {
        x[0][i] = (float)i / 7;
        x[1][i] = x[2][i] = (float)i + 0.5f;
    }
    reduce_weighted(&r, weights, 2000, result);
    for (uint32_t i = 0; i < 2000; i++)
        assert_true(result[i] == 0);
    r.source_count = 3;
    reduce_weighted(&r, weights, 2000, result);
    for (uint32_t i = 0; i < 2000; i++) {
        volatile float product = x[0][i] * weights[0], sum = product;

        product = x[1][i] * weights[1];
        sum = sum + product;
        product = x[2][i] * weights[2];
        sum = sum + product;
        assert_true(result[i] == sum);
    }
    assert_false(reduce_has_weighted(PTO_INT32));
    assert_false(reduce_has(PTO_INT8, PTO_REDUCE_SUM));
    assert_false(reduce_has(PTO_DTYPE_COUNT, PTO_REDUCE_SUM));
    assert_false(reduce_has(PTO_INT32, PTO_REDUCE_MIN + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_short_number_stays_what_it_is),
        cmocka_unit_test(sums_are_rounded_once_to_the_nearest),
        cmocka_unit_test(what_is_no_number_wins),
        cmocka_unit_test(weights_are_summed_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
