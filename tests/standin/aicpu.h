/* SPDX-License-Identifier: Apache-2.0 */
/* The control processor's port for the stand-in: a thread of this process, whose caches are coherent. */
#ifndef PTO_AICPU_H
#define PTO_AICPU_H

#include <stdint.h>
#include <time.h>

/* long, because these are threads on a machine that others use as well */
enum { AICPU_SLOWNESS = 10 };

/* Names of the libraries that the stand-in provides for the vendor's. */
uint32_t standin_register(uint64_t addr);
void standin_set_register(uint64_t addr, uint32_t value);
void standin_idle(uint32_t times);
const char *standin_known_folder(void);

#define AICPU_FOLDER standin_known_folder()

static inline uint32_t aicpu_register(uint64_t addr)
{
    return standin_register(addr);
}

/* The caller has read the register with acquire order. */
static inline void aicpu_seen(void)
{
}

static inline void aicpu_set_register(uint64_t addr, uint32_t value)
{
    standin_set_register(addr, value);
}

static inline void aicpu_fetch(const void *at, uint64_t bytes)
{
    (void)at;
    (void)bytes;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

static inline void aicpu_send(const void *at, uint64_t bytes)
{
    (void)at;
    (void)bytes; /* the next register is stored with release order */
}

static inline void aicpu_publish(const void *at, uint64_t bytes)
{
    (void)at;
    (void)bytes;
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void aicpu_idle(uint32_t times)
{
    standin_idle(times);
}

static inline uint64_t aicpu_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

#endif
