/* SPDX-License-Identifier: Apache-2.0 */
/* Isolated devices: what they can do, and what is left when their process has gone. */
#include "tests/unit/artefact_test.h"

static struct pto_device *open_isolated(uint32_t clusters, uint32_t workers)
{
    struct pto_device_params params;
    struct pto_device *device = NULL;

    pto_device_params_init(&params);
    params.clusters = clusters;
    params.workers = workers;
    params.is_isolated = true;
    assert_int_equal(pto_device_open(&params, &device), PTO_OK);
    return device;
}

static void runs_an_artefact(void **state)
{
    struct pto_device *device = open_isolated(2, 2);
    struct pto_callable *callable = load_flags(ADD);
    int a[64], b[64], c[64] = { 0 };
    struct pto_tensor t[3];
    struct pto_entry entry = { .tensor_count = 3, .tensor = t };

    (void)state;
    for (int i = 0; i < 64; i++) {
        a[i] = i;
        b[i] = 100 * i;
    }
    t[0] = pto_tensor_external(a, (uint32_t[]){ 64 }, 1, PTO_INT32);
    t[1] = pto_tensor_external(b, (uint32_t[]){ 64 }, 1, PTO_INT32);
    t[2] = pto_tensor_external(c, (uint32_t[]){ 64 }, 1, PTO_INT32);
    pto_run_report_init(&report);
    if (pto_run(device, callable, &entry, NULL, &report) < 0)
        fail_msg("%s", report.error.text);
    for (int i = 0; i < 64; i++)
        assert_int_equal(c[i], 101 * i);
    assert_int_equal(report.executions, 1);
    assert_int_equal(pto_device_close(device), PTO_OK);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(runs_an_artefact),
    };

    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
