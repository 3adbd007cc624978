/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes deps.json of a run with many edges:
 *
 *     deps_run FOLDER TASKS
 *
 * Each task reads three of 64 buffers and overwrites another one. By simpler's rules an overwriting
 * task removes no earlier writer, so the later a task is, the more predecessors it has.
 */
#include <pto/pto.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUFFERS = 64, ELEMENTS = 64, INPUTS = 3 };

static float memory[BUFFERS][ELEMENTS];
static uint32_t random_state = 1;
static int tasks;

static struct pto_tensor random_buffer(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return pto_tensor_external(memory[(random_state >> 8) % BUFFERS], PTO_DIMS(8, 8), 2,
                               PTO_FLOAT32);
}

static void nothing(int64_t *args)
{
    (void)args;
}

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    for (int i = 0; i < tasks; i++) {
        struct pto_tensor tensor[INPUTS + 1];
        struct pto_args args;

        pto_args_init(&args);
        for (int k = 0; k <= INPUTS; k++) {
            tensor[k] = random_buffer();
            if (k < INPUTS)
                pto_add_input(&args, &tensor[k]);
            else
                pto_add_output_existing(&args, &tensor[k]);
        }
        pto_submit_aiv(o, 0, &args);
    }
}

int main(int argc, char **argv)
{
    static const struct pto_kernel kernel = { "nothing", nothing, PTO_CORE_AIV };
    struct pto_device_params device_params;
    struct pto_callable_params callable_params;
    struct pto_run_options options;
    struct pto_run_report report;
    struct pto_callable *callable;
    struct pto_device *device;

    if (argc < 3)
        return 2;
    tasks = atoi(argv[2]);
    pto_device_params_init(&device_params);
    pto_callable_params_init(&callable_params);
    callable_params.orchestration = orchestrate;
    callable_params.kernels = &kernel;
    callable_params.kernel_count = 1;
    pto_run_options_init(&options);
    options.deps = PTO_DEPS_SIMPLER;
    options.diagnostics = (struct pto_diagnostics){ .folder = argv[1], .has_deps = true };
    pto_run_report_init(&report);
    if (pto_device_open(&device_params, &device) < 0 ||
        pto_callable_create(&callable_params, &callable) < 0 ||
        pto_run(device, callable, NULL, &options, &report) < 0) {
        fprintf(stderr, "deps_run: %s\n", report.error.text);
        return 1;
    }
    pto_callable_destroy(callable);
    pto_device_close(device);
    return 0;
}
