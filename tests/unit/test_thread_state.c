/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that change how floating point rounds, flushes and traps, and which signals are
 * blocked: neither the caller of a run nor the kernels of the next one find it so.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* feenableexcept */
#endif

#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/thread_state.h"
#include "tests/unit/device_test.h"

enum { TASKS = 64, RUNS = 20 };

static uint64_t floats_wanted;
static uint32_t dirty; /* kernels that found something else */

static void kernel_spoil(int64_t *args)
{
    sigset_t set;

    (void)args;
    fesetround(FE_UPWARD);
    feenableexcept(FE_DIVBYZERO);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void kernel_look(int64_t *args)
{
    (void)args;
    if (thread_state_floats() != floats_wanted)
        __atomic_fetch_add(&dirty, 1, __ATOMIC_RELAXED);
}

static void submit_all(struct pto_orch *o, const struct pto_entry *entry)
{
    for (int i = 0; i < TASKS; i++)
        pto_aiv(o, (int32_t)entry->scalar[0], PTO_INT(i));
}

static void run_once(struct pto_device *device, struct pto_callable *callable, uint64_t kernel)
{
    const struct pto_entry entry = { 0, 1, NULL, &kernel };
    struct pto_run_report report;

    pto_run_report_init(&report);
    assert_int_equal(pto_run(device, callable, &entry, NULL, &report), PTO_OK);
}

static void spoil_and_look(uint32_t workers)
{
    static const struct pto_kernel kernels[] = { { "spoil", kernel_spoil, PTO_CORE_AIV },
                                                 { "look", kernel_look, PTO_CORE_AIV } };
    struct pto_callable_params callable_params;
    struct pto_device_params params;
    struct pto_callable *callable;
    struct pto_device *device;
    sigset_t now;

    pto_callable_params_init(&callable_params);
    callable_params.orchestration = submit_all;
    callable_params.kernels = kernels;
    callable_params.kernel_count = 2;
    assert_int_equal(pto_callable_create(&callable_params, &callable), PTO_OK);
    pto_device_params_init(&params);
    params.workers = workers;
    assert_int_equal(pto_device_open(&params, &device), PTO_OK);
    floats_wanted = thread_state_floats();
    for (int i = 0; i < RUNS; i++) {
        run_once(device, callable, 0);
        assert_int_equal(thread_state_floats(), floats_wanted);
        assert_int_equal(fegetround(), FE_TONEAREST);
        pthread_sigmask(SIG_BLOCK, NULL, &now);
        assert_false(sigismember(&now, SIGUSR1));
        run_once(device, callable, 1);
        assert_int_equal(dirty, 0);
    }
    assert_int_equal(pto_device_close(device), PTO_OK);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
}

static void a_caller_gets_its_thread_back_as_it_was(void **state)
{
    (void)state;
    spoil_and_look(1);
}

static void kernels_of_the_next_run_find_every_thread_as_it_was(void **state)
{
    (void)state;
    spoil_and_look(3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_caller_gets_its_thread_back_as_it_was),
        cmocka_unit_test(kernels_of_the_next_run_find_every_thread_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
