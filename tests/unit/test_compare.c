/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of every type as numbers, distances between them, and comparisons with tolerances. */
#include <math.h>

#include "tool/scene/compare.h"
#include "tool/scene/element.h"
#include "pto/scene.h"
#include "tests/fixture/fixture.h"

static uint64_t float_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static void knows_the_value_of_every_pattern(void **state)
{
    (void)state;
    assert_true(scene_element_value(PTO_FLOAT32, float_bits(-1.5f)) == -1.5);
    assert_true(scene_element_value(PTO_FLOAT32, 1) == 0x1p-149);
    assert_true(isinf(scene_element_value(PTO_FLOAT32, 0x7f800000)));
    assert_true(isnan(scene_element_value(PTO_FLOAT32, 0xffc00001)));
    assert_true(scene_element_value(PTO_FLOAT16, 0x7bff) == 65504);
    assert_true(scene_element_value(PTO_FLOAT16, 0x8001) == -0x1p-24);
    assert_true(scene_element_value(PTO_BFLOAT16, 0x3f80) == 1);
    assert_true(scene_element_value(PTO_BFLOAT16, 0xff80) == -INFINITY);
    assert_true(scene_element_value(PTO_FP8E4M3FN, 0x7e) == 448);
    assert_true(scene_element_value(PTO_FP8E4M3FN, 0x01) == 0x1p-9);
    assert_true(scene_element_is_nan(PTO_FP8E4M3FN, 0xff));
    assert_true(scene_element_value(PTO_FP8E8M0, 127) == 1);
    assert_true(scene_element_value(PTO_FP8E8M0, 0) == 0x1p-127);
    assert_true(scene_element_is_nan(PTO_FP8E8M0, 0xff));
    assert_true(scene_element_value(PTO_FP4E2M1, 0x7) == 6);
    assert_true(scene_element_value(PTO_FP4E2M1, 0x9) == -0.5);
    assert_true(scene_element_value(PTO_INT8, 0x80) == -128);
    assert_true(scene_element_value(PTO_INT64, UINT64_MAX) == -1);
    assert_true(scene_element_value(PTO_UINT16, 0xffff) == 65535);
    assert_true(scene_element_value(PTO_BOOL, 1) == 1);
}

static void rounds_halves_as_the_helpers_of_goldens_do(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        float value = pto_scene_from_float16((uint16_t)bits);

        if (scene_element_is_nan(PTO_FLOAT16, bits)) {
            assert_true(isnan(value));
            assert_true(scene_element_is_nan(PTO_FLOAT16, pto_scene_to_float16(value)));
        } else {
            assert_true((double)value == scene_element_value(PTO_FLOAT16, bits));
            assert_int_equal(pto_scene_to_float16(value), bits);
        }
        value = pto_scene_from_bfloat16((uint16_t)bits);
        if (scene_element_is_nan(PTO_BFLOAT16, bits))
            assert_true(scene_element_is_nan(PTO_BFLOAT16, pto_scene_to_bfloat16(value)));
        else
            assert_int_equal(pto_scene_to_bfloat16(value), bits);
    }
    assert_int_equal(pto_scene_to_float16(1 + 0x1p-11f), 0x3c00); /* a tie goes to even */
    assert_int_equal(pto_scene_to_float16(1 + 0x1.8p-10f), 0x3c02);
    assert_int_equal(pto_scene_to_float16(65519.99f), 0x7bff);
    assert_int_equal(pto_scene_to_float16(65520), 0x7c00);
    assert_int_equal(pto_scene_to_float16(0x1p-25f), 0);
    assert_int_equal(pto_scene_to_float16(0x1.8p-25f), 1);
    assert_int_equal(pto_scene_to_bfloat16(1 + 0x1p-8f), 0x3f80);
    assert_int_equal(pto_scene_to_bfloat16(3.4e38f), 0x7f80);
}

static void counts_the_values_between_two(void **state)
{
    (void)state;
    assert_int_equal(scene_element_distance(PTO_FLOAT32, float_bits(1), float_bits(1 + 0x1p-22f)),
                     2);
    assert_int_equal(scene_element_distance(PTO_FLOAT32, float_bits(0.0f), float_bits(-0.0f)), 0);
    assert_int_equal(scene_element_distance(PTO_FLOAT32, 1, 0x80000001), 2);
    assert_int_equal(scene_element_distance(PTO_FLOAT16, 0x3c00, 0xbc00), 2 * 0x3c00);
    assert_int_equal(scene_element_distance(PTO_INT8, 0x80, 0x7f), 255);
    assert_true(scene_element_distance(PTO_INT64, (uint64_t)INT64_MIN, INT64_MAX) == UINT64_MAX);
    assert_int_equal(scene_element_distance(PTO_UINT64, 3, 7), 4);
    assert_int_equal(scene_element_distance(PTO_FP8E8M0, 130, 127), 3);
}

static void finds_what_is_beyond_the_tolerance(void **state)
{
    const float expected[] = { 1, 2, 3, NAN, 5, 0, INFINITY, 8 };
    const float got[] = { 1, 2.001f, 3.1f, NAN, NAN, 1e-6f, 7, 8 };
    const struct scene_tolerance tolerance = { 1e-3, 1e-5, 0 };
    struct comparison c;

    (void)state;
    scene_compare_arrays(PTO_FLOAT32, 8, got, expected, &tolerance, &c);
    assert_int_equal(c.wrong, 3);
    assert_int_equal(c.shown[0].index, 2);
    assert_int_equal(c.shown[1].index, 4);
    assert_int_equal(c.shown[2].index, 6);
    assert_int_equal(c.nan_got, 1);
    assert_int_equal(c.nan_expected, 1);
    assert_int_equal(c.inexact, 5);
    assert_true(isinf(c.abs_max));
    assert_int_equal(c.abs_index, 6);

    scene_compare_arrays(PTO_FLOAT32, 3, got, expected, &tolerance, &c);
    assert_true(c.abs_max > 0.0999 && c.abs_max < 0.1001);
    assert_int_equal(c.abs_index, 2);
    assert_int_equal(c.rel_index, 2);
}

static void takes_a_distance_as_a_tolerance(void **state)
{
    const uint16_t expected[] = { 0x3f80, 0x3f80 }, got[] = { 0x3f82, 0x3f83 };
    const struct scene_tolerance tolerance = { 0, 0, 2 };
    struct comparison c;

    (void)state;
    scene_compare_arrays(PTO_BFLOAT16, 2, got, expected, &tolerance, &c);
    assert_int_equal(c.wrong, 1);
    assert_int_equal(c.shown[0].index, 1);
    assert_int_equal(c.ulp_max, 3);
}

static void compares_large_integers_exactly(void **state)
{
    const int64_t expected[] = { INT64_MAX, 5 }, got[] = { INT64_MAX - 1, 5 };
    const struct scene_tolerance tolerance = { 0, 0, 0 };
    struct comparison c;

    (void)state;
    scene_compare_arrays(PTO_INT64, 2, got, expected, &tolerance, &c);
    assert_int_equal(c.wrong, 1);
    assert_int_equal(c.ulp_max, 1);
}

static void poison_is_never_a_result(void **state)
{
    (void)state;
    for (uint32_t dtype = 0; dtype < PTO_DTYPE_COUNT; dtype++) {
        uint8_t bytes[8];
        bool is_float = scene_element_is_float((enum pto_dtype)dtype) && dtype != PTO_FP4E2M1;

        scene_element_poison((enum pto_dtype)dtype, bytes, sizeof(bytes));
        assert_int_equal(scene_element_is_nan((enum pto_dtype)dtype,
                                              scene_element_bits((enum pto_dtype)dtype, bytes, 0)),
                         is_float);
    }
}

static void prints_indices_and_values(void **state)
{
    char index[COMPARE_INDEX_MAX], text[ELEMENT_TEXT_MAX];

    (void)state;
    scene_compare_print_index((const uint32_t[]){ 2, 3, 4 }, 3, 23, index);
    assert_string_equal(index, "[1][2][3]");
    scene_compare_print_index((const uint32_t[]){ UINT32_MAX, 1, 1, 1, 1 }, 5, UINT32_MAX - 1,
                              index);
    assert_string_equal(index, "[4294967294][0][0][0][0]");
    scene_element_print(PTO_INT8, 0xff, text);
    assert_string_equal(text, "-1");
    scene_element_print(PTO_FLOAT32, float_bits(0.1f), text);
    assert_string_equal(text, "0.100000001");
    scene_element_print(PTO_UINT64, UINT64_MAX, text);
    assert_string_equal(text, "18446744073709551615");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_the_value_of_every_pattern),
        cmocka_unit_test(rounds_halves_as_the_helpers_of_goldens_do),
        cmocka_unit_test(counts_the_values_between_two),
        cmocka_unit_test(finds_what_is_beyond_the_tolerance),
        cmocka_unit_test(takes_a_distance_as_a_tolerance),
        cmocka_unit_test(compares_large_integers_exactly),
        cmocka_unit_test(poison_is_never_a_result),
        cmocka_unit_test(prints_indices_and_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
