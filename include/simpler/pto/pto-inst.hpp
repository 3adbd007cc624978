// SPDX-License-Identifier: Apache-2.0
//
// Replaces the tile library's first header of this name, which it includes.
//
// Generated kernels define names of their chip's compiler that older libraries lacked in
// simulation: a namespace cache_line_t, and dcci() and dsb(). Newer libraries define them as well,
// and the two clash. So the library's definitions are renamed here, and serve kernels without such
// definitions: through a namespace that is searched last, or as a template, which is the worse
// match.
#ifndef PTO_SIMPLER_PTO_INST_HPP
#define PTO_SIMPLER_PTO_INST_HPP

#if defined(__CPU_SIM) && !defined(PTO_CPUSTUB_HPP) // the library's, that has those names

// For libraries that use these names, but define them only where they are no macros. Kernels of a
// simulated chip share one coherent memory: there is nothing to flush, only an order to keep.
template <typename... Operands> inline void pto_tile_dcci(Operands...)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

template <typename Kind> inline void pto_tile_dsb(Kind)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

#define cache_line_t pto_tile_cache_line_t
#define dcci pto_tile_dcci
#define dsb pto_tile_dsb
#include_next <pto/pto-inst.hpp>
#undef cache_line_t
#undef dcci
#undef dsb

#include <chrono>
#include <cstdint>

#include "common/platform_config.h"

namespace pto_simpler_fallback
{

template <typename... Operands> inline void dcci(Operands...)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

template <typename Kind> inline void dsb(Kind)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

// The chip's clock, which the library does not have.
template <typename Count = int64_t> inline Count get_sys_cnt()
{
    using ticks = std::chrono::duration<Count, std::ratio<1, PLATFORM_PROF_SYS_CNT_FREQ>>;

    return std::chrono::duration_cast<ticks>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

namespace lines
{
#ifndef SINGLE_CACHE_LINE // a macro of an older library
constexpr int SINGLE_CACHE_LINE = 0;
constexpr int ENTIRE_DATA_CACHE = 0;
constexpr int CACHELINE_OUT = 0;
#endif
} // namespace lines

} // namespace pto_simpler_fallback

using namespace pto_simpler_fallback;

namespace cache_line_t
{
using namespace pto_simpler_fallback::lines;
}

#else

#include_next <pto/pto-inst.hpp>

#endif

#endif
