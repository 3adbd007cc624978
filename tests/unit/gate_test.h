/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of kernels and orchestrations that do not come back share: a gate at
 * which they stand until the test opens it, and time.
 *
 * Include it last: cmocka comes with it, whose macro fail() would rewrite a member of that
 * name in pto.h.
 */
#ifndef PTO_GATE_TEST_H
#define PTO_GATE_TEST_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pto/pto.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
enum { HAS_HANDLER = 0 };
/* What is left behind of a lost device, and what an orchestration had allocated, stays, on purpose. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
#else
enum { HAS_HANDLER = 1 };
#endif

#define MS 1000000ull

static uint32_t is_gate_open, standing;

static inline uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 * MS + (uint64_t)now.tv_nsec;
}

static inline void rest(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
}

static inline void pass_time(uint64_t ns)
{
    uint64_t end = now_ns() + ns;

    while (now_ns() < end)
        rest();
}

static inline uint32_t load(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void store(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline void assert_in(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", part, text);
}

#endif
