/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory. On a simulated chip it is host memory, too. Every allocation
 * has guards of 1024 bytes before and behind it that are looked at when it is
 * freed or checked.
 */
#ifndef PTO_API_MEMORY_H
#define PTO_API_MEMORY_H

#include "pto/device.h"
#include "pto/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

int pto_mem_alloc(struct pto_device *device, uint64_t bytes, uint64_t *addr_out);
/*
 * PTO_EMEMORY: freed twice, inside an allocation, not of this device, or written
 * outside of it (then it is freed all the same). `error` may be NULL.
 */
int pto_mem_free(struct pto_device *device, uint64_t addr, struct pto_error *error);
/* Both ends inside one allocation, or PTO_EMEMORY. */
int pto_mem_write(struct pto_device *device, uint64_t addr, const void *from, uint64_t bytes);
int pto_mem_read(struct pto_device *device, uint64_t addr, void *to, uint64_t bytes);
/* Looks at every guard. */
int pto_mem_check(struct pto_device *device, struct pto_error *error);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
