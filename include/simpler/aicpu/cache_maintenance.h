// SPDX-License-Identifier: Apache-2.0
/*
 * Cache maintenance for orchestrations that share memory with kernels outside of tensors. Where
 * caches are coherent, these functions are only memory fences.
 */
#ifndef PTO_SIMPLER_CACHE_MAINTENANCE_H
#define PTO_SIMPLER_CACHE_MAINTENANCE_H

#include <cstddef>

#include "pto/region.h"

// Makes earlier writes of other processors to the range visible to later reads.
inline void cache_invalidate_range(const void *at, size_t bytes)
{
    pto_lines_fetch(at, bytes);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

// Makes writes to the range visible to a processor that sees a later write of the caller.
inline void cache_flush_range(const void *at, size_t bytes)
{
    __atomic_thread_fence(__ATOMIC_RELEASE);
    pto_lines_publish(at, bytes);
}

#endif
