/* SPDX-License-Identifier: Apache-2.0 */
/* Those of an orchestration in tests/card/caches.c, in place of the library's header. */
#ifndef PTO_API_CACHE_LINES_H
#define PTO_API_CACHE_LINES_H

#include <stdint.h>

void aicpu_fetch(const void *at, uint64_t bytes);
void aicpu_publish(const void *at, uint64_t bytes);

static inline void pto_lines_fetch(const void *at, uint64_t bytes)
{
    aicpu_fetch(at, bytes);
}

static inline void pto_lines_publish(const void *at, uint64_t bytes)
{
    aicpu_publish(at, bytes);
}

#endif
