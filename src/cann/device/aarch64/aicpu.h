/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the scheduler and the dispatcher need of the control processor (aarch64) itself: registers
 * of cores, and caches that are not coherent with those of the cores. Never run on hardware.
 */
#ifndef PTO_AICPU_H
#define PTO_AICPU_H

#include <stdint.h>

#include "cann/device/counter.h"

#ifndef __aarch64__
#error "this port is for aarch64; others bring an aicpu.h of their own"
#endif

enum { AICPU_LINE = 64, AICPU_SLOWNESS = 1 /* times that cores get more time to come */ };

/* Where the vendor's process looks for programs, by what runs on cards; without a slash at the end. */
#define AICPU_FOLDER "/usr/lib64/aicpu_kernels/0/aicpu_kernels_device"

/* Registers of a core, in its window: device memory, whose accesses stay in order among themselves. */
static inline uint32_t aicpu_register(uint64_t addr)
{
    return *(volatile uint32_t *)(uintptr_t)addr;
}

/* A register had the value that was waited for: what it stands for is read after it. */
static inline void aicpu_seen(void)
{
    __asm__ volatile("dsb ld" ::: "memory");
}

static inline void aicpu_set_register(uint64_t addr, uint32_t value)
{
    __asm__ volatile("dsb sy" ::: "memory"); /* what it stands for is in memory */
    *(volatile uint32_t *)(uintptr_t)addr = value;
}

/* What others wrote there is to be read from memory. */
static inline void aicpu_fetch(const void *at, uint64_t bytes)
{
    uint64_t line = (uint64_t)(uintptr_t)at & ~(uint64_t)(AICPU_LINE - 1);
    uint64_t end = (uint64_t)(uintptr_t)at + bytes;

    for (; line < end; line += AICPU_LINE)
        __asm__ volatile("dc civac, %0" ::"r"(line) : "memory");
    __asm__ volatile("dsb sy\n\tisb" ::: "memory");
}

/* What was written there is on its way to memory, and there before the next register is set. */
static inline void aicpu_send(const void *at, uint64_t bytes)
{
    uint64_t line = (uint64_t)(uintptr_t)at & ~(uint64_t)(AICPU_LINE - 1);
    uint64_t end = (uint64_t)(uintptr_t)at + bytes;

    for (; line < end; line += AICPU_LINE)
        __asm__ volatile("dc cvac, %0" ::"r"(line) : "memory");
}

/* What was written there is in memory, for others. */
static inline void aicpu_publish(const void *at, uint64_t bytes)
{
    aicpu_send(at, bytes);
    __asm__ volatile("dsb sy" ::: "memory");
}

/* There is nothing to do at the moment, as often in a row. */
static inline void aicpu_idle(uint32_t times)
{
    (void)times;
    __asm__ volatile("yield" ::: "memory");
}

/* By the counter that all processors share: no call of the system's. */
static inline uint64_t aicpu_now_ns(void)
{
    uint64_t ticks, rate;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(rate));
    return counter_ns(ticks, rate);
}

#endif
