/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the orchestration of throw_orch.cc three times on one device, for throw.sh; this program
 * itself is not C++.
 */
#include <stdio.h>
#include <string.h>

#include "pto/pto.h"

static int check(struct pto_device *device, struct pto_callable *callable, uint64_t what,
                 int expected, const char *says)
{
    uint32_t words[16] = { 0 };
    struct pto_tensor tensor = pto_tensor_external(words, PTO_DIMS(16), 1, PTO_UINT32);
    struct pto_entry entry = { 1, 1, &tensor, &what };
    struct pto_run_report report;
    int status;

    pto_run_report_init(&report);
    status = pto_run(device, callable, &entry, NULL, &report);
    printf("%llu: %d %s\n", (unsigned long long)what, status, report.error.text);
    return status == expected && strstr(report.error.text, says) != NULL && words[1] == 1 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct pto_device_params params;
    struct pto_callable *callable;
    struct pto_device *device;
    struct pto_error error = { .size = sizeof(error) };
    int failed;

    if (argc != 2 || pto_callable_load(argv[1], NULL, &callable, &error) < 0) {
        printf("%s\n", argc != 2 ? "usage: throw_run OBJECT" : error.text);
        return 1;
    }
    pto_device_params_init(&params);
    if (pto_device_open(&params, &device) < 0)
        return 1;
    failed = check(device, callable, 1, PTO_EORCH, "threw an exception: the weights");
    failed += check(device, callable, 2, PTO_EORCH, "threw an exception: not a std::exception");
    failed += check(device, callable, 0, PTO_OK, "");
    failed += pto_device_close(device) != PTO_OK;
    failed += pto_callable_destroy(callable) != PTO_OK;
    return failed != 0;
}
