/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache lines of an orchestration's processor. On a card (PTO_ON_CARD) nobody else sees what is in them, and they do
 * not see what others write: what somebody else has written is fetched before it is read, and what others are to
 * read is published. Elsewhere caches are coherent, and there is nothing to do.
 */
#ifndef PTO_API_CACHE_LINES_H
#define PTO_API_CACHE_LINES_H

#include <stdint.h>

enum { PTO_LINE = 64 };

/* A line that is fetched is written back first, if it was changed: host and chip share none. */
static inline void pto_lines_fetch(const void *at, uint64_t bytes)
{
#if defined(PTO_ON_CARD) && defined(__aarch64__)
    uint64_t line = (uint64_t)(uintptr_t)at & ~(uint64_t)(PTO_LINE - 1);

    for (; line < (uint64_t)(uintptr_t)at + bytes; line += PTO_LINE)
        __asm__ volatile("dc civac, %0" ::"r"(line) : "memory");
    __asm__ volatile("dsb sy\n\tisb" ::: "memory");
#else
    (void)at;
    (void)bytes;
#endif
}

/* What was written there is in memory when it returns. */
static inline void pto_lines_publish(const void *at, uint64_t bytes)
{
#if defined(PTO_ON_CARD) && defined(__aarch64__)
    uint64_t line = (uint64_t)(uintptr_t)at & ~(uint64_t)(PTO_LINE - 1);

    for (; line < (uint64_t)(uintptr_t)at + bytes; line += PTO_LINE)
        __asm__ volatile("dc cvac, %0" ::"r"(line) : "memory");
    __asm__ volatile("dsb sy" ::: "memory");
#else
    (void)at;
    (void)bytes;
#endif
}

#endif
