/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of data types, modes, rules, tags and directions: numbers that are an ABI, unique names
 * that are found, and layouts that fit their bytes.
 */
#include <math.h>

#include "pto/scene.h"
#include "tool/scene/element.h"
#include "tool/scene/names.h"
#include "tool/scene/npy.h"
#include "tool/scene/scene.h"
#include "tests/fixture/fixture.h"

static void numbers_and_sizes_of_types_are_an_abi(void **state)
{
    static const struct {
        enum pto_dtype dtype;
        uint32_t number, bytes;
        const char *name;
    } rows[] = {
        { PTO_FLOAT32, 0, 4, "FLOAT32" },
        { PTO_FLOAT16, 1, 2, "FLOAT16" },
        { PTO_INT32, 2, 4, "INT32" },
        { PTO_INT16, 3, 2, "INT16" },
        { PTO_INT8, 4, 1, "INT8" },
        { PTO_UINT8, 5, 1, "UINT8" },
        { PTO_BFLOAT16, 6, 2, "BFLOAT16" },
        { PTO_INT64, 7, 8, "INT64" },
        { PTO_UINT64, 8, 8, "UINT64" },
        { PTO_UINT16, 9, 2, "UINT16" },
        { PTO_UINT32, 10, 4, "UINT32" },
        { PTO_BOOL, 11, 1, "BOOL" },
        { PTO_FP8E4M3FN, 12, 1, "FP8E4M3FN" },
        { PTO_FP8E8M0, 13, 1, "FP8E8M0" },
        { PTO_FP4E2M1, 14, 1, "FP4E2M1" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(rows[i].dtype, rows[i].number);
        assert_int_equal(pto_dtype_size(rows[i].number), rows[i].bytes);
        assert_string_equal(pto_dtype_name(rows[i].number), rows[i].name);
    }
    assert_true(PTO_DTYPE_COUNT >= sizeof(rows) / sizeof(rows[0]));
    assert_int_equal(pto_dtype_size(PTO_DTYPE_COUNT), 0);
    assert_null(pto_dtype_info(PTO_DTYPE_COUNT));
    assert_string_equal(pto_dtype_name(UINT32_MAX), "UNKNOWN");
    assert_string_equal(pto_dtype_text(UINT32_MAX), "unknown");
}

static void assert_found_again(scene_name_fn name, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(scene_find_name(name, count, name(i)), i); /* so no name exists twice */
    assert_int_equal(scene_find_name(name, count, ""), -1);
    assert_int_equal(scene_find_name(name, count, name(count)), -1);
}

static void every_name_is_found_again(void **state)
{
    (void)state;
    assert_found_again(pto_dtype_text, PTO_DTYPE_COUNT);
    assert_found_again(pto_dtype_name, PTO_DTYPE_COUNT);
    assert_found_again(pto_core_name, PTO_CORE_TYPES);
    assert_found_again(pto_mode_name, PTO_MODE_COUNT);
    assert_found_again(pto_deps_name, PTO_DEPS_COUNT);
    assert_found_again(pto_tag_name, PTO_TAG_COUNT);
    assert_found_again(pto_direction_name, PTO_DIR_COUNT);
    assert_int_equal(scene_find_name(pto_mode_name, PTO_MODE_COUNT, "host"), PTO_MODE_HOST);
    assert_int_equal(scene_find_name(pto_deps_name, PTO_DEPS_COUNT, "simpler"), PTO_DEPS_SIMPLER);
    assert_int_equal(scene_find_name(pto_direction_name, PTO_DIR_COUNT, "inout"), PTO_DIR_INOUT);
}

static void names_are_joined_as_in_a_sentence(void **state)
{
    char text[NAMES_TEXT_MAX];

    (void)state;
    assert_string_equal(scene_list_names(pto_mode_name, PTO_MODE_COUNT, "or", text),
                        "stream or host");
    assert_string_equal(scene_list_names(pto_mode_name, 1, "or", text), "stream");
    assert_string_equal(scene_list_names(pto_direction_name, PTO_DIR_COUNT, "and", text),
                        "scalar, in, out and inout");
    scene_list_platforms(true, "or", NULL, text);
    assert_int_equal(strncmp(text, pto_platform_at(0)->name, strlen(pto_platform_at(0)->name)), 0);
}

static void a_layout_fits_its_type(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PTO_DTYPE_COUNT; i++) {
        const struct pto_dtype_info *info = pto_dtype_info(i);
        uint32_t bits = info->layout.sign_bits + info->layout.exponent_bits +
                        (uint32_t)info->layout.fraction_bits;

        assert_true(bits <= 8u * info->bytes);
        assert_int_equal(info->kind == PTO_KIND_FLOAT, bits != 0);
        assert_int_equal(info->layout.digits != 0, bits != 0);
        assert_non_null(strchr("fiubV", info->npy));
        assert_true(info->bytes == 1 || info->bytes == 2 || info->bytes == 4 || info->bytes == 8);
        if (info->kind != PTO_KIND_FLOAT)
            assert_true(info->tolerance.rtol == 0 && info->tolerance.atol == 0 &&
                        info->tolerance.ulp == 0);
        assert_true(scene_tolerance_default((enum pto_dtype)i).rtol == info->tolerance.rtol);
    }
}

/* Types that NumPy has are read back as the same type; others, if the size is unambiguous. */
static void a_file_tells_its_type(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PTO_DTYPE_COUNT; i++) {
        const struct pto_dtype_info *info = pto_dtype_info(i);
        struct npy npy = { .kind = info->npy, .item_bytes = info->bytes };

        assert_true(scene_npy_fits(&npy, (enum pto_dtype)i));
        assert_int_equal(scene_npy_dtype(&npy), info->npy == 'V' && info->bytes == 1 ? -1 : (int)i);
    }
}

static void bits_of_a_number_are_the_nearest(void **state)
{
    static const enum pto_dtype types[] = { PTO_FLOAT32, PTO_FLOAT16, PTO_BFLOAT16 };
    static const double values[] = { 0,      1,       -1,    0.1,    -65504, 1e-7,  3.0e38,
                                     6.1e-5, 5.96e-8, 1e-40, -1e-45, 1 / 3., 65519, -2.5 };

    (void)state;
    for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
        for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
            uint64_t bits = pto_scene_to_bits(types[t], values[v]);
            double off = fabs(scene_element_value(types[t], bits) - values[v]);

            if (isinf(scene_element_value(types[t], bits)))
                continue;
            assert_true(off <= fabs(scene_element_value(types[t], bits + 1) - values[v]));
            assert_true((bits & 0x7fff) == 0 ||
                        off <= fabs(scene_element_value(types[t], bits - 1) - values[v]));
        }
    for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
        float value = (float)values[v];
        uint32_t bits;

        memcpy(&bits, &value, sizeof(bits));
        assert_int_equal(pto_scene_to_bits(PTO_FLOAT32, values[v]), bits);
    }
    assert_true(scene_element_is_nan(PTO_FLOAT32, pto_scene_to_bits(PTO_FLOAT32, NAN)));
    assert_true(isinf(scene_element_value(PTO_FLOAT16, pto_scene_to_bits(PTO_FLOAT16, -INFINITY))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_sizes_of_types_are_an_abi),
        cmocka_unit_test(every_name_is_found_again),
        cmocka_unit_test(names_are_joined_as_in_a_sentence),
        cmocka_unit_test(a_layout_fits_its_type),
        cmocka_unit_test(a_file_tells_its_type),
        cmocka_unit_test(bits_of_a_number_are_the_nearest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
