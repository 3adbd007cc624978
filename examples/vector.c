/* SPDX-License-Identifier: Apache-2.0 */
/*
 * f = (a + b + 1)(a + b + 2) + (a + b) in five tasks:
 *
 *     a --+             +-- d = c + 1 --+
 *         +-- c = a + b +               +-- g = d * e -- f = g + c
 *     b --+        |    +-- e = c + 2 --+               |
 *                  +------------------------------------+
 *
 * The orchestration names no order: it follows from the tensors. d, e and g
 * live in a scope of their own and are free again when it has ended.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "examples/example.h"

enum { COUNT = 16384 };
enum { ADD, ADD_SCALAR, MUL, KERNELS };

static int run_vector(struct pto_device *device, const struct pto_run_options *options,
                      struct pto_run_report *report, char *result, size_t result_bytes);
static void orchestrate(struct pto_orch *o, const struct pto_entry *entry);
static void kernel_add(int64_t *args);
static void kernel_add_scalar(int64_t *args);
static void kernel_mul(int64_t *args);

PTO_EXAMPLE = {
    .name = "vector",
    .summary = "f = (a+b+1)(a+b+2)+(a+b) on 16384 floats, five AIV tasks",
    .run = run_vector,
};

static const struct pto_kernel kernels[KERNELS] = {
    [ADD] = { "add", kernel_add, PTO_CORE_AIV },
    [ADD_SCALAR] = { "add_scalar", kernel_add_scalar, PTO_CORE_AIV },
    [MUL] = { "mul", kernel_mul, PTO_CORE_AIV },
};

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *a = &entry->tensor[0], *b = &entry->tensor[1], *f = &entry->tensor[2];
    const struct pto_tensor_info info = pto_tensor_info_make(PTO_DIMS(COUNT), 1, PTO_FLOAT32);
    const struct pto_tensor *c = pto_aiv(o, ADD, PTO_IN(a), PTO_IN(b), PTO_OUT(&info)).tensor;

    PTO_SCOPE(o) {
        const struct pto_tensor *d, *e, *g;

        d = pto_aiv(o, ADD_SCALAR, PTO_IN(c), PTO_OUT(&info), PTO_FLOAT(1.0f)).tensor;
        e = pto_aiv(o, ADD_SCALAR, PTO_IN(c), PTO_OUT(&info), PTO_FLOAT(2.0f)).tensor;
        g = pto_aiv(o, MUL, PTO_IN(d), PTO_IN(e), PTO_OUT(&info)).tensor;
        pto_aiv(o, ADD, PTO_IN(g), PTO_IN(c), PTO_WRITE(f));
    }
}

static void kernel_add(int64_t *args)
{
    const float *x = pto_tensor_data(pto_arg_tensor(args, 0));
    const float *y = pto_tensor_data(pto_arg_tensor(args, 1));
    float *out = pto_tensor_data(pto_arg_tensor(args, 2));

    for (int i = 0; i < COUNT; i++)
        out[i] = x[i] + y[i];
}

static void kernel_add_scalar(int64_t *args)
{
    const float *x = pto_tensor_data(pto_arg_tensor(args, 0));
    float *out = pto_tensor_data(pto_arg_tensor(args, 1));
    float value = pto_arg_float(args, 2);

    for (int i = 0; i < COUNT; i++)
        out[i] = x[i] + value;
}

static void kernel_mul(int64_t *args)
{
    const float *x = pto_tensor_data(pto_arg_tensor(args, 0));
    const float *y = pto_tensor_data(pto_arg_tensor(args, 1));
    float *out = pto_tensor_data(pto_arg_tensor(args, 2));

    for (int i = 0; i < COUNT; i++)
        out[i] = x[i] * y[i];
}

/* Small whole numbers, so every intermediate result is exact; f starts as something else. */
static void fill(float *a, float *b, float *f)
{
    for (int i = 0; i < COUNT; i++) {
        a[i] = (float)(i % 61);
        b[i] = (float)(i % 37);
        f[i] = NAN;
    }
}

static int check(const float *a, const float *b, const float *f, char *result, size_t result_bytes)
{
    for (int i = 0; i < COUNT; i++) {
        int c = (int)(a[i] + b[i]);
        float expect = (float)((c + 1) * (c + 2) + c);

        if (f[i] != expect) {
            snprintf(result, result_bytes, "f[%d]=%g instead of %g", i, f[i], expect);
            return PTO_EKERNEL;
        }
    }
    snprintf(result, result_bytes, "f[0]=%g f[%d]=%g, all %d exact", f[0], COUNT - 1, f[COUNT - 1],
             COUNT);
    return PTO_OK;
}

static int run_vector(struct pto_device *device, const struct pto_run_options *options,
                      struct pto_run_report *report, char *result, size_t result_bytes)
{
    const uint32_t shape[] = { COUNT };
    struct pto_callable_params params;
    struct pto_callable *callable;
    int status;
    float *a = malloc(3 * COUNT * sizeof(*a));

    if (a == NULL)
        return PTO_ENOMEM;

    float *b = a + COUNT;
    float *f = b + COUNT;
    const struct pto_tensor tensors[] = {
        pto_tensor_external(a, shape, 1, PTO_FLOAT32),
        pto_tensor_external(b, shape, 1, PTO_FLOAT32),
        pto_tensor_external(f, shape, 1, PTO_FLOAT32),
    };
    const struct pto_entry entry = { .tensor_count = 3, .tensor = tensors };

    fill(a, b, f);
    pto_callable_params_init(&params);
    params.name = "vector";
    params.orchestration = orchestrate;
    params.kernels = kernels;
    params.kernel_count = KERNELS;
    status = pto_callable_create(&params, &callable);
    if (status < 0)
        goto free_memory;

    status = pto_run(device, callable, &entry, options, report);
    if (status == PTO_OK)
        status = check(a, b, f, result, result_bytes);

    pto_callable_destroy(callable);
free_memory:
    free(a);
    return status;
}
