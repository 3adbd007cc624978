/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a callable several times on one device: x = x / 2 + 1, which converges to 2.
 *
 * Opening a device starts its threads, so a program opens it once. The callable is made of functions
 * of this program; pto_callable_load_file would load one from an artefact instead.
 */
#include <pto/pto.h>
#include <stdio.h>

enum { N = 4, RUNS = 3 };
enum { HALVE, INCREMENT }; /* kernel ids: positions in the array of kernels */

static void halve(int64_t *args)
{
    const float *from = pto_tensor_data(pto_arg_tensor(args, 0));
    float *to = pto_tensor_data(pto_arg_tensor(args, 1));

    for (int i = 0; i < N; i++)
        to[i] = from[i] / 2;
}

static void increment(int64_t *args)
{
    const float *from = pto_tensor_data(pto_arg_tensor(args, 0));
    float *to = pto_tensor_data(pto_arg_tensor(args, 1));

    for (int i = 0; i < N; i++)
        to[i] = from[i] + 1;
}

/* Two tasks: the second reads the output of the first, and therefore waits for it. */
static void step(struct pto_orch *o, const struct pto_entry *entry)
{
    const struct pto_tensor *x = &entry->tensor[0];
    const struct pto_tensor_info info = pto_tensor_info_make(x->shapes, 1, PTO_FLOAT32);
    const struct pto_tensor *half = pto_aiv(o, HALVE, PTO_IN(x), PTO_OUT(&info)).tensor;

    pto_aiv(o, INCREMENT, PTO_IN(half), PTO_WRITE(x));
}

int main(void)
{
    static const struct pto_kernel kernels[] = { { "halve", halve, PTO_CORE_AIV },
                                                 { "increment", increment, PTO_CORE_AIV } };
    float x[N] = { 0, 10, 100, 1000 };
    struct pto_tensor tensor = pto_tensor_external(x, PTO_DIMS(N), 1, PTO_FLOAT32);
    struct pto_entry entry = { .tensor_count = 1, .tensor = &tensor };
    struct pto_callable_params made_of;
    struct pto_device_params params;
    struct pto_callable *callable = NULL;
    struct pto_device *device = NULL;
    struct pto_run_report report;
    int status;

    pto_run_report_init(&report);
    pto_device_params_init(&params);
    params.platform = "a2a3sim";
    params.error = &report.error;
    pto_callable_params_init(&made_of);
    made_of.name = "step";
    made_of.orchestration = step;
    made_of.kernels = kernels;
    made_of.kernel_count = 2;
    made_of.error = &report.error;

    status = pto_device_open(&params, &device);
    if (status == PTO_OK)
        status = pto_callable_create(&made_of, &callable);
    for (int run = 1; run <= RUNS && status == PTO_OK; run++) {
        status = pto_run(device, callable, &entry, NULL, &report);
        if (status == PTO_OK)
            printf("run %d, %d tasks: %g %g %g %g\n", run, (int)report.tasks, x[0], x[1], x[2],
                   x[3]);
    }
    if (status < 0)
        fprintf(stderr, "device: %s\n", report.error.text);
    if (callable != NULL)
        pto_callable_destroy(callable);
    if (device != NULL)
        pto_device_close(device);
    return status < 0;
}
