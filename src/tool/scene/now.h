/* SPDX-License-Identifier: Apache-2.0 */
/* The monotonic clock. */
#ifndef PTO_NOW_H
#define PTO_NOW_H

#include <stdint.h>
#include <time.h>

static inline uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static inline double now_seconds(void)
{
    return (double)now_ns() / 1e9;
}

#endif
