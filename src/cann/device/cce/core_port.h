/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The executor's port to a real core: the vendor's intrinsics. Never compiled by the vendor's
 * compiler, and never run on a core. The stand-in's compiler has the same intrinsics, except the
 * doorbell, and additional hooks.
 */
#ifndef PTO_CORE_PORT_H
#define PTO_CORE_PORT_H

#include <stdint.h>

#include "pto/cache_lines.h"

#define CORE_SHARED PTO_GM
#define CORE_FUNCTION PTO_AICORE
#define CORE_ENTRY extern "C" __global__ PTO_AICORE

/*
 * Index in the launch of the block that this core belongs to, and of this core among the block's
 * vector cores.
 */
#define core_block() ((uint32_t)get_block_idx())
#define core_sub_block() ((uint32_t)get_subblockid())
/* The core's physical number, by which the scheduler finds its register window. */
#define core_number() ((uint32_t)get_coreid())

#ifndef core_bell
static inline CORE_FUNCTION uint32_t core_bell(void)
{
    uint32_t value;

    __asm__ volatile("MOV %0, DATA_MAIN_BASE\n" : "=l"(value));
    return value;
}
#endif

/* The address where ffts_cross_core_sync signals other cores; the newer generation has none. */
#ifdef PTO_CHIP_A2A3
#define core_set_sync(at) set_ffts_base_addr(at)
#else
#define core_set_sync(at) ((void)(at))
#endif

/*
 * The newer generation's vector cores run kernels with threads (SIMT) only if the launched program
 * is marked for that, and the compiler marks an entry by its contents. The executor's entry has no
 * threads itself, because kernels are loaded later. So it contains a launch of threads and one of
 * vectors that are never taken; with threads alone, kernels without threads could not run. `static`
 * keeps the function with threads from becoming another entry, which the vendor's runtime refuses.
 */
#if defined(PTO_CHIP_A5) && defined(__DAV_VEC__)
static __simt_vf__ LAUNCH_BOUND(1024) CORE_FUNCTION
    void core_anchor_threads(CORE_SHARED uint32_t *at)
{
    at[threadIdx.x] += 1;
}

__simd_vf__ CORE_FUNCTION void core_anchor_vectors(__ubuf__ uint32_t *at)
{
    at[0] += 1;
}

/* Always inlined: the compiler marks an entry by its own code, not by functions that it calls. */
__attribute__((always_inline)) inline CORE_FUNCTION void core_anchor(CORE_SHARED uint32_t *at)
{
    cce::async_invoke<core_anchor_threads>(cce::dim3{ 1, 1, 1 }, at);
    core_anchor_vectors((__ubuf__ uint32_t *)0);
}
#else
#define core_anchor(at) ((void)(at))
#endif

#define core_set_cond(value) set_cond(value)
#define core_fetch_line(at) pto_lines_fetch(at, 1)
#define core_publish_line(at) pto_lines_publish(at, 1)
#define core_fetch_all() pto_cache_fetch()
#define core_publish_all() pto_cache_publish()

/*
 * Hooks that other ports may define: to check a kernel's code before a core calls it, and to let
 * another core use the CPU while this one has no work.
 */
#ifndef core_before_call
#define core_before_call(at) ((void)(at))
#endif
#ifndef core_idle
#define core_idle(times) ((void)(times))
#endif

#endif
