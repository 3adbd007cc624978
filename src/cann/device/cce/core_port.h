/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the executor needs of a core: for the vendor's compiler, by its intrinsics. Never compiled
 * by it, and never run. In the intersection of C and C++17.
 */
#ifndef PTO_CORE_PORT_H
#define PTO_CORE_PORT_H

#include <stdint.h>

#define CORE_SHARED __gm__
#define CORE_FUNCTION __aicore__
#define CORE_ENTRY extern "C" __global__ __aicore__

/* Which core of the launch: its block, and of the vector cores of a block which one. */
#define core_block() ((uint32_t)get_block_idx())
#define core_sub_block() ((uint32_t)get_subblockid())
/* By nature: which register window it has. */
#define core_number() ((uint32_t)get_coreid())

static inline CORE_FUNCTION uint32_t core_bell(void)
{
    uint32_t value;

    __asm__ volatile("MOV %0, DATA_MAIN_BASE\n" : "=l"(value));
    return value;
}

#define core_set_cond(value) set_cond(value)
/* One line is read anew, or written back; the same for all lines of the core. */
#define core_fetch_line(at) dcci((__gm__ void *)(at), SINGLE_CACHE_LINE)
#define core_publish_line(at) dcci((__gm__ void *)(at), SINGLE_CACHE_LINE, CACHELINE_OUT)
#define core_fetch_all() dcci((__gm__ void *)0, ENTIRE_DATA_CACHE)
#define core_publish_all()                                        \
    do {                                                          \
        dcci((__gm__ void *)0, ENTIRE_DATA_CACHE, CACHELINE_OUT); \
        dsb((mem_dsb_t)0);                                        \
    } while (0)
/* It is about to call code there: for ports that want to look at it. */
#define core_before_call(at) ((void)(at))
#define core_idle(times) ((void)(times))

#endif
