/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cache maintenance for code on a real chip. The data cache of a core (PTO_ON_CORE) and that of the
 * control processor, which runs orchestrations (PTO_ON_CARD), are not coherent with any other
 * cache: data that another processor wrote must be fetched before it is read, and data that another
 * processor will read must be published. Elsewhere caches are coherent, and these functions do
 * nothing.
 */
#ifndef PTO_API_CACHE_LINES_H
#define PTO_API_CACHE_LINES_H

#include <stdint.h>

#include "pto/aicore.h"

enum { PTO_LINE = 64 };

/*
 * Rounds a number of bytes up to whole cache lines, so that data placed after them shares no line
 * with them.
 */
#define PTO_WHOLE_LINES(bytes) (((uint64_t)(bytes) + PTO_LINE - 1) / PTO_LINE * PTO_LINE)

#ifdef PTO_ON_CORE
/* Writes back and invalidates the lines of a range, so that the next load reads memory. */
static inline PTO_AICORE void pto_lines_fetch(PTO_GM const void *at, uint64_t bytes)
{
    uint64_t line = (uint64_t)at & ~(uint64_t)(PTO_LINE - 1), end = (uint64_t)at + bytes;

    for (; line < end; line += PTO_LINE)
        dcci((PTO_GM void *)line, SINGLE_CACHE_LINE);
}

/* Writes the lines of a range to memory; the data is in memory on return. */
static inline PTO_AICORE void pto_lines_publish(PTO_GM const void *at, uint64_t bytes)
{
    uint64_t line = (uint64_t)at & ~(uint64_t)(PTO_LINE - 1), end = (uint64_t)at + bytes;

    for (; line < end; line += PTO_LINE)
        dcci((PTO_GM void *)line, SINGLE_CACHE_LINE, CACHELINE_OUT);
    dsb((mem_dsb_t)0);
}

/* pto_lines_fetch for all lines in the core's cache. */
static inline PTO_AICORE void pto_cache_fetch(void)
{
    dcci((PTO_GM void *)0, ENTIRE_DATA_CACHE);
}

/* pto_lines_publish for all lines in the core's cache. */
static inline PTO_AICORE void pto_cache_publish(void)
{
    dcci((PTO_GM void *)0, ENTIRE_DATA_CACHE, CACHELINE_OUT);
    dsb((mem_dsb_t)0);
}
#else
/* Writes back and invalidates the lines of a range, so that the next load reads memory. */
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

/* Writes the lines of a range to memory; the data is in memory on return. */
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

#ifndef PTO_ON_CARD /* on the control processor there are no functions for the whole cache */
/* pto_lines_fetch for all lines in the core's cache. */
static inline void pto_cache_fetch(void)
{
}

/* pto_lines_publish for all lines in the core's cache. */
static inline void pto_cache_publish(void)
{
}
#endif

#endif

#endif
