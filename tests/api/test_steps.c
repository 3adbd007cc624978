/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * Observers of steps, and the search for NaN: each task is shown before its first kernel and after
 * its last one, whatever its blocks and lanes are; calls of observers do not overlap; NaN of one
 * invocation is found when all have returned.
 */
#include "tests/fixture/device_test.h"

enum {
    KERNEL_DOUBLE, /* x, y: y = 2 x, each block its part */
    KERNEL_DIVIDE, /* x, y: y = 1 / x, likewise */
    KERNEL_DIVIDE_AIC,
    KERNEL_IDLE, /* nothing, as a lane */
    KERNELS
};

enum { FLOATS = 64, CHAIN = 50, BLOCKS = 4 };

static void each_part(int64_t *args, bool is_division)
{
    const float *x = pto_tensor_data(pto_arg_tensor(args, 0));
    float *y = pto_tensor_data(pto_arg_tensor(args, 1));
    uint32_t part = FLOATS / (uint32_t)pto_block_count(args);
    uint32_t from = part * (uint32_t)pto_block_index(args);

    for (uint32_t i = from; i < from + part; i++)
        y[i] = is_division ? 1 / x[i] : 2 * x[i];
}

static void kernel_double(int64_t *args)
{
    each_part(args, false);
}

__attribute__((no_sanitize("undefined"))) static void kernel_divide(int64_t *args)
{
    each_part(args, true);
}

static void kernel_idle(int64_t *args)
{
    (void)args;
}

static const struct pto_kernel kernels[KERNELS] = {
    [KERNEL_DOUBLE] = { "double", kernel_double, PTO_CORE_AIV },
    [KERNEL_DIVIDE] = { "divide", kernel_divide, PTO_CORE_AIV },
    [KERNEL_DIVIDE_AIC] = { "divide-aic", kernel_divide, PTO_CORE_AIC },
    [KERNEL_IDLE] = { "idle", kernel_idle, PTO_CORE_AIV },
};

/* ---- steps ---- */

static struct {
    uint32_t begins[CHAIN + 2];
    uint32_t ends[CHAIN + 2];
    uint32_t inside; /* number of observer calls that have not returned */
    /* number of blocks that had not written when the end of their task was shown */
    uint32_t unfinished;
    /* number of blocks that had written when the beginning of their task was shown */
    uint32_t started;
} seen;

static void note_step(void *context, const struct pto_step *step)
{
    const float *y = pto_tensor_data(&step->tensor[1]);

    EXPECT(context == &seen && __atomic_add_fetch(&seen.inside, 1, __ATOMIC_RELAXED) == 1);
    EXPECT(step->index < CHAIN + 2 && step->tensor_count == 2 && !step->is_deferred);
    EXPECT(step->site != NULL && step->kernel == KERNEL_DOUBLE);
    if (step->is_end)
        seen.ends[step->index]++;
    else
        seen.begins[step->index]++;
    EXPECT(seen.begins[step->index] == 1 && seen.ends[step->index] == step->is_end);
    for (uint32_t block = 0; block < BLOCKS; block++) {
        seen.unfinished += step->is_end && y[block * FLOATS / BLOCKS] == 0;
        seen.started += !step->is_end && y[block * FLOATS / BLOCKS] != 0;
    }
    __atomic_sub_fetch(&seen.inside, 1, __ATOMIC_RELAXED);
}

/* A chain, in which each task has blocks that run at the same time. */
static void orchestrate_chain(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info one = pto_tensor_info_make(PTO_DIMS(FLOATS), 1, PTO_FLOAT32), zero = one;
    struct pto_outputs x;

    (void)entry;
    pto_tensor_info_fill(&one, 0x3f800000);
    pto_tensor_info_fill(&zero, 0);
    x = pto_alloc(o, PTO_OUT(&one));
    for (uint32_t i = 0; i < CHAIN; i++)
        pto_aiv(o, KERNEL_DOUBLE, PTO_IN(pto_output(x, 0)), PTO_OUT(&zero), PTO_BLOCKS(BLOCKS));
}

static void each_task_is_shown_twice(const struct setting *at)
{
    struct pto_run_options options;

    pto_run_options_init(&options);
    options.step = note_step;
    options.step_context = &seen;
    memset(&seen, 0, sizeof(seen));
    assert_int_equal(run_with(at, kernels, KERNELS, orchestrate_chain, &options), PTO_OK);
    /* an allocation has no kernel, so it has no step */
    assert_int_equal(seen.begins[0] + seen.ends[0], 0);
    for (uint32_t i = 1; i <= CHAIN; i++)
        assert_true(seen.begins[i] == 1 && seen.ends[i] == 1);
    assert_int_equal(seen.unfinished, 0);
    assert_int_equal(seen.started, 0);
}

/* ---- NaN ---- */

static struct pto_tensor_info zeroes(void)
{
    struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(FLOATS), 1, PTO_FLOAT32);

    pto_tensor_info_fill(&info, 0);
    return info;
}

static void orchestrate_blocks(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = zeroes();
    struct pto_outputs x = pto_alloc(o, PTO_OUT(&info));

    (void)entry;
    pto_aiv(o, KERNEL_DIVIDE, PTO_IN(pto_output(x, 0)), PTO_OUT(&info), PTO_BLOCKS(BLOCKS));
}

static void orchestrate_lanes(struct pto_orch *o, const struct pto_entry *entry)
{
    struct pto_tensor_info info = zeroes();
    struct pto_outputs x = pto_alloc(o, PTO_OUT(&info));

    (void)entry;
    pto_mix(o, PTO_LANES(KERNEL_DIVIDE_AIC, KERNEL_IDLE, KERNEL_IDLE), PTO_IN(pto_output(x, 0)),
            PTO_OUT(&info));
}

static void nan_of_any_invocation_is_found(const struct setting *at)
{
    struct pto_run_options options;

    pto_run_options_init(&options);
    assert_int_equal(run_with(at, kernels, KERNELS, orchestrate_blocks, &options), PTO_OK);
    options.has_nan_check = true;
    assert_refused(run_with(at, kernels, KERNELS, orchestrate_blocks, &options), PTO_ENAN,
                   "kernel \"divide\" wrote Inf at element [0] of argument 1 of task 1, "
                   "float32[64], from finite inputs");
    assert_int_equal(report.error.argument, 1);
    assert_int_equal(report.error.kernel, KERNEL_DIVIDE);
    assert_refused(run_with(at, kernels, KERNELS, orchestrate_lanes, &options), PTO_ENAN,
                   " or another lane wrote Inf at element [0] of argument 1 of task 1");
    assert_int_equal(run_with(at, kernels, KERNELS, orchestrate_chain, &options), PTO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(2, each_task_is_shown_twice),
        EACH(2, nan_of_any_invocation_is_found),
    };

    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
