/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds a graph once and launches it with other buffers and another scalar: y = k * x + y.
 *
 * A launch calls no orchestration and infers no dependencies, so it costs a fraction of a run.
 */
#include <pto/pto.h>
#include <stdio.h>

enum { N = 4, PARTS = 2, LAUNCHES = 3 };

static void multiply_add(int64_t *args)
{
    const struct pto_tensor *y = pto_arg_tensor(args, 1);
    const float *x = pto_tensor_data(pto_arg_tensor(args, 0));
    float *sum = pto_tensor_data(y);
    int64_t k = args[2]; /* scalars follow the tensors */

    for (uint32_t i = 0; i < y->shapes[0]; i++)
        sum[i] += (float)k * x[i];
}

/* Splits the vectors: the tasks share no element, so they run in parallel. */
static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    for (uint32_t part = 0; part < PARTS; part++) {
        const uint32_t shape[] = { N / PARTS }, offset[] = { part * (N / PARTS) };
        const struct pto_tensor x = pto_tensor_view(&entry->tensor[0], shape, offset);
        const struct pto_tensor y = pto_tensor_view(&entry->tensor[1], shape, offset);

        /* PTO_PASS hands a scalar on without reading it, so that a launch may change it. */
        pto_aiv(o, 0, PTO_IN(&x), PTO_INOUT(&y), PTO_PASS(0));
    }
}

int main(void)
{
    static const struct pto_kernel kernels[] = { { "multiply_add", multiply_add, PTO_CORE_AIV } };
    float x[LAUNCHES][N] = { { 1, 2, 3, 4 }, { 5, 6, 7, 8 }, { 9, 10, 11, 12 } };
    float y[LAUNCHES][N] = { { 0 } };
    uint64_t k = 1;
    struct pto_tensor tensor[2] = { pto_tensor_external(x[0], PTO_DIMS(N), 1, PTO_FLOAT32),
                                    pto_tensor_external(y[0], PTO_DIMS(N), 1, PTO_FLOAT32) };
    struct pto_entry entry = { 2, 1, tensor, &k };
    struct pto_callable_params made_of;
    struct pto_device_params params;
    struct pto_run_options options;
    struct pto_run_report report;
    struct pto_callable *callable = NULL;
    struct pto_device *device = NULL;
    struct pto_graph *graph = NULL;
    int status;

    pto_run_report_init(&report);
    pto_device_params_init(&params);
    params.error = &report.error;
    pto_callable_params_init(&made_of);
    made_of.name = "multiply_add";
    made_of.orchestration = orchestrate;
    made_of.kernels = kernels;
    made_of.kernel_count = 1;
    made_of.error = &report.error;
    pto_run_options_init(&options);
    pto_run_options_vary(&options, 0); /* launches may change scalar 0 */

    status = pto_device_open(&params, &device);
    if (status == PTO_OK)
        status = pto_callable_create(&made_of, &callable);
    if (status == PTO_OK)
        status = pto_graph_build(device, callable, &entry, &options, &report, &graph);
    for (int i = 0; i < LAUNCHES && status == PTO_OK; i++, k *= 10) {
        tensor[0] = pto_tensor_external(x[i], PTO_DIMS(N), 1, PTO_FLOAT32);
        tensor[1] = pto_tensor_external(y[i], PTO_DIMS(N), 1, PTO_FLOAT32);
        status = pto_graph_run(graph, &entry, NULL, &report);
        if (status == PTO_OK)
            printf("k = %d: %g %g %g %g\n", (int)k, y[i][0], y[i][1], y[i][2], y[i][3]);
    }
    if (status < 0)
        fprintf(stderr, "relaunch: %s\n", report.error.text);
    if (graph != NULL)
        pto_graph_destroy(graph);
    if (callable != NULL)
        pto_callable_destroy(callable);
    if (device != NULL)
        pto_device_close(device);
    return status < 0;
}
