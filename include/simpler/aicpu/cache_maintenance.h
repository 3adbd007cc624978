// SPDX-License-Identifier: Apache-2.0
//
// For orchestrations that share memory with kernels outside of tensors. Where caches are
// coherent, only the order counts.
#ifndef PTO_SIMPLER_CACHE_MAINTENANCE_H
#define PTO_SIMPLER_CACHE_MAINTENANCE_H

#include <cstddef>

#include "pto/region.h"

// What others wrote there before is seen by later reads.
inline void cache_invalidate_range(const void *at, size_t bytes)
{
    pto_lines_fetch(at, bytes);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

// What was written there is seen by whoever sees a later write.
inline void cache_flush_range(const void *at, size_t bytes)
{
    __atomic_thread_fence(__ATOMIC_RELEASE);
    pto_lines_publish(at, bytes);
}

#endif
