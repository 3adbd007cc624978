// SPDX-License-Identifier: Apache-2.0
// Figures that differ between generations, for kernels that measure time or count cores.
#ifndef PTO_SIMPLER_PLATFORM_CONFIG_H
#define PTO_SIMPLER_PLATFORM_CONFIG_H

#include <cstdint>

#ifdef PTO_FOR_A5
constexpr int PLATFORM_MAX_BLOCKDIM = 36;
constexpr int PLATFORM_MAX_AICPU_THREADS = 5;
constexpr uint64_t PLATFORM_PROF_SYS_CNT_FREQ = 1000000000;
#else
constexpr int PLATFORM_MAX_BLOCKDIM = 24;
constexpr int PLATFORM_MAX_AICPU_THREADS = 4;
constexpr uint64_t PLATFORM_PROF_SYS_CNT_FREQ = 50000000;
#endif
constexpr int PLATFORM_DEFAULT_AICPU_THREAD_NUM = PLATFORM_MAX_AICPU_THREADS;
constexpr int PLATFORM_AIC_CORES_PER_BLOCKDIM = 1;
constexpr int PLATFORM_AIV_CORES_PER_BLOCKDIM = 2;
constexpr int PLATFORM_CORES_PER_BLOCKDIM = 3;
constexpr int PLATFORM_MAX_CORES = PLATFORM_MAX_BLOCKDIM * PLATFORM_CORES_PER_BLOCKDIM;

inline double cycles_to_us(uint64_t cycles)
{
    return static_cast<double>(cycles) * 1e6 / PLATFORM_PROF_SYS_CNT_FREQ;
}

#endif
