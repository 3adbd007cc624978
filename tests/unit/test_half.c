/* SPDX-License-Identifier: Apache-2.0 */
/*
 * float16 and bfloat16, compared with a table of all values of such a type, made from its
 * definition with exact doubles, in which the nearest value is searched. The compiler's own
 * conversion is compared as well, if it has the type. Results must not depend on rounding and
 * flushing modes of the thread.
 */
#include "pto/half.h"

#include <fenv.h>
#include <float.h>
#include <math.h>

#include "pto/scene.h"
#include "tests/fixture/fixture.h"
#include "tests/fixture/random_test.h"

enum { VALUES = 1 << 16, RANDOM = 1 << 19 };

struct type {
    const char *name;
    uint32_t fraction_bits;
    int bias;
    uint32_t infinity;
    float (*to_float)(uint16_t);
    uint16_t (*from_float)(float);
};

static float to_f16(uint16_t h)
{
    return pto_float16_to_float(h);
}

static uint16_t from_f16(float x)
{
    return pto_float16_from_float(x);
}

static float to_bf16(uint16_t h)
{
    return pto_bfloat16_to_float(h);
}

static uint16_t from_bf16(float x)
{
    return pto_bfloat16_from_float(x);
}

static const struct type types[] = {
    { "float16", 10, 15, 0x7c00, to_f16, from_f16 },
    { "bfloat16", 7, 127, 0x7f80, to_bf16, from_bf16 },
};

/*
 * Returns the value by the definition; for infinity, the value that would follow the largest one.
 */
static double value_of(const struct type *t, uint32_t magnitude)
{
    uint32_t exponent = magnitude >> t->fraction_bits;
    uint32_t fraction = magnitude & ((1u << t->fraction_bits) - 1);

    if (exponent == 0)
        return ldexp(fraction, 1 - t->bias - (int)t->fraction_bits);
    return ldexp(fraction + (1u << t->fraction_bits),
                 (int)exponent - t->bias - (int)t->fraction_bits);
}

/* Finds the nearest value by bisection, which also gives both neighbours of a tie. */
static uint16_t nearest(const struct type *t, float x)
{
    uint32_t low = 0, high = t->infinity;
    double magnitude = fabs((double)x), down, up;
    uint16_t sign = signbit(x) ? 0x8000 : 0;

    if (magnitude >= value_of(t, high))
        return sign | (uint16_t)high;
    while (high - low > 1) { /* value(low) <= magnitude < value(high) */
        uint32_t middle = (low + high) / 2;

        if (value_of(t, middle) <= magnitude)
            low = middle;
        else
            high = middle;
    }
    down = magnitude - value_of(t, low);
    up = value_of(t, high) - magnitude;
    return sign | (uint16_t)(down < up || (down == up && (low & 1) == 0) ? low : high);
}

static void expect_nearest(const struct type *t, float x)
{
    uint16_t got = t->from_float(x), wanted = nearest(t, x);

    if (got != wanted)
        fail_msg("%s of %a: 0x%04x instead of 0x%04x", t->name, (double)x, got, wanted);
}

static void every_value_has_a_float(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2 * VALUES; i++) {
        const struct type *t = &types[i / VALUES];
        uint16_t half = (uint16_t)i;
        float x = t->to_float(half);
        uint32_t bits = pto_float_to_bits(x), fraction_mask = (1u << t->fraction_bits) - 1;

        assert_int_equal(bits >> 31, half >> 15);
        if ((half & 0x7fff) > t->infinity) { /* NaN: the upper bits of the payload, quiet or not */
            assert_true(isnan(x));
            assert_int_equal(bits >> (23 - t->fraction_bits) & fraction_mask, half & fraction_mask);
            assert_int_equal(t->from_float(x), half | 1u << (t->fraction_bits - 1));
        } else if ((half & 0x7fff) == t->infinity) {
            assert_true(isinf(x));
            assert_int_equal(t->from_float(x), half);
        } else {
            double magnitude = value_of(t, half & 0x7fff);

            assert_true(x == (half >> 15 ? -magnitude : magnitude));
            assert_int_equal(t->from_float(x), half);
        }
    }
}

/*
 * Values between two neighbours: their middle, and the floats next to the middle and to each of
 * them.
 */
static void every_tie_goes_to_even(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        const struct type *t = &types[i];

        for (uint32_t low = 0; low < t->infinity; low++) {
            float at = (float)value_of(t, low);
            double middle = (value_of(t, low) + value_of(t, low + 1)) / 2;
            float tie =
                /* exact, because a float has two more bits; except 2^128 for the largest value */
                (float)middle;

            assert_true((double)tie == middle);
            for (int sign = -1; sign <= 1; sign += 2) {
                expect_nearest(t, (float)sign * tie);
                expect_nearest(t, (float)sign * nextafterf(tie, INFINITY));
                expect_nearest(t, (float)sign * nextafterf(tie, 0));
                expect_nearest(t, (float)sign * nextafterf(at, INFINITY));
                expect_nearest(t, (float)sign * nextafterf(at, 0));
            }
        }
    }
}

static void any_float_is_rounded_to_the_nearest(void **state)
{
    struct rng random = { 1 };

    (void)state;
    for (uint32_t i = 0; i < RANDOM; i++) {
        uint32_t bits = (uint32_t)rng_next(&random);
        /* Every second value has an exponent that float16 has as well, or almost. */
        float x =
            pto_float_from_bits(i % 2 == 0 ? bits : (bits & 0x807fffff) | (100 + bits % 46) << 23);

        for (uint32_t t = 0; t < 2 && !isnan(x); t++)
            expect_nearest(&types[t], x);
        if (isnan(x)) {
            assert_int_equal(pto_float16_from_float(x),
                             (bits >> 16 & 0x8000) | 0x7e00 | (bits >> 13 & 0x3ff));
            assert_int_equal(pto_bfloat16_from_float(x), bits >> 16 | 0x40);
        }
        assert_int_equal(pto_scene_to_float16(x), pto_float16_from_float(x));
        assert_int_equal(pto_scene_to_bfloat16(x), pto_bfloat16_from_float(x));
    }
    assert_int_equal(pto_float16_from_float(INFINITY), 0x7c00);
    assert_int_equal(pto_bfloat16_from_float(-INFINITY), 0xff80);
    assert_int_equal(pto_bfloat16_from_float(FLT_MAX), 0x7f80);
    assert_int_equal(pto_float16_from_float(-0.0f), 0x8000);
}

/* The general function for goldens rounds in another way, from doubles. */
static void the_function_for_all_types_agrees(void **state)
{
    struct rng random = { 2 };

    (void)state;
    for (uint32_t i = 0; i < RANDOM / 8; i++) {
        float x = pto_float_from_bits((uint32_t)rng_next(&random));

        if (isnan(x))
            continue;
        assert_int_equal(pto_scene_to_bits(PTO_FLOAT16, (double)x), pto_float16_from_float(x));
        assert_int_equal(pto_scene_to_bits(PTO_BFLOAT16, (double)x), pto_bfloat16_from_float(x));
    }
}

#if defined(__FLT16_MANT_DIG__) && (defined(__x86_64__) || defined(__aarch64__))
static void the_compiler_agrees(void **state)
{
    struct rng random = { 3 };

    (void)state;
    for (uint32_t i = 0; i < VALUES + RANDOM / 8; i++) {
        float x = i < VALUES ? pto_float16_to_float((uint16_t)i)
                             : pto_float_from_bits((uint32_t)rng_next(&random));
        _Float16 theirs = (_Float16)x;
        uint16_t bits;

        memcpy(&bits, &theirs, sizeof(bits));
        if (!isnan(x))
            assert_int_equal(pto_float16_from_float(x), bits);
        memcpy(&theirs, &(uint16_t){ (uint16_t)i }, sizeof(theirs));
        if (i < VALUES && !isnan(x))
            assert_true((float)theirs == x);
    }
}
#else
static void the_compiler_agrees(void **state)
{
    (void)state;
    skip();
}
#endif

static void rounding_of_the_thread_does_not_matter(void **state)
{
    static const int modes[] = { FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };
    static const float values[] = { 1 + 0x1p-11f, 1 + 0x1.8p-10f, 0x1.8p-25f, 0x1p-25f,
                                    -65519.99f };
    int before = fegetround();

    (void)state;
    for (uint32_t v = 0; v < sizeof(values) / sizeof(values[0]); v++)
        for (uint32_t m = 0; m < 3; m++) {
            uint16_t half, brain;
            float back;

            assert_int_equal(fesetround(modes[m]), 0);
            half = pto_float16_from_float(values[v]);
            brain = pto_bfloat16_from_float(values[v]);
            back = pto_float16_to_float(half);
            assert_int_equal(fesetround(before), 0);
            assert_int_equal(half, nearest(&types[0], values[v]));
            assert_int_equal(brain, nearest(&types[1], values[v]));
            assert_true(back == (float)value_of(&types[0], half & 0x7fff) * (half >> 15 ? -1 : 1));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_has_a_float),
        cmocka_unit_test(every_tie_goes_to_even),
        cmocka_unit_test(any_float_is_rounded_to_the_nearest),
        cmocka_unit_test(the_function_for_all_types_agrees),
        cmocka_unit_test(the_compiler_agrees),
        cmocka_unit_test(rounding_of_the_thread_does_not_matter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
