/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that declare their arguments: submits that fit are accepted, in every form of a submit;
 * every other submit is refused at the first argument that differs, with a message that names both
 * sides. Declarations are validated before they are used.
 */
#include "graph/declared.h"

#include "tests/fixture/port_test.h"

enum { DECLARED, UNDECLARED, KERNELS };

static const uint32_t axpy[] = { PTO_TENSOR(PTO_FLOAT32, 2), PTO_VIEW(PTO_FLOAT16),
                                 PTO_TENSOR(PTO_ANY_DTYPE), PTO_SCALAR(PTO_INT8), 0 };

static char storage[1 << 16];

/* Arguments as the kernel `axpy` declares them. */
struct submit_of {
    struct pto_tensor tensor[2];
    struct pto_tensor_info info;
    struct pto_args args;
};

static void fill_fitting(struct submit_of *s)
{
    const uint32_t shape[] = { 4, 8 };

    s->tensor[0] = pto_tensor_external(storage, shape, 2, PTO_FLOAT32);
    s->tensor[1] = pto_tensor_external(storage + 4096, shape, 2, PTO_FLOAT16);
    s->tensor[1] = pto_tensor_slice(&s->tensor[1], 1, 2, 4, 1);
    assert_false(s->tensor[1].is_contiguous);
    s->info = pto_tensor_info_make(PTO_DIMS(4), 1, PTO_INT64);
    pto_args_init(&s->args);
    pto_add_input(&s->args, &s->tensor[0]);
    pto_add_input(&s->args, &s->tensor[1]);
    pto_add_output(&s->args, &s->info);
    pto_add_scalar(&s->args, (uint64_t)-3);
}

static struct rig *open_declared(const uint32_t *declared)
{
    static struct graph_kernel kernels[KERNELS];
    struct rig *rig = rig_open(PTO_DEPS_SAFE);

    kernels[DECLARED] = graph_kernel_make(rig_kernel, PTO_CORE_AIV, declared);
    kernels[UNDECLARED] = graph_kernel_make(rig_kernel, PTO_CORE_TYPES, NULL);
    rig->g.kernels = kernels;
    rig->g.kernel_count = KERNELS;
    return rig;
}

static int submit_to(struct rig *rig, const struct pto_kernels *kernels,
                     const struct pto_args *args)
{
    struct pto_outputs out;
    struct slot *ready;

    return graph_submit(&rig->g, kernels, args, NULL, &out, &ready);
}

static void what_fits_is_accepted(void **state)
{
    static const struct pto_kernels as[] = { { -1, DECLARED, -1 },
                                             { -1, -1, DECLARED },
                                             { UNDECLARED, DECLARED, -1 },
                                             { -1, DECLARED, DECLARED } };
    struct rig *rig = open_declared(axpy);
    struct submit_of s;

    (void)state;
    for (uint32_t i = 0; i < sizeof(as) / sizeof(as[0]); i++) {
        fill_fitting(&s);
        s.args.block_count = 1 + (int32_t)i;
        assert_int_equal(submit_to(rig, &as[i], &s.args), PTO_OK);
    }
    assert_int_equal(submit_to(rig, &(struct pto_kernels){ DECLARED, -1, -1 }, &s.args),
                     PTO_EARGS); /* it is for the other type of core */
    assert_int_equal(rig->g.refusal.kind, FAILURE_CORE_TYPE);
    rig_close(rig);
}

/* `argument`, `word` and the given value are what the refusal must report. */
static void refused(const struct submit_of *s, enum declared_misfit misfit, int32_t argument,
                    uint32_t word, uint64_t given)
{
    static const struct pto_kernels as[] = { { -1, DECLARED, -1 }, { UNDECLARED, -1, DECLARED } };

    for (uint32_t i = 0; i < 2; i++) {
        struct rig *rig = open_declared(axpy);
        struct failure f = { .kind = FAILURE_DECLARED };

        assert_int_equal(submit_to(rig, &as[i], &s->args), PTO_EARGS);
        assert_int_equal(rig->g.refusal.kind, FAILURE_DECLARED);
        assert_int_equal(rig->g.refusal.argument, argument);
        assert_int_equal(rig->g.refusal.value, declared_pack(DECLARED, misfit, word));
        assert_int_equal(rig->g.live, 0);
        f.argument = argument;
        f.value[0] = rig->g.refusal.value;
        failure_add_refusal(&f, &s->args, NULL);
        assert_int_equal(f.kernel, DECLARED);
        assert_int_equal(f.value[1], given);
        assert_int_equal(declared_is_scalar(f.value[0]), misfit >= DECLARED_RANGE);
        rig_close(rig);
    }
}

static void what_does_not_is_refused_with_both_sides(void **state)
{
    struct submit_of s;

    (void)state;
    fill_fitting(&s);
    s.args.tensor_count--;
    s.args.output_count--;
    refused(&s, DECLARED_TENSORS, -1, 3, 2);
    fill_fitting(&s);
    s.args.scalar_count--;
    refused(&s, DECLARED_SCALARS, -1, 1, 0);
    pto_add_scalar(&s.args, 1);
    pto_add_scalar(&s.args, 1);
    refused(&s, DECLARED_SCALARS, -1, 1, 2);
    fill_fitting(&s);
    s.tensor[0].dtype = PTO_INT32;
    refused(&s, DECLARED_TYPE, 0, axpy[0], PTO_TENSOR(PTO_INT32, 2));
    fill_fitting(&s);
    s.tensor[0] = pto_tensor_external(storage, PTO_DIMS(32), 1, PTO_FLOAT32);
    refused(&s, DECLARED_NDIMS, 0, axpy[0], PTO_TENSOR(PTO_FLOAT32, 1));
    fill_fitting(&s);
    s.tensor[0] = pto_tensor_slice(&s.tensor[0], 1, 2, 4, 1);
    refused(&s, DECLARED_STRIDES, 0, axpy[0], PTO_VIEW(PTO_FLOAT32, 2));
    fill_fitting(&s);
    s.tensor[1].dtype = PTO_BFLOAT16;
    refused(&s, DECLARED_TYPE, 1, axpy[1], PTO_VIEW(PTO_BFLOAT16, 2));
    fill_fitting(&s);
    s.args.scalar[0] = 256;
    refused(&s, DECLARED_RANGE, 0, axpy[3], 256);
    s.args.scalar[0] = (uint64_t)-129;
    refused(&s, DECLARED_RANGE, 0, axpy[3], (uint64_t)-129);
    s.args.scalar[0] = 1;
    s.args.has_scalar_types = true;
    s.args.scalar_type[0] = PTO_FLOAT32;
    refused(&s, DECLARED_SCALAR_TYPE, 0, axpy[3], PTO_FLOAT32);
}

/* An invalid tensor is reported as if there were no declaration. */
static void invalid_tensors_are_refused_as_such(void **state)
{
    struct rig *rig = open_declared(axpy);
    struct submit_of s;

    (void)state;
    fill_fitting(&s);
    s.tensor[0].ndims = 0;
    assert_int_equal(submit_to(rig, &(struct pto_kernels){ -1, DECLARED, -1 }, &s.args), PTO_EARGS);
    assert_int_equal(rig->g.refusal.kind, FAILURE_VIEW);
    rig_close(rig);
}

/* ---- random tasks ---- */

static uint32_t random_word(bool is_scalar)
{
    uint32_t dtype = random_below(5) == 0 ? PTO_ANY_DTYPE : random_below(PTO_DTYPE_COUNT);

    return is_scalar         ? PTO_SCALAR(dtype)
           : random_below(2) ? PTO_TENSOR(dtype, random_below(PTO_MAX_DIMS + 1))
                             : PTO_VIEW(dtype, random_below(PTO_MAX_DIMS + 1));
}

/* Makes a tensor that fits the word, unless `is_other`. */
static struct pto_tensor make_tensor(uint32_t word, bool is_other)
{
    const uint32_t shape[PTO_MAX_DIMS] = { 2, 2, 2, 2, 2 };
    uint32_t dtype = declared_dtype(word), ndims = declared_ndims(word);
    bool is_strided = declared_kind(word) == PTO_DECLARED_VIEW && random_below(2);
    uint32_t other = random_below(3);
    struct pto_tensor x;

    if (dtype == PTO_ANY_DTYPE)
        dtype = random_below(PTO_DTYPE_COUNT);
    else if (is_other && other == 0)
        dtype = (dtype + 1 + random_below(PTO_DTYPE_COUNT - 1)) % PTO_DTYPE_COUNT;
    if (ndims == 0)
        ndims = 1 + random_below(PTO_MAX_DIMS);
    else if (is_other && other == 1)
        ndims = ndims % PTO_MAX_DIMS + 1;
    if (is_other && other == 2)
        is_strided = !is_strided;
    x = pto_tensor_external(storage, shape, ndims, (enum pto_dtype)dtype);
    if (is_strided) {
        x.is_contiguous = false;
        for (uint32_t i = 0; i < ndims; i++)
            x.strides[i] *= 2;
        x.extent = 2 * x.extent - 1;
        x.size *= 2;
    }
    return x;
}

static bool tensor_fits(uint32_t word, const struct pto_tensor *x)
{
    return (declared_dtype(word) == PTO_ANY_DTYPE || declared_dtype(word) == x->dtype) &&
           (declared_ndims(word) == 0 || declared_ndims(word) == x->ndims) &&
           (declared_kind(word) == PTO_DECLARED_VIEW || x->is_contiguous);
}

static void random_tasks_are_refused_when_they_differ(void **state)
{
    struct pto_tensor tensor[PTO_TASK_TENSORS_MAX];
    uint32_t word[KERNEL_ARGS_MAX + 1], refusals = 0;

    (void)state;
    for (uint32_t n = 0; n < 20000 / TEST_SHARE; n++) {
        uint32_t tensors = random_below(4), scalars = random_below(3);
        uint32_t other = random_below(2 * (tensors + 1));
        struct pto_args args;
        struct misfit misfit;
        int32_t first = -1;

        pto_args_init(&args);
        for (uint32_t i = 0; i < tensors; i++) {
            word[i] = random_word(false);
            tensor[i] = make_tensor(word[i], i == other);
            if (first < 0 && !tensor_fits(word[i], &tensor[i]))
                first = (int32_t)i;
            pto_add_input(&args, &tensor[i]);
        }
        for (uint32_t i = 0; i < scalars; i++) {
            word[tensors + i] = random_word(true);
            pto_add_scalar(&args, 1);
        }
        word[tensors + scalars] = 0;
        assert_int_equal(declared_length(word, KERNEL_ARGS_MAX + 1), tensors + scalars + 1);
        assert_int_equal(declared_find_misfit(word, &args, &misfit), first >= 0);
        if (first >= 0)
            assert_int_equal(misfit.argument, first);
        refusals += first >= 0;
    }
    assert_true(refusals > 2000 / TEST_SHARE);
}

static void declarations_are_validated(void **state)
{
    uint32_t word[KERNEL_ARGS_MAX + 2] = { 0 };

    (void)state;
    assert_int_equal(declared_length(word, 1), 1);
    assert_int_equal(declared_length(word, 0), 0);
    assert_int_equal(declared_length((const uint32_t[]){ PTO_TENSOR(PTO_INT8), 0 }, 1), 0);
    assert_int_equal(declared_length((const uint32_t[]){ PTO_TENSOR(PTO_DTYPE_COUNT), 0 }, 2), 0);
    assert_int_equal(
        declared_length((const uint32_t[]){ PTO_TENSOR(PTO_INT8, PTO_MAX_DIMS + 1), 0 }, 2), 0);
    assert_int_equal(
        declared_length((const uint32_t[]){ PTO_SCALAR(PTO_INT8), PTO_VIEW(PTO_INT8), 0 }, 3), 0);
    assert_int_equal(declared_length((const uint32_t[]){ 4, 0 }, 2), 0);
    for (uint32_t i = 0; i < KERNEL_ARGS_MAX; i++)
        word[i] = i < PTO_TASK_TENSORS_MAX ? PTO_TENSOR(PTO_INT8) : PTO_SCALAR(PTO_INT8);
    assert_int_equal(declared_length(word, SIZE_MAX), KERNEL_ARGS_MAX + 1);
    word[KERNEL_ARGS_MAX] = PTO_SCALAR(PTO_INT8);
    assert_int_equal(declared_length(word, SIZE_MAX), 0);
    word[PTO_TASK_TENSORS_MAX] = PTO_TENSOR(PTO_INT8);
    assert_int_equal(declared_length(word, SIZE_MAX), 0);
    /* any words: no crash, a length in range */
    for (uint32_t i = 0; i < 100000 / TEST_SHARE; i++) {
        for (uint32_t k = 0; k < 4; k++)
            word[k] = random_below(3) << 16 | random_below(17) << 8 | random_below(5);
        assert_true(declared_length(word, 4) <= 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_is_accepted),
        cmocka_unit_test(what_does_not_is_refused_with_both_sides),
        cmocka_unit_test(invalid_tensors_are_refused_as_such),
        cmocka_unit_test(random_tasks_are_refused_when_they_differ),
        cmocka_unit_test(declarations_are_validated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
