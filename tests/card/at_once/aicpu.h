/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control processor's port for cores that answer at once: tests/card/at_once.c. On aarch64 it
 * is that of the card, except that the answer register is 4 bytes after the bell; elsewhere it is
 * the same without caches.
 */
#ifndef PTO_COUNT_AICPU_H
#define PTO_COUNT_AICPU_H

#include "wire/board.h"

enum { COUNT_BELL = 0, COUNT_COND = 4 };

#ifdef __aarch64__
#define aicpu_set_register aicpu_set_only
#include "cann/device/aarch64/aicpu.h"
#undef aicpu_set_register
#else
#include <time.h>

enum { AICPU_SLOWNESS = 1, AICPU_LINE = 64 };

#define AICPU_FOLDER "/nowhere" /* files of programs are in a separate folder */

static inline uint32_t aicpu_register(uint64_t addr)
{
    return *(volatile uint32_t *)(uintptr_t)addr;
}

static inline void aicpu_seen(void)
{
}

static inline void aicpu_set_only(uint64_t addr, uint32_t value)
{
    *(volatile uint32_t *)(uintptr_t)addr = value;
}

/* Wraps the functions of the other port and counts their calls. */
static inline void aicpu_send(const void *at, uint64_t bytes)
{
    uint64_t line = (uint64_t)(uintptr_t)at & ~(uint64_t)(AICPU_LINE - 1);
    uint64_t end = (uint64_t)(uintptr_t)at + bytes;

    for (; line < end; line += AICPU_LINE)
        __asm__ volatile("" ::"r"(line) : "memory");
}

static inline void aicpu_publish(const void *at, uint64_t bytes)
{
    aicpu_send(at, bytes);
}

static inline void aicpu_fetch(const void *at, uint64_t bytes)
{
    aicpu_send(at, bytes);
}

static inline void aicpu_idle(uint32_t times)
{
    (void)times;
}

static inline uint64_t aicpu_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}
#endif

static inline void aicpu_set_register(uint64_t addr, uint32_t value)
{
    uint32_t answer = value == BOARD_BELL_OPEN   ? BOARD_COND_IDLE
                      : value == BOARD_BELL_EXIT ? BOARD_COND_EXIT
                                                 : value;

    aicpu_set_only(addr, value);
    *(volatile uint32_t *)(uintptr_t)(addr + COUNT_COND) = BOARD_COND_FIN | answer;
}

#endif
