/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NaN and Inf that a task computes: in every type that has them, with inputs that explain them or
 * do not, between elements of views, and in unwritten memory.
 */
#include "base/poison.h"
#include "sim/finite.h"
#include "tests/fixture/fixture.h"

enum { WORDS = 64 };

static union {
    uint8_t byte[WORDS * 4];
    uint16_t half[WORDS * 2];
    uint32_t word[WORDS];
} memory, before;

static struct pto_tensor tensor_of(uint32_t dtype, uint32_t count)
{
    return pto_tensor_external(&memory, PTO_DIMS(count), 1, dtype);
}

static struct finite_inputs no_inputs(void)
{
    return (struct finite_inputs){ { -1, 0 }, { -1, 0 }, { -1, 0 } };
}

/* Returns the place of the first element that was computed; -1: none. */
static int64_t find(const struct finite_inputs *inputs, const struct pto_tensor *x, bool *is_nan)
{
    struct finite_found found;

    if (!finite_find(inputs, x, 0, before.byte, &found))
        return -1;
    *is_nan = found.is_nan;
    return (int64_t)found.at.place;
}

static void each_type_has_its_own(void **state)
{
    static const struct {
        uint32_t dtype;
        uint32_t bits;
        int kind; /* 0: finite, 1: Inf, 2: NaN */
    } value[] = {
        { PTO_FLOAT32, 0x7f800000, 1 }, { PTO_FLOAT32, 0xff800000, 1 },
        { PTO_FLOAT32, 0x7fc00000, 2 }, { PTO_FLOAT32, 0xffffffff, 2 },
        { PTO_FLOAT32, 0x7f7fffff, 0 }, { PTO_FLOAT16, 0x7c00, 1 },
        { PTO_FLOAT16, 0x7e00, 2 },     { PTO_FLOAT16, 0x7bff, 0 },
        { PTO_BFLOAT16, 0xff80, 1 },    { PTO_BFLOAT16, 0x7fc0, 2 },
        { PTO_BFLOAT16, 0x7f7f, 0 },    { PTO_FP8E4M3FN, 0x7f, 2 },
        { PTO_FP8E4M3FN, 0xff, 2 },     { PTO_FP8E4M3FN, 0x7e, 0 },
        { PTO_FP8E4M3FN, 0x78, 0 },     { PTO_FP8E8M0, 0xff, 2 },
        { PTO_FP8E8M0, 0xfe, 0 },
    };
    const struct finite_inputs none = no_inputs();

    (void)state;
    for (size_t i = 0; i < sizeof(value) / sizeof(value[0]); i++) {
        uint32_t bytes = pto_dtype_size(value[i].dtype);
        struct pto_tensor x = tensor_of(value[i].dtype, 8);
        bool is_nan = false;

        memset(&memory, 0, sizeof(memory));
        memset(&before, 0, sizeof(before));
        memcpy(memory.byte + 5 * bytes, &value[i].bits, bytes);
        assert_int_equal(finite_bytes(&x), 8 * bytes);
        assert_int_equal(find(&none, &x, &is_nan), value[i].kind != 0 ? 5 : -1);
        assert_int_equal(is_nan, value[i].kind == 2);
    }
    for (uint32_t dtype = 0; dtype < PTO_DTYPE_COUNT; dtype++) {
        struct pto_tensor x = tensor_of(dtype, 8);

        if (pto_dtype_info(dtype)->layout.special == PTO_SPECIAL_NONE)
            assert_int_equal(finite_bytes(&x), 0);
    }
}

static void inputs_explain_what_follows(void **state)
{
    struct pto_tensor x = tensor_of(PTO_FLOAT32, WORDS);
    struct finite_inputs inputs = no_inputs();
    bool is_nan = false;

    (void)state;
    memset(&memory, 0, sizeof(memory));
    memset(&before, 0, sizeof(before));
    memory.word[3] = 0x7f800000;
    finite_add_input(&inputs, &x, 4);
    assert_int_equal(inputs.inf.argument, 4);
    assert_int_equal(inputs.inf.place, 3);
    assert_int_equal(inputs.nan.argument, -1);
    assert_int_equal(find(&inputs, &x, &is_nan), -1); /* Inf computed from Inf */
    memory.word[9] = 0x7fc00000;
    assert_int_equal(find(&inputs, &x, &is_nan), 9); /* NaN computed from Inf */
    before.word[9] = 0x7fc00000;
    assert_int_equal(find(&inputs, &x, &is_nan), -1); /* it existed before the task */
    before.word[9] = 0;
    finite_add_input(&inputs, &x, 5);
    assert_int_equal(inputs.nan.argument, 5);
    assert_int_equal(inputs.nan.place, 9);
    assert_int_equal(inputs.inf.argument, 4);         /* the first one */
    assert_int_equal(find(&inputs, &x, &is_nan), -1); /* NaN of NaN */
}

static void memory_between_elements_belongs_to_others(void **state)
{
    struct pto_tensor whole = pto_tensor_external(&memory, PTO_DIMS(8, 8), 2, PTO_FLOAT32);
    struct pto_tensor x = pto_tensor_slice(&whole, 1, 2, 4, 1);
    struct finite_inputs inputs = no_inputs();
    bool is_nan = false;

    (void)state;
    memset(&memory, 0, sizeof(memory));
    memset(&before, 0, sizeof(before));
    memory.word[8 + 1] = memory.word[8 + 4] = 0x7fc00000; /* its neighbours */
    finite_add_input(&inputs, &x, 0);
    assert_int_equal(inputs.nan.argument, -1);
    assert_int_equal(find(&inputs, &x, &is_nan), -1);
    memory.word[16 + 3] = 0x7fc00000;
    assert_int_equal(find(&inputs, &x, &is_nan), 17); /* counted from element [0,2] */
}

/* Arithmetic on unwritten memory gives a NaN that differs from the marker of such memory. */
static void results_of_unwritten_memory_differ_from_it(void **state)
{
    struct pto_tensor x = tensor_of(PTO_FLOAT32, WORDS);
    struct finite_inputs inputs = no_inputs();
    uint64_t poison = poison_of(PTO_FLOAT32);
    volatile float sum;
    bool is_nan = false;

    (void)state;
    for (uint32_t i = 0; i < WORDS; i++)
        memcpy(&memory.word[i], &poison, 4);
    memcpy(&before, &memory, sizeof(before));
    finite_add_input(&inputs, &x, 2);
    assert_int_equal(inputs.unwritten.argument, 2);
    assert_int_equal(inputs.nan.argument, -1);
    assert_int_equal(find(&inputs, &x, &is_nan), -1);
    memcpy((void *)&sum, &memory.word[7], 4);
    sum *= 2;
    memcpy(&memory.word[7], (const void *)&sum, 4);
    assert_int_equal(find(&inputs, &x, &is_nan), 7);
    assert_true(is_nan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_type_has_its_own),
        cmocka_unit_test(inputs_explain_what_follows),
        cmocka_unit_test(memory_between_elements_belongs_to_others),
        cmocka_unit_test(results_of_unwritten_memory_differ_from_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
