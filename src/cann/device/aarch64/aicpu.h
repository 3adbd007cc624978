/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hardware access of the scheduler and the dispatcher on the control processor (aarch64): registers
 * of cores, and caches that are not coherent with those of the cores. Never run on hardware.
 */
#ifndef PTO_AICPU_H
#define PTO_AICPU_H

#include <stdint.h>

#include "cann/device/counter.h"

#ifndef __aarch64__
#error "this port is for aarch64; others bring an aicpu.h of their own"
#endif

/* AICPU_SLOWNESS: factor on the times within which the cores must start and end */
enum { AICPU_LINE = 64, AICPU_SLOWNESS = 1 };

/* Folder in which the vendor's process on the card looks for programs; without a final slash. */
#define AICPU_FOLDER "/usr/lib64/aicpu_kernels/0/aicpu_kernels_device"

/*
 * Reads a register of a core, in the core's window. Windows are device memory, whose accesses stay
 * in order among themselves.
 */
static inline uint32_t aicpu_register(uint64_t addr)
{
    return *(volatile uint32_t *)(uintptr_t)addr;
}

/*
 * Called after a register had the awaited value. Later loads from memory are not executed before
 * the read of that register.
 */
static inline void aicpu_seen(void)
{
    __asm__ volatile("dsb ld" ::: "memory");
}

static inline void aicpu_set_register(uint64_t addr, uint32_t value)
{
    /* makes data that the register announces reach memory before the register is set */
    __asm__ volatile("dsb sy" ::: "memory");
    *(volatile uint32_t *)(uintptr_t)addr = value;
}

/*
 * Drops these bytes from the cache, so that the next reads get from memory what other processors
 * wrote.
 */
static inline void aicpu_fetch(const void *at, uint64_t bytes)
{
    uint64_t line = (uint64_t)(uintptr_t)at & ~(uint64_t)(AICPU_LINE - 1);
    uint64_t end = (uint64_t)(uintptr_t)at + bytes;

    for (; line < end; line += AICPU_LINE)
        __asm__ volatile("dc civac, %0" ::"r"(line) : "memory");
    __asm__ volatile("dsb sy\n\tisb" ::: "memory");
}

/*
 * Starts writing these bytes from the cache to memory; they arrive before the next register is set.
 */
static inline void aicpu_send(const void *at, uint64_t bytes)
{
    uint64_t line = (uint64_t)(uintptr_t)at & ~(uint64_t)(AICPU_LINE - 1);
    uint64_t end = (uint64_t)(uintptr_t)at + bytes;

    for (; line < end; line += AICPU_LINE)
        __asm__ volatile("dc cvac, %0" ::"r"(line) : "memory");
}

/*
 * Writes these bytes from the cache to memory, and waits until other processors can read them
 * there.
 */
static inline void aicpu_publish(const void *at, uint64_t bytes)
{
    aicpu_send(at, bytes);
    __asm__ volatile("dsb sy" ::: "memory");
}

/* Called when there is no work; `times` is the number of such calls in a row. */
static inline void aicpu_idle(uint32_t times)
{
    (void)times;
    __asm__ volatile("yield" ::: "memory");
}

/*
 * Returns the time, from the counter that all processors of the card share, without a system call.
 */
static inline uint64_t aicpu_now_ns(void)
{
    uint64_t ticks, rate;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(rate));
    return counter_ns(ticks, rate);
}

#endif
