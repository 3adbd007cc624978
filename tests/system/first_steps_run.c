/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A callable of functions of this program, which a device in a separate process cannot call: a run
 * fails with a message that says so. On a device in this process the same callable is registered
 * and runs.
 */
#include <pto/pto.h>
#include <stdio.h>
#include <string.h>

static void add(int64_t *args)
{
    float *y = pto_tensor_data(pto_arg_tensor(args, 0));

    y[0] += 1;
}

static void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    pto_aiv(o, 0, PTO_INOUT(&entry->tensor[0]));
}

static struct pto_device *open_device(bool is_isolated)
{
    struct pto_device_params params;
    struct pto_device *device = NULL;
    struct pto_error error;

    pto_error_init(&error);
    pto_device_params_init(&params);
    params.is_isolated = is_isolated;
    params.error = &error;
    if (pto_device_open(&params, &device) < 0)
        printf("open: %s\n", error.text);
    return device;
}

int main(void)
{
    float y[1] = { 1 };
    struct pto_kernel kernel = { "add", add, PTO_CORE_AIV };
    struct pto_tensor tensor = pto_tensor_external(y, PTO_DIMS(1), 1, PTO_FLOAT32);
    struct pto_entry entry = { .tensor_count = 1, .tensor = &tensor };
    struct pto_callable_params params;
    struct pto_callable *callable;
    struct pto_error error, of_run;
    struct pto_device *far = open_device(true), *near = open_device(false);
    struct pto_run_report report;

    pto_callable_params_init(&params);
    pto_error_init(&error);
    params.orchestration = orchestrate;
    params.kernels = &kernel;
    params.kernel_count = 1;
    if (far == NULL || near == NULL || pto_callable_create(&params, &callable) < 0)
        return 2;
    if (pto_register(far, callable, &error) != PTO_ENOSUP ||
        strstr(error.text, "functions of this program") == NULL) {
        printf("an isolated device takes functions of this program: %s\n", error.text);
        return 1;
    }
    pto_run_report_init(&report);
    of_run = error;
    if (pto_run(far, callable, &entry, NULL, &report) != PTO_ENOSUP ||
        strcmp(of_run.text, report.error.text) != 0) {
        printf("its run says something else: %s\n", report.error.text);
        return 1;
    }
    if (pto_register(far, callable, NULL) != PTO_ENOSUP ||
        pto_register(near, callable, &error) != PTO_OK ||
        pto_run(near, callable, &entry, NULL, NULL) != PTO_OK || y[0] != 2) {
        printf("a device in this process does not take them\n");
        return 1;
    }
    return pto_device_close(far) < 0 || pto_device_close(near) < 0 ||
           pto_callable_destroy(callable) < 0;
}
