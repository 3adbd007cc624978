/* SPDX-License-Identifier: Apache-2.0 */
/* The guard pattern before and after each allocation of a chip. */
#ifndef PTO_MEMORY_GUARD_H
#define PTO_MEMORY_GUARD_H

#include <string.h>

#include "base/error.h"

enum { MEMORY_GUARD_BYTES = 1024 };

static inline void memory_guard_fill(void *guard)
{
    memset(guard, 0xa5, MEMORY_GUARD_BYTES);
}

static inline bool memory_guard_is_intact(const void *guard)
{
    const uint8_t *byte = guard;

    return byte[0] == 0xa5 && memcmp(byte, byte + 1, MEMORY_GUARD_BYTES - 1) == 0;
}

/* Returns PTO_EMEMORY if a guard was overwritten, with a message that names the damaged side. */
static inline int memory_guard_check(uint64_t addr, uint64_t bytes, const void *before,
                                     const void *after, struct pto_error *error)
{
    const char *where = !memory_guard_is_intact(after)    ? "beyond its end"
                        : !memory_guard_is_intact(before) ? "before its beginning"
                                                          : NULL;

    if (where == NULL)
        return PTO_OK;
    return error_setf(error, PTO_EMEMORY, "memory at %#llx was written %s: it has %llu bytes",
                      (unsigned long long)addr, where, (unsigned long long)bytes);
}

#endif
