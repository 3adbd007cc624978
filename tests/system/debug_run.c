/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs callables with the same names in one process, and prints the result of each.
 *
 *     debug_run ARTEFACT...
 */
#include <pto/pto.h>
#include <stdio.h>
#include <string.h>

enum { N = 64, CALLABLES_MAX = 4 };

int main(int count, char **path)
{
    static int data[2][N];
    const uint32_t shape[] = { N };
    const struct pto_tensor tensor[] = { pto_tensor_external(data[0], shape, 1, PTO_INT32),
                                         pto_tensor_external(data[1], shape, 1, PTO_INT32) };
    const struct pto_entry entry = { 2, 0, tensor, NULL };
    struct pto_callable *callable[CALLABLES_MAX];
    struct pto_device_params params;
    struct pto_device *device;
    struct pto_error error;

    pto_error_init(&error);
    pto_device_params_init(&params);
    params.workers = 1;
    if (count - 1 > CALLABLES_MAX || pto_device_open(&params, &device) < 0)
        return 2;
    for (int i = 0; i < count - 1; i++)
        if (pto_callable_load(path[i + 1], NULL, &callable[i], &error) < 0 ||
            pto_register(device, callable[i], &error) < 0) {
            fprintf(stderr, "%s\n", error.text);
            return 2;
        }
    for (int i = 0; i < count - 1; i++) {
        struct pto_run_report report;
        char failure[4096];
        int status;

        pto_run_report_init(&report);
        status = pto_run(device, callable[i], &entry, NULL, &report);
        printf("%d: %s\n", status, report.error.text);
        if (pto_device_last_failure(device, failure, sizeof(failure)) > 0)
            printf("%s", failure);
        fflush(stdout);
    }
    return pto_device_close(device) == PTO_OK ? 0 : 1;
}
