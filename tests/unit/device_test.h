/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of whole devices share: the settings that a rule has to hold
 * in, runs, kernels that wait, and what kernels and orchestrations noticed.
 *
 * Nothing in a kernel or an orchestration may assert: they have stacks of
 * their own. They say EXPECT, and the test asserts after the run.
 *
 * Include it last: cmocka comes with it.
 */
#ifndef PTO_DEVICE_TEST_H
#define PTO_DEVICE_TEST_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pto/pto.h"
#include "pto/sim.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#if defined(__SANITIZE_THREAD__)
enum { IS_TSAN = 1, IS_SANITIZED = 1, HANG_SECONDS = 600 };
#elif defined(__SANITIZE_ADDRESS__)
enum { IS_TSAN = 0, IS_SANITIZED = 1, HANG_SECONDS = 300 };
#else
enum { IS_TSAN = 0, IS_SANITIZED = 0, HANG_SECONDS = 120 };
#endif

enum { WAIT_SECONDS = 20 }; /* before a kernel gives up: a test that hangs says nothing */

#define MS 1000000ull

/* ---- what was noticed ---- */

static const char *unexpected; /* the first condition that did not hold */

static inline void note_unexpected(const char *text)
{
    const char *none = NULL;

    (void)__atomic_compare_exchange_n(&unexpected, &none, text, false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED);
}

#define EXPECT(condition) ((condition) ? (void)0 : note_unexpected(#condition))

static inline void assert_nothing_unexpected(void)
{
    const char *text = __atomic_exchange_n(&unexpected, NULL, __ATOMIC_RELAXED);

    if (text != NULL)
        fail_msg("did not hold: %s", text);
}

/* ---- time, and kernels that wait ---- */

static inline uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline void nap_ns(uint64_t ns)
{
    nanosleep(&(struct timespec){ (time_t)(ns / 1000000000), (long)(ns % 1000000000) }, NULL);
}

/* Until the word has the value or more, with pto_pause() or without. */
static inline void wait_until(const uint32_t *word, uint32_t value, bool is_polite)
{
    uint64_t begin = now_ns();

    for (uint32_t i = 1; __atomic_load_n(word, __ATOMIC_ACQUIRE) < value; i++) {
        if (is_polite)
            pto_pause();
        if (i % 1024 == 0 && now_ns() - begin > WAIT_SECONDS * 1000 * MS) {
            note_unexpected("what a kernel waited for has come");
            return;
        }
    }
}

/* Adds one to the word and waits for the others. */
static inline void meet(uint32_t *word, uint32_t count, bool is_polite)
{
    __atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
    wait_until(word, count, is_polite);
}

static inline uint32_t load(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline uint32_t bump(uint32_t *word)
{
    return __atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
}

static inline void raise_to(uint32_t *word, uint32_t value)
{
    uint32_t old = __atomic_load_n(word, __ATOMIC_RELAXED);

    while (old < value && !__atomic_compare_exchange_n(word, &old, value, false, __ATOMIC_RELAXED,
                                                       __ATOMIC_RELAXED))
        ;
}

/* ---- settings ---- */

struct setting {
    const char *platform;
    uint32_t clusters;
    uint32_t workers;
    enum pto_mode mode;
    struct pto_device *device;
};

typedef void (*setting_fn)(const struct setting *at);

static struct setting setting_now; /* without a device: outside of each_setting */

static inline struct pto_device *open_device(const char *platform, uint32_t clusters,
                                             uint32_t workers)
{
    struct pto_device_params params;
    struct pto_device *device = NULL;

    pto_device_params_init(&params);
    params.platform = platform;
    params.clusters = clusters;
    params.workers = workers;
    assert_int_equal(pto_device_open(&params, &device), PTO_OK);
    return device;
}

/* Sanitizers are slow, and look for what chips share: each number of workers is for one chip there. */
static inline bool is_left_out(uint32_t platform, uint32_t workers)
{
    return IS_SANITIZED && (platform % 2 == 1) != (workers == 2);
}

/* Every platform that can be opened, 1, 2 and 4 workers, both modes or one of them. */
static inline void each_setting_of(uint32_t clusters, enum pto_mode first, enum pto_mode last,
                                   setting_fn body)
{
    for (uint32_t p = 0; pto_platform_at(p) != NULL; p++)
        for (uint32_t workers = 1; pto_platform_at(p)->missing == NULL && workers <= 4;
             workers *= 2) {
            const char *platform = pto_platform_at(p)->name;
            uint32_t actual = clusters != 0 ? clusters : pto_platform_at(p)->clusters;
            struct pto_device *device;

            if (is_left_out(p, workers))
                continue;
            device = open_device(platform, clusters, workers);
            for (int mode = (int)first; mode <= (int)last; mode++) {
                setting_now =
                    (struct setting){ platform, actual, workers, (enum pto_mode)mode, device };
                body(&setting_now);
                assert_nothing_unexpected();
            }
            setting_now.device = NULL;
            assert_int_equal(pto_device_close(device), PTO_OK);
        }
}

static inline void each_setting(uint32_t clusters, setting_fn body)
{
    each_setting_of(clusters, PTO_MODE_STREAM, PTO_MODE_HOST, body);
}

static inline void each_stream_setting(uint32_t clusters, setting_fn body)
{
    each_setting_of(clusters, PTO_MODE_STREAM, PTO_MODE_STREAM, body);
}

/* After a test: which setting failed. */
static inline int tell_setting(void **state)
{
    (void)state;
    if (setting_now.device != NULL)
        print_message("             on %s, %u clusters, %u workers, %s mode\n",
                      setting_now.platform, setting_now.clusters, setting_now.workers,
                      setting_now.mode == PTO_MODE_HOST ? "host" : "stream");
    setting_now.device = NULL;
    unexpected = NULL;
    return 0;
}

#define TEST(name) cmocka_unit_test_teardown(name, tell_setting)

/* ---- runs ---- */

static struct pto_run_report report; /* of the last run */

static inline struct pto_callable *make_callable(const struct pto_kernel *kernels, uint32_t count,
                                                 pto_orch_fn orchestration)
{
    struct pto_callable_params params;
    struct pto_callable *callable = NULL;

    pto_callable_params_init(&params);
    params.name = "test";
    params.orchestration = orchestration;
    params.kernels = kernels;
    params.kernel_count = count;
    assert_int_equal(pto_callable_create(&params, &callable), PTO_OK);
    return callable;
}

/* `options` may be NULL; the mode is the setting's. */
static inline int run_with(const struct setting *at, const struct pto_kernel *kernels,
                           uint32_t count, pto_orch_fn orchestration,
                           const struct pto_run_options *options)
{
    struct pto_callable *callable = make_callable(kernels, count, orchestration);
    struct pto_run_options own;
    int status;

    if (options != NULL)
        own = *options;
    else
        pto_run_options_init(&own);
    own.mode = at->mode;
    pto_run_report_init(&report);
    status = pto_run(at->device, callable, NULL, &own, &report);
    assert_int_equal(pto_callable_destroy(callable), PTO_OK);
    return status;
}

/* The run ended with this status and a sentence with these words in it. */
static inline void assert_refused(int status, int expected, const char *words)
{
    if (status != expected || strstr(report.error.text, words) == NULL)
        fail_msg("status %d and \"%s\", expected %d and \"%s\"", status, report.error.text,
                 expected, words);
    assert_int_equal(report.error.status, expected);
}

#endif
