/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory. On a simulated chip it is host memory as well. Each allocation lies between two
 * guards of 1024 bytes, which are checked when it is freed, or on request.
 */
#ifndef PTO_API_MEMORY_H
#define PTO_API_MEMORY_H

#include "pto/device.h"
#include "pto/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* Allocates device memory; *addr_out becomes its address on the device. */
int pto_mem_alloc(struct pto_device *device, uint64_t bytes, uint64_t *addr_out);

/*
 * Frees an allocation. PTO_EMEMORY: the address was freed before, lies inside an allocation, or is
 * not of this device; or something wrote outside the allocation, which is freed nevertheless.
 * `error`, which may be NULL, names the case.
 */
int pto_mem_free(struct pto_device *device, uint64_t addr, struct pto_error *error);

/*
 * Copies to one allocation of device memory. PTO_EMEMORY: no allocation contains all of the bytes.
 */
int pto_mem_write(struct pto_device *device, uint64_t addr, const void *from, uint64_t bytes);

/*
 * Copies from one allocation of device memory. PTO_EMEMORY: no allocation contains all of the
 * bytes.
 */
int pto_mem_read(struct pto_device *device, uint64_t addr, void *to, uint64_t bytes);

/*
 * Fills in `error` for the last failed call of pto_mem_alloc, pto_mem_write or pto_mem_read, if the
 * device knows more than the status: for a card, the driver call and its code. Returns the status
 * of the error; PTO_OK: nothing more is known, and `error` is unchanged.
 */
int pto_mem_explain(struct pto_device *device, struct pto_error *error);

/*
 * Checks the guards of all allocations. PTO_EMEMORY: a guard was overwritten. `error` may be NULL.
 */
int pto_mem_check(struct pto_device *device, struct pto_error *error);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
