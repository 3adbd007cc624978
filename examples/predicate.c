/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Solves 4 x[i] - x[i-1] - x[i+1] = b[i] by sweeps over x until it is good
 * enough. Nobody knows in advance how many sweeps that takes, so each round
 * has a predicate: it runs only while the last one that ran has left work.
 *
 *     going = 1
 *     if going:  SWEEP x     if going:  MEASURE x -> going
 *     if going:  SWEEP x     if going:  MEASURE x -> going
 *     ...
 *
 * The rounds that are not needed cost next to nothing, but they are submitted.
 * Where tasks run while the graph is built, the orchestration looks at the
 * flag itself from time to time and stops submitting.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "examples/example.h"

enum { COUNT = 1024, ROUNDS = 100, LOOK = 8 }; /* rounds between two looks */
enum { SWEEP, MEASURE, KERNELS };

static const float RESIDUAL_MAX = 1e-3f;

static int run_predicate(struct pto_device *device, const struct pto_run_options *options,
                         struct pto_run_report *report, char *result, size_t result_bytes);
static void orchestrate(struct pto_orch *o, const struct pto_entry *entry);
static void kernel_sweep(int64_t *args);
static void kernel_measure(int64_t *args);

PTO_EXAMPLE = {
    .name = "predicate",
    .summary = "a solver of 1024 unknowns that stops when it is good enough, at most 100 rounds",
    .run = run_predicate,
};

static const struct pto_kernel kernels[KERNELS] = {
    [SWEEP] = { "sweep", kernel_sweep, PTO_CORE_AIV },
    [MEASURE] = { "measure", kernel_measure, PTO_CORE_AIV },
};

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *b = &entry->tensor[0], *x = &entry->tensor[1];
    bool is_streamed = entry->scalar[0] == PTO_MODE_STREAM;
    struct pto_tensor_info flag = pto_tensor_info_make(PTO_DIMS(1), 1, PTO_INT32);

    pto_tensor_info_fill(&flag, 1);
    const struct pto_tensor *going = pto_alloc(o, PTO_OUT(&flag)).tensor;

    for (int round = 1; round <= ROUNDS; round++) {
        pto_aiv(o, SWEEP, PTO_IN(b), PTO_INOUT(x), PTO_IF(going, NE, 0, 0));
        pto_aiv(o, MEASURE, PTO_IN(b), PTO_IN(x), PTO_WRITE(going), PTO_IF(going, NE, 0, 0));
        if (is_streamed && round % LOOK == 0 && pto_get_data(o, going, 1, PTO_DIMS(0)) == 0)
            break;
    }
}

/* One sweep: each unknown from the newest values of its neighbours. */
static void sweep(const float *b, float *x)
{
    for (int i = 0; i < COUNT; i++)
        x[i] = 0.25f * (b[i] + (i > 0 ? x[i - 1] : 0) + (i < COUNT - 1 ? x[i + 1] : 0));
}

static bool is_good(const float *b, const float *x)
{
    for (int i = 0; i < COUNT; i++) {
        float near = (i > 0 ? x[i - 1] : 0) + (i < COUNT - 1 ? x[i + 1] : 0);

        if (fabsf(4 * x[i] - near - b[i]) > RESIDUAL_MAX)
            return false;
    }
    return true;
}

static void kernel_sweep(int64_t *args)
{
    sweep(pto_tensor_data(pto_arg_tensor(args, 0)), pto_tensor_data(pto_arg_tensor(args, 1)));
}

static void kernel_measure(int64_t *args)
{
    const float *b = pto_tensor_data(pto_arg_tensor(args, 0));
    const float *x = pto_tensor_data(pto_arg_tensor(args, 1));
    int32_t *going = pto_tensor_data(pto_arg_tensor(args, 2));

    *going = !is_good(b, x);
}

static float solution(int i)
{
    return (float)(i % 19 - 9);
}

static void fill(float *b, float *x)
{
    for (int i = 0; i < COUNT; i++) {
        b[i] =
            4 * solution(i) - (i > 0 ? solution(i - 1) : 0) - (i < COUNT - 1 ? solution(i + 1) : 0);
        x[i] = 0;
    }
}

/* `y` has room for a solution: the same rounds without a runtime. */
static int check(const float *b, const float *x, float *y, uint64_t executions, char *result,
                 size_t result_bytes)
{
    int rounds = 0;

    do {
        sweep(b, y);
        rounds++;
    } while (!is_good(b, y));
    if (executions != 2 * (uint64_t)rounds) {
        snprintf(result, result_bytes, "%llu kernels ran instead of %d",
                 (unsigned long long)executions, 2 * rounds);
        return PTO_EKERNEL;
    }
    for (int i = 0; i < COUNT; i++) {
        if (x[i] != y[i] || fabsf(x[i] - solution(i)) > RESIDUAL_MAX) {
            snprintf(result, result_bytes, "x[%d]=%g instead of %g", i, x[i], y[i]);
            return PTO_EKERNEL;
        }
    }
    snprintf(result, result_bytes, "x[1]=%.4f, good enough after %d of %d rounds", x[1], rounds,
             ROUNDS);
    return PTO_OK;
}

static int run_predicate(struct pto_device *device, const struct pto_run_options *options,
                         struct pto_run_report *report, char *result, size_t result_bytes)
{
    const uint64_t mode = options->mode;
    struct pto_callable_params params;
    struct pto_callable *callable;
    int status;
    float *b = calloc(3 * COUNT, sizeof(*b));

    if (b == NULL)
        return PTO_ENOMEM;

    float *x = b + COUNT;
    const struct pto_tensor tensors[] = {
        pto_tensor_external(b, PTO_DIMS(COUNT), 1, PTO_FLOAT32),
        pto_tensor_external(x, PTO_DIMS(COUNT), 1, PTO_FLOAT32),
    };
    const struct pto_entry entry = {
        .tensor_count = 2, .tensor = tensors, .scalar_count = 1, .scalar = &mode
    };

    fill(b, x);
    pto_callable_params_init(&params);
    params.name = "predicate";
    params.orchestration = orchestrate;
    params.kernels = kernels;
    params.kernel_count = KERNELS;
    status = pto_callable_create(&params, &callable);
    if (status < 0)
        goto free_memory;

    status = pto_run(device, callable, &entry, options, report);
    if (status == PTO_OK)
        status = check(b, x, x + COUNT, report->executions, result, result_bytes);

    pto_callable_destroy(callable);
free_memory:
    free(b);
    return status;
}
